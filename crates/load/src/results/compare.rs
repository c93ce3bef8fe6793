//! `holdfast load compare A.json B.json`: two runs side by side, with a confidence interval for each difference. The
//! samples are the runs' intervals of time. They are not paired, so both runs are resampled independently.

use super::figures::FORMAT;
use super::files::{Reports, read_at_most};
use super::http::json::{HttpResultsFile, IntervalFigures};
use super::units::time;
use super::websocket;
use super::websocket::json::{PROTOCOL, PROTOCOL_EVENTS, PROTOCOL_TCP};
use crate::{Sparse, Verdict};
use serde::Deserialize;
use stats::bootstrap::{RESAMPLES, Resampling, two_sample_interval};
use stats::interval::Interval;
use stats::mann_whitney::mann_whitney;
use stats::summary::median;
use std::fmt::Write as _;
use std::path::Path;

/// With fewer intervals in a run, no confidence interval is reported.
const INTERVALS_MIN: usize = 6;
/// Largest file that is read: the histograms of a thousand intervals take some megabytes.
const FILE_BYTES_MAX: u64 = 1 << 30;
/// The share of comparisons in which the confidence interval should contain the true ratio.
const CONFIDENCE: f64 = 0.95;

/// Compares two runs by their JSON files: the first with the second. The error names the file that cannot be read.
pub fn compare(first: &Path, second: &Path) -> Result<String, String> {
    Ok(render(&read(first)?, &read(second)?))
}

/// An earlier run, and how much worse a figure may be.
#[derive(Debug)]
pub struct Baseline {
    run: Run,
    /// A share: 0.05 is 5 %.
    tolerance: f64,
}

impl Baseline {
    /// Reads the JSON of the earlier run. The error names the file.
    pub fn read(path: &Path, tolerance: f64) -> Result<Self, String> {
        Ok(Self { run: read(path)?, tolerance })
    }

    /// A verdict for each figure of a run that can be worse: its times, the rate of a closed loop, and its errors. A figure is
    /// worse if the whole confidence interval of its ratio is beyond the tolerance.
    pub fn judge(&self, results: &impl Reports) -> Result<Vec<Verdict>, String> {
        let now = parse("this run", results.json().as_bytes())?;
        if now.kind != self.run.kind {
            return Err(format!("the baseline is {}, and this is {}", self.run.kind, now.kind));
        }
        let mut verdicts = Vec::new();
        for (name, unit, before) in &self.run.figures {
            let Some((_, _, after)) = now.figures.iter().find(|(other, ..)| other == name) else { continue };
            if before.is_empty() && after.is_empty() {
                continue;
            }
            let is_time = *unit == Unit::Time;
            // The rates of an open loop, and of held connections, are what the options say.
            if is_time || now.kind.ends_with("in closed loop") {
                verdicts.push(self.of_figure(name, is_time, before, after));
            }
        }
        let limit = self.run.errors * (1.0 + self.tolerance);
        verdicts.push(Verdict {
            expected: format!("errors \u{2264} {limit:.3} % (baseline)"),
            measured: format!("{:.3} %", now.errors),
            met: now.errors <= limit,
            undecided: None,
        });
        Ok(verdicts)
    }

    fn of_figure(&self, name: &str, is_time: bool, before: &[f64], after: &[f64]) -> Verdict {
        let limit = if is_time { 1.0 + self.tolerance } else { 1.0 - self.tolerance };
        let sign = if is_time { '\u{2264}' } else { '\u{2265}' };
        let expected = format!("{name} {sign} {limit:.2} \u{d7} baseline");
        let undecided = |why: &str| Verdict {
            expected: expected.clone(),
            measured: "-".to_owned(),
            met: true,
            undecided: Some(why.to_owned()),
        };
        let Some(found) = ratio(before, after) else { return undecided("one of the runs has no such figure") };
        let Some((interval, _)) = difference(before, after) else {
            return undecided("6 intervals of each run are needed, without the first and the last");
        };
        let is_worse = if is_time { interval.low > limit } else { interval.high < limit };
        Verdict {
            measured: format!("{found:.3} \u{d7} [{:.3} to {:.3}]", interval.low, interval.high),
            met: !is_worse,
            undecided: None,
            expected,
        }
    }
}

