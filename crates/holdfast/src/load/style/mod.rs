//! The report of a run in the words of one tool or another. `own` says most; the others are for people and scripts that know
//! them, and say what those tools say.

mod ab;
mod k6;
mod own;
mod siege;
mod wrk;

use super::data::Results;

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
