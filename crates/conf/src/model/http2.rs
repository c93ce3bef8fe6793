//! HTTP/2 of a server. Settings that concern a response are in `client`.

use super::settings::settings;
use crate::diagnostic::Diagnostic;
use crate::tree::Word;
use crate::value::Parsed;
use crate::value::plain::{parse_flag, parse_number, parse_u32};
use crate::value::size::parse_size;

/// The greatest window of HTTP/2 (RFC 9113 §6.9.1).
const WINDOW_MAX: u64 = (1 << 31) - 1;
/// The greatest frame that HTTP/2 can have (RFC 9113 §4.2).
const FRAME_MAX: u64 = (1 << 24) - 1;

settings! {
    /// HTTP/2 of a server.
    pub struct Http2Settings {
        /// Whether HTTP/2 is offered.
        enabled: bool = false, "http2" => value(parse_flag);
        /// Streams of a connection at once.
        max_concurrent_streams: u32 = 128, "http2_max_concurrent_streams" => value(parse_u32);
        /// Bytes of a body that a client may send before the body is read.
        body_preread_size: u32 = 64 << 10, "http2_body_preread_size" => value(parse_preread);
        /// Checked; of no effect here.
        sizes: () = (), "http2_recv_buffer_size" | "http2_pool_size" => value(check_size);
        /// Checked; of no effect here.
        index_size: () = (), "http2_streams_index_size" => value(check_index_size);
        /// Of no effect; like nginx, holdfast does not check their values.
        obsolete: () = (), "http2_max_field_size" | "http2_max_header_size" | "http2_max_requests"
            | "http2_max_concurrent_pushes" | "http2_recv_timeout" | "http2_idle_timeout" => value(check_nothing);
    }
}

fn parse_preread(name: &str, word: &Word) -> Parsed<u32> {
    let size = parse_size(name, word)?;
    if size > WINDOW_MAX {
        let message = format!("the maximum body preread buffer size is {WINDOW_MAX}");
        return Err(Diagnostic::error(word.span, message));
    }
    Ok(size as u32)
}

/// `http2_chunk_size`
pub(super) fn parse_chunk_size(name: &str, word: &Word) -> Parsed<u32> {
    let size = parse_size(name, word)?;
    if size == 0 {
        return Err(Diagnostic::error(word.span, "the http2 chunk size cannot be zero"));
    }
    Ok(size.min(FRAME_MAX) as u32)
}

fn check_size(name: &str, word: &Word) -> Parsed<()> {
    parse_size(name, word).map(drop)
}

fn check_index_size(name: &str, word: &Word) -> Parsed<()> {
    if parse_number(name, word)?.is_power_of_two() {
        return Ok(());
    }
    Err(Diagnostic::error(word.span, format!("\"{name}\" directive must be a power of two")))
}

/// The value of a directive that nginx ignores.
#[allow(clippy::unnecessary_wraps, reason = "as the other checks")]
pub(super) fn check_nothing(_name: &str, _word: &Word) -> Parsed<()> {
    Ok(())
}
