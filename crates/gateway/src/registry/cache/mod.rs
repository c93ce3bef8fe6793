//! The caches of the process. Each has an index behind one lock, which all workers hold for less than a microsecond at
//! a time, and a directory of files. Reloads keep them. The crate `cache` defines the file format, `files` writes
//! files, and `tending` removes them. Several processes have an index each (`sharing`) and share a little memory (`commons`).

pub(crate) mod cached_file;
pub(crate) mod commons;
pub(crate) mod files;
pub(crate) mod fill;
mod kept;
pub mod purging;
pub(crate) mod sharing;
pub(crate) mod tending;

use crate::plan::cache::{CacheZonePlan, CacheZoneSettings};
use crate::registry::cache::commons::CacheCommons;
use crate::registry::cache::fill::Fill;
use crate::registry::cache::tending::Walk;
use crate::registry::process::Registry;
use crate::registry::shared_zones::ZoneMemory;
use cache::{Found, Full, Index, Key, Levels, Lock, News, Place, Stored};
use std::collections::HashMap;
use std::hash::RandomState;
use std::os::unix::ffi::OsStrExt as _;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// A block of a file system: sizes of files are counted in these.
pub(crate) const BLOCK_BYTES: u64 = 4096;

/// How long after a failed write `proxy_cache_lock` does not hold requests back: the next write tells whether the disk works
/// again.
const FAILS_MS: u64 = 1000;

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
    /// What other processes of the installation have to do with it.
    commons: Option<CacheCommons>,
    /// This process removes old files.
    is_tender: AtomicBool,
    /// The position of the directory walk.
    pub(super) walk: Mutex<Walk>,
    /// There may be files that the index does not know: another walk is due at once.
    pub(super) walk_is_stale: AtomicBool,
    /// A job is managing its files now.
    pub(super) is_tended: AtomicBool,
    /// Makes the names of this process's temporary files unique.
    pub(super) serial: AtomicU64,
    /// Responses by cache status.
    counts: [AtomicU64; CacheStatus::ALL.len()],
    /// Files that could not be written.
    pub(crate) failures: AtomicU64,
    /// Files that were not used: damaged, unreadable, or with the response of another key.
    pub(crate) bad_files: AtomicU64,
    /// Files of other programs that the last walk has found.
    pub(crate) foreign_files: AtomicU64,
    /// When the last write failed, in milliseconds; 0: none has.
    failed_at: AtomicU64,
}

struct ZoneState {
    index: Index<RandomState>,
    settings: CacheZoneSettings,
    /// Responses that are being stored and may be read meanwhile: at most one for each exchange under
    /// `proxy_cache_lock`.
    fills: HashMap<Key, Arc<Fill>>,
    /// The number of the news that is read next.
    told: u32,
}

