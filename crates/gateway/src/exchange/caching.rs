//! The cache's side of an exchange: its key, its place in the index, the response that was found, and the one being
//! stored.

use crate::base::logs::error::Level;
use crate::exchange::Exchange;
use crate::exchange::view::ExchangeView;
use crate::plan::cache::CachePlan;
use crate::registry::cache::cached_file::CachedFile;
use crate::registry::cache::files::StoreFile;
use crate::registry::cache::fill::{Fill, FillHead, Filling};
use crate::registry::cache::{BLOCK_BYTES, CacheHold, CacheStatus, CacheZone};
use crate::registry::process::wake_token;
use cache::{Entry, Freshness, Key};
use reactor::OpenFile;
use rules::template::Template;
use rules::time_format::Moment;
use rules::variable::Variable;
use std::io;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Bytes of a body that are written to a file at once. Larger pieces gain little, and they are held in memory until
/// then.
const PIECE_BYTES: usize = 128 * 1024;

/// The cache's side of an exchange.
pub(crate) struct Caching {
    pub(crate) zone: Arc<CacheZone>,
    /// The text of the key.
    pub(crate) text: Vec<u8>,
    pub(crate) main: Key,
    /// The key of the file that was looked at: the main key, or the second key of a variant.
    pub(crate) key: Key,
    pub(crate) hold: Option<CacheHold>,
    pub(crate) status: CacheStatus,
    /// The response may be stored, as far as is known.
    pub(crate) cacheable: bool,
    /// The response is stored or comes from the cache: this exchange decides its conditions and ranges.
    pub(crate) edits: bool,
    /// The upstream is asked by GET for a HEAD request.
    pub(crate) converts_head: bool,
    /// The cached response, fresh or stale.
    pub(crate) found: Option<Rc<CachedFile>>,
    /// The response that another exchange is storing, and this one sends meanwhile.
    pub(crate) followed: Option<Arc<Fill>>,
    /// The upstream's word on the lifetime of a response that has not changed.
    pub(crate) renewed: Option<Freshness>,
    /// `$upstream_cache_last_modified`, `$upstream_cache_etag`
    pub(crate) validators: (Option<i64>, Vec<u8>),
}

/// A response being stored in the cache.
pub(crate) struct Storing {
    zone: Arc<CacheZone>,
    key: Key,
    entry: Entry,
    text: Vec<u8>,
    head: Vec<u8>,
    body_start: u64,
    /// Bytes not yet written to the file.
    pending: Vec<u8>,
    written: u64,
    file: Option<StoreFile>,
    /// A write failed: the response goes on, and is not stored.
    failed: bool,
    /// Other requests read the file while it is written.
    filling: Option<Filling>,
}

impl std::fmt::Debug for Storing {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("Storing").field("key", &self.key).field("written", &self.written).finish_non_exhaustive()
    }
}

impl Storing {
    pub(crate) fn new(caching: &Caching, key: Key, entry: Entry, head: &[u8]) -> Self {
        Self {
            zone: Arc::clone(&caching.zone),
            key,
            body_start: entry.body_start(&caching.text, head) as u64,
            entry,
            text: caching.text.clone(),
            head: head.to_vec(),
            pending: Vec::new(),
            written: 0,
            file: None,
            failed: false,
            filling: None,
        }
    }

    /// Takes a part of the body.
    pub(crate) fn push(&mut self, body: &[u8]) {
        if !self.failed {
            self.pending.extend_from_slice(body);
        }
    }

    /// Whether the pending bytes should be written now.
    pub(crate) fn is_due(&self) -> bool {
        self.pending.len() >= PIECE_BYTES
    }

    /// Whether a request waits for more than the file has.
    pub(crate) fn is_awaited(&self) -> bool {
        self.filling.as_ref().is_some_and(Filling::is_awaited)
    }

    /// Whether there are bytes that the file does not have.
    pub(crate) fn has_pending(&self) -> bool {
        !self.pending.is_empty()
    }

