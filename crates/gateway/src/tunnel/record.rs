//! The log lines of a tunnel: rendered as far as values are known at its start; the gaps are filled when it ends.

use crate::base::close::{CloseReason, CloseSide};
use crate::base::logs::access::{LineName, LogSink};
use crate::base::logs::error::{ErrorLog, Level, RequestLine};
use crate::base::values::{bytes, close_side, number, seconds, time, time_of_us};
use crate::registry::limit_zones::Limited;
use crate::registry::spans::{Span, SpanValue};
use crate::thread::WorkerThread;
use crate::tunnel::Tunnel;
use reactor::{Millis, PeerAddress};
use rules::log_format::EarlyLine;
use rules::template::View;
use rules::variable::Variable;
use std::io::{self, Write as _};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use upstream::balance::SessionTiming;

/// The variables that get their values only when the tunnel ends. Another process knows them by their places here.
pub(super) static LATE: [Variable; 16] = [
    Variable::BytesSent,
    Variable::BytesReceived,
    Variable::SessionTime,
    Variable::UpstreamSessionTime,
    Variable::UpstreamFirstByteTime,
    Variable::BodyBytesSent,
    Variable::RequestTime,
    Variable::ConnectionTime,
    Variable::Msec,
    Variable::TimeLocal,
    Variable::TimeIso8601,
    Variable::UpstreamResponseTime,
    Variable::UpstreamResponseLength,
    Variable::UpstreamBytesReceived,
    Variable::UpstreamBytesSent,
    Variable::CloseSide,
];

/// The access-log lines of a tunnel, rendered as far as known at its start, and the values for the gaps.
pub(crate) struct TunnelRecord {
    pub(crate) lines: Vec<(Arc<LogSink>, Option<LineName>, EarlyLine)>,
    pub(crate) began_at: Millis,
    pub(crate) accepted_at: Millis,
    /// Bytes of the 101.
    pub(crate) head_bytes: u64,
    /// When the attempt began that became the tunnel, and how long the peer then took to its first byte.
    pub(crate) attempt_began_at: Millis,
    pub(crate) first_byte_ms: Option<u64>,
    /// A tunnel counts for `limit_conn` as long as it exists.
    pub(crate) limits: Option<Box<Limited>>,
    /// `least_time` in `stream`.
    pub(crate) timing: Option<SessionTiming>,
    /// The attempts, up to the 101; the last one became the tunnel.
    pub(crate) attempts: Box<[TunnelAttempt]>,
    /// The spans of its exchange, which end with it.
    pub(crate) spans: Box<[Span]>,
}

/// The values of one attempt for a tunnel's log lines.
#[derive(Debug, Clone, Copy)]
pub(crate) struct TunnelAttempt {
    /// Microseconds.
    pub(crate) response_us: Option<u64>,
    pub(crate) response_length: u64,
    pub(crate) bytes_received: u64,
    pub(crate) bytes_sent: u64,
    /// The separator before the values of the next attempt.
    pub(crate) separator: &'static [u8],
}

/// A tunnel, or a session of datagrams, as the gaps of its log lines see it at its end.
pub(crate) struct TunnelView<'a> {
    pub(crate) thread: &'a WorkerThread,
    pub(crate) record: &'a TunnelRecord,
    /// Bytes relayed to the client.
    pub(crate) to_client: u64,
    /// Bytes relayed to the upstream.
    pub(crate) to_upstream: u64,
    pub(crate) ended_by: CloseSide,
    /// `$status` of a session that had none when it began.
    pub(crate) status: Option<u16>,
}

impl TunnelRecord {
    /// The peer has sent its first byte.
    pub(super) fn note_first_byte(&mut self, now: Millis) {
        self.first_byte_ms = Some(now.since(self.attempt_began_at));
        if let Some(timing) = &mut self.timing {
            timing.first_byte_came(now);
        }
    }

    /// The session has ended.
    pub(super) fn note_end(&self, thread: &WorkerThread) {
        if let Some(timing) = &self.timing {
            timing.session_ended(thread.pool_now());
        }
    }
}

impl TunnelView<'_> {
    /// Whether a variable gets its value only when the tunnel ends.
    pub(crate) fn is_late(variable: &Variable) -> bool {
        LATE.contains(variable)
    }
}

