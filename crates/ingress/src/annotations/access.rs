//! Annotations that guard paths: passwords, authentication services, client certificates, networks, limits.

use super::{Planner, guarded};
use crate::assembly::{BackendWish, Matcher, Place as Target, Target as Share};
use crate::translation::FileSource;
use crate::value::{self, Url};
use conf::tree::Directive;

/// The variable with the path of the location that asks, as a hash.
pub(crate) const AUTH_PLACE: &str = "$hf_cached_place";
/// How long answers are cached without `auth-cache-duration`, as with ingress-nginx.
const AUTH_CACHED: &str = "200 202 401 5m";
/// Most parts of `auth-cache-duration`, and most statuses of one: there are few statuses that a service answers.
const AUTH_DURATIONS_MAX: usize = 32;

impl Planner<'_, '_> {
    pub(super) fn access(&mut self) {
        if let Some(word) = self.reader.one_of("satisfy", &["all", "any"]) {
            self.line("satisfy", [word]);
        }
        let mut deny = self.global.deny.clone();
        deny.extend(self.reader.networks("denylist-source-range").unwrap_or_default());
        let allow = self.reader.networks("whitelist-source-range").unwrap_or_else(|| self.global.allow.clone());
        let lines = guarded(self.origin, &deny, &allow);
        self.plan.location.extend(lines);
        self.basic();
        self.external();
        self.client_certificate();
        self.limits();
        let blocked = self.origin.line("return", ["403"]);
        let blocked = self.condition("$hf_blocked", "=", "1", vec![blocked]);
        self.plan.first.push(blocked);
    }

    fn basic(&mut self) {
        let Some(kind) = self.reader.text("auth-type") else { return };
        if kind != "basic" {
            self.reader.wrong("auth-type", "only \"basic\" is supported");
            return;
        }
        let Some(secret) = self.reader.object("auth-secret") else {
            return self.reader.wrong("auth-secret", "must name a Secret of the namespace");
        };
        let form = self.reader.one_of("auth-secret-type", &["auth-file", "auth-map"]).unwrap_or("auth-file");
        self.assembly.note_secret(&secret);
        let known = self.assembly.cluster.secrets.get(&secret);
        let source = match (known, form) {
            (Some(known), "auth-file") if known.data.contains_key("auth") => FileSource::Secret(secret, "auth".into()),
            (Some(_), "auth-map") => FileSource::SecretPasswords(secret),
            (Some(_), _) => return self.reader.wrong("auth-secret", format!("\"{secret}\" has no key \"auth\"")),
            (None, _) => return self.reader.wrong("auth-secret", format!("there is no Secret \"{secret}\"")),
        };
        let path = self.assembly.file(source);
        let realm = self.reader.literal("auth-realm").unwrap_or_default();
        // `off` would switch the check off.
        let realm = if realm.eq_ignore_ascii_case("off") { " off".to_owned() } else { realm };
        self.line("auth_basic", [realm]);
        self.line("auth_basic_user_file", [path]);
    }

    /// A text of `auth-…`: of the Ingress, or of the `ConfigMap`.
    fn auth_text(&mut self, name: &str, global: bool) -> Option<String> {
        if global { self.global.auth.get(name).cloned() } else { self.reader.text(name).map(str::to_owned) }
    }

    fn external(&mut self) {
        let own = self.reader.text("auth-url").is_some();
        let is_global = !own && self.reader.flag("enable-global-auth") != Some(false);
        let Some(text) = self.auth_text("auth-url", is_global) else { return };
        let url = match value::url(&text, self.reader.place) {
            Ok(url) => url,
            Err(message) => return self.reader.wrong("auth-url", message),
        };
        let upstream = self.outside(&url);
        let name = self.own_name("auth");
        let path = format!("/_external-auth-{name}");
        let mut lines = vec![self.origin.line::<&str>("internal", [])];
        lines.extend(self.auth_request_lines(&url, is_global));
        lines.extend(self.auth_cache_lines(&text, &path, is_global));
        lines.push(self.origin.line("proxy_pass", [format!("{}://{upstream}{}", url.scheme, or_slash(&url.rest))]));
        let auth_snippet = self.snippet("auth-snippet");
        lines.extend(auth_snippet);
        self.plan.helpers.push((Matcher::Exact(path.clone()), lines));
        let mut asked = vec![self.origin.line("auth_request", [path])];
        asked.push(self.origin.line("auth_request_set", ["$hf_auth_cookie", "$upstream_http_set_cookie"]));
        let always = self.reader.flag("auth-always-set-cookie") == Some(true);
        let words = ["Set-Cookie", "$hf_auth_cookie"].into_iter().chain(always.then_some("always"));
        asked.push(self.origin.line("add_header", words));
        for field in self.response_headers(is_global) {
            let variable = format!("$hf_auth_{}", field.to_ascii_lowercase().replace('-', "_"));
            let source = format!("$upstream_http_{}", field.to_ascii_lowercase().replace('-', "_"));
            asked.push(self.origin.line("auth_request_set", [&variable, &source]));
            self.header(&field, variable);
        }
        asked.extend(self.sign_in(is_global));
        if is_global { self.plan.global_auth = asked } else { self.plan.location.extend(asked) }
    }

