//! wrk's report with `--latency`. The requests per second of a thread are those of an interval, divided by the
//! number of threads.

use crate::results::http::HttpResults;
use crate::{Latencies, Row, SocketErrors};
use std::fmt::Write as _;

pub(crate) fn render(results: &HttpResults<'_>) -> String {
    let summary = results.summary;
    let options = &summary.options;
    let whole = summary.record.whole();
    let url = options.targets.first().map_or_else(String::new, |target| target.url.to_string());
    let seconds = summary.elapsed.as_secs_f64().max(f64::MIN_POSITIVE);
    let mut text = format!(
        "Running {} test @ {url}\n  {} threads and {} connections\n",
        duration(options.duration.map_or(seconds, |duration| duration.as_secs_f64())),
        summary.threads,
        options.connections
    );
    text.push_str("  Thread Stats   Avg      Stdev     Max   +/- Stdev\n");
    let latency = &whole.latency;
    line(
        &mut text,
        "Latency",
        latency.mean_ns() / 1e3,
        latency.deviation_ns() / 1e3,
        latency.max_ns() as f64 / 1e3,
        time,
    );
    fix_share(&mut text, within(latency));
    let rates: Vec<f64> = Row::rates(results.rows).map(|rate| rate / summary.threads.max(1) as f64).collect();
    let (mean, deviation, max, share) = moments(&rates);
    line(&mut text, "Req/Sec", mean, deviation, max, metric);
    fix_share(&mut text, share);
    text.push_str("  Latency Distribution\n");
    for percent in [50.0, 75.0, 90.0, 99.0] {
        let _ = writeln!(text, "{percent:>7}%{}", padded(&time(latency.quantile_ns(percent / 100.0) as f64 / 1e3), 10));
    }
    let received = whole.bytes_received as f64;
    let _ = writeln!(text, "  {} requests in {}, {} read", whole.responses, duration(seconds), binary(received));
    let SocketErrors { connect, read, timeout } = whole.socket_errors();
    if whole.failed() > 0 {
        let _ = writeln!(text, "  Socket errors: connect {connect}, read {read}, write 0, timeout {timeout}");
    }
    let status_errors = whole.with_status(400..=999);
    if status_errors > 0 {
        let _ = writeln!(text, "  Non-2xx or 3xx responses: {status_errors}");
    }
    let _ = writeln!(text, "Requests/sec: {:>9.2}\nTransfer/sec: {:>11}", summary.rate(), binary(received / seconds));
    text
}

fn line(text: &mut String, name: &str, mean: f64, deviation: f64, max: f64, show: fn(f64) -> String) {
    let [mean, deviation, max] =
        [(mean, 8), (deviation, 10), (max, 9)].map(|(value, width)| padded(&show(value), width));
    let _ = write!(text, "    {name:<10}{mean}{deviation}{max}");
}

/// Aligns to the right in this many columns. The last two are for the unit, even if it is shorter.
fn padded(text: &str, width: usize) -> String {
    let letters = text.bytes().rev().take(2).filter(u8::is_ascii_alphabetic).count();
    let room = 2 - letters;
    format!("{text:>0$}{1:2$}", width - room, "", room)
}

fn fix_share(text: &mut String, share: f64) {
    let _ = writeln!(text, "{:>8.2}%", share * 100.0);
}

/// Share of latencies within one standard deviation of the mean.
fn within(latencies: &Latencies) -> f64 {
    let (mean, deviation) = (latencies.mean_ns(), latencies.deviation_ns());
    let below = latencies.share_below((mean + deviation) as u64);
    let under = if mean > deviation { latencies.share_below((mean - deviation) as u64) } else { 0.0 };
    (below - under).max(0.0)
}

fn moments(values: &[f64]) -> (f64, f64, f64, f64) {
    if values.is_empty() {
        return (0.0, 0.0, 0.0, 0.0);
    }
    let count = values.len() as f64;
    let mean = values.iter().sum::<f64>() / count;
    let deviation = (values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / count).sqrt();
    let max = values.iter().copied().fold(0.0, f64::max);
    let near = values.iter().filter(|value| (*value - mean).abs() <= deviation).count() as f64;
    (mean, deviation, max, near / count)
}

/// Formats microseconds as wrk does: two decimals and a unit.
fn time(us: f64) -> String {
    scaled(us, &[("us", 1000.0), ("ms", 1000.0), ("s", 60.0), ("m", 60.0), ("h", f64::INFINITY)])
}

fn duration(seconds: f64) -> String {
    let text = scaled(seconds, &[("s", 60.0), ("m", 60.0), ("h", f64::INFINITY)]);
    // wrk writes whole durations without decimals.
    text.replace(".00", "")
}

fn metric(value: f64) -> String {
    scaled(value, &[("", 1000.0), ("k", 1000.0), ("M", 1000.0), ("G", f64::INFINITY)])
}

fn binary(value: f64) -> String {
    scaled(value, &[("B", 1024.0), ("KB", 1024.0), ("MB", 1024.0), ("GB", 1024.0), ("TB", f64::INFINITY)])
}

fn scaled(value: f64, units: &[(&str, f64)]) -> String {
    let mut value = value;
    for (unit, next) in units {
        if value < *next {
            return format!("{value:.2}{unit}");
        }
        value /= next;
    }
    format!("{value:.2}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results::http::Style;
    use crate::results::http::style::tests::with_results;

    #[test]
    fn puts_values_where_wrk_does() {
        assert_eq!(
            ["1.51ms", "27.60k", "183.14us", "0.00"].map(|text| padded(text, 8)),
            ["  1.51ms", " 27.60k ", "183.14us", "  0.00  "]
        );
        let said = with_results(|results| Style::Wrk.render(results));
        for line in [
            "  Thread Stats   Avg      Stdev     Max   +/- Stdev\n",
            "     50%    1.00ms\n",
            "  200 requests in 2s, ",
            "  Socket errors: connect 1, read 0, write 0, timeout 0\n",
            "Requests/sec:    100.00\n",
        ] {
            assert!(said.contains(line), "no {line:?} in {said}");
        }
    }
}
