//! The encoder of brotli. Its memory is bounded by its level and its window, and its work by flushing every 64 KB:
//! without that it would collect a window of commands, and encode them in one call.

use crate::filter::compress::{Boundary, Coder};
use brotli::enc::StandardAlloc;
use brotli::enc::encode::{BrotliEncoderOperation, BrotliEncoderParameter, BrotliEncoderStateStruct};
use std::{fmt, io};

/// Bytes after which the encoder is flushed. It works in blocks of this size, which take it up to 4 ms at level 6 and
/// 2 ms at level 4.
const FLUSH_BYTES: usize = 64 * 1024;

/// Bytes of output that are taken out of the encoder at once.
const OUT_BYTES: usize = 16 * 1024;

/// Levels from this on use tables of 34 MB with windows of 64 KB and less, and of 1 or 2 MB with larger ones.
const WIDE_LEVEL: u8 = 5;
const WIDE_WINDOW: u8 = 17;

/// Smallest window, as a power of two.
const WINDOW_MIN: u8 = 10;

/// An encoder of one response.
pub(crate) struct Brotli {
    encoder: BrotliEncoderStateStruct<StandardAlloc>,
    /// Bytes that it took since its last flush.
    unflushed: usize,
    own_bytes: usize,
}

impl fmt::Debug for Brotli {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "Brotli({} bytes)", self.own_bytes)
    }
}

/// The window for a body of this length, if the length is known: a window beyond the body has no use.
fn window_for(level: u8, largest: u8, length: Option<u64>) -> u8 {
    let enough =
        length.map_or(largest, |length| length.checked_next_power_of_two().map_or(64, u64::trailing_zeros) as u8);
    let least = if level >= WIDE_LEVEL { WIDE_WINDOW } else { WINDOW_MIN };
    enough.min(largest).max(least)
}

/// Memory of an encoder, in bytes: the ring, which is twice its window or its block, and its tables.
///
/// Measured with the window of 512 KB, whose ring takes 1 MB: 0.2 MB at levels 0 and 1, 1.6 MB at 2 and 3, 2.5 MB at 4,
/// 3.0 MB at 5, 4.0 MB at 6.
pub(crate) fn brotli_bytes(level: u8, largest: u8, length: Option<u64>) -> usize {
    let window = window_for(level, largest, length);
    let (ring, tables) = match level {
        0 | 1 => (0, 200),
        2 | 3 => (2 << window.max(14), 640),
        4 => (2 << window.max(16), 1600),
        5 => (2 << window.max(16), 2150),
        _ => (2 << window.max(16), 3200),
    };
    ring + tables * 1024
}

impl Brotli {
    /// `level`: 0 to 6; `largest`: the largest window as a power of two; `length`: of the body, if it is known.
    pub(crate) fn new(level: u8, largest: u8, length: Option<u64>) -> Self {
        let mut encoder = BrotliEncoderStateStruct::new(StandardAlloc::default());
        encoder.set_parameter(BrotliEncoderParameter::BROTLI_PARAM_QUALITY, u32::from(level));
        let window = window_for(level, largest, length);
        encoder.set_parameter(BrotliEncoderParameter::BROTLI_PARAM_LGWIN, u32::from(window));
        Self { encoder, unflushed: 0, own_bytes: brotli_bytes(level, largest, length) }
    }

    fn run(&mut self, input: &[u8], operation: BrotliEncoderOperation, out: &mut Vec<u8>) -> io::Result<()> {
        let (mut input_left, mut input_at) = (input.len(), 0);
        loop {
            let begin = out.len();
            out.resize(begin + OUT_BYTES, 0);
            let (mut out_left, mut out_at) = (OUT_BYTES, 0);
            let is_taken = self.encoder.compress_stream(
                operation,
                &mut input_left,
                input,
                &mut input_at,
                &mut out_left,
                &mut out[begin..],
                &mut out_at,
                &mut None,
                &mut |_, _, _, _| (),
            );
            out.truncate(begin + out_at);
            if !is_taken {
                return Err(io::Error::other("the encoder of brotli failed"));
            }
            if input_left == 0 && !self.encoder.has_more_output() {
                return Ok(());
            }
        }
    }
}

