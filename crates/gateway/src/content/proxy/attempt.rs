//! One attempt of a proxied exchange: a connection is leased or opened, the request is sent, the response head is awaited,
//! and the response is relayed.

use crate::base::close::CloseReason;
use crate::base::logs::error::Level;
use crate::base::memory::FLOOR_BYTES;
use crate::base::stall_timeout::StallTimeout;
use crate::connector::lease::lease;
use crate::connector::leased::Leased;
use crate::connector::pending::Asked;
use crate::connector::{Caller as _, WaitTimes};
use crate::content::proxy::Tries;
use crate::content::proxy::early_hints::Interims;
use crate::content::proxy::forced_range::unsatisfiable;
use crate::content::proxy::relay::{Relay, RelayEnd, RelayPlan};
use crate::content::proxy::response_head::HeadStep;
use crate::downstream::body::{BodyError, BodyRead};
use crate::exchange::Exchange;
use crate::exchange::reply::Reply;
use crate::exchange::step::Step;
use crate::exchange::waiting::Wants;
use crate::filter::forced_range::Portion;
use crate::registry::generation::BoundProxy;
use crate::tunnel::TunnelStart;
use crate::upstream::outgoing_body::OutgoingBody;
use crate::upstream::response_body::Source;
use crate::upstream::sending::Sending;
use http1::FieldId;
use reactor::{Interest, Woken};
use upstream::DiscardReason;
use upstream::retry::Failure;

/// Bytes of a streamed request body taken from the client at once; no more is held for an upstream that does not take it.
const STREAM_BYTES: usize = 16 * 1024;

/// How an attempt ended.
pub(crate) enum AttemptEnd {
    /// The client has got a response, whole or truncated.
    Served,
    Tunnel(Box<TunnelStart>),
    /// The client's body cannot be had: the answer to that.
    Reply(Reply),
    /// The peer has answered, and something else is shown for what it says.
    Intercepted(Box<Step>),
    Failed {
        failure: Failure,
        sent: Sent,
    },
}

