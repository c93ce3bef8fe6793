//! SCGI and uwsgi of a peer: the head of a CGI response, or of HTTP/1 if the application sends that. A connection serves one request.

use crate::base::memory::HEAD_BYTES_USUAL;
use crate::upstream::answer::Answer;
use crate::upstream::h1;
use crate::upstream::head::{ExpectedHead, HeadEvent, HeadFault};
use cgi::{HeadError, read_head};

/// Takes everything received of a head so far.
pub(super) fn take_head<'a>(
    bytes: &'a [u8],
    asked: &ExpectedHead<'_>,
    answer: &mut Answer,
) -> Result<HeadEvent<'a>, HeadFault> {
    if bytes.starts_with(b"HTTP/") {
        let event = h1::take_head(bytes, asked, answer);
        answer.head.keepalive = false;
        return event;
    }
    let read = read_head(bytes, asked.limits, asked.request, &mut answer.head).map_err(|error| fault_of(&error))?;
    let Some(length) = read else {
        check_growth(bytes.len(), asked)?;
        answer.keep(bytes);
        return Ok(HeadEvent::Partial);
    };
    answer.keep(&bytes[..length]);
    answer.head.keepalive = false;
    Ok(HeadEvent::Final(&bytes[length..]))
}

/// Whether an incomplete head of this length may grow.
pub(super) fn check_growth(length: usize, asked: &ExpectedHead<'_>) -> Result<(), HeadFault> {
    if length >= asked.limits.head_bytes_max {
        return Err(HeadFault::too_big());
    }
    if length > HEAD_BYTES_USUAL && (asked.refuses_growth)() {
        return Err(HeadFault::no_room());
    }
    Ok(())
}

/// The fault of an invalid head.
pub(super) fn fault_of(error: &HeadError) -> HeadFault {
    HeadFault::invalid(error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use http1::{FieldId, Limits};

    #[test]
    fn a_head_of_cgi_fills_the_typed_one() {
        let limits = Limits::response(4096);
        let asked = ExpectedHead::by_get(&limits);
        let mut answer = Answer::default();
        let bytes = b"Status: 404 Not here\nX-A: 1\n\nbody";
        assert_eq!(take_head(&bytes[..20], &asked, &mut answer), Ok(HeadEvent::Partial));
        assert_eq!(take_head(bytes, &asked, &mut answer), Ok(HeadEvent::Final(b"body")));
        assert_eq!((answer.head.status, answer.head.reason.of(&answer.bytes)), (404, &b"Not here"[..]));
        assert_eq!(answer.head.fields.last().map(|field| field.value.of(&answer.bytes)), Some(&b"1"[..]));
    }

    #[test]
    fn a_head_of_http_is_read_as_one() {
        let limits = Limits::response(4096);
        let mut answer = Answer::default();
        let bytes = b"HTTP/1.1 201 Created\r\nContent-Type: a/b\r\nContent-Length: 0\r\n\r\n";
        assert_eq!(take_head(bytes, &ExpectedHead::by_get(&limits), &mut answer), Ok(HeadEvent::Final(b"")));
        assert_eq!((answer.head.status, answer.value(FieldId::ContentType)), (201, Some(&b"a/b"[..])));
        assert!(!answer.head.keepalive);
    }

    #[test]
    fn refuses_a_head_that_is_too_long_or_invalid() {
        let limits = Limits::response(16);
        let refused = |bytes: &[u8]| take_head(bytes, &ExpectedHead::by_get(&limits), &mut Answer::default()).map(drop);
        assert_eq!(refused(b"X-A: 0123456789abcdef"), Err(HeadFault::too_big()));
        assert_eq!(refused(b"Status: x\n\n"), Err(HeadFault::invalid("upstream sent invalid status \"x\"")));
        assert!(refused(b"no field\n\n").is_err_and(|fault| fault.reason.starts_with("upstream sent invalid header")));
    }
}
