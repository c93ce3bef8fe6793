//! The controller's `ConfigMap`: settings of all, with ingress-nginx's keys and defaults.

mod defaults;
pub mod table;

use crate::annotations::reader_flag;
use crate::assembly::{Assembly, Balance, Keepalive};
use crate::{Level, Name, ObjectName, value};
use conf::tree::Directive;
use std::collections::{BTreeMap, BTreeSet};
use table::{Action, Check, Row};

pub(crate) use defaults::{ciphers, conditions, cookie_words, protocols, set, statuses};

/// Settings that the translation of Ingresses asks for.
#[derive(Debug, Clone, Default)]
pub(crate) struct Global {
    pub(crate) allow_snippets: bool,
    pub(crate) ssl_redirect: bool,
    pub(crate) force_ssl_redirect: bool,
    pub(crate) redirect_code: u16,
    pub(crate) hsts: bool,
    pub(crate) keepalive: Keepalive,
    pub(crate) balance: Balance,
    pub(crate) service_upstream: bool,
    pub(crate) use_forwarded: bool,
    pub(crate) custom_errors: Vec<u16>,
    pub(crate) allow: Vec<String>,
    pub(crate) deny: Vec<String>,
    pub(crate) no_tls_redirect: Vec<String>,
    pub(crate) no_auth: Vec<String>,
    pub(crate) auth: BTreeMap<String, String>,
    pub(crate) allowed_response_headers: BTreeSet<String>,
    pub(crate) opentelemetry: bool,
    pub(crate) has_collector: bool,
    pub(crate) stream_timeout: String,
    pub(crate) stream_responses: u32,
    pub(crate) buffer_size: String,
    pub(crate) retry_non_idempotent: bool,
    /// Header fields of requests to services, in ingress-nginx's order.
    pub(crate) request_headers: Vec<(String, String)>,
    /// Snippets, if they are allowed: of servers, of locations.
    pub(crate) server_snippet: Option<String>,
    pub(crate) location_snippet: Option<String>,
}

/// Reads the `ConfigMap` and writes what holds for all.
pub(crate) fn write(assembly: &mut Assembly<'_>) -> Global {
    let owner = assembly.own_name();
    let mut keys = Keys::of(assembly, &owner);
    let mut lines = BTreeMap::new();
    for (directive, value) in DEFAULTS {
        lines.insert(*directive, value.split(' ').map(str::to_owned).collect::<Vec<_>>());
    }
    for (key, value) in keys.values.clone() {
        let Some(row) = table::find(&key) else {
            keys.report(Level::Warning, "UnknownKey", format!("\"{key}\" is not a key of ingress-nginx"));
            continue;
        };
        match row.action {
            Action::Line(name, check) => match words(check, row, &value) {
                Ok(words) => _ = lines.insert(name, words),
                Err(message) => keys.report(Level::Warning, "WrongValue", format!("\"{key}\": {message}")),
            },
            Action::Own => {}
            Action::Ignored(why) => keys.report(Level::Note, "Ignored", format!("\"{key}\" has no effect: {why}")),
            Action::Refused(why) => keys.report(Level::Refused, "Refused", format!("\"{key}\" is refused: {why}")),
        }
    }
    let origin = assembly.own();
    let is_server_header = lines.remove("proxy_pass_header").is_some_and(|words| words == ["on"]);
    let mut http: Vec<Directive> = lines.iter().map(|(name, words)| origin.line(name, words)).collect();
    if is_server_header {
        http.push(origin.line("proxy_pass_header", ["Server"]));
    }
    let mut global = defaults::global(&mut keys, assembly, origin, &mut http);
    defaults::definitions(&mut keys, origin, &mut global, assembly.settings.https_port, &mut http);
    defaults::process(&mut keys, assembly, origin);
    assembly.http.extend(http);
    for (level, reason, message) in keys.said {
        assembly.find(&owner, level, reason, message);
    }
    global
}

/// Lines of `http` with ingress-nginx's defaults where they are not nginx's.
const DEFAULTS: &[(&str, &str)] = &[
    ("client_body_buffer_size", "8k"),
    ("client_header_buffer_size", "1k"),
    ("client_max_body_size", "1m"),
    ("default_type", "text/html"),
    ("http2", "on"),
    ("absolute_redirect", "on"),
    // Fields of a location come on top of those of its server, such as Strict-Transport-Security.
    ("add_header_inherit", "merge"),
    ("keepalive_timeout", "75s"),
    ("keepalive_requests", "1000"),
    ("proxy_buffer_size", "4k"),
    ("proxy_buffering", "off"),
    ("proxy_connect_timeout", "5s"),
    ("proxy_http_version", "1.1"),
    ("proxy_next_upstream_timeout", "0s"),
    ("proxy_next_upstream_tries", "3"),
    ("proxy_read_timeout", "60s"),
    ("proxy_request_buffering", "on"),
    ("proxy_send_timeout", "60s"),
    ("server_tokens", "off"),
    ("ssl_session_tickets", "off"),
];

