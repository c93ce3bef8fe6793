//! Receiving the head of a response, as every protocol does it: what is asked for, and what the received bytes give.

use crate::plan::application::ApplicationPlan;
use http1::{Limits, RequestKind, ResponseError};
use upstream::DiscardReason;
use upstream::retry::Failure;

/// What the received bytes have given. The head is in the answer.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum HeadEvent<'a> {
    /// It is not complete.
    Partial,
    /// An interim head; another one follows, in these bytes or later.
    Interim(&'a [u8]),
    /// 101, and the bytes that follow it.
    Switching(&'a [u8]),
    /// The final head, and the beginning of its body.
    Final(&'a [u8]),
}

/// Why there is no head.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct HeadFault {
    pub(crate) failure: Failure,
    /// For the log; empty: nothing to log.
    pub(crate) reason: String,
    /// Why the connection is discarded.
    pub(crate) discard: DiscardReason,
}

impl HeadFault {
    /// The peer has broken a rule of its protocol.
    pub(crate) fn invalid(reason: impl Into<String>) -> Self {
        Self { failure: Failure::InvalidHeader, reason: reason.into(), discard: DiscardReason::ProtocolError }
    }

    /// The head exceeds its limit.
    pub(crate) fn too_big() -> Self {
        Self::invalid("upstream sent too big header")
    }

    /// Another peer is tried because of this status.
    pub(crate) fn of_status(status: u16) -> Self {
        let (failure, discard) = (Failure::Status(status), DiscardReason::ResponseBodyUnread);
        Self { failure, reason: String::new(), discard }
    }

    /// Memory is short.
    pub(crate) fn no_room() -> Self {
        let reason = "memory_budget has no room for the rest of a large response head".into();
        Self { failure: Failure::NoSocket, reason, discard: DiscardReason::ResponseBodyUnread }
    }
}

impl From<ResponseError> for HeadFault {
    fn from(error: ResponseError) -> Self {
        Self::invalid(format!("{}: {error}", error.phrase()))
    }
}

/// The request, as far as the head of its response depends on it.
pub(crate) struct ExpectedHead<'a> {
    pub(crate) limits: &'a Limits,
    pub(crate) request: RequestKind,
    /// The application behind the peer, if it is not a server of HTTP.
    pub(crate) application: Option<&'a ApplicationPlan>,
    /// The request's head as it was sent.
    pub(crate) sent: &'a [u8],
    pub(crate) uri: &'a [u8],
    /// Whether memory is too short to let a large head grow.
    pub(crate) refuses_growth: &'a dyn Fn() -> bool,
}

#[cfg(test)]
impl ExpectedHead<'_> {
    /// A request by GET, for tests.
    pub(crate) fn by_get(limits: &Limits) -> ExpectedHead<'_> {
        ExpectedHead {
            limits,
            request: RequestKind::Other,
            application: None,
            sent: b"",
            uri: b"/",
            refuses_growth: &|| false,
        }
    }
}
