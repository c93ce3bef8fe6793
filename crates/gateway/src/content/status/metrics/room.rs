//! Families about free ports and memory, and about work that was refused because they ran out.

use crate::content::status::metrics::{Family, Kind, Labels, Samples};
use crate::content::status::snapshot::room::PairStatus;
use crate::content::status::snapshot::{PRESSURES, Snapshot};

/// In the order of the page.
pub(crate) const FAMILIES: &[Family] = &[
    Family {
        name: "holdfast_memory_budget_bytes",
        kind: Kind::Gauge,
        labels: "",
        help: "memory_budget; absent without one.",
        write: |out, all| all.memory.budget_bytes.into_iter().for_each(|bytes| out.plain(bytes)),
    },
    Family {
        name: "holdfast_memory_held_bytes",
        kind: Kind::Gauge,
        labels: "by",
        help: "Bytes of connections and their buffers, by what they are held for; kept: for the next exchange.",
        write: |out, all| out.each(&[], "by", &all.memory.held_by),
    },
    Family {
        name: "holdfast_memory_claimed_bytes",
        kind: Kind::Gauge,
        labels: "",
        help: "Bytes that workers have taken from the budget, spent or not.",
        write: |out, all| out.plain(all.memory.claimed_bytes),
    },
    Family {
        name: "holdfast_memory_claimed_peak_bytes",
        kind: Kind::Gauge,
        labels: "",
        help: "The most that was ever taken.",
        write: |out, all| out.plain(all.memory.claimed_peak_bytes),
    },
    Family {
        name: "holdfast_memory_pressure",
        kind: Kind::Gauge,
        labels: "state",
        help: "1 for what is given up at present, 0 for the others; each state includes the milder ones.",
        write: |out, all| {
            let states = PRESSURES.map(|state| (state, u64::from(state == all.memory.pressure)));
            out.states(&[], &states);
        },
    },
    Family {
        name: "holdfast_memory_shed_total",
        kind: Kind::Counter,
        labels: "what",
        help: "Idle connections closed, requests refused and pauses of accepting for want of memory.",
        write: |out, all| out.each(&[], "what", &all.memory.shed),
    },
    Family {
        name: "holdfast_overload_total",
        kind: Kind::Counter,
        labels: "what",
        help: "Accepting failed for want of descriptors, connections above worker_connections, full accept queues of ours.",
        write: |out, all| {
            let now = &all.overload;
            for (what, count) in [
                ("accepts_failed", now.accepts_failed),
                ("connections_refused", now.connections_refused),
                ("accept_queue_full", now.accept_queue_full),
            ] {
                out.put(&[("what", what)], count);
            }
        },
    },
    Family {
        name: "holdfast_ports",
        kind: Kind::Gauge,
        labels: "source peer state",
        help: "Local ports from an address towards a peer; time_wait: as far as we closed first, free: tcp_tw_reuse counted in.",
        write: |out, all| {
            pairs(out, all, |out, labels, pair| {
                let states = [("free", pair.free), ("time_wait", pair.time_wait), ("used", pair.used)];
                out.states(labels, &states.map(|(state, ports)| (state, u64::from(ports))));
            });
        },
    },
    Family {
        name: "holdfast_ports_exhausted_in_seconds",
        kind: Kind::Gauge,
        labels: "source peer",
        help: "Until no port is left, at the rate of the last ten seconds; absent where they do not become fewer.",
        write: |out, all| {
            pairs(out, all, |out, labels, pair| {
                pair.exhausted_in_s.into_iter().for_each(|seconds| out.put(labels, seconds));
            });
        },
    },
    Family {
        name: "holdfast_port_pairs",
        kind: Kind::Gauge,
        labels: "",
        help: "Pairs of a source address and a peer that the ledger of ports has, those that are not shown included.",
        write: |out, all| out.plain(all.ports.pairs_total),
    },
    Family {
        name: "holdfast_ports_free_least",
        kind: Kind::Gauge,
        labels: "",
        help: "The fewest free ports of all these pairs; absent without one.",
        write: |out, all| all.ports.free_least.into_iter().for_each(|free| out.plain(free.into())),
    },
];

fn pairs(out: &mut Samples<'_>, all: &Snapshot, mut write: impl FnMut(&mut Samples<'_>, &Labels<'_>, &PairStatus)) {
    for pair in &all.ports.pairs {
        write(out, &[("source", &pair.source), ("peer", &pair.peer)], pair);
    }
}