    fn auth_request_lines(&mut self, url: &Url, is_global: bool) -> Vec<Directive> {
        let mut lines = vec![
            self.origin.line("proxy_pass_request_body", ["off"]),
            self.origin.line("proxy_ssl_server_name", ["on"]),
            self.origin.line("proxy_ssl_name", [&url.host]),
            self.origin.line("proxy_intercept_errors", ["off"]),
        ];
        let method = self.auth_text("auth-method", is_global);
        if let Some(method) = method {
            if (1..=32).contains(&method.len()) && method.bytes().all(|byte| byte.is_ascii_uppercase()) {
                lines.push(self.origin.line("proxy_method", [method]));
            } else {
                self.reader.wrong("auth-method", "not a method");
            }
        }
        let mut headers: Vec<(String, String)> = [
            ("Content-Length", ""),
            ("X-Forwarded-Proto", ""),
            ("X-Request-ID", "$req_id"),
            ("X-Original-URL", "$scheme://$http_host$request_uri"),
            ("X-Original-Method", "$request_method"),
            ("X-Sent-From", "nginx-ingress-controller"),
            ("X-Real-IP", "$remote_addr"),
            ("X-Forwarded-For", "$remote_addr"),
        ]
        .map(|(name, text)| (name.to_owned(), text.to_owned()))
        .to_vec();
        headers.push(("Host".into(), url.host.clone()));
        let place = self.reader.place;
        let redirect = self.auth_text("auth-request-redirect", is_global);
        let redirect = redirect.unwrap_or_else(|| "$request_uri".into());
        match value::template(&redirect, place, false) {
            Ok(text) => headers.push(("X-Auth-Request-Redirect".into(), text)),
            Err(message) => self.reader.wrong("auth-request-redirect", message),
        }
        for (name, text) in self.config_map("auth-proxy-set-headers").unwrap_or_default() {
            match value::template(text.trim(), place, false) {
                Ok(text) if value::is_header_name(&name) => crate::config_map::set(&mut headers, &name, text),
                Ok(_) => {
                    self.reader.wrong("auth-proxy-set-headers", format!("\"{}\" is no header", name.escape_debug()));
                }
                Err(message) => self.reader.wrong("auth-proxy-set-headers", message),
            }
        }
        lines.extend(headers.iter().map(|(name, text)| self.origin.line("proxy_set_header", [name, text])));
        lines
    }

    /// Answers of the authentication service are kept for requests with the same key.
    fn auth_cache_lines(&mut self, url: &str, path: &str, is_global: bool) -> Vec<Directive> {
        const CACHE: &str = "auth_cache";
        let Some(key) = self.auth_text("auth-cache-key", is_global) else { return Vec::new() };
        let key = match value::template(&key, self.reader.place, false) {
            Ok(key) => key,
            Err(message) => {
                self.reader.wrong("auth-cache-key", message);
                return Vec::new();
            }
        };
        let written = self.auth_text("auth-cache-duration", is_global).unwrap_or_else(|| AUTH_CACHED.to_owned());
        let durations: Result<Vec<_>, String> = written.split(',').take(AUTH_DURATIONS_MAX).map(cached_for).collect();
        let durations = match durations {
            Ok(durations) => durations,
            Err(message) => {
                self.reader.wrong("auth-cache-duration", message);
                return Vec::new();
            }
        };
        let (_, is_new) = self.assembly.variable("the cache of authentication services");
        if is_new {
            let own = self.assembly.own();
            let zone = format!("keys_zone={CACHE}:10m");
            let words = [CACHE, "levels=1:2", &zone, "max_size=128m", "inactive=30m", "use_temp_path=off"];
            self.assembly.http.push(own.line("proxy_cache_path", words));
        }
        self.plan.caches_auth = true;
        // Answers of another service, or for another path, host or Ingress, never count.
        let service = crate::assembly::stable_hash(url.as_bytes());
        let mut lines = vec![
            self.origin.line("proxy_cache", [CACHE]),
            self.origin.line("proxy_cache_key", [format!("$server_name {AUTH_PLACE} {path} {service:016x} {key}")]),
            // Keys have passwords and tokens, and files are on a disk.
            self.origin.line("proxy_cache_key_digest", ["on"]),
            self.origin.line("proxy_cache_authorization", ["on"]),
            // Without buffers nothing is stored.
            self.origin.line("proxy_buffering", ["on"]),
        ];
        lines.extend(durations.iter().map(|words| self.origin.line("proxy_cache_valid", words)));
        lines
    }

