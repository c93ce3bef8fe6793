//! The response head of an upstream: received, checked, and passed on with the beginning of the body in the same write.

use crate::base::close::CloseReason;
use crate::base::logs::error::Level;
use crate::base::memory::FLOOR_BYTES;
use crate::content::filtered::{Compress, Ranges};
use crate::content::proxy::Tries;
use crate::content::proxy::attempt::{AttemptEnd, Sent};
use crate::content::proxy::early_hints::Interims;
use crate::content::proxy::relay::{FeedError, READS_MAX, Relay};
use crate::downstream::reply_head::{Mark, ReplyHead};
use crate::exchange::Exchange;
use crate::exchange::caching::Storing;
use crate::exchange::reply::{Reply, is_bodiless};
use crate::exchange::response::Response;
use crate::exchange::saving::Saving;
use crate::exchange::step::Step;
use crate::filter::compress::GZIP_TURN_BYTES;
use crate::filter::forced_range::Portion;
use crate::registry::generation::BoundProxy;
use crate::upstream::head::{ExpectedHead, HeadEvent, HeadFault};
use crate::upstream::incoming::{BodySeen, Incoming};
use crate::upstream::side::UpstreamSide;
use http1::{Field, FieldId, RequestKind, ResponseFraming};
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
    /// An error page, or the target of `X-Accel-Redirect`, replaces the response; the body is not passed on.
    Intercepted(BodySeen),
    /// The attempt ends with something other than this response.
    Instead(Box<AttemptEnd>, BodySeen),
    /// 101: the bytes that followed it.
    Switched(Vec<u8>),
    /// There is no head.
    Failed(HeadFault),
}

/// What the head of a response is judged by.
struct Receiving<'a> {
    plan: &'a BoundProxy,
    tries: &'a Tries,
    incoming: &'a mut Incoming,
    /// The connection has served an exchange before.
    is_reused: bool,
}

/// What is known of a body when the head for the client is made.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ExpectedBody {
    pub(crate) framing: ResponseFraming,
    /// The upstream was asked by HEAD.
    pub(crate) asked_for_head: bool,
    /// Trailers may follow it.
    pub(crate) may_have_trailers: bool,
}

impl Exchange {
    /// Reads what the upstream has sent; a complete head starts the response.
    pub(crate) fn receive_head(
        &mut self,
        plan: &BoundProxy,
        up: &mut UpstreamSide,
        tries: &Tries,
        interims: &mut Interims,
    ) -> HeadStep {
        let is_reused = up.is_reused();
        // A head is bounded, but an application may send records without a byte of it.
        for _ in 0..READS_MAX {
            let most = self.thread.memory.room(SCRATCH_BYTES, FLOOR_BYTES);
            // The pace does not apply to bytes read with the head, so no more than nginx's buffer is read here.
            let most = plan.limit_rate.as_ref().map_or(most, |_| most.min(plan.limits.head_bytes_max));
            let most = if self.location().changes_bodies() { most.min(GZIP_TURN_BYTES) } else { most };
            let read = up.receive_head(most, |incoming, bytes| {
                if let Some(record) = self.upstream.attempt_mut() {
                    record.bytes_received += incoming.received_bytes(bytes);
                }
                let receiving = Receiving { plan, tries, incoming, is_reused };
                if self.answer_bytes().is_empty() {
                    return self.take_head(bytes, receiving, interims);
                }
                // The head came in pieces: joins the earlier bytes with the new ones.
                let mut joined = std::mem::take(&mut self.answer_mut().bytes);
                joined.extend_from_slice(bytes);
                self.take_head(&joined, receiving, interims)
            });
            return match read {
                Ok(Read::Data(HeadStep::Waiting)) => continue,
                Ok(Read::Data(step)) => step,
                Ok(Read::NotReady) => HeadStep::Waiting,
                Ok(Read::Closed) => HeadStep::Failed(HeadFault {
                    failure: self.closed(up),
                    reason: "upstream prematurely closed connection".into(),
                    discard: DiscardReason::PeerClosedIdle,
                }),
                Err(error) => HeadStep::Failed(up.read_failure(&error, self.received_of_head(up) > 0)),
            };
        }
        // A stream has no socket with unread bytes that would end the next wait.
        self.thread.reactor.wake(self.task());
        HeadStep::Busy
    }

    /// The connection ended: before the head, or inside it.
    fn closed(&self, up: &UpstreamSide) -> Failure {
        if self.received_of_head(up) == 0 { Failure::ClosedBeforeHead } else { Failure::ClosedInsideHead }
    }

