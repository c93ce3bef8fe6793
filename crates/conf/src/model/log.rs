//! Logs: `access_log`, `error_log`, `log_format` and what belongs to them. Files are opened by the gateway.

use std::time::Duration;

use super::settings::{At, settings};
use crate::diagnostic::Diagnostic;
use crate::source::Span;
use crate::tree::{Directive, Word};
use crate::value::plain::{parse_choice, parse_flag, parse_number};
use crate::value::size::bytes;
use crate::value::time::milliseconds;
use crate::value::words::LogLevel;
use crate::value::{Address, Host, Parsed, Template, address, invalid_parameter, parameter, template};

/// Index into `Http::log_formats`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct LogFormatId(pub u32);

/// How bytes of variables are written into a log line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Escape {
    /// `"`, `\`, and bytes below 32 or above 126 as `\xXX`; an empty variable as `-`.
    Default,
    /// As a JSON string needs it; an empty variable stays empty.
    Json,
    /// As they are.
    None,
}

/// One `log_format`.
#[derive(Debug, Clone, PartialEq)]
pub struct LogFormat {
    /// Its name.
    pub name: String,
    /// How variables are escaped.
    pub escape: Escape,
    /// The line without its newline: the arguments joined.
    pub template: Template,
}

/// Where lines go.
#[derive(Debug, Clone, PartialEq)]
pub enum LogTarget {
    /// A file, relative to the prefix unless absolute. Without variables it is opened at start.
    File(Template),
    /// The standard error stream.
    Stderr,
    /// A syslog server.
    Syslog(Box<Syslog>),
}

/// `syslog:server=…,facility=…`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Syslog {
    /// Where datagrams are sent; port 514 where none was written.
    pub server: Address,
    /// Facility, 0 (`kern`) to 23 (`local7`).
    pub facility: u8,
    /// Severity of access log lines.
    pub severity: LogLevel,
    /// The tag in front of the message.
    pub tag: String,
    /// The `hostname` field is left out.
    pub no_hostname: bool,
}

/// One `access_log`.
#[derive(Debug, Clone, PartialEq)]
pub struct AccessLog {
    /// Where lines go.
    pub target: LogTarget,
    /// Their format.
    pub format: LogFormatId,
    /// Bytes that are collected before they are written; `None` writes each line at once.
    pub buffer: Option<u64>,
    /// Longest time that a line waits in the buffer.
    pub flush: Option<Duration>,
    /// Compression level of `gzip=`, 1 to 9.
    pub gzip: Option<u8>,
    /// A line is written if this gives neither an empty string nor `0`.
    pub condition: Option<Template>,
    /// Where it was written.
    pub span: Span,
}

/// One `error_log`.
#[derive(Debug, Clone, PartialEq)]
pub struct ErrorLog {
    /// Where lines go; a file's name has no variables here.
    pub target: LogTarget,
    /// The least severe level that is written.
    pub level: LogLevel,
    /// Where it was written.
    pub span: Span,
}

/// `open_log_file_cache`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LogFileCache {
    /// Descriptors kept open at most.
    pub files_max: u32,
    /// An unused descriptor is closed after this time.
    pub inactive: Duration,
    /// Uses within `inactive` for a descriptor to be kept.
    pub uses_min: u32,
    /// How often it is checked that the file still has its name.
    pub valid: Duration,
}

settings! {
    /// Logs of a location.
    pub struct LogSettings {
        /// Access logs; an empty list logs nothing. The implied `logs/access.log combined` is in the list.
        access: Vec<AccessLog> = Vec::new(), "access_log" => edit(edit_access_log);
        /// Error logs; none means those of `Main`.
        error: Vec<ErrorLog> = Vec::new(), "error_log" => item(parse_error_log);
        /// Whether a missing file is logged as an error.
        not_found: bool = true, "log_not_found" => value(parse_flag);
        /// Whether subrequests get an access line of their own.
        subrequest: bool = false, "log_subrequest" => value(parse_flag);
        /// Cache of descriptors for logs with variables in their names.
        file_cache: Option<LogFileCache> = None, "open_log_file_cache" => whole(parse_file_cache);
        /// Whether rewrite steps are logged at `notice`.
        rewrite: bool = false, "rewrite_log" => value(parse_flag);
        /// Whether the use of a variable that has no value is logged.
        uninitialized_variables: bool = true, "uninitialized_variable_warn" => value(parse_flag);
        /// A request with this secret gets its phases in the response.
        trace_secret: Option<Vec<u8>> = None, "request_trace_secret" => unless_off(parse_secret);
    }
}

