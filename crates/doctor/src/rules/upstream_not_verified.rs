//! Certificates of TLS upstreams are not verified: an attacker on the path can pose as the upstream.

use super::{Needs, Rule, at};
use crate::configuration::{Configuration, Found, argument};
use crate::edit::Change;
use crate::facts::Facts;
use report::{Finding, Severity};

pub(super) const RULE: Rule = Rule {
    name: "upstream-not-verified",
    finds: "`proxy_pass https://…` without `proxy_ssl_verify on`; the same with `grpcs://`, with `suwsgi://`, and with `proxy_ssl on` in `stream`",
    needs: Needs::NOTHING,
    why: "Without verification TLS protects against listeners only. An attacker who can answer at the upstream's address, by ARP, DNS or a stolen \
        address, reads and changes everything, and nothing shows it. nginx and Holdfast verify nothing by default.",
    example: "upstream api.example { server 10.0.0.1:8443; keepalive 8; }
server { proxy_http_version 1.1; proxy_set_header Connection \"\"; location / { proxy_pass https://api.example; } }",
    instead: "upstream api.example { server 10.0.0.1:8443; keepalive 8; }
server {
    proxy_http_version 1.1;
    proxy_set_header Connection \"\";
    location / {
        proxy_pass https://api.example;
        proxy_ssl_server_name on;
        proxy_ssl_verify on;
        proxy_ssl_trusted_certificate /etc/ssl/certs/ca-certificates.crt;
    }
}",
    check,
};

/// The list of public authorities on Debian and Alpine.
const SYSTEM_AUTHORITIES: &str = "/etc/ssl/certs/ca-certificates.crt";

/// A directive that leads to upstreams, and what its words for TLS begin with.
struct Pass {
    name: &'static str,
    scheme: &'static str,
    words: &'static str,
    /// What a request gets while the certificate cannot be verified.
    failure: &'static str,
}

const PASSES: [Pass; 3] = [
    Pass { name: "proxy_pass", scheme: "https://", words: "proxy_ssl", failure: "Requests fail with 502" },
    Pass { name: "grpc_pass", scheme: "grpcs://", words: "grpc_ssl", failure: "Calls fail with 502" },
    Pass { name: "uwsgi_pass", scheme: "suwsgi://", words: "uwsgi_ssl", failure: "Requests fail with 502" },
];
/// `stream` has no schemes: `proxy_ssl on` switches TLS on.
const STREAM: Pass = Pass { name: "proxy_pass", scheme: "", words: "proxy_ssl", failure: "Sessions end at once" };

fn check(facts: &Facts) -> Vec<Finding> {
    let Some(configuration) = &facts.configuration else { return Vec::new() };
    let mut findings = Vec::new();
    for pass in &PASSES {
        let over_tls = configuration.all(pass.name).into_iter().filter(|found| pass.is_over_tls(found));
        findings.extend(over_tls.filter_map(|found| look(facts, configuration, pass, &found)));
    }
    let of_stream = configuration.of_stream(STREAM.name).into_iter();
    let over_tls = of_stream.filter(|found| said(found, STREAM.words).as_deref() == Some("on"));
    findings.extend(over_tls.filter_map(|found| look(facts, configuration, &STREAM, &found)));
    findings
}

impl Pass {
    fn is_over_tls(&self, found: &Found<'_>) -> bool {
        argument(found.directive, 0).is_some_and(|url| url.to_ascii_lowercase().starts_with(self.scheme))
    }
}

fn said(found: &Found<'_>, name: &str) -> Option<String> {
    found.inherited(name).and_then(|line| argument(line, 0))
}

/// The finding about one directive, unless the certificate is verified.
fn look(facts: &Facts, configuration: &Configuration, pass: &Pass, found: &Found<'_>) -> Option<Finding> {
    let said = |word: &str| said(found, &format!("{}_{word}", pass.words));
    if said("verify").as_deref() == Some("on") {
        return None;
    }
    let mut change = Change::new(configuration);
    let is_stream = found.around("stream").is_some();
    let mut set = |line: String, remark: Option<&str>| {
        match found.around("server").filter(|_| is_stream) {
            Some(server) => change.set(server, line),
            None => change.set_for(found, line),
        };
        if let Some(remark) = remark {
            change.remark(remark);
        }
    };
    set(format!("{}_verify on;", pass.words), None);
    if said("trusted_certificate").is_none() {
        let remark = "the file of the authority that issues the upstream's certificate";
        set(format!("{}_trusted_certificate {SYSTEM_AUTHORITIES};", pass.words), Some(remark));
    }
    if said("server_name").as_deref() != Some("on") {
        set(format!("{}_server_name on;", pass.words), None);
    }
    let side_effect = format!(
        "{} while the certificate is not for the name in {} ({}_name sets another one), has expired, or is of an authority that the \
        file does not have.",
        pass.failure, pass.name, pass.words
    );
    let what = "the upstream's certificate is not verified".to_owned();
    Some(Finding { side_effect, ..at(facts, &RULE, Severity::Warning, found.directive.span, what, change.fix()) })
}

#[cfg(test)]
mod tests {
    use super::super::fixture::{facts, fired, http};
    use super::*;

    fn of(text: &str) -> usize {
        fired(&check(&http(text)))
    }

    #[test]
    fn fires_on_unverified_https_with_inheritance() {
        assert_eq!(
            of("server { location / { proxy_pass https://a.test; } location /b { proxy_pass HTTPS://$host; } }"),
            2
        );
        assert_eq!(
            of("server { proxy_ssl_verify on; location / { proxy_pass https://a.test; proxy_ssl_verify off; } }"),
            1
        );
        assert_eq!(of("proxy_ssl_verify on; server { location / { proxy_pass https://a.test; } }"), 0);
        assert_eq!(of("server { location / { proxy_pass http://a.test; } }"), 0);
    }

    #[test]
    fn fires_on_grpc_uwsgi_and_stream_with_their_own_words() {
        assert_eq!(of("server { location / { grpc_pass grpcs://a.test; } }"), 1);
        assert_eq!(of("server { grpc_ssl_verify on; location / { grpc_pass grpcs://a.test; } }"), 0);
        assert_eq!(of("server { proxy_ssl_verify on; location / { grpc_pass grpcs://a.test; } }"), 1, "another word");
        assert_eq!(of("server { location / { grpc_pass grpc://a.test; } location /b { grpc_pass a.test; } }"), 0);
        assert_eq!(of("server { location / { uwsgi_pass suwsgi://a.test:3031; } }"), 1);
        assert_eq!(of("server { location / { uwsgi_pass suwsgi://a.test:3031; uwsgi_ssl_verify on; } }"), 0);
        assert_eq!(of("server { location / { uwsgi_pass a.test:3031; } }"), 0);
        let stream = |text: &str| fired(&check(&facts(&format!("stream {{ {text} }}"))));
        assert_eq!(stream("server { listen 1; proxy_ssl on; proxy_pass a.test:2; }"), 1);
        assert_eq!(stream("proxy_ssl on; server { listen 1; proxy_pass a.test:2; proxy_ssl off; }"), 0);
        assert_eq!(stream("proxy_ssl on; proxy_ssl_verify on; server { listen 1; proxy_pass a.test:2; }"), 0);
        assert_eq!(stream("server { listen 1; proxy_pass a.test:2; }"), 0);
    }
}
