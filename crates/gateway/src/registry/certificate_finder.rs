//! Certificates that handshakes and requests name by variables: read when they are needed, and cached if
//! `ssl_certificate_cache` says so. Reading may wait for a disk, so workers use the offload pool.

use crate::base::file_stamp::FileStamp;
use crate::lower::pairs::{FILE_BYTES_MAX, load_pair};
use crate::plan::tls::PairSource;
use conf::model::CertificateCache;
use lru::LruCache;
use std::fmt;
use std::fs::File;
use std::io::{self, Read as _};
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;
use tls::Pair;

/// A file of passphrases with its bytes.
pub(crate) type Passwords = Option<(PathBuf, Box<[u8]>)>;

/// Finds certificates by their names. Clones share a cache.
#[derive(Debug, Clone, Default)]
pub(crate) struct CertificateFinder(Option<Arc<PairCache>>);

struct PairCache {
    words: CertificateCache,
    kept: Mutex<LruCache<PairSource, Kept>>,
}

impl fmt::Debug for PairCache {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Cache").field("words", &self.words).finish_non_exhaustive()
    }
}

#[derive(Clone)]
struct Kept {
    pair: Pair,
    /// The states of its files when they were read.
    stamps: Vec<Option<FileStamp>>,
    /// When it was read, or its files were last found unchanged.
    checked_at: Instant,
    used_at: Instant,
}

impl CertificateFinder {
    pub(crate) fn new(words: Option<CertificateCache>) -> Self {
        Self(words.map(|words| {
            let entries_max = NonZeroUsize::new(words.entries_max as usize).unwrap_or(NonZeroUsize::MIN);
            // No capacity is reserved: `max` may be far more than there will be.
            let mut kept = LruCache::unbounded();
            kept.resize(entries_max);
            Arc::new(PairCache { words, kept: Mutex::new(kept) })
        }))
    }

    /// The pairs, if all of them are cached and their files need no check. Does not block.
    pub(crate) fn cached(&self, sources: &[PairSource], now: Instant) -> Option<Vec<Pair>> {
        let cache = self.0.as_deref()?;
        let mut kept = cache.lock(now);
        let mut valid = |source| {
            let entry = kept.get_mut(source)?;
            if now.saturating_duration_since(entry.checked_at) >= cache.words.valid {
                return None;
            }
            entry.used_at = now;
            Some(entry.pair.clone())
        };
        sources.iter().map(&mut valid).collect()
    }

    /// Reads the pairs, or finds the cached ones unchanged. It may wait for a disk. The error is the log message.
    pub(crate) fn find(&self, sources: &[PairSource], passwords: &Passwords) -> Result<Vec<Pair>, String> {
        sources.iter().map(|source| self.find_one(source, passwords)).collect()
    }

    fn find_one(&self, source: &PairSource, passwords: &Passwords) -> Result<Pair, String> {
        let Some(cache) = self.0.as_deref() else { return load(source, passwords) };
        let now = Instant::now();
        let stamps: Vec<_> = files(source).map(|path| std::fs::metadata(path).ok().map(FileStamp::from)).collect();
        if let Some(entry) = cache.lock(now).get_mut(source)
            && entry.stamps == stamps
        {
            (entry.checked_at, entry.used_at) = (now, now);
            return Ok(entry.pair.clone());
        }
        let pair = load(source, passwords)?;
        // If files change meanwhile, the next check sees other stamps.
        cache.lock(now).put(source.clone(), Kept { pair: pair.clone(), stamps, checked_at: now, used_at: now });
        Ok(pair)
    }
}

impl PairCache {
    /// Drops entries that are unused for too long, the least recently used first.
    fn lock(&self, now: Instant) -> MutexGuard<'_, LruCache<PairSource, Kept>> {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        let is_idle = |entry: &Kept| now.saturating_duration_since(entry.used_at) >= self.words.inactive;
        while kept.peek_lru().is_some_and(|(_, entry)| is_idle(entry)) {
            kept.pop_lru();
        }
        kept
    }
}

