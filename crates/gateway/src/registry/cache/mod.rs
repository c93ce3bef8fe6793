//! The caches of the process. Each has an index behind one lock, which all workers hold for less than a microsecond at
//! a time, and a directory of files. Reloads keep them. The crate `cache` defines the file format, `files` writes
//! files, and `tending` removes them.

pub(crate) mod cached_file;
pub(crate) mod files;
pub(crate) mod fill;
pub mod purging;
pub(crate) mod tending;

use crate::plan::cache::{CacheZonePlan, CacheZoneSettings};
use crate::registry::cache::fill::Fill;
use crate::registry::cache::tending::Walk;
use crate::registry::process::Registry;
use cache::{Found, Full, Index, Key, Levels, Lock, Place, Stored};
use std::collections::HashMap;
use std::hash::RandomState;
use std::os::unix::ffi::OsStrExt as _;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// `$upstream_cache_status`
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CacheStatus {
    Miss,
    Bypass,
    Expired,
    Stale,
    Updating,
    Revalidated,
    Hit,
}

impl CacheStatus {
    pub(crate) const ALL: [Self; 7] =
        [Self::Miss, Self::Bypass, Self::Expired, Self::Stale, Self::Updating, Self::Revalidated, Self::Hit];

    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Miss => "MISS",
            Self::Bypass => "BYPASS",
            Self::Expired => "EXPIRED",
            Self::Stale => "STALE",
            Self::Updating => "UPDATING",
            Self::Revalidated => "REVALIDATED",
            Self::Hit => "HIT",
        }
    }
}

/// A cache.
pub(crate) struct CacheZone {
    pub(crate) name: Box<str>,
    directory: PathBuf,
    pub(super) levels: Levels,
    state: Mutex<ZoneState>,
    /// The position of the directory walk.
    pub(super) walk: Mutex<Walk>,
    /// A job is managing its files now.
    pub(super) is_tended: AtomicBool,
    /// Makes the names of this process's temporary files unique.
    pub(super) serial: AtomicU64,
    /// Responses by cache status.
    counts: [AtomicU64; CacheStatus::ALL.len()],
    /// Files that could not be written.
    pub(crate) failures: AtomicU64,
}

struct ZoneState {
    index: Index<RandomState>,
    settings: CacheZoneSettings,
    /// Responses that are being stored and may be read meanwhile: at most one for each exchange under
    /// `proxy_cache_lock`.
    fills: HashMap<Key, Arc<Fill>>,
}

impl CacheZone {
    pub(crate) fn new(plan: &CacheZonePlan) -> Self {
        let settings = plan.settings;
        let index = Index::new(settings.keys_max, settings.inactive_s, RandomState::new());
        Self {
            name: plan.name.as_str().into(),
            directory: plan.directory.clone(),
            levels: plan.levels,
            state: Mutex::new(ZoneState { index, settings, fills: HashMap::new() }),
            walk: Mutex::default(),
            is_tended: AtomicBool::new(false),
            serial: AtomicU64::new(0),
            counts: Default::default(),
            failures: AtomicU64::new(0),
        }
    }

    /// Sets the limits; a reload may change them.
    pub(crate) fn set(&self, settings: CacheZoneSettings) {
        let mut state = self.state();
        state.settings = settings;
        state.index.set_limits(settings.keys_max, settings.inactive_s);
    }

