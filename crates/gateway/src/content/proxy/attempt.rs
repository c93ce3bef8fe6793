//! One attempt of a proxied exchange: lease or open a connection, send the request, wait for the response head, relay
//! the response.

use crate::base::close::CloseReason;
use crate::base::logs::error::Level;
use crate::base::memory::FLOOR_BYTES;
use crate::base::stall_timeout::StallTimeout;
use crate::connector::h2::lease::{SharedPlan, lease_stream};
use crate::connector::lease::{Wanted, lease};
use crate::connector::pending::ConnectionKey;
use crate::connector::{Caller as _, WaitTimes};
use crate::content::cache::CacheUse;
use crate::content::proxy::Tries;
use crate::content::proxy::early_hints::Interims;
use crate::content::proxy::forced_range::unsatisfiable;
use crate::content::proxy::relay::{READS_MAX, Relay, RelayEnd, RelayPlan, Upload};
use crate::content::proxy::response_head::HeadStep;
use crate::downstream::body::{BodyError, BodyRead};
use crate::exchange::Exchange;
use crate::exchange::reply::Reply;
use crate::exchange::step::Step;
use crate::exchange::waiting::Wants;
use crate::filter::forced_range::Portion;
use crate::registry::cache::fill::Reader;
use crate::registry::generation::BoundProxy;
use crate::tunnel::TunnelStart;
use crate::upstream::head::HeadFault;
use crate::upstream::incoming::BodySeen;
use crate::upstream::outgoing_body::{BodyCoding, OutgoingBody};
use crate::upstream::sending::{OutgoingRequest, Sending};
use crate::upstream::side::{Reuse, UpstreamSide};
use reactor::{Interest, SCRATCH_BYTES, Woken};
use rules::grpc::Status;
use std::time::Duration;
use upstream::DiscardReason;
use upstream::retry::Failure;

/// Bytes of a streamed request body that are first read from the client at once.
const STREAM_BYTES: usize = 16 * 1024;

/// How an attempt ended.
pub(crate) enum AttemptEnd {
    /// The client got a response, whole or truncated.
    Served,
    Tunnel(Box<TunnelStart>),
    /// The client's body cannot be read: the answer to that.
    Reply(Reply),
    /// The peer answered, and another response replaces its own.
    Intercepted(Box<Step>),
    /// The peer answered, and a cached response replaces its own.
    Cached(CacheUse),
    Failed {
        failure: Failure,
        sent: Sent,
    },
}

/// What is known about the delivery of a request without an answer.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Sent {
    /// A byte of it may have left.
    pub(crate) some: bool,
    pub(crate) reused: bool,
    pub(crate) proved_unsent: bool,
}

/// The framing of a request's body.
fn coding_of(plan: &BoundProxy, body: &OutgoingBody) -> BodyCoding {
    if plan.http2 {
        return BodyCoding::Frames;
    }
    match plan.application.as_ref().map(|application| application.fastcgi().is_some()) {
        None => body.http_coding(),
        Some(true) => BodyCoding::Records,
        Some(false) => BodyCoding::Plain,
    }
}

/// `:scheme`
fn scheme_of(plan: &BoundProxy) -> &'static [u8] {
    if plan.tls.is_some() { b"https" } else { b"http" }
}

impl Exchange {
    pub(crate) async fn attempt(
        &mut self,
        plan: &BoundProxy,
        index: usize,
        body: &OutgoingBody,
        tries: &Tries,
    ) -> AttemptEnd {
        let queue_ms = tries.choice.queue_ms;
        let record = self.begin_attempt(index as u32);
        record.held.clone_from(&tries.choice.held);
        record.queue_ms = queue_ms;
        record.pool_wait_ms = queue_ms.unwrap_or(0);
        let mut times = WaitTimes::default();
        let leased = match self.ask(plan, index, tries) {
            Ok(asked) => match tries.wanted(plan, index, &asked) {
                Some(wanted) => self.lease(plan, wanted, &mut times).await,
                None => Err(Failure::NoLivePeer),
            },
            Err(failure) => Err(failure),
        };
        if let Some(record) = self.upstream.attempt_mut() {
            record.note_wait(times);
        }
        let up = match leased {
            Ok(up) => up,
            Err(failure) => return AttemptEnd::Failed { failure, sent: Sent::default() },
        };
        let (now, local) = (self.thread.reactor.now_us(), self.generation.wants_upstream_local);
        if let Some(record) = self.upstream.attempt_mut() {
            record.reused = up.is_reused();
            let waited_us = now.since(record.began_at).saturating_sub(record.connect_us.unwrap_or(0));
            record.pool_wait_ms = queue_ms.unwrap_or(0) + waited_us / 1000;
            record.local_address = if local { up.local_address().map(Box::new) } else { None };
        }
        self.converse(plan, up, body, tries).await
    }

