//! The results of a scenario: its iterations, its steps, and the checks that failed; as text, as data and as a section.

use crate::results::figures::Latency;
use crate::results::units::time;
use crate::{Cause, CheckTally, Flow, FlowTally, Scenario, Step, Summary, Tally};
use report::text::grouped;
use report::{Figure, Section, Table, Unit};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt::Write as _;

/// The scenario of a run as data.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct ScenarioFigures {
    pub(crate) name: String,
    pub(crate) flows: Vec<FlowFigures>,
    pub(crate) steps: Vec<StepFigures>,
}

/// The iterations of a flow.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct FlowFigures {
    pub(crate) name: String,
    pub(crate) begun: u64,
    pub(crate) completed: u64,
    pub(crate) failed: u64,
    pub(crate) cut: u64,
    pub(crate) duration: Latency,
}

/// One step.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct StepFigures {
    pub(crate) name: String,
    pub(crate) requests: u64,
    pub(crate) responses: u64,
    pub(crate) errors: u64,
    pub(crate) statuses: BTreeMap<u16, u64>,
    pub(crate) failures: BTreeMap<String, u64>,
    pub(crate) latency: Latency,
    pub(crate) checks: Vec<CheckFigures>,
}

/// A check or an extraction.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct CheckFigures {
    pub(crate) name: String,
    pub(crate) passed: u64,
    pub(crate) failed: u64,
}

/// The checks and extractions of a step with their names and counts.
fn checks(scenario: &Scenario, step: &Step, tally: &Tally) -> Vec<(String, CheckTally)> {
    let variable = |at: usize| scenario.variables.get(at).map_or("", |(name, _)| name.as_str());
    let names = step.checks.iter().map(|check| check.name.clone());
    let names = names.chain(step.extract.iter().map(|extract| format!("extract {}", variable(extract.variable))));
    names.enumerate().map(|(at, name)| (name, tally.checks.get(at).copied().unwrap_or_default())).collect()
}

fn steps(summary: &Summary) -> impl Iterator<Item = (&Scenario, &Step, &Tally)> {
    let scenario = summary.options.scenario.as_deref();
    let steps = scenario.into_iter().flat_map(|scenario| scenario.steps().map(move |(_, step)| (scenario, step)));
    steps.zip(&summary.record.targets).map(|((scenario, step), tally)| (scenario, step, tally))
}

/// The flows with their iterations; a flow that was never played has none.
fn flows(summary: &Summary) -> Vec<(&Flow, FlowTally)> {
    let Some(scenario) = &summary.options.scenario else { return Vec::new() };
    let tally = |at: usize| summary.record.flows.get(at).cloned().unwrap_or_default();
    scenario.flows.iter().enumerate().map(|(at, flow)| (flow, tally(at))).collect()
}

impl ScenarioFigures {
    pub(super) fn new(summary: &Summary) -> Option<Self> {
        let scenario = summary.options.scenario.as_ref()?;
        let flow = |(flow, tally): (&Flow, FlowTally)| FlowFigures {
            name: flow.name.clone(),
            begun: tally.begun,
            completed: tally.completed,
            failed: tally.failed,
            cut: tally.cut,
            duration: Latency::from(&tally.duration),
        };
        let step = |(scenario, step, tally): (&Scenario, &Step, &Tally)| {
            let failures = Cause::ALL.iter().filter(|cause| tally.failed_by(**cause) > 0);
            let checks = checks(scenario, step, tally).into_iter();
            StepFigures {
                name: step.name.clone(),
                requests: tally.begun,
                responses: tally.responses,
                errors: tally.errors(),
                statuses: tally.statuses.iter().copied().collect(),
                failures: failures.map(|cause| (cause.key().to_owned(), tally.failed_by(*cause))).collect(),
                latency: Latency::from(&tally.latency),
                checks: checks
                    .map(|(name, CheckTally { passed, failed })| CheckFigures { name, passed, failed })
                    .collect(),
            }
        };
        Some(Self {
            name: scenario.name.clone(),
            flows: flows(summary).into_iter().map(flow).collect(),
            steps: steps(summary).map(step).collect(),
        })
    }
}

