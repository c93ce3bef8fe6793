//! The families of peers. If there are very many, each group has the sum over its own.

use crate::content::status::metrics::{Family, Samples};
use crate::content::status::snapshot::{PeerStatus, Snapshot};
use report::prometheus::{Kind, Labels};

/// Most peers of all groups that have series of their own: about 6 KB each, so about 6 MB for a scrape. A cluster may have
/// tens of thousands of peers: a scrape of all would take 100 MB here and in Prometheus.
pub(super) const PEERS_MAX: usize = 1000;

/// The label of the sum over the peers of a group.
const ALL_PEERS: &str = "*";

/// Connections, attempts and times of peers.
pub(crate) const FAMILIES: &[Family] = &[
    Family {
        name: "holdfast_peer_connections",
        kind: Kind::Gauge,
        labels: "group peer state",
        help: "Connections to a peer; leased: with an exchange or a tunnel.",
        write: |out, all| {
            out.peers(all, |out, labels, peer| {
                let states = [("connecting", peer.connecting), ("idle", peer.idle), ("leased", peer.leased)];
                out.states(labels, &states);
            });
        },
    },
    Family {
        name: "holdfast_peer_attempts_total",
        kind: Kind::Counter,
        labels: "group peer",
        help: "Attempts at a peer that have ended, whatever came of them.",
        write: |out, all| out.peers(all, |out, labels, peer| out.put(labels, peer.attempts)),
    },
    Family {
        name: "holdfast_peer_failed_total",
        kind: Kind::Counter,
        labels: "group peer",
        help: "Attempts that failed.",
        write: |out, all| out.peers(all, |out, labels, peer| out.put(labels, peer.failed)),
    },
    Family {
        name: "holdfast_peer_opened_total",
        kind: Kind::Counter,
        labels: "group peer",
        help: "Attempts for which a connection was established.",
        write: |out, all| out.peers(all, |out, labels, peer| out.put(labels, peer.opened)),
    },
    Family {
        name: "holdfast_peer_reused_total",
        kind: Kind::Counter,
        labels: "group peer",
        help: "Attempts on a pooled connection.",
        write: |out, all| out.peers(all, |out, labels, peer| out.put(labels, peer.reused)),
    },
    Family {
        name: "holdfast_peer_responses_total",
        kind: Kind::Counter,
        labels: "group peer class",
        help: "Responses of a peer by class of their status.",
        write: |out, all| out.peers(all, |out, labels, peer| out.each(labels, "class", &peer.responses)),
    },
    Family {
        name: "holdfast_peer_connect_duration_seconds",
        kind: Kind::Histogram,
        labels: "group peer",
        help: "How long connecting took, where that succeeded.",
        write: |out, all| out.peers(all, |out, labels, peer| out.histogram(labels, &peer.connect_time)),
    },
    Family {
        name: "holdfast_peer_response_duration_seconds",
        kind: Kind::Histogram,
        labels: "group peer",
        help: "From the beginning of an attempt to the last byte of its response.",
        write: |out, all| out.peers(all, |out, labels, peer| out.histogram(labels, &peer.response_time)),
    },
];

impl Samples<'_> {
    /// Peers, or a sum for each group if there are many.
    fn peers(&mut self, snapshot: &Snapshot, mut write: impl FnMut(&mut Self, &Labels<'_>, &PeerStatus)) {
        if self.sums.is_empty() {
            return self.each_peer(snapshot, write);
        }
        for (group, sum) in snapshot.groups.iter().zip(self.sums) {
            if let Some(sum) = sum {
                write(self, &[("group", &group.name), ("peer", &sum.address)], sum);
            }
        }
    }

    pub(super) fn each_peer(
        &mut self,
        snapshot: &Snapshot,
        mut write: impl FnMut(&mut Self, &Labels<'_>, &PeerStatus),
    ) {
        for group in &snapshot.groups {
            for peer in &group.peers {
                write(self, &[("group", &group.name), ("peer", &peer.address)], peer);
            }
        }
    }
}

/// A sum for each group, if all groups together have more than `most` peers; otherwise nothing.
pub(super) fn sums_of_many(snapshot: &Snapshot, most: usize) -> Vec<Option<PeerStatus>> {
    let peers: usize = snapshot.groups.iter().map(|group| group.peers.len()).sum();
    if peers <= most {
        return Vec::new();
    }
    snapshot.groups.iter().map(|group| PeerStatus::sum_of(&group.peers, ALL_PEERS)).collect()
}
