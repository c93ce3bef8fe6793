//! Compresses a response body with gzip. The exchange decides which responses, and `downstream` frames the output.
//! Memory is bounded: the compressor's own, and the output of one piece.

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

/// A compressor of one response.
pub(crate) struct Gzip {
    encoder: GzEncoder<Vec<u8>>,
    /// Each piece is flushed at once, at the cost of compression.
    flushes: bool,
    pub(crate) bytes_in: u64,
    pub(crate) bytes_out: u64,
}

impl fmt::Debug for Gzip {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "Gzip({} -> {})", self.bytes_in, self.bytes_out)
    }
}

impl Gzip {
    /// `level`: 1 to 9.
    pub(crate) fn new(level: u8, flushes: bool) -> Self {
        let encoder = GzEncoder::new(Vec::new(), Compression::new(u32::from(level)));
        Self { encoder, flushes, bytes_in: 0, bytes_out: 0 }
    }

    /// Compresses a piece of the body. Returns the finished bytes in a buffer that the caller returns by
    /// [`Self::give_back`]. `last`: nothing follows.
    pub(crate) fn compress(&mut self, piece: &[u8], last: bool) -> io::Result<Vec<u8>> {
        self.bytes_in += piece.len() as u64;
        self.encoder.write_all(piece)?;
        if last {
            self.encoder.try_finish()?;
        } else if self.flushes && !piece.is_empty() {
            self.encoder.flush()?;
        }
        let out = std::mem::take(self.encoder.get_mut());
        self.bytes_out += out.len() as u64;
        Ok(out)
    }

    /// Flushes everything taken so far, for a body that breaks off: the client can then unpack all bytes that had come.
    pub(crate) fn break_off(&mut self) -> io::Result<Vec<u8>> {
        self.encoder.flush()?;
        let out = std::mem::take(self.encoder.get_mut());
        self.bytes_out += out.len() as u64;
        Ok(out)
    }

    /// Gives the buffer back for the next piece.
    pub(crate) fn give_back(&mut self, mut buffer: Vec<u8>) {
        buffer.clear();
        if self.encoder.get_ref().is_empty() {
            *self.encoder.get_mut() = buffer;
        }
    }

    /// Bytes of memory that it holds.
    pub(crate) fn held_bytes(&self) -> usize {
        GZIP_BYTES + self.encoder.get_ref().capacity()
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
            let mut gzip = Gzip::new(1, flushes);
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
        let mut gzip = Gzip::new(6, false);
        let mut packed = gzip.compress(b"as far as it came", false).unwrap();
        packed.extend_from_slice(&gzip.break_off().unwrap());
        let mut out = [0; 100];
        let mut unpacking = flate2::read::GzDecoder::new(&packed[..]);
        let count = unpacking.read(&mut out).unwrap();
        assert_eq!(&out[..count], b"as far as it came");
        assert!(unpacking.read(&mut out).is_err(), "it does not look whole");
    }
}
