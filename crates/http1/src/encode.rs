//! Encodes heads from their parts, always with CRLF. Nothing else is added: Date, Server and Connection are up to the
//! caller. `chunked` encodes bodies.

use crate::field::Field;
use crate::framing::Version;
use crate::scan::find_control;
use crate::span::Span;
use crate::status::reason_phrase;

/// Ends a line.
const CRLF: &[u8] = b"\r\n";

fn version_bytes(version: Version) -> &'static [u8] {
    match version {
        Version::Http10 => b"HTTP/1.0",
        Version::Http11 => b"HTTP/1.1",
    }
}

/// `method SP target SP version CRLF`.
pub fn encode_request_line(method: &[u8], target: &[u8], version: Version, out: &mut Vec<u8>) {
    out.extend_from_slice(method);
    out.push(b' ');
    out.extend_from_slice(target);
    out.push(b' ');
    out.extend_from_slice(version_bytes(version));
    out.extend_from_slice(CRLF);
}

/// `version SP status SP reason CRLF`; without a reason, the standard phrase is used.
pub fn encode_status_line(version: Version, status: u16, reason: Option<&[u8]>, out: &mut Vec<u8>) {
    if let (Version::Http11, 200, None | Some(b"OK")) = (version, status, reason) {
        // As most responses have it: one copy.
        return out.extend_from_slice(b"HTTP/1.1 200 OK\r\n");
    }
    out.extend_from_slice(version_bytes(version));
    out.push(b' ');
    out.extend_from_slice(itoa::Buffer::new().format(status).as_bytes());
    out.push(b' ');
    out.extend_from_slice(reason.unwrap_or_else(|| reason_phrase(status).as_bytes()));
    out.extend_from_slice(CRLF);
}

/// `name ": " value CRLF`. Any value becomes one line: see [`fold`]. The name must come from a parsed head or from
/// checked configuration.
#[inline]
pub fn encode_field(name: &[u8], value: &[u8], out: &mut Vec<u8>) {
    out.reserve(name.len() + value.len() + 2 * CRLF.len());
    out.extend_from_slice(name);
    out.extend_from_slice(b": ");
    if find_control(value, 0) == value.len() {
        out.extend_from_slice(value);
    } else {
        fold(value, out);
    }
    out.extend_from_slice(CRLF);
}

/// The same for a field that is read again before it is sent: returns where its name and its value are in `out`.
#[inline]
pub fn keep_field(name: &[u8], value: &[u8], out: &mut Vec<u8>) -> (Span, Span) {
    let start = out.len();
    encode_field(name, value, out);
    let name = Span::new(start, start + name.len());
    // Between them: a colon and a space.
    (name, Span::new(name.end() + 2, out.len() - CRLF.len()))
}

/// Appends a value as one line: control characters other than tabs, with the blanks around them, become one space, or
/// nothing at either end. So a value written over several lines stays one value, and no value becomes two fields.
#[cold]
pub fn fold(value: &[u8], out: &mut Vec<u8>) {
    let start = out.len();
    let mut rest = value.trim_ascii();
    loop {
        let control = find_control(rest, 0);
        let Some((line, behind)) = rest.split_at_checked(control) else { return };
        if control == rest.len() {
            return out.extend_from_slice(line);
        }
        out.extend_from_slice(line.trim_ascii_end());
        let blanks = behind.iter().take_while(|&&byte| byte <= b' ' || byte == 0x7F).count();
        rest = behind.get(blanks..).unwrap_or_default();
        if out.len() > start && !rest.is_empty() {
            out.push(b' ');
        }
    }
}

/// A field whose value is a number, such as Content-Length.
pub fn encode_number_field(name: &[u8], value: u64, out: &mut Vec<u8>) {
    out.extend_from_slice(name);
    out.extend_from_slice(b": ");
    out.extend_from_slice(itoa::Buffer::new().format(value).as_bytes());
    out.extend_from_slice(CRLF);
}

/// The given fields, in order, as they were sent; `head` holds their bytes.
///
/// Adjacent fields that are already written as `name: value CRLF`, as nearly all are, are copied in one piece.
pub fn encode_fields<'a>(head: &[u8], fields: impl IntoIterator<Item = &'a Field>, out: &mut Vec<u8>) {
    let mut run = 0..0;
    for field in fields {
        let start = field.name.start as usize;
        if !is_canonical(head, field) {
            flush(head, &mut run, out);
            encode_field(field.name.of(head), field.value.of(head), out);
            continue;
        }
        if run.end != start {
            flush(head, &mut run, out);
            run.start = start;
        }
        run.end = field.value.end() + CRLF.len();
    }
    flush(head, &mut run, out);
}

/// Whether the field's line is exactly what [`encode_field`] would write.
#[inline]
fn is_canonical(head: &[u8], field: &Field) -> bool {
    let (name_end, value_start, value_end) = (field.name.end(), field.value.start as usize, field.value.end());
    value_start == name_end + 2
        && head.get(name_end..value_start) == Some(b": ")
        && head.get(value_end..value_end + CRLF.len()) == Some(CRLF)
}

fn flush(head: &[u8], run: &mut std::ops::Range<usize>, out: &mut Vec<u8>) {
    out.extend_from_slice(head.get(run.clone()).unwrap_or_default());
    *run = 0..0;
}

/// The empty line that ends a head.
#[inline]
pub fn encode_head_end(out: &mut Vec<u8>) {
    out.extend_from_slice(CRLF);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_stays_on_one_line() {
        for (value, line) in [
            (&b"a; b"[..], &b"X: a; b\r\n"[..]),
            (b"a;\r\n   b;\n\tc", b"X: a; b; c\r\n"),
            (b"\n a \t\r\n", b"X: a\r\n"),
            (b"a \0\x01 b\x7f", b"X: a b\r\n"),
            (b"\r\n\r\n", b"X: \r\n"),
            (b" a\tb\xe4 ", b"X:  a\tb\xe4 \r\n"),
            (b" a\tb\n c ", b"X: a\tb c\r\n"),
        ] {
            let mut out = Vec::new();
            encode_field(b"X", value, &mut out);
            assert_eq!(out, line, "{}", value.escape_ascii());
        }
    }
}
