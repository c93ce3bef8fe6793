//! What is compared, how often and for how long: arms, rows, rounds. Numbers in, numbers out; nothing runs here.

use serde::Serialize;
use std::time::Duration;

/// What stands between the client and the origin.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Arm {
    /// Nothing.
    Direct,
    /// The gateway, which opens a connection to the origin for each request.
    Unpooled,
    /// The gateway with a pool of connections to the origin.
    Pooled,
}

impl Arm {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Direct => "direct",
            Self::Unpooled => "unpooled",
            Self::Pooled => "pooled",
        }
    }
}

/// One line of the table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Row {
    pub(super) arm: Arm,
    /// Whether the client keeps its connections, or opens one per request as `ab` without `-k` does.
    pub(super) keepalive: bool,
}

/// All lines, in the order in which they are shown. The direct one of each kind of client comes first.
pub(super) const ROWS: [Row; 6] = [
    Row { arm: Arm::Direct, keepalive: false },
    Row { arm: Arm::Unpooled, keepalive: false },
    Row { arm: Arm::Pooled, keepalive: false },
    Row { arm: Arm::Direct, keepalive: true },
    Row { arm: Arm::Unpooled, keepalive: true },
    Row { arm: Arm::Pooled, keepalive: true },
];

/// Rounds where there is time for them: an odd number, so that the median is a round that took place.
const ROUNDS: u32 = 5;
/// Rounds of a short demo.
const ROUNDS_SHORT: u32 = 3;
/// Below this a demo is short: five rounds of six rows would leave less than a third of a second for each.
const SHORT_S: u32 = 10;
/// Part of a segment that is not measured, because connections and caches are being filled.
const WARM_UP_PART: u32 = 6;
/// Threads of the client at most: four of them load any single-threaded gateway or origin fully.
const CLIENT_THREADS_MAX: usize = 4;

/// How a demo proceeds. A segment is one row in one round.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Plan {
    pub(super) rounds: u32,
    /// Not measured, at the start of each segment.
    pub(super) warm_up: Duration,
    /// Measured, after that.
    pub(super) window: Duration,
    pub(super) connections: u32,
    pub(super) client_threads: usize,
}

impl Plan {
    /// `seconds` of load altogether, warm-ups included.
    pub(super) fn new(seconds: u32, connections: u32, cores: usize) -> Self {
        let rounds = if seconds < SHORT_S { ROUNDS_SHORT } else { ROUNDS };
        let segment = Duration::from_secs(u64::from(seconds)) / (rounds * ROWS.len() as u32);
        let warm_up = segment / WARM_UP_PART;
        // One core each for gateway and origin, the rest for the client.
        let client_threads = cores.saturating_sub(2).clamp(1, CLIENT_THREADS_MAX).min(connections as usize);
        Self { rounds, warm_up, window: segment.saturating_sub(warm_up), connections, client_threads }
    }

    /// The rows of a round by their index in [`ROWS`]: forwards and backwards in turn, so that a machine that slows down
    /// or speeds up in the course of the demo favours no arm.
    pub(super) fn order(round: u32) -> Vec<usize> {
        let forwards = 0..ROWS.len();
        if round.is_multiple_of(2) { forwards.collect() } else { forwards.rev().collect() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_given_is_the_time_used() {
        for (seconds, rounds) in [(1, 3), (9, 3), (10, 5), (20, 5), (600, 5)] {
            let plan = Plan::new(seconds, 30, 2);
            assert_eq!(plan.rounds, rounds);
            let used = (plan.warm_up + plan.window) * (rounds * ROWS.len() as u32);
            assert!(used <= Duration::from_secs(seconds.into()) && plan.window > plan.warm_up * 4, "{plan:?}");
        }
    }

    #[test]
    fn every_round_has_every_row_and_the_next_one_goes_back() {
        assert_eq!(Plan::order(0), [0, 1, 2, 3, 4, 5]);
        assert_eq!(Plan::order(1), [5, 4, 3, 2, 1, 0]);
        assert_eq!(Plan::order(2), Plan::order(0));
    }

    #[test]
    fn the_client_leaves_cores_to_the_others() {
        let threads = |cores, connections| Plan::new(20, connections, cores).client_threads;
        assert_eq!([threads(1, 30), threads(2, 30), threads(4, 30), threads(64, 30), threads(64, 1)], [1, 1, 2, 4, 1]);
    }
}