    /// Bytes of the body received.
    pub(crate) fn taken(&self) -> u64 {
        self.written + self.pending.len() as u64
    }

    /// Bytes of the body in the file.
    pub(crate) fn written(&self) -> u64 {
        self.written
    }

    /// The file for its readers, if there are any.
    pub(crate) fn fill(&self) -> Option<&Arc<Fill>> {
        self.filling.as_ref().map(Filling::fill)
    }

    /// Bytes of memory that it holds.
    pub(crate) fn held_bytes(&self) -> usize {
        self.pending.capacity() + self.text.len() + self.head.len()
    }
}

impl Exchange {
    /// `proxy_cache` of the exchange's location.
    pub(crate) fn cache_plan(&self) -> Option<&CachePlan> {
        self.generation.proxy_of(&self.location().content, self.upstream.place())?.cache.as_deref()
    }

    /// Whether the response of the upstream may be stored, as far as is known.
    pub(crate) fn is_cacheable(&self) -> bool {
        self.upstream.cache.as_ref().is_some_and(|caching| caching.cacheable)
    }

    /// Whether this exchange decides conditions and ranges of the response, not the upstream.
    pub(crate) fn edits_cached(&self) -> bool {
        self.upstream.cache.as_ref().is_some_and(|caching| caching.edits)
    }

    /// Whether one of these values means yes: neither empty nor `0`.
    pub(crate) fn says_yes(&self, list: &[Template]) -> bool {
        list.iter().any(|template| {
            let mut value = Vec::new();
            template.write(&ExchangeView::of(self), &mut value);
            !value.is_empty() && value != b"0"
        })
    }

    /// `$upstream_cache_…` and `$slice_range`; `false`: it has no value.
    pub(crate) fn write_cached(&self, variable: &Variable, out: &mut Vec<u8>) -> bool {
        if *variable == Variable::SliceRange {
            let slice = self.slice_range();
            if let Some(slice) = slice {
                slice.write(out);
            }
            return slice.is_some();
        }
        let validators = self.cache_validators();
        let value = match variable {
            Variable::UpstreamCacheStatus => self.cache_status().map(|status| status.word().as_bytes().to_vec()),
            Variable::UpstreamCacheLastModified => validators
                .and_then(|(modified, _)| modified)
                .map(|modified| Moment::new(modified, 0).http_date().to_vec()),
            Variable::UpstreamCacheEtag => validators.map(|(_, tag)| tag.to_vec()).filter(|tag| !tag.is_empty()),
            _ => None,
        };
        let has_value = value.is_some();
        out.extend_from_slice(&value.unwrap_or_default());
        has_value
    }

    /// `$upstream_cache_status`
    pub(crate) fn cache_status(&self) -> Option<CacheStatus> {
        self.upstream.cache_status()
    }

    /// The validators for a conditional request to the upstream: the date and the tag of the stale response.
    pub(crate) fn cache_validators(&self) -> Option<(Option<i64>, &[u8])> {
        let caching = self.upstream.cache.as_ref().filter(|caching| caching.status == CacheStatus::Expired)?;
        let revalidates = self.cache_plan().is_some_and(|cache| cache.revalidate);
        revalidates.then_some((caching.validators.0, &*caching.validators.1))
    }

    /// Seconds since the epoch.
    pub(crate) fn now_s(&self) -> i64 {
        self.thread.clock.now().as_secs() as i64
    }

    /// `proxy_cache_lock`: lets the waiting requests read the response while it is stored.
    pub(crate) fn share_store(&self, storing: &mut Storing) {
        let has_lock = self.cache_plan().is_some_and(|cache| cache.lock.is_some());
        let Some(caching) = self.upstream.cache.as_ref().filter(|caching| has_lock && caching.key == storing.key)
        else {
            return;
        };
        let known = FillHead {
            text: storing.text.clone(),
            entry: storing.entry.clone(),
            head: storing.head.clone(),
            body_start: storing.body_start,
        };
        let owner = wake_token(self.thread.index, self.task());
        storing.filling = caching.hold.as_ref().and_then(|hold| hold.begin_fill(storing.key, known, owner));
    }

