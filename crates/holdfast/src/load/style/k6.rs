//! k6's end-of-test summary, as far as its figures exist here.

use super::super::data::Results;
use load::Latencies;
use std::fmt::Write as _;

pub(super) fn render(results: &Results<'_>) -> String {
    let summary = results.summary;
    let whole = summary.record.whole();
    let seconds = summary.elapsed.as_secs_f64().max(f64::MIN_POSITIVE);
    let mut text = String::new();
    for verdict in results.verdicts {
        let mark = if verdict.met { '✓' } else { '✗' };
        let _ = writeln!(text, "     {mark} {} ({})", verdict.expected, verdict.measured);
    }
    let mut line = |name: &str, value: String| {
        let _ = writeln!(text, "     {name:.<31}: {value}");
    };
    let rate = |amount: f64| format!("{:.2}/s", amount / seconds);
    let data = |count: u64| format!("{} {}/s", kilobytes(count as f64), kilobytes(count as f64 / seconds));
    line("data_received", data(whole.bytes_received));
    line("data_sent", data(whole.bytes_sent));
    line("http_req_connecting", trend(&summary.record.connect));
    line("http_req_duration", trend(&whole.latency));
    let ended = whole.ended().max(1);
    let share = whole.errors() as f64 / ended as f64 * 100.0;
    line("http_req_failed", format!("{share:.2}% {} out of {}", whole.errors(), whole.ended()));
    if summary.options.pace.is_open() {
        line("http_req_sending_to_end", trend(&summary.record.service));
    }
    line("http_reqs", format!("{} {}", whole.begun, rate(whole.begun as f64)));
    line("iterations", format!("{} {}", whole.responses, rate(whole.responses as f64)));
    line("vus", summary.options.connections.to_string());
    text
}

fn trend(latencies: &Latencies) -> String {
    let at = |quantile: f64| time(latencies.quantile_ns(quantile) as f64);
    format!(
        "avg={:<9} min={:<9} med={:<9} max={:<9} p(90)={:<9} p(95)={}",
        time(latencies.mean_ns()),
        time(latencies.min_ns() as f64),
        at(0.5),
        time(latencies.max_ns() as f64),
        at(0.9),
        at(0.95)
    )
}

fn time(ns: f64) -> String {
    match ns {
        _ if ns < 1e6 => format!("{:.2}µs", ns / 1e3),
        _ if ns < 1e9 => format!("{:.2}ms", ns / 1e6),
        _ => format!("{:.2}s", ns / 1e9),
    }
}

fn kilobytes(count: f64) -> String {
    match count {
        _ if count < 1e6 => format!("{:.1} kB", count / 1e3),
        _ if count < 1e9 => format!("{:.1} MB", count / 1e6),
        _ => format!("{:.1} GB", count / 1e9),
    }
}
