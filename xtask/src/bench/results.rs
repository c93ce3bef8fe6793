//! What was measured, as raw JSON for later questions and as Markdown for people: medians, spread, ratios within a round.

use super::arms::Arm;
use super::machine::Machine;
use super::memory::Memory;
use super::proxy::Cell;
use super::wrk::Figures;
use anyhow::{Context as _, Result};
use serde::Serialize;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

/// One arm in one round of one cell.
#[derive(Serialize)]
pub(super) struct Sample {
    pub(super) arm: &'static str,
    /// From 0.
    pub(super) round: usize,
    /// CPU of the proxy's process tree per request, in microseconds.
    pub(super) cpu_us_user: f64,
    pub(super) cpu_us_system: f64,
    /// The part of its core that the proxy used. Well under 1, and something else was the bottleneck.
    pub(super) core_busy: f64,
    #[serde(flatten)]
    pub(super) figures: Figures,
}

impl Sample {
    fn cpu_us(&self) -> f64 {
        self.cpu_us_user + self.cpu_us_system
    }
}

/// One point of the matrix with all its rounds.
#[derive(Serialize)]
pub(super) struct Measured {
    #[serde(flatten)]
    pub(super) cell: Cell,
    pub(super) samples: Vec<Sample>,
    /// System calls per request by arm, where strace could count them.
    pub(super) syscalls: Vec<(&'static str, Option<f64>)>,
}

/// Everything of one bench.
#[derive(Serialize)]
pub(super) struct Results {
    pub(super) experiment: &'static str,
    /// UTC.
    pub(super) date: String,
    pub(super) machine: Machine,
    pub(super) rounds: usize,
    pub(super) seconds: u32,
    pub(super) absent: Vec<&'static str>,
    pub(super) cells: Vec<Measured>,
    pub(super) memory: Vec<Memory>,
}

impl Measured {
    /// A table of the arms, and the ratios under it.
    pub(super) fn markdown(&self, rounds: usize, seconds: u32) -> String {
        let mut text = format!("\n### {}; {rounds} rounds of {seconds} s, median [min–max]\n\n", self.cell);
        text.push_str("| arm | CPU µs/request | user | system | requests/s | p50 µs | p99 µs | p99.9 µs | errors | core busy | calls/request |\n");
        text.push_str("|---|---|---|---|---|---|---|---|---|---|---|\n");
        for arm in Arm::ALL {
            let of = |value: fn(&Sample) -> f64| self.column(arm, value);
            if of(Sample::cpu_us).is_empty() {
                continue;
            }
            let errors: u64 = self.of_arm(arm).map(|s| s.figures.socket_errors + s.figures.status_errors).sum();
            let calls = self.syscalls.iter().find(|(name, _)| *name == arm.name()).and_then(|(_, calls)| *calls);
            let _ = writeln!(
                text,
                "| {arm} | {} | {} | {} | {} | {} | {} | {} | {errors} | {:.0} % | {} |",
                spread(&of(Sample::cpu_us), 1),
                spread(&of(|s| s.cpu_us_user), 1),
                spread(&of(|s| s.cpu_us_system), 1),
                spread(&of(|s| s.figures.requests_per_second), 0),
                spread(&of(|s| s.figures.latency_us_p50), 0),
                spread(&of(|s| s.figures.latency_us_p99), 0),
                spread(&of(|s| s.figures.latency_us_p999), 0),
                median(&of(|s| s.core_busy)) * 100.0,
                calls.map_or_else(|| "–".to_owned(), |calls| format!("{calls:.2}")),
            );
        }
        text.push('\n');
        text + &self.ratios()
    }

    /// Holdfast against each other arm; while it is absent, the floor against the rest.
    fn ratios(&self) -> String {
        let mut text = String::new();
        let Some(first) = Arm::ALL.into_iter().find(|arm| self.of_arm(*arm).next().is_some()) else { return text };
        for other in Arm::ALL.into_iter().filter(|arm| *arm != first && self.of_arm(*arm).next().is_some()) {
            let _ = writeln!(
                text,
                "* {first}/{other}: CPU {}, requests/s {}, p99 {}",
                spread(&self.ratio(first, other, Sample::cpu_us), 2),
                spread(&self.ratio(first, other, |s| s.figures.requests_per_second), 2),
                spread(&self.ratio(first, other, |s| s.figures.latency_us_p99), 2),
            );
        }
        text
    }

    fn of_arm(&self, arm: Arm) -> impl Iterator<Item = &Sample> {
        self.samples.iter().filter(move |sample| sample.arm == arm.name())
    }

    fn column(&self, arm: Arm, value: fn(&Sample) -> f64) -> Vec<f64> {
        self.of_arm(arm).map(value).collect()
    }