    fn state(&self) -> MutexGuard<'_, ZoneState> {
        // After a panic under the lock the sums are nearly right, and missing files are handled.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn settings(&self) -> CacheZoneSettings {
        self.state().settings
    }

    pub(super) fn with_index<R>(&self, act: impl FnOnce(&mut Index<RandomState>) -> R) -> R {
        act(&mut self.state().index)
    }

    pub(crate) fn directory(&self) -> &PathBuf {
        &self.directory
    }

    /// The path of a key's file.
    pub(crate) fn path_of(&self, key: Key) -> Vec<u8> {
        let mut path = self.directory.as_os_str().as_bytes().to_vec();
        self.levels.write_path(key, &mut path);
        path
    }

    pub(crate) fn count(&self, status: CacheStatus) {
        self.counts[status as usize].fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn counted(&self, status: CacheStatus) -> u64 {
        self.counts[status as usize].load(Ordering::Relaxed)
    }

    pub(crate) fn sums(&self) -> Stored {
        self.with_index(|index| index.sums())
    }

    /// Looks a key up. The place is held until the hold is dropped.
    pub(crate) fn enter(
        self: &Arc<Self>,
        shared: &'static Registry,
        key: Key,
        main: Key,
        min_uses: u32,
        now_s: i64,
    ) -> Result<(CacheHold, Found), Full> {
        let entered = self.with_index(|index| index.enter(key, main.tag(), min_uses, now_s))?;
        if let Some(evicted) = entered.evicted {
            self.remove_files(shared, vec![evicted]);
        }
        let hold = CacheHold { zone: Arc::clone(self), shared, place: entered.place, updates: false };
        Ok((hold, entered.found))
    }

    /// Removes a key and the variants of its response from the index; returns the removed keys.
    pub(crate) fn purge(&self, main: Key) -> Vec<Key> {
        self.with_index(|index| index.purge(main))
    }
}

/// An update of a stale response that takes longer is considered lost, and another request starts one.
const UPDATE_MS: u64 = 60_000;

/// A place in a cache's index, held by an exchange.
pub(crate) struct CacheHold {
    zone: Arc<CacheZone>,
    shared: &'static Registry,
    place: Place,
    /// The exchange is the one that fills the key; the others are told when it is done.
    updates: bool,
}

impl CacheHold {
    pub(crate) fn note_file(&self, bytes: Option<u64>) {
        self.zone.with_index(|index| index.note_file(self.place, bytes));
    }

    pub(crate) fn look(&self, min_uses: u32, now_s: i64) -> Found {
        self.zone.with_index(|index| index.look(self.place, min_uses, now_s)).unwrap_or(Found::New)
    }

    /// Whether this exchange may renew a stale response.
    pub(crate) fn begin_update(&mut self, now_ms: u64) -> bool {
        self.lock(now_ms, UPDATE_MS) == Lock::Taken
    }

    /// Takes over from the exchange that began the update.
    pub(crate) fn take_over(&mut self, now_ms: u64) {
        self.zone.with_index(|index| index.take_over(self.place, now_ms, UPDATE_MS));
        self.updates = true;
    }

    /// Lets another exchange do the update.
    pub(crate) fn hand_over(&mut self) {
        self.updates = false;
    }

    fn lock(&mut self, now_ms: u64, age_ms: u64) -> Lock {
        let lock = self.zone.with_index(|index| index.lock(self.place, now_ms, age_ms));
        self.updates |= lock == Lock::Taken;
        lock
    }

    /// Acquires the right to fill a key; `None` if the response was stored since the lookup.
    pub(crate) fn lock_missing(&mut self, now_ms: u64, age_ms: u64) -> Option<Lock> {
        let place = self.place;
        let lock = self.zone.with_index(|index| (!index.has_file(place)).then(|| index.lock(place, now_ms, age_ms)))?;
        self.updates |= lock == Lock::Taken;
        Some(lock)
    }

    pub(crate) fn wait(&self, token: u64) {
        self.zone.with_index(|index| index.wait(self.place, token));
    }

    pub(crate) fn set_status(&self, status: u16, until_s: i64) {
        self.zone.with_index(|index| index.set_status(self.place, status, until_s));
    }

    /// Reports that the file is stored.
    pub(crate) fn stored(&mut self, bytes: u64) {
        self.updates = false;
        let waiting = self.zone.with_index(|index| index.stored(self.place, bytes));
        self.wake(waiting);
    }

    fn wake(&self, waiting: Vec<u64>) {
        for token in waiting {
            self.shared.wake(token);
        }
    }
}

impl Drop for CacheHold {
    fn drop(&mut self) {
        let updates = self.updates;
        let waiting = self.zone.with_index(|index| {
            let waiting = if updates { index.release(self.place) } else { Vec::new() };
            index.leave(self.place);
            waiting
        });
        self.wake(waiting);
    }
}
