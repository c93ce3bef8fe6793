//! HTTP/1 of a peer: the head of its response, and where the body ends.

use crate::base::memory::HEAD_BYTES_USUAL;
use crate::upstream::answer::Answer;
use crate::upstream::head::{ExpectedHead, HeadEvent, HeadFault};
use crate::upstream::response_body::Source;
use http1::chunked::Decoder;
use http1::{Parse, ResponseFraming, ResponseKind};

/// Takes everything received of a head so far.
pub(super) fn take_head<'a>(
    bytes: &'a [u8],
    asked: &ExpectedHead<'_>,
    answer: &mut Answer,
) -> Result<HeadEvent<'a>, HeadFault> {
    let length = match http1::response::parse(bytes, asked.limits, asked.request, &mut answer.head)? {
        Parse::Complete { len } => len,
        Parse::Partial if bytes.len() > HEAD_BYTES_USUAL && (asked.refuses_growth)() => {
            return Err(HeadFault::no_room());
        }
        Parse::Partial => {
            answer.keep(bytes);
            return Ok(HeadEvent::Partial);
        }
    };
    let (head, rest) = bytes.split_at(length);
    answer.keep(head);
    Ok(match answer.head.kind {
        ResponseKind::Interim => HeadEvent::Interim(rest),
        ResponseKind::SwitchingProtocols => HeadEvent::Switching(rest),
        ResponseKind::Final => HeadEvent::Final(rest),
    })
}

/// The source of the body.
pub(super) fn source(framing: ResponseFraming) -> Source {
    match framing {
        ResponseFraming::None | ResponseFraming::Length(0) => Source::Done,
        ResponseFraming::Length(length) => Source::Length(length),
        ResponseFraming::Chunked => Source::Chunked(Box::new(Decoder::of_response())),
        ResponseFraming::UntilClose => Source::UntilClose,
    }
}

/// Whether these bytes are exactly one whole body.
pub(super) fn is_whole(framing: ResponseFraming, bytes: &[u8]) -> bool {
    match framing {
        ResponseFraming::None => bytes.is_empty(),
        ResponseFraming::Length(length) => bytes.len() as u64 == length,
        ResponseFraming::UntilClose => false,
        ResponseFraming::Chunked => {
            let (mut decoder, mut used) = (Decoder::of_response(), 0);
            while let Some(rest) = bytes.get(used..).filter(|rest| !rest.is_empty()) {
                match decoder.decode(rest) {
                    Ok(step) if step.done => return used + step.consumed == bytes.len(),
                    Ok(step) => used += step.consumed,
                    Err(_) => return false,
                }
            }
            false
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use http1::Limits;

    #[test]
    fn a_head_is_found_among_the_bytes_of_its_body() {
        let limits = Limits::response(4096);
        let mut answer = Answer::default();
        let bytes = b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabc";
        for cut in 0..bytes.len() - 3 {
            let event = take_head(&bytes[..cut], &ExpectedHead::by_get(&limits), &mut answer);
            assert_eq!(event, Ok(HeadEvent::Partial), "{cut}");
            assert_eq!(answer.bytes, &bytes[..cut]);
        }
        let event = take_head(bytes, &ExpectedHead::by_get(&limits), &mut answer);
        assert_eq!(event, Ok(HeadEvent::Final(b"abc")));
        assert_eq!((answer.head.status, answer.bytes.len()), (200, bytes.len() - 3));
    }

    #[test]
    fn an_interim_head_precedes_another_one() {
        let limits = Limits::response(4096);
        let mut answer = Answer::default();
        let bytes = b"HTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\nHTTP/1.1 101 Switching Protocols\r\n\r\n\x81";
        let Ok(HeadEvent::Interim(rest)) = take_head(bytes, &ExpectedHead::by_get(&limits), &mut answer) else {
            panic!("no interim head");
        };
        assert_eq!(answer.head.status, 103);
        assert_eq!(take_head(rest, &ExpectedHead::by_get(&limits), &mut answer), Ok(HeadEvent::Switching(b"\x81")));
    }

    #[test]
    fn a_large_head_stays_within_the_memory() {
        let limits = Limits::response(64 * 1024);
        let asked = ExpectedHead { refuses_growth: &|| true, ..ExpectedHead::by_get(&limits) };
        let bytes = [b"HTTP/1.1 200 OK\r\nx: ".to_vec(), vec![b'a'; HEAD_BYTES_USUAL]].concat();
        assert_eq!(take_head(&bytes, &asked, &mut Answer::default()), Err(HeadFault::no_room()));
        assert_eq!(take_head(b"HTTP/1.1", &asked, &mut Answer::default()), Ok(HeadEvent::Partial));
    }

    #[test]
    fn a_body_is_whole_at_its_end() {
        assert!(is_whole(ResponseFraming::Length(3), b"abc") && !is_whole(ResponseFraming::Length(3), b"ab"));
        assert!(is_whole(ResponseFraming::Chunked, b"1\r\na\r\n0\r\n\r\n"));
        assert!(!is_whole(ResponseFraming::Chunked, b"1\r\na\r\n0\r\n\r\nx"), "bytes behind the end");
        assert!(!is_whole(ResponseFraming::UntilClose, b"abc"));
        assert!(is_whole(ResponseFraming::None, b"") && !is_whole(ResponseFraming::None, b"x"));
    }
}
