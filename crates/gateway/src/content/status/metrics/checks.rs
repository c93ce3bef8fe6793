//! Families about active health checks.

use crate::content::status::metrics::{Family, Kind, Labels, Samples};
use crate::content::status::snapshot::Snapshot;
use crate::content::status::snapshot::checks::{CheckStatus, STATES};

/// Only peers that are checked have them.
pub(crate) const FAMILIES: &[Family] = &[
    Family {
        name: "holdfast_peer_check_state",
        kind: Kind::Gauge,
        labels: "group peer state",
        help: "1 for the state that a peer is in by its health checks, 0 for the others; pending: it must pass one first.",
        write: |out, all| {
            checks(out, all, |out, labels, check| {
                let states = STATES.map(|state| (state, u64::from(state == check.state)));
                out.states(labels, &states);
            });
        },
    },
    Family {
        name: "holdfast_peer_check_changed_timestamp_seconds",
        kind: Kind::Gauge,
        labels: "group peer",
        help: "Unix time since which a peer is in that state.",
        write: |out, all| checks(out, all, |out, labels, check| out.put(labels, check.changed_at_s)),
    },
    Family {
        name: "holdfast_peer_checks_total",
        kind: Kind::Counter,
        labels: "group peer result",
        help: "Health checks of a peer, by what they came to; not_made: this side had no descriptor or port for it.",
        write: |out, all| checks(out, all, |out, labels, check| out.each(labels, "result", &check.results)),
    },
];

fn checks(out: &mut Samples<'_>, all: &Snapshot, mut write: impl FnMut(&mut Samples<'_>, &Labels<'_>, &CheckStatus)) {
    // Groups with many peers, too: a sum has no health.
    out.each_peer(all, |out, labels, peer| {
        if let Some(check) = &peer.check {
            write(out, labels, check);
        }
    });
}
