//! Which bytes of a file are sent: all, one range, or several ranges with separators (`multipart/byteranges`, RFC 9110
//! section 14.6). Bytes are counted and framed here, not read.

use smallvec::{SmallVec, smallvec};
use std::ops::Range;

/// Parts of a file, in order.
#[derive(Debug)]
pub(crate) struct FileParts {
    pub(crate) parts: SmallVec<[FilePart; 1]>,
    /// The bytes after the last part.
    pub(crate) after: Vec<u8>,
    /// The separator of several parts.
    boundary: Option<String>,
}

/// A part, with the bytes before it.
#[derive(Debug)]
pub(crate) struct FilePart {
    pub(crate) before: Vec<u8>,
    pub(crate) range: Range<u64>,
}

impl FileParts {
    /// A file of this size.
    pub(crate) fn whole(size: u64) -> Self {
        Self::one(0..size)
    }

    /// One part.
    pub(crate) fn one(range: Range<u64>) -> Self {
        Self { parts: smallvec![FilePart { before: Vec::new(), range }], after: Vec::new(), boundary: None }
    }

    /// Several parts of a file of this size and type. `unique` makes the boundary, which no part may contain.
    pub(crate) fn several(ranges: &[Range<u64>], size: u64, media: &[u8], unique: u64) -> Self {
        let boundary = format!("{unique:020}");
        let part = |range: &Range<u64>| {
            let mut before = format!("\r\n--{boundary}\r\n").into_bytes();
            if !media.is_empty() {
                before.extend_from_slice(b"Content-Type: ");
                before.extend_from_slice(media);
                before.extend_from_slice(b"\r\n");
            }
            let place = format!("Content-Range: bytes {}-{}/{size}\r\n\r\n", range.start, range.end - 1);
            before.extend_from_slice(place.as_bytes());
            FilePart { before, range: range.clone() }
        };
        let after = format!("\r\n--{boundary}--\r\n").into_bytes();
        Self { parts: ranges.iter().map(part).collect(), after, boundary: Some(boundary) }
    }

    /// The range, if it is the only one with nothing around it.
    pub(crate) fn single(&self) -> Option<&Range<u64>> {
        match &self.parts[..] {
            [part] if self.boundary.is_none() => Some(&part.range),
            _ => None,
        }
    }

    /// Total length in bytes.
    pub(crate) fn length(&self) -> u64 {
        let part = |part: &FilePart| part.before.len() as u64 + (part.range.end - part.range.start);
        self.parts.iter().map(part).sum::<u64>() + self.after.len() as u64
    }

    /// The content type of the response.
    pub(crate) fn content_type(&self, media: &[u8]) -> Box<[u8]> {
        match &self.boundary {
            None => media.into(),
            Some(boundary) => format!("multipart/byteranges; boundary={boundary}").into_bytes().into(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn several_parts_are_framed_and_counted() {
        let parts = FileParts::several(&[0..2, 5..9], 10, b"text/html", 7);
        let before = "\r\n--00000000000000000007\r\nContent-Type: text/html\r\nContent-Range: bytes 5-8/10\r\n\r\n";
        assert_eq!(String::from_utf8_lossy(&parts.parts[1].before), before);
        assert_eq!(parts.after, b"\r\n--00000000000000000007--\r\n");
        assert_eq!(parts.length(), 2 * before.len() as u64 + 2 + 4 + parts.after.len() as u64);
        let media = parts.content_type(b"text/html");
        assert_eq!(&*media, b"multipart/byteranges; boundary=00000000000000000007");
        assert_eq!((parts.single(), FileParts::whole(3).single()), (None, Some(&(0..3))));
    }
}
