//! The cache's side of an exchange: its key, its place in the index, the response that was found, and the one being
//! stored.

use crate::base::logs::error::Level;
use crate::exchange::Exchange;
use crate::exchange::view::ExchangeView;
use crate::plan::cache::CachePlan;
use crate::registry::cache::cached_file::CachedFile;
use crate::registry::cache::files::StoreFile;
use crate::registry::cache::fill::{Fill, FillHead, Filling, Reader};
use crate::registry::cache::{BLOCK_BYTES, CacheHold, CacheStatus, CacheZone};
use crate::registry::process::wake_token;
use cache::{Entry, Freshness, Key};
use rules::template::Template;
use rules::time_format::Moment;
use rules::variable::Variable;
use std::io;
use std::rc::Rc;
use std::sync::Arc;

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
    pub(crate) followed: Option<Reader>,
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
    /// Bytes that the file and the readers do not have yet.
    pending: Vec<u8>,
    /// Bytes of the body before these.
    written: u64,
    file: Option<StoreFile>,
    /// A write failed: the response goes on, and is not stored.
    failed: bool,
    /// Other requests read along. If a write has failed, they get the rest from memory.
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
        if !self.failed || self.filling.is_some() {
            self.pending.extend_from_slice(body);
        }
    }

    /// Whether the pending bytes should be written now.
    pub(crate) fn is_due(&self) -> bool {
        self.pending.len() >= PIECE_BYTES
    }

    /// Whether a request waits for more than was written.
    pub(crate) fn is_awaited(&self) -> bool {
        self.filling.as_ref().is_some_and(Filling::is_awaited)
    }

    /// Whether there are bytes that were not written.
    pub(crate) fn has_pending(&self) -> bool {
        !self.pending.is_empty()
    }

    /// Whether the file takes no more, and those that read along have to read before more is received. They then wake this
    /// exchange.
    pub(crate) fn is_full(&self) -> bool {
        self.failed && self.filling.as_ref().is_some_and(|filling| filling.is_full(self.pending.len()))
    }

    /// Sets the position of this exchange's client, if it reads along.
    pub(crate) fn place_client(&self, behind: Option<u64>) {
        if let Some(filling) = self.filling.as_ref().filter(|_| self.failed) {
            filling.place_client(behind);
        }
    }

    /// Bytes of the body received.
    pub(crate) fn taken(&self) -> u64 {
        self.written + self.pending.len() as u64
    }

    /// The response for its readers, if there are any.
    pub(crate) fn fill(&self) -> Option<&Arc<Fill>> {
        self.filling.as_ref().map(Filling::fill)
    }

    /// Bytes of memory that it holds.
    pub(crate) fn held_bytes(&self) -> usize {
        self.pending.capacity() + self.text.len() + self.head.len()
    }

    /// Gives the pending bytes to those that read along, without a file.
    fn keep(&mut self, pending: Arc<Vec<u8>>, behind: Option<u64>) {
        self.written += pending.len() as u64;
        let goes_on = self.filling.as_ref().is_some_and(|filling| filling.keep(pending, behind));
        if !goes_on {
            self.filling = None;
        }
    }
}

impl Exchange {
    /// `proxy_cache` of the exchange's location.
    pub(crate) fn cache_plan(&self) -> Option<&CachePlan> {
        self.generation.proxy_of(&self.location().content, self.upstream.place())?.cache.as_deref()
    }

    /// Whether the response of the upstream may be stored, as far as is known.
    pub(crate) fn is_cacheable(&self) -> bool {
        self.upstream.caching().is_some_and(|caching| caching.cacheable)
    }

    /// Whether this exchange decides conditions and ranges of the response, not the upstream.
    pub(crate) fn edits_cached(&self) -> bool {
        self.upstream.caching().is_some_and(|caching| caching.edits)
    }

    /// Whether one of these values means yes: neither empty nor `0`.
    pub(crate) fn any_is_true(&self, list: &[Template]) -> bool {
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
        let caching = self.upstream.caching().filter(|caching| caching.status == CacheStatus::Expired)?;
        let revalidates = self.cache_plan().is_some_and(|cache| cache.revalidate);
        revalidates.then_some((caching.validators.0, &*caching.validators.1))
    }

    /// Seconds since the epoch.
    pub(crate) fn now_s(&self) -> i64 {
        self.thread.clock.now().as_secs() as i64
    }

