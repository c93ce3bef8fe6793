//! What has come of a response, by the peer's protocol: received bytes in, the head and the source of its body out. It knows no
//! socket.

use crate::multiplex::head::ReceivedHead;
use crate::plan::application::{ApplicationPlan, ApplicationProtocol};
use crate::upstream::answer::Answer;
use crate::upstream::fastcgi::FastcgiIncoming;
use crate::upstream::h2::StreamIncoming;
use crate::upstream::head::{ExpectedHead, HeadEvent, HeadFault};
use crate::upstream::memcached::ValueIncoming;
use crate::upstream::response_body::{ResponseBody, Source};
use crate::upstream::{cgi, h1};
use http1::ResponseFraming;

/// How much of a body has come with its head.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum BodySeen {
    /// All of it, and nothing else.
    Whole,
    Partly,
}

/// What has come of a response.
#[derive(Debug)]
pub(crate) enum Incoming {
    Http1,
    Http2(StreamIncoming),
    Fastcgi(FastcgiIncoming),
    /// SCGI and uwsgi.
    Cgi,
    Memcached(ValueIncoming),
}

impl Incoming {
    /// Before the response of a peer that a connection leads to; `application`: what is behind it, if no server of HTTP is.
    pub(super) fn over_connection(application: Option<&ApplicationPlan>) -> Self {
        match application.map(|application| &application.protocol) {
            None => Self::Http1,
            Some(ApplicationProtocol::Fastcgi(_)) => Self::Fastcgi(FastcgiIncoming::default()),
            Some(ApplicationProtocol::Scgi | ApplicationProtocol::Uwsgi { .. }) => Self::Cgi,
            Some(ApplicationProtocol::Memcached(_)) => Self::Memcached(ValueIncoming::default()),
        }
    }

    /// Takes received bytes before the final head is complete. If it gave [`HeadEvent::Partial`], the answer keeps the
    /// bytes that must be given again before the next ones.
    pub(crate) fn take_head<'a>(
        &mut self,
        bytes: &'a [u8],
        asked: &ExpectedHead<'_>,
        answer: &mut Answer,
    ) -> Result<HeadEvent<'a>, HeadFault> {
        let protocol = asked.application.map(|application| &application.protocol);
        match (self, protocol) {
            (Self::Http2(stream), _) => stream.take_head(bytes, asked, answer),
            (Self::Fastcgi(incoming), Some(ApplicationProtocol::Fastcgi(plan))) => {
                incoming.take_head(bytes, plan, asked, answer)
            }
            (Self::Memcached(incoming), Some(ApplicationProtocol::Memcached(plan))) => {
                incoming.take_head(bytes, plan, asked, answer)
            }
            (Self::Cgi, _) => cgi::take_head(bytes, asked, answer),
            (Self::Http1 | Self::Fastcgi(_) | Self::Memcached(_), _) => h1::take_head(bytes, asked, answer),
        }
    }

    /// Size of what was received: these bytes, and the head that came before them.
    pub(crate) fn received_bytes(&self, bytes: &[u8]) -> u64 {
        let head = match self {
            Self::Http2(stream) => stream.head.as_ref().map_or(0, ReceivedHead::text_bytes),
            _ => 0,
        };
        (head + bytes.len()) as u64
    }

    /// Bytes that wait for the rest of the head, besides those in the answer.
    pub(crate) fn waiting_bytes(&self) -> usize {
        match self {
            Self::Fastcgi(incoming) => incoming.waiting_bytes(),
            _ => 0,
        }
    }

    /// Takes what an application has written to standard error before the head was complete.
    pub(crate) fn take_stderr(&mut self) -> Vec<u8> {
        match self {
            Self::Fastcgi(incoming) => incoming.take_stderr(),
            _ => Vec::new(),
        }
    }

    /// The body behind a head with this framing; `begun` followed the head.
    pub(crate) fn body(&mut self, framing: ResponseFraming, begun: &[u8]) -> ResponseBody {
        let source = match self {
            Self::Http2(stream) => stream.source(framing, begun),
            Self::Fastcgi(incoming) => incoming.source(framing),
            Self::Memcached(incoming) => incoming.source(framing).unwrap_or_else(|| h1::source(framing)),
            Self::Http1 | Self::Cgi => h1::source(framing),
        };
        let mut body = ResponseBody::new(source);
        body.excess = self.has_excess();
        if let Self::Fastcgi(incoming) = self {
            body.received = incoming.begun_bytes();
        }
        body
    }

    /// The same for a body that the client does not want: it is not read.
    pub(crate) fn unwanted_body(&self) -> ResponseBody {
        let mut body = ResponseBody::new(Source::Done);
        body.excess = self.has_excess();
        body
    }

    /// Whether bytes followed the end of the response.
    fn has_excess(&self) -> bool {
        matches!(self, Self::Fastcgi(incoming) if incoming.has_excess())
    }

    /// How much of the body has come with the head; `begun` followed it.
    pub(crate) fn seen(&self, framing: ResponseFraming, begun: &[u8]) -> BodySeen {
        let is_whole = match self {
            Self::Http2(stream) => stream.is_whole(framing),
            Self::Fastcgi(incoming) => incoming.is_whole(),
            Self::Memcached(incoming) => {
                incoming.is_whole(framing, begun).unwrap_or_else(|| h1::is_whole(framing, begun))
            }
            Self::Http1 | Self::Cgi => h1::is_whole(framing, begun),
        };
        if is_whole { BodySeen::Whole } else { BodySeen::Partly }
    }

    /// Whether the response has no body at all.
    pub(crate) fn has_no_body(&self, framing: ResponseFraming, begun: &[u8]) -> bool {
        match self {
            Self::Http2(stream) => stream.has_no_body(framing, begun),
            _ => self.seen(framing, b"") == BodySeen::Whole,
        }
    }

    /// Whether trailers may follow the body.
    pub(crate) fn may_have_trailers(&self, framing: ResponseFraming) -> bool {
        match self {
            Self::Http2(stream) => stream.may_have_trailers(),
            _ => framing == ResponseFraming::Chunked,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn http_1_has_trailers_behind_chunks_alone() {
        assert!(Incoming::Http1.may_have_trailers(ResponseFraming::Chunked));
        assert!(!Incoming::Http1.may_have_trailers(ResponseFraming::Length(3)));
        let stream = Incoming::Http2(StreamIncoming::default());
        assert!(stream.may_have_trailers(ResponseFraming::Length(3)));
    }

    #[test]
    fn a_body_begins_where_its_head_ends() {
        let mut body = Incoming::Http1.body(ResponseFraming::Length(3), b"ab");
        assert_eq!(body.take(b"ab"), Ok((&b"ab"[..], false)));
        assert_eq!(Incoming::Http1.seen(ResponseFraming::Length(3), b"abc"), BodySeen::Whole);
        assert_eq!(Incoming::Http1.seen(ResponseFraming::Length(3), b"ab"), BodySeen::Partly);
        assert!(Incoming::Cgi.has_no_body(ResponseFraming::Length(0), b"x"));
        assert!(Incoming::Cgi.unwanted_body().is_done());
    }
}
