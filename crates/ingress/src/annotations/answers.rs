//! Annotations about what clients get: redirects, cross-origin headers, error pages, copies, logs; and those of the host.

use super::Planner;
use super::access::redirect_url;
use crate::assembly::Matcher;
use crate::config_map::statuses;
use crate::value;

/// What browsers may send without `cors-allow-headers`, as in ingress-nginx.
const CORS_HEADERS: &str = "DNT,Keep-Alive,User-Agent,X-Requested-With,If-Modified-Since,Cache-Control,Content-Type,Range,\
    Authorization";

/// Without `cors-allow-methods`.
const CORS_METHODS: &str = "GET, PUT, POST, DELETE, PATCH, OPTIONS";

impl Planner<'_, '_> {
    pub(super) fn answers(&mut self) {
        self.host();
        self.redirects();
        if self.reader.flag("enable-cors") == Some(true) {
            self.cors();
        }
        self.mirror();
        self.errors();
        self.response_fields();
        if self.reader.flag("enable-access-log") == Some(false) {
            self.line("access_log", ["off"]);
        }
        if self.reader.flag("enable-rewrite-log") == Some(true) {
            self.line("rewrite_log", ["on"]);
        }
        self.spans();
    }

    fn host(&mut self) {
        if let Some(text) = self.reader.text("server-alias") {
            for alias in text.split(',').map(str::trim).filter(|alias| !alias.is_empty()).take(64) {
                if value::is_host(&alias.to_ascii_lowercase()) {
                    self.plan.aliases.push(alias.to_ascii_lowercase());
                } else {
                    self.reader.wrong("server-alias", format!("\"{}\" is no host", alias.escape_debug()));
                }
            }
        }
        self.plan.www = self.reader.flag("from-to-www-redirect") == Some(true);
        self.plan.passthrough = self.reader.flag("ssl-passthrough") == Some(true);
        self.plan.ssl_redirect = self.reader.flag("ssl-redirect").unwrap_or(self.global.ssl_redirect);
        self.plan.force_ssl_redirect = self.reader.flag("force-ssl-redirect").unwrap_or(self.global.force_ssl_redirect);
        let _ = self.reader.flag("preserve-trailing-slash");
        if let Some(ciphers) = self.reader.checked("ssl-ciphers", crate::config_map::ciphers) {
            let line = self.origin.line("ssl_ciphers", [ciphers]);
            self.plan.server.push(("ssl_ciphers", vec![line]));
        }
        if let Some(on) = self.reader.flag("ssl-prefer-server-ciphers") {
            let line = self.origin.line("ssl_prefer_server_ciphers", [if on { "on" } else { "off" }]);
            self.plan.server.push(("ssl_prefer_server_ciphers", vec![line]));
        }
    }

    fn redirects(&mut self) {
        let place = self.reader.place;
        self.plan.use_regex = self.reader.flag("use-regex").unwrap_or(false);
        self.plan.rewrite = self.reader.checked("rewrite-target", |text| {
            if text.contains([' ', '"', '\'', '\\']) {
                return Err("has a character that paths cannot have".into());
            }
            value::template(text, place, true)
        });
        self.plan.app_root = self.reader.checked("app-root", |text| {
            if text.starts_with('/') { redirect_url(text, place) } else { Err("must begin with /".into()) }
        });
        if self.reader.flag("relative-redirects") == Some(true) {
            self.line("absolute_redirect", ["off"]);
        }
        for (name, codes, default) in [("permanent-redirect", [301, 308], 301), ("temporal-redirect", [302, 307], 302)]
        {
            let url = self.reader.checked(name, |text| redirect_url(text, place));
            let code = self.reader.number(&format!("{name}-code"), 300..=308).unwrap_or(default);
            let code = if codes.contains(&code) || code == 303 { code } else { default };
            if let (Some(url), false) = (url, self.plan.is_redirect) {
                self.plan.is_redirect = true;
                let line = self.origin.line("return", [code.to_string(), url]);
                self.plan.first.push(line);
            }
        }
    }

