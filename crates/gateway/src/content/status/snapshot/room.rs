//! Free local ports and memory, and work refused because something ran out.

use crate::content::status::snapshot::{Label, Labelled, labelled};
use crate::registry::process::Registry;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;

/// Most pairs shown, those with the fewest free ports first. There may be many (sources times peers), and each takes
/// several lines.
const PAIRS_SHOWN_MAX: usize = 256;

/// The ledger of local ports.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct PortsStatus {
    /// Pairs of a source address and a peer with recently opened connections.
    pub(crate) pairs_total: u64,
    /// The fewest free ports of any pair; absent if there is no pair.
    pub(crate) free_least: Option<u32>,
    /// The pairs of peers that the configuration names.
    pub(crate) pairs: Vec<PairStatus>,
}

/// The ports of one source address towards one peer.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct PairStatus {
    pub(crate) source: String,
    pub(crate) peer: String,
    /// Ports that the kernel hands out.
    pub(crate) ports: u32,
    pub(crate) used: u32,
    /// Ports in TIME_WAIT, as far as this side closed first.
    pub(crate) time_wait: u32,
    /// Of these, the ports that the kernel hands out anyway (`tcp_tw_reuse`).
    pub(crate) reusable: u32,
    pub(crate) free: u32,
    pub(crate) opened_per_second: f64,
    /// At the rate of the last ten seconds; absent if they do not become fewer.
    pub(crate) exhausted_in_s: Option<f64>,
}

/// `memory_budget`.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct MemoryStatus {
    /// Absent without a limit.
    pub(crate) budget_bytes: Option<u64>,
    pub(crate) held_bytes: u64,
    /// The same by use; `kept`: buffers for the next exchange.
    pub(crate) held_by: Labelled,
    /// Bytes that workers have taken from the budget, spent or not.
    pub(crate) claimed_bytes: u64,
    pub(crate) claimed_peak_bytes: u64,
    /// What is being shed now.
    pub(crate) pressure: Label,
    /// Occurrences of shedding since the start.
    pub(crate) shed: Labelled,
}

/// Connections refused since the start.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct OverloadStatus {
    /// `accept4()` found no descriptor or no memory.
    pub(crate) accepts_failed: u64,
    /// `worker_connections` were in use, and none was idle.
    pub(crate) connections_refused: u64,
    /// The accept queue of one of our listeners was full.
    pub(crate) accept_queue_full: u64,
}

/// The ledger for these peers only: peers that only requests name must not decide how much is shown.
pub(crate) fn ports(registry: &Registry, peers: &BTreeSet<&str>) -> PortsStatus {
    let usages = registry.ports();
    let (pairs_total, free_least) = (usages.len() as u64, usages.iter().map(|usage| usage.free).min());
    let pairs = usages.into_iter().map(|usage| PairStatus {
        source: usage.pair.source.to_string(),
        peer: usage.pair.peer.to_string(),
        ports: usage.ports,
        used: usage.used,
        time_wait: usage.time_wait,
        reusable: usage.reusable,
        free: usage.free,
        opened_per_second: usage.opened_per_second,
        exhausted_in_s: usage.exhausted_in_s,
    });
    let mut pairs: Vec<PairStatus> = pairs.filter(|pair| peers.contains(pair.peer.as_str())).collect();
    pairs.sort_by_key(|pair| pair.free);
    pairs.truncate(PAIRS_SHOWN_MAX);
    PortsStatus { pairs_total, free_least, pairs }
}

pub(crate) fn memory(registry: &Registry) -> MemoryStatus {
    let used = registry.memory();
    let named = used.held_by_connections + used.held_by_exchanges + used.held_by_tunnels;
    MemoryStatus {
        budget_bytes: used.budget,
        held_bytes: used.held,
        held_by: labelled([
            ("connections", used.held_by_connections),
            ("exchanges", used.held_by_exchanges),
            ("tunnels", used.held_by_tunnels),
            // The parts are read one after the other, so their sum may exceed the whole for a moment.
            ("kept", used.held.saturating_sub(named)),
        ]),
        claimed_bytes: used.claimed,
        claimed_peak_bytes: used.claimed_most,
        pressure: registry.memory.pressure().label().into(),
        shed: labelled([
            ("keepalive", used.connections_closed),
            ("requests", used.requests_refused),
            ("accepts", used.accept_pauses),
        ]),
    }
}

pub(crate) fn overload(registry: &Registry) -> OverloadStatus {
    let overload = registry.overload();
    OverloadStatus {
        accepts_failed: overload.accepts_failed,
        connections_refused: overload.connections_refused,
        accept_queue_full: overload.accept_drops.queue_full,
    }
}
