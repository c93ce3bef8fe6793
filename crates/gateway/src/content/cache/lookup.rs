//! Before the upstream is asked: looks the response up in the cache, waits if another exchange is fetching it, and
//! decides whether the upstream's response may be stored.

use crate::base::logs::error::{Level, errno};
use crate::downstream::internal::WantedParts;
use crate::exchange::Exchange;
use crate::exchange::caching::Caching;
use crate::exchange::reply::Reply;
use crate::exchange::step::Step;
use crate::exchange::subrequest::{Errand, Resumes};
use crate::exchange::view::ExchangeView;
use crate::exchange::waiting::Wants;
use crate::plan::cache::{CacheChoice, CacheLock, CachePlan};
use crate::registry::cache::cached_file::CachedFile;
use crate::registry::cache::fill::{Fill, Reader};
use crate::registry::cache::sharing::Filler;
use crate::registry::cache::{CacheHold, CacheStatus, CacheZone};
use crate::registry::generation::BoundProxy;
use crate::registry::process::wake_token;
use crate::thread::chores::Chore;
use crate::thread::hot_responses::HotResponses;
use cache::{BODY_START_MAX, Entry, FIXED_BYTES, Found, Key, variant_of};
use http1::{FieldId, Method};
use reactor::{Millis, OpenFile, SCRATCH_BYTES, Woken, c_path, open_file, open_file_cached};
use rules::template::Template;
use rules::trace_context::write_hex;
use rules::variable::Variable;
use std::io::{self, ErrorKind};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// How often a request asks whether another process has stored the response: soon, then twenty times a second.
const OTHER_PROCESS_FIRST_MS: u64 = 5;
const OTHER_PROCESS_MOST_MS: u64 = 50;

/// The result of the lookup.
pub(crate) enum Consulted {
    /// Ask the upstream.
    Ask,
    /// Send the response that was found.
    Send,
    /// The answer is given already.
    Done(Step),
}

/// What a cache has to do with a request, before the lookup.
pub(crate) enum Cached {
    /// Nothing: ask the upstream.
    No,
    /// The answer is given already.
    Done(Step),
    /// `proxy_cache_purge`: the response with this key is removed.
    Purge(Arc<CacheZone>, Key),
    /// The response may be stored: the state is in `upstream.caching()`.
    Yes,
}

/// The result of opening a key's file.
enum OpenedCached {
    Response(Rc<CachedFile>),
    /// Another exchange is storing the response.
    Fill(Reader),
    /// The file holds another variant than the request wants.
    Variant(Key),
    Nothing,
}

/// Bytes of `proxy_buffer_size` that a key leaves to the rest of a file's beginning, as in nginx.
const BESIDES_KEY_BYTES: usize = 600;

/// Bytes that the first read of a file asks for: all of a small response.
const FIRST_READ_BYTES: usize = 20 * 1024;
/// The same of a larger file: a page has most heads, and `sendfile(2)` passes on the pages after it whole. A body of 64 KB
/// that begins in the middle of a page needs one more page than a pipe has, and so a second round in the kernel.
const FIRST_READ_OF_LARGE_BYTES: usize = 4 * 1024;

impl Exchange {
    /// Looks the request up. `Ask` and `Send` leave the state in `upstream.caching()`.
    pub(crate) async fn consult_cache(&mut self, plan: &BoundProxy, cache: &CachePlan) -> Consulted {
        match self.begin_caching(plan, cache) {
            Cached::No => return Consulted::Ask,
            Cached::Done(step) => return Consulted::Done(step),
            Cached::Purge(zone, main) => return self.purge(&zone, main).await,
            Cached::Yes => {}
        }
        let consulted = if self.bypasses(cache) { Consulted::Ask } else { self.find_cached(cache).await };
        if matches!(consulted, Consulted::Ask) && self.asks_beyond_offset(cache) {
            self.refuse_store();
        }
        consulted
    }