    /// Looks at everything received of the head so far.
    fn take_head(&mut self, mut bytes: &[u8], receiving: Receiving<'_>, interims: &mut Interims) -> HeadStep {
        let Receiving { plan, tries, .. } = receiving;
        loop {
            let spare = || self.spares.answer(&self.thread.memory);
            let mut answer = self.upstream.take_answer().unwrap_or_else(spare);
            let refuses_growth = || self.thread.refuses_growth();
            let asked = self.asked(plan, tries, &refuses_growth);
            let event = receiving.incoming.take_head(bytes, &asked, &mut answer);
            self.upstream.put_answer(answer);
            self.log_stderr(&receiving.incoming.take_stderr(), "reading response header from upstream");
            match event {
                Err(fault) => return HeadStep::Failed(fault),
                Ok(HeadEvent::Partial) => return HeadStep::Waiting,
                Ok(HeadEvent::Interim(rest)) => {
                    interims.count += 1;
                    if self.answer_mut().head.status == 103 && interims.count <= INTERIMS_MAX {
                        self.pass_early_hints(plan, interims);
                    }
                    self.upstream.forget_answer();
                    if interims.count > INTERIMS_MAX {
                        let reason = format!("upstream sent more than {INTERIMS_MAX} interim responses");
                        return HeadStep::Failed(HeadFault::invalid(reason));
                    }
                    bytes = rest;
                    if bytes.is_empty() {
                        return HeadStep::Waiting;
                    }
                }
                Ok(HeadEvent::Switching(rest)) => return self.switch(rest),
                Ok(HeadEvent::Final(rest)) => return self.begin_response(rest, receiving),
            }
        }
    }

