//! The client's Host field is passed on unchanged: it need not be a name of the selected server.

use super::{Needs, Rule, at};
use crate::configuration::argument;
use crate::edit::Change;
use crate::facts::Facts;
use report::{Finding, Severity};

pub(super) const RULE: Rule = Rule {
    name: "host-spoofing",
    finds: "`proxy_set_header Host $http_host`",
    needs: Needs::NOTHING,
    why: "With an absolute address in the request line the server is selected by that address, and $http_host is still the header: the application may be told any host, and puts it into links and mails.",
    example: "proxy_set_header Host $http_host;",
    instead: "proxy_set_header Host $host;",
    check,
};

fn check(facts: &Facts) -> Vec<Finding> {
    let Some(configuration) = &facts.configuration else { return Vec::new() };
    let mut findings = Vec::new();
    for header in configuration.all("proxy_set_header") {
        let is_host = argument(header.directive, 0).is_some_and(|name| name.eq_ignore_ascii_case("Host"));
        let Some(value) = header.directive.args.get(1).filter(|_| is_host) else { continue };
        if !matches!(&*value.text(), "$http_host" | "${http_host}") {
            continue;
        }
        let fix = Change::new(configuration).replace(value.span, "$host").fix();
        findings.push(Finding {
            side_effect: "$host has no port: where this server is not on port 80 or 443 and the application makes absolute links, \
                          write $host:$server_port. Object stores sign the field as the client sent it: keep $http_host there."
                .to_owned(),
            ..at(facts, &RULE, Severity::Note, value.span, "the application is told any host that a client names".to_owned(), fix)
        });
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::super::fixture::{fired, http};
    use super::*;

    fn of(text: &str) -> usize {
        fired(&check(&http(text)))
    }

    #[test]
    fn fires_on_the_raw_header_only() {
        assert_eq!(of("proxy_set_header host $http_host;"), 1);
        assert_eq!(of("proxy_set_header Host $host; proxy_set_header X-Host $http_host;"), 0);
        assert_eq!(of("proxy_set_header Host $proxy_host;"), 0);
    }
}