    /// `proxy_cache_bypass`: the response is fetched, and may be stored.
    pub(crate) fn bypasses(&mut self, cache: &CachePlan) -> bool {
        let bypasses = self.any_is_true(&cache.bypass);
        if bypasses {
            self.set_cache_status(CacheStatus::Bypass);
        }
        bypasses
    }

    /// Finds the zone and the key.
    pub(crate) fn begin_caching(&mut self, plan: &BoundProxy, cache: &CachePlan) -> Cached {
        let is_purge = !cache.purge.is_empty() && self.any_is_true(&cache.purge);
        let is_kept = match self.routing.method() {
            Method::Get | Method::Head => true,
            Method::Post => cache.keeps_post,
            _ => false,
        };
        if !is_purge && !is_kept {
            return Cached::No;
        }
        let zone = match self.cache_zone(cache) {
            Ok(Some(zone)) => zone,
            Ok(None) => return Cached::No,
            Err(reply) => return Cached::Done(Step::Reply(reply)),
        };
        let mut text = self.cache_key(plan, cache);
        if cache.digests_key {
            text = digest_text(&text);
        }
        if let Some(refusal) = self.refuse_undecided() {
            return Cached::Done(Step::Reply(refusal));
        }
        let main = Key::of(&text);
        if is_purge {
            return Cached::Purge(zone, main);
        }
        if text.len() + BESIDES_KEY_BYTES > plan.limits.head_bytes_max.min(BODY_START_MAX / 2) {
            self.error_log(&format!(
                "{}_buffer_size {} is not enough for cache key, it should be increased to at least {}",
                cache.family,
                plan.limits.head_bytes_max,
                (text.len() + BESIDES_KEY_BYTES).next_multiple_of(1024)
            ));
            return Cached::No;
        }
        self.upstream.begin_caching(Caching {
            zone,
            text,
            main,
            key: main,
            hold: None,
            status: CacheStatus::Miss,
            cacheable: true,
            converts_head: self.routing.method() == Method::Head && cache.convert_head,
            found: None,
            followed: None,
            renewed: None,
            edits: false,
            validators: (None, Vec::new()),
        });
        Cached::Yes
    }

    fn set_cache_status(&mut self, status: CacheStatus) {
        if let Some(caching) = self.upstream.caching_mut() {
            caching.status = status;
        }
    }

    /// The upstream's response is not stored.
    pub(super) fn refuse_store(&mut self) {
        if let Some(caching) = self.upstream.caching_mut() {
            caching.cacheable = false;
        }
    }

    /// The zone; the error is the answer if variables name a zone that does not exist.
    fn cache_zone(&self, cache: &CachePlan) -> Result<Option<Arc<CacheZone>>, Reply> {
        let name = match &cache.zone {
            CacheChoice::Zone(id) => return Ok(self.generation.caches.get(id.0 as usize).cloned()),
            CacheChoice::Named(template) => self.written(template),
        };
        if name.is_empty() || name == b"off" {
            return Ok(None);
        }
        let zone = self.generation.caches.iter().find(|zone| zone.name.as_bytes() == name).cloned();
        if zone.is_none() {
            self.error_log(&format!("cache \"{}\" not found", name.escape_ascii()));
            return Err(Reply::error(500));
        }
        Ok(zone)
    }

    fn written(&self, template: &Template) -> Vec<u8> {
        let mut value = Vec::new();
        template.write(&ExchangeView::of(self), &mut value);
        value
    }

    /// The text of the request's key: the configured one, or the upstream's URL.
    fn cache_key(&self, plan: &BoundProxy, cache: &CachePlan) -> Vec<u8> {
        if let Some(key) = &cache.key {
            return self.written(key);
        }
        if plan.application.is_some() {
            return Vec::new();
        }
        let mut text = if plan.tls.is_some() { b"https://".to_vec() } else { b"http://".to_vec() };
        Template::variable(Variable::ProxyHost).write(&ExchangeView::of(self), &mut text);
        self.write_upstream_target(plan, &mut text);
        text
    }

