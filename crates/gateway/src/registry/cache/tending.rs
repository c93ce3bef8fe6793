//! Manages the files of a cache: removes files that are unused for too long or exceed the limits, and reads the
//! directory, at the start and again periodically, so that files of an earlier or another process are counted. A job on
//! the offload pool does a little at a time; no request waits for it.

use crate::base::logs::error::Level;
use crate::registry::cache::CacheZone;
use crate::registry::cache::purging::read_entry;
use crate::registry::process::Registry;
use cache::{FIXED_BYTES, Key, News, Record, decode_snapshot, encode_snapshot, is_foreign};
use reactor::{free_bytes, monotonic_millis};
use std::fs::{File, ReadDir};
use std::io::{self, ErrorKind, Read as _};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError, TryLockError};
use std::time::{Duration, Instant};

/// How often an idle cache is checked, if no other process has it.
const LOOK_AGAIN: Duration = Duration::from_secs(1);

/// How often the news of other processes is read.
const CATCH_UP: Duration = Duration::from_millis(100);

/// How much longer a process keeps a key in its index if another process removes the files. It has missed the news then.
const MISSED_S: i64 = 60;

/// Keys that are forgotten then under one lock.
const FORGOTTEN_AT_ONCE: usize = 32;

/// How often the directory is read again: other processes, as during a binary upgrade, store files that this process's
/// index does not know until a request asks for them.
const WALK_AGAIN_S: i64 = 3600;

/// A temporary file that was not written for this long is abandoned.
const ABANDONED_S: i64 = 3600;

/// The index that the previous process saved, in the cache's own directory.
const SNAPSHOT: &str = "index.snapshot";

/// Keys loaded from a snapshot under one lock: some hundred microseconds.
const LOADED_AT_ONCE: usize = 1000;

/// A walk through the directory of a cache.
#[derive(Default)]
pub(crate) struct Walk {
    /// The directories being read, from the cache's own downwards; at most one for each level.
    open: Vec<ReadDir>,
    /// When the last walk ended, in seconds since the epoch.
    ended_at_s: Option<i64>,
    is_walking: bool,
    /// The present walk finds files that the index does not know.
    is_again: bool,
    tally: Tally,
}

/// What a walk has found besides responses.
#[derive(Default)]
struct Tally {
    /// Files that another program has written, or that cannot be read.
    foreign: u64,
    /// The first of them.
    example: Option<PathBuf>,
    /// Files of this program that are damaged or of another version; they are removed.
    damaged: u64,
}

impl Walk {
    fn is_due(&self, tends: bool, now_s: i64) -> bool {
        let is_over = |at: i64| at.saturating_add(WALK_AGAIN_S) <= now_s;
        self.is_walking || self.ended_at_s.is_none_or(|at| tends && is_over(at))
    }
}

impl CacheZone {
    /// Starts the work that is due; returns when to check again.
    pub(crate) fn tend(self: &Arc<Self>, registry: &'static Registry, now_s: i64) -> Duration {
        let look_again = if self.is_shared() { CATCH_UP } else { LOOK_AGAIN };
        self.catch_up();
        let tends = self.check_tender(monotonic_millis().0);
        let settings = self.settings();
        let (sums, first) = self.with_index(|index| (index.sums(), index.first_expires_s()));
        let walks = match self.walk.try_lock() {
            Ok(walk) => walk.is_due(tends, now_s) || self.walk_is_stale.load(Ordering::Acquire),
            Err(TryLockError::Poisoned(walk)) => walk.into_inner().is_due(tends, now_s),
            // A job has it: this thread serves clients and does not wait.
            Err(TryLockError::WouldBlock) => true,
        };
        let is_full = settings.size_max.is_some_and(|most| sums.bytes > most)
            || sums.keys > settings.keys_max
            || settings.free_min > 0;
        let is_due = tends && (first.is_some_and(|at| at <= self.unused_since(now_s)) || is_full);
        if !tends {
            self.with_index(|index| drop(index.expire(now_s - MISSED_S, FORGOTTEN_AT_ONCE)));
        }
        if !(walks || is_due) || self.is_tended.swap(true, Ordering::AcqRel) {
            return look_again;
        }
        let zone = Arc::clone(self);
        let job = move || {
            if is_due {
                zone.remove_old(now_s);
            }
            if walks {
                zone.walk_on(registry, now_s);
            }
            zone.is_tended.store(false, Ordering::Release);
        };
        if registry.offload.submit(job, || ()).is_err() {
            self.is_tended.store(false, Ordering::Release);
        }
        let pause = if walks { settings.loader.sleep } else { settings.manager.sleep };
        pause.clamp(Duration::from_millis(1), look_again)
    }

