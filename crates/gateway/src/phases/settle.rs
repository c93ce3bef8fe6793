//! The end of an exchange: sends the rest of the response, logs the request, and keeps, lingers on or closes the
//! connection.

use crate::base::buffer::Spill;
use crate::base::cells::class_of;
use crate::base::close::CloseReason;
use crate::base::counters::bump;
use crate::base::logs::access::LineName;
use crate::base::logs::error::{Level, RequestLine, quoted};
use crate::base::stall_timeout::StallTimeout;
use crate::downstream::Left;
use crate::downstream::body::{BodyError, BodyRead};
use crate::downstream::ending::{After, Settled};
use crate::downstream::h1::connection::Connection;
use crate::downstream::h1::linger::LingerPlan;
use crate::downstream::h2::tunnelled::Tunnelled;
use crate::downstream::internal::Ended;
use crate::exchange::Exchange;
use crate::exchange::attempts::AttemptRecord;
use crate::exchange::step::Served;
use crate::exchange::subrequest::LOOK_AGAIN;
use crate::exchange::view::{ExchangeView, separator};
use crate::exchange::waiting::Wants;
use crate::phases::Next;
use crate::plan::location::LocationId;
use crate::plan::logs::AccessLogPlan;
use crate::tunnel::end::ClientEnd;
use crate::tunnel::record::{TunnelAttempt, TunnelRecord, TunnelView};
use crate::tunnel::{Tunnel, TunnelStart};
use conf::value::words::KeepaliveDisable;
use http1::{FieldId, Method};
use reactor::{Interest, Millis, Woken};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

/// Bytes of an unread request body, with a length or in chunks, that are read and dropped to keep a connection: a round
/// trip or two. For more, closing is cheaper for both sides.
const DRAIN_BYTES_MAX: u64 = 64 * 1024;

/// The longest time for that, as nginx's default for `lingering_time`: a byte now and then would hold the connection
/// for days.
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

impl Concluded {
    /// Ends the remaining client's side, or hands it on.
    pub(crate) fn next(self, left: Left, now: Millis) -> Next {
        let (after, linger, timeout, kept_for, is_whole, ended) = match self {
            Self::Tunnel(start) => return join(left, *start, now),
            Self::Response { after, linger, timeout, kept_for, is_whole, ended } => {
                (after, linger, timeout, kept_for, is_whole, ended)
            }
        };
        let mut connection = match left {
            Left::Connection(connection, _) => connection,
            Left::Stream(mut stream) => {
                stream.finish(after, linger);
                return Next::Nothing;
            }
            Left::Internal(internal) => {
                internal.finish(is_whole, ended.map(|ended| *ended).unwrap_or_default());
                return Next::Nothing;
            }
        };
        connection.begin_idling(now, kept_for);
        match after {
            After::Keep => Next::KeepAlive(connection, timeout),
            After::Close(reason) => Next::Close(connection, reason),
            After::Linger(reason) => Next::Linger { connection, reason, plan: linger },
            After::Reset(reason) => {
                let task = connection.task;
                connection.stream.reset();
                Next::Gone(task, reason)
            }
        }
    }
}

/// Joins the two connections of a tunnel.
fn join(left: Left, start: TunnelStart, now: Millis) -> Next {
    let (client, task, unsent, pending) = match left {
        Left::Connection(connection, unsent) => {
            let Connection { stream, task, pending, .. } = *connection;
            (ClientEnd::Socket(stream), task, unsent, pending)
        }
        Left::Stream(stream) => {
            let task = stream.task();
            (ClientEnd::Stream(Box::new(Tunnelled::new(stream))), task, Spill::default(), Vec::new())
        }
        Left::Internal(_) => return Next::Nothing,
    };
    let is_stream = client.is_stream();
    match Tunnel::start(client, task, start, unsent, &pending, now) {
        Ok(tunnel) => Next::Tunnel(Box::new(tunnel)),
        Err(_) if is_stream => Next::Nothing,
        Err((task, _)) => Next::Gone(task, CloseReason::ClientAborted),
    }
}

impl Exchange {
    /// Decides, before a head is encoded, whether the connection continues after this response.
    pub(crate) fn settle_keepalive(&mut self) {
        let plan = self.client_plan();
        let age = self.thread.reactor.now().since(self.down.accepted_at());
        let keepalive_timeout = plan.keepalive_timeout;
        let within_limits = !plan.keepalive_timeout.is_zero()
            && self.down.requests() < plan.keepalive_requests
            && u128::from(age) < plan.keepalive_time.as_millis();
        let nodelay = plan.nodelay;
        self.down.set_nodelay(nodelay);
        if let Some(stream) = self.down.stream() {
            // Other streams continue: a stream decides for the connection only if it is the last one.
            return stream.settle_keepalive(keepalive_timeout, within_limits);
        }
        if self.down.ending.keeps() && self.thread.is_draining() {
            self.down.ending.close(CloseReason::Shutdown);
        }
        if self.down.ending.keeps() && (!within_limits || self.is_browser_without_keepalive()) {
            self.down.ending.close(CloseReason::KeepaliveLimit);
        }
        if self.down.ending.keeps() && self.thread.sheds_keepalive() {
            self.down.ending.close(CloseReason::MemoryBudget);
        }
        if self.down.ending.keeps() && self.intake.body.is_longer_than(DRAIN_BYTES_MAX) {
            self.down.ending.close(CloseReason::BodyUnread);
        }
    }