/// The passphrases are not included: they stay as read with the configuration.
fn files(source: &PairSource) -> impl Iterator<Item = &Path> {
    source.files().filter(|path| source.passwords.as_deref() != Some(path))
}

fn load(source: &PairSource, passwords: &Passwords) -> Result<Pair, String> {
    let read = |path: &Path| match passwords {
        Some((file, bytes)) if file == path => Ok(bytes.to_vec()),
        _ => read_whole(path),
    };
    let loaded = load_pair(source, &read, None);
    loaded.map(|plan| plan.pair).map_err(|fault| format!("{}; {}", fault.message, fault.advice))
}

fn read_whole(path: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    // One byte more shows that it is too long.
    File::open(path)?.take(FILE_BYTES_MAX as u64 + 1).read_to_end(&mut bytes)?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::tls::MaterialSource;
    use std::fs;
    use std::time::Duration;

    const WORDS: CertificateCache =
        CertificateCache { entries_max: 2, inactive: Duration::from_secs(10), valid: Duration::from_mins(1) };

    struct Scene(tempfile::TempDir);

    impl Scene {
        fn new() -> Self {
            let scene = Self(tempfile::tempdir().unwrap());
            for name in ["a", "b", "c"] {
                scene.write(name);
            }
            scene
        }

        fn write(&self, name: &str) {
            let made = rcgen::generate_simple_self_signed([name.to_owned()]).unwrap();
            fs::write(self.0.path().join(name), made.cert.pem() + &made.signing_key.serialize_pem()).unwrap();
        }

        fn source(&self, name: &str) -> [PairSource; 1] {
            let file = MaterialSource::File(self.0.path().join(name));
            [PairSource { certificate: file.clone(), key: file, passwords: None, stapled: None, stapling: None }]
        }
    }

    #[test]
    fn keeps_recently_used_certificates_only() {
        let (scene, finder) = (Scene::new(), CertificateFinder::new(Some(WORDS)));
        for name in ["a", "b", "a", "c"] {
            finder.find(&scene.source(name), &None).unwrap();
        }
        let now = Instant::now();
        let is_kept =
            |name: &str, after: u64| finder.cached(&scene.source(name), now + Duration::from_secs(after)).is_some();
        assert_eq!(["a", "b", "c"].map(|name| is_kept(name, 0)), [true, false, true]);
        assert!(is_kept("a", 8) && is_kept("a", 16) && !is_kept("c", 16) && !is_kept("a", 30));
    }

    #[test]
    fn expired_entry_rereads_its_files() {
        let words = CertificateCache { inactive: Duration::from_hours(1), ..WORDS };
        let (scene, finder) = (Scene::new(), CertificateFinder::new(Some(words)));
        let serial = |pairs: &[Pair]| pairs[0].certificate_der().unwrap().to_vec();
        let source = scene.source("a");
        let first = serial(&finder.find(&source, &None).unwrap());
        let later = Instant::now() + WORDS.valid;
        assert!(finder.cached(&source, later).is_none());
        assert_eq!(serial(&finder.find(&source, &None).unwrap()), first, "unchanged");
        scene.write("a");
        assert_ne!(serial(&finder.find(&source, &None).unwrap()), first);
        fs::remove_file(scene.0.path().join("a")).unwrap();
        let error = finder.find(&source, &None).unwrap_err();
        assert!(error.contains("cannot load certificate") && error.contains("No such file"), "{error}");
    }

    #[test]
    fn reads_each_time_without_a_cache() {
        let (scene, finder) = (Scene::new(), CertificateFinder::default());
        let source = scene.source("a");
        assert!(finder.find(&source, &None).is_ok() && finder.cached(&source, Instant::now()).is_none());
        fs::write(scene.0.path().join("a"), vec![b'x'; FILE_BYTES_MAX + 10]).unwrap();
        assert!(finder.find(&source, &None).unwrap_err().contains("1 MB"));
    }
}
