//! The response head of an upstream: received, checked, and passed on with the beginning of the body in the same write.

use crate::base::close::CloseReason;
use crate::base::logs::error::Level;
use crate::base::memory::{FLOOR_BYTES, HEAD_BYTES_USUAL};
use crate::content::filtered::{Compress, Ranges};
use crate::content::proxy::Tries;
use crate::content::proxy::attempt::{AttemptEnd, Sent};
use crate::content::proxy::early_hints::Interims;
use crate::content::proxy::relay::{FeedError, READS_MAX, Relay};
use crate::downstream::reply_head::{Mark, ReplyHead};
use crate::exchange::Exchange;
use crate::exchange::caching::Storing;
use crate::exchange::conversation::Conversation;
use crate::exchange::reply::{Reply, is_bodiless};
use crate::exchange::response::Response;
use crate::exchange::saving::Saving;
use crate::exchange::step::Step;
use crate::filter::compress::GZIP_TURN_BYTES;
use crate::filter::forced_range::Portion;
use crate::registry::generation::BoundProxy;
use crate::upstream::answer::Answer;
use crate::upstream::response_body::Source;
use crate::upstream::side::UpstreamSide;
use cgi::memcached::ValueEnd;
use http1::chunked::Decoder;
use http1::{Field, FieldId, Parse, RequestKind, ResponseFraming, ResponseKind};
use reactor::{Read, SCRATCH_BYTES};
use rules::precondition::Verdict;
use upstream::DiscardReason;
use upstream::retry::{Conditions, Decision, Failure};

/// Most interim responses of one exchange. An upstream has no reason to send more than a few.
const INTERIMS_MAX: u32 = 16;

/// The result of looking for the response head.
pub(crate) enum HeadStep {
    /// The head is incomplete.
    Waiting,
    /// The head is incomplete, and more has come; other tasks come first.
    Busy,
    /// The head was sent to the client; the body follows.
    Relaying(Box<Relay>),
    /// The head could not be sent: the client's socket is broken.
    Refused,
    /// An error page, or the target of `X-Accel-Redirect`, replaces the response; the body is not passed on. `true`:
    /// all of it has come already.
    Intercepted(bool),
    /// The attempt ends with something other than this response; `true`: all of the body has come already.
    Instead(Box<AttemptEnd>, bool),
    /// 101: the bytes that followed it.
    Switched(Vec<u8>),
    /// No head: the failure, text for the log (empty: nothing to log), and why the connection is discarded.
    Failed(Failure, String, DiscardReason),
}

impl Exchange {
    /// Reads what the upstream has sent; a complete head starts the response.
    pub(crate) fn receive_head(
        &mut self,
        plan: &BoundProxy,
        up: &UpstreamSide,
        tries: &Tries,
        interims: &mut Interims,
    ) -> HeadStep {
        // A head is bounded, but an application may send records without a byte of it.
        for _ in 0..READS_MAX {
            let most = self.thread.memory.room(SCRATCH_BYTES, FLOOR_BYTES);
            // The pace does not apply to bytes read with the head, so no more than nginx's buffer is read here.
            let most = plan.limit_rate.as_ref().map_or(most, |_| most.min(plan.limits.head_bytes_max));
            let most = if self.location().changes_bodies() { most.min(GZIP_TURN_BYTES) } else { most };
            let read = up.read_with(most, |bytes| {
                self.upstream.stream_ended = up.has_ended();
                self.upstream.lacks_trailers = up.lacks_trailers();
                if let Some(record) = self.upstream.attempts.last_mut() {
                    record.bytes_received += bytes.len() as u64;
                }
                if let Some(fastcgi) = plan.application.as_ref().and_then(|application| application.fastcgi()) {
                    return self.take_records(bytes, fastcgi, plan, up, tries);
                }
                if self.answer_bytes().is_empty() {
                    return self.take_head(bytes, plan, up, tries, interims);
                }
                // The head came in pieces: joins the earlier bytes with the new ones.
                let mut joined = std::mem::take(&mut self.answer_mut().bytes);
                joined.extend_from_slice(bytes);
                self.take_head(&joined, plan, up, tries, interims)
            });
            return match read {
                Ok(Read::Data(HeadStep::Waiting)) => continue,
                Ok(Read::Data(step)) => step,
                Ok(Read::NotReady) => HeadStep::Waiting,
                Ok(Read::Closed) => HeadStep::Failed(
                    self.closed(),
                    "upstream prematurely closed connection".into(),
                    DiscardReason::PeerClosedIdle,
                ),
                Err(error) => {
                    let (failure, reason, discard) = up.read_failure(&error, self.received_of_head() > 0);
                    HeadStep::Failed(failure, reason, discard)
                }
            };
        }
        HeadStep::Busy
    }

