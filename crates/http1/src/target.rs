//! The request target (RFC 9112 §3.2) and the host: forms, parts, and which bytes may appear in them. Not normalization:
//! percent-decoding, `%00`, `%zz` and `..` are `rules`' work, on the path found here. `request` calls it.

use std::net::Ipv6Addr;

use crate::error::RequestError;
use crate::method::Method;
use crate::span::Span;

/// The four forms of a target.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Hash)]
pub enum TargetForm {
    /// `/path?query`
    #[default]
    Origin,
    /// `http://host/path?query`
    Absolute,
    /// `host:port`, only for CONNECT, which the gateway refuses: it occurs only with an error.
    Authority,
    /// `*`, of OPTIONS only.
    Asterisk,
}

/// Scheme of an absolute target.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Scheme {
    /// `http`
    Http,
    /// `https`
    Https,
}

/// A request target.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Target {
    /// Its form.
    pub form: TargetForm,
    /// All of it, as sent.
    pub raw: Span,
    /// Of the absolute form.
    pub scheme: Option<Scheme>,
    /// From `/` to before `?`. Empty in an absolute target without path, which means `/`, and in the other two forms.
    pub path: Span,
    /// Without its `?`; `None` where there is no `?`, so that `/a?` and `/a` differ.
    pub query: Option<Span>,
    /// The path has no `%`, no empty segment and no segment that begins with a dot: normalizing it would change nothing.
    pub path_is_plain: bool,
}

/// A host with optional port, syntactically valid (RFC 3986 §3.2.2).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Host {
    /// Name or address, with the brackets of an IPv6 address; never empty in a request that has a host.
    pub name: Span,
    /// The port if one is given.
    pub port: Option<u16>,
    /// Name and port as sent.
    pub raw: Span,
}

const STOP: u8 = 0;
const PLAIN: u8 = 1;
const SLASH: u8 = 2;
const DOT: u8 = 3;
const PERCENT: u8 = 4;
const QUESTION: u8 = 5;

/// The class of each byte in a target. Everything but `#`, spaces and control characters is accepted: RFC 3986 forbids
/// some of it (`"`, `<`, `|`, bytes from 0x80 …), but clients send those raw and nginx passes them on.
static TARGET_CLASS: [u8; 256] = target_classes();

const fn target_classes() -> [u8; 256] {
    let mut classes = [STOP; 256];
    let mut byte = 0x21;
    while byte < 256 {
        classes[byte] = match byte as u8 {
            b'#' | 0x7F => STOP,
            b'/' => SLASH,
            b'.' => DOT,
            b'%' => PERCENT,
            b'?' => QUESTION,
            _ => PLAIN,
        };
        byte += 1;
    }
    classes
}

/// Index of the first byte from `at` that cannot appear in a target, or the length.
#[inline]
fn find_stop(bytes: &[u8], mut at: usize) -> usize {
    while let Some(&byte) = bytes.get(at) {
        if TARGET_CLASS[byte as usize] == STOP {
            break;
        }
        at += 1;
    }
    at
}

/// Path and query from `start`, which holds `/`. Returns them and the index of the byte that stopped the scan.
#[inline]
fn parse_path(bytes: &[u8], start: usize) -> (Target, usize) {
    let mut at = start;
    let mut previous = PLAIN;
    let mut plain = true;
    let class = loop {
        let Some(&byte) = bytes.get(at) else { break STOP };
        let class = TARGET_CLASS[byte as usize];
        match class {
            STOP | QUESTION => break class,
            PERCENT => plain = false,
            SLASH | DOT => plain &= previous != SLASH,
            _ => {}
        }
        previous = class;
        at += 1;
    };
    let path = Span::new(start, at);
    let mut query = None;
    if class == QUESTION {
        let end = find_stop(bytes, at + 1);
        query = Some(Span::new(at + 1, end));
        at = end;
    }
    let target = Target { raw: Span::new(start, at), path, query, path_is_plain: plain, ..Target::default() };
    (target, at)
}

/// Reads the target at `start`, up to the first byte that cannot be part of one; returns the index of that byte.
/// [`finish`] determines the form once that byte is known to be the space after the target.
#[inline]
pub(crate) fn scan(bytes: &[u8], start: usize) -> (Target, usize) {
    if bytes.get(start) == Some(&b'/') {
        return parse_path(bytes, start);
    }
    let end = find_stop(bytes, start);
    (Target { raw: Span::new(start, end), ..Target::default() }, end)
}

/// Determines the form of a scanned target; returns the authority of the absolute form.
#[inline]
pub(crate) fn finish(bytes: &[u8], target: &mut Target, method: Method) -> Result<Option<Host>, RequestError> {
    if method != Method::Connect && !target.path.is_empty() {
        return Ok(None);
    }
    finish_unusual(bytes, target, method)
}

