//! A location is named after WebSocket and does not pass Upgrade on: its handshakes become ordinary requests.

use super::{Needs, Rule, finding, quoted};
use crate::configuration::{Found, argument, is};
use crate::edit::{Change, UNDO};
use crate::facts::Facts;
use report::{Finding, Severity};

const NAME: &str = "websocket-without-upgrade";
const WHY: &str = "Upgrade and Connection are fields between two hops, and a proxy drops them. The upstream sees a plain GET and answers \
    400, 404 or 426; libraries that can fall back to polling then poll, with a request each second.";
pub(super) const RULE: Rule = Rule {
    name: NAME,
    finds: "a location named after WebSocket that passes no Upgrade on",
    needs: Needs::NOTHING,
    why: WHY,
    example: r#"upstream app { server 127.0.0.1:3000; keepalive 8; }
server {
    proxy_http_version 1.1;
    proxy_set_header Connection "";
    location /socket.io/ { proxy_pass http://app; }
}"#,
    instead: "map $http_upgrade $connection_upgrade { default upgrade; '' ''; }
upstream app { server 127.0.0.1:3000; keepalive 8; }
server {
    location /socket.io/ {
        proxy_http_version 1.1;
        proxy_set_header Upgrade $http_upgrade;
        proxy_set_header Connection $connection_upgrade;
        proxy_read_timeout 900s;
        proxy_pass http://app;
    }
}",
    check,
};
/// Common path segments of WebSocket endpoints.
const SEGMENTS: [&str; 8] = ["ws", "wss", "websocket", "websockets", "socket.io", "sockjs", "signalr", "cable"];

pub(super) fn check(facts: &Facts) -> Vec<Finding> {
    let Some(configuration) = &facts.configuration else { return Vec::new() };
    let mut findings = Vec::new();
    for pass in configuration.all("proxy_pass") {
        let Some(path) = path(&pass).filter(|path| names_a_websocket(path)) else { continue };
        // If any Upgrade is set, even empty, the operator has decided; another rule checks the recipe.
        if pass.sent_header("Upgrade").is_some() {
            continue;
        }
        let mut change = Change::new(configuration);
        let variable = change.connection_variable();
        let version = pass.inherited("proxy_http_version").and_then(|directive| argument(directive, 0));
        if version.unwrap_or_else(|| facts.dialect.upstream_version().to_owned()) == "1.0" {
            change.set_for(&pass, "proxy_http_version 1.1;");
        }
        change.send(&pass, &[("Upgrade", "$http_upgrade"), ("Connection", &variable)]);
        if pass.inherited("proxy_read_timeout").is_none() {
            change
                .set_for(&pass, "proxy_read_timeout 900s;")
                .remark("proxy_read_timeout must be longer than the heartbeat");
        }
        findings.push(Finding {
            place: Some(configuration.place(pass.directive.span)),
            why: WHY.to_owned(),
            evidence: vec![quoted(
                configuration,
                pass.directive.span,
                &format!("proxy_pass in location {path}, without proxy_set_header Upgrade"),
            )],
            fix: change.fix(),
            side_effect:
                "A block with a proxy_set_header of its own inherits none: those from outside are repeated in it."
                    .to_owned(),
            undo: UNDO.to_owned(),
            ..finding(NAME, Severity::Warning, format!("location {path} passes no Upgrade on"))
        });
    }
    findings
}

/// The pattern of the innermost location.
fn path(pass: &Found<'_>) -> Option<String> {
    let location = pass.within.iter().rev().find(|block| is(block, "location"))?;
    let last = location.args.len().checked_sub(1)?;
    argument(location, last)
}

fn names_a_websocket(path: &str) -> bool {
    let plain = path.replace('\\', "").to_ascii_lowercase();
    plain.split(['/', '^', '$', '(', ')', '|', '?']).any(|segment| SEGMENTS.contains(&segment))
}

#[cfg(test)]
mod tests {
    use super::super::fixture::{facts, fired};
    use super::*;

    fn of(location: &str, inside: &str) -> usize {
        fired(&check(&facts(&format!(
            "events {{}}\nhttp {{ server {{ location {location} {{ {inside} proxy_pass http://127.0.0.1:3000; }} }} }}\n"
        ))))
    }

    #[test]
    fn fires_on_websocket_names_without_upgrade_handling() {
        assert_eq!((of("/socket.io/", ""), of("/ws", ""), of(r"~* ^/(api|cable)$", "")), (1, 1, 1));
        assert_eq!(of("/ws", "proxy_set_header Upgrade $http_upgrade;"), 0);
        assert_eq!((of("/", ""), of("/news", ""), of("/socket.io-docs/", "")), (0, 0, 0));
    }
}
