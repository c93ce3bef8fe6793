//! Peers that refuse connections which are opened ahead of demand: they are left alone for a while.

use reactor::Millis;
use std::cell::RefCell;
use std::collections::HashMap;
use std::time::Duration;
use upstream::shared::KeyId;

/// The first pause after a refusal, doubled with each further one.
const PAUSE_MIN_MS: u64 = 1000;
/// The longest pause: a peer that is back is warm again within this.
const PAUSE_MAX_MS: u64 = 30_000;

/// A peer that refuses, or closes what was opened for it.
#[derive(Debug, Clone, Copy)]
struct Pause {
    refusals: u32,
    until: Millis,
}

/// The peers that are left alone for a while.
#[derive(Debug, Default)]
pub(crate) struct Pauses(RefCell<HashMap<KeyId, Pause>>);

impl Pauses {
    pub(crate) fn holds(&self, key: KeyId, now: Millis) -> bool {
        self.0.borrow().get(&key).is_some_and(|pause| pause.until > now)
    }

    /// Another refusal. Several at the same time are one.
    pub(crate) fn refused(&self, key: KeyId, now: Millis) {
        let mut pauses = self.0.borrow_mut();
        let pause = pauses.entry(key).or_insert(Pause { refusals: 0, until: now });
        if pause.until <= now {
            let ms = PAUSE_MIN_MS.checked_shl(pause.refusals).unwrap_or(PAUSE_MAX_MS).min(PAUSE_MAX_MS);
            *pause = Pause {
                refusals: pause.refusals.saturating_add(1).min(16),
                until: now.after(Duration::from_millis(ms)),
            };
        }
    }

    /// The floor is full: the peer takes connections, and keeps them.
    pub(crate) fn end(&self, key: KeyId) {
        self.0.borrow_mut().remove(&key);
    }
}
