//! The head of a request for an upstream, and the only way to make one. Values from a configuration and its variables
//! may contain any bytes, so each part is checked when it is added: an [`OutgoingHead`] reads as exactly one request.
//! Parts that were checked before, when a configuration was loaded ([`FieldLine`]) or a head was parsed, are copied
//! unchanged.
//!
//! The gateway writes every upstream request with it.

use crate::encode::{self, encode_head_end, encode_number_field};
use crate::field::{Field, FieldId};
use crate::framing::Version;
use crate::scan::{find_control, is_token_byte};

/// A complete head. Keeps its allocation when a [`HeadWriter`] starts the next one in it.
#[derive(Debug, Clone, Default)]
pub struct OutgoingHead {
    bytes: Vec<u8>,
    method_len: usize,
}

impl OutgoingHead {
    /// The head with its empty line; empty if none was written.
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// The method.
    pub fn method(&self) -> &[u8] {
        self.bytes.get(..self.method_len).unwrap_or_default()
    }

    /// A request in another protocol, which has neither method nor target.
    pub fn opaque(bytes: Vec<u8>) -> Self {
        Self { bytes, method_len: 0 }
    }

    /// Its buffer, for a request in another protocol.
    pub fn into_buffer(self) -> Vec<u8> {
        self.bytes
    }

    /// The target.
    pub fn target(&self) -> &[u8] {
        if self.method_len == 0 {
            return b"";
        }
        self.bytes.split(|&byte| byte == b' ').nth(1).unwrap_or_default()
    }

    /// Its fields, in order, for a protocol that has no text.
    pub fn fields(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        let text = if self.method_len == 0 { &[][..] } else { &self.bytes };
        text.split(|&byte| byte == b'\n').skip(1).filter_map(|line| {
            let colon = memchr::memchr(b':', line)?;
            Some((&line[..colon], line[colon + 1..].trim_ascii()))
        })
    }

    /// Values of the fields of this name, in order. For rare questions: it searches the head.
    pub fn values<'a>(&'a self, name: &'a [u8]) -> impl Iterator<Item = &'a [u8]> {
        let lines = self.bytes.split(|&byte| byte == b'\n').skip(1);
        lines.filter_map(move |line| {
            let (known, value) = line.split_at_checked(name.len())?;
            let value = value.strip_prefix(b":")?;
            known.eq_ignore_ascii_case(name).then(|| value.trim_ascii())
        })
    }

    /// Drops the head. Its buffer is kept for the next one unless it is larger than `kept_bytes_max`.
    pub fn clear(&mut self, kept_bytes_max: usize) {
        self.method_len = 0;
        self.bytes.clear();
        if self.bytes.capacity() > kept_bytes_max {
            self.bytes = Vec::new();
        }
    }

    /// Capacity of its buffer in bytes.
    pub fn capacity(&self) -> usize {
        self.bytes.capacity()
    }
}

/// A field name that can be sent: a token (RFC 9110 §5.6.2).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FieldToken {
    name: Box<[u8]>,
    id: FieldId,
}

impl FieldToken {
    /// `None` if it is no token.
    pub fn new(name: &[u8]) -> Option<Self> {
        let is_token = !name.is_empty() && name.iter().all(|&byte| is_token_byte(byte));
        is_token.then(|| Self { name: name.into(), id: FieldId::of_name(name) })
    }

    /// The name as it was written.
    pub fn as_bytes(&self) -> &[u8] {
        &self.name
    }

    /// Which well-known name it is.
    pub fn id(&self) -> FieldId {
        self.id
    }
}

/// A whole field line, checked when it was made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FieldLine {
    line: Box<[u8]>,
    id: FieldId,
}

impl FieldLine {
    /// `None` if the value has a byte that no value may have.
    pub fn new(name: &FieldToken, value: &[u8]) -> Option<Self> {
        let mut line = Vec::with_capacity(name.name.len() + value.len() + 4);
        encode::encode_field(&name.name, value, &mut line);
        is_field_value(value).then(|| Self { line: line.into(), id: name.id })
    }

    /// Which well-known name it has.
    pub fn id(&self) -> FieldId {
        self.id
    }
}

/// Why a part cannot be sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unsendable {
    /// The method is empty or no token.
    Method,
    /// The target is empty.
    EmptyTarget,
    /// The value has a control character.
    FieldValue,
}

/// Whether a value can be sent as it is: it has no control character but tabs (RFC 9110 §5.5).
#[inline]
pub fn is_field_value(value: &[u8]) -> bool {
    find_control(value, 0) == value.len()
}

/// Writes one head: method, target, fields, end, in this order.
#[derive(Debug)]
pub struct HeadWriter {
    bytes: Vec<u8>,
    method_len: usize,
    has_host: bool,
}

