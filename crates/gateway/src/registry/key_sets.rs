//! The keys of `auth_jwt`. A file of keys is read once, and again after a change; a file that is broken then changes
//! nothing. The answers of subrequests are kept for `auth_jwt_key_cache`. Reading a file may wait for a disk:
//! `phases::auth_jwt` calls it on the offload pool.

use crate::base::file_stamp::FileStamp;
use jwt::KeySet;
use jwt::keys::KEY_SET_BYTES_MAX;
use lru::LruCache;
use std::fs::File;
use std::io::Read as _;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Most sets kept of each kind: with variables in a path or URI, clients choose it.
const SETS_MAX: NonZeroUsize = NonZeroUsize::new(64).expect("not 0");
/// How long a file is not looked at again, at least: one look a second costs nothing.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// A file changed less than this long ago may change again without a new stamp: file systems have coarse clocks.
const SETTLED_AFTER: Duration = Duration::from_secs(1);

/// A file that was read.
struct KnownFile {
    keys: Arc<KeySet>,
    /// The state that was read; `None`: read it again.
    stamp: Option<FileStamp>,
    /// The keys are of this file, not from the configuration.
    is_read_here: bool,
    /// The generation of the configuration, and when the file was looked at.
    looked_at: (u64, Instant),
    /// What was wrong with it then.
    trouble: Option<String>,
}

/// A subrequest: the generation of the configuration, the server, and the URI.
pub(crate) type KeyRequest = (u64, u32, Box<[u8]>);

/// All keys that were read.
pub(crate) struct KeySets {
    files: Mutex<LruCache<PathBuf, KnownFile>>,
    answers: Mutex<LruCache<KeyRequest, (Arc<KeySet>, Instant)>>,
}

/// Keys, and what the error log should have.
pub(crate) type KeysAndNews = (Arc<KeySet>, Option<String>);

impl Default for KeySets {
    fn default() -> Self {
        Self { files: Mutex::new(LruCache::new(SETS_MAX)), answers: Mutex::new(LruCache::new(SETS_MAX)) }
    }
}

impl KeySets {
    fn files(&self) -> MutexGuard<'_, LruCache<PathBuf, KnownFile>> {
        self.files.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The keys of a file that was looked at not long ago.
    pub(crate) fn fresh(&self, path: &Path, generation: u64, cache: Duration) -> Option<Arc<KeySet>> {
        let mut files = self.files();
        let known = files.get(path).filter(|known| known.looked_at.0 == generation)?;
        (known.looked_at.1.elapsed() < cache.max(LOOK_EVERY)).then(|| Arc::clone(&known.keys))
    }

    /// Looks at a file, and reads it if it has changed. If that fails, the earlier keys stay: those read here, or those
    /// of the configuration.
    pub(crate) fn look(
        &self,
        path: &Path,
        generation: u64,
        at_start: Option<Arc<KeySet>>,
    ) -> Result<KeysAndNews, String> {
        let earlier = {
            let mut files = self.files();
            files
                .get(path)
                .map(|known| (Arc::clone(&known.keys), known.stamp.clone(), known.is_read_here, known.trouble.clone()))
        };
        let (stamp, trouble_before) = earlier.as_ref().map_or((None, None), |known| (known.1.clone(), known.3.clone()));
        let (keys, stamp, is_read_here, trouble) = match read(path, stamp.as_ref()) {
            Ok(Some((keys, stamp))) => (Arc::new(keys), stamp, true, None),
            Ok(None) => {
                let (keys, stamp, is_read_here, _) = earlier.ok_or("it has not changed, but was not read")?;
                (keys, stamp, is_read_here, None)
            }
            Err(trouble) => {
                let kept = match (earlier, at_start) {
                    (Some((keys, _, true, _)), _) => Some((keys, true)),
                    (_, Some(keys)) => Some((keys, false)),
                    (earlier, None) => earlier.map(|(keys, ..)| (keys, false)),
                };
                let Some((keys, is_read_here)) = kept else { return Err(trouble) };
                (keys, None, is_read_here, Some(trouble))
            }
        };
        // Logged once, not with each look.
        let news = trouble.clone().filter(|_| trouble != trouble_before);
        let known = KnownFile {
            keys: Arc::clone(&keys),
            stamp,
            is_read_here,
            looked_at: (generation, Instant::now()),
            trouble,
        };
        self.files().put(path.to_owned(), known);
        Ok((keys, news))
    }

