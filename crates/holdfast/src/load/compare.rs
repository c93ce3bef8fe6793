//! `holdfast load compare A.json B.json`: two runs side by side, each difference with the interval that it lies in. The
//! intervals of the runs (their seconds) are the samples; they stand in no order of pairs, so both sides are drawn apart.

use super::data::{FORMAT, File};
use super::units::time;
use crate::{exit, report};
use load::Sparse;
use stats::bootstrap::{RESAMPLES, Resampling, two_sample_interval};
use stats::mann_whitney::mann_whitney;
use stats::summary::median;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

/// Intervals of a run below which nothing is said about chance.
const INTERVALS_MIN: usize = 6;
/// Largest file that is read: the histograms of a thousand intervals have some megabytes.
const FILE_BYTES_MAX: u64 = 1 << 30;
/// In what share of comparisons an interval should hold the true ratio.
const CONFIDENCE: f64 = 0.95;

/// Compare two runs by their --json files
///
/// The first and the last interval of each run are left out: in them the load begins and ends. Ratios are B over A, of the
/// medians over the intervals, with a 95 % interval by bootstrap.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The run that is compared with
    first: PathBuf,
    /// The run that is compared
    second: PathBuf,
}

pub(super) fn run(args: &Args) -> u8 {
    match (read(&args.first), read(&args.second)) {
        (Ok(first), Ok(second)) => {
            report::print(render(args, &first, &second).as_bytes());
            exit::OK
        }
        (Err(message), _) | (_, Err(message)) => {
            report::say(&format!("holdfast load compare: {message}"));
            exit::FAILED
        }
    }
}

fn read(path: &Path) -> Result<File, String> {
    let name = path.display();
    let size = std::fs::metadata(path).map_err(|error| format!("{name}: {error}"))?.len();
    if size > FILE_BYTES_MAX {
        return Err(format!("{name}: {size} bytes are more than a run writes"));
    }
    let bytes = std::fs::read(path).map_err(|error| format!("{name}: {error}"))?;
    let file: File = serde_json::from_slice(&bytes).map_err(|error| format!("{name} holds no run: {error}"))?;
    if file.format != FORMAT {
        return Err(format!("{name} has format {}, and this program reads {FORMAT}", file.format));
    }
    Ok(file)
}

/// A figure of an interval.
type Figure = fn(&super::data::IntervalFigures) -> f64;

fn quantile(latency: &Sparse, share: f64) -> f64 {
    latency.quantile(share) as f64
}

const FIGURES: [(&str, bool, Figure); 5] = [
    ("responses/s", false, |interval| interval.responses as f64 / interval.length_s.max(f64::MIN_POSITIVE)),
    ("p50", true, |interval| quantile(&interval.latency, 0.5)),
    ("p90", true, |interval| quantile(&interval.latency, 0.9)),
    ("p99", true, |interval| quantile(&interval.latency, 0.99)),
    ("max", true, |interval| quantile(&interval.latency, 1.0)),
];

fn render(args: &Args, first: &File, second: &File) -> String {
    let mut text = String::new();
    for (name, path, file) in [("A", &args.first, first), ("B", &args.second, second)] {
        let void = if file.void.is_empty() { "" } else { ", VOID" };
        let _ = writeln!(
            text,
            "{name}  {}: {} loop, {} connections, {:.1} s, {} responses, {} errors{void}",
            path.display(),
            file.r#loop,
            file.connections,
            file.elapsed_s,
            file.responses,
            file.errors
        );
    }
    if first.r#loop != second.r#loop {
        text.push_str("\nOne is an open loop and one a closed loop: their latencies are not the same quantity.\n");
    }
    let _ = writeln!(text, "\n{:<12} {:>12} {:>12} {:>8}  95 % interval of B/A", "median", "A", "B", "B/A");
    let (one, other) = (inner(first), inner(second));
    for (name, is_time, figure) in FIGURES {
        let column = |intervals: &[&super::data::IntervalFigures]| -> Vec<f64> {
            intervals.iter().map(|interval| figure(interval)).collect()
        };
        line(&mut text, name, is_time, &column(&one), &column(&other));
    }
    let share = |file: &File| file.errors as f64 / (file.responses + file.failed).max(1) as f64 * 100.0;
    let _ = writeln!(text, "{:<12} {:>10.3} % {:>10.3} %", "errors", share(first), share(second));
    let _ = writeln!(text, "\n{} and {} intervals were compared.", one.len(), other.len());
    if one.len() < INTERVALS_MIN || other.len() < INTERVALS_MIN {
        let _ =
            writeln!(text, "That is too few to tell a difference from chance: {INTERVALS_MIN} are needed at least.");
    }
    text
}

/// All intervals but the first and the last.
fn inner(file: &File) -> Vec<&super::data::IntervalFigures> {
    let count = file.intervals.len();
    file.intervals.iter().skip(1).take(count.saturating_sub(2)).collect()
}

fn line(text: &mut String, name: &str, is_time: bool, first: &[f64], second: &[f64]) {
    let (Some(a), Some(b)) = (median(first), median(second)) else {
        let _ = writeln!(text, "{name:<12} {:>12} {:>12}", "-", "-");
        return;
    };
    let show = |value: f64| if is_time { time(value) } else { format!("{value:.1}") };
    let ratio = |first: &[f64], second: &[f64]| Some(median(second)? / median(first).filter(|value| *value > 0.0)?);
    let _ = write!(text, "{name:<12} {:>12} {:>12}", show(a), show(b));
    let Some(found) = ratio(first, second) else {
        text.push('\n');
        return;
    };
    let _ = write!(text, " {found:>8.3}");
    if first.len() >= INTERVALS_MIN && second.len() >= INTERVALS_MIN {
        let random = &mut stats::Random::from_seed(1);
        let resampling = Resampling { confidence: CONFIDENCE, resamples: RESAMPLES, random };
        let interval = two_sample_interval(first, second, resampling, ratio);
        if let (Some(interval), Some(test)) = (interval, mann_whitney(first, second)) {
            let verdict = match (interval.contains(1.0), test.p <= 1.0 - CONFIDENCE) {
                (false, true) if found > 1.0 => "B is higher",
                (false, true) => "B is lower",
                _ => "no difference shown",
            };
            let _ = write!(text, "  {:.3} to {:.3}, p {:.3}: {verdict}", interval.low, interval.high, test.p);
        }
    }
    text.push('\n');
}