fn words(check: Check, row: &Row, value: &str) -> Result<Vec<String>, String> {
    let value = value.trim();
    match check {
        Check::Size => value::size(value).map(|size| vec![size]),
        Check::Sizes => value.split_whitespace().map(value::size).collect(),
        Check::Time => time(value).map(|time| vec![time]),
        Check::Number(min, max) => match value.parse::<u32>() {
            Ok(number) if (min..=max).contains(&number) => Ok(vec![number.to_string()]),
            _ => Err(format!("not a number from {min} to {max}")),
        },
        Check::Flag => {
            let on = match value {
                "on" => true,
                "off" => false,
                value => reader_flag(value)?,
            };
            // The directive says the opposite of the key.
            let on = if row.key == "relative-redirects" { !on } else { on };
            Ok(vec![if on { "on" } else { "off" }.into()])
        }
        Check::Words => value.split_whitespace().map(word).collect(),
    }
}

fn word(text: &str) -> Result<String, String> {
    let is_fine = |byte: u8| byte.is_ascii_alphanumeric() || b"-_./+*:;=@!".contains(&byte);
    if text.bytes().all(is_fine) && text.len() <= 256 {
        Ok(text.to_owned())
    } else {
        Err(format!("\"{}\" is not allowed here", text.escape_debug()))
    }
}

/// Seconds, or a number with a unit.
pub(crate) fn time(value: &str) -> Result<String, String> {
    let digits = value.trim_end_matches(|letter: char| letter.is_ascii_alphabetic());
    let unit = &value[digits.len()..];
    let is_number = (1..=9).contains(&digits.len()) && digits.bytes().all(|byte| byte.is_ascii_digit());
    match unit {
        "" if is_number => Ok(format!("{digits}s")),
        "ms" | "s" | "m" | "h" | "d" if is_number => Ok(value.to_owned()),
        _ => Err("not a time: digits, and \"ms\", \"s\", \"m\", \"h\" or \"d\"".into()),
    }
}

/// The keys of the `ConfigMap`, and the findings about them.
pub(crate) struct Keys {
    values: BTreeMap<String, String>,
    said: Vec<(Level, &'static str, String)>,
    namespace: String,
}

impl Keys {
    fn of(assembly: &Assembly<'_>, owner: &ObjectName) -> Self {
        let map = assembly.settings.config_map.as_ref().filter(|_| !assembly.is_refused(owner));
        let values = map.and_then(|name| assembly.cluster.config_maps.get(name)).map(|map| map.data.clone());
        Self { values: values.unwrap_or_default(), said: Vec::new(), namespace: owner.name.namespace.to_string() }
    }

    fn report(&mut self, level: Level, reason: &'static str, message: String) {
        self.said.push((level, reason, message));
    }

    fn text(&self, key: &str) -> Option<String> {
        self.values.get(key).map(|value| value.trim().to_owned()).filter(|value| !value.is_empty())
    }

    fn checked<T>(&mut self, key: &str, check: impl FnOnce(&str) -> Result<T, String>) -> Option<T> {
        let text = self.text(key)?;
        check(&text).map_err(|message| self.report(Level::Warning, "WrongValue", format!("\"{key}\": {message}"))).ok()
    }

    fn flag(&mut self, key: &str, default: bool) -> bool {
        self.checked(key, reader_flag).unwrap_or(default)
    }

    fn number(&mut self, key: &str, default: u32) -> u32 {
        self.checked(key, |text| text.parse().map_err(|_| "not a number".to_owned())).unwrap_or(default)
    }

    /// Texts separated by commas.
    fn list(&self, key: &str) -> Vec<String> {
        let text = self.text(key).unwrap_or_default();
        text.split(',').map(str::trim).filter(|item| !item.is_empty()).map(str::to_owned).collect()
    }

    /// The fields of a `ConfigMap` that a key names as `namespace/name`.
    fn fields(&mut self, key: &str, assembly: &Assembly<'_>) -> Vec<(String, String)> {
        let Some(text) = self.text(key) else { return Vec::new() };
        let (namespace, name) = text.split_once('/').unwrap_or((&self.namespace, &text));
        let Some(map) = assembly.cluster.config_maps.get(&Name::new(namespace, name)) else {
            self.report(Level::Warning, "NotFound", format!("\"{key}\": there is no ConfigMap \"{text}\""));
            return Vec::new();
        };
        let mut out = Vec::new();
        for (name, text) in &map.data {
            match value::template(text.trim(), value::Place::default(), false) {
                Ok(text) if value::is_header_name(name) => out.push((name.clone(), text)),
                Ok(_) => self.report(Level::Warning, "WrongValue", format!("\"{key}\": \"{name}\" is no header")),
                Err(message) => self.report(Level::Warning, "WrongValue", format!("\"{key}\": \"{name}\": {message}")),
            }
        }
        out
    }
}
