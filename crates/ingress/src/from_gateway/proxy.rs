//! The lines that pass a request to a backend.

use super::backend_tls::Policies;
use super::backends::Backend;
use super::filters::RequestFields;
use super::render::Site;
use super::rules::Rule;
use super::status::Fault;
use super::words::{field_name, milliseconds};
use crate::EndpointSource;
use crate::assembly::{Assembly, BackendWish, Place, Sticky, Target};
use crate::objects::routes::{HttpRetry, HttpTimeouts, SessionPersistence};
use crate::tree::Origin;
use conf::tree::Directive;

/// A limit that means none: a day.
const NO_LIMIT_MS: u64 = 24 * 3_600_000;

/// Most attempts of a request, whatever a rule asks for.
const ATTEMPTS_MAX: u32 = 16;

/// Statuses after which a request can be sent again.
const RETRY_STATUSES: [u16; 7] = [403, 404, 429, 500, 502, 503, 504];

/// What is passed, and how.
pub(crate) struct Passing<'p> {
    pub(crate) backend: &'p Backend,
    pub(crate) is_grpc: bool,
    /// Its limits count; `None` for copies.
    pub(crate) rule: Option<&'p Rule<'p>>,
    pub(crate) fields: RequestFields,
}

/// The fields that the proxy sets in requests.
pub(crate) fn request_fields(is_grpc: bool) -> RequestFields {
    const COMMON: [(&str, &str); 5] = [
        ("Host", "$http_host"),
        ("X-Real-IP", "$remote_addr"),
        ("X-Forwarded-For", "$proxy_add_x_forwarded_for"),
        ("X-Forwarded-Proto", "$scheme"),
        ("X-Forwarded-Host", "$http_host"),
    ];
    let upgrade = [("Upgrade", "$http_upgrade")];
    RequestFields::new(&[&COMMON[..], if is_grpc { &[] } else { &upgrade }].concat())
}

/// The lines of a location that passes requests to a backend.
pub(crate) fn lines(
    assembly: &mut Assembly<'_>,
    policies: &Policies<'_>,
    site: &Site<'_>,
    passing: Passing<'_>,
) -> Result<Vec<Directive>, Fault> {
    let Passing { backend, is_grpc, rule, fields } = passing;
    let origin = site.origin;
    let kind = if is_grpc { "grpc" } else { "proxy" };
    let line = |word: &str, value: &str| origin.line(&format!("{kind}_{word}"), [value]);
    let mut out = Vec::new();
    let mut scheme = if is_grpc { "grpc" } else { "http" };
    if let Some(policy) = &backend.tls {
        let Some(verification) = policies.verification(policy) else {
            // The policy says what is wrong in its own status. Its backends must not be reached without it.
            return Ok(super::words::failing(origin));
        };
        scheme = if is_grpc { "grpcs" } else { "https" };
        out.push(line("ssl_verify", "on"));
        out.push(line("ssl_verify_depth", "8"));
        out.push(line("ssl_server_name", "on"));
        let name = assembly.data(&verification.hostname);
        out.push(line("ssl_name", &name));
        if !verification.names.is_empty() {
            out.push(origin.line(&format!("{kind}_ssl_verify_san"), &verification.names));
        }
        if let Some(authority) = verification.authorities.first() {
            let path = assembly.file(authority.clone());
            out.push(line("ssl_trusted_certificate", &path));
        }
        if let Some((certificate, key)) = site.client_certificate.and_then(|name| assembly.certificate(name)) {
            out.push(line("ssl_certificate", &certificate));
            out.push(line("ssl_certificate_key", &key));
        }
    }
    if !is_grpc {
        if backend.is_h2c {
            out.push(line("http_version", "2"));
        } else {
            let variable = upgrade_variable(assembly);
            out.push(origin.line("proxy_set_header", ["Connection", variable.as_str()]));
        }
    }
    out.extend(fields.into_lines(origin, &format!("{kind}_set_header")));
    if let Some(rule) = rule {
        out.extend(limit_lines(origin, kind, rule.timeouts, rule.retry)?);
    }
    let sticky = rule.and_then(|rule| rule.persistence).map(sticky).transpose()?;
    let source = EndpointSource { service: backend.service.clone(), port: backend.port, udp: false };
    let targets = vec![Target { place: Place::Service(source), weight: 1 }];
    let wish = BackendWish { targets, sticky, ..BackendWish::default() };
    let upstream = assembly.upstream(site.owner, &wish);
    // A copy has the URI of its own location, so the client's is named.
    if rule.is_none() && is_grpc {
        out.push(origin.line("rewrite", ["^", "$request_uri", "break"]));
    }
    let uri = if rule.is_none() && !is_grpc { "$request_uri" } else { "" };
    out.push(line("pass", &format!("{scheme}://{upstream}{uri}")));
    Ok(out)
}