    /// The connection ended: before the head, or inside it.
    fn closed(&self) -> Failure {
        if self.received_of_head() == 0 { Failure::ClosedBeforeHead } else { Failure::ClosedInsideHead }
    }

    /// Looks at everything received of the head so far.
    fn take_head(
        &mut self,
        mut bytes: &[u8],
        plan: &BoundProxy,
        up: &UpstreamSide,
        tries: &Tries,
        interims: &mut Interims,
    ) -> HeadStep {
        if let Some(memcached) = plan.application.as_ref().and_then(|application| application.memcached()) {
            return self.take_value_head(bytes, memcached, plan, up, tries);
        }
        if plan.application.is_some() && !bytes.starts_with(b"HTTP/") {
            return self.take_cgi_head(bytes, plan, up, tries);
        }
        let request = if tries.asks_for_head { RequestKind::Head } else { RequestKind::Other };
        loop {
            let len = match http1::response::parse(bytes, &plan.limits, request, &mut self.answer_mut().head) {
                Ok(Parse::Complete { len }) => len,
                Ok(Parse::Partial) if bytes.len() > HEAD_BYTES_USUAL && self.thread.refuses_growth() => {
                    let reason = "memory_budget has no room for the rest of a large response head".into();
                    return HeadStep::Failed(Failure::NoSocket, reason, DiscardReason::ResponseBodyUnread);
                }
                Ok(Parse::Partial) => {
                    self.keep_answer_bytes(bytes);
                    return HeadStep::Waiting;
                }
                Err(error) => {
                    let reason = format!("{}: {error}", error.phrase());
                    return HeadStep::Failed(Failure::InvalidHeader, reason, DiscardReason::ProtocolError);
                }
            };
            let (head, rest) = bytes.split_at(len);
            // uwsgi has HTTP's status line, and one request per connection.
            self.answer_mut().head.keepalive &= plan.application.is_none();
            match self.answer_mut().head.kind {
                ResponseKind::Interim => {
                    interims.count += 1;
                    if interims.count > INTERIMS_MAX {
                        let reason = format!("upstream sent more than {INTERIMS_MAX} interim responses");
                        return HeadStep::Failed(Failure::InvalidHeader, reason, DiscardReason::ProtocolError);
                    }
                    if self.answer_mut().head.status == 103 {
                        self.pass_early_hints(head, plan, interims);
                    }
                    bytes = rest;
                    if bytes.is_empty() {
                        self.forget_answer();
                        return HeadStep::Waiting;
                    }
                }
                ResponseKind::SwitchingProtocols => return self.switch(head, rest),
                ResponseKind::Final => return self.begin_response(head, rest, plan, up, tries),
            }
        }
    }

    /// The response head, once a part of it has come.
    pub(crate) fn answer(&self) -> Option<&Answer> {
        self.upstream.answer.as_deref().filter(|answer| !answer.bytes.is_empty())
    }

    /// The bytes received of the head.
    pub(crate) fn answer_bytes(&self) -> &[u8] {
        self.upstream.answer.as_ref().map_or(&[], |answer| &answer.bytes)
    }