    /// The time whose keys are unused for too long now. Uses in other processes are told after a while.
    fn unused_since(&self, now_s: i64) -> i64 {
        if self.is_shared() { now_s - i64::from(self.with_index(|index| index.notice_delay_s())) } else { now_s }
    }

    fn remove_old(&self, now_s: i64) {
        let settings = self.settings();
        let mut bytes_max = settings.size_max.unwrap_or(u64::MAX);
        if settings.free_min > 0 {
            // If the file system's free space is unknown, the limit cannot be applied.
            let missing = free_bytes(self.directory()).map_or(0, |free| settings.free_min.saturating_sub(free));
            if missing > 0 {
                bytes_max = bytes_max.min(self.sums().bytes.saturating_sub(missing));
            }
        }
        let (began, unused_since) = (Instant::now(), self.unused_since(now_s));
        for _ in 0..settings.manager.files.max(1) {
            let before = self.sums();
            let gone = self.with_news(|index, tell| {
                let mut gone = index.expire(unused_since, 1);
                if gone.is_empty() {
                    gone = index.shrink(bytes_max, 1);
                }
                gone.iter().copied().map(News::Gone).for_each(tell);
                gone
            });
            self.remove_now(&gone);
            if self.sums() == before || began.elapsed() > settings.manager.threshold {
                break;
            }
        }
    }

    /// Whether the index knows all files that existed at the start.
    pub(super) fn knows_all_files(&self) -> bool {
        let walk = self.walk.lock().unwrap_or_else(PoisonError::into_inner);
        let is_stale = self.walk_is_stale.load(Ordering::Acquire) || (walk.is_walking && walk.is_again);
        walk.ended_at_s.is_some() && !is_stale
    }

    fn walk_on(&self, registry: &Registry, now_s: i64) {
        let settings = self.settings();
        let mut walk = self.walk.lock().unwrap_or_else(PoisonError::into_inner);
        if !walk.is_walking {
            if walk.ended_at_s.is_none() {
                self.load_snapshot(registry);
            }
            walk.tally = Tally::default();
            walk.is_again = self.walk_is_stale.swap(false, Ordering::AcqRel);
            walk.is_walking = true;
            walk.open = std::fs::read_dir(self.directory()).into_iter().collect();
        }
        let (began, mut files) = (Instant::now(), 0);
        while files < settings.loader.files.max(1) && began.elapsed() <= settings.loader.threshold {
            let Some(directory) = walk.open.last_mut() else {
                walk.is_walking = false;
                walk.ended_at_s = Some(now_s);
                self.report(registry, &walk.tally);
                return;
            };
            let Some(Ok(entry)) = directory.next() else {
                walk.open.pop();
                continue;
            };
            let path = entry.path();
            if walk.open.len() <= self.levels.depth() {
                walk.open.extend(std::fs::read_dir(&path));
                continue;
            }
            files += 1;
            self.note_found(&path, entry.file_name().as_bytes(), now_s, &mut walk.tally);
        }
    }

    /// Logs what a walk has found besides responses.
    fn report(&self, registry: &Registry, tally: &Tally) {
        self.foreign_files.store(tally.foreign, Ordering::Relaxed);
        if !self.tends() {
            // The process that removes files tells it for all.
            return;
        }
        let place = self.directory().display();
        if let Some(example) = &tally.example {
            let message = format!(
                "cache \"{}\": {} files in \"{place}\" are not of Holdfast, the first is \"{}\"; they are left alone, and max_size does \
                 not count them",
                self.name,
                tally.foreign,
                example.display()
            );
            registry.error_log.log(Level::Warn, &message);
        }
        if tally.damaged > 0 {
            let message =
                format!("cache \"{}\": {} damaged files in \"{place}\" were removed", self.name, tally.damaged);
            registry.error_log.log(Level::Warn, &message);
        }
    }