/// `Connection` towards an upstream: `upgrade` for a request that wants another protocol, else nothing.
fn upgrade_variable(assembly: &mut Assembly<'_>) -> String {
    let (variable, is_new) = assembly.variable("Connection for an upgrade");
    if is_new {
        let own = assembly.own();
        let entries = vec![own.line("", [""]), own.line("default", ["upgrade"])];
        assembly.http.push(own.block("map", ["$http_upgrade", variable.as_str()], entries));
    }
    variable
}

fn limit_lines(
    origin: Origin,
    kind: &str,
    timeouts: Option<&HttpTimeouts>,
    retry: Option<&HttpRetry>,
) -> Result<Vec<Directive>, Fault> {
    let duration = |text: Option<&String>| {
        let value = |text: &String| {
            milliseconds(text).ok_or_else(|| Fault::new("UnsupportedValue", format!("{text:?} is not a duration")))
        };
        text.map(value).transpose()
    };
    let limit = |text: Option<&String>| {
        let value = duration(text)?;
        Ok::<_, Fault>(value.map(|value| if value == 0 { NO_LIMIT_MS } else { value.min(NO_LIMIT_MS) }))
    };
    let request = limit(timeouts.and_then(|timeouts| timeouts.request.as_ref()))?;
    let attempt = limit(timeouts.and_then(|timeouts| timeouts.backend_request.as_ref()))?;
    let mut out = Vec::new();
    let mut add = |word: &str, value: String| out.push(origin.line(&format!("{kind}_{word}"), [value]));
    if let Some(shorter) = request.into_iter().chain(attempt).min() {
        for word in ["connect_timeout", "send_timeout", "read_timeout"] {
            add(word, format!("{shorter}ms"));
        }
    }
    if let Some(request) = request {
        add("next_upstream_timeout", format!("{request}ms"));
        // A GRPCRoute has no timeouts; its clients set their own.
        if kind == "proxy" && request < NO_LIMIT_MS {
            add("request_timeout", format!("{request}ms"));
        }
    }
    let mut conditions = vec!["error".to_owned()];
    let mut tries = 2;
    if let Some(retry) = retry {
        tries = retry.attempts.unwrap_or(1).min(ATTEMPTS_MAX - 1) + 1;
        // The attempts of a rule do not depend on the number of Pods.
        add("next_upstream_again", "on".to_owned());
        if let Some(pause) = duration(retry.backoff.as_ref())?.filter(|pause| *pause > 0) {
            add("next_upstream_pause", format!("{}ms", pause.min(NO_LIMIT_MS)));
        }
        conditions.extend(["timeout".to_owned(), "non_idempotent".to_owned()]);
        for code in &retry.codes {
            if !RETRY_STATUSES.contains(code) {
                return Err(Fault::new("UnsupportedValue", format!("retries after status {code} are not supported")));
            }
            let word = format!("http_{code}");
            if !conditions.contains(&word) {
                conditions.push(word);
            }
        }
    }
    add("next_upstream_tries", tries.to_string());
    out.push(origin.line(&format!("{kind}_next_upstream"), conditions));
    Ok(out)
}

fn sticky(written: &SessionPersistence) -> Result<Sticky, Fault> {
    if written.kind.as_deref().is_some_and(|kind| kind != "Cookie") {
        return Err(Fault::new("UnsupportedValue", "session persistence by a header is not supported; use Cookie"));
    }
    if written.idle_timeout.is_some() {
        return Err(Fault::new("UnsupportedValue", "idleTimeout of session persistence is not supported"));
    }
    let name = written.session_name.clone().unwrap_or_else(|| "holdfast_session".to_owned());
    field_name(&name)?;
    let mut words = vec!["path=/".to_owned(), "httponly".to_owned()];
    let lifetime = written.cookie_config.as_ref().and_then(|cookie| cookie.lifetime_type.as_deref());
    if lifetime == Some("Permanent") {
        let text = written.absolute_timeout.as_deref().unwrap_or_default();
        let value = milliseconds(text).filter(|value| *value >= 1000);
        let value =
            value.ok_or_else(|| Fault::new("UnsupportedValue", "a permanent cookie needs an absoluteTimeout"))?;
        words.push(format!("expires={}s", value / 1000));
    }
    Ok(Sticky { name, words })
}
