//! The reports of a finished load: text, tables of intervals, figures as data, pages with charts; and the comparison of two
//! runs. Pure except for [`Files`], which writes files. `drive` shows a run while it is running.

mod compare;
pub(crate) mod figures;
mod files;
mod floor;
pub mod http;
mod sections;
mod table;
pub(crate) mod tls;
pub(crate) mod units;
pub mod websocket;
pub(crate) mod words;

pub use compare::{Baseline, compare};
pub use files::{Files, Reports, read_at_most};
pub use floor::floor;

use crate::drive::sockets::Sockets;
use crate::{Health, Verdict};
use report::junit::{Case, Outcome};

/// All results of a run.
#[derive(Debug)]
pub struct Results<'a, S, R> {
    /// The summary of the run.
    pub summary: &'a S,
    /// The generator's own condition.
    pub health: &'a Health,
    /// The verdicts of the thresholds, in the order of the thresholds.
    pub verdicts: &'a [Verdict],
    /// The run over time.
    pub rows: &'a [R],
    /// The kernel's figures for the sockets; `None` if they were not queried.
    pub sockets: Option<&'a Sockets>,
}

/// What was to hold of a run, as JUnit XML: each threshold, and the run itself. `failure` is why it ended early.
fn junit(name: &str, seconds: f64, verdicts: &[Verdict], failure: Option<&str>, void: &[String]) -> String {
    let of_verdict = |verdict: &Verdict| {
        let outcome = match (&verdict.undecided, verdict.met) {
            (Some(why), _) => Outcome::Skipped(why.clone()),
            (None, true) => Outcome::Passed,
            (None, false) => Outcome::Failed(verdict.measured.clone()),
        };
        Case { name: verdict.expected.clone(), outcome }
    };
    let run = match (failure, void) {
        (Some(failure), _) => Outcome::Broken(failure.to_owned()),
        (None, []) => Outcome::Passed,
        (None, void) => Outcome::Skipped(void.join("; ")),
    };
    let run = Case { name: "the load ran to its end".to_owned(), outcome: run };
    let cases: Vec<Case> = std::iter::once(run).chain(verdicts.iter().map(of_verdict)).collect();
    report::junit::render(&format!("load of {name}"), seconds, &cases)
}
