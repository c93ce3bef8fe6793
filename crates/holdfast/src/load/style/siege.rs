//! siege's report. Its concurrency is the mean number of requests under way.

use super::super::data::Results;
use std::fmt::Write as _;

pub(super) fn render(results: &Results<'_>) -> String {
    let summary = results.summary;
    let whole = summary.record.whole();
    let seconds = summary.elapsed.as_secs_f64().max(f64::MIN_POSITIVE);
    let megabytes = whole.bytes_body as f64 / (1024.0 * 1024.0);
    let failed = whole.failed() + whole.with_status(400..=999);
    let served = whole.responses - whole.with_status(400..=999);
    let all = (served + failed).max(1);
    let mean_s = whole.latency.mean_ns() / 1e9;
    let mut text = String::new();
    let mut line = |name: &str, value: String, unit: &str| {
        let _ = writeln!(text, "{:<24}{value:>13} {unit}", format!("{name}:"));
    };
    line("Transactions", whole.responses.to_string(), "hits");
    line("Availability", format!("{:.2}", served as f64 / all as f64 * 100.0), "%");
    line("Elapsed time", format!("{seconds:.2}"), "secs");
    line("Data transferred", format!("{megabytes:.2}"), "MB");
    line("Response time", format!("{mean_s:.2}"), "secs");
    line("Transaction rate", format!("{:.2}", summary.rate()), "trans/sec");
    line("Throughput", format!("{:.2}", megabytes / seconds), "MB/sec");
    line("Concurrency", format!("{:.2}", whole.responses as f64 * mean_s / seconds), "");
    line("Successful transactions", served.to_string(), "");
    line("Failed transactions", failed.to_string(), "");
    line("Longest transaction", format!("{:.2}", whole.latency.max_ns() as f64 / 1e9), "");
    line("Shortest transaction", format!("{:.2}", whole.latency.min_ns() as f64 / 1e9), "");
    text
}
