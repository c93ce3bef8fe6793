//! The tokenizer for both heads: line ends, field lines, character classes, and the search for the end of a head. It
//! does not interpret anything. `request`, `response` and `chunked` call it.
//!
//! One pass, left to right, and an error depends only on the bytes before it: so the same bytes give the same result
//! in whatever pieces they arrive.

use crate::error::LineFault;
use crate::field::{FieldId, NAME_BYTES_MAX};
use crate::limits::{BareLf, Limits};

/// A byte that ends a field name: no token character (RFC 9110 §5.6.2).
const NAME_STOP: u8 = 0;
/// Letters, digits and `-`: what nginx calls valid.
const NAME_PLAIN: u8 = 1;
/// `_`, valid if `underscores_in_headers` is on.
pub(crate) const NAME_UNDERSCORE: u8 = 2;
/// Any other token character.
pub(crate) const NAME_UNUSUAL: u8 = 4;

/// The class of each byte in a field name.
static NAME_CLASS: [u8; 256] = name_classes();

const fn name_classes() -> [u8; 256] {
    let mut classes = [NAME_STOP; 256];
    let mut byte = 0;
    while byte < 128 {
        classes[byte] = match byte as u8 {
            b'0'..=b'9' | b'A'..=b'Z' | b'a'..=b'z' | b'-' => NAME_PLAIN,
            b'_' => NAME_UNDERSCORE,
            b'!' | b'#' | b'$' | b'%' | b'&' | b'\'' | b'*' | b'+' | b'.' | b'^' | b'`' | b'|' | b'~' => NAME_UNUSUAL,
            _ => NAME_STOP,
        };
        byte += 1;
    }
    classes
}

/// The classes of all bytes of a field name.
pub(crate) fn name_class(name: &[u8]) -> u8 {
    name.iter().fold(0, |classes, &byte| classes | NAME_CLASS[usize::from(byte)])
}

/// Whether `byte` may appear in a token.
#[inline]
pub(crate) fn is_token_byte(byte: u8) -> bool {
    NAME_CLASS[byte as usize] != NAME_STOP
}

/// Whether `byte` may appear in a method: a token character that is no lower-case letter. RFC 9110 allows those too, but
/// no registered method has one, and `get` instead of `GET` is a mistake that peers treat differently.
#[inline]
pub(crate) fn is_method_byte(byte: u8) -> bool {
    is_token_byte(byte) && !byte.is_ascii_lowercase()
}

/// Index of the first control character other than tab at or after `from`; the length if there is none.
///
/// Eight bytes at a time: values are most of a head, and nearly all of them end at their CR.
#[inline]
pub(crate) fn find_control(bytes: &[u8], from: usize) -> usize {
    let mut at = from;
    while let Some(chunk) = bytes.get(at..).and_then(<[u8]>::first_chunk::<8>) {
        let hits = controls_in(u64::from_le_bytes(*chunk));
        if hits == 0 {
            at += 8;
            continue;
        }
        // The lowest hit is exact: a borrow can only make a false hit above a true one.
        at += hits.trailing_zeros() as usize / 8;
        if bytes.get(at) != Some(&b'\t') {
            return at;
        }
        at += 1;
    }
    find_control_in_tail(bytes, at)
}

/// The same for the last bytes, fewer than eight.
#[inline]
fn find_control_in_tail(bytes: &[u8], from: usize) -> usize {
    let mut at = from;
    while let Some(last) = bytes.last_chunk::<8>().filter(|_| at < bytes.len()) {
        // Bytes before `at` are shifted out. The zeros shifted in after the end are hits that do not count.
        let passed = at + 8 - bytes.len();
        let hits = controls_in(u64::from_le_bytes(*last) >> (8 * passed));
        at += hits.trailing_zeros() as usize / 8;
        if bytes.get(at) != Some(&b'\t') {
            return at.min(bytes.len());
        }
        at += 1;
    }
    while let Some(&byte) = bytes.get(at) {
        if byte == 0x7F || (byte < 0x20 && byte != b'\t') {
            return at;
        }
        at += 1;
    }
    bytes.len()
}