    /// One quotient per round: what disturbed a round disturbed both.
    fn ratio(&self, arm: Arm, other: Arm, value: fn(&Sample) -> f64) -> Vec<f64> {
        let pair = |sample: &Sample| {
            let beside = self.of_arm(other).find(|beside| beside.round == sample.round)?;
            let below = value(beside);
            (below > 0.0).then(|| value(sample) / below)
        };
        self.of_arm(arm).filter_map(pair).collect()
    }
}

/// A table of resident memory per held connection.
pub(super) fn memory_markdown(memory: &[Memory]) -> String {
    let mut text = String::from("\n### Resident memory per held connection, one measurement each\n\n");
    text.push_str("| arm | held | connections | RSS before, KiB | RSS after, KiB | bytes per connection |\n");
    text.push_str("|---|---|---|---|---|---|\n");
    for row in memory {
        let _ = writeln!(
            text,
            "| {} | {} | {} | {} | {} | {:.0} |",
            row.arm, row.held, row.connections, row.rss_kib_before, row.rss_kib_after, row.bytes_per_connection
        );
    }
    text
}

pub(super) fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let middle = sorted.len() / 2;
    match (sorted.get(middle), sorted.len() % 2) {
        (None, _) => f64::NAN,
        (Some(upper), 0) => (sorted[middle - 1] + upper) / 2.0,
        (Some(value), _) => *value,
    }
}

/// `median [min–max]` with that many decimals.
pub(super) fn spread(values: &[f64], decimals: usize) -> String {
    let least = values.iter().copied().fold(f64::INFINITY, f64::min);
    let most = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    if values.is_empty() {
        return "–".to_owned();
    }
    format!("{:.decimals$} [{least:.decimals$}–{most:.decimals$}]", median(values))
}

/// The present minute, for names and records.
pub(super) fn now_utc() -> String {
    let now = time::OffsetDateTime::now_utc();
    let (hour, minute) = (now.hour(), now.minute());
    format!("{}T{hour:02}:{minute:02}Z", now.date())
}

/// The file of an experiment's results.
pub(super) fn path(folder: &Path, experiment: &str, date: &str) -> PathBuf {
    folder.join(format!("{}-{experiment}.json", date.replace(':', "")))
}

/// Writes raw results; where they are.
pub(super) fn write(file: PathBuf, results: &impl Serialize) -> Result<PathBuf> {
    fs::create_dir_all(file.parent().context("a result needs a folder")?)?;
    fs::write(&file, serde_json::to_string_pretty(results)? + "\n")?;
    Ok(file)
}

#[cfg(test)]
mod tests {
    use super::super::proxy::Body;
    use super::*;

    fn sample(arm: Arm, round: usize, user: f64, system: f64) -> Sample {
        let figures = Figures {
            requests: 1000,
            requests_per_second: 1000.0,
            socket_errors: 0,
            status_errors: 1,
            latency_us_mean: 1.0,
            latency_us_p50: 1.0,
            latency_us_p90: 1.5,
            latency_us_p99: 2.0,
            latency_us_p999: 3.0,
            latency_us_max: 4.0,
        };
        Sample { arm: arm.name(), round, cpu_us_user: user, cpu_us_system: system, core_busy: 0.5, figures }
    }

    #[test]
    fn the_median_of_an_even_number_lies_between_and_of_nothing_is_no_number() {
        assert_eq!(spread(&[3.0, 1.0, 2.0], 1), "2.0 [1.0–3.0]");
        assert_eq!(spread(&[4.0, 1.0], 2), "2.50 [1.00–4.00]");
        assert_eq!(spread(&[], 2), "–");
        assert!(median(&[]).is_nan());
    }

    #[test]
    fn ratios_are_taken_within_the_round_and_not_between_medians() {
        let cell = Cell { log: false, body: Body::parse("612").unwrap(), connections: 30 };
        // A disturbance doubled both arms in round 1: the ratio does not see it.
        let samples = vec![
            sample(Arm::Floor, 0, 10.0, 20.0),
            sample(Arm::Nginx, 0, 20.0, 40.0),
            sample(Arm::Nginx, 1, 40.0, 80.0),
            sample(Arm::Floor, 1, 20.0, 40.0),
        ];
        let measured = Measured { cell, samples, syscalls: vec![("nginx", Some(9.5))] };
        let text = measured.markdown(2, 3);
        assert!(text.contains("* floor/nginx: CPU 0.50 [0.50–0.50]"), "{text}");
        assert!(text.contains("| nginx | 90.0 [60.0–120.0] | 30.0 [20.0–40.0] | 60.0 [40.0–80.0] |"), "{text}");
        assert!(text.contains("| 2 | 50 % | 9.50 |"), "errors are added up over the rounds: {text}");
        assert!(!text.contains("holdfast"), "an absent arm has no row: {text}");
    }
}
