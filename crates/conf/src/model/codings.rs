//! `brotli` and `zstd`, in the words of their nginx modules.

use super::files::parse_buffers;
use super::gzip::{MediaTypes, ReadyMade, edit_types};
use super::settings::{At, settings};
use crate::diagnostic::Diagnostic;
use crate::source::Span;
use crate::tree::Word;
use crate::value::Parsed;
use crate::value::plain::{parse_flag, parse_in_range};
use crate::value::size::{Buffers, parse_size};

/// Highest level of brotli while a response is sent. An encoder of level 7 holds 8 MB of tables, one of level 9 32 MB,
/// and levels 10 and 11 use a much slower search.
pub const BROTLI_LEVEL_MAX: u8 = 6;

/// Largest window of brotli as a power of two: the encoder holds twice as much.
pub const BROTLI_WINDOW_MAX: u8 = 19;

/// Highest level of zstd while a response is sent. Above it an encoder holds 6 MB and more, and a block of 128 KB takes
/// more than 3 ms.
pub const ZSTD_LEVEL_MAX: u8 = 6;

settings! {
    /// Compression with brotli.
    pub struct BrotliSettings {
        /// Whether responses are compressed.
        on: bool = false, "brotli" => value(parse_flag);
        /// Media types that are compressed.
        types: MediaTypes = MediaTypes::Some(vec![b"text/html".to_vec()]), "brotli_types" => edit(edit_types);
        /// A response with a shorter Content-Length is not compressed.
        length_min: u64 = 20, "brotli_min_length" => value(parse_size);
        /// Compression level, 0 to [`BROTLI_LEVEL_MAX`].
        level: u8 = BROTLI_LEVEL_MAX, "brotli_comp_level" => whole(parse_brotli_level);
        /// The window, as a power of two.
        window: u8 = BROTLI_WINDOW_MAX, "brotli_window" => whole(parse_window);
        /// Buffers of the encoder.
        buffers: Buffers = Buffers { count: 32, size: 4 << 10 }, "brotli_buffers" => whole(parse_buffers);
        /// Whether a ready-made `.br` file is sent.
        ready_made: ReadyMade = ReadyMade::Off, "brotli_static" => choice(&[
            ("off", ReadyMade::Off), ("on", ReadyMade::On), ("always", ReadyMade::Always)]);
    }
}

settings! {
    /// Compression with zstd.
    pub struct ZstdSettings {
        /// Where compression is switched on; `None` if it is off.
        on: Option<Span> = None, "zstd" => whole(parse_zstd);
        /// Media types that are compressed.
        types: MediaTypes = MediaTypes::Some(vec![b"text/html".to_vec()]), "zstd_types" => edit(edit_types);
        /// A response with a shorter Content-Length is not compressed.
        length_min: u64 = 20, "zstd_min_length" => value(parse_size);
        /// Compression level, 1 to [`ZSTD_LEVEL_MAX`].
        level: u8 = 1, "zstd_comp_level" => whole(parse_zstd_level);
        /// Buffers of the encoder.
        buffers: Buffers = Buffers { count: 32, size: 4 << 10 }, "zstd_buffers" => whole(parse_buffers);
        /// Whether a ready-made `.zst` file is sent.
        ready_made: ReadyMade = ReadyMade::Off, "zstd_static" => choice(&[
            ("off", ReadyMade::Off), ("on", ReadyMade::On), ("always", ReadyMade::Always)]);
    }
}

fn parse_zstd(at: &mut At<'_>) -> Parsed<Option<Span>> {
    let word = at.word(0)?;
    Ok(parse_flag(at.name, word)?.then_some(word.span))
}

fn parse_brotli_level(at: &mut At<'_>) -> Parsed<u8> {
    let word = at.word(0)?;
    let level = parse_in_range(at.name, word, 0, 11)? as u8;
    Ok(at_most(at, word, level, BROTLI_LEVEL_MAX))
}

fn parse_zstd_level(at: &mut At<'_>) -> Parsed<u8> {
    let word = at.word(0)?;
    let level = parse_in_range(at.name, word, 1, 22)? as u8;
    Ok(at_most(at, word, level, ZSTD_LEVEL_MAX))
}

fn at_most(at: &mut At<'_>, word: &Word, level: u8, most: u8) -> u8 {
    if level > most {
        let message = format!("\"{}\" {level} counts as {most}", at.name);
        let hint = "higher levels take too much memory and time while a response is sent: compress files beforehand, \
                    and send them with `brotli_static` or `zstd_static`";
        at.out.push(Diagnostic::warning(word.span, message).with_hint(hint));
    }
    level.min(most)
}

fn parse_window(at: &mut At<'_>) -> Parsed<u8> {
    let word = at.word(0)?;
    let size = parse_size(at.name, word)?;
    if !size.is_power_of_two() || !(1 << 10..=16 << 20).contains(&size) {
        let message = format!("\"{}\" directive must be a power of two from 1k to 16m", at.name);
        return Err(Diagnostic::error(word.span, message).with_hint("512k is the default"));
    }
    let window = size.trailing_zeros() as u8;
    if window > BROTLI_WINDOW_MAX {
        let message = format!("\"{}\" {} counts as 512k", at.name, word.text());
        let hint = "each response that is compressed holds twice its window in memory";
        at.out.push(Diagnostic::warning(word.span, message).with_hint(hint));
    }
    Ok(window.min(BROTLI_WINDOW_MAX))
}
