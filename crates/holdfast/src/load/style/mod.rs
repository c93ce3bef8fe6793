//! The report of a run in the words of one tool or another. `own` says most; the others are for people and scripts that know
//! them, and say what those tools say.

mod ab;
mod k6;
mod own;
mod siege;
mod wrk;

use super::data::Results;
use super::units::grouped;
use load::Plan;

/// Whose words.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, clap::ValueEnum)]
pub(crate) enum Style {
    /// Ours.
    #[default]
    Own,
    /// wrk's, with `--latency`.
    Wrk,
    /// `ApacheBench`'s.
    Ab,
    /// siege's.
    Siege,
    /// k6's end-of-test summary.
    K6,
}

impl Style {
    /// The report, with its last line end.
    pub(super) fn render(self, results: &Results<'_>) -> String {
        match self {
            Self::Own => own::render(results),
            Self::Wrk => wrk::render(results),
            Self::Ab => ab::render(results),
            Self::Siege => siege::render(results),
            Self::K6 => k6::render(results),
        }
    }
}

/// What is said before the first socket: in how many processes, and which limit would bind first.
pub(super) fn plan_line(plan: &Plan) -> String {
    let processes = if plan.processes == 1 { String::new() } else { format!("{} processes; ", plan.processes) };
    let scarcest = plan.scarcest().map_or_else(String::new, |need| {
        let (needed, available) = (grouped(need.needed), grouped(need.available));
        format!("first limit: {}, {needed} of {available} ({:.2} %)", need.what, need.share() * 100.0)
    });
    format!("plan        {processes}{scarcest}")
}
