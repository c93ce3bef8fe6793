//! What is remembered about a peer beyond one generation: failures as nginx counts them, and exchanges under way.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Weak};

use rustc_hash::FxHashMap;

use super::PeerSpec;
use crate::Millis;
use crate::shared::PeerAddress;
use crate::sync::{PlainMutex, lock_plain};

/// A peer's reputation and load, shared by all workers and generations. Failures are a heuristic, so the fields need no
/// order among each other; the exchange count is exact.
#[derive(Debug, Default)]
pub struct PeerHealth {
    fails: AtomicU32,
    /// When it failed last, in milliseconds.
    accessed_ms: AtomicU64,
    /// When it failed last, or was given another chance after `fail_timeout`.
    checked_ms: AtomicU64,
    active: AtomicU32,
}

impl PeerHealth {
    /// Exchanges under way, as far as they are counted.
    pub fn active(&self) -> u32 {
        self.active.load(Relaxed)
    }

    /// Failures since the last successful check.
    pub fn fails(&self) -> u32 {
        self.fails.load(Relaxed)
    }

    pub(super) fn is_ejected(&self, spec: &PeerSpec, now: Millis) -> bool {
        spec.max_fails > 0
            && self.fails() >= spec.max_fails
            && now.since(Millis(self.checked_ms.load(Relaxed))) <= spec.fail_timeout_ms
    }

    /// A pick once per `fail_timeout` is the check: others see the new time and leave an ejected peer alone.
    pub(super) fn checked(&self, now: Millis, fail_timeout_ms: u64) {
        if now.since(Millis(self.checked_ms.load(Relaxed))) > fail_timeout_ms {
            self.checked_ms.store(now.0, Relaxed);
        }
    }

    pub(super) fn failed(&self, now: Millis) -> u32 {
        self.accessed_ms.store(now.0, Relaxed);
        self.checked_ms.store(now.0, Relaxed);
        self.fails.fetch_add(1, Relaxed).saturating_add(1)
    }

    /// A success clears the failures only if the peer was checked since the last of them.
    pub(super) fn succeeded(&self) {
        if self.accessed_ms.load(Relaxed) < self.checked_ms.load(Relaxed) && self.fails() > 0 {
            self.fails.store(0, Relaxed);
        }
    }
}

/// One exchange counted at its peer, until dropped.
#[derive(Debug)]
#[must_use = "dropping it tells the balancer that the exchange ended"]
pub struct Seat(Option<Arc<PeerHealth>>);

impl Seat {
    /// Counts one more exchange unless that would exceed the limit.
    pub(super) fn take(health: &Arc<PeerHealth>, active_max: Option<u32>) -> Option<Self> {
        let limit = active_max.unwrap_or(u32::MAX);
        let more = |active: u32| if active < limit { Some(active + 1) } else { None };
        health.active.fetch_update(Relaxed, Relaxed, more).ok()?;
        Some(Self(Some(health.clone())))
    }

    /// For a peer whose load nobody asks for.
    pub(super) fn uncounted() -> Self {
        Self(None)
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        if let Some(health) = &self.0 {
            health.active.fetch_sub(1, Relaxed);
        }
    }
}

type Identity = (Box<str>, PeerAddress);

/// Every peer's health by group name and address. Holds a peer only as long as a generation does.
#[derive(Debug, Default)]
pub struct HealthRegistry {
    peers: PlainMutex<FxHashMap<Identity, Weak<PeerHealth>>>,
}

impl HealthRegistry {
    /// The health of a peer: that of the generation before, where it had the same peer.
    pub fn health(&self, group: &str, address: &PeerAddress) -> Arc<PeerHealth> {
        let mut peers = lock_plain(&self.peers);
        let identity = (group.into(), address.clone());
        if let Some(health) = peers.get(&identity).and_then(Weak::upgrade) {
            return health;
        }
        // Names that moved away leave an entry each; they are swept when something new comes.
        peers.retain(|_, health| health.strong_count() > 0);
        let health = Arc::new(PeerHealth::default());
        peers.insert(identity, Arc::downgrade(&health));
        health
    }
}
