//! k6's end-of-test summary in the compact layout of its documentation (k6 1.x), with the figures that exist here.

use crate::Latencies;
use crate::results::http::HttpResults;
use crate::results::words::outcome;
use report::Outcome;
use std::fmt::Write as _;

/// Columns of a name with its dots.
const NAME: usize = 35;

/// The values after a name. Each column is as wide as the widest value of its kind in the whole summary.
enum Columns {
    /// Times: avg, min, med, max, p(90), p(95).
    Trend([String; 6]),
    /// A first value and the text after it.
    Plain(Vec<String>),
}

struct Line {
    name: &'static str,
    /// Whether the line is indented below the one before it.
    is_sub: bool,
    values: Columns,
}

pub(crate) fn render(results: &HttpResults<'_>) -> String {
    let sections = [("HTTP", http(results)), ("EXECUTION", execution(results)), ("NETWORK", network(results))];
    let lines = || sections.iter().flat_map(|(_, lines)| lines);
    let mut trends = [0; 6];
    let mut plain = [0; 2];
    for line in lines() {
        let (widths, values) = match &line.values {
            Columns::Trend(values) => (trends.as_mut_slice(), values.as_slice()),
            Columns::Plain(values) => (plain.as_mut_slice(), values.as_slice()),
        };
        for (width, value) in widths.iter_mut().zip(values) {
            *width = value.chars().count().max(*width);
        }
    }
    let mut text = String::new();
    if !results.verdicts.is_empty() {
        text.push_str("\n  █ THRESHOLDS\n\n");
        for verdict in results.verdicts {
            let mark = match outcome(results.health, verdict) {
                Outcome::Holds => '✓',
                Outcome::Fails => '✗',
                _ => '?',
            };
            let _ = writeln!(text, "    {mark} '{}' {}", verdict.expected, verdict.measured);
        }
        text.push('\n');
    }
    text.push_str("\n  █ TOTAL RESULTS\n");
    for (title, lines) in &sections {
        let _ = writeln!(text, "\n    {title}");
        for Line { name, is_sub, values } in lines {
            let (widths, values) = match values {
                Columns::Trend(values) => (trends.as_slice(), values.as_slice()),
                Columns::Plain(values) => (plain.as_slice(), values.as_slice()),
            };
            let (indent, room) = if *is_sub { ("      ", NAME - 2) } else { ("    ", NAME) };
            let mut line = format!("{indent}{name:.<room$}:");
            for (at, value) in values.iter().enumerate() {
                let width = widths.get(at).copied().unwrap_or_default();
                let _ = write!(line, " {value:<width$}");
            }
            let _ = writeln!(text, "{}", line.trim_end());
        }
    }
    text
}

fn line(name: &'static str, values: Columns) -> Line {
    Line { name, is_sub: false, values }
}

fn plain<const N: usize>(values: [String; N]) -> Columns {
    Columns::Plain(values.into())
}

fn http(results: &HttpResults<'_>) -> Vec<Line> {
    let summary = results.summary;
    let whole = summary.record.whole();
    let mut lines = vec![
        line("http_req_connecting", trend(&summary.record.connect)),
        line("http_req_duration", trend(&whole.latency)),
    ];
    if whole.errors() == 0 {
        // If there were failures, the latencies of the expected responses alone are not known.
        lines.push(Line { is_sub: true, ..line("{ expected_response:true }", trend(&whole.latency)) });
    }
    if summary.options.pace.is_open() {
        // k6 has no name for this: the latency without the wait for a connection.
        lines.push(line("http_req_from_sent", trend(&summary.record.service)));
    }
    let share = whole.errors() as f64 / whole.ended().max(1) as f64 * 100.0;
    let failed = [format!("{share:.2}%"), format!("{} out of {}", whole.errors(), whole.ended())];
    lines.push(line("http_req_failed", plain(failed)));
    lines.push(line("http_reqs", count(results, whole.begun)));
    lines
}

fn execution(results: &HttpResults<'_>) -> Vec<Line> {
    let users = results.summary.options.connections;
    let users = || plain([users.to_string(), format!("min={users}"), format!("max={users}")]);
    let iterations = count(results, results.summary.record.whole().responses);
    vec![line("iterations", iterations), line("vus", users()), line("vus_max", users())]
}

fn network(results: &HttpResults<'_>) -> Vec<Line> {
    let whole = results.summary.record.whole();
    let seconds = results.summary.elapsed.as_secs_f64().max(f64::MIN_POSITIVE);
    let data = |count: u64| plain([bytes(count as f64), format!("{}/s", bytes(count as f64 / seconds))]);
    vec![line("data_received", data(whole.bytes_received)), line("data_sent", data(whole.bytes_sent))]
}

fn count(results: &HttpResults<'_>, count: u64) -> Columns {
    let seconds = results.summary.elapsed.as_secs_f64().max(f64::MIN_POSITIVE);
    plain([count.to_string(), format!("{}/s", trimmed(count as f64 / seconds, 6))])
}

fn trend(latencies: &Latencies) -> Columns {
    let at = |quantile: f64| time(latencies.quantile_ns(quantile) as f64);
    Columns::Trend([
        format!("avg={}", time(latencies.mean_ns())),
        format!("min={}", time(latencies.min_ns() as f64)),
        format!("med={}", at(0.5)),
        format!("max={}", time(latencies.max_ns() as f64)),
        format!("p(90)={}", at(0.9)),
        format!("p(95)={}", at(0.95)),
    ])
}

/// At most this many decimals, without trailing zeros.
fn trimmed(value: f64, decimals: usize) -> String {
    let text = format!("{value:.decimals$}");
    if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.').to_owned() } else { text }
}

fn time(ns: f64) -> String {
    match ns {
        _ if ns <= 0.0 => "0s".to_owned(),
        _ if ns < 1e6 => format!("{}µs", trimmed(ns / 1e3, 2)),
        _ if ns < 1e9 => format!("{}ms", trimmed(ns / 1e6, 2)),
        _ if ns < 60e9 => format!("{}s", trimmed(ns / 1e9, 2)),
        _ => format!("{:.0}m{:.0}s", (ns / 60e9).floor(), (ns % 60e9 / 1e9).floor()),
    }
}

/// One decimal below ten of a unit, as in k6.
fn bytes(count: f64) -> String {
    let (value, unit) = match count {
        _ if count < 1e3 => return format!("{count:.0} B"),
        _ if count < 1e6 => (count / 1e3, "kB"),
        _ if count < 1e9 => (count / 1e6, "MB"),
        _ => (count / 1e9, "GB"),
    };
    if value < 10.0 { format!("{value:.1} {unit}") } else { format!("{value:.0} {unit}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_written_as_k6_writes_them() {
        assert_eq!([0.0, 7e3, 1.3e6, 12.914e9, 61e9].map(time), ["0s", "7µs", "1.3ms", "12.91s", "1m1s"]);
        assert_eq!([718.0, 4.92e3, 519.2e3, 1.3e6].map(bytes), ["718 B", "4.9 kB", "519 kB", "1.3 MB"]);
        assert_eq!([trimmed(6.561_09, 6), trimmed(100.0, 6)], ["6.56109", "100"]);
    }
}