/// What is known about a request that was not answered.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Sent {
    /// A byte of it may have left.
    pub(crate) some: bool,
    pub(crate) reused: bool,
    pub(crate) proved_unsent: bool,
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
                Some(wanted) => lease(&*self, wanted, &mut times).await,
                None => Err(Failure::NoLivePeer),
            },
            Err(failure) => Err(failure),
        };
        if let Some(record) = self.upstream.attempts.last_mut() {
            record.note_wait(times);
        }
        let up = match leased {
            Ok(up) => up,
            Err(failure) => return AttemptEnd::Failed { failure, sent: Sent::default() },
        };
        let (now, local) = (self.thread.reactor.now(), self.generation.wants_upstream_local);
        if let Some(record) = self.upstream.attempts.last_mut() {
            record.reused = up.is_reused();
            let waited_ms = now.since(record.began_at).saturating_sub(record.connect_ms.unwrap_or(0));
            record.pool_wait_ms = queue_ms.unwrap_or(0) + waited_ms;
            record.local_address = if local { up.stream().local_address().ok().flatten().map(Box::new) } else { None };
        }
        self.converse(plan, up, body, tries).await
    }

    /// Under which key, and which name, the peer is asked for a connection.
    fn ask(&self, plan: &BoundProxy, index: usize, tries: &Tries) -> Result<Asked, Failure> {
        let peer = tries.peer(plan, index).ok_or(Failure::NoLivePeer)?;
        Asked::of(peer, plan.tls.as_ref(), |template| self.value(template)).ok_or_else(|| {
            self.error_log("\"proxy_ssl_name\" is not a name while SSL handshaking to upstream");
            Failure::ConnectFailed
        })
    }

    /// Sends the request, awaits the head, relays the response.
    async fn converse(&mut self, plan: &BoundProxy, up: Leased, body: &OutgoingBody, tries: &Tries) -> AttemptEnd {
        self.forget_answer();
        let head = self.request.upstream_head.as_bytes();
        let mut sending = Sending::begin(up.stream(), head, body, up.acked_before().is_some());
        let mut interims = Interims::default();
        let mut stall = StallTimeout::new(Default::default(), self.thread.reactor.now());
        loop {
            let more = self.send_more(&mut sending, &up, body);
            if let Some(record) = self.upstream.attempts.last_mut() {
                record.bytes_sent = sending.sent_bytes();
            }
            if let Err(end) = more {
                up.discard(DiscardReason::RequestBodyUnsent);
                return end;
            }
            match self.receive_head(plan, &up, tries, &mut interims) {
                // After a write that failed an event is on its way: the upstream may have answered before it closed, and
                // that answer is worth more than the news that it did not listen to the end.
                HeadStep::Waiting => {}
                HeadStep::Relaying(relay) => return self.finish(plan, up, relay, &sending).await,
                HeadStep::Refused => {
                    up.discard(DiscardReason::Cancelled);
                    self.down.ending.break_off(CloseReason::ClientAborted);
                    return AttemptEnd::Served;
                }
                HeadStep::Intercepted(whole) => return self.intercept(plan, up, whole, &sending),
                HeadStep::Switched(early) => return self.open_tunnel(plan, up, early),
                HeadStep::Failed(failure, reason, discard) => {
                    let lost_race = failure == Failure::ClosedBeforeHead && interims == Interims::default();
                    let proved_unsent = lost_race && self.is_proved_unsent(&up, sending.error, discard).await;
                    let sent = Sent { some: true, reused: up.is_reused(), proved_unsent };
                    if lost_race && discard == DiscardReason::PeerClosedIdle {
                        up.note_end(&self.thread);
                    }
                    if !reason.is_empty() {
                        let place = if up.is_reused() { ", reused connection" } else { "" };
                        self.error_log(&format!("{reason} while reading response header from upstream{place}"));
                    }
                    up.discard(discard);
                    return AttemptEnd::Failed { failure, sent };
                }
            }
            let (unsent, all_sent) = (sending.unsent_bytes(), sending.is_over());
            let awaiting_client = body.is_streamed() && !all_sent && unsent == 0 && !sending.complete;
            let timeout = match (awaiting_client, all_sent) {
                (true, _) => self.client_plan().body_timeout,
                (false, true) => plan.read_timeout,
                (false, false) => plan.send_timeout,
            };
            let mark = (unsent, self.intake.body.received, self.answer_bytes().len(), interims, awaiting_client);
            let left = stall.left(mark, timeout, self.thread.reactor.now());
            let room = Interest::WRITE.only_if(!all_sent && !awaiting_client);
            let wants = Wants::of_upstream(up.stream(), Interest::READ.or(room))
                .or_of_client(Interest::READ.only_if(awaiting_client))
                .holding(sending.spill.held_bytes());
            match self.wait(wants, left).await {
                Woken::Ready => {}
                Woken::Deadline if awaiting_client => {
                    up.discard(DiscardReason::RequestBodyUnsent);
                    return AttemptEnd::Reply(self.body_timed_out());
                }
                Woken::Deadline => return self.timed_out(up, unsent),
                Woken::PeerGone => return self.client_gone(up, body),
            }
        }
    }

    /// U13: the client has left, in the middle of its body or while its response was awaited.
    fn client_gone(&mut self, up: Leased, body: &OutgoingBody) -> AttemptEnd {
        up.discard(DiscardReason::Cancelled);
        if body.is_streamed() && !self.intake.body.is_done() {
            return AttemptEnd::Reply(self.refuse_body(&BodyError::Closed));
        }
        AttemptEnd::Failed { failure: Failure::ClientGone, sent: Sent::default() }
    }

    fn timed_out(&mut self, up: Leased, unsent: usize) -> AttemptEnd {
        let sent = Sent { some: true, reused: up.is_reused(), proved_unsent: false };
        let place = if unsent > 0 { "sending request to upstream" } else { "reading response header from upstream" };
        self.error_log(&format!("upstream timed out (110: Connection timed out) while {place}"));
        up.discard(DiscardReason::Error);
        AttemptEnd::Failed { failure: Failure::Timeout, sent }
    }

    /// Sends what the socket takes, and, where the body is streamed, what the client has sent meanwhile.
    fn send_more(&mut self, sending: &mut Sending, up: &Leased, body: &OutgoingBody) -> Result<(), AttemptEnd> {
        while sending.flush(up.stream()) {
            if let Some((file, length)) = body.file() {
                sending.give_file(up.stream(), file, length);
                return Ok(());
            }
            let mut room = match self.client_plan().body_size_max {
                0 => u64::MAX,
                limit => limit.saturating_sub(self.intake.body.received),
            };
            let most = self.thread.memory.room(STREAM_BYTES, FLOOR_BYTES);
            let read = self.down.read_body(&mut self.intake.body, most, |data| {
                // L8: nothing of a body beyond its limit goes on; the check below ends it.
                let Some(left) = room.checked_sub(data.len() as u64) else { return room = 0 };
                room = left;
                sending.give(up.stream(), data, body.is_chunked());
            });
            if let Some(reply) = self.check_received_size() {
                // Without its last chunk the upstream does not take what it has for a whole request.
                return Err(AttemptEnd::Reply(reply));
            }
            match read {
                Ok(BodyRead::Data) => {}
                Ok(BodyRead::NotReady) => return Ok(()),
                Ok(BodyRead::Done) => sending.end(up.stream(), body.is_chunked()),
                Err(error) => return Err(AttemptEnd::Reply(self.refuse_body(&error))),
            }
        }
        Ok(())
    }

    /// Relays the body and settles the upstream connection.
    async fn finish(&mut self, plan: &BoundProxy, up: Leased, mut relay: Relay, sending: &Sending) -> AttemptEnd {
        let relay_plan = RelayPlan {
            buffer_bytes: self.buffer_bytes(plan),
            read_timeout: plan.read_timeout,
            send_timeout: self.client_plan().send_timeout,
        };
        let end =
            if relay.body.is_done() { RelayEnd::Complete } else { self.relay(&mut relay, &up, &relay_plan).await };
        let now = self.thread.reactor.now();
        if let Some(record) = self.upstream.attempts.last_mut() {
            record.response_ms = Some(now.since(record.began_at));
            record.response_length = relay.body.received;
            record.bytes_received += relay.body.received - relay.preread;
        }
        if let Some(answer) = &mut self.upstream.answer {
            answer.trailers = std::mem::take(&mut relay.body.trailers);
        }
        let request_sent = sending.is_delivered();
        if matches!(end, RelayEnd::Complete) && up.stream().is_truncated() {
            // As in nginx the end of the connection is the end of such a body; that it was cut cannot be told.
            let message = "upstream closed the connection without close_notify, and its response has no length";
            self.log_at(Level::Info, &format!("{message} while reading upstream"));
        }
        match end {
            RelayEnd::Complete => self.give_back(up, &relay, request_sent),
            RelayEnd::UpstreamBroken(reason) => {
                self.error_log(&format!("{reason} while reading upstream"));
                up.discard(DiscardReason::ProtocolError);
                self.truncate();
            }
            RelayEnd::UpstreamTimeout => {
                self.error_log("upstream timed out (110: Connection timed out) while reading upstream");
                up.discard(DiscardReason::Error);
                self.truncate();
            }
            RelayEnd::ClientGone(reason) => {
                up.discard(DiscardReason::Cancelled);
                if reason == CloseReason::SendTimeout {
                    self.client_log("client timed out (110: Connection timed out) while sending to client");
                }
                self.down.ending.break_off(reason);
            }
        }
        AttemptEnd::Served
    }

    /// `proxy_intercept_errors`, `X-Accel-Redirect`, and a range that the response does not have: what is not read of the response costs its connection, which no later
    /// response may follow.
    fn intercept(&mut self, plan: &BoundProxy, up: Leased, whole: bool, sending: &Sending) -> AttemptEnd {
        let now = self.thread.reactor.now();
        if let Some(record) = self.upstream.attempts.last_mut() {
            record.response_ms = Some(now.since(record.began_at));
        }
        if whole {
            let request_sent = sending.is_delivered();
            self.give_back(up, &Relay::new(Source::Done), request_sent);
        } else {
            let reason = DiscardReason::ResponseBodyUnread;
            if let Some(record) = self.upstream.attempts.last_mut() {
                record.close_reason = Some(reason);
            }
            up.discard(reason);
        }
        let status = self.answer().map_or(502, |answer| answer.head.status);
        let step = if let Some(refusal) = self.refuse_undecided() {
            Step::Reply(refusal)
        } else if self.shows_error_page(plan, status) {
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

    fn give_back(&mut self, up: Leased, relay: &Relay, request_sent: bool) {
        let reason = if relay.body.excess {
            Some(DiscardReason::ProtocolError)
        } else if relay.unread {
            Some(DiscardReason::ResponseBodyUnread)
        } else if !request_sent {
            Some(DiscardReason::RequestBodyUnsent)
        } else if !self.upstream.answer.as_ref().is_some_and(|answer| answer.head.keepalive) {
            Some(DiscardReason::ConnectionClose)
        } else if up.is_own() {
            Some(DiscardReason::OwnSource)
        } else {
            None
        };
        if let Some(value) = self.answer().and_then(|answer| answer.head.value(FieldId::KeepAlive, &answer.bytes)) {
            up.note_keep_alive(value, &self.thread);
        }
        match reason {
            Some(reason) => up.discard(reason),
            None => up.check_in(&self.thread),
        }
        if let Some(record) = self.upstream.attempts.last_mut() {
            record.close_reason = reason;
        }
    }
}
