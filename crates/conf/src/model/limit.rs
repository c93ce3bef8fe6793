//! Limits of requests and connections by key: `limit_req`, `limit_conn` and their zones.

use super::env::ZoneKind;
use super::settings::{At, settings};
use crate::diagnostic::Diagnostic;
use crate::source::Span;
use crate::tree::{Directive, Word};
use crate::value::plain::{parse_flag, parse_in_range};
use crate::value::size::{bytes, number};
use crate::value::words::LogLevel;
use crate::value::{Parsed, Template, invalid_parameter, parameter};

/// Index into `Http::request_zones` or `Http::connection_zones`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct ZoneId(pub u32);

/// One `limit_req_zone`.
#[derive(Debug, Clone, PartialEq)]
pub struct RequestZone {
    /// Its name.
    pub name: String,
    /// The key to count by; requests with an empty key are not counted.
    pub key: Template,
    /// Bytes for the states of all keys.
    pub size: u64,
    /// Thousandths of a request per second.
    pub rate_milli: u64,
    /// Where it was written.
    pub span: Span,
}

/// One `limit_conn_zone`.
#[derive(Debug, Clone, PartialEq)]
pub struct ConnectionZone {
    /// Its name.
    pub name: String,
    /// The key to count by; requests with an empty key are not counted.
    pub key: Template,
    /// Bytes for the states of all keys.
    pub size: u64,
    /// Where it was written.
    pub span: Span,
}

/// One `limit_req`.
#[derive(Debug, Clone, PartialEq)]
pub struct RequestLimit {
    /// The zone that counts.
    pub zone: ZoneId,
    /// Requests above the rate that are accepted.
    pub burst: u32,
    /// How many of these pass without delay; `u32::MAX` for `nodelay`.
    pub delay: u32,
}

/// One `limit_conn`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ConnectionLimit {
    /// The zone that counts.
    pub zone: ZoneId,
    /// Connections of one key at most.
    pub most: u32,
}

settings! {
    /// Limits of a location.
    pub struct LimitSettings {
        /// Requests per time.
        requests: Vec<RequestLimit> = Vec::new(), "limit_req" => item(parse_limit_req);
        /// Status of a refused request.
        request_status: u16 = 503, "limit_req_status" => value(parse_status);
        /// Level of the log line; a delay is logged one level lower.
        request_log_level: LogLevel = LogLevel::Error, "limit_req_log_level" => value(LogLevel::parse_limit);
        /// Whether the limit only counts and logs.
        request_dry_run: bool = false, "limit_req_dry_run" => value(parse_flag);
        /// Connections.
        connections: Vec<ConnectionLimit> = Vec::new(), "limit_conn" => edit(edit_limit_conn);
        /// Status of a refused request.
        connection_status: u16 = 503, "limit_conn_status" => value(parse_status);
        /// Level of the log line.
        connection_log_level: LogLevel = LogLevel::Error, "limit_conn_log_level" => value(LogLevel::parse_limit);
        /// Whether the limit only counts and logs.
        connection_dry_run: bool = false, "limit_conn_dry_run" => value(parse_flag);
    }
}

fn parse_status(name: &str, word: &Word) -> Parsed<u16> {
    parse_in_range(name, word, 400, 599).map(|status| status as u16)
}

fn resolve_zone(at: &At<'_>, name: &Word, kind: ZoneKind) -> Parsed<ZoneId> {
    match at.env.zones.get(&*name.value) {
        Some(&(known, id, _)) if known == kind => Ok(id),
        Some(&(_, _, span)) => {
            let text = name.text();
            let message = format!("the shared memory zone \"{text}\" is already declared for a different use");
            Err(Diagnostic::error(name.span, message).with_related(span, "defined here"))
        }
        None => {
            let directive = if kind == ZoneKind::Requests { "limit_req_zone" } else { "limit_conn_zone" };
            let message = format!("zero size shared memory zone \"{}\"", name.text());
            let hint = format!("define it in `{}` with `{directive}`", at.env.block);
            Err(Diagnostic::error(name.span, message).with_hint(hint))
        }
    }
}

fn parse_limit_req(at: &mut At<'_>) -> Parsed<RequestLimit> {
    let (mut zone, mut burst, mut delay) = (None, 0, 0);
    for word in at.words() {
        let count = |value: &Word, what: &str| {
            let value = number(&value.value).and_then(|count| u32::try_from(count).ok()).filter(|&count| count > 0);
            value.ok_or_else(|| Diagnostic::error(word.span, format!("invalid {what} value \"{}\"", word.text())))
        };
        if let Some(name) = parameter(word, "zone") {
            zone = Some(resolve_zone(at, &name, ZoneKind::Requests)?);
        } else if let Some(value) = parameter(word, "burst") {
            burst = count(&value, "burst")?;
        } else if let Some(value) = parameter(word, "delay") {
            delay = count(&value, "delay")?;
        } else if word.value == b"nodelay" {
            delay = u32::MAX;
        } else {
            return Err(invalid_parameter(word));
        }
    }
    let message = "\"limit_req\" must have \"zone\" parameter";
    let zone = zone.ok_or_else(|| Diagnostic::error(at.directive.span, message))?;
    Ok(RequestLimit { zone, burst, delay })
}

