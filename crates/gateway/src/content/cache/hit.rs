//! Sends a response from the cache to the client. A small one is sent with its head in one write, a large one by
//! `sendfile(2)`.

use crate::base::close::CloseReason;
use crate::base::logs::error::Level;
use crate::content::cache::CacheUse;
use crate::content::cache::follow::CachedBody;
use crate::content::files::send::gone;
use crate::content::filtered::{Compress, Ranges};
use crate::content::proxy::forced_range::unsatisfiable;
use crate::content::proxy::response_head::ExpectedBody;
use crate::downstream::reply_head::ReplyHead;
use crate::exchange::Exchange;
use crate::exchange::file_parts::FileParts;
use crate::exchange::reply::{Reply, is_bodiless};
use crate::exchange::response::Response;
use crate::exchange::step::{Served, Step};
use crate::filter::forced_range::Portion;
use crate::plan::cache::CachePlan;
use crate::registry::cache::CacheStatus;
use crate::registry::cache::cached_file::CachedFile;
use crate::registry::generation::BoundProxy;
use cache::BODY_START_MAX;
use http1::{FieldId, Limits, Parse, RequestKind, ResponseFraming};
use rules::precondition::{Verdict, is_same_version, parse_date};
use rules::range::{Wanted, parse_range};
use std::ops::Range;
use std::rc::Rc;
use std::sync::Arc;

/// Bytes up to which a body is sent with its head; the same as for files.
const SMALL_BYTES_MAX: u64 = 16 * 1024;

impl Exchange {
    /// Sends the cached response: found fresh, or, with `because`, after the upstream was asked.
    pub(crate) async fn send_cached(&mut self, plan: &BoundProxy, because: Option<CacheUse>) -> Step {
        let (Some(cache), Some(caching)) = (&plan.cache, self.upstream.caching_mut()) else {
            return Step::Reply(Reply::error(500));
        };
        caching.edits = true;
        match because {
            Some(CacheUse::Stale) => caching.status = CacheStatus::Stale,
            Some(CacheUse::Revalidated) => caching.status = CacheStatus::Revalidated,
            None => {}
        }
        let (followed, found) = (caching.followed.take(), caching.found.take());
        let body = match (followed, found) {
            (Some(reader), _) if self.read_cached_head(&reader.fill().known.head) => {
                let stated = self.answer().and_then(|answer| answer.head.content_length);
                CachedBody::of_fill(reader, stated)
            }
            (None, Some(mut found)) if self.read_cached_head(found.head()) => {
                if because == Some(CacheUse::Revalidated) {
                    found = self.renew(plan, cache, found).await;
                }
                CachedBody::of_file(found)
            }
            _ => return Step::Reply(Reply::error(500)),
        };
        let status = self.answer_mut().head.status;
        match self.cached_verdict(plan, status) {
            Verdict::Send => {}
            Verdict::Failed => return Step::Reply(Reply::error(412)),
            Verdict::NotModified => {
                let head = self.not_modified_head(plan);
                return self.send_cached_head(head, &[], true);
            }
        }
        self.send_whole_or_part(plan, cache, body, status).await
    }

    /// Takes the head from the cache in place of the upstream's.
    fn read_cached_head(&mut self, head: &[u8]) -> bool {
        self.upstream.forget_answer();
        let limits = Limits::response(BODY_START_MAX);
        let parsed = http1::response::parse(head, &limits, RequestKind::Other, &mut self.answer_mut().head);
        let is_valid = matches!(parsed, Ok(Parse::Complete { .. }));
        if is_valid {
            self.answer_mut().keep(head);
        } else {
            self.log_at(Level::Crit, "the response head in a cache file is invalid");
        }
        is_valid
    }

    /// The upstream has confirmed the stored response (304): updates the times in its file.
    async fn renew(&mut self, plan: &BoundProxy, cache: &CachePlan, found: Rc<CachedFile>) -> Rc<CachedFile> {
        let now_s = self.now_s();
        let stored = self.freshness(plan).unwrap_or_default();
        let renewed = self.upstream.caching_mut().and_then(|caching| caching.renewed.take());
        // If the 304 has no times, the stored response's own fields decide, and then the configuration.
        let mut said = renewed.filter(|said| said.valid_until > 0).unwrap_or(stored);
        if said.valid_until == 0 {
            let status = self.answer().map_or(0, |answer| answer.head.status);
            said.valid_until = cache.valid_s(status).map_or(0, |seconds| now_s.saturating_add(seconds));
        }
        let Some(caching) = self.upstream.caching().filter(|_| said.valid_until > 0) else { return found };
        let mut found = Rc::unwrap_or_clone(found);
        let before = found.entry.encode(&caching.text, found.head());
        found.entry.valid_until = said.valid_until;
        found.entry.updating_s = said.updating_s;
        found.entry.error_s = said.error_s;
        let (Some(before), Some(after)) = (before, found.entry.encode(&caching.text, found.head())) else {
            return Rc::new(found);
        };
        let (zone, key) = (Arc::clone(&caching.zone), caching.key);
        self.thread.hot_responses.borrow_mut().forget(&zone, key);
        if let Err(error) = self.offload(move || zone.update(key, &before, &after)).await.flatten() {
            self.log_at(Level::Crit, &format!("the times of a cached response cannot be written ({error})"));
        }
        Rc::new(found)
    }

