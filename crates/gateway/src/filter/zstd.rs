//! The encoder of zstd, in builds with the feature `zstd`. Its memory is bounded by its level and its window; it works in
//! blocks of 128 KB, which take it up to 3 ms at level 6.

use crate::filter::compress::{Boundary, Coder};
use std::{fmt, io};
use zstd_safe::zstd_sys::ZSTD_EndDirective;
use zstd_safe::{CCtx, CParameter, InBuffer, OutBuffer};

/// Bytes of output that are taken out of the encoder at once.
const OUT_BYTES: usize = 16 * 1024;

/// Smallest window, as a power of two.
const WINDOW_MIN: u8 = 10;

/// An encoder of one response.
pub(crate) struct Zstd {
    encoder: CCtx<'static>,
    own_bytes: usize,
}

impl fmt::Debug for Zstd {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "Zstd({} bytes)", self.own_bytes)
    }
}

/// The window for a body of this length, if the length is known: a window beyond the body has no use.
fn window_for(largest: u8, length: Option<u64>) -> u8 {
    let enough =
        length.map_or(largest, |length| length.checked_next_power_of_two().map_or(64, u64::trailing_zeros) as u8);
    enough.min(largest).max(WINDOW_MIN)
}

/// Memory of an encoder, in bytes: its window and its tables. The test below compares it with what an encoder holds.
pub(crate) fn zstd_bytes(level: u8, largest: u8, length: Option<u64>) -> usize {
    let tables = match level {
        0 | 1 => 900,
        2 => 1100,
        3 => 1600,
        _ => 3400,
    };
    (1 << window_for(largest, length)) + tables * 1024
}

fn failed(code: zstd_safe::ErrorCode) -> io::Error {
    io::Error::other(zstd_safe::get_error_name(code))
}

impl Zstd {
    /// `level`: 1 to 6; `largest`: the largest window as a power of two; `length`: of the body, if it is known.
    pub(crate) fn new(level: u8, largest: u8, length: Option<u64>) -> io::Result<Self> {
        let mut encoder = CCtx::try_create().ok_or(io::ErrorKind::OutOfMemory)?;
        let window = u32::from(window_for(largest, length));
        for parameter in [CParameter::CompressionLevel(i32::from(level)), CParameter::WindowLog(window)] {
            encoder.set_parameter(parameter).map_err(failed)?;
        }
        Ok(Self { encoder, own_bytes: zstd_bytes(level, largest, length) })
    }
}

impl Coder for Zstd {
    fn code(&mut self, piece: &[u8], boundary: Boundary, out: &mut Vec<u8>) -> io::Result<()> {
        let directive = match boundary {
            Boundary::Within => ZSTD_EndDirective::ZSTD_e_continue,
            Boundary::Flush => ZSTD_EndDirective::ZSTD_e_flush,
            Boundary::Last => ZSTD_EndDirective::ZSTD_e_end,
        };
        let mut input = InBuffer::around(piece);
        loop {
            let begin = out.len();
            out.resize(begin + OUT_BYTES, 0);
            let (left, given) = {
                let mut output = OutBuffer::around(&mut out[begin..]);
                let left = self.encoder.compress_stream2(&mut output, &mut input, directive).map_err(failed)?;
                (left, output.pos())
            };
            out.truncate(begin + given);
            let is_flushed = left == 0 || boundary == Boundary::Within;
            if input.pos() == piece.len() && is_flushed && given < OUT_BYTES {
                return Ok(());
            }
        }
    }

    fn own_bytes(&self) -> usize {
        self.own_bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use conf::model::ZSTD_LEVEL_MAX;

    fn body() -> Vec<u8> {
        (0..1_000_000_u64).map(|at| (at * at % 251 / 9) as u8 + b'a').collect()
    }

    #[test]
    fn zstd_round_trip_keeps_the_bytes_and_the_memory_limit() {
        let body = body();
        for level in 1..=ZSTD_LEVEL_MAX {
            for length in [None, Some(body.len() as u64), Some(1_000), Some(0)] {
                for (boundary, size) in [(Boundary::Within, 16_384), (Boundary::Flush, 50_000)] {
                    let whole = &body[..length.map_or(body.len(), |length| length as usize)];
                    let (mut zstd, mut packed) = (Zstd::new(level, 19, length).unwrap(), Vec::new());
                    for piece in whole.chunks(size) {
                        let before = packed.len();
                        zstd.code(piece, boundary, &mut packed).unwrap();
                        assert!(boundary == Boundary::Within || packed.len() > before);
                    }
                    zstd.code(b"", Boundary::Last, &mut packed).unwrap();
                    let mut out = vec![0; whole.len() + 1];
                    let count = zstd_safe::decompress(&mut out[..], &packed).unwrap();
                    assert!(out[..count] == *whole);
                    let held = zstd.encoder.sizeof();
                    assert!(held <= zstd.own_bytes(), "level {level}, length {length:?}: {held}");
                }
            }
        }
    }
}
