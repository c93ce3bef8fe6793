//! Certificates of TLS upstreams are not verified: an attacker on the path can pose as the upstream.

use super::{Needs, Rule, at};
use crate::configuration::{Found, argument};
use crate::edit::Change;
use crate::facts::Facts;
use report::{Finding, Severity};

pub(super) const RULE: Rule = Rule {
    name: "upstream-not-verified",
    finds: "`proxy_pass https://…` without `proxy_ssl_verify on`",
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

fn check(facts: &Facts) -> Vec<Finding> {
    let Some(configuration) = &facts.configuration else { return Vec::new() };
    let mut findings = Vec::new();
    for pass in configuration.all("proxy_pass").into_iter().filter(is_over_tls) {
        let said = |name: &str| pass.inherited(name).and_then(|line| argument(line, 0));
        if said("proxy_ssl_verify").as_deref() == Some("on") {
            continue;
        }
        let mut change = Change::new(configuration);
        change.set_for(&pass, "proxy_ssl_verify on;");
        if said("proxy_ssl_trusted_certificate").is_none() {
            change
                .set_for(&pass, format!("proxy_ssl_trusted_certificate {SYSTEM_AUTHORITIES};"))
                .remark("the file of the authority that issues the upstream's certificate");
        }
        if said("proxy_ssl_server_name").as_deref() != Some("on") {
            change.set_for(&pass, "proxy_ssl_server_name on;");
        }
        let side_effect = "Requests fail with 502 while the certificate is not for the name in proxy_pass (proxy_ssl_name sets another \
            one), has expired, or is of an authority that the file does not have.";
        let what = "the upstream's certificate is not verified".to_owned();
        findings.push(Finding {
            side_effect: side_effect.to_owned(),
            ..at(facts, &RULE, Severity::Warning, pass.directive.span, what, change.fix())
        });
    }
    findings
}

fn is_over_tls(pass: &Found<'_>) -> bool {
    argument(pass.directive, 0).is_some_and(|url| url.to_ascii_lowercase().starts_with("https://"))
}

#[cfg(test)]
mod tests {
    use super::super::fixture::{fired, http};
    use super::*;

    fn of(text: &str) -> usize {
        fired(&check(&http(text)))
    }

    #[test]
    fn fires_on_https_alone_and_sees_what_is_inherited() {
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
}