impl Coder for Brotli {
    fn code(&mut self, piece: &[u8], boundary: Boundary, out: &mut Vec<u8>) -> io::Result<()> {
        let mut left = piece;
        while self.unflushed + left.len() > FLUSH_BYTES {
            let (first, rest) = left.split_at(FLUSH_BYTES - self.unflushed);
            self.run(first, BrotliEncoderOperation::BROTLI_OPERATION_FLUSH, out)?;
            (left, self.unflushed) = (rest, 0);
        }
        self.unflushed += left.len();
        match boundary {
            Boundary::Within if left.is_empty() => Ok(()),
            Boundary::Within => self.run(left, BrotliEncoderOperation::BROTLI_OPERATION_PROCESS, out),
            Boundary::Flush => {
                self.unflushed = 0;
                self.run(left, BrotliEncoderOperation::BROTLI_OPERATION_FLUSH, out)
            }
            Boundary::Last => self.run(left, BrotliEncoderOperation::BROTLI_OPERATION_FINISH, out),
        }
    }

    fn own_bytes(&self) -> usize {
        self.own_bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use conf::model::{BROTLI_LEVEL_MAX, BROTLI_WINDOW_MAX};

    fn unpacked(bytes: &[u8]) -> Vec<u8> {
        let mut out = Vec::new();
        brotli::BrotliDecompress(&mut &bytes[..], &mut out).unwrap();
        out
    }

    fn body() -> Vec<u8> {
        (0..300_000_u64).map(|at| (at * at % 251 / 9) as u8 + b'a').collect()
    }

    #[test]
    fn brotli_pieces_come_out_as_they_went_in() {
        for (level, window) in [(0, 10), (1, 19), (3, 14), (4, 19), (5, 12), (BROTLI_LEVEL_MAX, BROTLI_WINDOW_MAX)] {
            for (boundary, piece) in [(Boundary::Within, 7_777), (Boundary::Flush, 5_000), (Boundary::Within, 300_000)]
            {
                let (mut brotli, mut packed, body) = (Brotli::new(level, window, None), Vec::new(), body());
                for piece in body.chunks(piece) {
                    let before = packed.len();
                    brotli.code(piece, boundary, &mut packed).unwrap();
                    assert!(boundary == Boundary::Within || packed.len() > before);
                }
                brotli.code(b"", Boundary::Last, &mut packed).unwrap();
                assert!(unpacked(&packed) == body, "{level} {window}");
                assert!(packed.len() < body.len());
            }
        }
    }

    #[test]
    fn an_empty_brotli_body_is_a_whole_one() {
        let mut packed = Vec::new();
        Brotli::new(6, 19, Some(0)).code(b"", Boundary::Last, &mut packed).unwrap();
        assert!(!packed.is_empty());
        assert_eq!(unpacked(&packed), b"");
    }

    #[test]
    fn output_comes_at_least_every_64_kilobytes() {
        let (mut brotli, mut packed) = (Brotli::new(6, 19, None), Vec::new());
        brotli.code(&body()[..=FLUSH_BYTES], Boundary::Within, &mut packed).unwrap();
        assert!(!packed.is_empty());
    }

    #[test]
    fn a_window_is_as_large_as_the_body_and_its_memory_is_known() {
        assert_eq!(window_for(4, 19, None), 19);
        assert_eq!(window_for(4, 19, Some(3000)), 12);
        assert_eq!(window_for(4, 19, Some(0)), WINDOW_MIN);
        assert_eq!(window_for(6, 12, Some(3000)), WIDE_WINDOW);
        assert_eq!(window_for(4, 19, Some(u64::MAX)), 19);
        let most = brotli_bytes(BROTLI_LEVEL_MAX, BROTLI_WINDOW_MAX, None);
        assert!((4 << 20..5 << 20).contains(&most), "{most}");
        assert!(brotli_bytes(4, 19, Some(3000)) < 2 << 20);
    }
}