/// The highest bit of each byte that is a control character, tab included; above the lowest one there may be false ones.
#[inline]
fn controls_in(word: u64) -> u64 {
    const ONES: u64 = u64::from_ne_bytes([0x01; 8]);
    const HIGHS: u64 = u64::from_ne_bytes([0x80; 8]);
    const SPACES: u64 = u64::from_ne_bytes([0x20; 8]);
    const DELS: u64 = u64::from_ne_bytes([0x7F; 8]);
    let below_space = word.wrapping_sub(SPACES) & !word;
    let del = word ^ DELS;
    let is_del = del.wrapping_sub(ONES) & !del;
    (below_space | is_del) & HIGHS
}

/// The first span of bytes without spaces and tabs at either end of `start..end`.
#[inline]
pub(crate) fn trim(bytes: &[u8], mut start: usize, mut end: usize) -> (usize, usize) {
    let blank = |at: usize| matches!(bytes.get(at), Some(b' ' | b'\t'));
    while start < end && blank(start) {
        start += 1;
    }
    while start < end && blank(end - 1) {
        end -= 1;
    }
    (start, end)
}

/// Why a line is invalid.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fault {
    /// Its bytes.
    Line(LineFault),
    /// No line end within `line_bytes_max`.
    LineTooLong,
    /// No line end within `head_bytes_max`.
    HeadTooLarge,
}

impl From<LineFault> for Fault {
    fn from(fault: LineFault) -> Self {
        Self::Line(fault)
    }
}

/// The part of a buffer in which the line that begins at `start` must end.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Window<'a> {
    /// The buffer, cut where a limit ends.
    pub(crate) bytes: &'a [u8],
    /// What it means if the line does not end within `bytes`; `None`: more bytes are needed.
    fault: Option<Fault>,
}

impl<'a> Window<'a> {
    /// The window for the line at `start`.
    #[inline]
    pub(crate) fn new(buffer: &'a [u8], start: usize, limits: &Limits) -> Self {
        let line_end = start.saturating_add(limits.line_bytes_max);
        let end = line_end.min(limits.head_bytes_max);
        match buffer.get(..end) {
            None => Self { bytes: buffer, fault: None },
            Some(bytes) if line_end < limits.head_bytes_max => Self { bytes, fault: Some(Fault::LineTooLong) },
            Some(bytes) => Self { bytes, fault: Some(Fault::HeadTooLarge) },
        }
    }

    /// The result for a line that is incomplete in the window: `None` for "more bytes", or the limit that it exceeds.
    #[inline]
    pub(crate) fn exhausted<T>(&self) -> Result<Option<T>, Fault> {
        match self.fault {
            None => Ok(None),
            Some(fault) => Err(fault),
        }
    }

    /// One past the line end that begins at `at`, where `at` holds any byte.
    #[inline]
    pub(crate) fn line_end(&self, at: usize, bare_lf: BareLf) -> Result<Option<usize>, Fault> {
        match (self.bytes.get(at), self.bytes.get(at + 1)) {
            (Some(b'\r'), Some(b'\n')) => Ok(Some(at + 2)),
            (Some(b'\r'), None) | (None, _) => self.exhausted(),
            (Some(b'\r'), Some(_)) => Err(LineFault::BareCr.into()),
            (Some(b'\n'), _) if bare_lf == BareLf::Accept => Ok(Some(at + 1)),
            (Some(b'\n'), _) => Err(LineFault::BareLf.into()),
            (Some(_), _) => Err(LineFault::ValueByte.into()),
        }
    }
}

/// One line of the field section. All numbers are offsets into the buffer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Line {
    /// `name ":" OWS value OWS`.
    Field {
        /// One past the name, which begins at the line's start.
        name_end: usize,
        /// Which well-known name it is.
        id: FieldId,
        /// The value, trimmed.
        value: (usize, usize),
        /// The union of the classes of the name's bytes.
        name_class: u8,
        /// First byte of the next line.
        next: usize,
    },
    /// The empty line that ends a head.
    End {
        /// One past it.
        next: usize,
    },
}

