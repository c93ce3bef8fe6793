//! What is known of each agent of a run, and which of them are stragglers. Pure.

use crate::message::Beat;
use load::remote::AgentFigures;

/// An agent with less than this share of the responses of the one in the middle is a straggler.
const RESPONSES_SHARE_MIN: f64 = 0.8;
/// Fewest responses of the agent in the middle: with few, shares are chance.
const RESPONSES_MIN: u64 = 100;
/// An agent that was this late at p99, and five times as late as the one in the middle, is a straggler.
const LAG_NS_MIN: u64 = 10_000_000;
const LAG_FACTOR: u64 = 5;
/// Agents that begin further apart are remarked.
const SPREAD_NS_MAX: u64 = 10_000_000;
/// Fewest agents of which one is the middle.
const AGENTS_MIN: usize = 3;

/// What is known of an agent.
#[derive(Debug, Clone)]
pub(super) struct Figures {
    pub(super) name: String,
    pub(super) cores: usize,
    pub(super) responses: u64,
    pub(super) lag_ns: u64,
    pub(super) clock_offset_ns: i64,
    pub(super) clock_error_ns: u64,
    pub(super) late_ns: Option<u64>,
    pub(super) is_straggler: bool,
    pub(super) is_lost: bool,
    pub(super) remarks: Vec<String>,
}

impl Figures {
    pub(super) fn new(beat: &Beat) -> Self {
        Self {
            name: beat.name.to_string(),
            cores: beat.cores,
            responses: 0,
            lag_ns: 0,
            clock_offset_ns: 0,
            clock_error_ns: 0,
            late_ns: None,
            is_straggler: false,
            is_lost: false,
            remarks: Vec::new(),
        }
    }

    pub(super) fn into_public(self) -> AgentFigures {
        let Self { name, cores, responses, lag_ns, clock_offset_ns, clock_error_ns, late_ns, remarks, .. } = self;
        AgentFigures { name, cores, responses, lag_ns, clock_offset_ns, clock_error_ns, late_ns, remarks }
    }
}

/// Within which time all agents began, in words and nanoseconds; `None` if fewer than two have said so. It is the most that is
/// possible: the clocks are known to within their errors.
pub(super) fn spread(all: &[Figures]) -> Option<(String, u64)> {
    let began: Vec<_> = all.iter().filter_map(|agent| Some((agent.late_ns?, agent.clock_error_ns))).collect();
    let latest = began.iter().map(|(late, error)| late.saturating_add(*error) as i64).max()?;
    let first = began.iter().map(|(late, error)| *late as i64 - *error as i64).min()?;
    let spread_ns = (latest - first).unsigned_abs();
    let error_ns = began.iter().map(|(_, error)| *error).max()?;
    let more = if spread_ns > SPREAD_NS_MAX { ", more than the 10 ms that are wanted" } else { "" };
    let text = format!(
        "{} agents began within {:.2} ms of each other{more}; their clocks are known to within {:.2} ms",
        began.len(),
        spread_ns as f64 / 1e6,
        error_ns as f64 / 1e6
    );
    (began.len() > 1).then_some((text, spread_ns))
}

/// The agents that did less than the others or were late, and why.
pub(super) fn straggling(all: &[Figures]) -> Vec<(usize, String)> {
    if all.len() < AGENTS_MIN {
        return Vec::new();
    }
    let middle = |of: &dyn Fn(&Figures) -> u64| {
        let mut values: Vec<u64> = all.iter().map(of).collect();
        values.sort_unstable();
        values.get(values.len() / 2).copied().unwrap_or(0)
    };
    let (responses, lag_ns) = (middle(&|agent| agent.responses), middle(&|agent| agent.lag_ns));
    let mut found = Vec::new();
    // Of a lost agent that is known, and why.
    for (index, agent) in all.iter().enumerate().filter(|(_, agent)| !agent.is_lost) {
        let share = agent.responses as f64 / responses.max(1) as f64;
        if responses >= RESPONSES_MIN && share < RESPONSES_SHARE_MIN {
            found.push((
                index,
                format!("is a straggler: it has {:.0} % of the responses of the agent in the middle", share * 100.0),
            ));
        }
        if agent.lag_ns >= LAG_NS_MIN && agent.lag_ns >= LAG_FACTOR * lag_ns {
            let (own, other) = (agent.lag_ns as f64 / 1e6, lag_ns as f64 / 1e6);
            found.push((
                index,
                format!("is a straggler: late by p99 {own:.1} ms, the agent in the middle by {other:.1} ms"),
            ));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn agent(responses: u64, lag_ns: u64, late_ns: u64) -> Figures {
        Figures {
            name: "a".to_owned(),
            cores: 1,
            responses,
            lag_ns,
            clock_offset_ns: 7,
            clock_error_ns: 100_000,
            late_ns: Some(late_ns),
            is_straggler: false,
            is_lost: false,
            remarks: Vec::new(),
        }
    }

    #[test]
    fn stragglers_are_named_with_cause_and_delay() {
        let all = [agent(1000, 1_000, 0), agent(1010, 2_000, 0), agent(500, 1_000, 0), agent(990, 30_000_000, 0)];
        let found = straggling(&all);
        assert_eq!(found.iter().map(|(index, _)| *index).collect::<Vec<_>>(), [2, 3]);
        assert!(found[0].1.contains("50 % of the responses") && found[1].1.contains("p99 30.0 ms"), "{found:?}");
        assert!(
            straggling(&all[..2]).is_empty()
                && straggling(&[agent(3, 0, 0), agent(9, 0, 0), agent(9, 0, 0)]).is_empty()
        );
    }

    #[test]
    fn start_spread_includes_clock_errors() {
        let (text, spread_ns) = spread(&[agent(0, 0, 0), agent(0, 0, 3_000_000)]).unwrap();
        assert_eq!(spread_ns, 3_200_000);
        assert!(text.contains("2 agents began within 3.20 ms") && text.contains("to within 0.10 ms"), "{text}");
        let (text, _) = spread(&[agent(0, 0, 0), agent(0, 0, 30_000_000)]).unwrap();
        assert!(text.contains("30.20 ms of each other, more than the 10 ms that are wanted;"), "{text}");
        assert!(spread(&[agent(0, 0, 0)]).is_none());
    }
}
