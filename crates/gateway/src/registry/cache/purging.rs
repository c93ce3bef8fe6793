//! Cache operations for an operator: list the caches, list their entries, and remove entries. The key of a file is only
//! in the file, so all files are read, on the calling thread; no request waits for it.

use crate::registry::cache::{CacheStatus, CacheZone};
use crate::registry::generation::Generation;
use cache::{Entry, FIXED_BYTES, Key, News, Parsed};
use serde::Serialize;
use std::ffi::OsStr;
use std::fs::File;
use std::io::Read as _;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Longest time for reading files. It suffices for about a million files in the page cache; an operator can repeat the
/// command.
const LOOK_MAX: Duration = Duration::from_secs(30);

/// A cache.
#[derive(Debug, Serialize)]
pub struct CacheRow {
    /// Its name in `keys_zone`.
    pub zone: String,
    /// Keys, with and without files.
    pub keys: u64,
    /// Most keys.
    pub keys_max: u64,
    /// Bytes of its files.
    pub bytes: u64,
    /// Responses from the cache.
    pub hits: u64,
    /// Requests without a stored response.
    pub misses: u64,
    /// Requests with a stored response that was too old.
    pub expired: u64,
    /// Responses that were sent although they were too old.
    pub stale: u64,
    /// Requests that bypassed it.
    pub bypassed: u64,
    /// Responses that could not be written.
    pub write_failures: u64,
    /// Files that were not used: damaged, unreadable, or with the response of another key.
    pub bad_files: u64,
}

/// A response in a cache.
#[derive(Debug, Serialize)]
pub struct EntryRow {
    /// The text of its key.
    pub key: String,
    /// Bytes of its body.
    pub body_bytes: u64,
    /// Remaining freshness in seconds; negative: seconds since it expired.
    pub fresh_s: i64,
    /// One of several variants by `Vary`.
    pub is_variant: bool,
}

/// Selects responses of a cache.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum KeyPattern {
    /// The response with this key, with all variants.
    Exactly(Vec<u8>),
    /// The responses with keys that begin with this.
    Prefix(Vec<u8>),
}

impl KeyPattern {
    /// Parses an operator's pattern: a trailing asterisk matches anything.
    pub fn parse(text: &str) -> Self {
        match text.strip_suffix('*') {
            Some(prefix) => Self::Prefix(prefix.into()),
            None => Self::Exactly(text.into()),
        }
    }

    fn admits(&self, key: &[u8]) -> bool {
        match self {
            Self::Exactly(wanted) => key == wanted,
            Self::Prefix(prefix) => key.starts_with(prefix),
        }
    }
}

/// The result of reading the files of a cache.
#[derive(Debug, Default, Serialize)]
pub struct CacheList {
    /// The first entries.
    pub rows: Vec<EntryRow>,
    /// Number of matching entries.
    pub matching: u64,
    /// Bytes of their bodies.
    pub bytes: u64,
    /// All files were read.
    pub complete: bool,
}

impl Generation {
    /// Lists the caches.
    pub fn cache_rows(&self) -> Vec<CacheRow> {
        let row = |zone: &std::sync::Arc<CacheZone>| {
            let (sums, count) = (zone.sums(), |status| zone.counted(status));
            CacheRow {
                zone: zone.name.to_string(),
                keys: sums.keys as u64,
                keys_max: sums.keys_max as u64,
                bytes: sums.bytes,
                hits: count(CacheStatus::Hit) + count(CacheStatus::Revalidated),
                misses: count(CacheStatus::Miss),
                expired: count(CacheStatus::Expired),
                stale: count(CacheStatus::Stale) + count(CacheStatus::Updating),
                bypassed: count(CacheStatus::Bypass),
                write_failures: zone.failures.load(Ordering::Relaxed),
                bad_files: zone.bad_files.load(Ordering::Relaxed),
            }
        };
        self.caches.iter().map(row).collect()
    }