    /// `proxy_cache_purge`
    async fn purge(&self, zone: &Arc<CacheZone>, main: Key) -> Consulted {
        let mut keys = zone.purge(main);
        // The index may not know the file yet.
        if !keys.contains(&main) {
            keys.push(main);
        }
        let files = Arc::clone(zone);
        let status = match self.offload(move || files.remove_now(&keys)).await {
            Ok(0) => 404,
            Ok(_) => 204,
            Err(_) => 500,
        };
        let reply = if status == 204 { Reply::empty(204) } else { Reply::error(status) };
        Consulted::Done(Step::Reply(reply))
    }

    /// `proxy_cache_max_range_offset`: whether the request asks for a range that begins too late.
    fn asks_beyond_offset(&self, cache: &CachePlan) -> bool {
        let Some(most) = cache.range_offset_max else { return false };
        let Some(range) = self.request.head.value(FieldId::Range, &self.request.bytes) else { return false };
        let Some((unit, first)) = range.split_at_checked(6) else { return false };
        if !unit.eq_ignore_ascii_case(b"bytes=") {
            return false;
        }
        let digits: &[u8] = first.split(|&byte| byte == b'-').next().unwrap_or_default();
        let offset = std::str::from_utf8(digits).ok().and_then(|digits| digits.parse::<u64>().ok());
        first.starts_with(b"-") || offset.is_some_and(|offset| offset >= most)
    }

    async fn find_cached(&mut self, cache: &CachePlan) -> Consulted {
        let now_s = self.now_s();
        let Some((mut key, main, zone)) =
            self.upstream.caching().map(|caching| (caching.key, caching.main, Arc::clone(&caching.zone)))
        else {
            return Consulted::Ask;
        };
        let Ok((mut hold, mut found)) = zone.enter(self.thread.registry, key, main, cache.min_uses, now_s) else {
            let message = format!("cache zone \"{}\" is full of keys in use; the response is not cached", zone.name);
            self.log_at(Level::Alert, &message);
            return self.ask_without_storing();
        };
        let mut wait = LockWait::default();
        loop {
            match found {
                Found::Status(status) => {
                    self.set_cache_status(CacheStatus::Hit);
                    return Consulted::Done(Step::Reply(Reply::error(status)));
                }
                Found::Scarce => return self.ask_without_storing(),
                Found::New | Found::File | Found::NoFile => {}
            }
            let opened = self.open_or_follow(cache, (&zone, key, found), &mut wait).await;
            if self.routing.is_update() && !(matches!(opened, OpenedCached::Variant(_)) && key == main) {
                hold.take_over(self.thread.reactor.now().0);
            }
            match opened {
                OpenedCached::Variant(variant) if key == main => {
                    key = variant;
                    let Ok(entered) = zone.enter(self.thread.registry, key, main, cache.min_uses, now_s) else {
                        return self.ask_without_storing();
                    };
                    (hold, found) = entered;
                    if let Some(caching) = self.upstream.caching_mut() {
                        caching.key = key;
                    }
                    continue;
                }
                OpenedCached::Fill(reader) => {
                    self.follow(hold, reader);
                    return Consulted::Send;
                }
                OpenedCached::Response(file) => {
                    hold.note_file(Some(file.file.status.size));
                    return self.use_cached(cache, hold, file);
                }
                // The file may have been stored since the lookup: the index knows it by now.
                OpenedCached::Variant(_) | OpenedCached::Nothing if found != Found::File => {}
                OpenedCached::Variant(_) | OpenedCached::Nothing => hold.note_file(None),
            }
            if found == Found::New && cache.min_uses > 1 {
                return self.ask_without_storing();
            }
            if let Some(lock) = cache.lock.filter(|_| !zone.fails(self.thread.reactor.now().0)) {
                match self.await_lock(&mut hold, lock, &mut wait).await {
                    Locked::Ours => {}
                    Locked::Changed => {
                        found = hold.look(cache.min_uses, self.now_s());
                        continue;
                    }
                    Locked::TimedOut => return self.ask_without_storing(),
                    Locked::ClientGone => return Consulted::Done(self.client_left()),
                }
            }
            if let Some(caching) = self.upstream.caching_mut() {
                caching.hold = Some(hold);
            }
            return Consulted::Ask;
        }
    }