/// nginx collects 64 KB of lines where `flush=` or `gzip` is given without a size.
const BUFFER_DEFAULT: u64 = 64 * 1024;

/// A shorter secret could be guessed.
const SECRET_BYTES_MIN: usize = 16;
/// A field's value that clients and proxies pass on without trouble.
const SECRET_BYTES_MAX: usize = 256;

fn parse_secret(name: &str, word: &Word) -> Parsed<Vec<u8>> {
    let is_sound = word.value.iter().all(u8::is_ascii_graphic) && !template::has_variables(&word.value);
    if !is_sound || !(SECRET_BYTES_MIN..=SECRET_BYTES_MAX).contains(&word.value.len()) {
        let message = format!(
            "the secret of \"{name}\" must have {SECRET_BYTES_MIN} to {SECRET_BYTES_MAX} visible characters of ASCII"
        );
        return Err(Diagnostic::error(word.span, message).with_hint("such as the output of `openssl rand -hex 16`"));
    }
    Ok(word.value.to_vec())
}

fn edit_access_log(logs: &mut Vec<AccessLog>, at: &mut At<'_>) -> Parsed<()> {
    if at.fresh {
        logs.clear();
    }
    let first = at.word(0)?;
    if first.value == b"off" {
        if let Some(second) = at.words().get(1) {
            return Err(invalid_parameter(second));
        }
        logs.clear();
        return Ok(());
    }
    let target = parse_target(first, true, at.name)?;
    let (format, parameters) = match at.words().get(1) {
        Some(word) => (resolve_format(word, at)?, &at.words()[2..]),
        None => (LogFormatId(0), &[][..]),
    };
    let mut log =
        AccessLog { target, format, buffer: None, flush: None, gzip: None, condition: None, span: at.directive.span };
    for word in parameters {
        parse_access_parameter(&mut log, word, at.name)?;
    }
    let buffered = log.buffer.is_some() || log.flush.is_some() || log.gzip.is_some();
    if buffered {
        if !matches!(&log.target, LogTarget::File(path) if path.as_text().is_some()) {
            let message = match log.target {
                LogTarget::Syslog(_) => "logs to syslog cannot be buffered".to_owned(),
                _ => "buffered logs cannot have variables in name".to_owned(),
            };
            return Err(Diagnostic::error(at.directive.span, message));
        }
        if log.flush.is_some() && log.buffer.is_none() && log.gzip.is_none() {
            let message = format!("no buffer is defined for access_log \"{}\"", first.text());
            return Err(Diagnostic::error(at.directive.span, message));
        }
        log.buffer.get_or_insert(BUFFER_DEFAULT);
    }
    logs.push(log);
    Ok(())
}

fn resolve_format(word: &Word, at: &At<'_>) -> Parsed<LogFormatId> {
    let known = at.env.formats.get(&*word.value).filter(|(_, defined_at)| *defined_at <= at.env.position);
    known.map(|&(id, _)| id).ok_or_else(|| {
        let mut names: Vec<_> = at.env.formats.keys().map(|name| String::from_utf8_lossy(name).into_owned()).collect();
        names.sort_unstable();
        let hint = if at.env.formats.contains_key(&*word.value) {
            "the format has to be defined before it is used".to_owned()
        } else {
            format!("formats defined: {}", names.join(", "))
        };
        Diagnostic::error(word.span, format!("unknown log format \"{}\"", word.text())).with_hint(hint)
    })
}

