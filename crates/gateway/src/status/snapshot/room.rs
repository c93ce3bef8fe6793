//! What is left: local ports, memory; and what was turned away for want of room.

use super::Labelled;
use crate::shared::Shared;
use serde::Serialize;
use std::collections::BTreeSet;

/// Pairs that are shown, those with the fewest free ports first. Sources times peers may be many, and each is some lines.
const PAIRS_SHOWN_MAX: usize = 256;

/// The ledger of local ports.
#[derive(Debug, Serialize)]
pub(in crate::status) struct PortsStatus {
    /// Pairs of a source address and a peer that connections were lately opened between.
    pub(in crate::status) pairs_total: u64,
    /// The fewest ports that are left in any of them; absent without one.
    pub(in crate::status) free_least: Option<u32>,
    /// Those of the peers that the configuration names.
    pub(in crate::status) pairs: Vec<PairStatus>,
}

/// The ports of one source address towards one peer.
#[derive(Debug, Serialize)]
pub(in crate::status) struct PairStatus {
    pub(in crate::status) source: String,
    pub(in crate::status) peer: String,
    /// Those that the kernel hands out.
    pub(in crate::status) ports: u32,
    pub(in crate::status) used: u32,
    /// As far as we closed first.
    pub(in crate::status) time_wait: u32,
    /// Of these the ones that the kernel hands out all the same (`tcp_tw_reuse`).
    pub(in crate::status) reusable: u32,
    pub(in crate::status) free: u32,
    pub(in crate::status) opened_per_second: f64,
    /// At the rate of the last ten seconds; absent where they do not become fewer.
    pub(in crate::status) exhausted_in_s: Option<f64>,
}

/// `memory_budget`.
#[derive(Debug, Serialize)]
pub(in crate::status) struct MemoryStatus {
    /// Absent without a limit.
    pub(in crate::status) budget_bytes: Option<u64>,
    pub(in crate::status) held_bytes: u64,
    /// The same by what it is held for; `kept`: buffers for the next exchange.
    pub(in crate::status) held_by: Labelled,
    /// Taken from the budget by workers, spent or not.
    pub(in crate::status) claimed_bytes: u64,
    pub(in crate::status) claimed_peak_bytes: u64,
    /// What is given up at present.
    pub(in crate::status) pressure: &'static str,
    /// What was given up since the start, in occurrences.
    pub(in crate::status) shed: Labelled,
}

/// What was turned away since the start.
#[derive(Debug, Serialize)]
pub(in crate::status) struct OverloadStatus {
    /// `accept4()` found no descriptor or no memory.
    pub(in crate::status) accepts_failed: u64,
    /// `worker_connections` were in use, and none was idle.
    pub(in crate::status) connections_refused: u64,
    /// The accept queue of one of our listeners was full.
    pub(in crate::status) accept_queue_full: u64,
}

/// The ledger as far as it is about these peers: what only requests have named must not decide how much is shown.
pub(super) fn ports(shared: &Shared, peers: &BTreeSet<&str>) -> PortsStatus {
    let stands = shared.ports();
    let (pairs_total, free_least) = (stands.len() as u64, stands.iter().map(|stand| stand.free).min());
    let pairs = stands.into_iter().map(|stand| PairStatus {
        source: stand.pair.source.to_string(),
        peer: stand.pair.peer.to_string(),
        ports: stand.ports,
        used: stand.used,
        time_wait: stand.time_wait,
        reusable: stand.reusable,
        free: stand.free,
        opened_per_second: stand.opened_per_second,
        exhausted_in_s: stand.exhausted_in_s,
    });
    let mut pairs: Vec<PairStatus> = pairs.filter(|pair| peers.contains(pair.peer.as_str())).collect();
    pairs.sort_by_key(|pair| pair.free);
    pairs.truncate(PAIRS_SHOWN_MAX);
    PortsStatus { pairs_total, free_least, pairs }
}

pub(super) fn memory(shared: &Shared) -> MemoryStatus {
    let used = shared.memory();
    let named = used.held_by_connections + used.held_by_exchanges + used.held_by_tunnels;
    MemoryStatus {
        budget_bytes: used.budget,
        held_bytes: used.held,
        held_by: Labelled::from([
            ("connections", used.held_by_connections),
            ("exchanges", used.held_by_exchanges),
            ("tunnels", used.held_by_tunnels),
            // Read one after the other, the parts may be more than the whole for a moment.
            ("kept", used.held.saturating_sub(named)),
        ]),
        claimed_bytes: used.claimed,
        claimed_peak_bytes: used.claimed_most,
        pressure: shared.memory.pressure().label(),
        shed: Labelled::from([
            ("keepalive", used.connections_closed),
            ("requests", used.requests_refused),
            ("accepts", used.accept_pauses),
        ]),
    }
}

pub(super) fn overload(shared: &Shared) -> OverloadStatus {
    let overload = shared.overload();
    OverloadStatus {
        accepts_failed: overload.accepts_failed,
        connections_refused: overload.connections_refused,
        accept_queue_full: overload.accept_drops.queue_full,
    }
}
