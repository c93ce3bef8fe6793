//! A name that is looked up when the configuration is loaded and never again: when its addresses change, requests go to the old
//! ones until somebody reloads.

use super::{finding, quoted};
use crate::configuration::{Configuration, argument};
use crate::facts::Facts;
use crate::group::{group_of, groups, host_of, is_address};
use conf::tree::Directive;
use report::{Finding, Severity};

pub(super) const NAME: &str = "name-resolved-once";

pub(super) fn check(facts: &Facts) -> Vec<Finding> {
    let Some(configuration) = &facts.configuration else { return Vec::new() };
    let mut findings = Vec::new();
    for group in groups(configuration) {
        for server in group.servers() {
            let Some(name) = argument(server, 0).filter(|name| !is_address(host_of(name))) else { continue };
            let resolves = server.args.iter().any(|word| word.value == *b"resolve");
            if !resolves {
                let fix = format!(
                    "resolver 127.0.0.53 valid=30s;\nupstream {} {{\n    zone {} 64k;\n    server {name} resolve;\n}}",
                    group.name, group.name
                );
                findings.push(complete(configuration, server, &name, fix));
            }
        }
        let implied = group.passes.first().filter(|_| group.upstream.is_none());
        if let Some(pass) = implied.filter(|_| !is_address(host_of(&group.name))) {
            let whole = argument(pass.directive, 0).unwrap_or_default();
            let scheme = whole.split("://").next().unwrap_or("http");
            let name = group_of(&whole).unwrap_or_default();
            let fix = format!(
                "resolver 127.0.0.53 valid=30s;\nset $upstream {name};\nproxy_pass {scheme}://$upstream;   # with a variable it is looked up while running"
            );
            findings.push(complete(configuration, pass.directive, &name, fix));
        }
    }
    findings
}

fn complete(configuration: &Configuration, at: &Directive, name: &str, fix: String) -> Finding {
    Finding {
        place: Some(configuration.place(at.span)),
        why: "Load balancers of clouds, containers and service discovery move their names to other addresses within minutes. The old \
              ones then refuse, time out, or belong to somebody else; and where the name cannot be looked up at start, the server does \
              not start."
            .to_owned(),
        evidence: vec![quoted(configuration, at.span, &format!("{name} is looked up once, at load"))],
        fix,
        side_effect: "Names are asked for again every 30 s. In nginx `resolve` needs 1.27.3; a proxy_pass with a variable keeps no \
                      connections in nginx and passes the URI on unchanged."
            .to_owned(),
        undo: "The old line, and a reload.".to_owned(),
        ..finding(NAME, Severity::Note, format!("the addresses of {name} are those of the last reload"))
    }
}

#[cfg(test)]
mod tests {
    use super::super::fixture::{facts, proxy, table};
    use super::*;

    fn implicit(target: &str) -> Facts {
        facts(&format!("events {{}}\nhttp {{ server {{ location / {{ proxy_pass {target}; }} }} }}\n"))
    }

    #[test]
    fn it_fires_on_names_and_not_on_addresses_or_what_is_resolved() {
        table(
            check,
            [
                (1, proxy("server app.example:8080;", ""), "a name in a group"),
                (1, implicit("http://elb.example.com/"), "a name without one"),
                (0, implicit("http://localhost:3000"), "a name that does not move"),
                (0, implicit("http://[::1]:3000"), "an address"),
                (0, implicit("http://$host"), "looked up while running"),
                (0, proxy("zone api 64k; resolver 127.0.0.1; server app.example:8080 resolve;", ""), "resolved"),
                (0, proxy("server unix:/run/app.sock; server 10.0.0.1;", ""), "a path and an address"),
            ],
        );
    }
}
