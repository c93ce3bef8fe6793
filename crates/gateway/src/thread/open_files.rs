//! `open_file_cache`: files that stay open between requests, and paths that could not be opened. As in nginx, each
//! worker has its own, and a new configuration starts with an empty one. It opens no files itself.

use crate::plan::open_files::OpenFilesPlan;
use lru::LruCache;
use reactor::{FileKind, Millis, OpenFile};
use std::collections::HashMap;
use std::sync::Arc;

/// Most unused paths that one request removes: two, as in nginx.
const EXPIRED_AT_ONCE: u32 = 2;

/// The caches of a worker.
#[derive(Debug, Default)]
pub(crate) struct OpenFiles {
    /// The generation of these caches.
    generation: u64,
    caches: HashMap<u32, LruCache<Box<[u8]>, Entry>>,
}

/// The result of opening a path; an error is its errno.
pub(crate) type Opened = Result<Arc<OpenFile>, i32>;

#[derive(Debug)]
struct Entry {
    /// `None`: it was not used often enough to stay open.
    opened: Option<Opened>,
    opened_at: Millis,
    used_at: Millis,
    uses: u32,
}

impl OpenFiles {
    /// The cached result for a path; `None`: it must be opened.
    pub(crate) fn look(&mut self, generation: u64, plan: &OpenFilesPlan, path: &[u8], now: Millis) -> Option<Opened> {
        let cache = self.cache(generation, plan)?;
        let entry = cache.get_mut(path)?;
        entry.used_at = now;
        entry.uses = entry.uses.saturating_add(1);
        let opened = entry.opened.as_ref()?;
        (now.since(entry.opened_at) < plan.valid_ms).then(|| opened.clone())
    }

    /// Caches the result of opening a path.
    pub(crate) fn keep(&mut self, generation: u64, plan: &OpenFilesPlan, path: &[u8], opened: &Opened, now: Millis) {
        let Some(cache) = self.cache(generation, plan) else { return };
        expire(cache, plan, now);
        if opened.is_err() && !plan.keeps_errors {
            cache.pop(path);
            return;
        }
        let uses = cache.peek(path).map_or(1, |entry| entry.uses);
        // A directory or an error holds no descriptor that is worth closing early.
        let is_file = opened.as_ref().is_ok_and(|file| file.status.kind == FileKind::Regular);
        let stays = !is_file || uses >= plan.min_uses;
        let entry = Entry { opened: stays.then(|| opened.clone()), opened_at: now, used_at: now, uses };
        if !cache.contains(path) && cache.len() >= plan.paths_max {
            cache.pop_lru();
        }
        cache.put(path.into(), entry);
    }

    /// A cache of the present configuration; `None` for an exchange with an older one.
    fn cache(&mut self, generation: u64, plan: &OpenFilesPlan) -> Option<&mut LruCache<Box<[u8]>, Entry>> {
        if generation > self.generation {
            self.generation = generation;
            self.caches.clear();
        }
        (generation == self.generation).then(|| self.caches.entry(plan.cache).or_insert_with(LruCache::unbounded))
    }
}