    /// Writes the pending bytes of the body to the file, and waits for the write.
    pub(crate) async fn write_store(&self, storing: &mut Storing) {
        let pending = std::mem::take(&mut storing.pending);
        let (zone, key, shared) = (Arc::clone(&storing.zone), storing.key, self.thread.shared);
        let (file, offset) = (storing.file.take(), storing.body_start + storing.written);
        let count = pending.len() as u64;
        let shares = storing.filling.is_some();
        let job = move || -> io::Result<(StoreFile, Vec<u8>, Option<OpenFile>)> {
            let (file, reader) = zone.open_store(shared, key, file, shares)?;
            file.write(offset, &pending)?;
            Ok((file, pending, reader))
        };
        match self.offload(job).await.flatten() {
            Ok((file, mut pending, reader)) => {
                pending.clear();
                storing.pending = pending;
                storing.written += count;
                storing.file = Some(file);
                if let Some(filling) = &storing.filling {
                    if let Some(reader) = reader {
                        filling.opened(reader);
                    }
                    filling.advance(storing.written);
                }
            }
            Err(error) => self.store_failed(storing, &error),
        }
    }

    fn store_failed(&self, storing: &mut Storing, error: &io::Error) {
        storing.failed = true;
        storing.pending = Vec::new();
        storing.file = None;
        // Requests that read the file have nothing more to wait for.
        storing.filling = None;
        storing.zone.failures.fetch_add(1, Ordering::Relaxed);
        let path = String::from_utf8_lossy(&storing.zone.path_of(storing.key)).into_owned();
        self.log_at(
            Level::Crit,
            &format!("cache file \"{path}\" cannot be written ({error}); the response is not cached"),
        );
    }

    /// The body is complete: its file gets its final name.
    pub(crate) async fn finish_store(&mut self, mut storing: Box<Storing>) {
        if storing.failed {
            return;
        }
        let pending = std::mem::take(&mut storing.pending);
        storing.entry.body_bytes = storing.written + pending.len() as u64;
        let Some(beginning) = storing.entry.encode(&storing.text, &storing.head) else { return };
        let (zone, key, shared) = (Arc::clone(&storing.zone), storing.key, self.thread.shared);
        let (file, offset) = (storing.file.take(), storing.body_start + storing.written);
        let shares = storing.filling.is_some();
        let job = move || -> io::Result<Option<OpenFile>> {
            let (file, reader) = zone.open_store(shared, key, file, shares)?;
            file.write(offset, &pending)?;
            zone.finish(file, key, &beginning)?;
            Ok(reader)
        };
        match self.offload(job).await.flatten() {
            Ok(reader) => {
                let bytes = (storing.body_start + storing.entry.body_bytes).next_multiple_of(BLOCK_BYTES);
                self.note_stored(storing.key, bytes);
                if let Some(filling) = storing.filling.take() {
                    if let Some(reader) = reader {
                        filling.opened(reader);
                    }
                    filling.complete(storing.entry.body_bytes);
                }
            }
            Err(error) => self.store_failed(&mut storing, &error),
        }
    }

    /// Tells the index that the file of a key exists. The key may differ from the requested one if the response has
    /// another `Vary` now.
    fn note_stored(&mut self, key: Key, bytes: u64) {
        let (now_s, shared) = (self.now_s(), self.thread.shared);
        let Some(caching) = &mut self.upstream.cache else { return };
        match &mut caching.hold {
            Some(hold) if caching.key == key => hold.stored(bytes),
            _ => {
                if let Ok((mut hold, _)) = caching.zone.enter(shared, key, caching.main, 1, now_s) {
                    hold.stored(bytes);
                }
            }
        }
    }
}
