//! memcached's text protocol: the request for one value, and its answer. The value is passed on as it comes; [`ValueEnd`]
//! finds its end.
//!
//! Source: protocol.txt of memcached.

use thiserror::Error;

/// What follows a value.
const END: &[u8] = b"\r\nEND\r\n";

/// Bytes of an answer that a message shows.
const SHOWN_BYTES: usize = 100;

/// The request for the value of this key. `out` is emptied and filled.
///
/// As in nginx, spaces, control characters and `%` are percent-encoded: a key cannot end the line.
pub fn request(mut out: Vec<u8>, key: &[u8]) -> Vec<u8> {
    out.clear();
    out.extend_from_slice(b"get ");
    write_key(key, &mut out);
    out.extend_from_slice(b"\r\n");
    out
}

fn write_key(key: &[u8], out: &mut Vec<u8>) {
    const DIGITS: &[u8; 16] = b"0123456789ABCDEF";
    for &byte in key {
        if byte <= b' ' || byte == b'%' {
            out.extend_from_slice(&[b'%', DIGITS[usize::from(byte >> 4)], DIGITS[usize::from(byte & 15)]]);
        } else {
            out.push(byte);
        }
    }
}

/// The answer's first line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Answer {
    /// There is no value.
    Missing,
    /// A value follows.
    Value {
        /// Its flags; `None` if they are not a number.
        flags: Option<u32>,
        /// Its length in bytes.
        length: u64,
    },
}

/// An answer that is not one of ours; the text is its beginning.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum AnswerError {
    /// Neither a value nor `END`: `ERROR`, `SERVER_ERROR …`, or another protocol.
    #[error("memcached sent invalid response: \"{0}\"")]
    Response(String),
    /// Another key.
    #[error("memcached sent invalid key in response \"{0}\"")]
    Key(String),
    /// No length.
    #[error("memcached sent invalid length in response \"{0}\"")]
    Length(String),
}

/// Reads the line at the beginning of an answer. `request` is what [`request`] made: the answer repeats its key. Returns
/// the line and its length with its end, or `None` if it is incomplete. The caller bounds how long it may become.
pub fn answer(bytes: &[u8], request: &[u8]) -> Result<Option<(Answer, usize)>, AnswerError> {
    let Some(end) = memchr::memchr(b'\n', bytes) else { return Ok(None) };
    let shown = || bytes[..end.min(SHOWN_BYTES)].trim_ascii_end().escape_ascii().to_string();
    let line = bytes[..end].strip_suffix(b"\r").ok_or_else(|| AnswerError::Response(shown()))?;
    if line == b"END" {
        return Ok(Some((Answer::Missing, end + 1)));
    }
    let rest = line.strip_prefix(b"VALUE ").ok_or_else(|| AnswerError::Response(shown()))?;
    let key = request.strip_prefix(b"get ").unwrap_or(request).trim_ascii_end();
    let rest = rest.strip_prefix(key).ok_or_else(|| AnswerError::Key(shown()))?;
    let rest = rest.strip_prefix(b" ").ok_or_else(|| AnswerError::Response(shown()))?;
    let space = memchr::memchr(b' ', rest).ok_or_else(|| AnswerError::Response(shown()))?;
    let (flags, length) = (&rest[..space], &rest[space + 1..]);
    let length = number(length).ok_or_else(|| AnswerError::Length(shown()))?;
    let flags = number(flags).and_then(|flags| u32::try_from(flags).ok());
    Ok(Some((Answer::Value { flags, length }, end + 1)))
}

/// A decimal number that a file offset holds.
fn number(digits: &[u8]) -> Option<u64> {
    if digits.is_empty() || !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let value: u64 = std::str::from_utf8(digits).ok()?.parse().ok()?;
    i64::try_from(value).is_ok().then_some(value)
}

/// The position in a value and in what follows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ValueEnd {
    left: u64,
    /// Bytes of the end that have come.
    seen: usize,
    is_broken: bool,
}

impl ValueEnd {
    /// Before a value of this length.
    pub fn new(length: u64) -> Self {
        Self { left: length, seen: 0, is_broken: false }
    }

    /// Takes received bytes. Returns how many of them are the value's, and how many belong to the answer.
    pub fn take(&mut self, bytes: &[u8]) -> (usize, usize) {
        let value = bytes.len().min(usize::try_from(self.left).unwrap_or(usize::MAX));
        self.left -= value as u64;
        let mut used = value;
        while let Some(&byte) = bytes.get(used).filter(|_| self.left == 0 && !self.is_over()) {
            if byte == END[self.seen] {
                self.seen += 1;
                used += 1;
            } else {
                self.is_broken = true;
            }
        }
        (value, used)
    }

