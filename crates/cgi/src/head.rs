//! The head of a CGI response (RFC 3875, section 6) as the head of an HTTP/1.1 response, so that one parser and one set of limits hold
//! for both.

/// A head that cannot be one.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum HeadError {
    /// The status, shortened; nginx's words.
    #[error("upstream sent invalid status \"{0}\"")]
    Status(Box<str>),
}

/// Bytes of an invalid status that the error shows.
const SHOWN_BYTES_MAX: usize = 64;

/// Looks for a whole head at the beginning of an application's output, and writes it to `out` as HTTP/1.1. Gives the number of bytes that
/// the head takes; `None`: it is not complete. Lines may end in LF alone. `Status` becomes the status line; without it the status is
/// 200, or 302 where there is a `Location`. `Transfer-Encoding` is left out: records have said where the body ends.
pub fn http_head(output: &[u8], out: &mut Vec<u8>) -> Result<Option<usize>, HeadError> {
    let Some(length) = head_end(output) else { return Ok(None) };
    let lines = || {
        let lines = output[..length].split(|&byte| byte == b'\n');
        lines.map(|line| line.strip_suffix(b"\r").unwrap_or(line)).filter(|line| !line.is_empty())
    };
    let value = |wanted: &[u8]| lines().find_map(|line| field(line, wanted));
    out.clear();
    out.extend_from_slice(b"HTTP/1.1 ");
    match value(b"Status") {
        Some(status) => {
            let digits = status.get(..3).filter(|digits| digits.iter().all(u8::is_ascii_digit));
            let number =
                digits.map_or(0, |digits| digits.iter().fold(0, |all, digit| all * 10 + u16::from(digit - b'0')));
            // An application does not own the client's connection, so it cannot change its protocol.
            if !(200..=999).contains(&number) || status.get(3).is_some_and(|byte| *byte != b' ') {
                let shown = &status[..status.len().min(SHOWN_BYTES_MAX)];
                return Err(HeadError::Status(shown.escape_ascii().to_string().into()));
            }
            out.extend_from_slice(status);
        }
        None if value(b"Location").is_some() => out.extend_from_slice(b"302 Moved Temporarily"),
        None => out.extend_from_slice(b"200 OK"),
    }
    out.extend_from_slice(b"\r\n");
    // As in nginx a 204 without a reason has no type.
    let is_typeless = value(b"Status") == Some(b"204");
    let is_left_out = |line: &[u8]| {
        field(line, b"Transfer-Encoding").is_some() || (is_typeless && field(line, b"Content-Type").is_some())
    };
    for line in lines().filter(|line| !is_left_out(line)) {
        out.extend_from_slice(line);
        out.extend_from_slice(b"\r\n");
    }
    out.extend_from_slice(b"\r\n");
    Ok(Some(length))
}

/// The value of a line, if it is the field of this name.
fn field<'a>(line: &'a [u8], name: &[u8]) -> Option<&'a [u8]> {
    let (found, value) = line.split_at_checked(name.len())?;
    let value = value.strip_prefix(b":")?;
    found.eq_ignore_ascii_case(name).then(|| value.trim_ascii())
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

    fn head(output: &str) -> Result<Option<(usize, String)>, HeadError> {
        let mut out = b"old".to_vec();
        Ok(http_head(output.as_bytes(), &mut out)?.map(|length| (length, String::from_utf8(out).unwrap())))
    }

    #[test]
    fn a_status_becomes_the_status_line() {
        for (output, line) in [
            ("Status: 404 Not Found\r\n", "404 Not Found"),
            ("status:404\n", "404"),
            ("Status:  599 My own \r\n", "599 My own"),
            ("X: y\r\n", "200 OK"),
            ("Location: /x\r\n", "302 Moved Temporarily"),
            ("Location: /x\r\nStatus: 301 Gone there\r\n", "301 Gone there"),
            ("", "200 OK"),
        ] {
            let (length, text) = head(&format!("{output}\r\nbody")).unwrap().unwrap();
            assert_eq!(length, output.len() + 2, "{output:?}");
            assert_eq!(text.lines().next(), Some(&*format!("HTTP/1.1 {line}")), "{output:?}");
            assert!(text.ends_with("\r\n\r\n"), "{text:?}");
        }
    }

    #[test]
    fn refuses_an_invalid_status() {
        for status in ["", "x", "20", "2000", "099", "101 Switching Protocols", "100 Continue", "20x", "200OK"] {
            assert_eq!(head(&format!("Status: {status}\r\n\r\n")), Err(HeadError::Status(status.into())), "{status:?}");
        }
    }

    #[test]
    fn fields_keep_their_order_with_http_line_ends() {
        let (_, text) = head("A: 1\nB: 2\r\nTransfer-Encoding: chunked\nstatus-x: 3\n\nrest").unwrap().unwrap();
        assert_eq!(text, "HTTP/1.1 200 OK\r\nA: 1\r\nB: 2\r\nstatus-x: 3\r\n\r\n");
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
            let mut out = Vec::new();
            if let Ok(Some(length)) = http_head(&output, &mut out) {
                prop_assert!(length <= output.len());
                prop_assert!(out.starts_with(b"HTTP/1.1 ") && out.ends_with(b"\r\n\r\n"));
            }
        }
    }
}
