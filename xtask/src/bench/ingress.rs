//! `cargo xtask bench ingress`: `holdfast ingress` with a large cluster, behind a real API server and etcd. A test of the
//! program (`ingress::scale`) makes the objects and measures; this task builds the program, runs the test at full size
//! and keeps the record.

use super::machine::Machine;
use super::results::{now_utc, store};
use crate::peers;
use crate::trained;
use crate::workspace::{FEATURES, Workspace, heading, run};
use anyhow::{Context as _, Result};
use serde::{Deserialize, Serialize};
use std::fmt::Write as _;
use std::fs;
use std::path::PathBuf;

/// Options of `cargo xtask bench ingress`.
#[derive(clap::Args)]
pub(super) struct Args {
    /// Ingresses, and Services.
    #[arg(long, default_value_t = 1000, value_parser = clap::value_parser!(u64).range(2..=100_000))]
    ingresses: u64,
    /// Paths of all Ingresses together.
    #[arg(long, default_value_t = 5000, value_parser = clap::value_parser!(u64).range(2..=1_000_000))]
    routes: u64,
    /// Endpoints of all Services together.
    #[arg(long, default_value_t = 20_000, value_parser = clap::value_parser!(u64).range(4..=1_000_000))]
    endpoints: u64,
    /// Changes of each kind.
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u64).range(1..=10_000))]
    changes: u64,
    /// The program to measure; the trained `dist` program if not given.
    #[arg(long, value_name = "FILE")]
    binary: Option<PathBuf>,
    /// Put the record into bench/results; otherwise target/bench.
    #[arg(long)]
    keep: bool,
}

/// The goals for 1,000 Ingresses, 5,000 routes and 20,000 endpoints, in milliseconds.
const GOAL_COLD_START: f64 = 5000.0;
const GOAL_INGRESS_P99: f64 = 500.0;
const GOAL_ENDPOINT_P99: f64 = 100.0;

/// What the test measured. Its file has the meaning of each.
#[derive(Serialize, Deserialize)]
struct Figures {
    ingresses: u64,
    routes: u64,
    endpoints: u64,
    objects: u64,
    cold_starts: Vec<f64>,
    cold_start_empty: f64,
    cold_start_cpu: Vec<f64>,
    statuses: f64,
    ingress_effects: Vec<f64>,
    ingress_effects_with_write: Vec<f64>,
    endpoint_effects: Vec<f64>,
    endpoint_effects_with_write: Vec<f64>,
    cpu_per_ingress_change: f64,
    cpu_per_endpoint_change: f64,
    cpu_per_large_endpoint_change: f64,
    endpoints_of_large: u64,
    cpu_idle: f64,
    rss_empty_kib: u64,
    rss_started_kib: u64,
    rss_changed_kib: u64,
    peak_kib: u64,
    generations: u64,
}

#[derive(Serialize)]
struct Results {
    experiment: &'static str,
    /// UTC.
    date: String,
    machine: Machine,
    figures: Figures,
}

/// Runs the experiment.
pub(super) fn run_task(workspace: &Workspace, args: &Args) -> Result<()> {
    let bin = peers::provide(workspace)?;
    let binary = match &args.binary {
        Some(binary) => fs::canonicalize(binary).with_context(|| format!("no program {}", binary.display()))?,
        None => trained::build(workspace)?,
    };
    let home = workspace.target("bench");
    fs::create_dir_all(&home)?;
    let measured = home.join("ingress.json");
    let machine = Machine::describe(workspace, std::slice::from_ref(&binary));
    let date = now_utc();
    let size = format!("{} {} {} {}", args.ingresses, args.routes, args.endpoints, args.changes);
    heading("a large cluster behind holdfast ingress");
    let mut test = workspace.cargo();
    test.args(["test", "--package", "holdfast", "--features", FEATURES, "--test", "it", "--locked"])
        .args(["ingress::scale", "--", "--nocapture"])
        .env("HOLDFAST_PEERS", &bin)
        .env("HOLDFAST_SCALE", size)
        .env("HOLDFAST_SCALE_BINARY", &binary)
        .env("HOLDFAST_SCALE_RECORD", &measured);
    run(&mut test)?;
    let figures = serde_json::from_str(&fs::read_to_string(&measured)?).context("the figures of the test")?;
    let results = Results { experiment: "ingress", date, machine, figures };
    println!("{}\n\n{}", results.machine.sentence(), results.figures.markdown());
    let file = store(workspace, args.keep, (results.experiment, &results.date), &results)?;
    println!("record: {}", file.display());
    Ok(())
}

