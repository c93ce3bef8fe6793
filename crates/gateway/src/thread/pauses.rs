//! Pauses for peers that refuse connections opened ahead of demand.

use reactor::Millis;
use std::cell::RefCell;
use std::collections::HashMap;
use std::time::Duration;
use upstream::shared::KeyId;

/// The first pause after a refusal; each further one doubles it.
const PAUSE_MIN_MS: u64 = 1000;
/// The longest pause: a recovered peer has its connections again within this time.
const PAUSE_MAX_MS: u64 = 30_000;

/// A peer that refuses connections, or closes those opened for it.
#[derive(Debug, Clone, Copy)]
struct Pause {
    refusals: u32,
    until: Millis,
}

/// The peers that are paused.
#[derive(Debug, Default)]
pub(crate) struct Pauses(RefCell<HashMap<KeyId, Pause>>);

impl Pauses {
    pub(crate) fn holds(&self, key: KeyId, now: Millis) -> bool {
        self.0.borrow().get(&key).is_some_and(|pause| pause.until > now)
    }

    /// Notes a refusal. Several at the same time count as one.
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

    /// Ends the pause: the floor is full, so the peer accepts connections and keeps them.
    pub(crate) fn end(&self, key: KeyId) {
        self.0.borrow_mut().remove(&key);
    }
}