    /// The head of a 304 in place of a 200.
    #[allow(clippy::unnecessary_box_returns)] // what is recycled is the box
    pub(crate) fn not_modified_head(&mut self, plan: &BoundProxy) -> Box<ReplyHead> {
        let mut head = self.begin_head(304);
        self.settle_keepalive();
        self.fill_proxied_head(plan, &Portion::Whole, &mut head);
        for id in [FieldId::ContentType, FieldId::ContentEncoding] {
            head.fields.remove(id);
        }
        self.filter_head(&mut head, Ranges::None, Compress::No);
        head
    }

    /// Sends a head, and a body that is in memory.
    fn send_cached_head(&mut self, head: Box<ReplyHead>, body: &[u8], last: bool) -> Step {
        if let Some(refusal) = self.refuse_undecided() {
            self.spares.recycle_reply_head(head);
            return Step::Reply(refusal);
        }
        if self.send_with_answer(&head, body, last).is_err() {
            self.down.ending.break_off(CloseReason::ClientAborted);
        }
        self.spares.recycle_reply_head(head);
        Step::Served(Served::Responded)
    }

    fn send_with_answer(&mut self, head: &ReplyHead, body: &[u8], last: bool) -> Result<(), CloseReason> {
        let Self { upstream, response: Response { filters, .. }, down, .. } = self;
        let answer = upstream.answer_bytes();
        gone(filters.send_head(down, head.with(answer), body, last))
    }

    /// The portion of a response that the client gets, and its parts if there are several.
    fn cached_portion(
        &self,
        plan: &BoundProxy,
        cache: &CachePlan,
        status: u16,
        size: u64,
    ) -> (Portion, Option<FileParts>) {
        let Some(answer) = self.answer().filter(|_| status == 200 && !self.is_subrequest() && cache.ranges_max > 0)
        else {
            return (Portion::Whole, None);
        };
        let value = |id| answer.head.value(id, &answer.bytes);
        let is_offered = plan.force_ranges || value(FieldId::AcceptRanges).is_some();
        if !is_offered || answer.head.content_length.is_none() || self.clears_ranges_of_answer() {
            return (Portion::Whole, None);
        }
        let asked = |id| self.request.head.value(id, &self.request.bytes);
        let Some(range) = asked(FieldId::Range) else { return (Portion::Offered, None) };
        if self.would_change_answer(plan, size) {
            return (Portion::Whole, None);
        }
        let (tag, modified) = (value(FieldId::ETag), value(FieldId::LastModified).and_then(parse_date));
        if asked(FieldId::IfRange).is_some_and(|of| !is_same_version(of, tag, modified)) {
            return (Portion::Offered, None);
        }
        match parse_range(range, size, cache.ranges_max) {
            Wanted::Whole => (Portion::Offered, None),
            Wanted::Unsatisfiable => (Portion::Nothing { size }, None),
            Wanted::Parts(parts) => match &parts[..] {
                [range] => (Portion::Part { range: range.clone(), size }, None),
                parts => {
                    let media = value(FieldId::ContentType).unwrap_or_default();
                    (Portion::Whole, Some(FileParts::several(parts, size, media, self.request_id() as u64)))
                }
            },
        }
    }

