//! FastCGI of a peer: splits records; the output in them is the head of a CGI response, then its body.

use crate::plan::application::FastcgiPlan;
use crate::upstream::answer::Answer;
use crate::upstream::cgi::{check_growth, fault_of};
use crate::upstream::head::{ExpectedHead, HeadEvent, HeadFault};
use crate::upstream::response_body::{CodingError, Source};
use cgi::fastcgi::{Decoder, Piece, RecordError};
use cgi::{head_end, read_head};
use http1::ResponseFraming;

/// What has come of a response over FastCGI.
#[derive(Debug, Default)]
pub(crate) struct FastcgiIncoming {
    /// The records, until they become the source of the body.
    records: Option<Box<Records>>,
    /// Standard error output, until it is taken.
    stderr: Vec<u8>,
    /// Bytes followed the end of the request. As in nginx, they belong to no request; their connection must not serve
    /// another one.
    has_excess: bool,
    /// Bytes behind the head that came with it, with their records.
    begun_bytes: u64,
}

impl FastcgiIncoming {
    /// Takes received bytes.
    pub(super) fn take_head(
        &mut self,
        bytes: &[u8],
        plan: &FastcgiPlan,
        asked: &ExpectedHead<'_>,
        answer: &mut Answer,
    ) -> Result<HeadEvent<'static>, HeadFault> {
        let records = self.records.get_or_insert_default();
        let used = records.receive(bytes).map_err(|error| HeadFault::invalid(error.to_string()))?;
        self.stderr = records.decoder.take_stderr();
        let is_fatal = |text: &[u8]| memchr::memmem::find(&self.stderr, text).is_some();
        if plan.fatal_texts.iter().any(|text| is_fatal(text)) {
            return Err(HeadFault::invalid(""));
        }
        self.has_excess |= used < bytes.len();
        let read = read_head(&records.output, asked.limits, asked.request, &mut answer.head);
        let read = read.map_err(|error| fault_of(&error))?;
        if let Some(length) = read {
            answer.keep(&records.output[..length]);
            let (raw, output) = records.head_seen.unwrap_or((used, records.output.len()));
            self.begun_bytes = (used.saturating_sub(raw) + output.saturating_sub(length)) as u64;
            records.output.drain(..length);
            answer.head.keepalive = plan.keeps_connections && !self.has_excess;
            return Ok(HeadEvent::Final(b""));
        }
        if records.decoder.has_closed_stdout() {
            return Err(HeadFault::invalid("upstream prematurely closed FastCGI stdout"));
        }
        if records.decoder.has_ended() {
            return Err(HeadFault::invalid("upstream sent unexpected FastCGI record: 3, the end without a head"));
        }
        check_growth(records.output.len(), asked)?;
        Ok(HeadEvent::Partial)
    }

    /// Takes the standard error output since the last call.
    pub(super) fn take_stderr(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.stderr)
    }

    /// Bytes of output that wait for the rest of their head.
    pub(super) fn waiting_bytes(&self) -> usize {
        self.records.as_ref().map_or(0, |records| records.output.len())
    }

    pub(super) fn has_excess(&self) -> bool {
        self.has_excess
    }

    pub(super) fn begun_bytes(&self) -> u64 {
        self.begun_bytes
    }

    /// Whether the request has ended, and there is no body.
    pub(super) fn is_whole(&self) -> bool {
        self.records.as_ref().is_some_and(|records| records.is_whole())
    }

    /// The source of the body.
    pub(super) fn source(&mut self, framing: ResponseFraming) -> Source {
        let mut records = self.records.take().unwrap_or_default();
        records.begin_body(match framing {
            ResponseFraming::None => Some(0),
            ResponseFraming::Length(length) => Some(length),
            ResponseFraming::Chunked | ResponseFraming::UntilClose => None,
        });
        if records.is_whole() { Source::Done } else { Source::Records(records) }
    }
}

/// The received part of a response.
#[derive(Debug, Default)]
pub(crate) struct Records {
    decoder: Decoder,
    /// Unused output: a part of the head, or the beginning of the body.
    output: Vec<u8>,
    /// Remaining length of the body, if the head states it.
    left: Option<u64>,
    /// The head is complete.
    in_body: bool,
    /// How many bytes of a read, and of the output, there were when the output had the whole head.
    head_seen: Option<(usize, usize)>,
}

impl Records {
    /// Takes received bytes before the head is complete; returns how many of them belong to the request.
    fn receive(&mut self, bytes: &[u8]) -> Result<usize, RecordError> {
        let mut rest = bytes;
        loop {
            match self.decoder.next(&mut rest)? {
                // As in nginx, a closed output has no head behind its end.
                Piece::Stdout(_) if self.decoder.has_closed_stdout() && !self.has_head() => {}
                Piece::Stdout(output) => {
                    self.output.extend_from_slice(output);
                    if self.head_seen.is_none() && self.has_head() {
                        self.head_seen = Some((bytes.len() - rest.len(), self.output.len()));
                    }
                }
                Piece::NeedMore | Piece::End => return Ok(bytes.len() - rest.len()),
            }
        }
    }

    /// Whether the output so far has the whole head.
    fn has_head(&self) -> bool {
        self.in_body || head_end(&self.output).is_some()
    }

    /// From now on output is body, of this length if the head states it.
    fn begin_body(&mut self, length: Option<u64>) {
        self.left = length;
        self.in_body = true;
    }