impl HeadWriter {
    /// Starts a head in the buffer of an earlier one. `write` appends the method.
    pub fn begin(earlier: OutgoingHead, write: impl FnOnce(&mut Vec<u8>)) -> Result<Self, (Unsendable, OutgoingHead)> {
        let mut bytes = earlier.bytes;
        bytes.clear();
        write(&mut bytes);
        let method_len = bytes.len();
        if method_len == 0 || !bytes.iter().all(|&byte| is_token_byte(byte)) {
            return Err((Unsendable::Method, OutgoingHead { bytes, method_len: 0 }));
        }
        bytes.push(b' ');
        Ok(Self { bytes, method_len, has_host: false })
    }

    /// `write` appends the target. Bytes that would end it or the line, and `#`, which no target has, are percent-encoded;
    /// bytes from 0x80 stay.
    pub fn target(&mut self, version: Version, write: impl FnOnce(&mut Vec<u8>)) -> Result<(), Unsendable> {
        let start = self.bytes.len();
        write(&mut self.bytes);
        if self.bytes.len() == start {
            return Err(Unsendable::EmptyTarget);
        }
        // Without an early exit, the loop processes many bytes at a time.
        if self.bytes[start..].iter().fold(false, |ends, &byte| ends | ends_target(byte)) {
            self.encode_target(start);
        }
        self.bytes.extend_from_slice(match version {
            Version::Http10 => b" HTTP/1.0\r\n",
            Version::Http11 => b" HTTP/1.1\r\n",
        });
        Ok(())
    }

    #[cold]
    fn encode_target(&mut self, start: usize) {
        const DIGITS: &[u8; 16] = b"0123456789ABCDEF";
        let target = self.bytes.split_off(start);
        for byte in target {
            if ends_target(byte) {
                let (high, low) = (DIGITS[usize::from(byte >> 4)], DIGITS[usize::from(byte & 15)]);
                self.bytes.extend_from_slice(&[b'%', high, low]);
            } else {
                self.bytes.push(byte);
            }
        }
    }

    /// Appends a line that was checked before. `false`: it is a second Host, and is not written.
    pub fn line(&mut self, line: &FieldLine) -> bool {
        let fits = self.admits(line.id);
        if fits {
            self.bytes.extend_from_slice(&line.line);
        }
        fits
    }

    /// Appends a field with the value that `write` appends. `false`: the value is empty, or it is a second Host, and it
    /// is not written.
    pub fn field(&mut self, name: &FieldToken, write: impl FnOnce(&mut Vec<u8>)) -> Result<bool, Unsendable> {
        let start = self.bytes.len();
        self.bytes.extend_from_slice(&name.name);
        self.bytes.extend_from_slice(b": ");
        let value = self.bytes.len();
        write(&mut self.bytes);
        let written = self.bytes.get(value..).unwrap_or_default();
        if !is_field_value(written) {
            self.bytes.truncate(start);
            return Err(Unsendable::FieldValue);
        }
        if written.is_empty() || !self.admits(name.id) {
            self.bytes.truncate(start);
            return Ok(false);
        }
        self.bytes.extend_from_slice(b"\r\n");
        Ok(true)
    }

    /// Refuses a second Host: it would leave open which server the request is for.
    fn admits(&mut self, id: FieldId) -> bool {
        id != FieldId::Host || !std::mem::replace(&mut self.has_host, true)
    }

    /// Adds a Host without a value, as RFC 9112 §3.2 requires for a target without a host.
    pub fn empty_host(&mut self) {
        if self.admits(FieldId::Host) {
            self.bytes.extend_from_slice(b"Host: \r\n");
        }
    }

    /// Whether there is a Host.
    pub fn has_host(&self) -> bool {
        self.has_host
    }

    /// Announces a body of this length.
    pub fn content_length(&mut self, length: u64) {
        encode_number_field(b"Content-Length", length, &mut self.bytes);
    }

    /// Announces a chunked body.
    pub fn chunked(&mut self) {
        self.bytes.extend_from_slice(b"Transfer-Encoding: chunked\r\n");
    }

    /// Appends fields of a parsed head; `head` holds the bytes that they were parsed from. Parsing has checked them.
    /// Host and the fields that frame the body are skipped: this hop writes its own.
    pub fn parsed_fields<'a>(&mut self, head: &[u8], fields: impl IntoIterator<Item = &'a Field>) {
        let passed = fields.into_iter().filter(|field| !is_own(field.id));
        encode::encode_fields(head, passed, &mut self.bytes);
    }

    /// Ends the head.
    pub fn finish(mut self) -> OutgoingHead {
        encode_head_end(&mut self.bytes);
        OutgoingHead { bytes: self.bytes, method_len: self.method_len }
    }

    /// Returns the buffer for another head: this one cannot be sent.
    pub fn abandon(mut self) -> OutgoingHead {
        self.bytes.clear();
        OutgoingHead { bytes: self.bytes, method_len: 0 }
    }
}

