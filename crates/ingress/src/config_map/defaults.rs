//! What the keys of the `ConfigMap` with code of their own do, and the definitions that all servers share.

use super::{Global, Keys, time};
use crate::assembly::{Assembly, Balance, Keepalive};
use crate::tree::Origin;
use crate::{Level, value};
use conf::tree::Directive;

/// ingress-nginx's access log, without what only its Lua code knows.
const LOG_FORMAT: &str = "$remote_addr - $remote_user [$time_local] \"$request\" $status $body_bytes_sent \
    \"$http_referer\" \"$http_user_agent\" $request_length $request_time [$proxy_upstream_name] \
    [$proxy_alternative_upstream_name] $upstream_addr $upstream_response_length $upstream_response_time \
    $upstream_status $req_id";

/// Variables that a log format may have besides those of objects.
const LOGGED: &[&str] = &[
    "body_bytes_sent",
    "bytes_sent",
    "connection",
    "connection_requests",
    "gzip_ratio",
    "hostname",
    "nginx_version",
    "pid",
    "pipe",
    "proxy_host",
    "proxy_port",
    "request",
    "request_completion",
    "request_filename",
    "request_length",
    "server_addr",
    "ssl_cipher",
    "ssl_client_fingerprint",
    "ssl_client_i_dn",
    "ssl_client_s_dn",
    "ssl_client_serial",
    "ssl_client_verify",
    "ssl_protocol",
    "ssl_server_name",
    "ssl_session_reused",
    "realip_remote_addr",
    "realip_remote_port",
    "proxy_protocol_addr",
    "proxy_protocol_port",
    "proxy_protocol_server_addr",
    "proxy_protocol_server_port",
];

/// Keys `global-auth-…` that are settings of `auth-…`.
const OF_AUTH: [&str; 8] = [
    "url",
    "method",
    "signin",
    "signin-redirect-param",
    "response-headers",
    "request-redirect",
    "cache-key",
    "cache-duration",
];

pub(super) fn global(
    keys: &mut Keys,
    assembly: &mut Assembly<'_>,
    origin: Origin,
    http: &mut Vec<Directive>,
) -> Global {
    let allow_snippets = keys.flag("allow-snippet-annotations", assembly.settings.allow_snippets);
    if keys.flag("allow-cross-namespace-resources", false) {
        let message = "\"allow-cross-namespace-resources\": objects may name only objects of their own namespace";
        keys.report(Level::Refused, "Refused", message.into());
    }
    let code = keys.checked("http-redirect-code", |text| match text {
        "301" => Ok(301),
        "302" => Ok(302),
        "307" => Ok(307),
        "308" => Ok(308),
        _ => Err("not 301, 302, 307 or 308".to_owned()),
    });
    let keepalive = Keepalive {
        connections: keys.number("upstream-keepalive-connections", 320).min(65_535),
        time: keys.checked("upstream-keepalive-time", seconds).unwrap_or(3600),
        timeout: keys.checked("upstream-keepalive-timeout", seconds).unwrap_or(60),
        requests: keys.number("upstream-keepalive-requests", 10_000).max(1),
    };
    let mut global = Global {
        allow_snippets,
        ssl_redirect: keys.flag("ssl-redirect", true),
        force_ssl_redirect: keys.flag("force-ssl-redirect", false),
        redirect_code: code.unwrap_or(308),
        hsts: keys.flag("hsts", true),
        keepalive,
        balance: keys.checked("load-balance", balance).unwrap_or_default(),
        service_upstream: keys.flag("service-upstream", false),
        use_forwarded: keys.flag("use-forwarded-headers", false),
        custom_errors: keys.checked("custom-http-errors", statuses).unwrap_or_default(),
        allow: keys.checked("whitelist-source-range", value::networks).unwrap_or_default(),
        deny: keys.checked("denylist-source-range", value::networks).unwrap_or_default(),
        no_tls_redirect: paths(keys, "no-tls-redirect-locations"),
        no_auth: paths(keys, "no-auth-locations"),
        stream_timeout: keys.checked("proxy-stream-timeout", time).unwrap_or_else(|| "600s".into()),
        stream_responses: keys.number("proxy-stream-responses", 1),
        buffer_size: keys.checked("proxy-buffer-size", value::size).unwrap_or_else(|| "4k".into()),
        retry_non_idempotent: keys.flag("retry-non-idempotent", false),
        ..Global::default()
    };
    for key in OF_AUTH {
        if let Some(text) = keys.text(&format!("global-auth-{key}")) {
            global.auth.insert(format!("auth-{key}"), text);
        }
    }
    let allowed = keys.list("global-allowed-response-headers");
    global.allowed_response_headers = allowed.into_iter().map(|name| name.to_ascii_lowercase()).collect();
    if allow_snippets {
        global.server_snippet = keys.text("server-snippet");
        global.location_snippet = keys.text("location-snippet");
    }
    for (name, text) in keys.fields("add-headers", assembly) {
        http.push(origin.line("more_set_headers", [format!("{name}: {text}")]));
    }
    global.request_headers = request_headers(keys, global.use_forwarded);
    for (name, text) in keys.fields("proxy-set-headers", assembly) {
        set(&mut global.request_headers, &name, text);
    }
    for prefix in ["proxy", "grpc"] {
        for (name, text) in &global.request_headers {
            http.push(origin.line(&format!("{prefix}_set_header"), [name, text]));
        }
    }
    global
}

