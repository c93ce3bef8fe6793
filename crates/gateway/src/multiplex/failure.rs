//! Why a stream to an upstream ended early: for the retry policy, for the log, and for the fate of the connection.

use crate::base::logs::error::errno;
use http2::{ErrorCode, Reason};
use std::io;
use std::rc::Rc;
use transport::tls_error;
use upstream::DiscardReason;
use upstream::retry::Failure;

/// Why a stream failed.
#[derive(Debug, Clone)]
pub(crate) enum StreamFailure {
    /// The peer sent GOAWAY and has not looked at the request.
    GoneAway,
    /// The peer refused the stream and has not looked at the request.
    Refused,
    /// The peer reset it, for another reason.
    Reset(ErrorCode),
    /// The peer broke a rule on this stream.
    Fault(Reason),
    /// Its head exceeds the limit.
    HeadTooLarge,
    /// The request has a part that HTTP/2 cannot carry.
    Unsendable,
    /// Its connection was lost.
    Lost(ConnectionEnd),
}

/// How a connection was lost.
#[derive(Debug, Clone)]
pub(crate) enum ConnectionEnd {
    /// The peer closed it.
    Closed,
    /// Reading or writing failed: nginx's message.
    Failed(Rc<str>),
    /// The peer broke a rule, or reached a limit.
    Fault(Reason),
    /// The peer allows no streams.
    NoStreams,
    /// The peer answers in HTTP/1.
    SpeaksHttp1,
    /// The peer did not answer a PING.
    Silent,
    /// The socket accepts no bytes.
    Stalled,
}

impl ConnectionEnd {
    pub(crate) fn of_error(error: &io::Error, call: &str) -> Self {
        let words = tls_error(error).map_or_else(|| format!("{call} failed ({})", errno(error)), tls::TlsError::phrase);
        Self::Failed(words.into())
    }

    /// The reason for which the connection is discarded.
    pub(crate) fn discard_reason(&self) -> DiscardReason {
        match self {
            Self::Closed => DiscardReason::PeerClosedIdle,
            Self::Fault(_) | Self::NoStreams | Self::SpeaksHttp1 => DiscardReason::ProtocolError,
            Self::Silent => DiscardReason::PingTimeout,
            Self::Failed(_) | Self::Stalled => DiscardReason::Error,
        }
    }
}

impl StreamFailure {
    /// The failure for the retry policy. `begun`: a part of the response's head has come.
    pub(crate) fn failure(&self, begun: bool) -> Failure {
        match self {
            Self::GoneAway => Failure::GoneAway,
            Self::Refused => Failure::StreamRefused,
            // As in nginx.
            Self::Reset(_)
            | Self::Fault(_)
            | Self::HeadTooLarge
            | Self::Unsendable
            | Self::Lost(ConnectionEnd::Fault(_) | ConnectionEnd::NoStreams | ConnectionEnd::SpeaksHttp1) => {
                Failure::InvalidHeader
            }
            Self::Lost(ConnectionEnd::Silent | ConnectionEnd::Stalled) => Failure::Timeout,
            Self::Lost(ConnectionEnd::Closed | ConnectionEnd::Failed(_)) if begun => Failure::ClosedInsideHead,
            Self::Lost(ConnectionEnd::Closed | ConnectionEnd::Failed(_)) => Failure::ClosedBeforeHead,
        }
    }

    /// The text for the error log, in nginx's words if it has any.
    pub(crate) fn phrase(&self) -> String {
        match self {
            Self::GoneAway => "upstream sent GOAWAY and has not looked at the request".to_owned(),
            Self::Refused => "upstream refused the stream (REFUSED_STREAM)".to_owned(),
            Self::Reset(code) => format!("upstream rejected request with error {} ({code})", code.0),
            Self::Fault(reason) => format!("upstream sent invalid response: {reason}"),
            Self::HeadTooLarge => "upstream sent too big header".to_owned(),
            Self::Unsendable => "the request has a method, host or target that HTTP/2 cannot carry".to_owned(),
            Self::Lost(ConnectionEnd::Closed) => "upstream prematurely closed connection".to_owned(),
            Self::Lost(ConnectionEnd::Failed(words)) => words.to_string(),
            Self::Lost(ConnectionEnd::Fault(reason)) => format!("upstream broke off HTTP/2: {reason}"),
            Self::Lost(ConnectionEnd::NoStreams) => "upstream allows no streams".to_owned(),
            Self::Lost(ConnectionEnd::SpeaksHttp1) => {
                "upstream answers in HTTP/1, take \"proxy_http_version 2\" out or turn HTTP/2 on there".to_owned()
            }
            Self::Lost(ConnectionEnd::Silent) => "upstream did not answer a PING in time".to_owned(),
            Self::Lost(ConnectionEnd::Stalled) => {
                "upstream timed out (110: Connection timed out), its connection takes no data".to_owned()
            }
        }
    }

    /// The discard reason in the attempt's record.
    pub(crate) fn discard_reason(&self) -> DiscardReason {
        match self {
            Self::GoneAway | Self::Refused => DiscardReason::GoneAway,
            Self::Reset(_) => DiscardReason::Error,
            Self::Fault(_) | Self::HeadTooLarge | Self::Unsendable => DiscardReason::ProtocolError,
            Self::Lost(end) => end.discard_reason(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn policy_knows_if_the_peer_saw_the_request() {
        let closed = || StreamFailure::Lost(ConnectionEnd::Closed);
        let cases = [
            (StreamFailure::GoneAway, false, Failure::GoneAway),
            (StreamFailure::Refused, false, Failure::StreamRefused),
            (StreamFailure::Reset(ErrorCode::INTERNAL_ERROR), false, Failure::InvalidHeader),
            (StreamFailure::Fault(Reason::DataBeforeHead), false, Failure::InvalidHeader),
            (StreamFailure::Lost(ConnectionEnd::Fault(Reason::Push)), false, Failure::InvalidHeader),
            (StreamFailure::Lost(ConnectionEnd::Silent), false, Failure::Timeout),
            (closed(), false, Failure::ClosedBeforeHead),
            (closed(), true, Failure::ClosedInsideHead),
        ];
        for (failure, begun, expected) in cases {
            assert_eq!(failure.failure(begun), expected, "{}", failure.phrase());
        }
    }

    #[test]
    fn lines_have_the_words_of_nginx() {
        let reset = StreamFailure::Reset(ErrorCode::INTERNAL_ERROR);
        assert_eq!(reset.phrase(), "upstream rejected request with error 2 (INTERNAL_ERROR)");
        assert_eq!(StreamFailure::Lost(ConnectionEnd::Closed).phrase(), "upstream prematurely closed connection");
        let broken = ConnectionEnd::of_error(&io::Error::from_raw_os_error(104), "recv()");
        assert_eq!(StreamFailure::Lost(broken).phrase(), "recv() failed (104: Connection reset by peer)");
    }
}