    /// Loads the index that the previous process saved. The walk corrects errors in the snapshot.
    fn load_snapshot(&self, registry: &Registry) {
        let path = self.directory().join(SNAPSHOT);
        let unused = |why: &dyn std::fmt::Display| {
            let message = format!("\"{}\" is not used: {why}; the folder is read instead", path.display());
            registry.error_log.log(Level::Warn, &message);
        };
        let bytes = match std::fs::read(&path) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == ErrorKind::NotFound => return,
            Err(error) => return unused(&error),
        };
        let records = match decode_snapshot(&bytes) {
            Ok(records) => records,
            Err(fault) => return unused(&fault),
        };
        let records = records.collect::<Vec<_>>();
        self.with_index(|index| index.reserve(records.len()));
        for part in records.chunks(LOADED_AT_ONCE) {
            self.with_index(|index| {
                for record in part {
                    index.load(*record);
                }
            });
        }
    }

    /// Saves the index for the next process. Called by a worker that has ended.
    pub(crate) fn save_snapshot(&self) {
        if !self.tends() {
            return;
        }
        let bytes = self.with_index(|index| encode_snapshot(index.records()));
        let (place, mut temporary) = (self.directory().join(SNAPSHOT), self.directory().clone());
        temporary.push(format!("{SNAPSHOT}.{}", std::process::id()));
        if std::fs::write(&temporary, bytes).and_then(|()| std::fs::rename(&temporary, place)).is_err() {
            // Without it the next process walks through the directory.
            let _ = std::fs::remove_file(temporary);
        }
    }

    /// Handles a file that was found in the directory.
    fn note_found(&self, path: &Path, name: &[u8], now_s: i64, tally: &mut Tally) {
        let Ok(metadata) = std::fs::metadata(path) else { return };
        let Some(key) = Key::from_hex(name) else {
            let is_ours = name.split(|&byte| byte == b'.').next().is_some_and(|name| Key::from_hex(name).is_some());
            if is_ours && metadata.mtime().saturating_add(ABANDONED_S) < now_s {
                let _ = std::fs::remove_file(path);
            }
            return;
        };
        if self.with_index(|index| index.knows(key)) {
            return;
        }
        let mut buffer = Vec::new();
        let Some(main) = read_entry(path, &mut buffer).map(|parsed| Key::of(parsed.key)) else {
            self.note_strange(path, tally);
            return;
        };
        let inactive_s = self.settings().inactive_s;
        let record = Record {
            key,
            tag: main.tag(),
            bytes: metadata.blocks() * 512,
            expires_s: metadata
                .mtime()
                .max(metadata.atime())
                .max(now_s.saturating_sub(inactive_s))
                .saturating_add(inactive_s),
        };
        if !self.with_index(|index| index.load(record) || index.knows(key)) && self.tends() {
            let _ = std::fs::remove_file(path);
        }
    }

    /// Handles a file with the name of a key that is no response.
    fn note_strange(&self, path: &Path, tally: &mut Tally) {
        match begins_foreign(path) {
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            // One that is being replaced right now is complete under its name.
            Ok(false) => {
                tally.damaged += 1;
                self.bad_files.fetch_add(1, Ordering::Relaxed);
                let _ = std::fs::remove_file(path);
            }
            Ok(true) | Err(_) => {
                tally.foreign += 1;
                tally.example.get_or_insert_with(|| path.to_owned());
            }
        }
    }
}

/// Whether a file is another program's.
fn begins_foreign(path: &Path) -> io::Result<bool> {
    let mut beginning = Vec::new();
    File::open(path)?.take(FIXED_BYTES as u64).read_to_end(&mut beginning)?;
    Ok(is_foreign(&beginning))
}
