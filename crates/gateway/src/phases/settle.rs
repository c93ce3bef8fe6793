//! The end of an exchange: sends the rest of the response, logs the request, and decides whether the connection is kept
//! or closed.

use crate::base::buffer::Flushed;
use crate::base::cells::class_of;
use crate::base::close::CloseReason;
use crate::base::counters::bump;
use crate::base::logs::access::LineName;
use crate::base::logs::error::quoted;
use crate::base::stall_timeout::StallTimeout;
use crate::downstream::body::{BodyError, BodyRead};
use crate::downstream::ending::{After, Settled};
use crate::downstream::h1::linger::LingerPlan;
use crate::downstream::internal::Ended;
use crate::exchange::Exchange;
use crate::exchange::attempts::AttemptRecord;
use crate::exchange::ending::DRAIN_BYTES_MAX;
use crate::exchange::subrequest::LOOK_AGAIN;
use crate::exchange::view::{ExchangeView, separator};
use crate::exchange::waiting::Wants;
use crate::plan::location::LocationId;
use crate::plan::logs::AccessLogPlan;
use crate::tunnel::TunnelStart;
use crate::tunnel::record::{TunnelAttempt, TunnelRecord, TunnelView};
use reactor::{Interest, Woken};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

/// The longest time for reading and dropping the rest of a request body, as nginx's default for `lingering_time`: a byte
/// now and then would hold the connection for days.
const DRAIN_TIME_MAX: Duration = Duration::from_secs(30);

/// The result of an exchange when only its buffers and the client's side are left of it.
pub(crate) enum Concluded {
    /// A response was sent, as far as possible.
    Response {
        after: After,
        linger: LingerPlan,
        /// How long the connection waits for the next request at most, and during a graceful shutdown.
        timeout: Duration,
        kept_for: Duration,
        /// The client has the whole response.
        is_whole: bool,
        /// The result for the exchange that started this one.
        ended: Option<Box<Ended>>,
    },
    Tunnel(Box<TunnelStart>),
}

impl Exchange {
    /// Waits until the client has accepted the response, and logs. The error: why it did not.
    pub(crate) async fn settle(&mut self) -> Result<(), CloseReason> {
        let sent = loop {
            self.send_trailers();
            let sent = self.finish_sending().await;
            // A stage may have held the end of the body back until now.
            if sent.is_err() || !self.down.awaits_trailers() {
                break sent;
            }
        };
        if let Some(fault) = self.response.filters.take_fault() {
            self.error_log(&format!("the body cannot be unpacked ({fault}) while sending response to client"));
        }
        if !self.intake.body.is_done()
            && self.down.ending.keeps()
            && self.down.drains_body()
            && sent.is_ok()
            && let Err(reason) = self.drain_body().await
        {
            self.down.ending.close(reason);
        }
        self.log();
        self.finish_trace();
        if self.is_subrequest() {
            self.set_variables();
        } else {
            self.count_response(Some(self.thread.reactor.now_us().since(self.began_at)));
        }
        sent
    }

    /// Decides what happens to the connection of a settled exchange.
    pub(crate) fn conclude(&mut self, sent: Result<(), CloseReason>) -> Concluded {
        let plan = self.client_plan();
        let linger = LingerPlan { total: plan.lingering_time, silence: plan.lingering_timeout };
        // The end of a client's handshake is still to come, and must not meet a closed socket.
        let is_shaking = self.down.tls(|session| session.is_early_data()).unwrap_or_default();
        let settled = Settled {
            sent,
            is_complete: self.down.is_complete(),
            until_close: self.down.is_until_close(),
            is_unread: !self.intake.body.is_done() || self.down.has_pending() || is_shaking,
            lingers: !linger.total.is_zero(),
            resets: plan.reset_timed_out,
        };
        let after = self.down.ending.after(settled);
        // A client that was told a shorter keepalive time is not waited for any longer than that.
        let (timeout, kept_for) = (plan.keepalive_timeout, plan.keepalive_min.min(plan.keepalive_timeout));
        let is_whole = settled.sent.is_ok() && settled.is_complete && !self.down.ending.is_gone();
        let ended = self.is_subrequest().then(|| Box::new(self.ended()));
        Concluded::Response { after, linger, timeout, kept_for, is_whole, ended }
    }

    /// Turns the connection into one side of a tunnel. The access-log line is written when the tunnel ends, with the
    /// values known now.
    pub(crate) fn conclude_tunnel(&mut self, mut start: Box<TunnelStart>) -> Concluded {
        start.record = self.tunnel_record();
        self.count_response(None);
        Concluded::Tunnel(start)
    }

    /// Waits until the client has accepted the whole response.
    async fn finish_sending(&mut self) -> Result<(), CloseReason> {
        if let Some(reason) = self.down.ending.reason().filter(|_| self.down.ending.is_gone()) {
            return Err(reason);
        }
        let mut stall = StallTimeout::new(0, self.thread.reactor.now());
        loop {
            match self.response.filters.flush(&mut self.down) {
                Ok(Flushed::All) => return Ok(()),
                Ok(Flushed::Waiting) => {}
                Err(_) => return Err(CloseReason::ClientAborted),
            }
            let is_full = self.down.waiting_bytes() > 0;
            // A subrequest ends by its own timeouts.
            let timeout = if is_full { self.client_plan().send_timeout } else { LOOK_AGAIN };
            let left = stall.left(self.down.waiting_bytes(), timeout, self.thread.reactor.now());
            // If no bytes wait for the socket, the wait is for a subrequest, which wakes this exchange.
            let room = Interest::WRITE.only_if(self.down.waiting_bytes() > 0);
            match self.wait(Wants::of_client(room), left).await {
                Woken::Ready => {}
                Woken::Deadline => {
                    self.client_log("client timed out (110: Connection timed out) while sending to client");
                    return Err(CloseReason::SendTimeout);
                }
                Woken::PeerGone => return Err(CloseReason::ClientAborted),
            }
        }
    }

