//! A cache's index beside those of the other processes (`worker_groups`): each follows the news of all, in one order. A process
//! with the only index has no commons, and nothing of this happens.

use crate::registry::cache::commons::{NEWS_MAX, READ_AT_ONCE, Tending};
use crate::registry::cache::{CacheHold, CacheZone};
use crate::registry::shared_zones::ZoneMemory;
use cache::{Index, Key, Lock, News};
use std::hash::RandomState;
use std::sync::atomic::Ordering;

/// Which request fills a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Filler {
    /// The caller.
    Own,
    /// Another request of this process, until this time at the latest, in milliseconds.
    Until(u64),
    /// A request of another process. The caller asks again from time to time, and the other requests of this process wait for
    /// the caller.
    OtherProcess,
}

/// Parts of news that are read at once: twice as many as there can be when it begins.
const PARTS_MAX: u32 = 2 * NEWS_MAX / READ_AT_ONCE;

impl CacheZone {
    /// Whether it shares this memory.
    pub(crate) fn shares(&self, memory: Option<&ZoneMemory>) -> bool {
        match (&self.commons, memory) {
            (Some(commons), Some(memory)) => commons.is_same(memory),
            (commons, memory) => commons.is_none() && memory.is_none(),
        }
    }

    /// Whether other processes have the same cache.
    pub(super) fn is_shared(&self) -> bool {
        self.commons.is_some()
    }

    /// Changes the index, and tells the other processes through the second argument.
    pub(super) fn with_news<R>(&self, act: impl FnOnce(&mut Index<RandomState>, &dyn Fn(News)) -> R) -> R {
        let tell = |news| {
            if let Some(commons) = &self.commons {
                commons.publish(news);
            }
        };
        act(&mut self.state().index, &tell)
    }

    /// Follows what the other processes have told so far.
    pub(super) fn catch_up(&self) {
        let Some(commons) = &self.commons else { return };
        let (mut news, mut has_lost) = (Vec::new(), false);
        for _ in 0..PARTS_MAX {
            // The locks are held for a few of them at a time.
            let mut state = self.state();
            let state = &mut *state;
            let reading = commons.read(&mut state.told, &mut news);
            news.drain(..).for_each(|news| state.index.apply(news));
            has_lost |= reading.has_lost;
            if !reading.has_more {
                break;
            }
        }
        if has_lost {
            self.walk_again();
        }
    }

    /// Whether this process removes old files.
    pub(super) fn check_tender(&self, now_ms: u64) -> bool {
        let tending = self.commons.as_ref().map_or(Tending::Own, |commons| commons.tends(now_ms));
        if tending == Tending::Begins {
            // What it does not know would not be counted.
            self.walk_again();
        }
        let tends = tending != Tending::Other;
        self.is_tender.store(tends, Ordering::Relaxed);
        tends
    }

    /// Whether this process removed old files when it last checked.
    pub(super) fn tends(&self) -> bool {
        self.is_tender.load(Ordering::Relaxed)
    }

    fn walk_again(&self) {
        self.walk_is_stale.store(true, Ordering::Release);
    }

    fn release_claim(&self, key: Key) {
        if let Some(commons) = &self.commons {
            commons.release(key);
        }
    }
}

impl CacheHold {
    /// Acquires the right to fill a key; `None` if the response was stored since the lookup.
    pub(crate) fn lock_missing(&mut self, now_ms: u64, age_ms: u64) -> Option<Filler> {
        let place = self.place;
        let lock = self.zone.with_index(|index| (!index.has_file(place)).then(|| index.lock(place, now_ms, age_ms)))?;
        match lock {
            Lock::Until(until_ms) => Some(Filler::Until(until_ms)),
            Lock::Taken => {
                self.updates = true;
                self.claim_missing(now_ms, age_ms)
            }
        }
    }

    /// The request that has the right among those of this process asks for that of all processes. `None`: the key has a response
    /// meanwhile, and the right is given back.
    pub(crate) fn claim_missing(&mut self, now_ms: u64, age_ms: u64) -> Option<Filler> {
        if !self.claim(now_ms, age_ms) {
            return Some(Filler::OtherProcess);
        }
        if self.zone.is_shared() {
            // A process tells what it has stored before it gives the right back.
            self.zone.catch_up();
            let place = self.place;
            if self.zone.with_index(|index| index.news(place).is_some()) {
                self.give_back();
                return None;
            }
            self.zone.with_index(|index| index.take_over(place, now_ms, age_ms));
        }
        Some(Filler::Own)
    }

    /// Asks for the right of all processes. `false`: another process has it.
    pub(super) fn claim(&mut self, now_ms: u64, age_ms: u64) -> bool {
        let Some(commons) = &self.zone.commons else { return true };
        let claims = commons.claim(self.key, now_ms, age_ms);
        self.has_claim |= claims;
        claims
    }

    /// Gives the right to fill the key back, and wakes the requests that wait for it.
    pub(crate) fn give_back(&mut self) {
        if std::mem::take(&mut self.has_claim) {
            self.zone.release_claim(self.key);
        }
        if std::mem::take(&mut self.updates) {
            let place = self.place;
            let waiting = self.zone.with_index(|index| index.release(place));
            self.wake(waiting);
        }
    }
}