/// The figures of a run that are compared.
#[derive(Debug)]
struct Run {
    /// A description of the run in one line.
    head: String,
    /// The kind of load; runs of different kinds have no common figures.
    kind: String,
    /// Errors as a percentage of all attempts.
    errors: f64,
    /// Each figure with its values in all intervals that have one, without the first and the last interval.
    figures: Vec<(&'static str, Unit, Vec<f64>)>,
    intervals: usize,
}

/// How a figure is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Unit {
    Count,
    /// Nanoseconds.
    Time,
}

fn read(path: &Path) -> Result<Run, String> {
    parse(&path.display().to_string(), &read_at_most(path, FILE_BYTES_MAX)?)
}

/// The run in the JSON of a file with this name.
fn parse(name: &str, bytes: &[u8]) -> Result<Run, String> {
    let no_run = |error: serde_json::Error| format!("{name} holds no run: {error}");
    let about: About = serde_json::from_slice(bytes).map_err(no_run)?;
    if about.format != FORMAT {
        return Err(format!("{name} has format {}, and this program reads {FORMAT}", about.format));
    }
    match about.protocol.as_deref() {
        Some(PROTOCOL) => serde_json::from_slice(bytes)
            .map(|file: websocket::json::KeptWebSocketResults| held(name, &file, "WebSockets")),
        Some(PROTOCOL_TCP) => serde_json::from_slice(bytes)
            .map(|file: websocket::json::KeptWebSocketResults| held(name, &file, "TCP connections")),
        Some(PROTOCOL_EVENTS) => serde_json::from_slice(bytes)
            .map(|file: websocket::json::KeptWebSocketResults| held(name, &file, "event streams")),
        _ => serde_json::from_slice(bytes).map(|file: HttpResultsFile| http(name, &file)),
    }
    .map_err(no_run)
}

/// The fields that identify the file format.
#[derive(Debug, Deserialize)]
struct About {
    format: u32,
    protocol: Option<String>,
}

/// A warning about a run for its head line, if its figures need one.
fn caveat(void: &[String], late: Option<&String>) -> &'static str {
    match (void, late) {
        ([_, ..], _) => ", VOID",
        ([], Some(_)) => ", LATE: its latencies include the generator's own lag",
        ([], None) => "",
    }
}

