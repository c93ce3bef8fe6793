//! Cached responses that are in use: their files stay open, so that a hit does not open, read and check them again. One
//! system call shows whether a file is still the one that was opened; a file that was replaced, removed or changed, by
//! any process, is not used again.

use crate::registry::cache::CacheZone;
use crate::registry::cache::cached_file::CachedFile;
use cache::Key;
use lru::LruCache;
use reactor::Millis;
use std::num::NonZeroUsize;
use std::rc::Rc;
use std::sync::Arc;

/// Most files that a worker keeps open. With up to 20 KB of memory each that is 1.3 MB, and few descriptors of the
/// thousand that a process has by default.
const FILES_MAX: NonZeroUsize = NonZeroUsize::new(64).unwrap();

/// An unused file is closed after this time: until then its blocks are not free when it is removed.
const UNUSED_MS: u64 = 1000;

/// The open files of a worker, by zone and key.
pub(crate) struct HotResponses(LruCache<(usize, Key), Hot>);

struct Hot {
    /// It keeps the address that identifies it.
    _zone: Arc<CacheZone>,
    file: Rc<CachedFile>,
    used_at: Millis,
}

fn address(zone: &Arc<CacheZone>) -> usize {
    Arc::as_ptr(zone).addr()
}

impl Default for HotResponses {
    fn default() -> Self {
        Self(LruCache::new(FILES_MAX))
    }
}

impl HotResponses {
    /// The response of a key, if its file is open and has not changed.
    pub(crate) fn look(&mut self, zone: &Arc<CacheZone>, key: Key, now: Millis) -> Option<Rc<CachedFile>> {
        let place = (address(zone), key);
        let hot = self.0.get_mut(&place)?;
        if !hot.file.file.is_unchanged() {
            self.0.pop(&place);
            return None;
        }
        hot.used_at = now;
        Some(Rc::clone(&hot.file))
    }

    /// Keeps a file that was opened.
    pub(crate) fn keep(&mut self, zone: &Arc<CacheZone>, key: Key, file: &Rc<CachedFile>, now: Millis) {
        let hot = Hot { _zone: Arc::clone(zone), file: Rc::clone(file), used_at: now };
        self.0.put((address(zone), key), hot);
    }

    /// Closes the file of a key, which was changed.
    pub(crate) fn forget(&mut self, zone: &Arc<CacheZone>, key: Key) {
        self.0.pop(&(address(zone), key));
    }

    /// Closes unused files. Returns when to do so again.
    pub(crate) fn expire(&mut self, now: Millis) -> Option<Millis> {
        while let Some((_, hot)) = self.0.peek_lru() {
            if now.since(hot.used_at) < UNUSED_MS {
                return Some(Self::next_look(now));
            }
            self.0.pop_lru();
        }
        None
    }

    /// When unused files are closed next.
    pub(crate) fn next_look(now: Millis) -> Millis {
        Millis(now.0.saturating_add(UNUSED_MS))
    }

    /// Closes all of them: memory is short.
    pub(crate) fn clear(&mut self) {
        self.0.clear();
    }
}
