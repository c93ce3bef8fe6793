//! What a peer can do wrong with frames, and which close code tells it. Mistakes of a handshake are in `handshake`.

use crate::close::CloseCode;
use thiserror::Error;

/// Why a connection has to be failed (RFC 6455 §7.1.7).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Error)]
pub enum Fault {
    /// RSV1 to RSV3 without an extension that gives them a meaning.
    #[error("a reserved bit is set, and no extension was agreed on")]
    ReservedBits,
    /// Opcodes 3 to 7 and 11 to 15.
    #[error("opcode {0} is not defined")]
    UnknownOpcode(u8),
    /// A client's frame without mask.
    #[error("a client's frame is not masked")]
    Unmasked,
    /// A server's frame with mask.
    #[error("a server's frame is masked")]
    Masked,
    /// A control frame without FIN.
    #[error("a control frame is fragmented")]
    FragmentedControl,
    /// A control frame with more than 125 bytes.
    #[error("a control frame is longer than 125 bytes")]
    LongControl,
    /// A length in more bytes than it needs.
    #[error("a payload length is not in its shortest form")]
    LengthNotMinimal,
    /// A length with its highest bit set.
    #[error("a payload length has its highest bit set")]
    LengthTooLarge,
    /// More than the message bound.
    #[error("a message is longer than allowed")]
    TooBig,
    /// A continuation of nothing.
    #[error("a continuation frame without a message that it continues")]
    UnexpectedContinuation,
    /// A new message inside of one.
    #[error("a new message begins before the last one has ended")]
    ExpectedContinuation,
    /// Text that is no UTF-8.
    #[error("a text is no UTF-8")]
    InvalidUtf8,
    /// A close frame with one byte.
    #[error("a close frame has half a code")]
    HalfCloseCode,
    /// A close frame with a code that may not be sent.
    #[error("close code {0} may not be sent")]
    InvalidCloseCode(u16),
    /// A close frame with a reason that is not UTF-8.
    #[error("the reason of a close frame is no UTF-8")]
    InvalidCloseReason,
}

impl Fault {
    /// What to tell the peer.
    pub fn close_code(self) -> CloseCode {
        match self {
            Self::TooBig => CloseCode::TOO_BIG,
            Self::InvalidUtf8 | Self::InvalidCloseReason => CloseCode::INVALID_DATA,
            _ => CloseCode::PROTOCOL_ERROR,
        }
    }
}
