//! Annotations about the way to the service: protocol, balancing, time limits, buffers, TLS, canaries.

use super::{Canary, Planner, Protocol};
use crate::assembly::{Balance, Sticky};
use crate::config_map::{conditions, cookie_words, protocols};
use crate::translation::FileSource;
use crate::value;

impl Planner<'_, '_> {
    pub(super) fn canary(&mut self) {
        if self.reader.flag("canary") != Some(true) {
            return;
        }
        let is_name = |text: &str| {
            if value::is_header_name(text) { Ok(text.to_owned()) } else { Err("not a name".to_owned()) }
        };
        let total = self.reader.number("canary-weight-total", 1..=1_000_000).unwrap_or(100);
        let weight = self.reader.number("canary-weight", 0..=1_000_000).unwrap_or(0).min(total);
        self.plan.canary = Some(Canary {
            weight,
            total,
            header: self.reader.checked("canary-by-header", is_name),
            value: self
                .reader
                .checked("canary-by-header-value", |text| value::printable(text).map(|()| text.to_owned())),
            pattern: self
                .reader
                .checked("canary-by-header-pattern", |text| value::regex(text).map(|()| text.to_owned())),
            cookie: self.reader.checked("canary-by-cookie", is_name),
        });
    }

    pub(super) fn balance(&mut self) {
        self.plan.balance = self.global.balance.clone();
        let word = self.reader.one_of("load-balance", &["round_robin", "ewma", "least_conn", "ip_hash"]);
        match word {
            Some("ewma") => self.plan.balance = Balance::LeastTime,
            Some("least_conn") => self.plan.balance = Balance::LeastConn,
            Some("ip_hash") => self.plan.balance = Balance::IpHash,
            Some(_) => self.plan.balance = Balance::RoundRobin,
            None => {}
        }
        if let Some(key) = self.reader.template("upstream-hash-by") {
            self.plan.balance = Balance::Hash(key);
        }
        self.plan.service_upstream = self.reader.flag("service-upstream").unwrap_or(self.global.service_upstream);
        let _ = self.reader.one_of("affinity-mode", &["balanced", "persistent"]);
        let _ = self.reader.one_of("affinity-canary-behavior", &["sticky", "legacy"]);
        if self.reader.one_of("affinity", &["cookie"]).is_some() {
            self.sticky();
        }
    }

    fn sticky(&mut self) {
        let name = self.reader.checked("session-cookie-name", |text| {
            if value::is_header_name(text) { Ok(text.to_owned()) } else { Err("not the name of a cookie".to_owned()) }
        });
        let path = self.reader.checked("session-cookie-path", |text| cookie_part(text, &[]));
        let domain = self.reader.checked("session-cookie-domain", |text| cookie_part(text, b"$"));
        let samesite = self.reader.one_of("session-cookie-samesite", &["none", "lax", "strict"]);
        let age = self.reader.number("session-cookie-max-age", 0..=315_360_000);
        let age = age.or_else(|| self.reader.number("session-cookie-expires", 0..=315_360_000));
        let mut words = vec![format!("path={}", path.unwrap_or_else(|| "/".into())), "httponly".to_owned()];
        words.extend(domain.map(|domain| format!("domain={domain}")));
        words.extend(samesite.map(|samesite| format!("samesite={samesite}")));
        words.extend(age.filter(|age| *age > 0).map(|age| format!("expires={age}s")));
        if self.reader.flag("session-cookie-secure") == Some(true) {
            words.push("secure".into());
        }
        self.plan.sticky = Some(Sticky { name: name.unwrap_or_else(|| "INGRESSCOOKIE".into()), words });
    }

