//! `otel_exporter`, `otel_trace` and what belongs to them: traces by OpenTelemetry. The words are those of nginx's own
//! module.

use super::env::Env;
use super::settings::{At, Touched, level, settings};
use crate::diagnostic::Diagnostic;
use crate::source::Span;
use crate::tree::{Directive, Word};
use crate::value::plain::parse_text;
use crate::value::size::parse_size;
use crate::value::time::parse_milliseconds;
use crate::value::{Located, Parsed, Template, invalid_value};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::PathBuf;
use std::time::Duration;

/// Most spans of one call: a call of this size has some tens of megabytes, and collectors refuse 4 MB by default.
const BATCH_SIZE_MAX: u64 = 65_536;
/// Most batches that wait.
const BATCH_COUNT_MAX: u64 = 4096;

/// The collector's address.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OtelEndpoint {
    /// `https://`
    pub secure: bool,
    /// A name or an address, without brackets.
    pub host: String,
    /// Its port.
    pub port: u16,
    /// The path of OTLP over HTTP; `None`: gRPC.
    pub path: Option<String>,
}

settings! {
    /// Directives of `otel_exporter`.
    pub struct OtelExporterSettings {
        /// The collector.
        endpoint: Option<OtelEndpoint> = None, "endpoint" => option(parse_endpoint);
        /// Authorities of its certificate; `None` means the system's.
        trusted_certificate: Option<Located<PathBuf>> = None, "trusted_certificate" => option(parse_file);
        /// Fields of every call: the names are in lower case.
        headers: Vec<(String, String)> = Vec::new(), "header" => item(parse_header);
        /// How long a span waits at most.
        interval: Duration = Duration::from_secs(5), "interval" => value(parse_milliseconds);
        /// Most spans of one call.
        batch_size: u64 = 512, "batch_size" => value(parse_batch_size);
        /// Most batches of one worker that wait.
        batch_count: u64 = 4, "batch_count" => value(parse_batch_count);
    }
}

level! {
    /// The level of an exporter.
    pub(crate) struct OtelExporterLevel {
        /// Its directives.
        settings: OtelExporterSettings,
    }
}

/// An `otel_exporter`.
#[derive(Debug, Clone, PartialEq)]
pub struct OtelExporter {
    /// What its block says.
    pub settings: OtelExporterSettings,
    /// Where it was written.
    pub span: Span,
}

/// `otel_trace_context`
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OtelPropagation {
    /// The client's fields are left as they are.
    Ignore,
    /// The client's span is the parent.
    Extract,
    /// Our span is the parent of what follows.
    Inject,
    /// Both.
    Propagate,
}

settings! {
    /// Tracing in a location.
    pub struct OtelSettings {
        /// Whether requests are recorded; `None`: they are not.
        trace: Option<Template> = None, "otel_trace" => value(parse_trace);
        /// What happens to the fields of the trace context.
        context: OtelPropagation = OtelPropagation::Ignore, "otel_trace_context" => choice(&[
            ("extract", OtelPropagation::Extract), ("inject", OtelPropagation::Inject),
            ("propagate", OtelPropagation::Propagate), ("ignore", OtelPropagation::Ignore)]);
        /// The span's name; `None`: the location's.
        span_name: Option<Template> = None, "otel_span_name" => option(Template::parse);
        /// Further attributes of the span.
        span_attributes: Vec<(String, Template)> = Vec::new(), "otel_span_attr" => item(parse_span_attribute);
        /// `service.name`; only `http` has it.
        service_name: String = "unknown_service:nginx".to_owned(), "otel_service_name" => value(parse_text);
        /// Further attributes of the resource; only `http` has them.
        resource_attributes: Vec<(String, String)> = Vec::new(), "otel_resource_attr" => item(parse_resource_attribute);
    }
}

/// Reads an `otel_exporter` block.
pub(crate) fn lower_exporter(directive: &Directive, env: &Env, out: &mut Vec<Diagnostic>) -> Option<OtelExporter> {
    let block = directive.block.as_ref()?;
    let mut level = std::sync::Arc::new(OtelExporterLevel::default());
    let mut touched = Touched::default();
    for inner in &block.directives {
        OtelExporterLevel::apply(&mut level, &mut touched, inner, env, out);
    }
    if !touched.has("settings", "endpoint") {
        let error = Diagnostic::error(directive.name.span, "\"otel_exporter\" requires \"endpoint\"");
        out.push(error.with_hint("the collector, such as `endpoint localhost:4317;`"));
    }
    Some(OtelExporter { settings: OtelExporterSettings::clone(&level.settings), span: directive.name.span })
}