fn parse_access_parameter(log: &mut AccessLog, word: &Word, name: &str) -> Parsed<()> {
    if let Some(size) = parameter(word, "buffer") {
        let size = bytes(&size.value, false).filter(|&size| size > 0);
        log.buffer =
            Some(size.ok_or_else(|| Diagnostic::error(word.span, format!("invalid buffer size \"{}\"", word.text())))?);
    } else if let Some(time) = parameter(word, "flush") {
        let time = milliseconds(&time.value, false).filter(|&time| time > 0).map(Duration::from_millis);
        log.flush =
            Some(time.ok_or_else(|| Diagnostic::error(word.span, format!("invalid flush time \"{}\"", word.text())))?);
    } else if word.value == b"gzip" {
        log.gzip = Some(1);
    } else if let Some(level) = parameter(word, "gzip") {
        let level = parse_number(name, &level).ok().filter(|level| (1..=9).contains(level));
        log.gzip = Some(
            level
                .ok_or_else(|| Diagnostic::error(word.span, format!("invalid compression level \"{}\"", word.text())))?
                as u8,
        );
    } else if let Some(condition) = parameter(word, "if") {
        log.condition = Some(Template::parse(name, &condition)?);
    } else {
        return Err(invalid_parameter(word));
    }
    Ok(())
}

/// Reads an `error_log`; also used by `main`.
pub(crate) fn parse_error_log(at: &mut At<'_>) -> Parsed<ErrorLog> {
    let target = parse_target(at.word(0)?, false, at.name)?;
    let level = match at.words() {
        [] | [_] => LogLevel::Error,
        [_, levels @ ..] => {
            let mut level = None;
            for word in levels {
                let next = LogLevel::parse(at.name, word)?;
                // Several `debug_…` words may appear together; any other level must be alone.
                let kinds = levels.iter().all(|word| word.value.starts_with(b"debug_"));
                if level.is_some() && !kinds {
                    return Err(Diagnostic::error(word.span, format!("duplicate log level \"{}\"", word.text())));
                }
                level = level.max(Some(next));
            }
            level.unwrap_or(LogLevel::Error)
        }
    };
    Ok(ErrorLog { target, level, span: at.directive.span })
}

fn parse_target(word: &Word, variables: bool, name: &str) -> Parsed<LogTarget> {
    if word.value == b"stderr" {
        Ok(LogTarget::Stderr)
    } else if word.value.starts_with(b"syslog:") {
        parse_syslog(word).map(|syslog| LogTarget::Syslog(Box::new(syslog)))
    } else if word.value.starts_with(b"memory:") {
        Err(Diagnostic::error(word.span, "logs to memory are not supported by holdfast")
            .with_hint("write to a file or to `stderr`"))
    } else if variables {
        Template::parse(name, word).map(LogTarget::File)
    } else {
        Ok(LogTarget::File(Template::text(&word.value, word.span)))
    }
}

const FACILITIES: [&str; 24] = [
    "kern", "user", "mail", "daemon", "auth", "intern", "lpr", "news", "uucp", "clock", "authpriv", "ftp", "ntp",
    "audit", "alert", "cron", "local0", "local1", "local2", "local3", "local4", "local5", "local6", "local7",
];
/// `local7`, where none was given.
const FACILITY_DEFAULT: u8 = 23;
/// RFC 3164 limits a tag to 32 characters.
const TAG_MAX: usize = 32;
const SYSLOG_PORT: u16 = 514;

fn parse_syslog(word: &Word) -> Parsed<Syslog> {
    let error = |message: String| Diagnostic::error(word.span, message);
    let text = String::from_utf8_lossy(&word.value[b"syslog:".len()..]).into_owned();
    let mut server = None;
    let mut syslog = Syslog {
        server: Address { host: Host::Unix(String::new()), port: 0 },
        facility: FACILITY_DEFAULT,
        severity: LogLevel::Info,
        tag: "nginx".to_owned(),
        no_hostname: false,
    };
    for part in text.split(',') {
        match part.split_once('=') {
            Some(("server", value)) => {
                let url = address::parse_url(value.as_bytes())
                    .map_err(|reason| error(format!("{reason} in syslog server \"{value}\"")))?;
                let port = if matches!(url.host, Host::Unix(_)) { 0 } else { url.port.unwrap_or(SYSLOG_PORT) };
                if server.replace(Address { host: url.host, port }).is_some() {
                    return Err(error("duplicate syslog \"server\"".to_owned()));
                }
            }
            Some(("facility", value)) => {
                let found = FACILITIES.iter().position(|&facility| facility == value);
                syslog.facility = found.ok_or_else(|| error(format!("unknown syslog facility \"{value}\"")))? as u8;
            }
            Some(("severity", value)) => {
                const SEVERITIES: [(&str, LogLevel); 8] = [
                    ("emerg", LogLevel::Emerg),
                    ("alert", LogLevel::Alert),
                    ("crit", LogLevel::Crit),
                    ("error", LogLevel::Error),
                    ("warn", LogLevel::Warn),
                    ("notice", LogLevel::Notice),
                    ("info", LogLevel::Info),
                    ("debug", LogLevel::Debug),
                ];
                let found = SEVERITIES.iter().find(|(name, _)| *name == value);
                syslog.severity = found.ok_or_else(|| error(format!("unknown syslog severity \"{value}\"")))?.1;
            }
            Some(("tag", value)) => {
                if value.len() > TAG_MAX {
                    return Err(error("syslog tag length exceeds 32".to_owned()));
                }
                if !value.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_') {
                    return Err(error("syslog \"tag\" only allows alphanumeric characters and underscore".to_owned()));
                }
                value.clone_into(&mut syslog.tag);
            }
            None if part == "nohostname" => syslog.no_hostname = true,
            _ => return Err(error(format!("unknown syslog parameter \"{part}\""))),
        }
    }
    syslog.server = server.ok_or_else(|| error("no syslog server specified".to_owned()))?;
    Ok(syslog)
}

