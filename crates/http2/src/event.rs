//! Events that a connection reports to its owner.

use crate::code::ErrorCode;
use crate::reason::Reason;
use std::fmt;

/// Number of a stream: odd, opened by the client.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StreamId(pub u32);

impl fmt::Display for StreamId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Which side reset a stream, and why.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ResetBy {
    /// The peer, with this code.
    Peer(ErrorCode),
    /// This connection, for a fault of the peer.
    Us(Reason),
}

/// An event. `'b` is the lifetime of the bytes passed to `receive`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Event<'b> {
    /// A head is in the caller's [`crate::Head`]: a request that opens the stream, or an interim or final response.
    Head {
        /// The stream.
        stream: StreamId,
        /// No body follows.
        end: bool,
    },
    /// A piece of a body. The caller calls `consume` to permit more.
    Data {
        /// The stream.
        stream: StreamId,
        /// The piece, empty only at the end.
        bytes: &'b [u8],
        /// It is the last one, and no trailers follow.
        end: bool,
    },
    /// Trailers are in the caller's [`crate::Head`]; the message is complete.
    Trailers {
        /// The stream.
        stream: StreamId,
    },
    /// The stream ended early.
    Reset {
        /// The stream.
        stream: StreamId,
        /// By which side.
        by: ResetBy,
    },
    /// The peer opens no more streams on this connection, and processes none above `last`; those get a `Reset` each.
    GoAway {
        /// The last stream that the peer processes.
        last: StreamId,
        /// Why.
        code: ErrorCode,
    },
    /// The peer has acknowledged our settings.
    SettingsAcked,
    /// The peer's settings have changed: see `peer_settings`.
    PeerSettings,
    /// The answer to the caller's PING.
    Pong([u8; 8]),
}

/// The connection is over: a GOAWAY is in the output, and nothing is read any more.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Closed(pub Reason);