impl CacheZone {
    /// `memory` is what several processes share.
    pub(crate) fn new(plan: &CacheZonePlan, memory: Option<ZoneMemory>) -> Self {
        let commons = memory.map(CacheCommons::new);
        let told = commons.as_ref().map_or(0, CacheCommons::head);
        let settings = plan.settings;
        let index = Index::new(settings.keys_max, settings.inactive_s, RandomState::new());
        Self {
            name: plan.name.as_str().into(),
            directory: plan.directory.clone(),
            levels: plan.levels,
            state: Mutex::new(ZoneState { index, settings, fills: HashMap::new(), told }),
            is_tender: AtomicBool::new(commons.is_none()),
            commons,
            walk: Mutex::default(),
            walk_is_stale: AtomicBool::new(false),
            is_tended: AtomicBool::new(false),
            serial: AtomicU64::new(0),
            counts: Default::default(),
            failures: AtomicU64::new(0),
            bad_files: AtomicU64::new(0),
            foreign_files: AtomicU64::new(0),
            failed_at: AtomicU64::new(0),
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

    /// Counts a file that could not be written.
    pub(crate) fn note_failure(&self, now_ms: u64) {
        self.failures.fetch_add(1, Ordering::Relaxed);
        self.failed_at.store(now_ms.max(1), Ordering::Relaxed);
    }

    /// Whether files cannot be written now: then it is no use to wait until another request has stored a response.
    pub(crate) fn fails(&self, now_ms: u64) -> bool {
        let failed_at = self.failed_at.load(Ordering::Relaxed);
        failed_at != 0 && now_ms.saturating_sub(failed_at) < FAILS_MS
    }

    pub(crate) fn sums(&self) -> Stored {
        self.with_index(|index| index.sums())
    }

    /// Looks a key up. The place is held until the hold is dropped.
    pub(crate) fn enter(
        self: &Arc<Self>,
        registry: &'static Registry,
        key: Key,
        main: Key,
        min_uses: u32,
        now_s: i64,
    ) -> Result<(CacheHold, Found), Full> {
        let entered = self.with_news(|index, tell| {
            let entered = index.enter(key, main.tag(), min_uses, now_s)?;
            entered.evicted.map(News::Gone).into_iter().chain(entered.used.map(News::File)).for_each(tell);
            Ok(entered)
        })?;
        if let Some(evicted) = entered.evicted {
            self.remove_files(registry, vec![evicted]);
        }
        let (zone, place) = (Arc::clone(self), entered.place);
        let hold = CacheHold { zone, registry, key, place, updates: false, has_claim: false };
        Ok((hold, entered.found))
    }

    /// Removes a key and the variants of its response from the index; returns the removed keys.
    pub(crate) fn purge(&self, main: Key) -> Vec<Key> {
        // The index then knows the variants that other processes have stored.
        self.catch_up();
        self.with_news(|index, tell| {
            tell(News::Purged(main));
            index.purge(main)
        })
    }
}

/// An update of a stale response that takes longer is considered lost, and another request starts one.
const UPDATE_MS: u64 = 60_000;

/// A place in a cache's index, held by an exchange.
pub(crate) struct CacheHold {
    zone: Arc<CacheZone>,
    registry: &'static Registry,
    key: Key,
    place: Place,
    /// The exchange is the one that fills the key; the others are told when it is done.
    updates: bool,
    /// It is so for all processes.
    has_claim: bool,
}

impl CacheHold {
    /// Notes that a file of this size was found, or none.
    pub(crate) fn note_file(&self, bytes: Option<u64>) {
        let bytes = bytes.map(|bytes| bytes.next_multiple_of(BLOCK_BYTES));
        self.zone.with_news(|index, tell| {
            if index.note_file(self.place, bytes) {
                let news = if bytes.is_some() { index.news(self.place) } else { Some(News::Gone(self.key)) };
                news.into_iter().for_each(tell);
            }
        });
    }

    pub(crate) fn look(&self, min_uses: u32, now_s: i64) -> Found {
        self.zone.with_index(|index| index.look(self.place, min_uses, now_s)).unwrap_or(Found::New)
    }

    /// Whether this exchange may renew a stale response.
    pub(crate) fn begin_update(&mut self, now_ms: u64) -> bool {
        let place = self.place;
        if self.zone.with_index(|index| index.lock(place, now_ms, UPDATE_MS)) != Lock::Taken {
            return false;
        }
        self.updates = true;
        let is_ours = self.claim(now_ms, UPDATE_MS);
        if !is_ours {
            self.give_back();
        }
        is_ours
    }

    /// Takes over from the exchange that began the update.
    pub(crate) fn take_over(&mut self, now_ms: u64) {
        self.zone.with_index(|index| index.take_over(self.place, now_ms, UPDATE_MS));
        self.updates = true;
        self.claim(now_ms, UPDATE_MS);
    }

    /// Lets another exchange do the update.
    pub(crate) fn hand_over(&mut self) {
        (self.updates, self.has_claim) = (false, false);
    }

    pub(crate) fn wait(&self, token: u64) {
        self.zone.with_index(|index| index.wait(self.place, token));
    }

    pub(crate) fn set_status(&self, status: u16, until_s: i64) {
        self.zone.with_news(|index, tell| {
            index.set_status(self.place, status, until_s);
            index.news(self.place).into_iter().for_each(tell);
        });
    }

    /// Reports that the file is stored.
    pub(crate) fn stored(&mut self, bytes: u64) {
        let waiting = self.zone.with_news(|index, tell| {
            let waiting = index.stored(self.place, bytes);
            index.news(self.place).into_iter().for_each(tell);
            waiting
        });
        self.updates = false;
        self.wake(waiting);
        self.give_back();
    }

    fn wake(&self, waiting: Vec<u64>) {
        for token in waiting {
            self.registry.wake(token);
        }
    }
}

impl Drop for CacheHold {
    fn drop(&mut self) {
        self.give_back();
        self.zone.with_index(|index| index.leave(self.place));
    }
}
