//! siege's report. Its transactions are the responses with a status below 500; those below 400 are successful.
//! Responses from 500 on and requests without a response count as failed. Its concurrency is the mean number of
//! requests in flight, computed from all complete responses.

use crate::results::http::HttpResults;
use std::fmt::Write as _;

/// Columns of a tab, and the column where values begin.
const TAB: usize = 8;
const VALUES_AT: usize = 24;

pub(crate) fn render(results: &HttpResults<'_>) -> String {
    let summary = results.summary;
    let whole = summary.record.whole();
    let seconds = summary.elapsed.as_secs_f64().max(f64::MIN_POSITIVE);
    let megabytes = whole.bytes_body as f64 / (1024.0 * 1024.0);
    let failed = whole.failed() + whole.with_status(500..=999);
    let hits = whole.responses - whole.with_status(500..=999);
    let served = whole.responses - whole.with_status(400..=999);
    let all = (hits + failed).max(1);
    let mean_s = whole.latency.mean_ns() / 1e9;
    let mut text = String::new();
    let mut line = |name: &str, value: String, unit: &str| {
        // siege aligns its values with tabs, at the third tab stop.
        let tabs = "\t".repeat(VALUES_AT.saturating_sub(name.len() + 1).div_ceil(TAB));
        let _ = writeln!(text, "{name}:{tabs}{:>12}{}{unit}", value, if unit.is_empty() { "" } else { " " });
    };
    line("Transactions", hits.to_string(), "hits");
    line("Availability", format!("{:.2}", hits as f64 / all as f64 * 100.0), "%");
    line("Elapsed time", format!("{seconds:.2}"), "secs");
    line("Data transferred", format!("{megabytes:.2}"), "MB");
    line("Response time", format!("{:.2}", if hits > 0 { mean_s } else { 0.0 }), "secs");
    line("Transaction rate", format!("{:.2}", hits as f64 / seconds), "trans/sec");
    line("Throughput", format!("{:.2}", megabytes / seconds), "MB/sec");
    line("Concurrency", format!("{:.2}", whole.responses as f64 * mean_s / seconds), "");
    line("Successful transactions", served.to_string(), "");
    line("Failed transactions", failed.to_string(), "");
    line("Longest transaction", format!("{:.2}", whole.latency.max_ns() as f64 / 1e9), "");
    line("Shortest transaction", format!("{:.2}", whole.latency.min_ns() as f64 / 1e9), "");
    text
}

#[cfg(test)]
mod tests {
    use crate::results::http::Style;
    use crate::results::http::style::tests::with_results;

    #[test]
    fn a_report_has_siege_s_tabs() {
        let said = with_results(|results| Style::Siege.render(results));
        for line in [
            "Transactions:\t\t         200 hits\n",
            "Availability:\t\t       99.50 %\n",
            "Data transferred:\t        0.00 MB\n",
            "Successful transactions:         200\n",
            "Failed transactions:\t           1\n",
            "Shortest transaction:\t        0.00\n",
        ] {
            assert!(said.contains(line), "no {line:?} in {said}");
        }
    }
}
