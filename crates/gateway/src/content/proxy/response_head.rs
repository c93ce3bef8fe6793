//! The response head of an upstream: received, judged, and passed on with the beginning of the body in the same write.

use crate::base::logs::error::Level;
use crate::base::memory::{FLOOR_BYTES, HEAD_BYTES_USUAL};
use crate::connector::leased::Leased;
use crate::content::filtered::{Compress, Ranges};
use crate::content::proxy::Tries;
use crate::content::proxy::attempt::{AttemptEnd, Sent};
use crate::content::proxy::early_hints::Interims;
use crate::content::proxy::relay::{FeedError, Relay};
use crate::downstream::h1::Framing;
use crate::downstream::reply_head::{Mark, ReplyHead};
use crate::exchange::Exchange;
use crate::exchange::conversation::Conversation;
use crate::exchange::reply::is_bodiless;
use crate::exchange::response::Response;
use crate::filter::compress::GZIP_TURN_BYTES;
use crate::filter::forced_range::Portion;
use crate::registry::generation::BoundProxy;
use crate::tunnel::TunnelStart;
use crate::tunnel::heartbeat::is_pingable;
use crate::upstream::answer::{Answer, read_failure};
use crate::upstream::response_body::Source;
use http1::chunked::Decoder;
use http1::{Field, FieldId, Method, Parse, RequestKind, ResponseFraming, ResponseKind, Version};
use reactor::{Read, SCRATCH_BYTES};
use std::sync::Arc;
use upstream::DiscardReason;
use upstream::balance::Counted;
use upstream::retry::{Conditions, Decision, Failure};

/// Interim responses of one exchange. An upstream has no reason to send more than a few.
const INTERIMS_MAX: u32 = 16;

/// What looking for the response head came to.
pub(crate) enum HeadStep {
    /// It is not complete.
    Waiting,
    /// It was sent to the client; the body follows.
    Relaying(Relay),
    /// It was for the client, whose socket is broken.
    Refused,
    /// An error page is shown in its place, or what it redirects to; the body is not passed on. `true`: it has come whole
    /// already.
    Intercepted(bool),
    /// 101: the bytes that came behind it.
    Switched(Vec<u8>),
    /// There is none: the failure, words for the log (empty: nothing to say), and why the connection is discarded.
    Failed(Failure, String, DiscardReason),
}

