//! Why a connection or a stream ends: a code for the peer, a name for counters, a sentence for the log.

use crate::check::FieldFault;
use crate::code::ErrorCode;
use crate::hpack::HpackError;
use thiserror::Error;

/// The fault of a head (RFC 9113 §8.2 and §8.3). The stream ends; nothing of the message is used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Error)]
pub enum HeadFault {
    /// The fault of one field.
    #[error("{0}")]
    Field(#[from] FieldFault),
    /// A pseudo-header field after a regular one.
    #[error("a pseudo-header field follows a regular field")]
    PseudoBehindField,
    /// A pseudo-header field twice.
    #[error("a pseudo-header field is repeated")]
    PseudoRepeated,
    /// A pseudo-header field of the other role, or in trailers.
    #[error("a pseudo-header field that this message may not have")]
    PseudoNotAllowed,
    /// A pseudo-header field is absent.
    #[error("a pseudo-header field that this message needs is absent")]
    PseudoAbsent,
    /// `:method` is no token.
    #[error(":method is not a token")]
    Method,
    /// `:scheme` is no scheme.
    #[error(":scheme is not a scheme")]
    Scheme,
    /// `:path` is empty, has a space, or does not begin with a slash.
    #[error(":path is not a path")]
    Path,
    /// `:authority` has a user name, or bytes that no authority has.
    #[error(":authority is not a host with an optional port")]
    Authority,
    /// `:authority` and Host differ, or there are two Host fields.
    #[error(":authority and Host differ, or Host is repeated")]
    HostDiffers,
    /// `:protocol` without our consent, or with a method other than CONNECT.
    #[error(":protocol where no extended CONNECT is allowed")]
    Protocol,
    /// `:status` is not three digits, or 101.
    #[error(":status is not a status that HTTP/2 has")]
    Status,
    /// Connection, Keep-Alive, Proxy-Connection, Transfer-Encoding or Upgrade.
    #[error("a field that concerns one connection, which HTTP/2 forbids")]
    ConnectionSpecific,
    /// TE with a value other than `trailers`.
    #[error("TE with another value than trailers")]
    Te,
    /// Content-Length is no number, or is repeated.
    #[error("Content-Length is not one decimal number")]
    ContentLength,
    /// Trailers without the end of the stream, or an interim response with it.
    #[error("a head that does not end the stream where it must, or ends it where it must not")]
    End,
}

macro_rules! reasons {
    ($( $(#[$doc:meta])* $variant:ident $(($inner:ty))? $code:ident $name:literal $sentence:literal )*) => {
        /// Why this side ended a connection or a stream.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Error)]
        pub enum Reason {
            $( $(#[$doc])* #[doc = $sentence] #[error($sentence)] $variant $(($inner))?, )*
        }

        impl Reason {
            /// The names of all reasons.
            pub const NAMES: &'static [&'static str] = &[$($name),*];

            /// The code sent to the peer.
            pub fn code(self) -> ErrorCode {
                match self { $( reasons!(@pattern $variant $(($inner))?) => ErrorCode::$code, )* }
            }

            /// A name for counters: lower case, words joined by underscores.
            pub fn name(self) -> &'static str {
                match self { $( reasons!(@pattern $variant $(($inner))?) => $name, )* }
            }
        }
    };
    (@pattern $variant:ident) => { Reason::$variant };
    (@pattern $variant:ident ($inner:ty)) => { Reason::$variant(_) };
}

reasons! {
    Preface PROTOCOL_ERROR "preface" "the connection does not begin as HTTP/2 does"
    FrameTooLarge FRAME_SIZE_ERROR "frame_too_large" "a frame is larger than we allow"
    FrameLength FRAME_SIZE_ERROR "frame_length" "a frame has a length that its type does not have"
    FrameStream PROTOCOL_ERROR "frame_stream" "a frame is on a stream where its type is not allowed"
    Padding PROTOCOL_ERROR "padding" "the padding is longer than its frame"
    SettingsValue PROTOCOL_ERROR "settings_value" "a setting has a value that is not allowed"
    SettingsWindow FLOW_CONTROL_ERROR "settings_window" "a setting makes a flow-control window larger than 2^31-1"
    SettingsAck PROTOCOL_ERROR "settings_ack" "settings are acknowledged that were not sent"
    SettingsTimeout SETTINGS_TIMEOUT "settings_timeout" "our settings were not acknowledged in time"
    Push PROTOCOL_ERROR "push" "a push that is not allowed"
    BlockInterrupted PROTOCOL_ERROR "block_interrupted" "another frame is inside a header block"
    BlockAbsent PROTOCOL_ERROR "block_absent" "a CONTINUATION without a header block before it"
    StreamIdle PROTOCOL_ERROR "stream_idle" "a frame on a stream that was never opened"
    StreamNumber PROTOCOL_ERROR "stream_number" "a stream has a number that cannot be opened"
    StreamOver STREAM_CLOSED "stream_over" "a frame on a stream that its sender had ended"
    Compression(HpackError) COMPRESSION_ERROR "compression" "{0}"
    WindowOverflow FLOW_CONTROL_ERROR "window_overflow" "a flow-control window grows above 2^31-1"
    WindowExceeded FLOW_CONTROL_ERROR "window_exceeded" "more data than the flow-control window allows"
    WindowZero PROTOCOL_ERROR "window_zero" "a window update of 0"
    SelfDependency PROTOCOL_ERROR "self_dependency" "a stream depends on itself"
    PriorityUpdate PROTOCOL_ERROR "priority_update" "an update of a priority that is not allowed"
    HeaderBomb ENHANCE_YOUR_CALM "header_bomb" "a header block unpacks to many times what is allowed"
    BlockTooLarge ENHANCE_YOUR_CALM "block_too_large" "a header block is larger than any head may be"
    ContinuationFlood ENHANCE_YOUR_CALM "continuation_flood" "a header block comes in too many CONTINUATION frames"
    RapidReset ENHANCE_YOUR_CALM "rapid_reset" "the peer resets too many streams that are being worked on"
    ProvokedReset ENHANCE_YOUR_CALM "provoked_reset" "the peer makes us reset too many streams"
    PingFlood ENHANCE_YOUR_CALM "ping_flood" "too many PING frames"
    SettingsFlood ENHANCE_YOUR_CALM "settings_flood" "too many SETTINGS frames, or settings in a frame"
    PriorityFlood ENHANCE_YOUR_CALM "priority_flood" "too many frames about priorities"
    EmptyFlood ENHANCE_YOUR_CALM "empty_flood" "too many frames without content"
    WindowFlood ENHANCE_YOUR_CALM "window_flood" "too many window updates, or windows of a few bytes"
    StrayFlood ENHANCE_YOUR_CALM "stray_flood" "too many frames of unknown types or on streams that are over"
    StreamEnded STREAM_CLOSED "stream_ended" "a frame on a stream that the peer has ended, while we still send"
    Head(HeadFault) PROTOCOL_ERROR "head" "{0}"
    DataBeforeHead PROTOCOL_ERROR "data_before_head" "data comes before a head"
    BodyLength PROTOCOL_ERROR "body_length" "the body is longer or shorter than Content-Length says"
    TooManyStreams REFUSED_STREAM "too_many_streams" "more streams at once than we allow"
    Unprocessed REFUSED_STREAM "unprocessed" "the peer goes away and has not looked at this stream"
}

impl Reason {
    /// Whether a limit against abuse was reached, as opposed to a violation of the protocol.
    pub fn is_abuse(self) -> bool {
        self.code() == ErrorCode::ENHANCE_YOUR_CALM
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reason_has_a_code_a_name_and_a_sentence() {
        let reason = Reason::Compression(HpackError::Index);
        assert_eq!((reason.code(), reason.name()), (ErrorCode::COMPRESSION_ERROR, "compression"));
        assert_eq!(reason.to_string(), "an index of a header block has no entry in the tables");
        assert!(Reason::RapidReset.is_abuse());
        assert_eq!(Reason::Head(HeadFault::Te).to_string(), "TE with another value than trailers");
    }
}