fn parse_file_cache(at: &mut At<'_>) -> Parsed<Option<LogFileCache>> {
    if at.word(0)?.value == b"off" {
        return Ok(None);
    }
    let mut cache =
        LogFileCache { files_max: 0, inactive: Duration::from_secs(10), uses_min: 1, valid: Duration::from_mins(1) };
    for word in at.words() {
        let count = |text: &[u8]| {
            crate::value::size::number(text).filter(|&count| count > 0).and_then(|count| u32::try_from(count).ok())
        };
        let time = |text: &[u8]| milliseconds(text, true).map(Duration::from_millis);
        let done = if let Some(value) = parameter(word, "max") {
            count(&value.value).map(|count| cache.files_max = count)
        } else if let Some(value) = parameter(word, "min_uses") {
            count(&value.value).map(|count| cache.uses_min = count)
        } else if let Some(value) = parameter(word, "inactive") {
            time(&value.value).map(|time| cache.inactive = time)
        } else if let Some(value) = parameter(word, "valid") {
            time(&value.value).map(|time| cache.valid = time)
        } else {
            None
        };
        done.ok_or_else(|| {
            Diagnostic::error(word.span, format!("invalid \"open_log_file_cache\" parameter \"{}\"", word.text()))
        })?;
    }
    if cache.files_max == 0 {
        let message = "\"open_log_file_cache\" must have \"max\" parameter";
        return Err(Diagnostic::error(at.directive.span, message));
    }
    Ok(Some(cache))
}

/// Reads a `log_format`.
pub(crate) fn parse_log_format(directive: &Directive) -> Parsed<LogFormat> {
    let Some((name, mut parts)) = directive.args.split_first() else {
        return Err(Diagnostic::error(directive.name.span, "invalid number of arguments in \"log_format\" directive"));
    };
    let mut escape = Escape::Default;
    if let Some(value) = parts.first().and_then(|word| parameter(word, "escape")) {
        let known = [("default", Escape::Default), ("json", Escape::Json), ("none", Escape::None)];
        escape = parse_choice(&value, &known).map_err(|mut error| {
            error.message = format!("unknown log format escaping \"{}\"", value.text());
            error
        })?;
        parts = &parts[1..];
    }
    let mut joined = Template { parts: Vec::new(), span: directive.span };
    for word in parts {
        for part in Template::parse("log_format", word).map_err(|_| invalid_parameter(word))?.parts {
            match (joined.parts.last_mut(), part) {
                (Some(template::Part::Text(text)), template::Part::Text(more)) => text.extend(more),
                (_, part) => joined.parts.push(part),
            }
        }
    }
    Ok(LogFormat { name: name.text().into_owned(), escape, template: joined })
}

/// Reads the level's text back for the implied log.
pub(crate) fn implied_access_log(span: Span) -> AccessLog {
    AccessLog {
        target: LogTarget::File(Template::text(b"logs/access.log", span)),
        format: LogFormatId(0),
        buffer: None,
        flush: None,
        gzip: None,
        condition: None,
        span,
    }
}
