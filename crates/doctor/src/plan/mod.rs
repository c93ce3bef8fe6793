//! `holdfast plan`: computes which limit of a chain is reached first, at how many connections, and the cheapest way to
//! raise it. Arithmetic over a description, without measurements; `usage` alone reads the system, for `plan --verify`.
//! Called by the binary, and by programs that are about to open many connections.

pub mod chain;
mod document;
mod limits;
pub mod usage;
pub mod verify;

pub use chain::{Chain, ChainError, Ports, Rate, Size, Tier, Traffic, parse_chain};
pub use document::document;
pub use limits::{Lever, Limit};

/// The result for a chain.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Plan {
    /// Lowest first; never empty, because every hop has tuples.
    pub limits: Vec<Limit>,
    /// Timeouts that close idle connections without a fault at either end: place and sentence.
    pub timeouts: Vec<(String, String)>,
    /// Hops that the connections need more than half of the ports of, and how many are quick to open there.
    pub slow_hops: Vec<(String, u64)>,
}

impl Plan {
    /// The limit that is reached first.
    pub fn first(&self) -> Option<&Limit> {
        self.limits.first()
    }
}

/// Computes all limits of a chain that passed [`chain::check`].
pub fn plan(chain: &Chain) -> Plan {
    let timeouts = chain.tiers.iter().filter_map(|tier| {
        let idle = tier.idle_timeout_seconds?;
        let heartbeat = chain.traffic.heartbeat_seconds;
        let quiet = heartbeat == 0 && chain.traffic.sent_per_second <= 0.0 && chain.traffic.received_per_second <= 0.0;
        let sentence = if quiet {
            format!("closes after {idle} s without traffic, and nothing is sent: every connection is cut")
        } else if heartbeat >= idle {
            format!("closes after {idle} s without traffic; heartbeats come every {heartbeat} s, which is not sooner")
        } else {
            return None;
        };
        Some((tier.name.clone(), sentence))
    });
    Plan { timeouts: timeouts.collect(), limits: limits::all(chain), slow_hops: limits::slow_hops(chain) }
}

/// The cheapest lever that suffices for the wanted connections, or the strongest if none does alone.
pub fn cheapest(limit: &Limit, wanted: u64) -> Option<&Lever> {
    let enough = limit.levers.iter().find(|lever| lever.connections_max >= wanted);
    enough.or_else(|| limit.levers.iter().max_by_key(|lever| lever.connections_max))
}
