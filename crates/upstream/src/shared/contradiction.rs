//! Limits of a group that contradict each other (founding report 4: an idle limit per host above the idle limit of all
//! hosts, unnoticed, cost a third of the throughput). Found when the configuration is checked; the caller decides which
//! are errors.

use std::fmt;

use super::group::GroupLimits;

/// Two limits, one of which makes the other pointless.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Contradiction {
    /// `per_peer=` above the group's idle limit can never be reached.
    IdlePerPeerAboveIdle {
        /// `per_peer=`.
        per_peer: u32,
        /// The process-wide idle limit.
        idle: u32,
    },
    /// The pool can hold more idle connections than there may be connections.
    IdleAboveConnections {
        /// The process-wide idle limit.
        idle: u32,
        /// `max_connections`.
        connections: u32,
    },
    /// The pool is smaller than the permitted concurrency: under load the difference is opened and closed over and over.
    IdleBelowConnections {
        /// The process-wide idle limit.
        idle: u32,
        /// `max_connections`.
        connections: u32,
    },
    /// More simultaneous connects than connections.
    ConnectingAboveConnections {
        /// `connecting=`.
        connecting: u32,
        /// `max_connections`.
        connections: u32,
    },
    /// A waiting line without any limit to wait for.
    NothingToWaitFor {
        /// `queue=`.
        waiting: u32,
    },
}

impl fmt::Display for Contradiction {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::IdlePerPeerAboveIdle { per_peer, idle } => {
                write!(out, "per_peer={per_peer} is above the group's {idle} idle connections and has no effect")
            }
            Self::IdleAboveConnections { idle, connections } => {
                write!(out, "keepalive permits {idle} idle connections, max_connections only {connections} altogether")
            }
            Self::IdleBelowConnections { idle, connections } => write!(
                out,
                "keepalive keeps {idle} of up to {connections} connections: under load the others are closed after \
                 each exchange"
            ),
            Self::ConnectingAboveConnections { connecting, connections } => {
                write!(out, "connecting={connecting} is above max_connections {connections} and has no effect")
            }
            Self::NothingToWaitFor { waiting } => {
                write!(out, "queue={waiting} has no effect without max_connections or connecting=")
            }
        }
    }
}

impl GroupLimits {
    /// The contradictions, for a process with this many workers.
    pub fn contradictions(&self, workers: u16) -> Vec<Contradiction> {
        let mut found = Vec::new();
        let idle = if self.local { self.idle_max.saturating_mul(u32::from(workers)) } else { self.idle_max };
        if let Some(per_peer) = self.idle_per_peer_max.filter(|per_peer| *per_peer > idle) {
            found.push(Contradiction::IdlePerPeerAboveIdle { per_peer, idle });
        }
        if let Some(connections) = self.connections_max {
            if idle > connections {
                found.push(Contradiction::IdleAboveConnections { idle, connections });
            } else if idle < connections && idle > 0 {
                found.push(Contradiction::IdleBelowConnections { idle, connections });
            }
            if let Some(connecting) = self.connecting_max.filter(|connecting| *connecting > connections) {
                found.push(Contradiction::ConnectingAboveConnections { connecting, connections });
            }
        }
        if self.waiting_max > 0 && self.connections_max.is_none() && self.connecting_max.is_none() {
            found.push(Contradiction::NothingToWaitFor { waiting: self.waiting_max });
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn contradicting_limits_are_named_with_their_numbers() {
        let limits = GroupLimits { idle_per_peer_max: Some(200), ..GroupLimits::keepalive(100, false, 1) };
        let found = limits.contradictions(1);
        assert_eq!(found, [Contradiction::IdlePerPeerAboveIdle { per_peer: 200, idle: 100 }]);
        assert!(found[0].to_string().contains("200") && found[0].to_string().contains("100"));
    }

    #[test]
    fn idle_connects_and_line_are_held_against_max_connections() {
        let limits = GroupLimits {
            connections_max: Some(64),
            connecting_max: Some(65),
            waiting_max: 5,
            ..GroupLimits::keepalive(32, false, 4)
        };
        assert_eq!(
            limits.contradictions(4),
            [
                Contradiction::IdleAboveConnections { idle: 128, connections: 64 },
                Contradiction::ConnectingAboveConnections { connecting: 65, connections: 64 },
            ]
        );
        let small = GroupLimits { connections_max: Some(64), ..GroupLimits::keepalive(8, true, 2) };
        assert_eq!(small.contradictions(2), [Contradiction::IdleBelowConnections { idle: 16, connections: 64 }]);
        let idle_line = GroupLimits { waiting_max: 5, ..GroupLimits::keepalive(8, false, 1) };
        assert_eq!(idle_line.contradictions(1), [Contradiction::NothingToWaitFor { waiting: 5 }]);
        assert_eq!(GroupLimits::keepalive(32, false, 2).contradictions(2), []);
    }
}