/// Sets a field, in place of one with the same name.
pub(crate) fn set(headers: &mut Vec<(String, String)>, name: &str, text: String) {
    match headers.iter_mut().find(|(known, _)| known.eq_ignore_ascii_case(name)) {
        Some((_, known)) => *known = text,
        None => headers.push((name.to_owned(), text)),
    }
}

fn paths(keys: &Keys, key: &str) -> Vec<String> {
    let known = keys.list(key);
    if known.is_empty() { vec!["/.well-known/acme-challenge".into()] } else { known }
}

fn seconds(text: &str) -> Result<u32, String> {
    let text = time(text)?;
    let (number, unit) = text.split_at(text.len() - 1);
    let times = match unit {
        "s" => 1,
        "m" => 60,
        "h" => 3600,
        _ => 86_400,
    };
    let number: u32 = number.parse().map_err(|_| "not a time".to_owned())?;
    Ok(number.saturating_mul(times).min(31_536_000))
}

fn balance(text: &str) -> Result<Balance, String> {
    match text {
        "round_robin" => Ok(Balance::RoundRobin),
        "ewma" => Ok(Balance::LeastTime),
        "least_conn" => Ok(Balance::LeastConn),
        "ip_hash" => Ok(Balance::IpHash),
        _ => Err("not round_robin, ewma, least_conn or ip_hash".into()),
    }
}

/// Statuses separated by commas.
pub(crate) fn statuses(text: &str) -> Result<Vec<u16>, String> {
    let mut out = Vec::new();
    for item in text.split(',').map(str::trim).filter(|item| !item.is_empty()) {
        match item.parse() {
            Ok(status @ 300..=599) if status != 499 && !out.contains(&status) => out.push(status),
            _ => return Err(format!("\"{}\" is no status from 300 to 599", item.escape_debug())),
        }
    }
    Ok(out)
}