/// nginx keeps counters of connections in 16 bits.
const CONNECTIONS_MAX: u64 = 65_535;

fn edit_limit_conn(limits: &mut Vec<ConnectionLimit>, at: &mut At<'_>) -> Parsed<()> {
    if at.fresh {
        limits.clear();
    }
    let zone = resolve_zone(at, at.word(0)?, ZoneKind::Connections)?;
    let word = at.word(1)?;
    if limits.iter().any(|limit| limit.zone == zone) {
        return Err(Diagnostic::error(at.directive.name.span, "\"limit_conn\" directive is duplicate"));
    }
    let most = number(&word.value).filter(|&most| most > 0);
    let most =
        most.ok_or_else(|| Diagnostic::error(word.span, format!("invalid number of connections \"{}\"", word.text())))?;
    if most > CONNECTIONS_MAX {
        return Err(Diagnostic::error(word.span, "connection limit must be less 65536"));
    }
    limits.push(ConnectionLimit { zone, most: most as u32 });
    Ok(())
}

/// Smallest shared zone that nginx accepts: eight pages.
pub(crate) const ZONE_SIZE_MIN: u64 = 8 * 4096;

/// Reads `zone=name:size`.
pub(crate) fn parse_zone(word: &Word) -> Parsed<(String, u64)> {
    let Some(value) = parameter(word, "zone") else { return Err(invalid_parameter(word)) };
    let invalid =
        || Diagnostic::error(word.span, format!("invalid zone size \"{}\"", word.text())).with_hint("`zone=name:10m`");
    let colon = value.value.iter().position(|&byte| byte == b':').ok_or_else(invalid)?;
    let name = String::from_utf8_lossy(&value.value[..colon]).into_owned();
    let size = bytes(&value.value[colon + 1..], false).ok_or_else(invalid)?;
    if name.is_empty() {
        return Err(Diagnostic::error(word.span, format!("invalid zone name \"{}\"", word.text())));
    }
    if size < ZONE_SIZE_MIN {
        return Err(
            Diagnostic::error(word.span, format!("zone \"{}\" is too small", word.text())).with_hint("at least 32k")
        );
    }
    Ok((name, size))
}

/// Reads a `limit_req_zone`.
pub(crate) fn parse_request_zone(directive: &Directive) -> Parsed<RequestZone> {
    let (key, parameters) = key_and_parameters(directive)?;
    let (mut zone, mut rate_milli) = (None, 1000);
    for word in parameters {
        if parameter(word, "zone").is_some() {
            zone = Some(parse_zone(word)?);
        } else if let Some(rate) = parameter(word, "rate") {
            let (digits, scale) = match rate.value.as_slice() {
                [digits @ .., b'r', b'/', b'm'] => (digits, 60),
                [digits @ .., b'r', b'/', b's'] | digits => (digits, 1),
            };
            let invalid = || {
                Diagnostic::error(word.span, format!("invalid rate \"{}\"", word.text()))
                    .with_hint("`rate=10r/s` or `rate=30r/m`")
            };
            let value = number(digits).filter(|&rate| rate > 0).ok_or_else(invalid)?;
            rate_milli = value.checked_mul(1000).ok_or_else(invalid)? / scale;
        } else {
            return Err(invalid_parameter(word));
        }
    }
    let (name, size) = zone.ok_or_else(|| no_zone(directive))?;
    Ok(RequestZone { name, key, size, rate_milli, span: directive.span })
}

/// Reads a `limit_conn_zone`.
pub(crate) fn parse_connection_zone(directive: &Directive) -> Parsed<ConnectionZone> {
    let (key, parameters) = key_and_parameters(directive)?;
    let mut zone = None;
    for word in parameters {
        zone = Some(parse_zone(word)?);
    }
    let (name, size) = zone.ok_or_else(|| no_zone(directive))?;
    Ok(ConnectionZone { name, key, size, span: directive.span })
}

fn key_and_parameters(directive: &Directive) -> Parsed<(Template, &[Word])> {
    let Some((key, parameters)) = directive.args.split_first() else {
        let message = format!("invalid number of arguments in \"{}\" directive", directive.name.text());
        return Err(Diagnostic::error(directive.name.span, message));
    };
    Ok((Template::parse("", key)?, parameters))
}

fn no_zone(directive: &Directive) -> Diagnostic {
    Diagnostic::error(directive.span, format!("\"{}\" must have \"zone\" parameter", directive.name.text()))
}