/// Removes paths that are unused for too long.
fn expire(cache: &mut LruCache<Box<[u8]>, Entry>, plan: &OpenFilesPlan, now: Millis) {
    for _ in 0..EXPIRED_AT_ONCE {
        let is_old = |entry: &Entry| now.since(entry.used_at) > plan.inactive_ms;
        if !cache.peek_lru().is_some_and(|(_, entry)| is_old(entry)) {
            break;
        }
        cache.pop_lru();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use reactor::{c_path, open_file};

    const PLAN: OpenFilesPlan =
        OpenFilesPlan { cache: 0, paths_max: 2, inactive_ms: 100, valid_ms: 50, min_uses: 1, keeps_errors: true };

    #[allow(clippy::unnecessary_wraps)] // as it is kept
    fn opened() -> Opened {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml");
        Ok(Arc::new(open_file(&c_path(path.into()).expect("a path")).expect("the manifest")))
    }

    fn is_known(files: &mut OpenFiles, plan: &OpenFilesPlan, path: &[u8], now: u64) -> bool {
        files.look(1, plan, path, Millis(now)).is_some()
    }

    #[test]
    fn open_file_is_reused_while_valid() {
        let mut files = OpenFiles::default();
        assert!(!is_known(&mut files, &PLAN, b"/a", 0));
        files.keep(1, &PLAN, b"/a", &opened(), Millis(0));
        assert!(is_known(&mut files, &PLAN, b"/a", 49));
        assert!(!is_known(&mut files, &PLAN, b"/a", 50), "it is looked at again");
        files.keep(1, &PLAN, b"/a", &opened(), Millis(50));
        assert!(is_known(&mut files, &PLAN, b"/a", 99));
        assert!(!is_known(&mut files, &OpenFilesPlan { cache: 1, ..PLAN }, b"/a", 99), "another directive's");
    }

    #[test]
    fn evicts_the_least_recently_used_file() {
        let mut files = OpenFiles::default();
        for (path, now) in [(b"/a", 0), (b"/b", 1)] {
            files.keep(1, &PLAN, path, &opened(), Millis(now));
        }
        assert!(is_known(&mut files, &PLAN, b"/a", 2));
        files.keep(1, &PLAN, b"/c", &opened(), Millis(3));
        assert_eq!([b"/a", b"/b", b"/c"].map(|path| is_known(&mut files, &PLAN, path, 4)), [true, false, true]);
        // `/a` and `/c` were used at 4.
        files.keep(1, &PLAN, b"/d", &opened(), Millis(105));
        assert_eq!([b"/a", b"/c", b"/d"].map(|path| is_known(&mut files, &PLAN, path, 106)), [false, false, true]);
    }

    #[test]
    fn rarely_used_files_are_closed_and_directories_are_not() {
        let plan = OpenFilesPlan { min_uses: 2, ..PLAN };
        let mut files = OpenFiles::default();
        let file = opened();
        files.keep(1, &plan, b"/a", &file, Millis(0));
        let held = || file.as_ref().map(Arc::strong_count).ok();
        assert_eq!(held(), Some(1));
        assert!(!is_known(&mut files, &plan, b"/a", 1), "the second use opens it again");
        files.keep(1, &plan, b"/a", &file, Millis(1));
        assert_eq!(held(), Some(2));
        assert!(is_known(&mut files, &plan, b"/a", 2));
        let directory = c_path(env!("CARGO_MANIFEST_DIR").into()).expect("a path");
        files.keep(1, &plan, b"/d", &Ok(Arc::new(open_file(&directory).expect("a directory"))), Millis(2));
        assert!(is_known(&mut files, &plan, b"/d", 3));
    }

    #[test]
    fn errors_are_kept_where_that_is_wanted() {
        let mut files = OpenFiles::default();
        files.keep(1, &PLAN, b"/a", &Err(2), Millis(0));
        assert_eq!(files.look(1, &PLAN, b"/a", Millis(1)).and_then(Result::err), Some(2));
        let without = OpenFilesPlan { keeps_errors: false, ..PLAN };
        files.keep(1, &without, b"/a", &Err(2), Millis(50));
        assert!(!is_known(&mut files, &PLAN, b"/a", 51));
    }

    #[test]
    fn a_new_configuration_begins_with_none() {
        let mut files = OpenFiles::default();
        files.keep(1, &PLAN, b"/a", &opened(), Millis(0));
        assert!(files.look(2, &PLAN, b"/a", Millis(1)).is_none());
        files.keep(2, &PLAN, b"/a", &opened(), Millis(1));
        files.keep(1, &PLAN, b"/b", &opened(), Millis(1));
        assert!(files.look(1, &PLAN, b"/a", Millis(2)).is_none(), "an exchange under the old one");
        assert!(files.look(2, &PLAN, b"/a", Millis(2)).is_some());
    }
}
