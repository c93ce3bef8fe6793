//! The client side of a location: body, keepalive, rate limits.

use std::time::Duration;

use super::http2::parse_chunk_size;
use super::settings::{At, settings};
use crate::diagnostic::Diagnostic;
use crate::source::Span;
use crate::tree::Word;
use crate::value::plain::{parse_flag, parse_u32};
use crate::value::size::{number, parse_offset, parse_size};
use crate::value::template::has_variables;
use crate::value::time::{milliseconds, parse_milliseconds, parse_seconds};
use crate::value::words::KeepaliveDisable;
use crate::value::{Parsed, Template, directive_invalid, invalid_parameter, invalid_value};

/// A number that may come from a variable.
#[derive(Debug, Clone, PartialEq)]
pub enum Amount {
    /// Known when the configuration is read.
    Fixed(u64),
    /// Evaluated for each request; a value that is not a number counts as 0.
    Template(Template),
}

/// Reads bytes per second.
pub(crate) fn parse_rate(name: &str, word: &Word) -> Parsed<Amount> {
    if has_variables(&word.value) {
        Template::parse(name, word).map(Amount::Template)
    } else {
        parse_size(name, word).map(Amount::Fixed)
    }
}

/// `keepalive_timeout`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KeepaliveTimeout {
    /// An idle connection is closed after this time; zero switches keepalive off.
    pub idle: Duration,
    /// What `Keep-Alive: timeout=` tells the client; `None` sends no such header.
    pub header: Option<Duration>,
}

/// Directory of temporary files.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TempPath {
    /// The directory, relative to the prefix unless absolute.
    pub path: Vec<u8>,
    /// Digits of each level of directories below it; 0 where there is no level.
    pub levels: [u8; 3],
}

impl TempPath {
    pub(crate) fn at(path: &str) -> Self {
        Self { path: path.into(), levels: [0; 3] }
    }
}

/// `client_body_in_file_only`: when a body goes into a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BodyInFile {
    /// Only if it does not fit the buffer.
    Off,
    /// Always, and the file stays.
    On,
    /// Always, and the file is removed.
    Clean,
}

/// `lingering_close`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LingeringClose {
    /// Never read what the client still sends.
    Off,
    /// If the client probably still sends.
    On,
    /// Always.
    Always,
}

/// `resolver`.
#[derive(Debug, Clone, PartialEq)]
pub struct Resolver {
    /// Name servers in order; port 53 where none was written.
    pub servers: Vec<crate::value::Address>,
    /// How long an answer is used, instead of its own time to live.
    pub valid: Option<Duration>,
    /// Whether addresses of IPv4 are looked up.
    pub ipv4: bool,
    /// Whether addresses of IPv6 are looked up.
    pub ipv6: bool,
    /// The zone of `status_zone=`.
    pub status_zone: Option<String>,
    /// Where it was written.
    pub span: Span,
}

settings! {
    /// The client's side of a location.
    pub struct ClientSettings {
        /// Idle time between requests.
        keepalive_timeout: KeepaliveTimeout = KeepaliveTimeout { idle: Duration::from_secs(75), header: None },
            "keepalive_timeout" => whole(parse_keepalive_timeout);
        /// During a graceful stop, an idle connection stays open at least this long.
        keepalive_min_timeout: Duration = Duration::from_secs(5), "keepalive_min_timeout" => value(parse_milliseconds);
        /// Requests of one connection at most.
        keepalive_requests: u32 = 1000, "keepalive_requests" => value(parse_u32);
        /// A connection older than this takes no further request.
        keepalive_time: Duration = Duration::from_hours(1), "keepalive_time" => value(parse_milliseconds);
        /// Bytes of a response body in one frame of HTTP/2 at most.
        http2_chunk_size: u32 = 8 << 10, "http2_chunk_size" => value(parse_chunk_size);
        /// Browsers that get no keepalive.
        keepalive_disable: KeepaliveDisable = KeepaliveDisable::MSIE6, "keepalive_disable" => set(KeepaliveDisable::parse_set);
        /// Bytes of a request body at most; 0 for no limit.
        body_size_max: u64 = 1 << 20, "client_max_body_size" => value(parse_offset);
        /// Bytes of a request body held in memory.
        body_buffer_size: u64 = 16 << 10, "client_body_buffer_size" => value(parse_size);
        /// Longest time between two reads of a body.
        body_timeout: Duration = Duration::from_mins(1), "client_body_timeout" => value(parse_milliseconds);
        /// Directory for bodies that do not fit the buffer.
        body_temp_path: TempPath = TempPath::at("client_body_temp"), "client_body_temp_path" => whole(parse_temp_path);
        /// Whether a body always goes into a file.
        body_in_file: BodyInFile = BodyInFile::Off, "client_body_in_file_only" => choice(&[
            ("off", BodyInFile::Off), ("on", BodyInFile::On), ("clean", BodyInFile::Clean)]);
        /// Whether a body in memory is kept in one piece.
        body_in_single_buffer: bool = false, "client_body_in_single_buffer" => value(parse_flag);
        /// Whether a client that closes its sending side still waits for its response.
        half_close: bool = false, "client_half_close" => value(parse_flag);
        /// Longest time between two writes to the client.
        send_timeout: Duration = Duration::from_mins(1), "send_timeout" => value(parse_milliseconds);
        /// Checked, and of no effect on Linux.
        send_lowat: u64 = 0, "send_lowat" => value(parse_size);
        /// Whether data is read and dropped before closing.
        lingering_close: LingeringClose = LingeringClose::On, "lingering_close" => choice(&[
            ("off", LingeringClose::Off), ("on", LingeringClose::On), ("always", LingeringClose::Always)]);
        /// Longest time of such reading.
        lingering_time: Duration = Duration::from_secs(30), "lingering_time" => value(parse_milliseconds);
        /// Longest silence during it.
        lingering_timeout: Duration = Duration::from_secs(5), "lingering_timeout" => value(parse_milliseconds);
        /// Whether a connection that timed out is reset, which frees its socket at once.
        reset_timedout_connection: bool = false, "reset_timedout_connection" => value(parse_flag);
        /// `TCP_NODELAY`.
        tcp_nodelay: bool = true, "tcp_nodelay" => value(parse_flag);
        /// Whether a response of unknown length may be chunked.
        chunked_transfer_encoding: bool = true, "chunked_transfer_encoding" => value(parse_flag);
        /// Bytes per second to the client; 0 for no limit.
        limit_rate: Amount = Amount::Fixed(0), "limit_rate" => value(parse_rate);
        /// Bytes after which the limit begins.
        limit_rate_after: Amount = Amount::Fixed(0), "limit_rate_after" => value(parse_rate);
        /// Name servers.
        resolver: Option<Resolver> = None, "resolver" => whole(parse_resolver);
        /// Longest time of a name's resolution.
        resolver_timeout: Duration = Duration::from_secs(30), "resolver_timeout" => value(parse_milliseconds);
        /// Silence after which a tunnel is closed; `None` means `proxy_read_timeout`.
        tunnel_timeout: Option<Duration> = None, "tunnel_timeout" => option(parse_milliseconds);
        /// Silence after which the gateway pings both ends of a WebSocket, and where that was written; `None` sends none.
        tunnel_ping: Option<(Duration, Span)> = None, "tunnel_ping" => unless_off(parse_tunnel_ping);
    }
}

