//! Directives that have no effect here: they tune tables and caches that holdfast does not have. Their arguments are
//! checked as in nginx, so that `-t` refuses the same mistakes, and then dropped.

use super::files::parse_buffers;
use super::http2::check_nothing;
use super::settings::{At, settings};
use crate::diagnostic::Diagnostic;
use crate::tree::Word;
use crate::value::plain::{parse_choice, parse_flag, parse_number};
use crate::value::size::{bytes, parse_size};
use crate::value::{Parsed, parameter};
use std::ops::RangeInclusive;

settings! {
    /// Directives that were checked and have no effect; no code reads these fields.
    pub struct AcceptedSettings {
        /// How nginx reads files.
        aio: () = (), "aio" => whole(check_aio);
        /// How nginx writes temporary files.
        aio_write: () = (), "aio_write" => value(check_flag);
        /// Whether changes of open files are noticed by kernel events.
        open_file_cache_events: () = (), "open_file_cache_events" => value(check_flag);
        /// Tables of names.
        hash_sizes: () = (), "types_hash_max_size" | "types_hash_bucket_size" | "variables_hash_max_size"
            | "variables_hash_bucket_size" | "map_hash_max_size" | "map_hash_bucket_size" | "referer_hash_max_size"
            | "referer_hash_bucket_size" => value(check_number);
        /// Window of the compressor.
        gzip_window: () = (), "gzip_window" => value(check_gzip_window);
        /// The compressor's table.
        gzip_hash: () = (), "gzip_hash" => value(check_gzip_hash);
        /// Buffers for unpacking.
        gunzip_buffers: () = (), "gunzip_buffers" => whole(check_buffers);
        /// Bytes to collect before compressing.
        postpone_gzipping: () = (), "postpone_gzipping" => value(check_size);
        /// URIs to push over HTTP/2.
        http2_push: () = (), "http2_push" => value(check_nothing);
        /// Whether to push what `Link` names.
        http2_push_preload: () = (), "http2_push_preload" => value(check_nothing);
        /// Memory that nginx's processes share for certificates of ACME.
        acme_zone: () = (), "acme_shared_zone" => value(check_acme_zone);
        /// Which pages with commands are sent from files.
        ssi_min_file_chunk: () = (), "ssi_min_file_chunk" => value(check_size);
        /// How buffers of pages with commands are used again.
        ssi_recycled: () = (), "ssi_ignore_recycled_buffers" => value(check_flag);
        /// Whether the compressor sends at once.
        gzip_no_buffer: () = (), "gzip_no_buffer" => value(check_flag);
    }
}

fn check_buffers(at: &mut At<'_>) -> Parsed<()> {
    parse_buffers(at).map(drop)
}

fn check_flag(name: &str, word: &Word) -> Parsed<()> {
    parse_flag(name, word).map(drop)
}

pub(super) fn check_number(name: &str, word: &Word) -> Parsed<()> {
    parse_number(name, word).map(drop)
}

fn check_size(name: &str, word: &Word) -> Parsed<()> {
    parse_size(name, word).map(drop)
}

fn check_acme_zone(name: &str, word: &Word) -> Parsed<()> {
    let zone = parameter(word, "zone")
        .ok_or_else(|| Diagnostic::error(word.span, format!("\"{name}\" must have \"zone\" parameter")))?;
    let text = zone.text();
    let size =
        text.split_once(':').filter(|(name, _)| !name.is_empty()).and_then(|(_, size)| bytes(size.as_bytes(), false));
    match size {
        Some(_) => Ok(()),
        None => Err(Diagnostic::error(word.span, format!("invalid zone size \"{text}\"")).with_hint("`zone=NAME:1M`")),
    }
}

/// Range of the compressor's window size, a power of two.
const GZIP_WINDOW: RangeInclusive<u64> = 512..=32 << 10;

/// Range of the compressor's table size.
const GZIP_HASH: RangeInclusive<u64> = 512..=128 << 10;

fn check_gzip_window(name: &str, word: &Word) -> Parsed<()> {
    check_power(name, word, &GZIP_WINDOW, "512, 1k, 2k, 4k, 8k, 16k, or 32k")
}

fn check_gzip_hash(name: &str, word: &Word) -> Parsed<()> {
    check_power(name, word, &GZIP_HASH, "512, 1k, 2k, 4k, 8k, 16k, 32k, 64k, or 128k")
}

fn check_power(name: &str, word: &Word, known: &RangeInclusive<u64>, list: &str) -> Parsed<()> {
    let size = parse_size(name, word)?;
    if known.contains(&size) && size.is_power_of_two() {
        return Ok(());
    }
    Err(Diagnostic::error(word.span, format!("\"{name}\" directive must be {list}")))
}

fn check_aio(at: &mut At<'_>) -> Parsed<()> {
    let word = at.word(0)?;
    if word.value == b"threads" || word.value.starts_with(b"threads=") {
        return Ok(());
    }
    parse_choice(word, &[("on", ()), ("off", ()), ("threads", ())])
}