impl Exchange {
    /// Reads what the upstream has sent; with a complete head the response begins.
    pub(crate) fn receive_head(
        &mut self,
        plan: &BoundProxy,
        up: &Leased,
        tries: &Tries,
        interims: &mut Interims,
    ) -> HeadStep {
        loop {
            let most = self.thread.memory.room(SCRATCH_BYTES, FLOOR_BYTES);
            // What comes with the head has come before any pace, so there it is no more than nginx would read.
            let most = plan.limit_rate.as_ref().map_or(most, |_| most.min(plan.limits.head_bytes_max));
            let most = self.location().gzip.as_ref().map_or(most, |_| most.min(GZIP_TURN_BYTES));
            let read = up.stream().read_with(most, |bytes| {
                if let Some(record) = self.upstream.attempts.last_mut() {
                    record.bytes_received += bytes.len() as u64;
                }
                if self.answer_bytes().is_empty() {
                    return self.take_head(bytes, plan, up, tries, interims);
                }
                // A head in pieces: what is there is joined with what came.
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
                Err(error) => HeadStep::Failed(self.closed(), read_failure(&error), DiscardReason::Error),
            };
        }
    }

    /// A connection that ended now: before the head, or inside it.
    fn closed(&self) -> Failure {
        if self.answer_bytes().is_empty() { Failure::ClosedBeforeHead } else { Failure::ClosedInsideHead }
    }

    /// Looks at everything received of the head so far.
    fn take_head(
        &mut self,
        mut bytes: &[u8],
        plan: &BoundProxy,
        up: &Leased,
        tries: &Tries,
        interims: &mut Interims,
    ) -> HeadStep {
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

    /// The response head, once a part of it is there.
    pub(crate) fn answer(&self) -> Option<&Answer> {
        self.upstream.answer.as_deref().filter(|answer| !answer.bytes.is_empty())
    }

    /// Its bytes, as many as are there.
    pub(crate) fn answer_bytes(&self) -> &[u8] {
        self.upstream.answer.as_ref().map_or(&[], |answer| &answer.bytes)
    }

    fn answer_mut(&mut self) -> &mut Answer {
        self.upstream.answer.get_or_insert_with(|| self.spares.answer(&self.thread.memory))
    }

    fn keep_answer_bytes(&mut self, bytes: &[u8]) {
        let answer = self.answer_mut();
        answer.bytes.clear();
        answer.bytes.extend_from_slice(bytes);
    }

    /// What came does not count: an interim response, or the attempt has failed.
    pub(crate) fn forget_answer(&mut self) {
        if let Some(answer) = &mut self.upstream.answer {
            answer.bytes.clear();
            answer.trailers.clear();
        }
    }

    fn keep_response_head(&mut self, head: &[u8]) {
        self.keep_answer_bytes(head);
        let now = self.thread.reactor.now();
        let status = self.answer_mut().head.status;
        if let Some(record) = self.upstream.attempts.last_mut() {
            record.header_ms = Some(now.since(record.began_at));
            record.status = status;
        }
        self.log_repeated_field();
    }

    /// Says that the upstream has sent a field twice of which the first one counts.
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

    fn begin_response(&mut self, head: &[u8], rest: &[u8], plan: &BoundProxy, up: &Leased, tries: &Tries) -> HeadStep {
        self.keep_response_head(head);
        let (status, framing) = (self.answer_mut().head.status, self.answer_mut().head.framing);
        if Conditions::of_status(status).is_some_and(|condition| plan.conditions.contains(condition)) {
            let sent = Sent { some: true, reused: up.is_reused(), proved_unsent: false };
            if self.judge(plan, Failure::Status(status), sent, tries).decision == Decision::NextPeer {
                self.forget_answer();
                return HeadStep::Failed(Failure::Status(status), String::new(), DiscardReason::ResponseBodyUnread);
            }
        }
        if self.shows_error_page(plan, status) || self.accel_redirect(plan).is_some() {
            return HeadStep::Intercepted(is_whole(framing, rest));
        }
        let portion = self.portion(plan);
        if matches!(portion, Portion::Nothing { .. }) {
            return HeadStep::Intercepted(is_whole(framing, rest));
        }
        let received = (framing, rest);
        let source = source_of(framing);
        // `proxy_method`: the client has asked for the head only, and has no use for this body.
        let unwanted = self.down.method == Method::Head && !matches!(source, Source::Done);
        let mut relay = Relay::new(if unwanted { Source::Done } else { source });
        relay.unread = unwanted && !is_whole(framing, rest);
        let rest = if unwanted { &[] } else { rest };
        relay.pace = self.upstream_pace(plan);
        self.head_came(plan, tries);
        let mut head = self.describe_response(plan, received.0, tries.asks_for_head, &portion);
        self.settle_keepalive();
        self.take_limit_rate(plan);
        self.begin_pace();
        self.fill_proxied_head(plan, &portion, &mut head);
        let compress = if self.flushes(plan) { Compress::Flushing } else { Compress::Yes };
        self.filter_head(&mut head, Ranges::Forced(&portion), compress);
        if self.routing.undecided.is_due() {
            self.spares.recycle_reply_head(head);
            return HeadStep::Intercepted(is_whole(received.0, received.1));
        }
        if let Portion::Part { range, .. } = &portion
            && self.down.framing_of(&head) != Framing::Empty
        {
            self.response.filters.send_only(range);
        }
        let Self { upstream: Conversation { answer, .. }, response: Response { filters, .. }, down, .. } = self;
        let answer = answer.as_ref().map_or(&[][..], |answer| &answer.bytes);
        let fed = relay.feed(rest, Some(head.with(answer)), filters, down);
        relay.preread = relay.body.received;
        self.spares.recycle_reply_head(head);
        match fed {
            Ok(()) => HeadStep::Relaying(relay),
            Err(FeedError::Coding(error)) => {
                self.response.status = 0;
                let reason = format!("{}: {error}", error.response_phrase());
                HeadStep::Failed(Failure::InvalidHeader, reason, DiscardReason::ProtocolError)
            }
            Err(FeedError::Client) => HeadStep::Refused,
        }
    }

    /// `proxy_intercept_errors`
    pub(crate) fn shows_error_page(&self, plan: &BoundProxy, status: u16) -> bool {
        plan.intercept_errors && status >= 300 && self.location().error_pages.find(status).is_some()
    }

    /// Begins the head: the status, and what is known of the body.
    #[allow(clippy::unnecessary_box_returns)] // what is recycled is the box
    fn describe_response(
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
        let shown = if is_part { 206 } else { self.response.shown_status.unwrap_or(status) };
        let mut head = self.begin_head(shown);
        head.reason = Some(reason).filter(|_| shown == status);
        let is_head = self.down.method == Method::Head;
        (head.has_body, head.length) = match framing {
            // `proxy_method HEAD`: the client expects the body of which the head speaks.
            ResponseFraming::None if asked_for_head && !is_head && !is_bodiless(shown) => (true, Some(0)),
            ResponseFraming::None => (false, stated),
            ResponseFraming::Length(length) => (true, Some(length)),
            ResponseFraming::Chunked | ResponseFraming::UntilClose => (true, stated.filter(|_| is_head)),
        };
        if let Portion::Part { range, .. } = portion {
            head.length = Some(range.end - range.start);
        }
        let brings_trailers = plan.pass_trailers && framing == ResponseFraming::Chunked;
        head.has_trailers = framing != ResponseFraming::None && self.wants_trailers(shown, brings_trailers);
        if self.down.framing_of(&head) == Framing::UntilClose {
            self.close_delimited();
        }
        head
    }

    fn fill_proxied_head(&self, plan: &BoundProxy, portion: &Portion, head: &mut ReplyHead) {
        let Some(answer) = self.upstream.answer.as_deref() else { return };
        if plan.hidden.contains(FieldId::Server, b"") {
            self.fill_server(head);
        }
        if plan.hidden.contains(FieldId::Date, b"") {
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

    /// Whether the client wants another protocol. As in nginx a WebSocket may be asked for without `Connection: upgrade`, which
    /// some proxies in front of this one leave out.
    fn asked_for_upgrade(&self) -> bool {
        let upgrade = self.request.head.value(FieldId::Upgrade, &self.request.bytes);
        self.request.head.upgrade.is_some() || upgrade.is_some_and(|value| value.eq_ignore_ascii_case(b"websocket"))
    }

    /// 101: good only if the client asked for it and the request that was sent asks for it, too.
    fn switch(&mut self, head: &[u8], rest: &[u8]) -> HeadStep {
        self.keep_response_head(head);
        let fault = if !self.asked_for_upgrade() || !self.upstream.upgrade_sent {
            Some("upstream sent 101 (Switching Protocols) although no upgrade was asked for".to_owned())
        } else {
            self.switch_fault()
        };
        if let Some(reason) = fault {
            return HeadStep::Failed(Failure::InvalidHeader, reason, DiscardReason::ProtocolError);
        }
        if let Some(record) = self.upstream.attempts.last_mut() {
            // The tunnel counts what is its own.
            record.bytes_received -= rest.len() as u64;
        }
        HeadStep::Switched(rest.to_vec())
    }

    /// S13: what is wrong with a 101 that was asked for. It cannot lead to a protocol that the client, or the request as it was
    /// sent, did not name, and HTTP/1.0 has none.
    fn switch_fault(&self) -> Option<String> {
        let answer = self.answer()?;
        if answer.head.version == Version::Http10 {
            return Some("upstream sent 101 (Switching Protocols) as HTTP/1.0".to_owned());
        }
        let request = &self.request;
        let upgrades = |field: &&Field| field.id == FieldId::Upgrade;
        let asked = request.head.fields.iter().filter(upgrades).map(|field| field.value.of(&request.bytes));
        let asked: Vec<&[u8]> = asked.flat_map(http1::protocols).collect();
        let sent: Vec<&[u8]> = request.upstream_head.values(b"Upgrade").flat_map(http1::protocols).collect();
        let named = answer
            .head
            .fields
            .iter()
            .filter(upgrades)
            .flat_map(|field| http1::protocols(field.value.of(&answer.bytes)));
        let is_in = |list: &[&[u8]], protocol: &[u8]| list.iter().any(|known| known.eq_ignore_ascii_case(protocol));
        let mut others = named.filter(|protocol| !is_in(&asked, protocol) || !is_in(&sent, protocol));
        let other = others.next()?;
        let other = other.escape_ascii();
        Some(format!("upstream sent 101 (Switching Protocols) to \"{other}\", which was not asked for"))
    }

    /// Passes the 101 on; the connections are joined when the exchange settles.
    pub(crate) fn open_tunnel(&mut self, plan: &BoundProxy, up: Leased, early: Vec<u8>) -> AttemptEnd {
        let mut head = self.begin_head(101);
        self.settle_keepalive();
        let Some(Answer { bytes, head: response, .. }) = self.upstream.answer.as_deref() else {
            return AttemptEnd::Failed { failure: Failure::InvalidHeader, sent: Sent::default() };
        };
        head.reason = Some(response.reason);
        self.fill_server_and_date(&mut head);
        head.fields.mark(Mark::Connection);
        if let Some(upgrade) = response.upgrade {
            head.fields.push(FieldId::Upgrade, upgrade.of(bytes));
        }
        self.fill_sticky(plan, &mut head);
        self.pass_fields(plan, &mut head);
        self.filter_head(&mut head, Ranges::None, Compress::No);
        if let Some(refusal) = self.refuse_undecided() {
            self.spares.recycle_reply_head(head);
            up.discard(DiscardReason::Cancelled);
            return AttemptEnd::Reply(refusal);
        }
        let pings = plan.tunnel.ping.is_some() && self.is_pingable();
        let Self { upstream: Conversation { answer, .. }, response: Response { filters, .. }, down, .. } = self;
        let answer = answer.as_ref().map_or(&[][..], |answer| &answer.bytes);
        let sent = filters.send_head(down, head.with(answer), &[], true);
        self.spares.recycle_reply_head(head);
        match (sent, up.into_tunnel()) {
            (Ok(()), Some((upstream, permit))) => AttemptEnd::Tunnel(Box::new(TunnelStart {
                upstream,
                permit,
                early,
                plan: Arc::clone(&plan.tunnel),
                pings,
                record: None,
                seat: Counted::default(),
            })),
            _ => AttemptEnd::Failed { failure: Failure::ClientGone, sent: Sent::default() },
        }
    }

    /// Whether the 101 leads to a WebSocket whose frames stand where they are expected.
    fn is_pingable(&self) -> bool {
        let Some(answer) = self.answer() else { return false };
        let named = |field: &&Field| field.name.of(&answer.bytes).eq_ignore_ascii_case(b"sec-websocket-extensions");
        let extensions: Vec<&[u8]> =
            answer.head.fields.iter().filter(named).map(|field| field.value.of(&answer.bytes)).collect();
        let upgrade = answer.head.upgrade.map_or(&b""[..], |upgrade| upgrade.of(&answer.bytes));
        is_pingable(upgrade, &extensions)
    }

    /// Fields of the response that go to the client. A type that is empty says nothing, and nginx leaves it out.
    pub(crate) fn passed_fields(&self, plan: &BoundProxy) -> impl Iterator<Item = &Field> {
        let fields = self.upstream.answer.as_ref().map_or(&[][..], |answer| &answer.head.fields);
        let bytes = self.answer_bytes();
        let status = self.upstream.answer.as_ref().map_or(0, |answer| answer.head.status);
        fields.iter().filter(move |field| {
            let ends_here = match field.id {
                FieldId::ContentLength => true,
                // What the server could be asked for in another request (RFC 9110 §7.8), as 426 says it. The 101 that
                // switches has its own.
                FieldId::Upgrade => status == 101,
                FieldId::ContentType => field.hop || field.value.of(bytes).is_empty(),
                _ => field.hop,
            };
            !ends_here && !plan.hidden.contains(field.id, field.name.of(bytes))
        })
    }
}

/// Where the body comes from.
fn source_of(framing: ResponseFraming) -> Source {
    match framing {
        ResponseFraming::None | ResponseFraming::Length(0) => Source::Done,
        ResponseFraming::Length(length) => Source::Length(length),
        ResponseFraming::Chunked => Source::Chunked(Box::new(Decoder::of_response())),
        ResponseFraming::UntilClose => Source::UntilClose,
    }
}

/// Whether these bytes are the whole body of a response, and nothing else.
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
