//! Why an upstream connection was not kept. One enum feeds the error log, `$upstream_close_reason`, the metrics and the
//! reports. `retry` handles failed requests.

/// Why a connection left the pool, or never went back to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum DiscardReason {
    /// The peer sent its FIN, or a reset, while the connection was idle (P1).
    PeerClosedIdle,
    /// The peer sent unrequested bytes while the connection was idle (P4).
    DataOnIdle,
    /// The peer answered `Connection: close`, or as HTTP/1.0 without keepalive (P5).
    ConnectionClose,
    /// Older than `keepalive_time` (P7).
    AgeLimit,
    /// Served `keepalive_requests` exchanges (P7).
    RequestLimit,
    /// Idle longer than `keepalive_timeout`, or than the peer's known timeout (P7, P10).
    IdleLimit,
    /// The least recently used of a full pool (P9).
    PoolFull,
    /// The group keeps no idle connections (`keepalive 0`).
    KeepaliveOff,
    /// Closed so that a connection under `max_connections` could be opened to another peer or with another identity.
    MadeRoom,
    /// The request body was not sent to its end (P6).
    RequestBodyUnsent,
    /// The response body was not read to its end.
    ResponseBodyUnread,
    /// The peer broke the protocol.
    ProtocolError,
    /// A read or write failed, or timed out.
    Error,
    /// The client left before the peer had answered.
    Cancelled,
    /// A reload removed the peer or changed what the connection's identity depends on.
    Reload,
    /// The process is ending.
    Drain,
    /// An operator emptied the pool.
    Flushed,
    /// The connection became a tunnel.
    Upgraded,
    /// Only this request may use its source address (a variable in `proxy_bind`).
    OwnSource,
    /// The peer sent GOAWAY (HTTP/2).
    GoneAway,
    /// The peer did not answer an HTTP/2 PING in time.
    PingTimeout,
    /// A lease was dropped without check-in or discard: a panic, or a bug.
    Dropped,
}

impl DiscardReason {
    /// Every reason, in the order of its number.
    pub const ALL: [Self; 22] = [
        Self::PeerClosedIdle,
        Self::DataOnIdle,
        Self::ConnectionClose,
        Self::AgeLimit,
        Self::RequestLimit,
        Self::IdleLimit,
        Self::PoolFull,
        Self::KeepaliveOff,
        Self::MadeRoom,
        Self::RequestBodyUnsent,
        Self::ResponseBodyUnread,
        Self::ProtocolError,
        Self::Error,
        Self::Cancelled,
        Self::Reload,
        Self::Drain,
        Self::Flushed,
        Self::Upgraded,
        Self::OwnSource,
        Self::GoneAway,
        Self::PingTimeout,
        Self::Dropped,
    ];

    /// Text for a log line, after nginx's own phrase.
    pub fn phrase(self) -> &'static str {
        match self {
            Self::PeerClosedIdle => "closed by the peer while idle",
            Self::DataOnIdle => "unexpected bytes while idle",
            Self::ConnectionClose => "the peer asked to close",
            Self::AgeLimit => "older than keepalive_time",
            Self::RequestLimit => "keepalive_requests reached",
            Self::IdleLimit => "idle too long",
            Self::PoolFull => "pool full",
            Self::KeepaliveOff => "keepalive is off",
            Self::MadeRoom => "made room under max_connections",
            Self::RequestBodyUnsent => "request body not fully sent",
            Self::ResponseBodyUnread => "response body not fully read",
            Self::ProtocolError => "protocol error",
            Self::Error => "connection error",
            Self::Cancelled => "client left",
            Self::Reload => "configuration changed",
            Self::Drain => "shutting down",
            Self::Flushed => "flushed by an operator",
            Self::Upgraded => "became a tunnel",
            Self::OwnSource => "its source address is the request's own",
            Self::GoneAway => "the peer went away",
            Self::PingTimeout => "no answer to a PING",
            Self::Dropped => "lease dropped",
        }
    }

    /// The label in metrics and in `$upstream_close_reason`: lower case, underscores.
    pub fn label(self) -> &'static str {
        match self {
            Self::PeerClosedIdle => "peer_closed_idle",
            Self::DataOnIdle => "data_on_idle",
            Self::ConnectionClose => "connection_close",
            Self::AgeLimit => "age_limit",
            Self::RequestLimit => "request_limit",
            Self::IdleLimit => "idle_limit",
            Self::PoolFull => "pool_full",
            Self::KeepaliveOff => "keepalive_off",
            Self::MadeRoom => "made_room",
            Self::RequestBodyUnsent => "request_body_unsent",
            Self::ResponseBodyUnread => "response_body_unread",
            Self::ProtocolError => "protocol_error",
            Self::Error => "error",
            Self::Cancelled => "cancelled",
            Self::Reload => "reload",
            Self::Drain => "drain",
            Self::Flushed => "flushed",
            Self::Upgraded => "upgraded",
            Self::OwnSource => "own_source",
            Self::GoneAway => "gone_away",
            Self::PingTimeout => "ping_timeout",
            Self::Dropped => "dropped",
        }
    }

    /// Position in [`Self::ALL`], for arrays of counters.
    pub fn index(self) -> usize {
        self as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_reason_has_a_unique_index_and_text() {
        let mut phrases = std::collections::HashSet::new();
        let mut labels = std::collections::HashSet::new();
        for (at, reason) in DiscardReason::ALL.into_iter().enumerate() {
            assert_eq!(reason.index(), at);
            assert!(phrases.insert(reason.phrase()), "{reason:?} shares its phrase");
            assert!(labels.insert(reason.label()), "{reason:?} shares its label");
        }
    }
}