    pub(super) fn traffic(&mut self) {
        let protocol = self.reader.one_of("backend-protocol", &["HTTP", "HTTPS", "GRPC", "GRPCS", "FCGI", "AUTO_HTTP"]);
        self.plan.protocol = match protocol {
            Some("HTTPS") => Protocol::Https,
            Some("GRPC") => Protocol::Grpc,
            Some("GRPCS") => Protocol::Grpcs,
            Some("FCGI") => Protocol::Fcgi,
            _ => Protocol::Http,
        };
        self.times_and_buffers();
        self.next_upstream();
        if let Some(size) = self.reader.size("proxy-body-size") {
            self.line("client_max_body_size", [size]);
        }
        if let Some(size) = self.reader.size("client-body-buffer-size") {
            self.line("client_body_buffer_size", [size]);
        }
        if let Some(host) = self.reader.template("upstream-vhost") {
            self.header("Host", host);
        }
        if let Some(text) = self.reader.template("connection-proxy-header") {
            self.header("Connection", text);
        }
        if let Some(text) = self.reader.literal("x-forwarded-prefix") {
            self.header("X-Forwarded-Prefix", text);
        }
        self.upstream_tls();
        if self.plan.protocol == Protocol::Fcgi {
            self.fastcgi();
        }
    }

    /// Lines that exist for each protocol under a name of its own.
    fn proxied(&mut self, name: &str, words: &[String]) {
        let prefix = match self.plan.protocol {
            Protocol::Http | Protocol::Https => "proxy",
            Protocol::Grpc | Protocol::Grpcs => "grpc",
            Protocol::Fcgi => "fastcgi",
        };
        self.line(&format!("{prefix}_{name}"), words);
    }

    fn times_and_buffers(&mut self) {
        for name in ["connect-timeout", "send-timeout", "read-timeout"] {
            if let Some(time) = self.reader.seconds(&format!("proxy-{name}")) {
                self.proxied(&name.replace('-', "_"), &[time]);
            }
        }
        let size = self.reader.size("proxy-buffer-size");
        if let Some(size) = size.clone() {
            self.proxied("buffer_size", &[size]);
        }
        let number = self.reader.number("proxy-buffers-number", 2..=1024);
        let is_http = matches!(self.plan.protocol, Protocol::Http | Protocol::Https);
        if let (true, true) = (is_http, number.is_some() || size.is_some()) {
            let size = size.unwrap_or_else(|| self.global.buffer_size.clone());
            self.line("proxy_buffers", [number.unwrap_or(4).to_string(), size]);
        }
        for name in ["buffering", "request-buffering"] {
            let Some(word) = self.reader.one_of(&format!("proxy-{name}"), &["on", "off"]) else { continue };
            if is_http {
                self.line(&format!("proxy_{}", name.replace('-', "_")), [word]);
            }
        }
        let version = self.reader.one_of("proxy-http-version", &["1.0", "1.1"]);
        if let (true, Some(version)) = (is_http, version) {
            self.line("proxy_http_version", [version]);
        }
        for (annotation, name) in
            [("proxy-cookie-domain", "proxy_cookie_domain"), ("proxy-cookie-path", "proxy_cookie_path")]
        {
            if let Some(words) = self.reader.checked(annotation, cookie_words) {
                self.line(name, words);
            }
        }
        self.proxy_redirect();
    }

    fn proxy_redirect(&mut self) {
        let from = self.reader.literal("proxy-redirect-from");
        let to = self.reader.literal("proxy-redirect-to");
        match (from.as_deref(), to) {
            (Some("off"), _) | (None, None) => self.line("proxy_redirect", ["off"]),
            // `default` needs a URL without variables in `proxy_pass`.
            (Some("default"), _) => self.reader.wrong("proxy-redirect-from", "only \"off\" or a text is supported"),
            (Some(from), Some(to)) if !from.starts_with('~') => self.line("proxy_redirect", [from, &to]),
            _ => self.reader.wrong("proxy-redirect-from", "needs \"proxy-redirect-to\", and no regular expression"),
        }
    }

    fn next_upstream(&mut self) {
        if let Some(words) = self.reader.checked("proxy-next-upstream", conditions) {
            // FastCGI and gRPC have the same conditions.
            self.proxied("next_upstream", &words);
        }
        if let Some(time) = self.reader.seconds("proxy-next-upstream-timeout") {
            self.proxied("next_upstream_timeout", &[time]);
        }
        if let Some(tries) = self.reader.number("proxy-next-upstream-tries", 0..=1000) {
            self.proxied("next_upstream_tries", &[tries.to_string()]);
        }
    }

