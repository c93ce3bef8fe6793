//! The state of checked peers.

use crate::content::status::snapshot::{Label, Labelled, labelled};
use crate::registry::checks::Finding;
use crate::registry::checks::schedule::{Checks, PeerChecks};
use crate::registry::status_list::peer_label;
use rustc_hash::FxHashMap;
use serde::{Deserialize, Serialize};
use upstream::Millis;
use upstream::balance::Checked;

/// The active checks of a peer.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct CheckStatus {
    pub(crate) state: Label,
    /// Unix time of its last change of state.
    pub(crate) changed_at_s: u64,
    pub(crate) passed: u64,
    pub(crate) failed: u64,
    /// Number of equal results in a row, up to the last check.
    pub(crate) in_a_row: u32,
    /// Checks, by result.
    pub(crate) results: Labelled,
    /// Absent before the first check.
    pub(crate) last: Option<LastCheck>,
}

/// The last check of a peer.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct LastCheck {
    pub(crate) result: Label,
    /// What went wrong, if it did not pass.
    pub(crate) detail: String,
    pub(crate) ago_s: f64,
}

/// States, in the order of their labels.
pub(crate) const STATES: [&str; 3] = ["healthy", "pending", "unhealthy"];

fn state(checked: Checked) -> &'static str {
    match checked {
        Checked::Healthy => "healthy",
        Checked::Pending => "pending",
        Checked::Unhealthy => "unhealthy",
    }
}

/// Checked peers by the name of their group and their name in it.
pub(crate) fn by_peer(checks: &Checks) -> FxHashMap<(String, String), PeerChecks> {
    let name = |peer: &PeerChecks| peer_label(&peer.address.to_string(), peer.ordinal);
    checks.peers_checks().into_iter().map(|peer| ((peer.group.to_string(), name(&peer)), peer)).collect()
}

impl CheckStatus {
    /// `now` and `now_s` are the same moment, on the process's clock and on the wall clock.
    pub(crate) fn new(peer: &PeerChecks, now: Millis, now_s: u64) -> Self {
        let results = labelled(Finding::ALL.into_iter().map(Finding::label).zip(peer.counts));
        let of = |finding: Finding| peer.counts[finding as usize];
        let made = peer.counts.iter().sum::<u64>() - of(Finding::NotMade);
        Self {
            state: state(peer.state).into(),
            changed_at_s: now_s.saturating_sub(now.since(peer.since) / 1000),
            passed: of(Finding::Passed),
            failed: made - of(Finding::Passed),
            in_a_row: peer.run.0,
            results,
            last: peer.last.as_ref().map(|(result, at)| LastCheck {
                result: result.finding.label().into(),
                detail: result.detail.clone(),
                ago_s: now.since(*at) as f64 / 1000.0,
            }),
        }
    }
}