/// The value that a share of the values does not exceed; NaN for none.
fn quantile(values: &[f64], share: f64) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let place = (sorted.len() as f64 * share).ceil() as usize;
    sorted.get(place.saturating_sub(1)).copied().unwrap_or(f64::NAN)
}

/// `p50 / p99 / most`.
fn spread(values: &[f64], decimals: usize) -> String {
    let [half, most_of, most] = [0.5, 0.99, 1.0].map(|share| quantile(values, share));
    format!("{half:.decimals$} / {most_of:.decimals$} / {most:.decimals$}")
}

impl Figures {
    fn markdown(&self) -> String {
        let mut text = format!(
            "{} Ingresses, {} routes, {} endpoints, {} objects\n\n| what | measured | goal |\n|---|---|---|\n",
            self.ingresses, self.routes, self.endpoints, self.objects
        );
        let goal = |value: f64, most: f64| format!("{most:.0}: {}", if value <= most { "met" } else { "missed" });
        let mib = |kib: u64| format!("{:.0}", kib as f64 / 1024.0);
        let of = |share: f64, values: &[f64], most: f64| goal(quantile(values, share), most);
        let rows = [
            (
                "cold start to serving, ms: median / p99 / most",
                spread(&self.cold_starts, 0),
                of(1.0, &self.cold_starts, GOAL_COLD_START),
            ),
            ("CPU of a cold start, ms", spread(&self.cold_start_cpu, 0), String::new()),
            ("cold start without objects, ms", format!("{:.0}", self.cold_start_empty), String::new()),
            ("all statuses written after, s", format!("{:.1}", self.statuses / 1e3), String::new()),
            (
                "changed Ingress to effect, ms: median / p99 / most",
                spread(&self.ingress_effects, 0),
                of(0.99, &self.ingress_effects, GOAL_INGRESS_P99),
            ),
            (
                "changed EndpointSlice to effect, ms: median / p99 / most",
                spread(&self.endpoint_effects, 1),
                of(0.99, &self.endpoint_effects, GOAL_ENDPOINT_P99),
            ),
            ("CPU of a changed Ingress, ms", format!("{:.1}", self.cpu_per_ingress_change), String::new()),
            ("CPU of a changed EndpointSlice, ms", format!("{:.2}", self.cpu_per_endpoint_change), String::new()),
            (
                "the same of a Service with many endpoints, ms",
                format!("{:.2} ({})", self.cpu_per_large_endpoint_change, self.endpoints_of_large),
                String::new(),
            ),
            ("CPU of an idle replica, ms each second", format!("{:.1}", self.cpu_idle), String::new()),
            (
                "resident memory without objects, after the start, after the changes, peak; MiB",
                [self.rss_empty_kib, self.rss_started_kib, self.rss_changed_kib, self.peak_kib].map(mib).join(" / "),
                String::new(),
            ),
        ];
        for (what, value, goal) in rows {
            let _ = writeln!(text, "| {what} | {value} | {goal} |");
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_values_that_were_measured() {
        let values: Vec<f64> = (1..=100).rev().map(f64::from).collect();
        assert_eq!(spread(&values, 0), "50 / 99 / 100");
        assert_eq!(spread(&[2.5], 1), "2.5 / 2.5 / 2.5");
        assert!(quantile(&[], 0.5).is_nan());
    }
}