/// The colon after a well-known name at `start`, and which name that is: nearly all lines of a head begin with one, and
/// such a name need not be checked byte by byte.
#[inline]
fn known_name(bytes: &[u8], start: usize) -> Option<(usize, FieldId)> {
    const ONES: u64 = u64::from_ne_bytes([0x01; 8]);
    const HIGHS: u64 = u64::from_ne_bytes([0x80; 8]);
    const COLONS: u64 = u64::from_ne_bytes([b':'; 8]);
    let line = bytes.get(start..)?;
    let mut at = 0;
    while at <= NAME_BYTES_MAX {
        let word = u64::from_le_bytes(*line.get(at..)?.first_chunk::<8>()?) ^ COLONS;
        let hits = word.wrapping_sub(ONES) & !word & HIGHS;
        if hits != 0 {
            // The lowest hit is exact: a borrow can only make a false hit above a true one.
            let len = at + hits.trailing_zeros() as usize / 8;
            let id = FieldId::of_name(line.get(..len)?);
            return (id != FieldId::Other).then_some((start + len, id));
        }
        at += 8;
    }
    None
}

/// Reads the line at `start`. `None`: it is not complete yet.
#[allow(clippy::inline_always, reason = "returning the nested enum through memory costs a tenth of a head's parsing")]
#[inline(always)]
pub(crate) fn parse_line(window: Window<'_>, start: usize, bare_lf: BareLf) -> Result<Option<Line>, Fault> {
    let bytes = window.bytes;
    let (name_end, id, name_class) = match known_name(bytes, start) {
        Some((name_end, id)) => (name_end, id, NAME_PLAIN),
        None => match other_name(bytes, start) {
            OtherName::Field { name_end, id, class } => (name_end, id, class),
            OtherName::Incomplete => return window.exhausted(),
            OtherName::NoField { name_end, stop } => return no_field(window, start, name_end, stop, bare_lf),
        },
    };
    let mut at = name_end + 1;
    // Nearly every value has one space before it.
    while matches!(bytes.get(at), Some(b' ' | b'\t')) {
        at += 1;
    }
    let value_end = find_control(bytes, at);
    let Some(next) = window.line_end(value_end, bare_lf)? else { return Ok(None) };
    Ok(Some(Line::Field { name_end, id, value: trim(bytes, at, value_end), name_class, next }))
}

/// How a line without a well-known name begins.
enum OtherName {
    /// A name and its colon.
    Field { name_end: usize, id: FieldId, class: u8 },
    /// More bytes are needed.
    Incomplete,
    /// Anything else: the first byte that cannot belong to a name.
    NoField { name_end: usize, stop: u8 },
}

#[inline(never)]
fn other_name(bytes: &[u8], start: usize) -> OtherName {
    let line = bytes.get(start..).unwrap_or_default();
    let mut class = 0;
    for (len, &byte) in line.iter().enumerate() {
        match NAME_CLASS[byte as usize] {
            NAME_STOP => {
                let name_end = start + len;
                if byte != b':' || len == 0 {
                    return OtherName::NoField { name_end, stop: byte };
                }
                // A well-known name also gets here if the buffer ends soon after it.
                return OtherName::Field { name_end, id: FieldId::of_name(&line[..len]), class };
            }
            of_byte => class |= of_byte,
        }
    }
    OtherName::Incomplete
}