    fn ask_without_storing(&mut self) -> Consulted {
        self.refuse_store();
        Consulted::Ask
    }

    /// `proxy_cache_lock`
    async fn await_lock(&self, hold: &mut CacheHold, lock: CacheLock, wait: &mut LockWait) -> Locked {
        let now = self.thread.reactor.now();
        let filler = hold.lock_missing(now.0, lock.age_ms);
        let give_up_at = *wait.give_up_at.get_or_insert(Millis(now.0.saturating_add(lock.timeout_ms)));
        let until = match filler {
            Some(Filler::Own) => return Locked::Ours,
            Some(Filler::Until(until)) => until,
            Some(Filler::OtherProcess) => return self.await_other_process(hold, lock, give_up_at).await,
            None => return Locked::Changed,
        };
        if give_up_at.0 <= now.0 {
            self.log_at(Level::Info, "cache lock timeout");
            return Locked::TimedOut;
        }
        hold.wait(wake_token(self.thread.index, self.task()));
        if !wait.had_fill && hold.has_fill() {
            // It began between the lookup and this wait.
            return Locked::Changed;
        }
        let left = until.min(give_up_at.0).saturating_sub(now.0).max(1);
        match self.wait(Wants::NOTHING, Duration::from_millis(left)).await {
            Woken::PeerGone => Locked::ClientGone,
            Woken::Ready | Woken::Deadline => Locked::Changed,
        }
    }

    /// Waits until another process has stored the response, or gives the right to fill the key back. One request does it for all
    /// of this process.
    async fn await_other_process(&self, hold: &mut CacheHold, lock: CacheLock, give_up_at: Millis) -> Locked {
        let mut pause_ms = OTHER_PROCESS_FIRST_MS;
        loop {
            let left = give_up_at.since(self.thread.reactor.now());
            if left == 0 {
                self.log_at(Level::Info, "cache lock timeout");
                return Locked::TimedOut;
            }
            if self.wait(Wants::NOTHING, Duration::from_millis(pause_ms.min(left))).await == Woken::PeerGone {
                return Locked::ClientGone;
            }
            match hold.claim_missing(self.thread.reactor.now().0, lock.age_ms) {
                Some(Filler::OtherProcess | Filler::Until(_)) => {}
                Some(Filler::Own) => return Locked::Ours,
                None => return Locked::Changed,
            }
            pause_ms = (pause_ms * 2).min(OTHER_PROCESS_MOST_MS);
        }
    }

    /// Opens a key's file, or finds the response that another exchange is storing under it.
    async fn open_or_follow(
        &self,
        cache: &CachePlan,
        (zone, key, found): (&Arc<CacheZone>, Key, Found),
        wait: &mut LockWait,
    ) -> OpenedCached {
        let fill = cache.lock.and_then(|_| zone.fill_of(key)).filter(|_| found != Found::File);
        wait.had_fill = fill.is_some();
        match fill {
            Some(fill) => self.judge_fill(&fill),
            None => self.open_cached(zone, key).await,
        }
    }

