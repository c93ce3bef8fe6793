//! Sockets by TCP state on the two ports of a sample, counted over sock_diag: both ends of each connection, as netstat
//! shows them on one machine.

use super::programs::{GATEWAY_PORT, ORIGIN_PORT};
use anyhow::Result;
use serde::{Deserialize, Serialize};
use sockdiag::{Census, Question, State};
use std::collections::BTreeMap;

/// Sockets on a port by netstat's name of their state. Averages, so not whole numbers; a state that nothing is in is absent.
pub(super) type States = BTreeMap<String, f64>;

/// The two ports of a sample: the mean of several counts.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Ports {
    pub(super) gateway: States,
    pub(super) origin: States,
    /// Those in TIME_WAIT on the origin's port that the origin closed first; the others' opener did.
    pub(super) origin_closed_first: f64,
}

/// The sockets of one moment, by port and by the state's place in [`State::ALL`].
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Count {
    gateway: [u32; State::ALL.len()],
    origin: [u32; State::ALL.len()],
    origin_closed_first: u32,
}

impl Count {
    /// As they are now.
    pub(super) fn take(census: &mut Census) -> Result<Count> {
        // Neither TCP_INFO nor memory: what is not asked for costs nothing.
        let question = Question { tcp_info: false, memory: false, ..Question::default() };
        let (count, _) = census.collect(&question, Count::default, |count, socket| {
            count.add(socket.local.port(), socket.remote.port(), socket.state);
        })?;
        Ok(count)
    }

    fn add(&mut self, local: u16, remote: u16, state: State) {
        let on = |port: u16| local == port || remote == port;
        if on(ORIGIN_PORT) {
            self.origin[state.index()] += 1;
            self.origin_closed_first += u32::from(state == State::TimeWait && local == ORIGIN_PORT);
        } else if on(GATEWAY_PORT) {
            self.gateway[state.index()] += 1;
        }
    }
}

impl Ports {
    /// The mean of several counts, less what was there before any load.
    pub(super) fn average(counts: &[Count], idle: &Count) -> Ports {
        let mean = |value: &dyn Fn(&Count) -> u32| {
            let sum: f64 = counts.iter().map(|count| f64::from(value(count))).sum();
            sum / counts.len().max(1) as f64 - f64::from(value(idle))
        };
        let states = |port: fn(&Count) -> &[u32; State::ALL.len()]| -> States {
            let each = State::ALL
                .into_iter()
                .map(|state| (state.name().to_owned(), mean(&|count: &Count| port(count)[state.index()])));
            each.filter(|(_, count)| count.abs() > f64::EPSILON).collect()
        };
        Ports {
            gateway: states(|count| &count.gateway),
            origin: states(|count| &count.origin),
            origin_closed_first: mean(&|count: &Count| count.origin_closed_first),
        }
    }
}

/// Those in one state.
pub(super) fn of(states: &States, state: State) -> f64 {
    states.get(state.name()).copied().unwrap_or(0.0)
}

/// All of them.
pub(super) fn all(states: &States) -> f64 {
    // The sum of nothing would be -0.
    states.values().fold(0.0, |sum, count| sum + count)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sockets_are_averaged_less_those_that_were_there_before() {
        let mut idle = Count::default();
        idle.add(ORIGIN_PORT, 0, State::Listen);
        let mut one = idle;
        one.add(40_000, ORIGIN_PORT, State::Established);
        one.add(ORIGIN_PORT, 40_000, State::Established);
        one.add(ORIGIN_PORT, 40_001, State::TimeWait);
        one.add(40_002, GATEWAY_PORT, State::TimeWait);
        one.add(40_003, 22, State::Established);
        let average = Ports::average(&[one, idle], &idle);
        assert_eq!((of(&average.origin, State::Established), all(&average.origin)), (1.0, 1.5));
        assert_eq!((average.origin_closed_first, all(&average.gateway)), (0.5, 0.5));
        assert!(!average.origin.contains_key("LISTEN"));
    }
}