    /// Number of bytes received of the head.
    pub(crate) fn received_of_head(&self) -> usize {
        self.answer_bytes().len() + self.upstream.records.as_ref().map_or(0, |records| records.waiting_bytes())
    }

    pub(crate) fn answer_mut(&mut self) -> &mut Answer {
        self.upstream.answer.get_or_insert_with(|| self.spares.answer(&self.thread.memory))
    }

    pub(crate) fn keep_answer_bytes(&mut self, bytes: &[u8]) {
        let answer = self.answer_mut();
        answer.bytes.clear();
        answer.bytes.extend_from_slice(bytes);
    }

    /// Drops the head: it was an interim response, or the attempt failed.
    pub(crate) fn forget_answer(&mut self) {
        self.upstream.records = None;
        self.upstream.is_value = false;
        self.upstream.stream_ended = None;
        if let Some(answer) = &mut self.upstream.answer {
            answer.bytes.clear();
            answer.trailers.clear();
        }
    }

    pub(super) fn keep_response_head(&mut self, head: &[u8]) {
        self.keep_answer_bytes(head);
        let now = self.thread.reactor.now_us();
        let status = self.answer_mut().head.status;
        if let Some(record) = self.upstream.attempts.last_mut() {
            record.header_us = Some(now.since(record.began_at));
            record.status = status;
        }
        self.log_repeated_field();
    }

    /// Logs that the upstream sent a field twice; the first one counts.
    fn log_repeated_field(&self) {
        let Some(answer) = self.answer() else { return };
        let Some(again) = &answer.head.repeated else { return };
        let Some(first) = answer.head.find(again.id) else { return };
        let line = |field: &Field| {
            let (name, value) = (field.name.of(&answer.bytes), field.value.of(&answer.bytes));
            format!("\"{}: {}\"", name.escape_ascii(), value.escape_ascii())
        };
        let message = format!(
            "upstream sent duplicate header line: {}, previous value: {}, ignored while reading response header from \
             upstream",
            line(again),
            line(first)
        );
        self.log_at(Level::Warn, &message);
    }

    pub(super) fn begin_response(
        &mut self,
        head: &[u8],
        rest: &[u8],
        plan: &BoundProxy,
        up: &UpstreamSide,
        tries: &Tries,
    ) -> HeadStep {
        self.keep_response_head(head);
        let (status, framing) = (self.answer_mut().head.status, self.answer_mut().head.framing);
        if self.is_for_next_peer(plan, up, tries, status) {
            self.forget_answer();
            return HeadStep::Failed(Failure::Status(status), String::new(), DiscardReason::ResponseBodyUnread);
        }
        if let Some(failed) = self.refuse_page_for_tunnel(status) {
            return failed;
        }
        if let Some(because) = self.cached_instead(plan, status) {
            return HeadStep::Instead(Box::new(AttemptEnd::Cached(because)), self.is_whole(framing, rest));
        }
        if self.shows_error_page(plan, status) || self.accel_redirect(plan).is_some() {
            return HeadStep::Intercepted(self.is_whole(framing, rest));
        }
        let said = self.judge_cacheable(plan);
        let verdict = self.stored_verdict(plan, status);
        if verdict == Verdict::Failed {
            let end = AttemptEnd::Intercepted(Box::new(Step::Reply(Reply::error(412))));
            return HeadStep::Instead(Box::new(end), self.is_whole(framing, rest));
        }
        let not_modified = verdict == Verdict::NotModified;
        let portion = if not_modified { Portion::Whole } else { self.portion(plan) };
        if matches!(portion, Portion::Nothing { .. }) {
            return HeadStep::Intercepted(self.is_whole(framing, rest));
        }
        let kept = (self.begin_store(plan, said, status, head), self.begin_saving(plan, status, tries));
        let (mut relay, body) = self.begin_relay(plan, (framing, rest), kept, not_modified);
        self.head_came(plan, tries);
        let head = if not_modified {
            self.not_modified_head(plan)
        } else {
            self.passed_head(plan, framing, tries.asks_for_head, &portion)
        };
        if self.routing.undecided.is_due() {
            self.spares.recycle_reply_head(head);
            return HeadStep::Intercepted(self.is_whole(framing, rest));
        }
        if let Portion::Part { range, .. } = &portion
            && self.down.sends_body(&head)
        {
            self.response.filters.send_only(range);
        }
        let Self { upstream: Conversation { answer, .. }, response: Response { filters, .. }, down, .. } = self;
        let answer = answer.as_ref().map_or(&[][..], |answer| &answer.bytes);
        let fed = relay.feed(body, Some(head.with(answer)), filters, down);
        relay.preread = relay.body.received;
        self.spares.recycle_reply_head(head);
        match fed {
            Ok(()) => HeadStep::Relaying(relay),
            Err(FeedError::Coding(error)) => {
                self.response.set_status(0);
                HeadStep::Failed(Failure::InvalidHeader, error.phrase(), DiscardReason::ProtocolError)
            }
            Err(FeedError::Client) if relay.is_kept() => {
                relay.muted = true;
                relay.gone = Some(CloseReason::ClientAborted);
                HeadStep::Relaying(relay)
            }
            Err(FeedError::Client) => HeadStep::Refused,
        }
    }