    async fn send_whole_or_part(
        &mut self,
        plan: &BoundProxy,
        cache: &CachePlan,
        body: CachedBody,
        status: u16,
    ) -> Step {
        let size = body.size;
        let (portion, parts) = self.cached_portion(plan, cache, status, size);
        if let Portion::Nothing { size } = portion {
            return Step::Reply(unsatisfiable(size));
        }
        let states_length = self.answer().is_some_and(|answer| answer.head.content_length.is_some());
        let framing = match states_length {
            _ if is_bodiless(status) => ResponseFraming::None,
            // There is no body for HEAD; its length is stated.
            true if !self.down.takes_body() => {
                ResponseFraming::Length(self.answer().and_then(|answer| answer.head.content_length).unwrap_or(size))
            }
            true => ResponseFraming::Length(size),
            // As in nginx, a response stored without a length is sent without one.
            false => ResponseFraming::Chunked,
        };
        if parts.is_some() {
            self.response.show_as_part();
        }
        let may_have_trailers = framing == ResponseFraming::Chunked;
        let expected = ExpectedBody { framing, asked_for_head: false, may_have_trailers };
        let mut head = self.describe_response(plan, expected, &portion);
        self.settle_keepalive();
        self.take_limit_rate(plan);
        self.take_charset(plan);
        self.begin_pace();
        self.fill_proxied_head(plan, &portion, &mut head);
        if let Some(parts) = &parts {
            head.length = Some(parts.length());
            let media =
                parts.content_type(head.fields.value(FieldId::ContentType, self.answer_bytes()).unwrap_or_default());
            head.fields.remove(FieldId::ContentType);
            head.fields.push(FieldId::ContentType, &media);
        }
        self.filter_head(&mut head, Ranges::Forced(&portion), Compress::Yes);
        let range = match portion {
            Portion::Part { range, .. } => range,
            _ => 0..size,
        };
        if !self.down.sends_body(&head) || (body.is_empty() && parts.is_none()) {
            return self.send_cached_head(head, &[], true);
        }
        if parts.is_none()
            && range.end - range.start <= SMALL_BYTES_MAX
            && let Some(bytes) = body.in_memory(&range)
        {
            return self.send_cached_head(head, bytes, true);
        }
        if let Some(refusal) = self.refuse_undecided() {
            self.spares.recycle_reply_head(head);
            return Step::Reply(refusal);
        }
        let sent = match parts {
            Some(parts) => self.send_cached_parts(cache, &head, &body, parts).await,
            None => self.send_cached_body(cache, &head, &body, range).await,
        };
        self.spares.recycle_reply_head(head);
        self.end_cached(sent)
    }

    /// Ends the exchange after sending a body from the cache.
    fn end_cached(&mut self, sent: Result<(), CloseReason>) -> Step {
        match sent {
            Ok(()) if self.down.is_complete() || self.response.filters.holds_rest() => Step::Served(Served::Responded),
            Ok(()) => {
                self.error_log("the cache file was truncated while it was sent");
                Step::Served(self.truncate())
            }
            Err(CloseReason::Truncated) => Step::Served(self.truncate()),
            Err(reason) => {
                self.stop_sending(reason, "sending response to client");
                Step::Served(Served::Responded)
            }
        }
    }

    async fn send_cached_body(
        &mut self,
        cache: &CachePlan,
        head: &ReplyHead,
        body: &CachedBody,
        range: Range<u64>,
    ) -> Result<(), CloseReason> {
        if cache.sendfile && self.down.states_length(head) && self.down.sends_files() && !self.changes_body() {
            let Self { upstream, response: Response { filters, .. }, down, .. } = self;
            let answer = upstream.answer_bytes();
            // What was read with the head goes out with it: the rest begins with a page of the file.
            let begun = if filters.is_paced() { b"" } else { body.in_memory_from(&range) };
            gone(filters.send_head_of_file(down, head.with(answer), begun))?;
            let rest = range.start + begun.len() as u64..range.end;
            return self.send_cached_range(body, rest, Some(cache.sendfile_chunk), cache.read_chunk).await.map(drop);
        }
        self.send_with_answer(head, &[], false)?;
        if self.send_cached_range(body, range, None, cache.read_chunk).await? {
            gone(self.response.filters.send_body(&mut self.down, &[], true))?;
        }
        Ok(())
    }

    /// Whether a filter has to see the body.
    fn changes_body(&self) -> bool {
        self.response.filters.changes_body()
    }

    async fn send_cached_parts(
        &mut self,
        cache: &CachePlan,
        head: &ReplyHead,
        body: &CachedBody,
        parts: FileParts,
    ) -> Result<(), CloseReason> {
        self.send_with_answer(head, &[], false)?;
        for part in &parts.parts {
            gone(self.response.filters.send_body(&mut self.down, &part.before, false))?;
            if !self.send_cached_range(body, part.range.clone(), None, cache.read_chunk).await? {
                return Ok(());
            }
        }
        gone(self.response.filters.send_body(&mut self.down, &parts.after, true))
    }
}