    fn cors(&mut self) {
        let Some((allowed, preflight)) = self.origins() else { return };
        let list = |text: &str| {
            let is_fine = |byte: u8| byte.is_ascii_alphanumeric() || b"-_*, ".contains(&byte);
            if text.bytes().all(is_fine) { Ok(text.to_owned()) } else { Err("not a list of names".to_owned()) }
        };
        let methods = self.reader.checked("cors-allow-methods", list).unwrap_or_else(|| CORS_METHODS.into());
        let headers = self.reader.checked("cors-allow-headers", list).unwrap_or_else(|| CORS_HEADERS.into());
        let expose = self.reader.checked("cors-expose-headers", list);
        let credentials = self.reader.flag("cors-allow-credentials").unwrap_or(true);
        let age = self.reader.number("cors-max-age", 0..=31_536_000).unwrap_or(1_728_000).to_string();
        let mut fields = vec![("Access-Control-Allow-Origin", allowed.clone())];
        if credentials {
            fields.push(("Access-Control-Allow-Credentials", "true".into()));
        }
        fields.push(("Access-Control-Allow-Methods", methods));
        fields.push(("Access-Control-Allow-Headers", headers));
        if let Some(expose) = expose {
            fields.push(("Access-Control-Expose-Headers", expose));
        }
        fields.push(("Access-Control-Max-Age", age));
        for (name, text) in &fields {
            let text = self.only_with_origin(&allowed, text);
            self.line("add_header", [*name, &text, "always"]);
            self.line("proxy_hide_header", [*name]);
        }
        if allowed != "*" {
            self.line("add_header", ["Vary", "Origin", "always"]);
        }
        // The block has the fields of the location.
        let lines = vec![self.origin.line("return", ["204"])];
        let line = self.condition(&preflight, "=", "1", lines);
        self.plan.first.push(line);
    }

    /// A field is sent only to origins that are allowed: `add_header` leaves out an empty value.
    fn only_with_origin(&mut self, allowed: &str, text: &str) -> String {
        if allowed == "*" || allowed == text {
            return text.to_owned();
        }
        let (variable, is_new) = self.assembly.variable(&format!("with {allowed} {text}"));
        if is_new {
            let entries = vec![self.origin.line("default", [text]), self.origin.line("", [""])];
            self.assembly.http.push(self.origin.block("map", [allowed, &variable], entries));
        }
        variable
    }

    /// The value of `Access-Control-Allow-Origin`, and a variable that is 1 for a preflight request of an allowed origin.
    fn origins(&mut self) -> Option<(String, String)> {
        let text = self.reader.text("cors-allow-origin").unwrap_or("*");
        let items: Vec<&str> = text.split(',').map(str::trim).filter(|item| !item.is_empty()).collect();
        if items.len() > 256 {
            self.reader.wrong("cors-allow-origin", "more than 256 origins");
            return None;
        }
        let mut entries = vec![self.origin.line("default", [""])];
        let is_any = items.is_empty() || items.contains(&"*");
        for item in items.iter().filter(|_| !is_any) {
            if let Some(pattern) = origin_pattern(item) {
                entries.push(self.origin.line(&pattern, ["$http_origin"]));
            } else {
                self.reader.wrong("cors-allow-origin", format!("\"{}\" is no origin", item.escape_debug()));
                return None;
            }
        }
        let (preflight, is_new) = self.assembly.variable(&format!("preflight {items:?}"));
        if is_any {
            if is_new {
                let entries = vec![self.origin.line("default", ["0"]), self.origin.line("OPTIONS", ["1"])];
                self.assembly.http.push(self.origin.block("map", ["$request_method", &preflight], entries));
            }
            return Some(("*".into(), preflight));
        }
        let (allowed, is_new_list) = self.assembly.variable(&format!("origin {items:?}"));
        if is_new_list {
            self.assembly.http.push(self.origin.block("map", ["$http_origin", &allowed], entries));
        }
        if is_new {
            let entries = vec![self.origin.line("default", ["0"]), self.origin.line("~^OPTIONS .", ["1"])];
            let key = format!("$request_method {allowed}");
            self.assembly.http.push(self.origin.block("map", [&key, &preflight], entries));
        }
        Some((allowed, preflight))
    }