    /// Leases a connection, or a stream of one.
    async fn lease(
        &self,
        plan: &BoundProxy,
        wanted: Wanted<'_>,
        times: &mut WaitTimes,
    ) -> Result<UpstreamSide, Failure> {
        if !plan.http2 {
            let leased = lease(self, wanted, times).await?;
            return Ok(UpstreamSide::of_connection(leased, plan.application.as_deref()));
        }
        let group = &plan.group;
        let shared = SharedPlan {
            limits: &group.limits,
            cells: &group.cells,
            send_timeout: plan.send_timeout,
            ping: group.http2_ping,
        };
        Box::pin(lease_stream(self, wanted, shared, times)).await.map(UpstreamSide::of_stream)
    }

    /// The pool key and the TLS name of the connection to ask for.
    fn ask(&self, plan: &BoundProxy, index: usize, tries: &Tries) -> Result<ConnectionKey, Failure> {
        let peer = tries.peer(plan, index).ok_or(Failure::NoLivePeer)?;
        ConnectionKey::of(peer, plan.tls.as_ref(), |template| self.value(template)).ok_or_else(|| {
            let family = if plan.is_grpc { "grpc" } else { "proxy" };
            self.error_log(&format!("\"{family}_ssl_name\" is not a name while SSL handshaking to upstream"));
            Failure::ConnectFailed
        })
    }

    /// Sends the request, waits for the head, relays the response.
    async fn converse(
        &mut self,
        plan: &BoundProxy,
        mut up: UpstreamSide,
        body: &OutgoingBody,
        tries: &Tries,
    ) -> AttemptEnd {
        self.upstream.forget_answer();
        let (head, trailers) = (&self.request.upstream_head, &self.intake.body.trailers);
        let request = OutgoingRequest { head, coding: coding_of(plan, body), scheme: scheme_of(plan), trailers };
        let mut sending = Sending::begin(&up, &request, body);
        let mut interims = Interims::default();
        let mut stall = StallTimeout::new(Default::default(), self.thread.reactor.now());
        loop {
            let more = self.send_more(&mut sending, &up, body);
            if let Some(record) = self.upstream.attempt_mut() {
                record.bytes_sent = sending.sent_bytes();
            }
            if let Err(end) = more {
                up.discard(DiscardReason::RequestBodyUnsent);
                return end;
            }
            let mut is_busy = false;
            match self.receive_head(plan, &mut up, tries, &mut interims) {
                // An event follows a failed write: an answer from before the close is worth more than the error.
                HeadStep::Waiting => {}
                HeadStep::Busy => is_busy = true,
                HeadStep::Relaying(relay) => {
                    return self.finish(plan, up, relay, Upload { sending: &mut sending, body }).await;
                }
                HeadStep::Refused => {
                    up.discard(DiscardReason::Cancelled);
                    self.down.ending.break_off(CloseReason::ClientAborted);
                    return AttemptEnd::Served;
                }
                HeadStep::Intercepted(seen) => return self.intercept(plan, up, seen, &sending),
                HeadStep::Instead(end, seen) => return self.instead(up, seen, &sending, *end),
                HeadStep::Switched(early) => return self.open_tunnel(plan, up, early),
                HeadStep::Failed(fault) => {
                    return self.without_head(up, sending.error, interims == Interims::default(), fault).await;
                }
            }
            let (unsent, all_sent) = (sending.unsent_bytes(), sending.is_over());
            let awaiting_client = body.is_streamed() && !all_sent && unsent == 0 && !sending.complete;
            let timeout = self.stage_timeout(plan, awaiting_client, all_sent);
            let mark = (unsent, self.intake.body.received, self.received_of_head(&up), interims, awaiting_client);
            let left = stall.left(mark, timeout, self.thread.reactor.now());
            let room = Interest::WRITE.only_if(!all_sent && !awaiting_client);
            let wants = Wants::of_upstream(&up, Interest::READ.or(room))
                .or_of_client(Interest::READ.only_if(awaiting_client))
                .holding(sending.spill.held_bytes());
            match self.wait(wants, left).await {
                Woken::Ready if is_busy && stall.is_over(timeout, self.thread.reactor.now()) => {
                    return self.timed_out(up, unsent);
                }
                Woken::Ready => {}
                Woken::Deadline if self.is_call_over() => {
                    up.discard(DiscardReason::Cancelled);
                    return AttemptEnd::Reply(Reply::error(504));
                }
                Woken::Deadline if awaiting_client => {
                    up.discard(DiscardReason::RequestBodyUnsent);
                    return AttemptEnd::Reply(self.body_timed_out());
                }
                Woken::Deadline => return self.timed_out(up, unsent),
                Woken::PeerGone => return self.client_gone(up, body),
            }
        }
    }

