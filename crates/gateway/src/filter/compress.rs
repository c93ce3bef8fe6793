//! Compresses a response body: what all codings share, and gzip. The exchange decides which responses, and `downstream`
//! frames the output. Memory is bounded: the compressor's own, and the output of one piece.

use crate::plan::filters::Coding;
use flate2::Compression;
use flate2::write::GzEncoder;
use std::fmt;
use std::io::{self, Write as _};

/// Memory of a compressor: its window, its tables and the bytes that wait in it. 264 KB at zlib's usual settings, and
/// the crate's buffer of 32 KB; counted against `memory_budget`.
pub(crate) const GZIP_BYTES: usize = 300 * 1024;

/// Bytes of a body that are compressed before other tasks of the worker get their turn: at 20 to 100 MB a second,
/// depending on the level, a millisecond or less.
pub(crate) const GZIP_TURN_BYTES: usize = 16 * 1024;

/// Where a piece of a body ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Boundary {
    /// The encoder may keep bytes back.
    Within,
    /// The client can unpack everything so far.
    Flush,
    /// Nothing follows.
    Last,
}

/// An encoder of one body.
pub(crate) trait Coder: fmt::Debug {
    /// Takes a piece and appends finished bytes.
    fn code(&mut self, piece: &[u8], boundary: Boundary, out: &mut Vec<u8>) -> io::Result<()>;

    /// Bytes of memory that it may hold.
    fn own_bytes(&self) -> usize;
}

/// The compressor of one response.
#[derive(Debug)]
pub(crate) struct Packer {
    coding: Coding,
    coder: Box<dyn Coder>,
    /// Each piece is flushed at once, at the cost of compression.
    flushes: bool,
    /// The buffer for the next output.
    spare: Vec<u8>,
    pub(crate) bytes_in: u64,
    bytes_out: u64,
}

impl Packer {
    pub(crate) fn new(coding: Coding, coder: Box<dyn Coder>, flushes: bool) -> Self {
        Self { coding, coder, flushes, spare: Vec::new(), bytes_in: 0, bytes_out: 0 }
    }

    /// Compresses a piece of the body. Returns the finished bytes in a buffer that the caller returns by
    /// [`Self::give_back`]. `last`: nothing follows.
    pub(crate) fn compress(&mut self, piece: &[u8], last: bool) -> io::Result<Vec<u8>> {
        let boundary = match last {
            true => Boundary::Last,
            false if self.flushes && !piece.is_empty() => Boundary::Flush,
            false => Boundary::Within,
        };
        self.code(piece, boundary)
    }

    /// Flushes everything taken so far, for a body that breaks off: the client can then unpack all bytes that had come.
    pub(crate) fn break_off(&mut self) -> io::Result<Vec<u8>> {
        self.code(b"", Boundary::Flush)
    }

    fn code(&mut self, piece: &[u8], boundary: Boundary) -> io::Result<Vec<u8>> {
        self.bytes_in += piece.len() as u64;
        let mut out = std::mem::take(&mut self.spare);
        self.coder.code(piece, boundary, &mut out)?;
        self.bytes_out += out.len() as u64;
        Ok(out)
    }

    /// Gives the buffer back for the next piece.
    pub(crate) fn give_back(&mut self, mut buffer: Vec<u8>) {
        buffer.clear();
        if self.spare.is_empty() {
            self.spare = buffer;
        }
    }

    /// How many times smaller the body has become with this coding.
    pub(crate) fn ratio(&self, coding: Coding) -> Option<String> {
        if coding == self.coding { rules::gzip::ratio(self.bytes_in, self.bytes_out) } else { None }
    }

    /// Bytes of memory that it holds.
    pub(crate) fn held_bytes(&self) -> usize {
        self.coder.own_bytes() + self.spare.capacity()
    }
}

/// The encoder of gzip.
pub(crate) struct Gzip(GzEncoder<Vec<u8>>);

impl fmt::Debug for Gzip {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("Gzip")
    }
}

impl Gzip {
    /// `level`: 1 to 9.
    pub(crate) fn new(level: u8) -> Self {
        Self(GzEncoder::new(Vec::new(), Compression::new(u32::from(level))))
    }

    fn take(&mut self, piece: &[u8], boundary: Boundary) -> io::Result<()> {
        self.0.write_all(piece)?;
        match boundary {
            Boundary::Within => Ok(()),
            Boundary::Flush => self.0.flush(),
            Boundary::Last => self.0.try_finish(),
        }
    }
}

impl Coder for Gzip {
    fn code(&mut self, piece: &[u8], boundary: Boundary, out: &mut Vec<u8>) -> io::Result<()> {
        std::mem::swap(self.0.get_mut(), out);
        let taken = self.take(piece, boundary);
        std::mem::swap(self.0.get_mut(), out);
        taken
    }

    fn own_bytes(&self) -> usize {
        GZIP_BYTES
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read as _;

    fn unpacked(bytes: &[u8]) -> Vec<u8> {
        let mut out = Vec::new();
        flate2::read::GzDecoder::new(bytes).read_to_end(&mut out).unwrap();
        out
    }

    #[test]
    fn pieces_come_out_as_they_went_in() {
        for flushes in [false, true] {
            let mut gzip = Packer::new(Coding::Gzip, Box::new(Gzip::new(1)), flushes);
            let mut packed = Vec::new();
            let body: Vec<u8> = (0..100_000_u64).map(|at| (at * at % 251) as u8).collect();
            for piece in body.chunks(7_777) {
                let out = gzip.compress(piece, false).unwrap();
                assert!(!flushes || !out.is_empty());
                packed.extend_from_slice(&out);
                gzip.give_back(out);
            }
            packed.extend_from_slice(&gzip.compress(&[], true).unwrap());
            assert!(unpacked(&packed) == body);
            assert_eq!((gzip.bytes_in, gzip.bytes_out), (body.len() as u64, packed.len() as u64));
        }
    }

    #[test]
    fn what_breaks_off_can_be_unpacked_as_far_as_it_came() {
        let mut gzip = Packer::new(Coding::Gzip, Box::new(Gzip::new(6)), false);
        let mut packed = gzip.compress(b"as far as it came", false).unwrap();
        packed.extend_from_slice(&gzip.break_off().unwrap());
        let mut out = [0; 100];
        let mut unpacking = flate2::read::GzDecoder::new(&packed[..]);
        let count = unpacking.read(&mut out).unwrap();
        assert_eq!(&out[..count], b"as far as it came");
        assert!(unpacking.read(&mut out).is_err(), "it does not look whole");
    }
}