/// The line at `start` is no field: the end of the head, or an error.
#[inline(never)]
fn no_field(
    window: Window<'_>,
    start: usize,
    name_end: usize,
    stop: u8,
    bare_lf: BareLf,
) -> Result<Option<Line>, Fault> {
    let empty = name_end == start;
    match stop {
        b'\r' | b'\n' if empty => Ok(window.line_end(start, bare_lf)?.map(|next| Line::End { next })),
        b'\r' | b'\n' => Err(LineFault::NoColon.into()),
        b':' => Err(LineFault::EmptyName.into()),
        b' ' | b'\t' if empty => Err(LineFault::Folded.into()),
        b' ' | b'\t' => Err(LineFault::SpaceBeforeColon.into()),
        _ => Err(LineFault::NameByte.into()),
    }
}

/// Answer of [`find_head_end`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HeadEnd {
    /// An empty line ends at this offset: now call `parse`. If `parse` still returns `Partial` (the bytes so far were
    /// leading empty lines), continue with `from` = this offset.
    Found(usize),
    /// No empty line yet. Continue with `from` = this offset when more bytes have arrived.
    NotYet(usize),
}

/// Looks for the empty line that ends a head, in `bytes[from..]`. For a head that arrives in pieces: the first read is
/// given to `parse` at once; if that says `Partial`, later reads come here until there is an end or the buffer holds
/// `head_bytes_max` bytes, so that a head in n pieces costs two parses and one search instead of n parses.
///
/// `from` is 0 or what the last call returned; nothing else about the search need be kept.
pub fn find_head_end(bytes: &[u8], from: usize) -> HeadEnd {
    let mut from = from;
    loop {
        let Some(offset) = bytes.get(from..).and_then(|rest| memchr::memchr(b'\n', rest)) else {
            return HeadEnd::NotYet(bytes.len().max(from));
        };
        let lf = from + offset;
        match (bytes.get(lf + 1), bytes.get(lf + 2)) {
            (Some(b'\n'), _) => return HeadEnd::Found(lf + 2),
            (Some(b'\r'), Some(b'\n')) => return HeadEnd::Found(lf + 3),
            // The byte after this LF decides, so the search resumes there.
            (None, _) | (Some(b'\r'), None) => return HeadEnd::NotYet(lf),
            _ => from = lf + 1,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn find_control_agrees_with_a_plain_search_at_every_place() {
        for control in [0u8, 1, 8, 9, 10, 13, 31, 32, 0x7E, 0x7F, 0x80, 0xFF] {
            for at in 0..20 {
                let mut bytes = vec![b'\x80'; 20];
                bytes[at] = control;
                bytes[19] = b'\t';
                let plain = bytes
                    .iter()
                    .position(|&byte| byte != b'\t' && (byte < 0x20 || byte == 0x7F))
                    .unwrap_or(bytes.len());
                assert_eq!(find_control(&bytes, 0), plain, "{control:#x} at {at}");
            }
        }
    }

    #[test]
    fn find_control_searches_exactly_from_its_start() {
        for len in 0..=18 {
            for from in 0..=len {
                for place in from..=len {
                    // Controls before the start, one at `place`, and a tab in front of it.
                    let mut bytes = vec![b'a'; len];
                    bytes[..from].fill(0);
                    if let Some(byte) = bytes.get_mut(place) {
                        *byte = 0x7F;
                    }
                    if place > from {
                        bytes[place - 1] = b'\t';
                    }
                    assert_eq!(find_control(&bytes, from), place, "{len} bytes from {from}");
                }
            }
        }
    }

    #[test]
    fn the_end_of_a_head_is_found_in_any_two_pieces() {
        let cases: [(&[u8], usize); 4] =
            [(b"a\r\nb\r\n\r\nrest", 8), (b"a\nb\n\nrest", 5), (b"a\r\n\nx", 4), (b"a\n\r\nx", 4)];
        for (bytes, end) in cases {
            assert_eq!(find_head_end(bytes, 0), HeadEnd::Found(end));
            for cut in 0..end {
                let HeadEnd::NotYet(from) = find_head_end(&bytes[..cut], 0) else { panic!("no end in {cut} bytes") };
                assert_eq!(find_head_end(bytes, from), HeadEnd::Found(end), "cut at {cut}");
            }
        }
    }
}