    /// The request, as far as the head of its response depends on it.
    fn asked<'a>(
        &'a self,
        plan: &'a BoundProxy,
        tries: &Tries,
        refuses_growth: &'a dyn Fn() -> bool,
    ) -> ExpectedHead<'a> {
        ExpectedHead {
            limits: &plan.limits,
            request: if tries.asks_for_head { RequestKind::Head } else { RequestKind::Other },
            application: plan.application.as_deref(),
            sent: self.request.upstream_head.as_bytes(),
            uri: self.uri(),
            refuses_growth,
        }
    }

    /// Number of bytes received of the head.
    pub(crate) fn received_of_head(&self, up: &UpstreamSide) -> usize {
        self.answer_bytes().len() + up.incoming().waiting_bytes()
    }

    /// Records when the head came, and its status.
    pub(super) fn note_head(&mut self) {
        let now = self.thread.reactor.now_us();
        let status = self.answer_mut().head.status;
        if let Some(record) = self.upstream.attempt_mut() {
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

    fn begin_response(&mut self, rest: &[u8], receiving: Receiving<'_>) -> HeadStep {
        let Receiving { plan, tries, incoming, is_reused } = receiving;
        self.note_head();
        let (status, framing) = (self.answer_mut().head.status, self.answer_mut().head.framing);
        if self.is_for_next_peer(plan, is_reused, tries, status) {
            self.upstream.forget_answer();
            return HeadStep::Failed(HeadFault::of_status(status));
        }
        if let Some(fault) = self.refuse_page_for_tunnel(status) {
            return HeadStep::Failed(fault);
        }
        let seen = incoming.seen(framing, rest);
        if let Some(because) = self.cached_instead(plan, status) {
            return HeadStep::Instead(Box::new(AttemptEnd::Cached(because)), seen);
        }
        if self.shows_error_page(plan, status) || self.accel_redirect(plan).is_some() {
            return HeadStep::Intercepted(seen);
        }
        let said = self.judge_cacheable(plan);
        let verdict = self.stored_verdict(plan, status);
        if verdict == Verdict::Failed {
            let end = AttemptEnd::Intercepted(Box::new(Step::Reply(Reply::error(412))));
            return HeadStep::Instead(Box::new(end), seen);
        }
        let not_modified = verdict == Verdict::NotModified;
        let portion = if not_modified { Portion::Whole } else { self.portion(plan) };
        if matches!(portion, Portion::Nothing { .. }) {
            return HeadStep::Intercepted(seen);
        }
        let kept = (self.begin_store(plan, said, status), self.begin_saving(plan, status, tries));
        let may_have_trailers = incoming.may_have_trailers(framing);
        let (relay, body) = self.begin_relay(plan, incoming, (framing, rest), kept, not_modified);
        self.head_came(plan, tries);
        let head = if not_modified {
            self.not_modified_head(plan)
        } else {
            let body = ExpectedBody { framing, asked_for_head: tries.asks_for_head, may_have_trailers };
            self.passed_head(plan, body, &portion)
        };
        if self.routing.undecided.is_due() {
            self.spares.recycle_reply_head(head);
            return HeadStep::Intercepted(seen);
        }
        if let Portion::Part { range, .. } = &portion
            && self.down.sends_body(&head)
        {
            self.response.filters.send_only(range);
        }
        self.send_head_and_begun_body(relay, head, body)
    }

    /// Sends the head, and the part of the body that came with it.
    fn send_head_and_begun_body(&mut self, mut relay: Box<Relay>, head: Box<ReplyHead>, body: &[u8]) -> HeadStep {
        let Self { upstream, response: Response { filters, .. }, down, .. } = self;
        let answer = upstream.answer_bytes();
        let fed = relay.feed(body, Some(head.with(answer)), filters, down);
        relay.preread = relay.body.received;
        self.spares.recycle_reply_head(head);
        match fed {
            Ok(()) => HeadStep::Relaying(relay),
            Err(FeedError::Coding(error)) => {
                self.response.set_status(0);
                HeadStep::Failed(HeadFault::invalid(error.phrase()))
            }
            Err(FeedError::Client) if relay.is_kept() => {
                relay.muted = true;
                relay.gone = Some(CloseReason::ClientAborted);
                HeadStep::Relaying(relay)
            }
            Err(FeedError::Client) => {
                if let Some(record) = self.upstream.attempt_mut() {
                    record.response_length = relay.body.received;
                }
                HeadStep::Refused
            }
        }
    }

    /// Whether another peer is tried because of this status.
    fn is_for_next_peer(&self, plan: &BoundProxy, reused: bool, tries: &Tries, status: u16) -> bool {
        let is_listed = Conditions::of_status(status).is_some_and(|condition| plan.conditions.contains(condition));
        let sent = Sent { some: true, reused, proved_unsent: false };
        is_listed && self.judge(plan, Failure::Status(status), sent, tries).decision == Decision::NextPeer
    }

    /// The head of a response that is passed on, after all filters.
    #[allow(clippy::unnecessary_box_returns)] // what is recycled is the box
    fn passed_head(&mut self, plan: &BoundProxy, body: ExpectedBody, portion: &Portion) -> Box<ReplyHead> {
        let mut head = self.describe_response(plan, body, portion);
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
        incoming: &mut Incoming,
        (framing, rest): (ResponseFraming, &'a [u8]),
        (store, saving): (Option<Box<Storing>>, Option<Box<Saving>>),
        not_modified: bool,
    ) -> (Box<Relay>, &'a [u8]) {
        let is_kept = store.is_some() || saving.is_some();
        self.upstream.ignore_abort(plan.ignore_client_abort || is_kept);
        // HEAD, also by `proxy_method`: the client asked for the head only, and this body is not needed.
        let no_body = not_modified || !self.down.takes_body();
        let unwanted = no_body && !is_kept && !incoming.has_no_body(framing, rest);
        let is_partial = incoming.seen(framing, rest) == BodySeen::Partly;
        let body = if unwanted { incoming.unwanted_body() } else { incoming.body(framing, rest) };
        let mut relay = Box::new(Relay::new(body));
        relay.unread = unwanted && is_partial;
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
        body: ExpectedBody,
        portion: &Portion,
    ) -> Box<ReplyHead> {
        let ExpectedBody { framing, asked_for_head, may_have_trailers } = body;
        let (status, reason, stated) = self.answer().map_or_else(Default::default, |answer| {
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
        let brings_trailers = plan.pass_trailers && may_have_trailers;
        head.has_trailers = framing != ResponseFraming::None && self.wants_trailers(shown, brings_trailers);
        if self.down.ends_by_close(&head) {
            self.close_delimited();
        }
        head
    }

    pub(crate) fn fill_proxied_head(&self, plan: &BoundProxy, portion: &Portion, head: &mut ReplyHead) {
        let Some(answer) = self.answer() else { return };
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
        let fields = self.answer().map_or(&[][..], |answer| &answer.head.fields);
        let (bytes, edits) = (self.answer_bytes(), self.edits_cached());
        let status = self.answer().map_or(0, |answer| answer.head.status);
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