    fn upstream_tls(&mut self) {
        let secure = matches!(self.plan.protocol, Protocol::Https | Protocol::Grpcs);
        let mut lines: Vec<(&str, Vec<String>)> = Vec::new();
        if let Some(secret) = self.reader.object("proxy-ssl-secret") {
            match self.assembly.certificate(&secret) {
                Some((certificate, key)) => {
                    lines.push(("ssl_certificate", vec![certificate]));
                    lines.push(("ssl_certificate_key", vec![key]));
                    if self.assembly.has_pem(&secret, "ca.crt") {
                        let path = self.assembly.file(FileSource::Secret(secret, "ca.crt".into()));
                        lines.push(("ssl_trusted_certificate", vec![path]));
                    }
                }
                None => self.reader.wrong("proxy-ssl-secret", format!("\"{secret}\" has no tls.crt and tls.key")),
            }
        }
        let verify = self.reader.one_of("proxy-ssl-verify", &["on", "off"]);
        lines.push(("ssl_verify", vec![verify.unwrap_or("off").into()]));
        if let Some(depth) = self.reader.number("proxy-ssl-verify-depth", 0..=100) {
            lines.push(("ssl_verify_depth", vec![depth.to_string()]));
        }
        if let Some(name) = self.reader.template("proxy-ssl-name") {
            lines.push(("ssl_name", vec![name]));
        }
        if let Some(word) = self.reader.one_of("proxy-ssl-server-name", &["on", "off"]) {
            lines.push(("ssl_server_name", vec![word.into()]));
        }
        if let Some(words) = self.reader.checked("proxy-ssl-protocols", protocols) {
            lines.push(("ssl_protocols", words));
        }
        if let Some(ciphers) = self.reader.checked("proxy-ssl-ciphers", crate::config_map::ciphers) {
            lines.push(("ssl_ciphers", vec![ciphers]));
        }
        if secure {
            for (name, words) in lines {
                self.proxied(name, &words);
            }
        }
    }

    fn fastcgi(&mut self) {
        if let Some(index) = self.reader.literal("fastcgi-index") {
            self.line("fastcgi_index", [index]);
        }
        let usual = [
            ("QUERY_STRING", "$query_string"),
            ("REQUEST_METHOD", "$request_method"),
            ("CONTENT_TYPE", "$content_type"),
            ("CONTENT_LENGTH", "$content_length"),
            ("SCRIPT_NAME", "$fastcgi_script_name"),
            ("SCRIPT_FILENAME", "$fastcgi_script_name"),
            ("REQUEST_URI", "$request_uri"),
            ("DOCUMENT_URI", "$document_uri"),
            ("SERVER_PROTOCOL", "$server_protocol"),
            ("REQUEST_SCHEME", "$scheme"),
            ("GATEWAY_INTERFACE", "CGI/1.1"),
            ("SERVER_SOFTWARE", "nginx"),
            ("REMOTE_ADDR", "$remote_addr"),
            ("REMOTE_PORT", "$remote_port"),
            ("SERVER_PORT", "$server_port"),
            ("SERVER_NAME", "$server_name"),
            ("HTTP_PROXY", ""),
        ];
        let mut params: Vec<(String, String)> =
            usual.iter().map(|(name, text)| ((*name).to_owned(), (*text).to_owned())).collect();
        for (name, text) in self.config_map("fastcgi-params-configmap").unwrap_or_default() {
            let place = self.reader.place;
            // The usual value of this parameter has a variable that is harmless here only.
            let text = text.trim().replace("$fastcgi_script_name", "$uri");
            match value::template(&text, place, false) {
                Ok(text) if value::is_header_name(&name) => crate::config_map::set(&mut params, &name, text),
                Ok(_) => {
                    self.reader.wrong("fastcgi-params-configmap", format!("\"{}\" is no name", name.escape_debug()));
                }
                Err(message) => self.reader.wrong("fastcgi-params-configmap", format!("\"{name}\": {message}")),
            }
        }
        for (name, text) in params {
            self.line("fastcgi_param", [name, text]);
        }
    }
}

/// A path or a domain in a cookie.
fn cookie_part(text: &str, more: &[u8]) -> Result<String, String> {
    let is_fine = |byte: u8| {
        byte.is_ascii_alphanumeric() || b"-_./~%+@".contains(&byte) || (byte != b'$' && more.contains(&byte))
    };
    if text.bytes().all(is_fine) { Ok(text.to_owned()) } else { Err("has a character that cookies cannot have".into()) }
}
