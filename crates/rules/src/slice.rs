//! `slice`: in which pieces of one size a response is asked for, and whether what an upstream sends is such a piece.

use std::ops::Range;

/// A piece: where it begins, and how many bytes it has at most. The last one of a response is shorter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Slice {
    /// A multiple of the size.
    pub start: u64,
    /// At least 1.
    pub size: u64,
}

/// What is wrong with a response that was to be a piece.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SliceFault {
    /// No field, or one that cannot be read.
    #[error("invalid range in slice response")]
    Unreadable,
    /// `bytes 0-9/*`.
    #[error("no complete length in slice response")]
    NoLength,
    /// Another range than the one that was asked for.
    #[error("unexpected range in slice response: {start}-{end}")]
    Other {
        /// Its first byte.
        start: u64,
        /// The byte behind its last one.
        end: u64,
    },
}

impl Slice {
    /// The first piece that a request needs, by its `Range`; with `If-Range`, several ranges or one from the end that is the first
    /// piece of all. As in nginx.
    pub fn first(size: u64, range: Option<&[u8]>, has_if_range: bool) -> Self {
        let size = size.max(1);
        let start = range.filter(|_| !has_if_range).and_then(start_of).unwrap_or(0);
        Self { start: start / size * size, size }
    }

    /// The piece with this byte.
    pub fn at(self, offset: u64) -> Self {
        Self { start: offset / self.size * self.size, size: self.size }
    }

    /// `$slice_range`
    pub fn write(self, out: &mut Vec<u8>) {
        let last = self.start.saturating_add(self.size - 1);
        out.extend_from_slice(format!("bytes={}-{last}", self.start).as_bytes());
    }

    /// Reads the `Content-Range` of a response that is to be this piece. Gives the bytes that it has, and those of the whole.
    pub fn check(self, content_range: Option<&[u8]>) -> Result<(Range<u64>, u64), SliceFault> {
        let text = content_range.and_then(|value| std::str::from_utf8(value).ok()).ok_or(SliceFault::Unreadable)?;
        let (found, complete) = text
            .trim()
            .strip_prefix("bytes ")
            .and_then(|text| text.split_once('/'))
            .and_then(|(found, complete)| Some((found.trim().split_once('-')?, complete.trim())))
            .ok_or(SliceFault::Unreadable)?;
        let (start, last) =
            (number(found.0).ok_or(SliceFault::Unreadable)?, number(found.1).ok_or(SliceFault::Unreadable)?);
        let end = last.checked_add(1).filter(|end| *end > start).ok_or(SliceFault::Unreadable)?;
        if complete == "*" {
            return Err(SliceFault::NoLength);
        }
        let complete = number(complete).ok_or(SliceFault::Unreadable)?;
        if start != self.start || end != self.start.saturating_add(self.size).min(complete) {
            return Err(SliceFault::Other { start, end });
        }
        Ok((start..end, complete))
    }
}

/// Digits and spaces around them.
fn number(text: &str) -> Option<u64> {
    let digits = text.trim();
    if digits.bytes().all(|byte| byte.is_ascii_digit()) { digits.parse().ok() } else { None }
}

/// The first byte of the only range of a `Range` field.
fn start_of(range: &[u8]) -> Option<u64> {
    let (unit, ranges) = range.split_at_checked(6)?;
    if !unit.eq_ignore_ascii_case(b"bytes=") || ranges.contains(&b',') {
        return None;
    }
    let text = std::str::from_utf8(ranges).ok()?.trim_start();
    let digits = text.split(|letter: char| !letter.is_ascii_digit()).next()?;
    digits.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn first_slice_contains_the_requested_byte() {
        let start = |range: &str| Slice::first(10, Some(range.as_bytes()), false).start;
        assert_eq!([start("bytes=0-"), start("bytes=9-12"), start("bytes=25-25"), start("BYTES= 31-")], [0, 0, 20, 30]);
        assert_eq!([start("bytes=-5"), start("bytes=25-26,31-32"), start("items=25-"), start("bytes=")], [0; 4]);
        assert_eq!(start("bytes=99999999999999999999999-"), 0);
        assert_eq!((Slice::first(10, Some(b"bytes=25-"), true).start, Slice::first(10, None, false).start), (0, 0));
        let mut text = Vec::new();
        Slice::first(10, Some(b"bytes=25-"), false).write(&mut text);
        assert_eq!(text, b"bytes=20-29");
    }

    #[test]
    fn only_the_piece_that_was_asked_for_will_do() {
        let check = |text: &str| Slice { start: 10, size: 10 }.check(Some(text.as_bytes()));
        assert_eq!(check("bytes 10-19/100"), Ok((10..20, 100)));
        assert_eq!(check("bytes 10-14/15"), Ok((10..15, 15)), "the last one");
        assert_eq!(check("bytes 10-14/100"), Err(SliceFault::Other { start: 10, end: 15 }));
        assert_eq!(check("bytes 0-9/100"), Err(SliceFault::Other { start: 0, end: 10 }));
        assert_eq!(check("bytes 10-19/*"), Err(SliceFault::NoLength));
        for text in ["", "bytes", "bytes 10-19", "bytes */100", "bytes 19-10/100", "items 10-19/100", "bytes +1-9/10"] {
            assert_eq!(check(text), Err(SliceFault::Unreadable), "{text}");
        }
        assert_eq!(Slice { start: 0, size: 1 }.check(None), Err(SliceFault::Unreadable));
    }

    proptest! {
        #[test]
        fn any_fields_are_read_without_panic(
            text in prop::collection::vec(any::<u8>(), 0..60), start in any::<u64>(), size in 1..u64::MAX,
        ) {
            let first = Slice::first(size, Some(&text), false);
            prop_assert_eq!(first.start % size, 0);
            let slice = Slice { start, size }.at(start);
            let mut out = Vec::new();
            slice.write(&mut out);
            let _ = slice.check(Some(&text));
            let mut said = b"bytes ".to_vec();
            said.extend_from_slice(&text);
            let _ = slice.check(Some(&said));
        }
    }
}