    /// How long there may be no progress: of the client's body, of the request, or of the response.
    fn stage_timeout(&self, plan: &BoundProxy, awaiting_client: bool, all_sent: bool) -> Duration {
        match (awaiting_client, all_sent) {
            (true, _) => self.client_plan().body_timeout,
            (false, true) => plan.read_timeout,
            (false, false) => plan.send_timeout,
        }
    }

    /// There is no head. `is_silent`: no interim head has come either.
    async fn without_head(
        &mut self,
        up: UpstreamSide,
        send_error: Option<i32>,
        is_silent: bool,
        HeadFault { failure, reason, discard }: HeadFault,
    ) -> AttemptEnd {
        let lost_race = failure == Failure::ClosedBeforeHead && is_silent;
        let proved_unsent = lost_race && self.is_proved_unsent(&up, send_error, discard).await;
        let sent = Sent { some: true, reused: up.is_reused(), proved_unsent };
        if lost_race && discard == DiscardReason::PeerClosedIdle {
            up.note_end(&self.thread);
        }
        if !reason.is_empty() {
            let place = if up.is_reused() { ", reused connection" } else { "" };
            self.error_log(&format!("{reason} while reading response header from upstream{place}"));
        }
        up.discard(discard);
        AttemptEnd::Failed { failure, sent }
    }

    /// U13: the client has left, during its body or while the response was awaited.
    fn client_gone(&mut self, up: UpstreamSide, body: &OutgoingBody) -> AttemptEnd {
        up.discard(DiscardReason::Cancelled);
        if body.is_streamed() && !self.intake.body.is_done() {
            return AttemptEnd::Reply(self.refuse_body(&BodyError::Closed));
        }
        AttemptEnd::Failed { failure: Failure::ClientGone, sent: Sent::default() }
    }

    fn timed_out(&mut self, up: UpstreamSide, unsent: usize) -> AttemptEnd {
        let sent = Sent { some: true, reused: up.is_reused(), proved_unsent: false };
        let place = if unsent > 0 { "sending request to upstream" } else { "reading response header from upstream" };
        self.error_log(&format!("upstream timed out (110: Connection timed out) while {place}"));
        up.discard(DiscardReason::Error);
        AttemptEnd::Failed { failure: Failure::Timeout, sent }
    }

