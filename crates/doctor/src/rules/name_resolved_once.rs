//! A name is resolved only when the configuration is loaded. After its addresses change, requests go to the old ones
//! until a reload.

use super::upstream_without_keepalive::redirect;
use super::{Needs, Rule, finding, quoted};
use crate::configuration::{Configuration, Found, argument};
use crate::edit::{Change, UNDO};
use crate::facts::Facts;
use crate::group::{groups, host_of, is_address, setting};
use conf::tree::Directive;
use report::{Finding, Severity};

const NAME: &str = "name-resolved-once";
const WHY: &str = "Load balancers of clouds, containers and service discovery move their names to other addresses within minutes. The old \
    ones then refuse, time out, or belong to another service; and where the name cannot be looked up at start, the server does \
    not start.";
pub(super) const RULE: Rule = Rule {
    name: NAME,
    finds: "a name that is looked up at load and never again",
    needs: Needs::NOTHING,
    why: WHY,
    example: "server {
    location / {
        proxy_http_version 1.1;
        proxy_set_header Upgrade $http_upgrade;
        proxy_set_header Connection $http_connection;
        proxy_read_timeout 900s;
        proxy_pass http://app.example;
    }
}",
    instead: "server {
    resolver 127.0.0.53 valid=30s;
    location / {
        set $upstream_host app.example;
        proxy_pass http://$upstream_host;
    }
}",
    check,
};

pub(super) fn check(facts: &Facts) -> Vec<Finding> {
    let Some(configuration) = &facts.configuration else { return Vec::new() };
    let mut findings = Vec::new();
    for group in groups(configuration) {
        for server in group.servers() {
            let Some(name) = argument(server, 0).filter(|name| !is_address(host_of(name))) else { continue };
            let resolves = server.args.iter().any(|word| word.value == *b"resolve");
            if let (Some(upstream), false) = (group.upstream, resolves) {
                let fix = in_the_group(facts, configuration, upstream, server);
                findings.push(complete(configuration, server, &name, fix));
            }
        }
        let implied = group.passes.first().filter(|_| group.upstream.is_none());
        if let Some(pass) = implied.filter(|_| !is_address(host_of(&group.name))) {
            let fix = by_a_variable(facts, configuration, pass, &group.name);
            findings.push(complete(configuration, pass.directive, &group.name, fix));
        }
    }
    findings
}

const RELOAD: &str =
    "# it cannot be looked up again here: when its addresses change, reload the server (nginx -s reload)";

/// Adds `resolve`, and the zone and the resolver that it needs.
fn in_the_group(facts: &Facts, configuration: &Configuration, upstream: &Directive, server: &Directive) -> String {
    let Some(last) = server.args.last().filter(|_| facts.dialect.resolves_servers()) else {
        return format!(
            "{RELOAD}\n# with nginx since 1.27.3: zone, resolver and `server NAME resolve` in the upstream"
        );
    };
    let mut change = Change::new(configuration);
    change.replace(last.span.after(), " resolve");
    if setting(upstream, "zone").is_none() {
        change.set(upstream, format!("zone {} 64k;", argument(upstream, 0).unwrap_or_default()));
    }
    let http = configuration.main("http");
    if setting(upstream, "resolver").or_else(|| setting(http?, "resolver")).is_none() {
        change.set(upstream, format!("resolver {} valid=30s;", facts.system.resolver()));
    }
    change.fix()
}

/// An address with a variable is resolved at run time. Applied only without a URI, because a URI would be passed on
/// differently.
fn by_a_variable(facts: &Facts, configuration: &Configuration, pass: &Found<'_>, name: &str) -> String {
    const VARIABLE: &str = "$upstream_host";
    let target = pass.directive.args.first().map(|word| (word.span, configuration.text(word.span)));
    let is_whole = target.as_ref().is_some_and(|(_, text)| text.trim_end_matches(['"', '\'']).ends_with(name));
    let block = pass.home().and_then(|home| home.block.as_deref());
    let (Some((at, text)), Some(block), true) = (target, block, is_whole) else { return RELOAD.to_owned() };
    let mut change = Change::new(configuration);
    let line = [format!("set {VARIABLE} {name};")];
    // Added first in the block: a `rewrite … break` before it would skip it.
    match block.directives.first().filter(|first| first.span.file == block.close.file) {
        Some(first) => change.before(first, &line),
        None => change.at_end(block, &line),
    };
    change.replace(at, text.replacen(name, VARIABLE, 1));
    if pass.inherited("proxy_redirect").is_none() {
        change.set_for(pass, redirect(pass, name));
    }
    if pass.inherited("resolver").is_none() {
        change.set_for(pass, format!("resolver {} valid=30s;", facts.system.resolver()));
    }
    change.fix()
}

fn complete(configuration: &Configuration, at: &Directive, name: &str, fix: String) -> Finding {
    Finding {
        place: Some(configuration.place(at.span)),
        why: WHY.to_owned(),
        evidence: vec![quoted(configuration, at.span, &format!("{name} is looked up once, at load"))],
        fix,
        side_effect: "Names are asked for again every 30 s; after a start, a group whose name has not been answered for yet gives 502. A proxy_pass with a variable keeps no connections \
                      in nginx."
            .to_owned(),
        undo: UNDO.to_owned(),
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
    fn fires_on_unresolved_names_only() {
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
