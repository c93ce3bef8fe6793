//! Why a client connection was closed. The same value feeds the error log, `$close_side`, metrics and reports.

use std::fmt;

/// Who closed first, as `$close_side` prints it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CloseSide {
    /// The client.
    Client,
    /// This gateway.
    Gateway,
    /// The upstream: the gateway passed its close on to the client.
    Upstream,
}

/// Why a client connection ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum CloseReason {
    /// The client closed between two requests.
    ClientClosed,
    /// The client closed or reset during a request or a tunnel.
    ClientAborted,
    /// `keepalive_timeout` passed without a request.
    KeepaliveTimeout,
    /// `keepalive_requests` or `keepalive_time` was reached, or keepalive is off, or disabled for this browser.
    KeepaliveLimit,
    /// The client asked for the close (`Connection: close`, HTTP/1.0).
    ClientAsked,
    /// The end of the connection marks the end of the response.
    CloseDelimited,
    /// The configuration says to close without an answer (`return 444`).
    Unanswered,
    /// The request was refused as malformed.
    BadRequest,
    /// The response was an error after which nginx also closes.
    AfterError,
    /// The response was sent before the whole request body was read.
    BodyUnread,
    /// `client_header_timeout` passed before the head was complete.
    HeadTimeout,
    /// The TLS handshake failed.
    HandshakeFailed,
    /// `client_body_timeout` passed without a byte of the request body.
    BodyTimeout,
    /// `send_timeout` passed without the client taking a byte.
    SendTimeout,
    /// The upstream's response broke off; the close tells the client so.
    Truncated,
    /// A tunnel ended because one side closed it.
    TunnelEnded,
    /// A tunnel was silent for too long.
    TunnelTimeout,
    /// A drained tunnel: a reload changed or removed its location.
    DrainedRoute,
    /// A drained tunnel: its peer was removed or marked `drain`.
    DrainedPeer,
    /// A drained tunnel: the process ends.
    DrainedQuit,
    /// The connection was idle or had no complete request, and a new connection needed its place: all of
    /// `worker_connections`, or all descriptors, were in use.
    Displaced,
    /// A new connection was closed because all of `worker_connections` were in use, each with a request.
    NoRoom,
    /// The kernel had no memory to watch a new connection.
    Unwatched,
    /// `memory_budget` is used up: the connection was idle or had no complete request, or its request was refused.
    MemoryBudget,
    /// A reload removed the address on which it was accepted.
    Unlistened,
    /// The process is shutting down.
    Shutdown,
    /// The client broke a rule of HTTP/2.
    Http2Fault,
    /// The client reached a limit against abuse of HTTP/2.
    Http2Abuse,
    /// A `stream` session was refused: by a rule, a limit, or a value that cannot be used.
    SessionRefused,
    /// A `stream` session got the text of `return`.
    SessionServed,
    /// A `stream` session reached no peer.
    NoUpstream,
    /// An operator closed the connection.
    Operator,
    /// A panic while serving the connection: a bug of ours.
    Bug,
}

/// The reasons of drained tunnels.
pub(crate) const DRAINED: [CloseReason; 3] =
    [CloseReason::DrainedRoute, CloseReason::DrainedPeer, CloseReason::DrainedQuit];

impl CloseReason {
    /// Number of reasons, for tables indexed by reason.
    pub const COUNT: usize = Self::Bug as usize + 1;

    /// All reasons, in the order of their numbers.
    pub const ALL: [Self; Self::COUNT] = [
        Self::ClientClosed,
        Self::ClientAborted,
        Self::KeepaliveTimeout,
        Self::KeepaliveLimit,
        Self::ClientAsked,
        Self::CloseDelimited,
        Self::Unanswered,
        Self::BadRequest,
        Self::AfterError,
        Self::BodyUnread,
        Self::HeadTimeout,
        Self::HandshakeFailed,
        Self::BodyTimeout,
        Self::SendTimeout,
        Self::Truncated,
        Self::TunnelEnded,
        Self::TunnelTimeout,
        Self::DrainedRoute,
        Self::DrainedPeer,
        Self::DrainedQuit,
        Self::Displaced,
        Self::NoRoom,
        Self::Unwatched,
        Self::MemoryBudget,
        Self::Unlistened,
        Self::Shutdown,
        Self::Http2Fault,
        Self::Http2Abuse,
        Self::SessionRefused,
        Self::SessionServed,
        Self::NoUpstream,
        Self::Operator,
        Self::Bug,
    ];

