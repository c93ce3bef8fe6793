//! Whether a group's limits are too small for its load (founding report 4), derived from one minute's counters: which
//! limit, the numbers, and what to set. Pure: a value in, words out; the gateway asks once a minute and logs the
//! answer.

use std::fmt;

use crate::DiscardReason;
use crate::shared::{GroupCounts, GroupLimits};

/// Least number of connections or requests a minute that a limit must cost before it is logged: one a second. Smaller
/// losses go unnoticed, and a pool that shrinks after a peak rightly closes some connections.
const COST_MIN: u64 = 60;

/// Counters of a group over one minute.
#[derive(Debug, Clone, Copy)]
pub struct Minute<'a> {
    /// Its limits, for the whole process.
    pub limits: &'a GroupLimits,
    /// Workers that share them.
    pub workers: u16,
    /// The counters a minute ago and now.
    pub before: &'a GroupCounts,
    /// As above.
    pub now: &'a GroupCounts,
    /// Peak number of connections.
    pub connections_peak: u32,
    /// Peak number of idle connections.
    pub idle_peak: u32,
}

/// A limit that is too small.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shortage {
    /// `keepalive`: connections are closed because the pool is full, and opened again.
    Idle {
        /// Connections discarded.
        closed: u64,
        /// Idle connections that are kept, as `keepalive` counts them.
        keepalive: u32,
        /// Peak number of connections.
        peak: u32,
        /// The value that `keepalive` would need.
        enough: u32,
    },
    /// `per_peer=`: the same with the limit for one peer.
    IdlePerPeer {
        /// Connections discarded.
        closed: u64,
        /// `per_peer=`.
        per_peer: u32,
        /// Peak number of connections.
        peak: u32,
    },
    /// `max_connections`: idle connections are closed to make room for others.
    Room {
        /// Connections discarded.
        closed: u64,
        /// `max_connections`.
        connections: u32,
    },
    /// `max_connections` and `queue=`: requests are refused.
    Line {
        /// Requests refused.
        refused: u64,
        /// `max_connections`.
        connections: u32,
        /// `queue=`.
        waiting: u32,
    },
}

impl Minute<'_> {
    /// The limits that were too small.
    pub fn shortages(&self) -> Vec<Shortage> {
        let mut found = Vec::new();
        let limits = self.limits;
        let closed = self.discarded(DiscardReason::PoolFull);
        if closed >= COST_MIN {
            let (workers, peak) = (u32::from(self.workers.max(1)), self.connections_peak);
            let process_wide = if limits.local { limits.idle_max.saturating_mul(workers) } else { limits.idle_max };
            found.push(match limits.idle_per_peer_max {
                Some(per_peer) if self.idle_peak < process_wide => Shortage::IdlePerPeer { closed, per_peer, peak },
                _ => Shortage::Idle {
                    closed,
                    keepalive: process_wide / workers,
                    peak,
                    enough: peak.max(process_wide + 1).div_ceil(workers),
                },
            });
        }
        let Some(connections) = limits.connections_max else { return found };
        let closed = self.discarded(DiscardReason::MadeRoom);
        if closed >= COST_MIN {
            found.push(Shortage::Room { closed, connections });
        }
        let refused = self.now.refused.saturating_sub(self.before.refused);
        if refused >= COST_MIN {
            found.push(Shortage::Line { refused, connections, waiting: limits.waiting_max });
        }
        found
    }

    fn discarded(&self, reason: DiscardReason) -> u64 {
        let of = |counts: &GroupCounts| counts.discarded[reason.index()];
        of(self.now).saturating_sub(of(self.before))
    }
}

impl fmt::Display for Shortage {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Idle { closed, keepalive, peak, enough } => write!(
                out,
                "{closed} connections closed in a minute because the pool was full: keepalive is {keepalive} per worker, \
                 up to {peak} connections were open; \"keepalive {enough}\" keeps them"
            ),
            Self::IdlePerPeer { closed, per_peer, peak } => write!(
                out,
                "{closed} connections closed in a minute because one peer's share of the pool was full: per_peer is \
                 {per_peer}, up to {peak} connections were open in the group; raise per_peer or leave it out"
            ),
            Self::Room { closed, connections } => write!(
                out,
                "{closed} idle connections closed in a minute to make room for others: max_connections is {connections}; \
                 raise it, or let fewer peers and locations share it"
            ),
            Self::Line { refused, connections, waiting } => write!(
                out,
                "{refused} requests refused in a minute because all of max_connections {connections} were in use and \
                 {waiting} requests waited; raise max_connections or queue"
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(full: u64, room: u64, refused: u64) -> GroupCounts {
        let mut counts = GroupCounts { refused, ..GroupCounts::default() };
        counts.discarded[DiscardReason::PoolFull.index()] = full;
        counts.discarded[DiscardReason::MadeRoom.index()] = room;
        counts
    }

    fn shortages(limits: &GroupLimits, before: &GroupCounts, now: &GroupCounts) -> Vec<Shortage> {
        Minute { limits, workers: 4, before, now, connections_peak: 1000, idle_peak: 100 }.shortages()
    }

    #[test]
    fn pool_of_100_under_a_load_of_1000_gets_advice() {
        let limits = GroupLimits::keepalive(25, false, 4);
        let found = shortages(&limits, &counts(100, 0, 0), &counts(54_100, 0, 0));
        assert_eq!(found, [Shortage::Idle { closed: 54_000, keepalive: 25, peak: 1000, enough: 250 }]);
        let words = found[0].to_string();
        assert!(words.contains("54000") && words.contains("\"keepalive 250\""), "{words}");
    }

    #[test]
    fn exhausted_share_is_named_if_the_pool_had_room() {
        let limits = GroupLimits { idle_per_peer_max: Some(10), ..GroupLimits::keepalive(32, false, 4) };
        let found = shortages(&limits, &counts(0, 0, 0), &counts(60, 0, 0));
        assert_eq!(found, [Shortage::IdlePerPeer { closed: 60, per_peer: 10, peak: 1000 }]);
    }

    #[test]
    fn reports_room_and_queue_shortages_separately() {
        let limits = GroupLimits { connections_max: Some(50), waiting_max: 5, ..GroupLimits::keepalive(32, false, 4) };
        assert_eq!(shortages(&limits, &counts(0, 0, 0), &counts(59, 59, 59)), []);
        assert_eq!(
            shortages(&limits, &counts(0, 0, 0), &counts(0, 70, 80)),
            [
                Shortage::Room { closed: 70, connections: 50 },
                Shortage::Line { refused: 80, connections: 50, waiting: 5 },
            ]
        );
    }
}
