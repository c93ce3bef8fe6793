//! The report of a run in the style of a tool. `own` has the most figures. The others are for people and scripts that know
//! those tools, and contain what those tools print.

mod ab;
mod k6;
mod own;
mod siege;
mod wrk;

use super::HttpResults;

/// The style of the report.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, clap::ValueEnum)]
pub enum Style {
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
    /// The report, with its final line end.
    pub fn render(self, results: &HttpResults<'_>) -> String {
        match self {
            Self::Own => own::render(results),
            Self::Wrk => wrk::render(results),
            Self::Ab => ab::render(results),
            Self::Siege => siege::render(results),
            Self::K6 => k6::render(results),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Cause, Health, HttpRecord, Options, Summary, Tally, Target};
    use std::time::Duration;

    /// 200 responses of a millisecond in two seconds, and one refused connection.
    pub(crate) fn with_results<T>(render: impl FnOnce(&HttpResults<'_>) -> T) -> T {
        let mut tally = Tally { begun: 201, responses: 200, statuses: vec![(200, 200)], ..Tally::default() };
        (0..200).for_each(|_| tally.latency.record(1_000_000));
        tally.failures[Cause::Refused as usize] = 1;
        let record = HttpRecord { targets: vec![tally], ..HttpRecord::default() };
        let options = Options::new(Target::new("http://127.0.0.1:8080/".parse().expect("a URL")));
        let summary = Summary { record, elapsed: Duration::from_secs(2), ..Summary::of_nothing(options) };
        let health: Health = summary.health();
        render(&HttpResults { summary: &summary, health: &health, verdicts: &[], rows: &[], sockets: None })
    }

    #[test]
    fn each_style_counts_answers_and_failures() {
        for (style, words) in [
            (Style::Own, ["201 begun, 200 answered, 1 failed", "connection refused"]),
            (Style::Wrk, ["200 requests in", "connect 1"]),
            (Style::Ab, ["Complete requests:      201", "Failed requests:        1"]),
            (Style::Siege, ["Successful transactions:         200", "Failed transactions:"]),
            (Style::K6, ["http_reqs..........................: 201", "0.50% 1 out of 201"]),
        ] {
            let said = with_results(|results| style.render(results));
            assert!(words.iter().all(|word| said.contains(word)), "{style:?}: {said}");
        }
    }
}