/// The lines of the text report.
pub(super) fn lines(summary: &Summary, text: &mut String) {
    for (flow, tally) in flows(summary) {
        let parts = [(tally.failed, "failed"), (tally.cut, "cut by the end")];
        let mut others = String::new();
        for (count, what) in parts.iter().filter(|(count, _)| *count > 0) {
            let _ = write!(others, ", {} {what}", grouped(*count));
        }
        let of = |quantile| time(tally.duration.quantile_ns(quantile) as f64);
        let times = if tally.completed > 0 { format!(" (p50 {}, p99 {})", of(0.5), of(0.99)) } else { String::new() };
        let _ = writeln!(
            text,
            "iterations  {}: {} begun, {} complete{times}{others}",
            flow.name,
            grouped(tally.begun),
            grouped(tally.completed),
        );
    }
    let _ = writeln!(
        text,
        "{:>12} {:>8} {:>8} {:>10} {:>10} {:>10}  step",
        "responses", "errors", "checks", "p50", "p99", "max"
    );
    let mut remarks = String::new();
    for (scenario, step, tally) in steps(summary) {
        let of = |quantile| time(tally.latency.quantile_ns(quantile) as f64);
        let (failed, _) = tally.checks_failed();
        let _ = writeln!(
            text,
            "{:>12} {:>8} {:>8} {:>10} {:>10} {:>10}  {}",
            grouped(tally.responses),
            grouped(tally.errors()),
            grouped(failed),
            of(0.5),
            of(0.99),
            time(tally.latency.max_ns() as f64),
            step.name,
        );
        for cause in Cause::ALL.iter().filter(|cause| tally.failed_by(**cause) > 0) {
            let _ =
                writeln!(remarks, "failed      {}: {}: {}", step.name, grouped(tally.failed_by(*cause)), cause.key());
        }
        for (name, tally) in checks(scenario, step, tally).iter().filter(|(_, tally)| tally.failed > 0) {
            let (failed, all) = (grouped(tally.failed), grouped(tally.passed + tally.failed));
            let _ = writeln!(remarks, "check       {}: {name}: {failed} of {all} failed", step.name);
        }
    }
    text.push_str(&remarks);
    text.push('\n');
}

/// The section of the page.
pub(super) fn section(summary: &Summary) -> Option<Section> {
    let scenario = summary.options.scenario.as_ref()?;
    let count = |value: u64| Figure::exact(value as f64, Unit::of("")).into();
    let mut iterations = Table::new("Iterations", &["scenario", "begun", "complete", "failed", "cut", "p50", "p99"]);
    for (flow, tally) in flows(summary) {
        let of = |quantile| {
            let ns = tally.duration.quantile_ns(quantile) as f64;
            Figure::from_events(ns, tally.duration.count(), Unit::Nanoseconds).into()
        };
        let counts = [tally.begun, tally.completed, tally.failed, tally.cut].map(count);
        iterations =
            iterations.row([flow.name.clone().into()].into_iter().chain(counts).chain([of(0.5), of(0.99)]).collect());
    }
    let mut table = Table::new("Steps", &["step", "responses", "errors", "failed checks", "p50", "p99", "max"]);
    let mut failed = Table::new("Failed checks", &["step", "check", "failed", "of"]);
    let mut has_failed = false;
    for (scenario, step, tally) in steps(summary) {
        let of = |quantile| {
            let ns = tally.latency.quantile_ns(quantile) as f64;
            Figure::from_events(ns, tally.latency.count(), Unit::Nanoseconds).into()
        };
        let counts = [tally.responses, tally.errors(), tally.checks_failed().0].map(count);
        let row = [step.name.clone().into()].into_iter().chain(counts);
        table = table.row(row.chain([of(0.5), of(0.99), of(1.0)]).collect());
        for (name, tally) in checks(scenario, step, tally).into_iter().filter(|(_, tally)| tally.failed > 0) {
            has_failed = true;
            let counts = [tally.failed, tally.passed + tally.failed].map(count);
            failed = failed.row([step.name.clone().into(), name.into()].into_iter().chain(counts).collect());
        }
    }
    let section = Section::new(&format!("Scenario {}", scenario.name)).table(iterations).table(table);
    Some(if has_failed { section.table(failed) } else { section })
}