fn request_headers(keys: &mut Keys, use_forwarded: bool) -> Vec<(String, String)> {
    let full = keys.flag("compute-full-forwarded-for", false);
    let forwarded = if full && use_forwarded { "$proxy_add_x_forwarded_for" } else { "$remote_addr" };
    let host = if use_forwarded { "$hf_forwarded_host" } else { "$best_http_host" };
    [
        ("Host", "$best_http_host"),
        ("Upgrade", "$http_upgrade"),
        ("Connection", "$connection_upgrade"),
        ("X-Request-ID", "$req_id"),
        ("X-Real-IP", "$remote_addr"),
        ("X-Forwarded-For", forwarded),
        ("X-Forwarded-Host", host),
        ("X-Forwarded-Port", "$pass_port"),
        ("X-Forwarded-Proto", "$pass_access_scheme"),
        ("X-Forwarded-Scheme", "$pass_access_scheme"),
        ("X-Scheme", "$pass_access_scheme"),
        ("X-Original-Forwarded-For", "$http_x_forwarded_for"),
        // A client must not choose the proxy of a CGI program (CVE-2016-5385).
        ("Proxy", ""),
    ]
    .map(|(name, text)| (name.to_owned(), text.to_owned()))
    .to_vec()
}

/// `map key $name { entries }`
fn map(origin: Origin, key: &str, name: &str, entries: &[(&str, &str)]) -> Directive {
    let entries = entries.iter().map(|(from, to)| origin.line(from, [to])).collect();
    origin.block("map", [key, name], entries)
}

/// Variables and limits that all servers share.
pub(super) fn definitions(
    keys: &mut Keys,
    origin: Origin,
    global: &mut Global,
    https_port: u16,
    http: &mut Vec<Directive>,
) {
    let dollar = origin.line("default", ["$"]);
    http.push(origin.block("geo", ["$hf_dollar"], vec![dollar]));
    http.push(map(origin, "$http_upgrade", "$connection_upgrade", &[("default", "upgrade"), ("", "")]));
    http.push(map(origin, "$http_x_request_id", "$req_id", &[("default", "$http_x_request_id"), ("", "$request_id")]));
    http.push(map(origin, "$http_host", "$best_http_host", &[("default", "$http_host"), ("", "$host")]));
    // Behind a port that is passed through, the servers have the port below it.
    let (inner, outer) = (https_port.saturating_sub(1).to_string(), https_port.to_string());
    let ports = [("default", "$server_port"), (inner.as_str(), outer.as_str())];
    http.push(map(origin, "$server_port", "$pass_server_port", &ports));
    if global.use_forwarded {
        let proto = [("default", "$scheme"), ("http", "http"), ("https", "https")];
        http.push(map(origin, "$http_x_forwarded_proto", "$pass_access_scheme", &proto));
        let port = [("default", "$pass_server_port"), ("~^[0-9]{1,5}$", "$http_x_forwarded_port")];
        http.push(map(origin, "$http_x_forwarded_port", "$pass_port", &port));
        let host = [("default", "$http_x_forwarded_host"), ("", "$best_http_host")];
        http.push(map(origin, "$http_x_forwarded_host", "$hf_forwarded_host", &host));
    } else {
        http.push(map(origin, "$scheme", "$pass_access_scheme", &[("default", "$scheme")]));
        http.push(map(origin, "$pass_server_port", "$pass_port", &[("default", "$pass_server_port")]));
    }
    http.push(escaped_uri(origin));
    http.push(map(origin, "", "$proxy_alternative_upstream_name", &[("default", "")]));
    strict_transport_security(keys, origin, global, http);
    next_upstream(keys, origin, global, http);
    real_ip(keys, origin, global, http);
    logs(keys, origin, http);
    blocked(keys, origin, http);
    tls(keys, origin, http);
    telemetry(keys, origin, global, http);
    let number = keys.number("proxy-buffers-number", 4).clamp(2, 1024);
    http.push(origin.line("proxy_buffers", [number.to_string(), global.buffer_size.clone()]));
    for name in keys.list("hide-headers") {
        if value::is_header_name(&name) {
            http.push(origin.line("proxy_hide_header", [name]));
        } else {
            keys.report(Level::Warning, "WrongValue", format!("\"hide-headers\": \"{}\"", name.escape_debug()));
        }
    }
    for (key, name) in [("proxy-cookie-domain", "proxy_cookie_domain"), ("proxy-cookie-path", "proxy_cookie_path")] {
        if let Some(words) = keys.checked(key, cookie_words) {
            http.push(origin.line(name, words));
        }
    }
}

