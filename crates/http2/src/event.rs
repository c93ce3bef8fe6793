//! What a connection tells its owner.

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

/// What happened. `'b` are the bytes that were given to `receive`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Event<'b> {
    /// A head is in the caller's [`crate::Head`]: a request that opens the stream, or an interim or final response.
    Head {
        /// The stream.
        stream: StreamId,
        /// No body follows.
        end: bool,
    },
    /// A piece of a body. The caller says with `consume` when more may come.
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
    /// The stream is over before its time.
    Reset {
        /// The stream.
        stream: StreamId,
        /// By which side.
        by: ResetBy,
    },
    /// The peer opens no streams on this connection any more, and takes none above `last`; those get a `Reset` each.
    GoAway {
        /// The last stream that the peer looks at.
        last: StreamId,
        /// Why.
        code: ErrorCode,
    },
    /// The peer knows our settings.
    SettingsAcked,
    /// The peer's settings have changed: `peer_settings` tells them.
    PeerSettings,
    /// The answer to a PING of the caller.
    Pong([u8; 8]),
}

/// The connection is over: GOAWAY is in the output, and nothing is read any more.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Closed(pub Reason);
