//! A `resolver` on the internet: its answers decide where requests go, and they cross networks where others can forge
//! them.

use super::{Needs, Rule, at};
use crate::edit::Change;
use crate::facts::Facts;
use crate::group::host_of;
use report::{Finding, Severity};
use std::net::IpAddr;

pub(super) const RULE: Rule = Rule {
    name: "resolver-outside",
    finds: "a public address in `resolver`",
    needs: Needs::NOTHING,
    why: "DNS over UDP is not protected: an attacker on the path, or one that guesses a port and a number, decides where requests go.",
    example: "resolver 8.8.8.8;",
    instead: "resolver 127.0.0.53;",
    check,
};

fn check(facts: &Facts) -> Vec<Finding> {
    let Some(configuration) = &facts.configuration else { return Vec::new() };
    let mut findings = Vec::new();
    for line in configuration.all("resolver") {
        for word in &line.directive.args {
            let text = word.text();
            let Some(address) = host_of(&text).parse::<IpAddr>().ok().filter(|address| is_public(*address)) else {
                continue;
            };
            let inner = facts
                .system
                .name_servers
                .iter()
                .find(|server| host_of(server).parse::<IpAddr>().is_ok_and(|address| !is_public(address)));
            let inner = inner.map_or("127.0.0.53", String::as_str);
            let fix = Change::new(configuration)
                .replace(word.span, inner)
                .remark("a caching resolver on this host or network")
                .fix();
            findings.push(Finding {
                side_effect: "That resolver must be there and know the names.".to_owned(),
                ..at(facts, &RULE, Severity::Note, word.span, format!("names are asked for at {address}, outside"), fix)
            });
        }
    }
    findings
}

fn is_public(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => {
            let [a, b, ..] = address.octets();
            let is_shared = a == 100 && (64..128).contains(&b);
            !(address.is_private() || address.is_loopback() || address.is_link_local() || is_shared)
        }
        // Unique local and link-local addresses: fc00::/7 and fe80::/10.
        IpAddr::V6(address) => {
            let first = address.segments()[0];
            !(address.is_loopback() || first & 0xfe00 == 0xfc00 || first & 0xffc0 == 0xfe80)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::fixture::{fired, http};
    use super::*;

    fn of(text: &str) -> usize {
        fired(&check(&http(text)))
    }

    #[test]
    fn fires_on_public_addresses_and_not_on_near_ones() {
        assert_eq!(of("resolver 8.8.8.8 1.1.1.1:53 [2001:4860:4860::8888] valid=30s;"), 3);
        assert_eq!(
            of("resolver 127.0.0.53 10.0.0.2 192.168.1.1 169.254.169.253 100.100.2.136 [::1] [fd00::1] dns.internal;"),
            0
        );
    }
}