    /// The whole value has come.
    pub fn has_value(&self) -> bool {
        self.left == 0
    }

    /// The answer has ended, or something else follows its value.
    pub fn is_over(&self) -> bool {
        self.is_broken || self.seen == END.len()
    }

    /// Something else than the end followed the value: nothing is known about what comes next.
    pub fn is_broken(&self) -> bool {
        self.is_broken
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn value(flags: u32, length: u64, line: usize) -> (Answer, usize) {
        (Answer::Value { flags: Some(flags), length }, line)
    }

    #[test]
    fn a_key_cannot_end_its_line() {
        assert_eq!(request(b"old".to_vec(), b"/a?b=c"), b"get /a?b=c\r\n");
        assert_eq!(request(Vec::new(), b"a b\r\nset x%\0\x7f\xff"), b"get a%20b%0D%0Aset%20x%25%00\x7f\xff\r\n");
        assert_eq!(request(Vec::new(), b""), b"get \r\n");
    }

    #[test]
    fn a_line_is_a_value_or_the_end() {
        let asked = request(Vec::new(), b"/k");
        assert_eq!(answer(b"VALUE /k 2 5\r\nhello\r\nEND\r\n", &asked), Ok(Some(value(2, 5, 14))));
        assert_eq!(answer(b"END\r\n", &asked), Ok(Some((Answer::Missing, 5))));
        assert_eq!(answer(b"VALUE /k 0 5\r", &asked), Ok(None));
        assert_eq!(answer(b"", &asked), Ok(None));
        let spaced = request(Vec::new(), b"a b");
        assert_eq!(answer(b"VALUE a%20b 0 0\r\n", &spaced), Ok(Some(value(0, 0, 17))));
        let odd = Answer::Value { flags: None, length: 1 };
        assert_eq!(answer(b"VALUE /k x 1\r\n", &asked), Ok(Some((odd, 14))));
    }

    #[test]
    fn other_lines_are_refused() {
        let asked = request(Vec::new(), b"/k");
        let error = |bytes: &[u8]| answer(bytes, &asked).unwrap_err().to_string();
        for (bytes, message) in [
            (&b"ERROR\r\n"[..], "memcached sent invalid response: \"ERROR\""),
            (b"SERVER_ERROR out of memory\r\n", "memcached sent invalid response: \"SERVER_ERROR out of memory\""),
            (b"END\n", "memcached sent invalid response: \"END\""),
            (b"END \r\n", "memcached sent invalid response: \"END\""),
            (b"VALUE /other 0 5\r\n", "memcached sent invalid key in response \"VALUE /other 0 5\""),
            (b"VALUE /k2 0 5\r\n", "memcached sent invalid response: \"VALUE /k2 0 5\""),
            (b"VALUE /k 0\r\n", "memcached sent invalid response: \"VALUE /k 0\""),
            (b"VALUE /k 0 \r\n", "memcached sent invalid length in response \"VALUE /k 0\""),
            (b"VALUE /k 0 -5\r\n", "memcached sent invalid length in response \"VALUE /k 0 -5\""),
            (b"VALUE /k 0 5 7\r\n", "memcached sent invalid length in response \"VALUE /k 0 5 7\""),
            (
                b"VALUE /k 0 99999999999999999999\r\n",
                "memcached sent invalid length in response \"VALUE /k 0 99999999999999999999\"",
            ),
            (b"\x81\0\0\x01\n", "memcached sent invalid response: \"\\x81\\x00\\x00\\x01\""),
        ] {
            assert_eq!(error(bytes), message);
        }
    }

    #[test]
    fn value_ends_after_its_length_in_pieces_of_any_size() {
        let bytes = b"a\r\nEND\r\nb\r\nEND\r\n";
        for size in 1..=bytes.len() {
            let (mut end, mut value) = (ValueEnd::new(9), Vec::new());
            for piece in bytes.chunks(size) {
                let (taken, used) = end.take(piece);
                assert_eq!(used, piece.len());
                value.extend_from_slice(&piece[..taken]);
            }
            assert_eq!((&value[..], end.is_over(), end.is_broken()), (&bytes[..9], true, false));
        }
        let mut empty = ValueEnd::new(0);
        assert!(empty.has_value() && !empty.is_over());
        assert_eq!(empty.take(b"\r\nEND\r\nmore"), (0, 7));
        assert!(empty.is_over());
    }

    #[test]
    fn another_end_is_broken() {
        let mut end = ValueEnd::new(2);
        assert_eq!(end.take(b"ab\r\nENX\r\n"), (2, 6));
        assert!(end.is_broken() && end.is_over() && end.has_value());
        assert_eq!(end.take(b"more"), (0, 0));
    }
}