    fn response_headers(&mut self, is_global: bool) -> Vec<String> {
        let Some(text) = self.auth_text("auth-response-headers", is_global) else { return Vec::new() };
        let fields: Vec<String> =
            text.split(',').map(|field| field.trim().to_owned()).filter(|field| !field.is_empty()).collect();
        // Each one costs a variable for every request.
        if fields.len() > 64 || !fields.iter().all(|field| value::is_header_name(field)) {
            self.reader.wrong("auth-response-headers", "not a list of at most 64 headers");
            return Vec::new();
        }
        fields
    }

    fn sign_in(&mut self, is_global: bool) -> Vec<Directive> {
        let Some(text) = self.auth_text("auth-signin", is_global) else { return Vec::new() };
        let place = self.reader.place;
        let target = match redirect_url(&text, place) {
            Ok(target) => target,
            Err(message) => {
                self.reader.wrong("auth-signin", message);
                return Vec::new();
            }
        };
        let param = self.auth_text("auth-signin-redirect-param", is_global).unwrap_or_else(|| "rd".into());
        if !value::is_header_name(&param) {
            self.reader.wrong("auth-signin-redirect-param", "not the name of a parameter");
            return Vec::new();
        }
        let back = "$pass_access_scheme://$http_host$escaped_request_uri";
        let target = if text.contains(&format!("{param}=")) {
            target
        } else {
            let joint = if target.contains('?') { '&' } else { '?' };
            format!("{target}{joint}{param}={back}")
        };
        let name = format!("@{}", self.own_name("signin"));
        let lines = vec![
            self.origin.line("add_header", ["Set-Cookie", "$hf_auth_cookie"]),
            self.origin.line("return", ["302", &target]),
        ];
        self.plan.helpers.push((Matcher::Named(name.clone()), lines));
        vec![self.origin.line("error_page", ["401", "=", &name])]
    }

    /// An upstream for a URL of an annotation.
    pub(super) fn outside(&mut self, url: &Url) -> String {
        let target = match url.host.parse() {
            Ok(address) => Target::Address(address, url.port),
            Err(_) => Target::External(url.host.clone(), url.port),
        };
        let wish = BackendWish { targets: vec![Share { place: target, weight: 1 }], ..BackendWish::default() };
        self.assembly.upstream(&self.owner, &wish)
    }

    fn client_certificate(&mut self) {
        let secret = self.reader.object("auth-tls-secret");
        let verify = self.reader.one_of("auth-tls-verify-client", &["on", "off", "optional", "optional_no_ca"]);
        let depth = self.reader.number("auth-tls-verify-depth", 0..=100).unwrap_or(1);
        let Some(secret) = secret else { return };
        if !self.assembly.has_pem(&secret, "ca.crt") {
            return self.reader.wrong("auth-tls-secret", format!("there is no Secret \"{secret}\" with ca.crt"));
        }
        let path = self.assembly.file(FileSource::Secret(secret.clone(), "ca.crt".into()));
        let mut lines = vec![
            self.origin.line("ssl_client_certificate", [path]),
            self.origin.line("ssl_verify_client", [verify.unwrap_or("on")]),
            self.origin.line("ssl_verify_depth", [depth.to_string()]),
        ];
        if self.assembly.has_pem(&secret, "ca.crl") {
            let path = self.assembly.file(FileSource::Secret(secret, "ca.crl".into()));
            lines.push(self.origin.line("ssl_crl", [path]));
        }
        let place = self.reader.place;
        if let Some(url) = self.reader.checked("auth-tls-error-page", |text| redirect_url(text, place)) {
            lines.push(self.origin.line("error_page", ["495", "496", "=302", &url]));
        }
        self.plan.server.push(("ssl_verify_client", lines));
        for (name, text) in [
            ("ssl-client-verify", "$ssl_client_verify"),
            ("ssl-client-subject-dn", "$ssl_client_s_dn"),
            ("ssl-client-issuer-dn", "$ssl_client_i_dn"),
        ] {
            self.header(name, text);
        }
        let pass = self.reader.flag("auth-tls-pass-certificate-to-upstream") == Some(true);
        self.header("ssl-client-cert", if pass { "$ssl_client_escaped_cert" } else { "" });
        let pattern = self.reader.checked("auth-tls-match-cn", |text| {
            let pattern = text.strip_prefix("CN=").ok_or("must begin with \"CN=\"")?;
            let pattern = format!("CN={pattern}(,|$)");
            value::regex(&pattern).map(|()| pattern)
        });
        if let Some(pattern) = pattern {
            let refuse = self.origin.line("return", ["403"]);
            let line = self.condition("$ssl_client_s_dn", "!~", &pattern, vec![refuse]);
            self.plan.first.push(line);
        }
    }