    /// `proxy_cache_lock`: lets the waiting requests read the response while it is stored. The file exists before, with
    /// room for the body if its length is known: a full disk is found out before another request depends on it.
    pub(crate) async fn share_store(&mut self, storing: &mut Storing) {
        let has_lock = self.cache_plan().is_some_and(|cache| cache.lock.is_some());
        let is_shared = self.upstream.caching().is_some_and(|caching| {
            caching.key == storing.key && caching.hold.as_ref().is_some_and(CacheHold::may_share)
        });
        if !has_lock || !is_shared {
            return;
        }
        let stated = self.answer().and_then(|answer| answer.head.content_length).unwrap_or(0);
        let (zone, key, registry) = (Arc::clone(&storing.zone), storing.key, self.thread.registry);
        let bytes = storing.body_start.saturating_add(stated);
        match self.offload(move || zone.open_shared(registry, key, bytes)).await.flatten() {
            Ok((file, reader)) => {
                let known = FillHead {
                    text: storing.text.clone(),
                    entry: storing.entry.clone(),
                    head: storing.head.clone(),
                    body_start: storing.body_start,
                };
                let owner = wake_token(self.thread.index, self.task());
                let hold = self.upstream.caching().and_then(|caching| caching.hold.as_ref());
                storing.filling = hold.map(|hold| hold.begin_fill(key, known, reader, owner));
                storing.file = Some(file);
            }
            Err(error) => {
                storing.pending = Vec::new();
                self.store_failed(storing, &error);
            }
        }
    }

    /// Writes the pending bytes of the body to the file, and waits for the write. `behind`: the position of the client, if
    /// it reads along.
    pub(crate) async fn write_store(&mut self, storing: &mut Storing, behind: Option<u64>) {
        let pending = Arc::new(std::mem::take(&mut storing.pending));
        if storing.failed {
            storing.keep(pending, behind);
            return;
        }
        let (zone, key, registry) = (Arc::clone(&storing.zone), storing.key, self.thread.registry);
        let (file, offset) = (storing.file.take(), storing.body_start + storing.written);
        let bytes = Arc::clone(&pending);
        let job = move || -> io::Result<StoreFile> {
            let file = zone.open_store(registry, key, file)?;
            file.write(offset, &bytes)?;
            Ok(file)
        };
        match self.offload(job).await.flatten() {
            Ok(file) => {
                storing.written += pending.len() as u64;
                storing.file = Some(file);
                // The job has ended, so this is the only one that has them.
                storing.pending = Arc::into_inner(pending).unwrap_or_default();
                storing.pending.clear();
                if let Some(filling) = &storing.filling {
                    filling.advance(storing.written);
                }
            }
            Err(error) => {
                self.store_failed(storing, &error);
                storing.keep(pending, behind);
            }
        }
    }

    /// The response is not stored. Requests that wait for it ask the upstream themselves, and those that read along get the
    /// rest from memory.
    fn store_failed(&mut self, storing: &mut Storing, error: &io::Error) {
        storing.failed = true;
        storing.file = None;
        storing.zone.note_failure(self.thread.reactor.now().0);
        if let Some(filling) = &storing.filling {
            filling.leave_file();
        }
        if let Some(caching) = self.upstream.caching_mut().filter(|caching| caching.key == storing.key)
            && caching.found.is_none()
            && let Some(hold) = &mut caching.hold
        {
            hold.give_back();
        }
        let path = String::from_utf8_lossy(&storing.zone.path_of(storing.key)).into_owned();
        self.log_at(
            Level::Crit,
            &format!("cache file \"{path}\" cannot be written ({error}); the response is not cached"),
        );
    }

    /// The body is complete: its file gets its final name. `behind`: the position of the client, if it reads along.
    pub(crate) async fn finish_store(&mut self, mut storing: Box<Storing>, behind: Option<u64>) {
        let pending = Arc::new(std::mem::take(&mut storing.pending));
        storing.entry.body_bytes = storing.written + pending.len() as u64;
        if !storing.failed {
            match self.finish_file(&mut storing, &pending).await {
                Ok(()) => storing.written = storing.entry.body_bytes,
                Err(error) => self.store_failed(&mut storing, &error),
            }
        }
        if storing.failed {
            storing.keep(pending, behind);
        }
        if let Some(filling) = storing.filling.take() {
            filling.complete(storing.entry.body_bytes);
        }
    }

    async fn finish_file(&mut self, storing: &mut Storing, pending: &Arc<Vec<u8>>) -> io::Result<()> {
        let beginning = storing.entry.encode(&storing.text, &storing.head).ok_or(io::ErrorKind::InvalidData)?;
        let (zone, key, registry) = (Arc::clone(&storing.zone), storing.key, self.thread.registry);
        let (file, offset) = (storing.file.take(), storing.body_start + storing.written);
        let pending = Arc::clone(pending);
        let job = move || -> io::Result<()> {
            let file = zone.open_store(registry, key, file)?;
            file.write(offset, &pending)?;
            zone.finish(file, key, &beginning)
        };
        self.offload(job).await.flatten()?;
        let bytes = (storing.body_start + storing.entry.body_bytes).next_multiple_of(BLOCK_BYTES);
        self.note_stored(storing.key, bytes);
        Ok(())
    }

    /// Tells the index that the file of a key exists. The key may differ from the requested one if the response has
    /// another `Vary` now.
    fn note_stored(&mut self, key: Key, bytes: u64) {
        let (now_s, registry) = (self.now_s(), self.thread.registry);
        let Some(caching) = self.upstream.caching_mut() else { return };
        match &mut caching.hold {
            Some(hold) if caching.key == key => hold.stored(bytes),
            _ => {
                if let Ok((mut hold, _)) = caching.zone.enter(registry, key, caching.main, 1, now_s) {
                    hold.stored(bytes);
                }
            }
        }
    }
}