/// `off`, or a text and its replacement.
pub(crate) fn cookie_words(text: &str) -> Result<Vec<String>, String> {
    let words: Vec<&str> = text.split_whitespace().collect();
    match words.as_slice() {
        ["off"] => Ok(vec!["off".into()]),
        [from, to] if !from.starts_with('~') => Ok(vec![value::literal(from)?, value::literal(to)?]),
        _ => Err("not \"off\" or two words".into()),
    }
}

/// `$escaped_request_uri`, the request's URI for a parameter of another one: `&` is escaped. The language has no
/// function for that, so there is an expression for each number of `&` up to eight.
fn escaped_uri(origin: Origin) -> Directive {
    let mut entries = vec![origin.line("default", ["$request_uri"])];
    for count in 1..=8usize {
        let pattern = format!("~^([^&]*){}$", "&([^&]*)".repeat(count));
        let parts: Vec<String> = (1..=count + 1).map(|part| format!("${part}")).collect();
        entries.push(origin.line(&pattern, [parts.join("%26")]));
    }
    origin.block("map", ["$request_uri", "$escaped_request_uri"], entries)
}

fn strict_transport_security(keys: &mut Keys, origin: Origin, global: &Global, http: &mut Vec<Directive>) {
    let age = keys.number("hsts-max-age", 31_536_000);
    let mut text = format!("max-age={age}");
    if keys.flag("hsts-include-subdomains", true) {
        text.push_str("; includeSubDomains");
    }
    if keys.flag("hsts-preload", false) {
        text.push_str("; preload");
    }
    if global.hsts {
        http.push(map(origin, "$scheme", "$hf_hsts", &[("default", ""), ("https", &text)]));
    }
}

fn next_upstream(keys: &mut Keys, origin: Origin, global: &Global, http: &mut Vec<Directive>) {
    let words = keys.checked("proxy-next-upstream", conditions);
    let mut words = words.unwrap_or_else(|| vec!["error".into(), "timeout".into()]);
    if global.retry_non_idempotent && !words.contains(&"non_idempotent".to_owned()) {
        words.push("non_idempotent".into());
    }
    http.push(origin.line("proxy_next_upstream", words));
}

/// The conditions of `proxy_next_upstream`.
pub(crate) fn conditions(text: &str) -> Result<Vec<String>, String> {
    const KNOWN: &[&str] = &[
        "error",
        "timeout",
        "invalid_header",
        "http_500",
        "http_502",
        "http_503",
        "http_504",
        "http_403",
        "http_404",
        "http_429",
        "non_idempotent",
        "off",
    ];
    let mut out: Vec<String> = Vec::new();
    for word in text.split_whitespace() {
        if !KNOWN.contains(&word) {
            return Err(format!("\"{}\" is no condition", word.escape_debug()));
        }
        if !out.iter().any(|known| known == word) {
            out.push(word.to_owned());
        }
    }
    Ok(out)
}

fn real_ip(keys: &mut Keys, origin: Origin, global: &Global, http: &mut Vec<Directive>) {
    let proxy_protocol = keys.flag("use-proxy-protocol", false);
    if !global.use_forwarded && !keys.flag("enable-real-ip", false) && !proxy_protocol {
        return;
    }
    let trusted = keys.checked("proxy-real-ip-cidr", value::networks);
    for network in trusted.unwrap_or_else(|| vec!["0.0.0.0/0".into()]) {
        http.push(origin.line("set_real_ip_from", [network]));
    }
    let header = keys.checked("forwarded-for-header", |text| {
        if value::is_header_name(text) { Ok(text.to_owned()) } else { Err("not the name of a header".to_owned()) }
    });
    let header =
        if proxy_protocol { "proxy_protocol".into() } else { header.unwrap_or_else(|| "X-Forwarded-For".into()) };
    http.push(origin.line("real_ip_header", [header]));
    http.push(origin.line("real_ip_recursive", ["on"]));
}