#[cold]
fn finish_unusual(bytes: &[u8], target: &mut Target, method: Method) -> Result<Option<Host>, RequestError> {
    let raw = target.raw.of(bytes);
    if method == Method::Connect {
        let host = parse_host(bytes, target.raw).filter(|host| host.port.is_some());
        target.form = TargetForm::Authority;
        return host.map(|_| None).ok_or(RequestError::InvalidTarget);
    }
    if raw == b"*" {
        target.form = TargetForm::Asterisk;
        return if method == Method::Options { Ok(None) } else { Err(RequestError::InvalidTarget) };
    }
    let scheme_end = memchr::memmem::find(raw, b"://").ok_or(RequestError::InvalidTarget)?;
    let scheme = match raw.get(..scheme_end) {
        Some(scheme) if scheme.eq_ignore_ascii_case(b"http") => Scheme::Http,
        Some(scheme) if scheme.eq_ignore_ascii_case(b"https") => Scheme::Https,
        _ => return Err(RequestError::UnsupportedScheme),
    };
    let (start, end) = (target.raw.start as usize + scheme_end + 3, target.raw.end());
    let rest = bytes.get(start..end).unwrap_or_default();
    let authority_end = start + rest.iter().position(|byte| matches!(byte, b'/' | b'?')).unwrap_or(rest.len());
    let host = parse_host(bytes, Span::new(start, authority_end)).ok_or(RequestError::InvalidHost)?;
    let parts = match bytes.get(authority_end).filter(|_| authority_end < end) {
        Some(b'/') => parse_path(bytes, authority_end).0,
        Some(_) => Target { query: Some(Span::new(authority_end + 1, end)), path_is_plain: true, ..Target::default() },
        None => Target { path_is_plain: true, ..Target::default() },
    };
    *target = Target { form: TargetForm::Absolute, raw: target.raw, scheme: Some(scheme), ..parts };
    Ok(Some(host))
}

/// `host [":" port]` in `raw`; `None` if it is anything else, has user info, or a port above 65535.
pub(crate) fn parse_host(bytes: &[u8], raw: Span) -> Option<Host> {
    let value = raw.of(bytes);
    let name_len = if value.first() == Some(&b'[') { literal_len(value)? } else { name_len(value)? };
    if value.get(..name_len) == Some(b".") {
        // The root alone is no host.
        return None;
    }
    let port = match value.get(name_len..)? {
        [] | [b':'] => None,
        [b':', digits @ ..] => Some(parse_port(digits)?),
        _ => return None,
    };
    let start = raw.start as usize;
    Some(Host { name: Span::new(start, start + name_len), port, raw })
}

/// Length of the bracketed address at the start of `value`: IPv6, or a future kind.
#[cold]
fn literal_len(value: &[u8]) -> Option<usize> {
    let close = memchr::memchr(b']', value)?;
    let inner = value.get(1..close)?;
    let is_ipv6 = std::str::from_utf8(inner).is_ok_and(|address| address.parse::<Ipv6Addr>().is_ok());
    (is_ipv6 || is_future_address(inner)).then_some(close + 1)
}

/// `IPvFuture` of RFC 3986 §3.2.2: `v`, hexadecimal digits, a dot, and a text.
fn is_future_address(inner: &[u8]) -> bool {
    let Some((b'v' | b'V', rest)) = inner.split_first() else { return false };
    let digits = rest.iter().take_while(|byte| byte.is_ascii_hexdigit()).count();
    let text = rest.get(digits..).and_then(|rest| rest.strip_prefix(b".")).unwrap_or_default();
    let is_text = |&byte: &u8| byte == b':' || (byte != b'%' && NAME_BYTE[byte as usize]);
    digits > 0 && !text.is_empty() && text.iter().all(is_text)
}

/// Which bytes a registered name may have: unreserved and sub-delims of RFC 3986 §3.2.2, and `%`.
static NAME_BYTE: [bool; 256] = name_bytes();

const fn name_bytes() -> [bool; 256] {
    let mut allowed = [false; 256];
    let marks = b"-._~%!$&'()*+,;=";
    let mut i = 0;
    while i < marks.len() {
        allowed[marks[i] as usize] = true;
        i += 1;
    }
    let mut byte = 0;
    while byte < 128 {
        if (byte as u8).is_ascii_alphanumeric() {
            allowed[byte] = true;
        }
        byte += 1;
    }
    allowed
}

/// Length of the registered name at the start of `value`: not empty, and, as in nginx, without two dots in a row.
#[inline]
fn name_len(value: &[u8]) -> Option<usize> {
    let mut previous = 0;
    let mut len = 0;
    for &byte in value {
        if byte == b':' {
            break;
        }
        if !NAME_BYTE[byte as usize] || (byte == b'.' && previous == b'.') {
            return None;
        }
        previous = byte;
        len += 1;
    }
    (len > 0).then_some(len)
}

/// One to five digits up to 65535.
#[inline]
fn parse_port(digits: &[u8]) -> Option<u16> {
    let mut port: u32 = 0;
    for &digit in digits {
        if !digit.is_ascii_digit() {
            return None;
        }
        port = port * 10 + (digit - b'0') as u32;
        if port > 65_535 {
            return None;
        }
    }
    Some(port as u16)
}