    fn limits(&mut self) {
        let connections = self.reader.number("limit-connections", 1..=1_000_000);
        let minute = self.reader.number("limit-rpm", 1..=100_000_000);
        let second = self.reader.number("limit-rps", 1..=1_000_000);
        let multiplier = self.reader.number("limit-burst-multiplier", 1..=1000).unwrap_or(5);
        let networks = self.reader.networks("limit-whitelist").unwrap_or_default();
        if let Some(rate) = self.reader.size("limit-rate") {
            self.line("limit_rate", [rate]);
        }
        if let Some(size) = self.reader.size("limit-rate-after") {
            self.line("limit_rate_after", [size]);
        }
        if connections.is_none() && minute.is_none() && second.is_none() {
            return;
        }
        let key = self.limit_key(&networks);
        let name = self.own_name("limit");
        if let Some(number) = connections {
            let zone = format!("zone={name}_conn:5m");
            self.assembly.http.push(self.origin.line("limit_conn_zone", [key.as_str(), &zone]));
            self.line("limit_conn", [format!("{name}_conn"), number.to_string()]);
        }
        for (number, unit, word) in [(minute, "rpm", "r/m"), (second, "rps", "r/s")] {
            let Some(number) = number else { continue };
            let (zone, rate) = (format!("zone={name}_{unit}:5m"), format!("rate={number}{word}"));
            self.assembly.http.push(self.origin.line("limit_req_zone", [key.as_str(), &zone, &rate]));
            let burst = u64::from(number) * u64::from(multiplier);
            let words =
                [format!("zone={name}_{unit}"), format!("burst={}", burst.min(1_000_000_000)), "nodelay".into()];
            self.line("limit_req", words);
        }
    }

    /// The key of limits: the client's address, and nothing for networks without limits.
    fn limit_key(&mut self, networks: &[String]) -> String {
        if networks.is_empty() {
            return "$binary_remote_addr".into();
        }
        let (table, is_new) = self.assembly.variable(&format!("unlimited {networks:?}"));
        let (key, _) = self.assembly.variable(&format!("limited {networks:?}"));
        if is_new {
            let mut entries = vec![self.origin.line("default", ["0"])];
            entries.extend(networks.iter().map(|network| self.origin.line(network, ["1"])));
            self.assembly.http.push(self.origin.block("geo", [&table], entries));
            let entries = vec![self.origin.line("default", ["$binary_remote_addr"]), self.origin.line("1", [""])];
            self.assembly.http.push(self.origin.block("map", [&table, &key], entries));
        }
        key
    }
}

/// The words of `proxy_cache_valid` in a part of `auth-cache-duration`: `200 202 30m`.
fn cached_for(part: &str) -> Result<Vec<String>, String> {
    let words: Vec<&str> = part.split_whitespace().collect();
    let Some((time, statuses)) = words.split_last() else { return Err("has an empty part".into()) };
    let is_status = |word: &&str| *word == "any" || word.parse().is_ok_and(|status: u16| (100..=599).contains(&status));
    if statuses.len() > AUTH_DURATIONS_MAX || !statuses.iter().all(is_status) {
        return Err(format!("{part:?} is no list of statuses with a time, such as 200 202 10m"));
    }
    let time = crate::config_map::time(time)?;
    Ok(statuses.iter().map(|word| (*word).to_owned()).chain([time]).collect())
}

fn or_slash(rest: &str) -> String {
    if rest.is_empty() {
        "/".into()
    } else if rest.starts_with('?') {
        format!("/{rest}")
    } else {
        rest.to_owned()
    }
}

/// A URL or a path for clients, with variables of the request.
pub(super) fn redirect_url(text: &str, place: value::Place<'_>) -> Result<String, String> {
    let is_url = ["http://", "https://", "/", "$scheme://", "$pass_access_scheme://"]
        .iter()
        .any(|start| text.starts_with(start));
    if !is_url {
        return Err("must begin with http://, https:// or /".into());
    }
    if text.contains([' ', '"', '\'', '<', '>', '\\']) {
        return Err("has a character that must be percent-encoded".into());
    }
    value::template(text, place, false)
}