    /// Reads and drops the rest of the request body.
    async fn drain_body(&mut self) -> Result<(), CloseReason> {
        let timeout = self.client_plan().lingering_timeout;
        let begun = self.intake.body.received;
        let began_at = self.thread.reactor.now();
        loop {
            if self.thread.reactor.now() > began_at.after(DRAIN_TIME_MAX) {
                return Err(CloseReason::BodyTimeout);
            }
            match self.down.read_body(&mut self.intake.body, DRAIN_BYTES_MAX as usize, |_| {}) {
                Ok(BodyRead::Done) => return Ok(()),
                Ok(BodyRead::Data) if self.intake.body.received - begun > DRAIN_BYTES_MAX => {
                    return Err(CloseReason::BodyUnread);
                }
                Ok(BodyRead::Data) => {}
                Ok(BodyRead::NotReady) => {
                    if self.wait(Wants::of_client(Interest::READ), timeout).await == Woken::Deadline {
                        return Err(CloseReason::BodyTimeout);
                    }
                }
                Err(BodyError::Malformed(_)) => return Err(CloseReason::BadRequest),
                Err(_) => return Err(CloseReason::ClientAborted),
            }
        }
    }

    /// Counts the response by its status, with the time that the whole exchange took. If the client left before there was a
    /// response, the status is 499.
    fn count_response(&self, microseconds: Option<u64>) {
        let status = self.response.status();
        bump(&self.thread.counters().responses[class_of(status)], 1);
        self.generation.route_cells(self.settled_location()).count(self.thread.index, status, microseconds);
    }

    /// The location of the response, or the server's own settings.
    fn settled_location(&self) -> LocationId {
        let target = &self.routing.target;
        target.location().unwrap_or_else(|| self.generation.server(target.server()).own)
    }

    /// Writes the access-log lines.
    fn log(&mut self) {
        let generation = Rc::clone(&self.generation);
        let id = self.settled_location();
        let logs = &generation.location(id).access_logs;
        if logs.is_empty() || (self.is_subrequest() && !generation.location(id).logs_subrequests) {
            return;
        }
        let mut line = self.thread.take_scratch();
        for log in logs.iter().filter(|log| self.is_logged(log, &ExchangeView::of(self))) {
            let Ok(name) = self.line_name(log) else { continue };
            line.clear();
            log.format.write(&ExchangeView::of(self), &mut line);
            generation.sink(log.sink).write(self.thread.index, name.as_ref(), &line);
            if generation.is_awaited(log.sink) {
                self.down.await_line();
            }
        }
        self.thread.put_scratch(line);
    }

    /// The file for the line, if its log's name has variables. The error: the resulting name is not allowed.
    fn line_name(&self, log: &AccessLogPlan) -> Result<Option<LineName>, ()> {
        let view = ExchangeView::of(self);
        let root = |out: &mut Vec<u8>| self.location().root.write_root(&view, out);
        log.line_name(&view, root).map_err(|path| {
            self.error_log(&format!("\"{}\" leaves the directory of its log: it is not opened", quoted(&path)));
        })
    }

    /// The record for the log lines of the tunnel that this exchange becomes.
    fn tunnel_record(&mut self) -> Option<Box<TunnelRecord>> {
        let (logs, spans) = (&self.location().access_logs, self.spans());
        if logs.is_empty() && self.admission.limited.is_none() && spans.is_empty() {
            return None;
        }
        let view = ExchangeView::of(self);
        let early = |log: &AccessLogPlan| {
            let name = self.line_name(log).ok()?;
            Some((Arc::clone(self.generation.sink(log.sink)), name, log.format.write_early(&view, TunnelView::is_late)))
        };
        let mut record = Box::new(TunnelRecord {
            lines: logs.iter().filter(|log| self.is_logged(log, &view)).filter_map(early).collect(),
            began_at: self.began_at.millis(),
            attempt_began_at: self.upstream.attempts().last().map_or(self.began_at, |last| last.began_at).millis(),
            first_byte_ms: None,
            timing: None,
            accepted_at: self.down.accepted_at(),
            head_bytes: self.down.bytes_sent(),
            attempts: self.tunnel_attempts(),
            limits: None,
            spans: spans.into(),
        });
        record.limits = self.admission.limited.take();
        Some(record)
    }

    fn tunnel_attempts(&self) -> Box<[TunnelAttempt]> {
        let all = self.upstream.attempts().all();
        let attempt = |(place, record): (usize, &AttemptRecord)| TunnelAttempt {
            response_us: record.response_us,
            response_length: record.response_length,
            bytes_received: record.bytes_received,
            bytes_sent: record.bytes_sent,
            separator: all.get(place + 1).map_or(&b""[..], |next| separator(record, next)),
        };
        all.iter().enumerate().map(attempt).collect()
    }

    /// Whether a log gets a line about this exchange. A condition that could not be decided logs the line.
    fn is_logged(&self, log: &AccessLogPlan, view: &ExchangeView<'_>) -> bool {
        log.wants(view) || self.routing.undecided.is_noted()
    }
}