    /// Whether another peer is tried because of this status.
    fn is_for_next_peer(&self, plan: &BoundProxy, up: &UpstreamSide, tries: &Tries, status: u16) -> bool {
        let is_listed = Conditions::of_status(status).is_some_and(|condition| plan.conditions.contains(condition));
        let sent = Sent { some: true, reused: up.is_reused(), proved_unsent: false };
        is_listed && self.judge(plan, Failure::Status(status), sent, tries).decision == Decision::NextPeer
    }

    /// The head of a response that is passed on, after all filters.
    #[allow(clippy::unnecessary_box_returns)] // what is recycled is the box
    fn passed_head(
        &mut self,
        plan: &BoundProxy,
        framing: ResponseFraming,
        asked_for_head: bool,
        portion: &Portion,
    ) -> Box<ReplyHead> {
        let mut head = self.describe_response(plan, framing, asked_for_head, portion);
        self.settle_keepalive();
        self.take_limit_rate(plan);
        self.take_charset(plan);
        self.begin_pace();
        self.fill_proxied_head(plan, portion, &mut head);
        let compress = if self.flushes(plan) { Compress::Flushing } else { Compress::Yes };
        self.filter_head(&mut head, Ranges::Forced(portion), compress);
        head
    }

    /// Decides about the body: its framing, whether it is stored, whether the client gets it. Also returns the bytes of
    /// it that have come.
    fn begin_relay<'a>(
        &mut self,
        plan: &BoundProxy,
        (framing, rest): (ResponseFraming, &'a [u8]),
        (store, saving): (Option<Box<Storing>>, Option<Box<Saving>>),
        not_modified: bool,
    ) -> (Box<Relay>, &'a [u8]) {
        let is_kept = store.is_some() || saving.is_some();
        self.upstream.abort_ignored = plan.ignore_client_abort || is_kept;
        // HEAD, also by `proxy_method`: the client asked for the head only, and this body is not needed.
        let no_body = not_modified || !self.down.takes_body();
        let unwanted = no_body && !is_kept && !self.has_no_body(framing, rest);
        let is_whole = self.is_whole(framing, rest);
        let source = self.source_of(framing, rest);
        let mut relay = Box::new(Relay::new(if unwanted { Source::Done } else { source }));
        relay.unread = unwanted && !is_whole;
        relay.muted = no_body && is_kept;
        (relay.store, relay.saving) = (store, saving);
        relay.pace = self.upstream_pace(plan);
        (relay, if unwanted { &[] } else { rest })
    }