    /// Whether the response that another exchange is storing answers this request.
    fn judge_fill(&self, fill: &Arc<Fill>) -> OpenedCached {
        let Some(caching) = self.upstream.caching().filter(|caching| caching.text == fill.known.text) else {
            return OpenedCached::Nothing;
        };
        let entry = &fill.known.entry;
        if let Some(variant) = entry.variant {
            let wanted = self.variant(caching.main, &entry.vary);
            if wanted != variant {
                return OpenedCached::Variant(wanted);
            }
        }
        if !entry.is_fresh(self.now_s()) || self.asks_for_several_ranges() {
            return OpenedCached::Nothing;
        }
        let joined = fill.join(wake_token(self.thread.index, self.task()), self.thread.registry);
        joined.map_or(OpenedCached::Nothing, OpenedCached::Fill)
    }

    /// Several ranges may go back in the body, so they are cut out of the whole response.
    fn asks_for_several_ranges(&self) -> bool {
        let range = self.request.head.value(FieldId::Range, &self.request.bytes);
        range.is_some_and(|range| range.contains(&b','))
    }

    /// Sends a response while another exchange stores it.
    fn follow(&mut self, hold: CacheHold, reader: Reader) {
        if let Some(caching) = self.upstream.caching_mut() {
            caching.status = CacheStatus::Hit;
            caching.followed = Some(reader);
            caching.hold = Some(hold);
        }
    }

    /// Uses a response that was found: sends it, or revalidates it first.
    fn use_cached(&mut self, cache: &CachePlan, mut hold: CacheHold, file: Rc<CachedFile>) -> Consulted {
        let now_s = self.now_s();
        let may_update =
            (cache.use_stale_updating || file.entry.may_be_used_while_updating(now_s)) && !self.routing.is_update();
        let (status, sends) = if file.entry.is_fresh(now_s) {
            (CacheStatus::Hit, true)
        } else if self.routing.is_update() {
            (CacheStatus::Expired, false)
        } else if !hold.begin_update(self.thread.reactor.now().0) {
            if may_update { (CacheStatus::Updating, true) } else { (CacheStatus::Expired, false) }
        } else if may_update && cache.background_update && !self.is_subrequest() {
            hold.hand_over();
            self.start_update();
            (CacheStatus::Stale, true)
        } else {
            (CacheStatus::Expired, false)
        };
        if let Some(caching) = self.upstream.caching_mut() {
            caching.status = status;
            caching.validators = (file.entry.modified_s, file.entry.etag.clone());
            caching.found = Some(file);
            caching.hold = Some(hold);
        }
        if sends { Consulted::Send } else { Consulted::Ask }
    }

    /// `proxy_cache_background_update`
    fn start_update(&mut self) {
        let errand = Errand {
            uri: Vec::new(),
            method: self.routing.method(),
            wanted: WantedParts::Nothing,
            body: self.intake.replay.clone(),
            sets: None,
            charset: None,
            resumes: Some(Resumes::Update),
            args: None,
            inclusion: None,
        };
        // Dropping the handle does not end the subrequest: nothing is wanted of it.
        drop(self.start(errand));
    }

    /// Finds a key's response, and checks that it answers this request. A file that does not is left in place: the next
    /// response replaces it.
    async fn open_cached(&self, zone: &Arc<CacheZone>, key: Key) -> OpenedCached {
        let now = self.thread.reactor.now();
        let hot = self.thread.hot_responses.borrow_mut().look(zone, key, now);
        let file = match hot {
            Some(file) => file,
            None => match self.open_response(zone, key).await {
                Some(file) => file,
                None => return OpenedCached::Nothing,
            },
        };
        let Some(caching) = self.upstream.caching() else { return OpenedCached::Nothing };
        if file.key() != caching.text {
            let path = zone.path_of(key);
            zone.bad_files.fetch_add(1, Ordering::Relaxed);
            self.log_at(Level::Crit, &format!("cache file \"{}\" has md5 collision", String::from_utf8_lossy(&path)));
            return OpenedCached::Nothing;
        }
        if let Some(variant) = file.entry.variant {
            let wanted = self.variant(caching.main, &file.entry.vary);
            if wanted != variant {
                return OpenedCached::Variant(wanted);
            }
        }
        OpenedCached::Response(file)
    }