    /// Lists at most `limit` responses of a cache; `None`: there is no such cache. It reads files.
    pub fn list_cache(&self, zone: &str, wanted: &KeyPattern, limit: usize) -> Option<CacheList> {
        Some(self.cache(zone)?.look_for(wanted, limit, |_| ()))
    }

    /// Removes responses of a cache, and returns them. `None`: there is no such cache. It reads files.
    pub fn purge_cache(&self, zone: &str, wanted: &KeyPattern, limit: usize) -> Option<CacheList> {
        let zone = self.cache(zone)?;
        zone.catch_up();
        Some(zone.look_for(wanted, limit, |key| {
            zone.with_news(|index, tell| {
                index.forget(key);
                tell(News::Gone(key));
            });
            zone.remove_now(&[key]);
        }))
    }

    fn cache(&self, name: &str) -> Option<&CacheZone> {
        self.caches.iter().find(|zone| *zone.name == *name).map(|zone| &**zone)
    }
}

impl CacheZone {
    fn look_for(&self, wanted: &KeyPattern, limit: usize, mut act: impl FnMut(Key)) -> CacheList {
        let now_s = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |now| now.as_secs() as i64);
        let (mut list, mut buffer) = (CacheList { complete: true, ..CacheList::default() }, Vec::new());
        let mut look_at = |list: &mut CacheList, key: Key, path: &Path| {
            let Some(parsed) = read_entry(path, &mut buffer).filter(|parsed| wanted.admits(parsed.key)) else { return };
            list.matching += 1;
            list.bytes += parsed.entry.body_bytes;
            if list.rows.len() < limit {
                list.rows.push(EntryRow {
                    key: String::from_utf8_lossy(parsed.key).into_owned(),
                    body_bytes: parsed.entry.body_bytes,
                    fresh_s: parsed.entry.valid_until.saturating_sub(now_s),
                    is_variant: parsed.entry.variant.is_some(),
                });
            }
            act(key);
        };
        match wanted {
            // The index finds the variants, if it knows all files.
            KeyPattern::Exactly(text) if self.knows_all_files() => {
                let main = Key::of(text);
                let mut keys = self.with_index(|index| index.variants(main));
                // Another process may have stored it.
                if !keys.contains(&main) {
                    keys.push(main);
                }
                for key in keys {
                    look_at(&mut list, key, Path::new(OsStr::from_bytes(&self.path_of(key))));
                }
            }
            _ => list.complete = self.look_through(|key, path| look_at(&mut list, key, path)),
        }
        list
    }

    /// Passes all files to the closure; `false`: the time did not suffice.
    fn look_through(&self, mut show: impl FnMut(Key, &Path)) -> bool {
        let began = Instant::now();
        let mut open: Vec<_> = std::fs::read_dir(self.directory()).into_iter().collect();
        while let Some(directory) = open.last_mut() {
            let Some(Ok(entry)) = directory.next() else {
                open.pop();
                continue;
            };
            if open.len() <= self.levels.depth() {
                open.extend(std::fs::read_dir(entry.path()));
                continue;
            }
            if began.elapsed() > LOOK_MAX {
                return false;
            }
            if let Some(key) = Key::from_hex(entry.file_name().as_bytes()) {
                show(key, &entry.path());
            }
        }
        true
    }
}

/// Reads the beginning of a file; `None` if it is no stored response.
pub(super) fn read_entry<'a>(path: &Path, buffer: &'a mut Vec<u8>) -> Option<Parsed<'a>> {
    let mut file = File::open(path).ok()?;
    let file_bytes = file.metadata().ok()?.len();
    buffer.resize(FIXED_BYTES, 0);
    file.read_exact(buffer).ok()?;
    if let Err(fault) = Entry::parse(buffer, file_bytes) {
        let needed = fault.needs()?;
        buffer.resize(needed, 0);
        file.read_exact(&mut buffer[FIXED_BYTES..]).ok()?;
    }
    Entry::parse(buffer, file_bytes).ok()
}
