//! The upstream of a WebSocket location never gets the Upgrade: half of the recipe is missing.

use super::{Needs, Rule, finding, quoted};
use crate::configuration::argument;
use crate::edit::{Change, UNDO};
use crate::facts::Facts;
use report::{Finding, Severity};

const NAME: &str = "tunnel-broken";
const WHY: &str = "The upstream takes the handshake for an ordinary GET and answers 200, 400 or 426: no WebSocket connection \
    ever opens here.";
pub(super) const RULE: Rule = Rule {
    name: NAME,
    finds: "Upgrade passed on, but not so that the upstream sees it",
    needs: Needs::NOTHING,
    why: WHY,
    example: "server {
    proxy_set_header X-Real-IP $remote_addr;
    location /ws {
        proxy_set_header Upgrade $http_upgrade;
        proxy_read_timeout 900s;
        proxy_pass http://127.0.0.1:3000;
    }
}",
    instead: r#"server {
    proxy_set_header X-Real-IP $remote_addr;
    location /ws {
        proxy_http_version 1.1;
        proxy_set_header X-Real-IP $remote_addr;
        proxy_set_header Upgrade $http_upgrade;
        proxy_set_header Connection "upgrade";
        proxy_read_timeout 900s;
        proxy_pass http://127.0.0.1:3000;
    }
}"#,
    check,
};

pub(super) fn check(facts: &Facts) -> Vec<Finding> {
    let Some(configuration) = &facts.configuration else { return Vec::new() };
    let mut findings = Vec::new();
    for pass in configuration.all("proxy_pass").into_iter().filter(super::super::configuration::Found::upgrades) {
        let version = pass.inherited("proxy_http_version").and_then(|directive| argument(directive, 0));
        let version = version.unwrap_or_else(|| facts.dialect.upstream_version().to_owned());
        let header = pass.sent_header("Connection").unwrap_or_default();
        let mut evidence = vec![quoted(configuration, pass.directive.span, "proxy_pass with proxy_set_header Upgrade")];
        if version == "1.0" {
            evidence.push("proxy_http_version is 1.0 here, which has no Upgrade".to_owned());
        }
        // A variable is a map as in the recipe; this rule does not evaluate the map.
        if !header.contains('$') && !header.to_ascii_lowercase().contains("upgrade") {
            evidence.push(format!("Connection is \"{header}\" here; Upgrade counts only where Connection names it"));
        }
        if evidence.len() == 1 {
            continue;
        }
        let mut change = Change::new(configuration);
        let variable = change.connection_variable();
        let version = pass.inherited("proxy_http_version").and_then(|directive| argument(directive, 0));
        if version.unwrap_or_else(|| facts.dialect.upstream_version().to_owned()) == "1.0" {
            change.set_for(&pass, "proxy_http_version 1.1;");
        }
        change.send(&pass, &[("Upgrade", "$http_upgrade"), ("Connection", &variable)]);
        findings.push(Finding {
            place: Some(configuration.place(pass.directive.span)),
            why: WHY.to_owned(),
            evidence,
            fix: change.fix(),
            side_effect: "None for requests that do not ask for an upgrade.".to_owned(),
            undo: UNDO.to_owned(),
            ..finding(NAME, Severity::Error, "Upgrade is passed on, but not so that the upstream sees it".to_owned())
        });
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::super::fixture::{old, proxy, table};
    use super::*;

    fn tunnel(location: &str) -> Facts {
        proxy("server 127.0.0.1:1;", &format!("proxy_set_header Upgrade $http_upgrade; {location}"))
    }

    #[test]
    fn fires_on_either_missing_half_and_not_on_the_recipe() {
        let recipe = "proxy_set_header Connection $connection_upgrade; proxy_http_version 1.1;";
        table(
            check,
            [
                (1, tunnel(""), "no Connection"),
                (1, tunnel("proxy_set_header Connection \"\";"), "an empty Connection"),
                (1, old(tunnel("proxy_set_header Connection upgrade;")), "HTTP/1.0"),
                (0, old(tunnel(recipe)), "the recipe"),
                (0, tunnel("proxy_set_header Connection \"Upgrade\";"), "the constant"),
                (0, proxy("server 127.0.0.1:1;", ""), "no upgrade is passed on"),
                (0, proxy("server 127.0.0.1:1;", "proxy_set_header Upgrade \"\";"), "Upgrade taken out"),
            ],
        );
    }
}
