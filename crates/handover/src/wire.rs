//! Lengths and bytes: the parts that messages between our own processes consist of.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt as _;
use std::path::PathBuf;

/// Appends a number.
pub fn put_number(out: &mut Vec<u8>, number: u64) {
    out.extend_from_slice(&number.to_le_bytes());
}

/// Appends a number of entries or bytes.
pub fn put_count(out: &mut Vec<u8>, count: usize) {
    put_number(out, count as u64);
}

/// Appends bytes with their length.
pub fn put(out: &mut Vec<u8>, bytes: &[u8]) {
    put_count(out, bytes.len());
    out.extend_from_slice(bytes);
}

/// The rest of an encoded message. Every method returns `None` at the end of the bytes.
#[derive(Debug, Clone)]
pub struct Reader<'a> {
    left: &'a [u8],
}

impl<'a> Reader<'a> {
    /// Reads from the beginning.
    pub fn new(bytes: &'a [u8]) -> Self {
        Self { left: bytes }
    }

    /// Whether everything was read.
    pub fn is_at_end(&self) -> bool {
        self.left.is_empty()
    }

    /// The next number.
    pub fn number(&mut self) -> Option<u64> {
        let (first, rest) = self.left.split_first_chunk()?;
        self.left = rest;
        Some(u64::from_le_bytes(*first))
    }

    /// The next number of entries or bytes.
    pub fn count(&mut self) -> Option<usize> {
        usize::try_from(self.number()?).ok()
    }

    /// The next byte.
    pub fn byte(&mut self) -> Option<u8> {
        let (&first, rest) = self.left.split_first()?;
        self.left = rest;
        Some(first)
    }

    /// The next bytes, of a length that both sides know.
    pub fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (first, rest) = self.left.split_first_chunk()?;
        self.left = rest;
        Some(*first)
    }

    /// The next bytes with their length.
    pub fn bytes(&mut self) -> Option<&'a [u8]> {
        let count = self.count()?;
        let (bytes, rest) = self.left.split_at_checked(count)?;
        self.left = rest;
        Some(bytes)
    }

    /// The next text.
    pub fn string(&mut self) -> Option<String> {
        String::from_utf8(self.bytes()?.to_vec()).ok()
    }

    /// The next path.
    pub fn path(&mut self) -> Option<PathBuf> {
        Some(OsString::from_vec(self.bytes()?.to_vec()).into())
    }

    /// The next list.
    pub fn list<T>(&mut self, mut item: impl FnMut(&mut Self) -> Option<T>) -> Option<Vec<T>> {
        // Counts are not trusted: a wrong one runs into the end of the bytes.
        (0..self.count()?).map(|_| item(self)).collect()
    }
}
