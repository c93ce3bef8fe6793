//! `Connection: upgrade` is sent with every request, although most requests upgrade nothing: their connections are not
//! kept.

use super::{Needs, Rule, finding, quoted};
use crate::configuration::{argument, is};
use crate::edit::{Change, UNDO};
use crate::facts::Facts;
use crate::group::{group_of, setting};
use report::{Finding, Severity};

const NAME: &str = "connection-always-upgrade";
const WHY: &str = "Connection names upgrade where the request has none. Some servers answer 400 or 426, others close after the response: \
    the pool that was asked for stays empty.";
pub(super) const RULE: Rule = Rule {
    name: NAME,
    finds: "`Connection: upgrade` for requests that upgrade nothing, beside a pool",
    needs: Needs::NOTHING,
    why: WHY,
    example: r#"upstream api { server 127.0.0.1:3000; keepalive 32; }
server {
    location / {
        proxy_http_version 1.1;
        proxy_set_header Upgrade $http_upgrade;
        proxy_set_header Connection "upgrade";
        proxy_read_timeout 900s;
        proxy_pass http://api;
    }
}"#,
    instead: "map $http_upgrade $connection_upgrade { default upgrade; '' ''; }
upstream api { server 127.0.0.1:3000; keepalive 32; }
server {
    location / {
        proxy_http_version 1.1;
        proxy_set_header Upgrade $http_upgrade;
        proxy_set_header Connection $connection_upgrade;
        proxy_read_timeout 900s;
        proxy_pass http://api;
    }
}",
    check,
};

pub(super) fn check(facts: &Facts) -> Vec<Finding> {
    let Some(configuration) = &facts.configuration else { return Vec::new() };
    let mut findings = Vec::new();
    for pass in configuration.all("proxy_pass") {
        let constant = pass.sent_header("Connection").is_some_and(|value| value.eq_ignore_ascii_case("upgrade"));
        let everything =
            pass.within.iter().rev().find(|block| is(block, "location")).and_then(|location| argument(location, 0));
        if !constant || everything.as_deref() != Some("/") {
            continue;
        }
        // Only a group with a pool loses its connections this way.
        let Some(name) = argument(pass.directive, 0).and_then(|target| group_of(&target)) else { continue };
        let Some(keepalive) = configuration.upstream(&name).and_then(|upstream| setting(upstream, "keepalive")) else {
            continue;
        };
        if argument(keepalive, 0).as_deref() == Some("0") {
            continue;
        }
        let mut change = Change::new(configuration);
        let variable = change.connection_variable();
        change.send(&pass, &[("Connection", &variable)]);
        findings.push(Finding {
            place: Some(configuration.place(pass.directive.span)),
            why: WHY.to_owned(),
            evidence: vec![
                quoted(configuration, pass.directive.span, "location / with proxy_set_header Connection \"upgrade\""),
                quoted(configuration, keepalive.span, &format!("upstream {name} asks for a pool")),
            ],
            fix: change.fix(),
            side_effect: "None for WebSocket.".to_owned(),
            undo: UNDO.to_owned(),
            ..finding(
                NAME,
                Severity::Warning,
                format!("every request to upstream group \"{name}\" says Connection: upgrade"),
            )
        });
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::super::fixture::{fired, proxy};
    use super::*;

    const UPGRADE: &str = "proxy_set_header Upgrade $http_upgrade;";

    #[test]
    fn fires_on_constant_upgrade_but_not_on_a_map() {
        let of = |upstream: &str, connection: &str| {
            fired(&check(&proxy(upstream, &format!("{UPGRADE} proxy_set_header Connection {connection};"))))
        };
        assert_eq!(of("server 127.0.0.1:1; keepalive 16;", "\"upgrade\""), 1);
        assert_eq!(of("server 127.0.0.1:1; keepalive 16;", "$connection_upgrade"), 0);
        assert_eq!(of("server 127.0.0.1:1;", "\"Upgrade\""), 0);
        assert_eq!(of("server 127.0.0.1:1; keepalive 0;", "\"Upgrade\""), 0);
    }
}