    fn answers(&self) -> MutexGuard<'_, LruCache<KeyRequest, (Arc<KeySet>, Instant)>> {
        self.answers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The keys of a subrequest that was answered less than `cache` ago.
    pub(crate) fn answer(&self, request: &KeyRequest, cache: Duration) -> Option<Arc<KeySet>> {
        let mut answers = self.answers();
        answers.get(request).filter(|(_, at)| at.elapsed() < cache).map(|(keys, _)| Arc::clone(keys))
    }

    /// Keeps the keys of a subrequest.
    pub(crate) fn keep_answer(&self, request: KeyRequest, keys: &Arc<KeySet>) {
        self.answers().put(request, (Arc::clone(keys), Instant::now()));
    }
}

/// The keys of a file, and its state unless it may still change; `None`: it is as before.
fn read(path: &Path, before: Option<&FileStamp>) -> Result<Option<(KeySet, Option<FileStamp>)>, String> {
    let text = |error: std::io::Error| error.to_string();
    let file = File::open(path).map_err(text)?;
    let metadata = file.metadata().map_err(text)?;
    let age = metadata.modified().ok().and_then(|at| at.elapsed().ok());
    let stamp = FileStamp::from(metadata);
    if before == Some(&stamp) {
        return Ok(None);
    }
    let mut bytes = Vec::new();
    // One byte more than is allowed shows that there is more.
    file.take(KEY_SET_BYTES_MAX as u64 + 1).read_to_end(&mut bytes).map_err(text)?;
    let keys = KeySet::parse(&bytes).map_err(|fault| fault.to_string())?;
    Ok(Some((keys, Some(stamp).filter(|_| age.is_some_and(|age| age >= SETTLED_AFTER)))))
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE: &str = r#"{"keys":[{"kty":"oct","use":"sig","k":"AQAB"}]}"#;
    const TWO: &str = r#"{"keys":[{"kty":"oct","use":"sig","k":"AQAB"},{"kty":"oct","use":"sig","k":"AQAC"}]}"#;

    #[test]
    fn rereads_changed_key_files_and_ignores_broken_ones() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("keys.json");
        let sets = KeySets::default();
        let look = || sets.look(&path, 1, None).map(|(keys, news)| (keys.len(), news.is_some()));
        assert!(look().is_err(), "there is no file");
        assert!(sets.fresh(&path, 1, Duration::ZERO).is_none());
        std::fs::write(&path, ONE).expect("a file");
        assert_eq!(look(), Ok((1, false)));
        assert_eq!(sets.fresh(&path, 1, Duration::from_mins(1)).map(|keys| keys.len()), Some(1));
        assert!(sets.fresh(&path, 2, Duration::from_mins(1)).is_none(), "a reload looks again");
        std::fs::write(&path, TWO).expect("a file");
        assert_eq!(look(), Ok((2, false)));
        std::fs::write(&path, "{").expect("a file");
        assert_eq!((look(), look()), (Ok((2, true)), Ok((2, false))), "said once");
        std::fs::remove_file(&path).expect("the file");
        assert_eq!(look(), Ok((2, true)), "another trouble");
        std::fs::write(&path, ONE).expect("a file");
        assert_eq!(look(), Ok((1, false)));
    }

    #[test]
    fn configured_keys_apply_until_the_file_is_readable() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("keys.json");
        let sets = KeySets::default();
        let at_start = |text: &str| Some(Arc::new(KeySet::parse(text.as_bytes()).expect("keys")));
        let look = |generation, keys| sets.look(&path, generation, keys).map(|(keys, _)| keys.len());
        assert_eq!(look(1, at_start(ONE)), Ok(1));
        assert_eq!(look(2, at_start(TWO)), Ok(2), "a later configuration has read it");
        std::fs::write(&path, ONE).expect("a file");
        assert_eq!(look(2, at_start(TWO)), Ok(1));
        std::fs::remove_file(&path).expect("the file");
        assert_eq!(look(2, at_start(TWO)), Ok(1), "read later than the configuration");
    }

    #[test]
    fn answers_are_kept_for_their_time() {
        let sets = KeySets::default();
        let keys = Arc::new(KeySet::parse(ONE.as_bytes()).expect("keys"));
        let request = || (1, 0, b"/keys".as_slice().into());
        assert!(sets.answer(&request(), Duration::from_mins(1)).is_none());
        sets.keep_answer(request(), &keys);
        assert!(sets.answer(&request(), Duration::from_mins(1)).is_some());
        assert!(sets.answer(&request(), Duration::ZERO).is_none());
        assert!(sets.answer(&(2, 0, b"/keys".as_slice().into()), Duration::from_mins(1)).is_none());
    }
}