fn parse_endpoint(name: &str, word: &Word) -> Parsed<OtelEndpoint> {
    let text = parse_text(name, word)?;
    let after = |scheme: &str| {
        let start = text.get(..scheme.len()).filter(|start| start.eq_ignore_ascii_case(scheme));
        start.map(|start| &text[start.len()..])
    };
    let (secure, rest, has_scheme) = match (after("https://"), after("http://")) {
        (Some(rest), _) => (true, rest, true),
        (None, Some(rest)) => (false, rest, true),
        (None, None) => (false, text.as_str(), false),
    };
    let (authority, path) = match rest.split_once('/') {
        Some((authority, path)) => (authority, Some(format!("/{path}"))),
        None => (rest, None),
    };
    let invalid = || invalid_value(word).with_hint("`host:port`, or a URL such as `http://localhost:4318/v1/traces`");
    let (host, port) = authority.rsplit_once(':').ok_or_else(invalid)?;
    let bare = host.strip_prefix('[').and_then(|host| host.strip_suffix(']'));
    let is_sound = match bare {
        Some(host) => host.parse::<std::net::Ipv6Addr>().is_ok(),
        None => !host.is_empty() && host.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte)),
    };
    let is_path = path.as_ref().is_none_or(|path| has_scheme && path.bytes().all(|byte| byte.is_ascii_graphic()));
    let port = port.parse().ok().filter(|port| *port != 0 && is_sound && is_path).ok_or_else(invalid)?;
    Ok(OtelEndpoint { secure, host: bare.unwrap_or(host).to_owned(), port, path })
}

fn parse_file(_name: &str, word: &Word) -> Parsed<Located<PathBuf>> {
    if word.value.is_empty() {
        return Err(invalid_value(word));
    }
    Ok(Located { value: PathBuf::from(OsStr::from_bytes(&word.value)), span: word.span })
}

/// Fields that the exporter writes itself, or that frame the call.
const OWN: [&str; 9] = [
    "connection",
    "content-encoding",
    "content-length",
    "content-type",
    "host",
    "te",
    "transfer-encoding",
    "upgrade",
    "user-agent",
];

fn parse_header(at: &mut At<'_>) -> Parsed<(String, String)> {
    let (name, value) = (at.word(0)?, at.word(1)?);
    let text = parse_text(at.name, name)?.to_ascii_lowercase();
    let error = |word: &Word, message: &str| Diagnostic::error(word.span, format!("\"header\" {message}"));
    let is_name = !text.is_empty()
        && text.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"-_.".contains(&byte));
    if !is_name {
        return Err(error(name, "has invalid header name").with_hint("letters, digits, `-`, `_` and `.`"));
    }
    if OWN.contains(&text.as_str()) || text.starts_with("grpc-") {
        return Err(error(name, "sets a field that the exporter writes itself"));
    }
    if !value.value.iter().all(|byte| (b' '..=b'~').contains(byte)) {
        return Err(error(value, "has invalid header value").with_hint("printable characters of ASCII"));
    }
    Ok((text, parse_text(at.name, value)?.trim().to_owned()))
}

fn parse_batch_size(name: &str, word: &Word) -> Parsed<u64> {
    within(parse_size(name, word)?, BATCH_SIZE_MAX, word)
}

fn parse_batch_count(name: &str, word: &Word) -> Parsed<u64> {
    within(parse_size(name, word)?, BATCH_COUNT_MAX, word)
}

fn within(number: u64, most: u64, word: &Word) -> Parsed<u64> {
    if (1..=most).contains(&number) {
        return Ok(number);
    }
    Err(invalid_value(word).with_hint(format!("a number from 1 to {most}")))
}

fn parse_trace(name: &str, word: &Word) -> Parsed<Option<Template>> {
    if word.value == b"off" {
        return Ok(None);
    }
    let template = Template::parse(name, word)?;
    if template.as_text().is_some_and(|text| text != b"on") {
        return Err(invalid_value(word).with_hint("`on`, `off`, or a variable"));
    }
    Ok(Some(template))
}

fn parse_span_attribute(at: &mut At<'_>) -> Parsed<(String, Template)> {
    Ok((parse_text(at.name, at.word(0)?)?, Template::parse(at.name, at.word(1)?)?))
}

fn parse_resource_attribute(at: &mut At<'_>) -> Parsed<(String, String)> {
    Ok((parse_text(at.name, at.word(0)?)?, parse_text(at.name, at.word(1)?)?))
}