fn parse_tunnel_ping(name: &str, word: &Word) -> Parsed<(Duration, Span)> {
    let interval = parse_milliseconds(name, word)?;
    if interval.is_zero() {
        return Err(invalid_value(word).with_hint("a time, such as `30s`, or `off`"));
    }
    Ok((interval, word.span))
}

fn parse_keepalive_timeout(at: &mut At<'_>) -> Parsed<KeepaliveTimeout> {
    let idle = parse_milliseconds(at.name, at.word(0)?)?;
    let header = match at.words().get(1) {
        Some(word) => Some(parse_seconds(at.name, word)?),
        None => None,
    };
    Ok(KeepaliveTimeout { idle, header })
}

/// Most digits of all levels together: nginx's temporary files have names of ten.
const LEVEL_DIGITS_MAX: u8 = 10;

/// Reads a path and up to three levels of directories below it.
pub(crate) fn parse_temp_path(at: &mut At<'_>) -> Parsed<TempPath> {
    let path = at.word(0)?.value.to_vec();
    let mut levels = [0; 3];
    for (level, word) in levels.iter_mut().zip(at.words().iter().skip(1)) {
        let digits = number(&word.value).and_then(|digits| u8::try_from(digits).ok());
        let digits = digits.filter(|digits| (1..=LEVEL_DIGITS_MAX).contains(digits));
        *level = digits.ok_or_else(|| directive_invalid(at.name, word, "value").with_hint(LEVEL_HINT))?;
    }
    if levels.iter().sum::<u8>() > LEVEL_DIGITS_MAX {
        return Err(Diagnostic::error(at.directive.span, format!("\"{}\" directive invalid value", at.name))
            .with_hint(LEVEL_HINT));
    }
    Ok(TempPath { path, levels })
}

const LEVEL_HINT: &str = "up to three numbers of digits of the file's name, ten digits at most: `1 2`";

/// Port of the domain name system.
const DNS_PORT: u16 = 53;

pub(crate) fn parse_resolver(at: &mut At<'_>) -> Parsed<Option<Resolver>> {
    let mut resolver = Resolver {
        servers: Vec::new(),
        valid: None,
        ipv4: true,
        ipv6: true,
        status_zone: None,
        span: at.directive.span,
    };
    for word in at.words() {
        let flag = |value: &[u8]| match value {
            b"on" => Ok(true),
            b"off" => Ok(false),
            _ => Err(invalid_parameter(word)),
        };
        if let Some(valid) = word.value.strip_prefix(b"valid=") {
            resolver.valid =
                Some(milliseconds(valid, true).map(Duration::from_millis).ok_or_else(|| invalid_parameter(word))?);
        } else if let Some(value) = word.value.strip_prefix(b"ipv4=") {
            resolver.ipv4 = flag(value)?;
        } else if let Some(value) = word.value.strip_prefix(b"ipv6=") {
            resolver.ipv6 = flag(value)?;
        } else if let Some(value) = word.value.strip_prefix(b"status_zone=") {
            resolver.status_zone = Some(String::from_utf8_lossy(value).into_owned());
        } else if word.value == b"off" && at.words().len() == 1 {
            return Ok(None);
        } else {
            let url = crate::value::address::parse_url(&word.value)
                .map_err(|reason| Diagnostic::error(word.span, format!("{reason} in resolver \"{}\"", word.text())))?;
            resolver.servers.push(crate::value::Address { host: url.host, port: url.port.unwrap_or(DNS_PORT) });
        }
    }
    if !resolver.ipv4 && !resolver.ipv6 {
        return Err(Diagnostic::error(at.directive.span, "\"ipv4\" and \"ipv6\" cannot both be \"off\""));
    }
    if resolver.servers.is_empty() {
        return Err(Diagnostic::error(at.directive.span, "no name servers defined"));
    }
    Ok(Some(resolver))
}