fn logs(keys: &mut Keys, origin: Origin, http: &mut Vec<Directive>) {
    let json = keys.flag("log-format-escape-json", false);
    let none = keys.flag("log-format-escape-none", false);
    let escape = if json {
        "escape=json"
    } else if none {
        "escape=none"
    } else {
        "escape=default"
    };
    let format = keys.checked("log-format-upstream", log_format);
    let format = format.or_else(|| log_format(LOG_FORMAT).ok()).unwrap_or_default();
    http.push(origin.line("log_format", ["upstreaminfo", escape, &format]));
    let path = keys.text("access-log-path").unwrap_or_default();
    if !["", "/var/log/nginx/access.log", "/dev/stdout"].contains(&path.as_str()) {
        keys.report(Level::Warning, "WrongValue", "\"access-log-path\": logs go to standard output".into());
    }
    if keys.flag("disable-access-log", false) {
        http.push(origin.line("access_log", ["off"]));
    } else {
        http.push(origin.line("access_log", ["/dev/stdout", "upstreaminfo"]));
    }
    let levels = ["debug", "info", "notice", "warn", "error", "crit", "alert", "emerg"];
    let level = keys.checked("error-log-level", |text| {
        levels.iter().find(|level| **level == text).copied().ok_or_else(|| format!("not one of: {}", levels.join(", ")))
    });
    http.push(origin.line("error_log", ["stderr", level.unwrap_or("notice")]));
}

/// A log format. Variables of ingress-nginx's Lua code get their counterparts.
fn log_format(text: &str) -> Result<String, String> {
    let text = text.replace('\n', "");
    let text = text.replace("$proxy_upstream_name", "$proxy_host").replace("${proxy_upstream_name}", "$proxy_host");
    let is_known = |name: &str| {
        value::is_harmless(name)
            || LOGGED.contains(&name)
            || name == "proxy_alternative_upstream_name"
            || name.starts_with("upstream_")
            || name.starts_with("sent_http_")
    };
    for part in text.split('$').skip(1) {
        let part = part.strip_prefix('{').unwrap_or(part);
        let end = part.find(|letter: char| !letter.is_ascii_alphanumeric() && letter != '_').unwrap_or(part.len());
        if !is_known(&part[..end]) {
            return Err(format!("the variable \"${}\" is not known", &part[..end]));
        }
    }
    Ok(text)
}

/// Requests that get 403: by network, user agent, referer.
fn blocked(keys: &mut Keys, origin: Origin, http: &mut Vec<Directive>) {
    let networks = keys.checked("block-cidrs", value::networks).unwrap_or_default();
    let mut entries = vec![origin.line("default", ["0"])];
    entries.extend(networks.iter().map(|network| origin.line(network, ["1"])));
    http.push(origin.block("geo", ["$hf_blocked_network"], entries));
    let lists = [
        ("block-user-agents", "$http_user_agent", "$hf_blocked_agent"),
        ("block-referers", "$http_referer", "$hf_blocked_referer"),
    ];
    for (key, from, to) in lists {
        let mut entries = vec![origin.line("default", ["0"])];
        for item in keys.list(key) {
            let pattern = item.strip_prefix("~*").or_else(|| item.strip_prefix('~'));
            match pattern.map_or(Ok(()), value::regex) {
                Ok(()) if pattern.is_some() => entries.push(origin.line(&item, ["1"])),
                Ok(()) => entries.push(origin.line(&format!("\\{item}"), ["1"])),
                Err(message) => keys.report(Level::Warning, "WrongValue", format!("\"{key}\": {message}")),
            }
        }
        http.push(origin.block("map", [from, to], entries));
    }
    let all = "$hf_blocked_network$hf_blocked_agent$hf_blocked_referer";
    http.push(map(origin, all, "$hf_blocked", &[("default", "1"), ("000", "")]));
}

