//! The head of a CGI response (RFC 3875, section 6), read into the typed head of a response: `http1` reads its field lines, so one set
//! of limits holds for both.

use http1::response::{Status, parse_fields};
use http1::{FieldId, Limits, RequestKind, ResponseError, ResponseHead, Span};

/// A head that cannot be one.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum HeadError {
    /// The status, shortened; nginx's words.
    #[error("upstream sent invalid status \"{0}\"")]
    Status(Box<str>),
    /// A field, or a limit that the head exceeds; nginx's words.
    #[error("{phrase}: {0}", phrase = .0.phrase())]
    Fields(#[from] ResponseError),
}

/// Bytes of an invalid status that the error shows.
const SHOWN_BYTES_MAX: usize = 64;

/// Looks for a whole head at the beginning of an application's output, and fills `head` from it, which points into these bytes. Gives
/// the number of bytes that the head takes; `None`: it is not complete. Lines may end in LF alone. `Status` gives the status; without it
/// the status is 200, or 302 where there is a `Location`. `Transfer-Encoding` is left out: the protocol has said where the body ends.
pub fn read_head(
    output: &[u8],
    limits: &Limits,
    request: RequestKind,
    head: &mut ResponseHead,
) -> Result<Option<usize>, HeadError> {
    let Some(length) = head_end(output) else { return Ok(None) };
    let output = &output[..length];
    let stated = value(output, b"Status");
    let status = match stated {
        Some(stated) => read_status(output, stated)?,
        None if value(output, b"Location").is_some() => Status { code: 302, reason: Span::default() },
        None => Status { code: 200, reason: Span::default() },
    };
    // As in nginx a 204 without a reason has no type.
    let is_typeless = stated.is_some_and(|stated| stated.of(output) == b"204");
    let keeps = |id| id != FieldId::TransferEncoding && !(is_typeless && id == FieldId::ContentType);
    parse_fields(output, status, limits, request, keeps, head)?;
    Ok(Some(length))
}

/// The status in the value of a `Status` field.
fn read_status(output: &[u8], value: Span) -> Result<Status, HeadError> {
    let status = value.of(output);
    let digits = status.get(..3).filter(|digits| digits.iter().all(u8::is_ascii_digit));
    let code = digits.map_or(0, |digits| digits.iter().fold(0, |all, digit| all * 10 + u16::from(digit - b'0')));
    // An application does not own the client's connection, so it cannot change its protocol.
    if !(200..=999).contains(&code) || status.get(3).is_some_and(|byte| *byte != b' ') {
        let shown = &status[..status.len().min(SHOWN_BYTES_MAX)];
        return Err(HeadError::Status(shown.escape_ascii().to_string().into()));
    }
    let reason = Span::new(value.end().min(value.start as usize + b"200 ".len()), value.end());
    Ok(Status { code, reason })
}

/// The value of the first line that is the field of this name.
fn value(output: &[u8], name: &[u8]) -> Option<Span> {
    let mut start = 0;
    for line in output.split_inclusive(|&byte| byte == b'\n') {
        if let Some(value) = field(line, name) {
            let before = line.len() - name.len() - 1 - value.trim_ascii_start().len();
            let from = start + name.len() + 1 + before;
            return Some(Span::new(from, from + value.trim_ascii().len()));
        }
        start += line.len();
    }
    None
}

/// What follows the colon of a line, if it is the field of this name.
fn field<'a>(line: &'a [u8], name: &[u8]) -> Option<&'a [u8]> {
    let (found, value) = line.split_at_checked(name.len())?;
    let value = value.strip_prefix(b":")?;
    found.eq_ignore_ascii_case(name).then_some(value)
}

/// The bytes up to and including the first empty line.
pub fn head_end(output: &[u8]) -> Option<usize> {
    let mut start = 0;
    for end in memchr::memchr_iter(b'\n', output) {
        if matches!(&output[start..end], b"" | b"\r") {
            return Some(end + 1);
        }
        start = end + 1;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Length, status, reason and fields of a head.
    fn head(output: &str) -> Result<Option<(usize, String, String)>, HeadError> {
        let mut head = ResponseHead::default();
        let length = read_head(output.as_bytes(), &Limits::response(4096), RequestKind::Other, &mut head)?;
        let bytes = output.as_bytes();
        let text = |span: Span| String::from_utf8_lossy(span.of(bytes)).into_owned();
        let fields = head.fields.iter().map(|field| format!("{}={};", text(field.name), text(field.value)));
        Ok(length.map(|length| (length, format!("{} {}", head.status, text(head.reason)), fields.collect())))
    }

    #[test]
    fn a_status_gives_code_and_reason() {
        for (output, status) in [
            ("Status: 404 Not Found\r\n", "404 Not Found"),
            ("status:404\n", "404 "),
            ("Status:  599 My own \r\n", "599 My own"),
            ("X: y\r\n", "200 "),
            ("Location: /x\r\n", "302 "),
            ("Location: /x\r\nStatus: 301 Gone there\r\n", "301 Gone there"),
            ("", "200 "),
        ] {
            let (length, found, _) = head(&format!("{output}\r\nbody")).unwrap().unwrap();
            assert_eq!((length, &*found), (output.len() + 2, status), "{output:?}");
        }
    }

    #[test]
    fn refuses_an_invalid_status() {
        for status in ["", "x", "20", "2000", "099", "101 Switching Protocols", "100 Continue", "20x", "200OK"] {
            assert_eq!(head(&format!("Status: {status}\r\n\r\n")), Err(HeadError::Status(status.into())), "{status:?}");
        }
    }

    #[test]
    fn a_reason_is_one_line() {
        assert_eq!(head("Status: 200 a\x01b\r\n\r\n"), Err(ResponseError::InvalidStatusLine.into()));
    }

    #[test]
    fn fields_keep_their_order() {
        let (_, status, fields) =
            head("A: 1\nB: 2\r\nTransfer-Encoding: chunked\nstatus-x: 3\n\nrest").unwrap().unwrap();
        assert_eq!((&*status, &*fields), ("200 ", "A=1;B=2;status-x=3;"));
        assert!(matches!(head("A: 1\nno field\n\n"), Err(HeadError::Fields(_))));
    }

    #[test]
    fn a_204_without_a_reason_has_no_type() {
        let fields = |status| head(&format!("Content-Type: a/b\nStatus: {status}\n\n")).unwrap().unwrap().2;
        assert_eq!(fields("204"), "Status=204;");
        assert_eq!(fields("204 No Content"), "Content-Type=a/b;Status=204 No Content;");
    }

    #[test]
    fn a_head_is_awaited_to_its_end() {
        let whole = "Status: 200 OK\r\nA: 1\r\n\r\n";
        for length in 0..whole.len() {
            assert_eq!(head(&whole[..length]), Ok(None), "{length}");
        }
        assert!(head(whole).unwrap().is_some());
    }

    proptest! {
        #[test]
        fn any_output_gives_a_head_or_none(output in prop::collection::vec(any::<u8>(), 0..200)) {
            let mut head = ResponseHead::default();
            let read = read_head(&output, &Limits::response(4096), RequestKind::Other, &mut head);
            if let Ok(Some(length)) = read {
                prop_assert!(length <= output.len() && head.status >= 200);
                prop_assert!(head.fields.iter().all(|field| field.value.end() <= length));
            }
        }
    }
}