#[inline]
fn is_own(id: FieldId) -> bool {
    matches!(id, FieldId::Host | FieldId::ContentLength | FieldId::TransferEncoding)
}

/// Whether a byte cannot appear in a target: spaces, control characters and `#`.
#[inline]
fn ends_target(byte: u8) -> bool {
    byte <= b' ' || byte == 0x7F || byte == b'#'
}

#[cfg(test)]
mod tests {
    use super::*;

    fn begun() -> HeadWriter {
        let mut head = HeadWriter::begin(OutgoingHead::default(), |out| out.extend_from_slice(b"GET")).unwrap();
        head.target(Version::Http11, |out| out.push(b'/')).unwrap();
        head
    }

    fn name(name: &str) -> FieldToken {
        FieldToken::new(name.as_bytes()).unwrap()
    }

    #[test]
    fn a_target_cannot_end_the_request_line() {
        let mut head = HeadWriter::begin(OutgoingHead::default(), |out| out.extend_from_slice(b"GET")).unwrap();
        head.target(Version::Http10, |out| out.extend_from_slice(b"/a b\r\nX: y\0\x7f#\xe4\t?q")).unwrap();
        let head = head.finish();
        assert_eq!(head.as_bytes(), b"GET /a%20b%0D%0AX:%20y%00%7F%23\xe4%09?q HTTP/1.0\r\n\r\n");
        assert_eq!(head.method(), b"GET");
        let mut head = HeadWriter::begin(head, |out| out.push(b'X')).unwrap();
        assert_eq!(head.target(Version::Http11, |_| {}), Err(Unsendable::EmptyTarget));
    }

    #[test]
    fn fields_come_apart_again() {
        let mut head = begun();
        head.field(&name("Host"), |out| out.extend_from_slice(b"a.test:80")).unwrap();
        head.field(&name("X-A"), |out| out.extend_from_slice(b"b: c ")).unwrap();
        head.content_length(5);
        let head = head.finish();
        let fields: Vec<(&[u8], &[u8])> = head.fields().collect();
        let expected = [(&b"Host"[..], &b"a.test:80"[..]), (b"X-A", b"b: c"), (b"Content-Length", b"5")];
        assert_eq!(fields, expected);
        assert_eq!(OutgoingHead::opaque(b"x\ny: z\n".to_vec()).fields().count(), 0);
    }

    #[test]
    fn a_method_is_a_token() {
        for bad in [&b""[..], b"GET /", b"G\r\nE", b"G\0", b"G:", b"\xe4"] {
            let begun = HeadWriter::begin(OutgoingHead::default(), |out| out.extend_from_slice(bad));
            assert_eq!(begun.unwrap_err().0, Unsendable::Method, "{}", bad.escape_ascii());
        }
    }

    #[test]
    fn refuses_control_characters_and_omits_empty_values() {
        for bad in [&b"a\r\nX: y"[..], b"\n", b"a\0", b"\x7f", b"\x01"] {
            let mut head = begun();
            assert_eq!(head.field(&name("X"), |out| out.extend_from_slice(bad)), Err(Unsendable::FieldValue));
            assert_eq!(head.finish().as_bytes(), b"GET / HTTP/1.1\r\n\r\n", "{}", bad.escape_ascii());
            assert_eq!(FieldLine::new(&name("X"), bad), None);
        }
        let mut head = begun();
        assert_eq!(head.field(&name("X"), |_| {}), Ok(false));
        assert_eq!(head.field(&name("Y"), |out| out.extend_from_slice(b"\xe4\t1")), Ok(true));
        assert_eq!(head.finish().as_bytes(), b"GET / HTTP/1.1\r\nY: \xe4\t1\r\n\r\n");
    }

    #[test]
    fn a_name_is_a_token() {
        for bad in [&b""[..], b"X:", b"X Y", b"X\r\nY", b"\xe4"] {
            assert_eq!(FieldToken::new(bad), None, "{}", bad.escape_ascii());
        }
        assert_eq!(name("hOsT").id(), FieldId::Host);
    }

    #[test]
    fn there_is_one_host_at_most() {
        let mut head = begun();
        assert!(!head.has_host());
        assert_eq!(head.field(&name("Host"), |_| {}), Ok(false));
        assert!(head.line(&FieldLine::new(&name("host"), b"a").unwrap()));
        assert!(head.has_host() && !head.line(&FieldLine::new(&name("Host"), b"b").unwrap()));
        assert_eq!(head.field(&name("HOST"), |out| out.push(b'c')), Ok(false));
        let head = head.finish();
        assert_eq!(head.as_bytes(), b"GET / HTTP/1.1\r\nhost: a\r\n\r\n");
        assert_eq!(head.values(b"Host").collect::<Vec<_>>(), [b"a"]);
        assert_eq!(head.values(b"Hos").count(), 0);
    }
}