    /// `proxy_intercept_errors`
    pub(crate) fn shows_error_page(&self, plan: &BoundProxy, status: u16) -> bool {
        // A value that memcached does not have is 404, with or without a page for it.
        let is_missing = || plan.application.as_ref().is_some_and(|application| application.memcached().is_some());
        plan.intercept_errors
            && status >= 300
            && (self.location().error_pages.find(status).is_some() || (status == 404 && is_missing()))
    }

    /// Starts the head: the status, and what is known of the body.
    #[allow(clippy::unnecessary_box_returns)] // what is recycled is the box
    pub(crate) fn describe_response(
        &mut self,
        plan: &BoundProxy,
        framing: ResponseFraming,
        asked_for_head: bool,
        portion: &Portion,
    ) -> Box<ReplyHead> {
        let (status, reason, stated) = self.upstream.answer.as_ref().map_or_else(Default::default, |answer| {
            (answer.head.status, answer.head.reason, answer.head.content_length)
        });
        let is_part = matches!(portion, Portion::Part { .. });
        let shown = if is_part { 206 } else { self.response.status_for(status) };
        let mut head = self.begin_head(shown);
        // An application may send no reason phrase, and HTTP/2 has none.
        let is_said = (plan.application.is_none() && !plan.http2) || !reason.is_empty();
        head.reason = Some(reason).filter(|_| shown == status && is_said);
        let is_head = !self.down.takes_body();
        (head.has_body, head.length) = match framing {
            // `proxy_method HEAD`: the client expects the body that the head describes.
            ResponseFraming::None if asked_for_head && !is_head && !is_bodiless(shown) => (true, Some(0)),
            ResponseFraming::None => (false, stated),
            ResponseFraming::Length(length) => (true, Some(length)),
            ResponseFraming::Chunked | ResponseFraming::UntilClose => (true, stated.filter(|_| is_head)),
        };
        if let Portion::Part { range, .. } = portion {
            head.length = Some(range.end - range.start);
        }
        let is_stream = self.upstream.stream_ended.is_some();
        // A head with END_STREAM has no trailers after it: in gRPC it is itself the trailers.
        let may_have_trailers = is_stream && !self.upstream.lacks_trailers;
        let brings_trailers = plan.pass_trailers && (framing == ResponseFraming::Chunked || may_have_trailers);
        head.has_trailers = framing != ResponseFraming::None && self.wants_trailers(shown, brings_trailers);
        if self.down.ends_by_close(&head) {
            self.close_delimited();
        }
        head
    }

    pub(crate) fn fill_proxied_head(&self, plan: &BoundProxy, portion: &Portion, head: &mut ReplyHead) {
        let Some(answer) = self.upstream.answer.as_deref() else { return };
        let lacks = |id| !answer.head.seen.contains(id);
        if plan.hidden.contains(FieldId::Server, b"") || lacks(FieldId::Server) {
            self.fill_server(head);
        }
        if plan.hidden.contains(FieldId::Date, b"") || lacks(FieldId::Date) {
            self.fill_date(head);
        }
        self.fill_sticky(plan, head);
        let is_part = matches!(portion, Portion::Part { .. });
        let is_own = |id| (is_part && id == FieldId::ContentRange) || answer.head.seen.contains(id);
        self.fill_carried(is_own, head);
        self.pass_fields(plan, head);
        head.fields.mark(Mark::Length);
        head.fields.mark(Mark::Connection);
    }