    /// Takes received bytes, and appends the body in them. Returns the number of bytes that belong to the request.
    pub(super) fn take_body(&mut self, bytes: &[u8], body: &mut Vec<u8>) -> Result<usize, CodingError> {
        let used = self.receive(bytes).map_err(CodingError::Records)?;
        body.append(&mut self.output);
        if let Some(left) = &mut self.left {
            // As in nginx, output beyond the stated length is dropped.
            body.truncate(usize::try_from(*left).unwrap_or(usize::MAX));
            *left -= body.len() as u64;
            if self.decoder.has_ended() && *left > 0 {
                return Err(CodingError::EndedEarly);
            }
        }
        Ok(used)
    }

    /// The application has ended the request.
    pub(super) fn has_ended(&self) -> bool {
        self.decoder.has_ended()
    }

    /// Whether the request has ended, and there is no body.
    fn is_whole(&self) -> bool {
        self.has_ended() && self.output.is_empty()
    }

    /// Takes the standard error output since the last call.
    pub(super) fn take_stderr(&mut self) -> Vec<u8> {
        self.decoder.take_stderr()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use http1::{FieldId, Limits};

    const STDOUT: u8 = 6;
    const STDERR: u8 = 7;
    const END_REQUEST: u8 = 3;

    fn record(kind: u8, content: &[u8]) -> Vec<u8> {
        let mut bytes = vec![1, kind, 0, 1, 0, content.len() as u8, 0, 0];
        bytes.extend_from_slice(content);
        bytes
    }

    fn plan(fatal: &[u8]) -> FastcgiPlan {
        let fatal_texts = if fatal.is_empty() { Vec::new() } else { vec![fatal.into()] };
        FastcgiPlan { keeps_connections: true, fatal_texts }
    }

    #[test]
    fn a_head_in_records_fills_the_typed_one() {
        let limits = Limits::response(4096);
        let (mut incoming, mut answer) = (FastcgiIncoming::default(), Answer::default());
        let asked = ExpectedHead::by_get(&limits);
        let head = record(STDOUT, b"ETag: x\r\n\r\nbo");
        for byte in &head[..head.len() - 4] {
            let event = incoming.take_head(&[*byte], &plan(b""), &asked, &mut answer);
            assert_eq!(event, Ok(HeadEvent::Partial));
        }
        assert_eq!(incoming.waiting_bytes(), b"ETag: x\r\n".len());
        let event = incoming.take_head(&head[head.len() - 4..], &plan(b""), &asked, &mut answer);
        assert_eq!(event, Ok(HeadEvent::Final(b"")));
        assert_eq!((answer.head.status, answer.value(FieldId::ETag)), (200, Some(&b"x"[..])));
        assert!(answer.head.keepalive && !incoming.is_whole());
        assert_eq!(incoming.begun_bytes(), 2);
        let Source::Records(mut records) = incoming.source(answer.head.framing) else { panic!("no records") };
        let mut body = Vec::new();
        let rest = [record(STDOUT, b"dy"), record(END_REQUEST, &[0; 8])].concat();
        assert_eq!(records.take_body(&rest, &mut body), Ok(rest.len()));
        assert_eq!((&body[..], records.has_ended()), (&b"body"[..], true));
    }

    #[test]
    fn standard_error_is_taken_once_and_may_be_fatal() {
        let limits = Limits::response(4096);
        let asked = ExpectedHead::by_get(&limits);
        let mut incoming = FastcgiIncoming::default();
        let event = incoming.take_head(&record(STDERR, b"careful"), &plan(b""), &asked, &mut Answer::default());
        assert_eq!(event, Ok(HeadEvent::Partial));
        assert_eq!((incoming.take_stderr(), incoming.take_stderr()), (b"careful".to_vec(), Vec::new()));
        let event = incoming.take_head(&record(STDERR, b"so fatal"), &plan(b"fatal"), &asked, &mut Answer::default());
        assert_eq!(event, Err(HeadFault::invalid("")));
    }

    #[test]
    fn an_end_without_a_head_is_a_fault() {
        let limits = Limits::response(4096);
        let fault = |bytes: &[u8]| {
            let mut incoming = FastcgiIncoming::default();
            incoming.take_head(bytes, &plan(b""), &ExpectedHead::by_get(&limits), &mut Answer::default()).map(drop)
        };
        let closed = HeadFault::invalid("upstream prematurely closed FastCGI stdout");
        assert_eq!(fault(&record(STDOUT, b"")), Err(closed));
        let ended = HeadFault::invalid("upstream sent unexpected FastCGI record: 3, the end without a head");
        assert_eq!(fault(&record(END_REQUEST, &[0; 8])), Err(ended));
    }

    #[test]
    fn bytes_behind_the_end_keep_the_connection_from_reuse() {
        let limits = Limits::response(4096);
        let (mut incoming, mut answer) = (FastcgiIncoming::default(), Answer::default());
        let bytes = [record(STDOUT, b"A: 1\n\n"), record(END_REQUEST, &[0; 8]), b"x".to_vec()].concat();
        let event = incoming.take_head(&bytes, &plan(b""), &ExpectedHead::by_get(&limits), &mut answer);
        assert_eq!(event, Ok(HeadEvent::Final(b"")));
        assert!(incoming.has_excess() && incoming.is_whole() && !answer.head.keepalive);
        assert_eq!(incoming.begun_bytes(), 16, "the record of the end");
    }
}