impl View for TunnelView<'_> {
    fn write(&self, variable: &Variable, out: &mut Vec<u8>) -> bool {
        let now = self.thread.reactor.now();
        let body = self.to_client;
        match variable {
            Variable::BytesSent => number(self.record.head_bytes + body, out),
            Variable::BodyBytesSent => number(body, out),
            Variable::RequestTime => seconds(now.since(self.record.began_at), out),
            Variable::BytesReceived => number(self.to_upstream, out),
            Variable::UpstreamResponseTime
            | Variable::UpstreamSessionTime
            | Variable::UpstreamFirstByteTime
            | Variable::UpstreamResponseLength
            | Variable::UpstreamBytesReceived
            | Variable::UpstreamBytesSent => self.upstream(variable, now, out),
            Variable::SessionTime | Variable::ConnectionTime => seconds(now.since(self.record.accepted_at), out),
            Variable::Msec => seconds(self.thread.clock.now().as_millis() as u64, out),
            Variable::TimeLocal => bytes(&self.thread.clock.moment().local(), out),
            Variable::TimeIso8601 => bytes(&self.thread.clock.moment().iso8601(), out),
            Variable::CloseSide => bytes(close_side(self.ended_by), out),
            // Writing to a vector cannot fail.
            Variable::Status => self.status.is_some_and(|status| write!(out, "{status:03}").is_ok()),
            _ => false,
        }
    }
}

impl TunnelView<'_> {
    /// Writes the access-log lines.
    pub(super) fn write_lines(&self) {
        let mut line = Vec::new();
        for (sink, name, early) in &self.record.lines {
            line.clear();
            early.write(self, &mut line);
            sink.write(self.thread.index, name.as_ref(), &line);
        }
    }

    /// The values of all attempts; the last one became the tunnel.
    fn upstream(&self, variable: &Variable, now: Millis, out: &mut Vec<u8>) -> bool {
        let (to_client, to_upstream) = (self.to_client, self.to_upstream);
        let Some((last, failed)) = self.record.attempts.split_last() else { return false };
        for attempt in failed {
            attempt.write(variable, out);
            out.extend_from_slice(attempt.separator);
        }
        match variable {
            Variable::UpstreamSessionTime => return seconds(now.since(self.record.attempt_began_at), out),
            Variable::UpstreamFirstByteTime => return time(self.record.first_byte_ms, out),
            _ => {}
        }
        let last = TunnelAttempt {
            response_us: Some(now.since(self.record.began_at) * 1000),
            response_length: to_client,
            bytes_received: last.bytes_received + to_client,
            bytes_sent: last.bytes_sent + to_upstream,
            separator: b"",
        };
        last.write(variable, out)
    }
}

impl TunnelAttempt {
    fn write(&self, variable: &Variable, out: &mut Vec<u8>) -> bool {
        match variable {
            Variable::UpstreamResponseTime | Variable::UpstreamSessionTime => time_of_us(self.response_us, out),
            Variable::UpstreamFirstByteTime => bytes(b"-", out),
            Variable::UpstreamResponseLength => number(self.response_length, out),
            Variable::UpstreamBytesReceived => number(self.bytes_received, out),
            Variable::UpstreamBytesSent => number(self.bytes_sent, out),
            _ => false,
        }
    }
}

/// Writes the log lines of a tunnel that ends.
pub(crate) fn log_tunnel(thread: &WorkerThread, tunnel: &Tunnel, reason: CloseReason) {
    let log = tunnel.error_log().unwrap_or(&thread.registry.error_log);
    if tunnel.is_session() {
        log_session_end(thread, log, tunnel, reason);
    } else if reason == CloseReason::TunnelTimeout {
        let bytes = tunnel.bytes_to_client();
        let silent = match tunnel.silent_end() {
            Some(CloseSide::Client) => ", no answer to pings from the client",
            Some(CloseSide::Upstream) => ", no answer to pings from the upstream",
            Some(CloseSide::Gateway) | None => "",
        };
        log.log(
            Level::Info,
            &format!(
                "upstream timed out (110: Connection timed out) while proxying upgraded connection, {bytes} bytes to the client{silent}"
            ),
        );
    } else if let Some(why) = drained_by(reason) {
        log.log(Level::Info, &format!("tunnel drained: {why}, {} bytes to the client", tunnel.bytes_to_client()));
    }
    let Some(record) = tunnel.record() else { return };
    record.note_end(thread);
    let (to_client, to_upstream) = (tunnel.bytes_to_client(), tunnel.bytes_to_upstream());
    finish_spans(thread, record, to_client);
    TunnelView { thread, record, to_client, to_upstream, ended_by: tunnel.ended_by(), status: None }.write_lines();
}