    /// `keepalive_disable`: MSIE before 7 mishandles a connection after a POST, old Safari on macOS after any request.
    fn is_browser_without_keepalive(&self) -> bool {
        let disable = self.client_plan().keepalive_disable;
        if disable.contains(KeepaliveDisable::NONE) {
            return false;
        }
        let post = disable.contains(KeepaliveDisable::MSIE6) && self.down.method == Method::Post;
        if !post && !disable.contains(KeepaliveDisable::SAFARI) {
            return false;
        }
        let request = &self.request;
        let Some(agent) = request.head.value(FieldId::UserAgent, &request.bytes) else { return false };
        let has = |text: &[u8]| agent.windows(text.len()).any(|window| window == text);
        let msie6 = || (4..=6).any(|version: u8| has(&[b"MSIE ", &[b'0' + version, b'.'][..]].concat()));
        (post && msie6() && !has(b"Opera"))
            || (disable.contains(KeepaliveDisable::SAFARI) && has(b"Safari/") && has(b"Mac OS X") && !has(b"Chrom"))
    }

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
                Ok(true) => return Ok(()),
                Ok(false) => {}
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

    /// `$request_completion`: the client's socket has accepted a whole response.
    pub(crate) fn is_completed(&self) -> bool {
        let cut = self.down.ending.is_gone() || self.down.ending.reason() == Some(CloseReason::Truncated);
        self.down.head_begun && self.down.is_complete() && self.down.waiting_bytes() == 0 && !cut
    }

    /// Counts the response by its status, with the time that the whole exchange took. If the client left before there was a
    /// response, the status is 499.
    fn count_response(&self, microseconds: Option<u64>) {
        let status = self.response.status;
        bump(&self.thread.counters().responses[class_of(status)], 1);
        self.generation.route_cells(self.settled_location()).count(self.thread.index, status, microseconds);
    }

    /// The location of the response, or the server's own settings.
    fn settled_location(&self) -> LocationId {
        let target = &self.routing.target;
        target.location.unwrap_or_else(|| self.generation.server(target.server).own)
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
            attempt_began_at: self.upstream.attempts.all.last().map_or(self.began_at, |last| last.began_at).millis(),
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
        let all = &self.upstream.attempts.all;
        let attempt = |(place, record): (usize, &AttemptRecord)| TunnelAttempt {
            response_us: record.response_us,
            response_length: record.response_length,
            bytes_received: record.bytes_received,
            bytes_sent: record.bytes_sent,
            separator: all.get(place + 1).map_or(&b""[..], |next| separator(record, next)),
        };
        all.iter().enumerate().map(attempt).collect()
    }

    /// Writes a line to the error log, with nginx's suffix.
    pub(crate) fn error_log(&self, message: &str) {
        self.log_at(Level::Error, message);
    }

    /// Whether a log gets a line about this exchange. A condition that could not be decided logs the line.
    fn is_logged(&self, log: &AccessLogPlan, view: &ExchangeView<'_>) -> bool {
        log.wants(view) || self.routing.undecided.is_noted()
    }

    /// Logs an error of the client, which nginx logs as `info`: the operator cannot correct it, and scanners cause
    /// many.
    pub(crate) fn client_log(&self, message: &str) {
        self.log_at(Level::Info, message);
    }

    /// Logs at another level. The most specific `error_log` gets the line.
    pub(crate) fn log_at(&self, level: Level, message: &str) {
        let request = &self.request;
        let log = self.generation.error_log(self.location()).unwrap_or(&self.thread.shared.error_log);
        let written = log.request_line(
            self.thread.index,
            level,
            &RequestLine {
                message,
                serial: self.down.serial(),
                client: Some(self.client()),
                datagrams: false,
                server: &self.generation.server(self.routing.target.server).name,
                request: request.head.line.of(&request.bytes),
                subrequest: self.is_subrequest().then(|| self.uri()),
                upstream: self.upstream_url().as_deref(),
                host: request.head.host.map(|host| host.raw.of(&request.bytes)),
                referrer: request.head.value(FieldId::Referer, &request.bytes),
            },
        );
        if written {
            self.down.await_line();
        }
    }

    /// The URL of the last attempt, as nginx writes it.
    fn upstream_url(&self) -> Option<Vec<u8>> {
        let peer = self.upstream.attempts.last_peer(&self.generation)?;
        let target = self.request.upstream_head.target();
        let separator: &[u8] = if peer.starts_with(b"unix:") && !target.is_empty() { b":" } else { b"" };
        let scheme = self.upstream.attempts.last_scheme(&self.generation).as_str().as_bytes();
        Some([scheme, b"://", peer, separator, target].concat())
    }

    /// The response cannot be completed: closing the connection tells the client.
    pub(crate) fn truncate(&mut self) -> Served {
        self.down.ending.break_off(CloseReason::Truncated);
        // As much of a page as needs no further wait.
        while self.assemble() && self.response.filters.flush(&mut self.down).is_ok() {}
        if self.down.head_begun && self.response.filters.break_off(&mut self.down).is_err() {
            self.down.ending.break_off(CloseReason::ClientAborted);
        }
        Served::Responded
    }
}
