//! `gzip` and its conditions.

use super::files::parse_buffers;
use super::settings::{At, settings};
use crate::tree::Word;
use crate::value::plain::{parse_flag, parse_in_range};
use crate::value::size::{Buffers, parse_size};
use crate::value::words::GzipProxied;
use crate::value::{Parsed, Regex};

/// Least HTTP version of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum HttpVersion {
    /// 1.0
    Http10,
    /// 1.1
    Http11,
    /// 2
    Http2,
}

/// `gzip_static`: when a ready-made `.gz` file is sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReadyMade {
    /// Never.
    Off,
    /// To clients that accept gzip.
    On,
    /// To all clients.
    Always,
}

/// `gzip_disable`.
#[derive(Debug, Clone, PartialEq)]
pub struct GzipDisable {
    /// `msie6`: old MSIE, recognised without an expression.
    pub msie6: bool,
    /// Expressions over `User-Agent`.
    pub agents: Vec<Regex>,
}

/// `gzip_types`, `addition_types`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MediaTypes {
    /// `*`
    All,
    /// These, in lower case; `text/html` is always among them.
    Some(Vec<Vec<u8>>),
}

impl MediaTypes {
    /// Whether a Content-Type, with or without parameters, is one of them.
    pub fn covers(&self, content_type: &[u8]) -> bool {
        let Self::Some(types) = self else { return true };
        let media = content_type.split(|&byte| byte == b';').next().unwrap_or_default().trim_ascii_end();
        !media.is_empty() && types.iter().any(|known| known.eq_ignore_ascii_case(media))
    }
}

settings! {
    /// Compression of a location.
    pub struct GzipSettings {
        /// Whether responses are compressed.
        on: bool = false, "gzip" => value(parse_flag);
        /// Media types that are compressed.
        types: MediaTypes = MediaTypes::Some(vec![b"text/html".to_vec()]), "gzip_types" => edit(edit_types);
        /// A response with a shorter Content-Length is not compressed.
        length_min: u64 = 20, "gzip_min_length" => value(parse_size);
        /// Compression level, 1 to 9.
        level: u8 = 1, "gzip_comp_level" => value(parse_level);
        /// Whether `Vary: Accept-Encoding` is sent.
        vary: bool = false, "gzip_vary" => value(parse_flag);
        /// When requests that came through a proxy get compressed responses.
        proxied: GzipProxied = GzipProxied::OFF, "gzip_proxied" => set(GzipProxied::parse_set);
        /// Least version of the request.
        http_version: HttpVersion = HttpVersion::Http11, "gzip_http_version" => choice(&[
            ("1.0", HttpVersion::Http10), ("1.1", HttpVersion::Http11)]);
        /// Clients that get no compressed responses.
        disable: GzipDisable = GzipDisable { msie6: false, agents: Vec::new() }, "gzip_disable" => edit(edit_disable);
        /// Buffers of the compressor.
        buffers: Buffers = Buffers { count: 32, size: 4 << 10 }, "gzip_buffers" => whole(parse_buffers);
        /// Whether a ready-made `.gz` file is sent.
        ready_made: ReadyMade = ReadyMade::Off, "gzip_static" => choice(&[
            ("off", ReadyMade::Off), ("on", ReadyMade::On), ("always", ReadyMade::Always)]);
        /// Whether a compressed response is unpacked for clients that do not accept gzip.
        gunzip: bool = false, "gunzip" => value(parse_flag);
    }
}

fn parse_level(name: &str, word: &Word) -> Parsed<u8> {
    parse_in_range(name, word, 1, 9).map(|level| level as u8)
}

#[expect(clippy::unnecessary_wraps, reason = "shares the shape of the other edits")]
pub(super) fn edit_types(types: &mut MediaTypes, at: &mut At<'_>) -> Parsed<()> {
    let mut list = match types {
        MediaTypes::Some(list) if !at.fresh => std::mem::take(list),
        _ => vec![b"text/html".to_vec()],
    };
    for word in at.words() {
        if word.value == b"*" {
            *types = MediaTypes::All;
            return Ok(());
        }
        let lower = word.value.to_ascii_lowercase();
        if list.contains(&lower) {
            let message = format!("duplicate MIME type \"{}\"", word.text());
            at.out.push(crate::diagnostic::Diagnostic::warning(word.span, message));
        } else {
            list.push(lower);
        }
    }
    *types = MediaTypes::Some(list);
    Ok(())
}

fn edit_disable(disable: &mut GzipDisable, at: &mut At<'_>) -> Parsed<()> {
    if at.fresh {
        *disable = GzipDisable { msie6: false, agents: Vec::new() };
    }
    for word in at.words() {
        match word.value.as_slice() {
            b"msie6" => disable.msie6 = true,
            b"degradation" => {}
            _ => disable.agents.push(at.env.regex(word, 0, true)?),
        }
    }
    Ok(())
}
