//! Broken TLS versions and ciphers are allowed.

use super::{Needs, Rule, at};
use crate::configuration::argument;
use crate::edit::Change;
use crate::facts::Facts;
use report::{Finding, Severity};

pub(super) const RULE: Rule = Rule {
    name: "weak-tls",
    finds: "SSLv3, TLS 1.0 or 1.1, or broken ciphers, for a TLS listener",
    needs: Needs::NOTHING,
    why: "TLS 1.0 and 1.1 and ciphers such as RC4 or DES are broken or forbidden (RFC 8996): who is on the way can read or change what is sent.",
    example: "server { listen 443 ssl; ssl_protocols TLSv1 TLSv1.1 TLSv1.2; }",
    instead: "server { listen 443 ssl; ssl_protocols TLSv1.2 TLSv1.3; }",
    check,
};

const VERSIONS: [&str; 4] = ["SSLv2", "SSLv3", "TLSv1", "TLSv1.1"];
const CIPHERS: [&str; 8] = ["RC4", "DES", "3DES", "MD5", "aNULL", "eNULL", "NULL", "EXPORT"];
const CIPHERS_GOOD: &str = "HIGH:!aNULL:!MD5";

fn check(facts: &Facts) -> Vec<Finding> {
    let Some(configuration) = &facts.configuration else { return Vec::new() };
    let mut findings = Vec::new();
    let mut seen = Vec::new();
    for listen in configuration.listens() {
        if !listen.directive.args.iter().any(|word| word.value == *b"ssl") {
            continue;
        }
        if let Some(line) = listen.inherited("ssl_protocols").filter(|line| !seen.contains(&line.span)) {
            let old: Vec<String> = line
                .args
                .iter()
                .map(|word| word.text().into_owned())
                .filter(|word| VERSIONS.contains(&word.as_str()))
                .collect();
            if !old.is_empty() {
                seen.push(line.span);
                let fix = Change::new(configuration).replace(line.span, "ssl_protocols TLSv1.2 TLSv1.3;").fix();
                findings.push(Finding {
                    side_effect: "Clients from before 2014 can no longer connect.".to_owned(),
                    ..at(facts, &RULE, Severity::Warning, line.span, format!("{} is accepted", old.join(", ")), fix)
                });
            }
        }
        let Some(line) = listen.inherited("ssl_ciphers").filter(|line| !seen.contains(&line.span)) else { continue };
        let ciphers = argument(line, 0).unwrap_or_default();
        let weak = ciphers.split([':', ',', ' ']).find(|cipher| {
            !cipher.starts_with(['!', '-']) && cipher.split(['-', '+']).any(|part| CIPHERS.contains(&part))
        });
        let Some(weak) = weak else { continue };
        seen.push(line.span);
        let fix = Change::new(configuration).replace(line.span, format!("ssl_ciphers {CIPHERS_GOOD};")).fix();
        findings.push(Finding {
            side_effect: "Clients that know nothing better can no longer connect.".to_owned(),
            ..at(facts, &RULE, Severity::Warning, line.span, format!("the cipher {weak} is accepted"), fix)
        });
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::super::fixture::{facts, fired, http};
    use super::*;

    fn of(text: &str) -> usize {
        fired(&check(&http(text)))
    }

    #[test]
    fn fires_on_old_versions_and_ciphers_of_tls_listeners_alone() {
        assert_eq!(of("ssl_protocols SSLv3 TLSv1.2; server { listen 443 ssl; } server { listen 444 ssl; }"), 1);
        assert_eq!(of("server { listen 443 ssl; ssl_ciphers ECDHE-RSA-AES128-GCM-SHA256:RC4-SHA; }"), 1);
        assert_eq!(
            of("server { listen 443 ssl; ssl_protocols TLSv1.2 TLSv1.3; ssl_ciphers HIGH:!aNULL:!MD5:!3DES; }"),
            0
        );
        assert_eq!(of("ssl_protocols TLSv1 TLSv1.1; server { listen 80; }"), 0, "nothing speaks TLS");
        let stream = "stream { ssl_protocols TLSv1; server { listen 443 ssl; return x; } }";
        assert_eq!(fired(&check(&facts(stream))), 1);
    }
}