    /// Response fields that go to the client. An empty Content-Type is left out, as in nginx.
    pub(crate) fn passed_fields(&self, plan: &BoundProxy) -> impl Iterator<Item = &Field> {
        let fields = self.upstream.answer.as_ref().map_or(&[][..], |answer| &answer.head.fields);
        let (bytes, edits) = (self.answer_bytes(), self.edits_cached());
        let status = self.upstream.answer.as_ref().map_or(0, |answer| answer.head.status);
        fields.iter().filter(move |field| {
            let ends_here = match field.id {
                FieldId::ContentLength => true,
                // Protocols that the server offers for a further request (RFC 9110 §7.8), as in a 426. The 101 that
                // switches has its own.
                FieldId::Upgrade => status == 101,
                FieldId::SecWebSocketAccept => self.down.wants_tunnel(),
                FieldId::ContentType => field.hop || field.value.of(bytes).is_empty(),
                // The gateway serves ranges of a stored response itself.
                FieldId::AcceptRanges => field.hop || edits,
                _ => field.hop,
            };
            !ends_here && !plan.hidden.contains(field.id, field.name.of(bytes))
        })
    }
}

/// Where the body comes from.
impl Exchange {
    /// The source of the response's body, for a head with this framing.
    fn source_of(&mut self, framing: ResponseFraming, rest: &[u8]) -> Source {
        if let Some(has_ended) = self.upstream.stream_ended {
            return match framing {
                ResponseFraming::None => Source::Done,
                _ if !has_ended => Source::Stream,
                _ if rest.is_empty() => Source::Done,
                _ => Source::Length(rest.len() as u64),
            };
        }
        if let Some(mut records) = self.upstream.records.take() {
            records.begin_body(match framing {
                ResponseFraming::None => Some(0),
                ResponseFraming::Length(length) => Some(length),
                ResponseFraming::Chunked | ResponseFraming::UntilClose => None,
            });
            return if records.is_whole() { Source::Done } else { Source::Records(records) };
        }
        if let (true, ResponseFraming::Length(length)) = (self.upstream.is_value, framing) {
            return Source::Value(ValueEnd::new(length));
        }
        match framing {
            ResponseFraming::None | ResponseFraming::Length(0) => Source::Done,
            ResponseFraming::Length(length) => Source::Length(length),
            ResponseFraming::Chunked => Source::Chunked(Box::new(Decoder::of_response())),
            ResponseFraming::UntilClose => Source::UntilClose,
        }
    }

    /// Whether the response has no body at all; `rest` is what followed its head.
    fn has_no_body(&self, framing: ResponseFraming, rest: &[u8]) -> bool {
        match self.upstream.stream_ended {
            Some(has_ended) => framing == ResponseFraming::None || (has_ended && rest.is_empty()),
            None => self.is_whole(framing, b""),
        }
    }

    /// Whether the whole body has come with the head; `rest` is what followed the head.
    fn is_whole(&self, framing: ResponseFraming, rest: &[u8]) -> bool {
        let Some(has_ended) = self.upstream.stream_ended else {
            if let (true, ResponseFraming::Length(length)) = (self.upstream.is_value, framing) {
                let mut end = ValueEnd::new(length);
                let (_, used) = end.take(rest);
                return end.is_over() && !end.is_broken() && used == rest.len();
            }
            let records = self.upstream.records.as_ref();
            return records.map_or_else(|| is_whole(framing, rest), |records| records.is_whole());
        };
        has_ended || framing == ResponseFraming::None
    }
}

/// Whether these bytes are exactly one whole body.
fn is_whole(framing: ResponseFraming, bytes: &[u8]) -> bool {
    match framing {
        ResponseFraming::None => bytes.is_empty(),
        ResponseFraming::Length(length) => bytes.len() as u64 == length,
        ResponseFraming::UntilClose => false,
        ResponseFraming::Chunked => {
            let (mut decoder, mut used) = (Decoder::of_response(), 0);
            while let Some(rest) = bytes.get(used..).filter(|rest| !rest.is_empty()) {
                match decoder.decode(rest) {
                    Ok(step) if step.done => return used + step.consumed == bytes.len(),
                    Ok(step) => used += step.consumed,
                    Err(_) => return false,
                }
            }
            false
        }
    }
}