    fn mirror(&mut self) {
        let place = self.reader.place;
        let body = self.reader.one_of("mirror-request-body", &["on", "off"]);
        let host = self.reader.template("mirror-host");
        let Some(url) = self.reader.checked("mirror-target", |text| value::url(text, place)) else { return };
        let upstream = self.outside(&url);
        let path = format!("/_mirror-{}", self.own_name("mirror"));
        let rest = if url.rest.is_empty() { "/".to_owned() } else { url.rest.clone() };
        let host = host.unwrap_or_else(|| url.host.clone());
        let mut lines = vec![
            self.origin.line::<&str>("internal", []),
            self.origin.line("proxy_ssl_server_name", ["on"]),
            self.origin.line("proxy_ssl_name", [&url.host]),
            self.origin.line("proxy_pass", [format!("{}://{upstream}{rest}", url.scheme)]),
        ];
        let mut headers = self.global.request_headers.clone();
        crate::config_map::set(&mut headers, "Host", host);
        lines.extend(headers.iter().map(|(name, text)| self.origin.line("proxy_set_header", [name, text])));
        self.plan.helpers.push((Matcher::Exact(path.clone()), lines));
        self.line("mirror", [path]);
        self.line("mirror_request_body", [body.unwrap_or("on")]);
    }

    fn errors(&mut self) {
        let own = self.reader.checked("custom-http-errors", statuses);
        let off = self.reader.flag("disable-proxy-intercept-errors") == Some(true);
        self.plan.errors = own.unwrap_or_else(|| self.global.custom_errors.clone());
        self.plan.error_backend = self.reader.object("default-backend");
        if !self.plan.errors.is_empty() && !off {
            self.line("proxy_intercept_errors", ["on"]);
        }
    }

    fn response_fields(&mut self) {
        let Some(fields) = self.config_map("custom-headers") else { return };
        let place = self.reader.place;
        for (name, text) in fields {
            if !value::is_header_name(&name)
                || !self.global.allowed_response_headers.contains(&name.to_ascii_lowercase())
            {
                let message = format!("\"{}\" is not among global-allowed-response-headers", name.escape_debug());
                self.reader.wrong("custom-headers", message);
                continue;
            }
            match value::template(text.trim(), place, false) {
                Ok(text) => self.line("more_set_headers", [format!("{name}: {text}")]),
                Err(message) => self.reader.wrong("custom-headers", format!("\"{name}\": {message}")),
            }
        }
    }

    fn spans(&mut self) {
        let on = self.reader.flag("enable-opentelemetry");
        let trust = self.reader.flag("opentelemetry-trust-incoming-span");
        let name = self.reader.template("opentelemetry-operation-name");
        let Some(on) = on else { return };
        if on && !self.global.has_collector {
            return self.reader.wrong("enable-opentelemetry", "the ConfigMap names no collector");
        }
        self.line("otel_trace", [if on { "on" } else { "off" }]);
        if on {
            self.line("otel_trace_context", [if trust == Some(false) { "inject" } else { "propagate" }]);
            if let Some(name) = name {
                self.line("otel_span_name", [name]);
            }
        }
    }
}

/// The expression for an origin: `https://*.example.com:8443`. All of it is plain text in the expression.
fn origin_pattern(item: &str) -> Option<String> {
    let (scheme, rest) = item.split_once("://")?;
    let (host, port) = rest.rsplit_once(':').map_or((rest, None), |(host, port)| (host, Some(port)));
    let is_scheme = (1..=32).contains(&scheme.len())
        && scheme.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-+".contains(&byte));
    let is_port =
        port.is_none_or(|port| (1..=5).contains(&port.len()) && port.bytes().all(|byte| byte.is_ascii_digit()));
    if !is_scheme || !is_port || !value::is_host(&host.to_ascii_lowercase()) {
        return None;
    }
    let name = host.strip_prefix("*.").map_or_else(|| quoted(host), |name| format!("[A-Za-z0-9-]+\\.{}", quoted(name)));
    let port = port.map(|port| format!(":{port}")).unwrap_or_default();
    Some(format!("~*^{}://{name}{port}$", quoted(scheme)))
}

fn quoted(text: &str) -> String {
    text.replace('.', "\\.").replace('+', "\\+")
}