    /// Opens a key's file, checks it, and keeps it open for the next requests.
    async fn open_response(&self, zone: &Arc<CacheZone>, key: Key) -> Option<Rc<CachedFile>> {
        let path = c_path(zone.path_of(key))?;
        let opened = match open_file_cached(&path) {
            Ok(Some(file)) => Ok(file),
            Ok(None) => {
                let path = path.clone();
                self.offload(move || open_file(&path)).await.flatten()
            }
            Err(error) => Err(error),
        };
        let read = match opened {
            Ok(file) => self.read_cached(file).await,
            Err(error) => Err(error),
        };
        let (file, bytes) = match read {
            Ok(read) => read,
            Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => return None,
            Err(error) => {
                let path = path.to_string_lossy();
                zone.bad_files.fetch_add(1, Ordering::Relaxed);
                self.log_at(Level::Crit, &format!("open() \"{path}\" failed ({})", errno(&error)));
                return None;
            }
        };
        let parsed = match Entry::parse(&bytes, file.status.size) {
            Ok(parsed) => parsed,
            Err(fault) => {
                let path = path.to_string_lossy();
                zone.bad_files.fetch_add(1, Ordering::Relaxed);
                self.log_at(Level::Crit, &format!("cache file \"{path}\" is not used: {fault}"));
                return None;
            }
        };
        let (entry, body_start) = (parsed.entry, parsed.body_start);
        let (head_start, key_text) = (body_start - parsed.head.len(), FIXED_BYTES..FIXED_BYTES + parsed.key.len());
        let file = Rc::new(CachedFile { file: Arc::new(file), entry, bytes, key: key_text, head_start, body_start });
        let now = self.thread.reactor.now();
        self.thread.hot_responses.borrow_mut().keep(zone, key, &file, now);
        self.thread.chores.plan(Chore::CloseUnusedResponses, HotResponses::next_look(now));
        Some(file)
    }

    /// Reads the beginning of a file; reads again if it is longer than usual.
    async fn read_cached(&self, file: OpenFile) -> io::Result<(OpenFile, Vec<u8>)> {
        let is_large = file.status.size > FIRST_READ_BYTES as u64;
        let mut wanted = if is_large { FIRST_READ_OF_LARGE_BYTES } else { FIRST_READ_BYTES };
        let mut file = file;
        loop {
            let cached = file.read_cached_with(0, wanted.min(SCRATCH_BYTES), <[u8]>::to_vec)?;
            let bytes = if let Some(bytes) = cached {
                bytes
            } else {
                let (read, back) = self.offload(move || (file.read_at(0, wanted), file)).await?;
                file = back;
                read?
            };
            match Entry::parse(&bytes, file.status.size).err().and_then(cache::EntryFault::needs) {
                Some(needs) if needs > wanted => wanted = needs,
                _ => return Ok((file, bytes)),
            }
        }
    }

    /// The second key of this request for a response with this `Vary`.
    pub(super) fn variant(&self, main: Key, vary: &[u8]) -> Key {
        let request = &self.request;
        variant_of(main, vary, |name, say| {
            for field in &request.head.fields {
                if field.name.of(&request.bytes).eq_ignore_ascii_case(name) {
                    say(field.value.of(&request.bytes));
                }
            }
        })
    }
}

/// `proxy_cache_key_digest`
fn digest_text(key: &[u8]) -> Vec<u8> {
    let mut text = String::new();
    write_hex(&tls::digest(key), &mut text);
    text.into_bytes()
}

/// State of a request that may wait for a key.
#[derive(Default)]
struct LockWait {
    /// `proxy_cache_lock_timeout`
    give_up_at: Option<Millis>,
    /// Its last look at the key found a response that is being stored.
    had_fill: bool,
}

/// The result of waiting for the right to fill a key.
enum Locked {
    Ours,
    /// The file may be there now, or no request fills the key any more.
    Changed,
    TimedOut,
    ClientGone,
}