    /// Sends what the socket accepts, and, if the body is streamed, what the client has sent meanwhile, some reads of it in one
    /// turn.
    pub(crate) fn send_more(
        &mut self,
        sending: &mut Sending,
        up: &UpstreamSide,
        body: &OutgoingBody,
    ) -> Result<(), AttemptEnd> {
        for _ in 0..READS_MAX {
            if !sending.flush(up) {
                return Ok(());
            }
            if let Some((file, length)) = body.file() {
                sending.give_file(up, file, length);
                return Ok(());
            }
            let mut room = match self.client_plan().body_size_max {
                0 => u64::MAX,
                limit => limit.saturating_sub(self.intake.body.received),
            };
            let most = self.thread.memory.room(SCRATCH_BYTES, FLOOR_BYTES);
            let (asked, before) = (sending.size.bytes(STREAM_BYTES, most), self.intake.body.received);
            let read = self.down.read_body(&mut self.intake.body, asked, |data| {
                // L8: no byte beyond the body limit is passed on; the check below ends the body.
                let Some(left) = room.checked_sub(data.len() as u64) else { return room = 0 };
                room = left;
                sending.give(up, data);
            });
            let received = (self.intake.body.received - before) as usize;
            // The data of chunks is a little shorter than what was read.
            sending.size.note(received + received / 8 >= asked, sending.waiting_bytes() == 0);
            if let Some(reply) = self.check_received_size() {
                // Without the last chunk the upstream does not mistake the partial body for a whole request.
                return Err(AttemptEnd::Reply(reply));
            }
            match read {
                Ok(BodyRead::Data) => {}
                Ok(BodyRead::NotReady) => return Ok(()),
                Ok(BodyRead::Done) => sending.end(up, &self.intake.body.trailers),
                Err(error) => return Err(AttemptEnd::Reply(self.refuse_body(&error))),
            }
        }
        // More may have come: other tasks come first.
        self.thread.reactor.wake(self.task());
        Ok(())
    }

    /// Relays the rest of the body. If the response is stored, all of it, even if the client leaves.
    async fn relay_rest(
        &mut self,
        relay: &mut Relay,
        up: &UpstreamSide,
        upload: &mut Upload<'_>,
        plan: &RelayPlan,
    ) -> RelayEnd {
        if relay.body.is_done() {
            return RelayEnd::Complete;
        }
        if let Some(store) = &mut relay.store {
            Box::pin(self.share_store(store)).await;
        }
        match self.relay(relay, up, upload, plan).await {
            // As in nginx, a response that is being stored is received to its end.
            RelayEnd::ClientGone(reason) if relay.is_kept() => {
                relay.gone = Some(reason);
                (relay.muted, relay.behind) = (true, None);
                self.upstream.ignore_abort(true);
                if relay.body.is_done() { RelayEnd::Complete } else { self.relay(relay, up, upload, plan).await }
            }
            end => end,
        }
    }

    /// Relays the body and settles the upstream connection.
    async fn finish(
        &mut self,
        plan: &BoundProxy,
        up: UpstreamSide,
        mut relay: Box<Relay>,
        mut upload: Upload<'_>,
    ) -> AttemptEnd {
        let relay_plan = RelayPlan {
            buffer_bytes: self.buffer_bytes(plan),
            read_timeout: plan.read_timeout,
            send_timeout: self.client_plan().send_timeout,
        };
        let end = self.relay_rest(&mut relay, &up, &mut upload, &relay_plan).await;
        if let Some(reason) = relay.gone {
            self.down.ending.break_off(reason);
        }
        let now = self.thread.reactor.now_us();
        if let Some(record) = self.upstream.attempt_mut() {
            record.response_us = Some(now.since(record.began_at));
            record.response_length = relay.body.received;
            record.bytes_received += relay.body.received - relay.preread;
        }
        self.upstream.keep_trailers(up.take_trailers(&mut relay.body.trailers));
        self.log_stderr(&relay.body.take_stderr(), "reading upstream");
        let request_sent = upload.sending.is_delivered();
        if matches!(end, RelayEnd::Complete) && up.is_truncated() {
            // As in nginx, the end of the connection ends such a body; a truncation cannot be detected.
            let message = "upstream closed the connection without close_notify, and its response has no length";
            self.log_at(Level::Info, &format!("{message} while reading upstream"));
        }
        let is_whole = matches!(end, RelayEnd::Complete) && !up.is_truncated();
        let store = relay.store.take().filter(|_| is_whole);
        let saving = relay.saving.take().filter(|_| is_whole);
        match end {
            RelayEnd::Complete => {
                let (unread, excess) = (relay.unread, relay.body.excess);
                self.give_back(up, Reuse { request_sent, unread, excess, keepalive: self.upstream.allows_another() });
            }
            RelayEnd::UpstreamBroken(reason) => self.upstream_broke(plan, up, &reason),
            RelayEnd::UpstreamTimeout => self.upstream_stopped(plan, up),
            RelayEnd::ClientGone(reason) => {
                up.discard(DiscardReason::Cancelled);
                self.stop_sending(reason, "sending to client");
            }
        }
        let fill = store.as_ref().and_then(|store| store.fill().cloned());
        if let Some(store) = store {
            Box::pin(self.finish_store(store, relay.behind)).await;
        }
        if let Some(saving) = saving {
            Box::pin(self.finish_saved(saving)).await;
        }
        if let Some(from) = relay.behind {
            let reader = fill.map(|fill| Reader::of_owner(fill, self.thread.registry));
            Box::pin(self.send_rest(reader, from, relay_plan.buffer_bytes)).await;
        }
        AttemptEnd::Served
    }