fn tls(keys: &mut Keys, origin: Origin, http: &mut Vec<Directive>) {
    let protocols = keys.checked("ssl-protocols", protocols);
    http.push(origin.line("ssl_protocols", protocols.unwrap_or_else(|| vec!["TLSv1.2".into(), "TLSv1.3".into()])));
    if let Some(ciphers) = keys.checked("ssl-ciphers", ciphers) {
        http.push(origin.line("ssl_ciphers", [ciphers]));
    }
}

/// `TLSv1.2` and `TLSv1.3`, the only ones that are spoken.
pub(crate) fn protocols(text: &str) -> Result<Vec<String>, String> {
    let found: Vec<String> = ["TLSv1.2", "TLSv1.3"]
        .into_iter()
        .filter(|known| text.split_whitespace().any(|word| word == *known))
        .map(str::to_owned)
        .collect();
    if found.is_empty() { Err("neither TLSv1.2 nor TLSv1.3 is among them".into()) } else { Ok(found) }
}

/// A list of ciphers.
pub(crate) fn ciphers(text: &str) -> Result<String, String> {
    let is_fine = |byte: u8| byte.is_ascii_alphanumeric() || b"-_:!+@= ".contains(&byte);
    if text.bytes().all(is_fine) { Ok(text.to_owned()) } else { Err("not a list of ciphers".into()) }
}

fn telemetry(keys: &mut Keys, origin: Origin, global: &mut Global, http: &mut Vec<Directive>) {
    global.opentelemetry = keys.flag("enable-opentelemetry", false);
    let Some(host) = keys.text("otlp-collector-host") else { return };
    let port = keys.number("otlp-collector-port", 4317);
    // A name would be looked up when the configuration is loaded, and one that does not exist would stop the load.
    if host.parse::<std::net::IpAddr>().is_err() || port == 0 || port > 65_535 {
        let message = "\"otlp-collector-host\" must be an address: use that of the Service";
        keys.report(Level::Warning, "WrongValue", message.into());
        return;
    }
    global.has_collector = true;
    let host = if host.contains(':') { format!("[{host}]") } else { host };
    http.push(origin.block::<&str>("otel_exporter", [], vec![origin.line("endpoint", [format!("{host}:{port}")])]));
    let name = keys.checked("otel-service-name", value::literal).unwrap_or_else(|| "nginx".into());
    if !name.contains('$') {
        http.push(origin.line("otel_service_name", [name]));
    }
    if global.opentelemetry {
        http.push(origin.line("otel_trace", ["on"]));
        http.push(origin.line("otel_trace_context", ["propagate"]));
    }
}

/// Lines of the top level and of `events`, and options of the listeners.
pub(super) fn process(keys: &mut Keys, assembly: &mut Assembly<'_>, origin: Origin) {
    let threads = keys.checked("worker-processes", |text| match text.parse::<u16>() {
        Ok(number) if (1..=1024).contains(&number) => Ok(Some(number)),
        _ if text == "auto" => Ok(None),
        _ => Err("not \"auto\" or a number".to_owned()),
    });
    let threads = assembly.settings.workers.or(threads.flatten());
    let threads = threads.map_or_else(|| "auto".to_owned(), |number| number.to_string());
    assembly.main.push(origin.line("worker_processes", [threads]));
    let connections = keys.number("max-worker-connections", 16_384).clamp(64, 10_000_000);
    assembly.events.push(origin.line("worker_connections", [connections.to_string()]));
    if keys.flag("use-proxy-protocol", false) {
        let (http, https) = (assembly.settings.http_port, assembly.settings.https_port);
        assembly.listen_options(http, &["proxy_protocol"]);
        assembly.listen_options(https, &["proxy_protocol"]);
    }
}