fn http(name: &str, file: &HttpResultsFile) -> Run {
    let intervals = inner(&file.intervals);
    let of = |value: &dyn Fn(&IntervalFigures) -> f64| intervals.iter().map(|interval| value(interval)).collect();
    let time = |quantile: f64| of(&|interval| interval.latency.quantile(quantile) as f64);
    let rate = of(&|interval| interval.responses as f64 / interval.length_s.max(f64::MIN_POSITIVE));
    Run {
        head: format!(
            "{}: {} loop, {} connections, {:.1} s, {} responses, {} errors{}",
            name,
            file.r#loop,
            file.connections,
            file.elapsed_s,
            file.responses,
            file.errors,
            caveat(&file.void, file.late.as_ref())
        ),
        kind: match file.version.as_str() {
            "TCP" => format!("a load of TCP in {} loop", file.r#loop),
            _ => format!("a load in {} loop", file.r#loop),
        },
        errors: percent(file.errors, file.responses + file.failed),
        figures: vec![
            ("responses/s", Unit::Count, rate),
            ("p50", Unit::Time, time(0.5)),
            ("p90", Unit::Time, time(0.9)),
            ("p99", Unit::Time, time(0.99)),
            ("max", Unit::Time, time(1.0)),
        ],
        intervals: intervals.len(),
    }
}

fn held(name: &str, file: &websocket::json::KeptWebSocketResults, what: &str) -> Run {
    let intervals = inner(&file.intervals);
    let rate = |count: fn(&websocket::json::WebSocketIntervalFigures) -> u64| {
        let rate = |interval: &&websocket::json::WebSocketIntervalFigures| {
            count(interval) as f64 / interval.length_s.max(f64::MIN_POSITIVE)
        };
        (Unit::Count, intervals.iter().map(rate).collect())
    };
    // Intervals without an opening, pong or delivery have no time for it.
    let time = |times: fn(&websocket::json::WebSocketIntervalFigures) -> &Sparse, quantile: f64| {
        let all = intervals.iter().map(|interval| times(interval)).filter(|times| times.count() > 0);
        (Unit::Time, all.map(|times| times.quantile(quantile) as f64).collect())
    };
    let open = (Unit::Count, intervals.iter().map(|interval| interval.open as f64).collect());
    let figures = [
        ("open", open),
        ("opened/s", rate(|interval| interval.established)),
        ("delivered/s", rate(|interval| interval.delivered)),
        ("handshake p50", time(|interval| &interval.handshake, 0.5)),
        ("handshake p99", time(|interval| &interval.handshake, 0.99)),
        ("pong p99", time(|interval| &interval.pong, 0.99)),
        ("delivery p50", time(|interval| &interval.delivery, 0.5)),
        ("delivery p99", time(|interval| &interval.delivery, 0.99)),
        ("delivery max", time(|interval| &interval.delivery, 1.0)),
    ];
    Run {
        head: format!(
            "{}: {} {what}, {:.1} s, {} established, {} failed, {} lost{}",
            name,
            file.connections,
            file.elapsed_s,
            file.established,
            file.failed,
            file.losses,
            caveat(&file.void, file.late.as_ref())
        ),
        kind: format!("a load of {what}"),
        errors: percent(file.failed + file.losses, file.begun),
        figures: figures.into_iter().map(|(name, (unit, values))| (name, unit, values)).collect(),
        intervals: intervals.len(),
    }
}

fn percent(count: u64, of: u64) -> f64 {
    count as f64 / of.max(1) as f64 * 100.0
}

fn render(first: &Run, second: &Run) -> String {
    let mut text = format!("A  {}\nB  {}\n", first.head, second.head);
    if first.kind != second.kind {
        let _ = writeln!(
            text,
            "\nOne is {} and one {}: their figures are not the same quantities.",
            first.kind, second.kind
        );
    }
    let _ = writeln!(text, "\n{:<13} {:>12} {:>12} {:>8}  95 % interval of B/A", "median", "A", "B", "B/A");
    for (name, unit, ours) in &first.figures {
        if let Some((_, _, theirs)) = second.figures.iter().find(|(other, ..)| other == name) {
            line(&mut text, name, *unit == Unit::Time, ours, theirs);
        }
    }
    let _ = writeln!(text, "{:<13} {:>10.3} % {:>10.3} %", "errors", first.errors, second.errors);
    let _ = writeln!(text, "\n{} and {} intervals were compared.", first.intervals, second.intervals);
    if first.intervals < INTERVALS_MIN || second.intervals < INTERVALS_MIN {
        let _ = writeln!(text, "Too few to decide: {INTERVALS_MIN} intervals are needed.");
    }
    text
}

/// All intervals but the first and the last.
fn inner<T>(intervals: &[T]) -> Vec<&T> {
    intervals.iter().skip(1).take(intervals.len().saturating_sub(2)).collect()
}

/// The medians' ratio, second over first.
fn ratio(first: &[f64], second: &[f64]) -> Option<f64> {
    Some(median(second)? / median(first).filter(|value| *value > 0.0)?)
}

/// The confidence interval of the ratio, and the test's p; `None` with too few intervals.
fn difference(first: &[f64], second: &[f64]) -> Option<(Interval, f64)> {
    if first.len() < INTERVALS_MIN || second.len() < INTERVALS_MIN {
        return None;
    }
    let random = &mut stats::Random::from_seed(1);
    let resampling = Resampling { confidence: CONFIDENCE, resamples: RESAMPLES, random };
    Some((two_sample_interval(first, second, resampling, ratio)?, mann_whitney(first, second)?.p))
}

fn line(text: &mut String, name: &str, is_time: bool, first: &[f64], second: &[f64]) {
    let (Some(a), Some(b)) = (median(first), median(second)) else {
        let _ = writeln!(text, "{name:<13} {:>12} {:>12}", "-", "-");
        return;
    };
    let show = |value: f64| if is_time { time(value) } else { format!("{value:.1}") };
    let _ = write!(text, "{name:<13} {:>12} {:>12}", show(a), show(b));
    let Some(found) = ratio(first, second) else {
        text.push('\n');
        return;
    };
    let _ = write!(text, " {found:>8.3}");
    if let Some((interval, p)) = difference(first, second) {
        let verdict = match (interval.contains(1.0), p <= 1.0 - CONFIDENCE) {
            (false, true) if found > 1.0 => "B is higher",
            (false, true) => "B is lower",
            _ => "no difference shown",
        };
        let _ = write!(text, "  {:.3} to {:.3}, p {p:.3}: {verdict}", interval.low, interval.high);
    }
    text.push('\n');
}