    /// The upstream broke off its response.
    fn upstream_broke(&mut self, plan: &BoundProxy, up: UpstreamSide, reason: &str) {
        self.error_log(&format!("{reason} while reading upstream"));
        up.discard(DiscardReason::ProtocolError);
        if !self.break_off_call(plan, Status::UNAVAILABLE) {
            self.truncate();
        }
    }

    /// The upstream has sent nothing for too long, or the time of the call or request is over.
    fn upstream_stopped(&mut self, plan: &BoundProxy, up: UpstreamSide) {
        let status = if self.is_call_over() {
            self.log_end_of_time(plan, " while reading upstream");
            up.discard(DiscardReason::Cancelled);
            Status::DEADLINE_EXCEEDED
        } else {
            self.error_log("upstream timed out (110: Connection timed out) while reading upstream");
            up.discard(DiscardReason::Error);
            Status::UNAVAILABLE
        };
        if !self.break_off_call(plan, status) {
            self.truncate();
        }
    }

    /// `proxy_intercept_errors`, `X-Accel-Redirect`, and a range that the response does not have: if the response is
    /// not read to its end, its connection is closed, since no later response could follow.
    fn intercept(&mut self, plan: &BoundProxy, up: UpstreamSide, seen: BodySeen, sending: &Sending) -> AttemptEnd {
        self.settle_unread(up, seen, sending);
        let status = self.answer().map_or(502, |answer| answer.head.status);
        let step = if let Some(refusal) = self.refuse_undecided() {
            Step::Reply(refusal)
        } else if self.shows_error_page(plan, status) {
            let until_s = self.error_valid_until(plan);
            self.remember_status(plan, status, until_s);
            self.carry_challenges();
            Step::Reply(Reply::error(status))
        } else if self.accel_redirect(plan).is_none()
            && let Portion::Nothing { size } = self.portion(plan)
        {
            Step::Reply(unsatisfiable(size))
        } else {
            self.follow_accel_redirect(plan)
        };
        AttemptEnd::Intercepted(Box::new(step))
    }

    /// Another response replaces the peer's.
    fn instead(&mut self, up: UpstreamSide, seen: BodySeen, sending: &Sending, end: AttemptEnd) -> AttemptEnd {
        self.settle_unread(up, seen, sending);
        end
    }

    /// Settles the connection of a response that is not passed on.
    fn settle_unread(&mut self, up: UpstreamSide, seen: BodySeen, sending: &Sending) {
        let now = self.thread.reactor.now_us();
        if let Some(record) = self.upstream.attempt_mut() {
            record.response_us = Some(now.since(record.began_at));
        }
        if seen == BodySeen::Whole {
            let (request_sent, keepalive) = (sending.is_delivered(), self.upstream.allows_another());
            self.give_back(up, Reuse { request_sent, keepalive, ..Reuse::default() });
        } else {
            let reason = DiscardReason::ResponseBodyUnread;
            if let Some(record) = self.upstream.attempt_mut() {
                record.close_reason = Some(reason);
            }
            up.discard(reason);
        }
    }

    fn give_back(&mut self, up: UpstreamSide, reuse: Reuse) {
        let reason = up.finish(reuse, self.answer(), &self.thread);
        if let Some(record) = self.upstream.attempt_mut() {
            record.close_reason = reason;
        }
    }
}