/// Why a drained tunnel was drained, for the error log.
fn drained_by(reason: CloseReason) -> Option<&'static str> {
    match reason {
        CloseReason::DrainedRoute => Some("a reload changed or removed its location"),
        CloseReason::DrainedPeer => Some("its peer was removed or is drained"),
        CloseReason::DrainedQuit => Some("the process ends"),
        _ => None,
    }
}

/// Hands on the spans of the exchange that became the tunnel: its own, and that of its last attempt, end now.
fn finish_spans(thread: &WorkerThread, record: &TunnelRecord, to_client: u64) {
    let mut spans = record.spans.to_vec();
    let now_ns = thread.clock.now().as_millis() as u64 * 1_000_000;
    for span in spans.iter_mut().rev().take(2) {
        span.ended_ns = now_ns;
    }
    if let Some(own) = spans.last_mut()
        && let Some((_, length)) = own.attributes.iter_mut().find(|(name, _)| name == "http.response_content_length")
    {
        *length = SpanValue::Number(i64::try_from(to_client).unwrap_or(i64::MAX));
    }
    if !spans.is_empty() {
        thread.registry.spans.push(spans, &thread.registry.error_log);
    }
}

/// Logs the end of a session, as nginx does at `info`.
fn log_session_end(thread: &WorkerThread, log: &ErrorLog, tunnel: &Tunnel, reason: CloseReason) {
    let reset = tunnel.reset_by();
    // As in nginx, a reset by the peer is an error; everything else is for `info`.
    let reset_level = if reset == Some(CloseSide::Upstream) { Level::Error } else { Level::Info };
    let failure = match reset {
        Some(CloseSide::Upstream) => {
            Some("recv() failed (104: Connection reset by peer) while proxying and reading from upstream")
        }
        Some(CloseSide::Client) => {
            Some("recv() failed (104: Connection reset by peer) while proxying and reading from client")
        }
        Some(CloseSide::Gateway) | None => None,
    };
    let Some(downstream) = tunnel.downstream.socket().filter(|_| log.wants(reset_level)) else { return };
    let (received, sent) = (tunnel.bytes_to_upstream(), tunnel.bytes_to_client());
    let what = match (reason, tunnel.ended_by()) {
        (CloseReason::TunnelTimeout, _) => "connection timed out (110: Connection timed out) while proxying connection",
        (CloseReason::DrainedRoute, _) => "session drained: a reload changed or removed its server",
        (CloseReason::DrainedPeer, _) => "session drained: its peer was removed or is drained",
        (CloseReason::DrainedQuit, _) => "session drained: the process ends",
        (_, CloseSide::Client) => "client disconnected",
        (_, CloseSide::Upstream) => "upstream disconnected",
        (_, CloseSide::Gateway) => "session closed",
    };
    let message = format!("{what}, bytes from/to client:{received}/{sent}, bytes from/to upstream:{sent}/{received}");
    // A socket that was reset does not know its peer any more.
    let text = |address: io::Result<Option<SocketAddr>>| {
        Some(address.ok()?.map_or_else(|| "unix:".to_owned(), |address| address.to_string()))
    };
    let client = match downstream.peer_address() {
        Ok(Some(address)) => Some(PeerAddress::Ip(address)),
        Ok(None) => Some(PeerAddress::Unix(PathBuf::new())),
        Err(_) => None,
    };
    let (server, upstream) = (text(downstream.local_address()), text(tunnel.upstream().peer_address()));
    let upstream = upstream.or_else(|| tunnel.peer_address().map(|address| address.to_string()));
    let line = |message| RequestLine {
        message,
        serial: thread.memory.serial(tunnel.task),
        client: client.as_ref(),
        datagrams: false,
        server: server.as_deref().unwrap_or_default().as_bytes(),
        request: b"",
        subrequest: None,
        upstream: upstream.as_deref().map(str::as_bytes),
        host: None,
        referrer: None,
    };
    if let Some(failure) = failure {
        log.request_line(thread.index, reset_level, &line(failure));
    }
    if log.wants(Level::Info) {
        log.request_line(thread.index, Level::Info, &line(&message));
    }
}
