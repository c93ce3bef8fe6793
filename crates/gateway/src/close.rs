//! Why a client connection was closed. The same value feeds the error log, `$close_side`, metrics and reports.

use std::fmt;

/// Who closed first, as `$close_side` prints it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CloseSide {
    /// The client.
    Client,
    /// This gateway.
    Gateway,
    /// The upstream, whose end was passed on.
    Upstream,
}

/// Why a client connection ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum CloseReason {
    /// The client closed between two requests.
    ClientClosed,
    /// The client closed or reset in the middle of something.
    ClientAborted,
    /// `keepalive_timeout` passed without a request.
    KeepaliveTimeout,
    /// `keepalive_requests` or `keepalive_time` was reached, or keepalive is off.
    KeepaliveLimit,
    /// The client asked for it (`Connection: close`, HTTP/1.0).
    ClientAsked,
    /// The response's end is the end of the connection.
    CloseDelimited,
    /// The configuration says to close without an answer (`return 444`).
    Unanswered,
    /// The request was refused as malformed.
    BadRequest,
    /// `client_header_timeout` passed before the head was complete.
    HeadTimeout,
    /// `client_body_timeout` passed without a byte of the request body.
    BodyTimeout,
    /// `send_timeout` passed without the client taking a byte.
    SendTimeout,
    /// The upstream's response broke off; closing is how the client learns of it.
    Truncated,
    /// A tunnel ended because one side closed it.
    TunnelEnded,
    /// A tunnel was silent for too long.
    TunnelTimeout,
    /// The idle connection was needed for somebody else: all of `worker_connections`, or all descriptors, were in use.
    Displaced,
    /// A new connection for which there was no room: all of `worker_connections` were in use, and none was idle.
    NoRoom,
    /// A new connection that the kernel had no memory to watch.
    Unwatched,
    /// `memory_budget` is used up: the connection was idle, or its request was refused.
    MemoryBudget,
    /// A reload has taken away the address on which it was accepted.
    Unlistened,
    /// The process is shutting down.
    Shutdown,
    /// A panic while serving the connection: a bug of ours.
    Bug,
}

impl CloseReason {
    /// How many there are, for tables indexed by reason.
    pub const COUNT: usize = Self::Bug as usize + 1;

    /// All of them, in the order of their numbers.
    pub const ALL: [Self; Self::COUNT] = [
        Self::ClientClosed,
        Self::ClientAborted,
        Self::KeepaliveTimeout,
        Self::KeepaliveLimit,
        Self::ClientAsked,
        Self::CloseDelimited,
        Self::Unanswered,
        Self::BadRequest,
        Self::HeadTimeout,
        Self::BodyTimeout,
        Self::SendTimeout,
        Self::Truncated,
        Self::TunnelEnded,
        Self::TunnelTimeout,
        Self::Displaced,
        Self::NoRoom,
        Self::Unwatched,
        Self::MemoryBudget,
        Self::Unlistened,
        Self::Shutdown,
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
            Self::HeadTimeout => "head_timeout",
            Self::BodyTimeout => "body_timeout",
            Self::SendTimeout => "send_timeout",
            Self::Truncated => "truncated",
            Self::TunnelEnded => "tunnel_ended",
            Self::TunnelTimeout => "tunnel_timeout",
            Self::Displaced => "displaced",
            Self::NoRoom => "no_room",
            Self::Unwatched => "unwatched",
            Self::MemoryBudget => "memory_budget",
            Self::Unlistened => "unlistened",
            Self::Shutdown => "shutdown",
            Self::Bug => "bug",
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
    fn every_reason_stands_at_its_own_place_under_its_own_name() {
        let mut labels = std::collections::HashSet::new();
        for (place, reason) in CloseReason::ALL.into_iter().enumerate() {
            assert_eq!(reason as usize, place);
            assert!(labels.insert(reason.label()), "{reason} shares its name");
        }
    }
}
