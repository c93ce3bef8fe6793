//! HTTP/2 of a peer: its engine has delimited the head, and the end of the stream ends the body.

use crate::connector::h2::stream::LeasedStream;
use crate::multiplex::head::ReceivedHead;
use crate::upstream::answer::Answer;
use crate::upstream::head::{ExpectedHead, HeadEvent, HeadFault};
use crate::upstream::response_body::Source;
use http1::{ResponseFraming, ResponseKind};

/// What has come of a response over HTTP/2.
#[derive(Debug, Default)]
pub(crate) struct StreamIncoming {
    /// The head that was read last, until it is taken.
    pub(super) head: Option<ReceivedHead>,
    /// The bytes read last were the end of the response.
    pub(super) has_ended: bool,
    /// It has ended with trailers.
    pub(super) has_trailers: bool,
}

impl StreamIncoming {
    /// Notes what a read of the stream has found besides the body.
    pub(super) fn note(&mut self, head: Option<ReceivedHead>, stream: &LeasedStream) {
        self.head = head;
        (self.has_ended, self.has_trailers) = (stream.has_ended(), stream.has_trailers());
    }

    /// Takes the head that came before these bytes.
    pub(super) fn take_head<'a>(
        &mut self,
        bytes: &'a [u8],
        asked: &ExpectedHead<'_>,
        answer: &mut Answer,
    ) -> Result<HeadEvent<'a>, HeadFault> {
        let Some(head) = self.head.take() else { return Ok(HeadEvent::Partial) };
        head.fill(asked.limits, asked.request, &mut answer.bytes, &mut answer.head)?;
        Ok(match answer.head.kind {
            ResponseKind::Interim => HeadEvent::Interim(bytes),
            // HTTP/2 has no 101; its engine refuses one.
            ResponseKind::SwitchingProtocols | ResponseKind::Final => HeadEvent::Final(bytes),
        })
    }

    /// The source of the body, of which `begun` has come.
    pub(super) fn source(&self, framing: ResponseFraming, begun: &[u8]) -> Source {
        match framing {
            ResponseFraming::None => Source::Done,
            _ if !self.has_ended => Source::Stream,
            _ if begun.is_empty() => Source::Done,
            _ => Source::Length(begun.len() as u64),
        }
    }

    /// Whether the whole body has come.
    pub(super) fn is_whole(&self, framing: ResponseFraming) -> bool {
        self.has_ended || framing == ResponseFraming::None
    }

    /// Whether the response has no body.
    pub(super) fn has_no_body(&self, framing: ResponseFraming, begun: &[u8]) -> bool {
        framing == ResponseFraming::None || (self.has_ended && begun.is_empty())
    }

    /// Whether trailers may follow. A head with `END_STREAM` has none after it: in gRPC it is itself the trailers.
    pub(super) fn may_have_trailers(&self) -> bool {
        !self.has_ended || self.has_trailers
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use http1::{Field, FieldId, Limits};
    use http2::Head;

    fn incoming(status: u16, field: (&[u8], &[u8])) -> StreamIncoming {
        let mut head = Head::default();
        head.status = status;
        let written = Field::write(FieldId::of_name(field.0), field.0, field.1, &mut head.bytes);
        head.fields.push(written);
        StreamIncoming { head: Some(ReceivedHead::of(&head)), ..StreamIncoming::default() }
    }

    #[test]
    fn a_head_is_taken_once() {
        let limits = Limits::response(4096);
        let mut answer = Answer::default();
        let mut stream = incoming(200, (b"etag", b"x"));
        let asked = ExpectedHead::by_get(&limits);
        assert_eq!(stream.take_head(b"body", &asked, &mut answer), Ok(HeadEvent::Final(b"body")));
        assert_eq!(answer.value(FieldId::ETag), Some(&b"x"[..]));
        assert_eq!(stream.take_head(b"", &asked, &mut answer), Ok(HeadEvent::Partial));
        let event = incoming(103, (b"link", b"</x>")).take_head(b"", &asked, &mut answer);
        assert_eq!(event, Ok(HeadEvent::Interim(b"")));
    }

    #[test]
    fn a_head_obeys_the_limit_of_http_1() {
        let limits = Limits::response(20);
        let event =
            incoming(200, (b"etag", b"xxxx")).take_head(b"", &ExpectedHead::by_get(&limits), &mut Answer::default());
        assert_eq!(event.map_err(|fault| fault.reason.starts_with("upstream sent too big header")), Err(true));
    }

    #[test]
    fn the_end_of_the_stream_ends_the_body() {
        let mut stream = StreamIncoming::default();
        let framing = ResponseFraming::UntilClose;
        assert!(matches!(stream.source(framing, b""), Source::Stream));
        assert!(stream.may_have_trailers() && !stream.is_whole(framing));
        stream.has_ended = true;
        assert!(matches!(stream.source(framing, b"abc"), Source::Length(3)));
        assert!(matches!(stream.source(framing, b""), Source::Done));
        assert!(stream.has_no_body(framing, b"") && !stream.has_no_body(framing, b"abc"));
        assert!(!stream.may_have_trailers());
        stream.has_trailers = true;
        assert!(stream.may_have_trailers());
    }
}