    /// The name in metrics.
    pub fn label(self) -> &'static str {
        match self {
            Self::ClientClosed => "client_closed",
            Self::ClientAborted => "client_aborted",
            Self::KeepaliveTimeout => "keepalive_timeout",
            Self::KeepaliveLimit => "keepalive_limit",
            Self::ClientAsked => "client_asked",
            Self::CloseDelimited => "close_delimited",
            Self::Unanswered => "unanswered",
            Self::BadRequest => "bad_request",
            Self::AfterError => "after_error",
            Self::BodyUnread => "body_unread",
            Self::HeadTimeout => "head_timeout",
            Self::HandshakeFailed => "handshake_failed",
            Self::BodyTimeout => "body_timeout",
            Self::SendTimeout => "send_timeout",
            Self::Truncated => "truncated",
            Self::TunnelEnded => "tunnel_ended",
            Self::TunnelTimeout => "tunnel_timeout",
            Self::DrainedRoute => "drained_route",
            Self::DrainedPeer => "drained_peer",
            Self::DrainedQuit => "drained_quit",
            Self::Displaced => "displaced",
            Self::NoRoom => "no_room",
            Self::Unwatched => "unwatched",
            Self::MemoryBudget => "memory_budget",
            Self::Unlistened => "unlistened",
            Self::Shutdown => "shutdown",
            Self::Http2Fault => "http2_fault",
            Self::Http2Abuse => "http2_abuse",
            Self::SessionRefused => "session_refused",
            Self::SessionServed => "session_served",
            Self::NoUpstream => "no_upstream",
            Self::Operator => "operator",
            Self::Bug => "bug",
        }
    }

    /// What the reason means, and what to look at if it is frequent; empty if nothing needs attention.
    pub fn explain(self) -> (&'static str, &'static str) {
        match self {
            Self::ClientClosed => ("the client closed between two requests", ""),
            Self::ClientAborted => (
                "the client closed or reset in the middle of something",
                "`$request_time` of these requests: clients may have given up waiting",
            ),
            Self::KeepaliveTimeout => ("`keepalive_timeout` passed without a request", ""),
            Self::KeepaliveLimit => (
                "`keepalive_requests` or `keepalive_time` was reached, or keepalive is off, or off for this browser",
                "`keepalive_requests`, where clients open connections as fast as they close",
            ),
            Self::ClientAsked => ("the client asked for it: `Connection: close`, or HTTP/1.0", "the client's settings"),
            Self::CloseDelimited => (
                "the response had no length, so its end is the end of the connection",
                "an upstream without `Content-Length` before HTTP/1.0 clients, or `chunked_transfer_encoding off`",
            ),
            Self::Unanswered => ("the configuration says to close without an answer: `return 444`", ""),
            Self::BadRequest => (
                "the request was malformed and got a 4xx or 5xx",
                "the error log: each has a line with the client and what was wrong",
            ),
            Self::AfterError => ("the response was 400, 413, 414, 500 or 501", "the error log"),
            Self::BodyUnread => (
                "the response did not wait for the whole request body: 413, or an early answer",
                "`client_max_body_size`",
            ),
            Self::HeadTimeout => (
                "`client_header_timeout` passed before the head was complete; 408 if some of it was there",
                "clients that open connections in advance, or an attack that holds connections open",
            ),
            Self::HandshakeFailed => (
                "the TLS handshake failed",
                "`error_log … info` has a line for each; `holdfast_tls_handshakes_failed_total` has the reasons",
            ),
            Self::BodyTimeout => ("`client_body_timeout` passed without a byte of the request body", "slow uploads"),
            Self::SendTimeout => ("`send_timeout` passed without the client taking a byte", "slow or stuck readers"),
            Self::Truncated => (
                "the upstream's response was cut off; the close tells the client",
                "the error log: `upstream prematurely closed connection`, or its timeout",
            ),
            Self::TunnelEnded => ("one side closed the tunnel; `$close_side` says which", ""),
            Self::TunnelTimeout => (
                "the tunnel was silent for too long",
                "`tunnel_timeout`, `proxy_read_timeout`, and the heartbeats of the clients",
            ),
            Self::DrainedRoute | Self::DrainedPeer | Self::DrainedQuit => self.explain_drain(),
            Self::Displaced => (
                "it was idle, had no complete request, or was the most silent session of UDP, and another client needed its place",
                "`worker_connections` and `worker_rlimit_nofile`; clients that connect and say nothing",
            ),
            Self::NoRoom => (
                "new, and all of `worker_connections` were in use, each with a request",
                "`worker_connections`; the error log has one line a minute",
            ),
            Self::Unwatched => ("new, and the kernel had no memory to watch it", "the machine's memory, `dmesg`"),
            Self::MemoryBudget => (
                "`memory_budget` was used up: it was idle or had no complete request, or its request got 503",
                "the error log: it names the connections that hold most",
            ),
            Self::Unlistened => ("a reload removed the address on which it was accepted", ""),
            Self::Shutdown => ("the process ends", ""),
            Self::Http2Fault => ("the client violated the HTTP/2 protocol", "`holdfast_http2_connection_faults_total`"),
            Self::Http2Abuse => ("the client reached a limit against abuse of HTTP/2", "the same, and the error log"),
            Self::SessionRefused | Self::SessionServed | Self::NoUpstream => self.explain_session(),
            Self::Operator => ("an operator has closed it: `holdfast ctl connections close`", ""),
            Self::Bug => ("a panic: a bug of ours", "the error log, and please report it"),
        }
    }

    /// The same for the reasons of `stream` sessions.
    fn explain_session(self) -> (&'static str, &'static str) {
        match self {
            Self::SessionRefused => (
                "a session of `stream` was refused: by `deny`, by `limit_conn`, or because of a value that cannot be used",
                "the error log: each has a line with the client and the reason",
            ),
            Self::SessionServed => ("a session of `stream` got the text of `return`", ""),
            Self::NoUpstream => (
                "a session of `stream` reached no peer of its group",
                "the error log, and the peers on the status page",
            ),
            _ => ("", ""),
        }
    }

    /// The same for the reasons of drained tunnels.
    fn explain_drain(self) -> (&'static str, &'static str) {
        match self {
            Self::DrainedRoute => ("a tunnel was drained: a reload changed or removed its location", ""),
            Self::DrainedPeer => (
                "a tunnel was drained: its peer was removed, or marked `drain` in the configuration or by `holdfast ctl`",
                "",
            ),
            Self::DrainedQuit => ("a tunnel was drained: the process ends, and `drain_rate` is set", ""),
            _ => ("", ""),
        }
    }

    /// Who closed first.
    pub fn side(self) -> CloseSide {
        match self {
            Self::ClientClosed | Self::ClientAborted => CloseSide::Client,
            Self::Truncated => CloseSide::Upstream,
            _ => CloseSide::Gateway,
        }
    }
}

impl fmt::Display for CloseReason {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(self.label())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_reason_has_a_unique_index_and_name() {
        let mut labels = std::collections::HashSet::new();
        for (place, reason) in CloseReason::ALL.into_iter().enumerate() {
            assert_eq!(reason as usize, place);
            assert!(labels.insert(reason.label()), "{reason} shares its name");
        }
    }
}
