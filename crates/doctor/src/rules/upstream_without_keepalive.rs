//! Every request opens a connection to the upstream and leaves it in TIME_WAIT: the group keeps no connections, or
//! there is no group.

use super::{Needs, Rule, finding, quoted};
use crate::configuration::{Configuration, Found, argument};
use crate::dialect::Dialect;
use crate::edit::{Change, UNDO};
use crate::facts::Facts;
use crate::group::{Group, groups, host_of};
use crate::kernel::TIME_WAIT_SECONDS;
use conf::tree::Directive;
use report::{Finding, Severity};

const NAME: &str = "upstream-without-keepalive";
const WHY: &str = "Each request opens a connection and closes it. The side that closes first holds it in TIME_WAIT for a minute; the ports \
    towards one peer run out, and connecting costs more than the request.";
pub(super) const RULE: Rule = Rule {
    name: NAME,
    finds: "a group, or a `proxy_pass` without one, that opens a connection per request",
    needs: Needs { word: false, running: true },
    why: WHY,
    example: "upstream api { server 127.0.0.1:3000; }
server { location / { proxy_pass http://api; } }",
    instead: r#"upstream api { server 127.0.0.1:3000; keepalive 32; }
server { location / { proxy_http_version 1.1; proxy_set_header Connection ""; proxy_pass http://api; } }"#,
    check,
};

pub(super) fn check(facts: &Facts) -> Vec<Finding> {
    let Some(configuration) = &facts.configuration else { return Vec::new() };
    let mut findings = Vec::new();
    for group in groups(configuration) {
        // A tunnel needs its own upstream connection, and a location that passes Upgrade on mostly carries tunnels.
        let Some(pass) = group.passes.iter().find(|pass| !pass.upgrades()) else { continue };
        let mut finding = match group.upstream {
            Some(_) if group.kept(facts.dialect) > 0 => continue,
            Some(upstream) => explicit(facts, configuration, &group, upstream),
            None => implicit(facts, configuration, &group, pass),
        };
        finding.evidence.extend(seen(facts, &group));
        findings.push(finding);
    }
    findings
}

/// Evidence from the sockets of a running server.
fn seen(facts: &Facts, group: &Group<'_>) -> Vec<String> {
    let Some(live) = &facts.live else { return Vec::new() };
    group.addresses().into_iter().filter_map(|peer| live.towards(peer)).map(|seen| seen.sentence()).collect()
}

fn explicit(facts: &Facts, configuration: &Configuration, group: &Group<'_>, upstream: &Directive) -> Finding {
    let name = &group.name;
    let mut change = Change::new(configuration);
    change.set(upstream, "keepalive 32;");
    for pass in group.passes.iter().filter(|pass| !pass.upgrades()) {
        reuse(&mut change, facts.dialect, pass, &[]);
    }
    let what = format!("upstream group \"{name}\" keeps no connections");
    let text = format!("upstream {name} {{ … }} without connections kept, read as {}", facts.dialect.name());
    complete(facts, what, change.fix(), configuration, upstream, &text)
}

fn implicit(facts: &Facts, configuration: &Configuration, group: &Group<'_>, pass: &Found<'_>) -> Finding {
    let name = &group.name;
    let what = format!("proxy_pass to {name} without an upstream {{}} keeps no connections");
    let fix = written_out(configuration, facts.dialect, group, pass).fix();
    complete(facts, what, fix, configuration, pass.directive, &format!("proxy_pass … {name}"))
}

/// Sets what is needed to reuse connections: HTTP/1.1, and no `Connection: close`.
fn reuse(change: &mut Change<'_>, dialect: Dialect, pass: &Found<'_>, fields: &[(String, String)]) {
    let version = pass.inherited("proxy_http_version").and_then(|line| argument(line, 0));
    if version.unwrap_or_else(|| dialect.upstream_version().to_owned()) == "1.0" {
        change.set_for(pass, "proxy_http_version 1.1;");
    }
    let sent = pass.sent_header("Connection").or_else(|| (!dialect.pools_by_default()).then(|| "close".to_owned()));
    let mut fields: Vec<(&str, &str)> = fields.iter().map(|(field, value)| (field.as_str(), value.as_str())).collect();
    if sent.is_some_and(|sent| sent.eq_ignore_ascii_case("close")) {
        fields.push(("Connection", "\"\""));
    }
    if !fields.is_empty() {
        change.send(pass, &fields);
    }
}

/// Writes the implied group as an `upstream {}`. Neither the application nor the client may notice it: the Host field,
/// the TLS name and rewritten redirects came from the address, and keep their values.
fn written_out<'c>(
    configuration: &'c Configuration,
    dialect: Dialect,
    group: &Group<'_>,
    first: &Found<'_>,
) -> Change<'c> {
    let mut change = Change::new(configuration);
    let name = group.name.as_str();
    let scheme = |pass: &Found<'_>| {
        let target = argument(pass.directive, 0).unwrap_or_default();
        target.split_once("://").map(|(scheme, _)| scheme.to_owned()).unwrap_or_default()
    };
    let is_tls = scheme(first) == "https";
    let (host, port) = (host_of(name), if is_tls { "443" } else { "80" });
    let has_port = name.len() > host.len() + if name.starts_with('[') { 2 } else { 0 };
    // The former value of `$proxy_host`: it does not contain the scheme's default port.
    let shown = name.strip_suffix(&format!(":{port}")).unwrap_or(name);
    let server = if has_port { name.to_owned() } else { format!("{name}:{port}") };
    let upstream = free_name(configuration, host);
    change.at_top(&[
        format!("upstream {upstream} {{"),
        format!("    server {server};"),
        "    keepalive 32;".to_owned(),
        "}".to_owned(),
    ]);
    for pass in group.passes.iter().filter(|pass| !pass.upgrades() && scheme(pass) == scheme(first)) {
        let Some(target) = pass.directive.args.first() else { continue };
        let text = configuration.text(target.span);
        change.replace(target.span, text.replacen(name, &upstream, 1));
        let mut fields = Vec::new();
        if pass.sent_header("Host").is_none() {
            fields.push(("Host".to_owned(), shown.to_owned()));
        }
        for header in pass.inherited_all("proxy_set_header") {
            let value = header.args.get(1).map(|word| configuration.text(word.span)).unwrap_or_default();
            if let Some(field) = argument(header, 0).filter(|_| value.contains("$proxy_host")) {
                fields.push((field, value.replace("$proxy_host", shown)));
            }
        }
        reuse(&mut change, dialect, pass, &fields);
        if is_tls && pass.inherited("proxy_ssl_name").is_none() {
            change.set_for(pass, format!("proxy_ssl_name {host};"));
        }
        if pass.inherited("proxy_redirect").is_none() {
            change.set_for(pass, redirect(pass, name));
        }
    }
    change
}

/// The former default of `proxy_redirect`: the application's own address becomes the client's.
pub(super) fn redirect(pass: &Found<'_>, name: &str) -> String {
    let target = argument(pass.directive, 0).unwrap_or_default();
    let rest = target.split_once(name).map(|(_, rest)| rest).unwrap_or_default();
    let location = pass.home().and_then(|home| argument(home, home.args.len().checked_sub(1)?));
    match location.filter(|_| !rest.is_empty()) {
        Some(location) => format!("proxy_redirect {target} {location};"),
        None => format!("proxy_redirect {}/ /;", target.trim_end_matches('/')),
    }
}

/// A name for the group that no group and no host has.
fn free_name(configuration: &Configuration, host: &str) -> String {
    let plain = |c: char| if c.is_ascii_alphanumeric() { c } else { '_' };
    let name = format!("pool_{}", host.chars().map(plain).collect::<String>());
    let is_taken = |name: &str| configuration.upstream(name).is_some();
    let others = (2..).map(|count| format!("{name}_{count}"));
    std::iter::once(name.clone()).chain(others).find(|name| !is_taken(name)).unwrap_or(name)
}

fn complete(
    facts: &Facts,
    what: String,
    fix: String,
    configuration: &Configuration,
    at: &Directive,
    text: &str,
) -> Finding {
    let arithmetic = |ports: u64| {
        let rate = ports / TIME_WAIT_SECONDS;
        format!("{ports} ports / {TIME_WAIT_SECONDS} s = {rate} requests/s to one peer before connect() fails")
    };
    Finding {
        place: Some(configuration.place(at.span)),
        why: WHY.to_owned(),
        evidence: vec![quoted(configuration, at.span, text)],
        arithmetic: facts.system.ports().map(arithmetic).unwrap_or_default(),
        fix,
        side_effect: "Idle connections stay open at the upstream, up to the number for each worker. A peer that closes idle ones \
                      sooner than we do can meet a request with its close: keep our keepalive_timeout below its own."
            .to_owned(),
        undo: UNDO.to_owned(),
        ..finding(NAME, Severity::Warning, what)
    }
}

#[cfg(test)]
mod tests {
    use super::super::fixture::{facts, fired, old, proxy, table};
    use super::*;

    fn implicit(target: &str) -> Facts {
        facts(&format!("events {{}}\nhttp {{ server {{ location / {{ proxy_pass {target}; }} }} }}\n"))
    }

    #[test]
    fn fires_only_if_a_group_could_keep_connections() {
        let tunnel = "proxy_set_header Upgrade $http_upgrade; proxy_set_header Connection upgrade;";
        table(
            check,
            [
                (1, proxy("server 127.0.0.1:1; keepalive 0;", ""), "turned off"),
                (1, old(proxy("server 127.0.0.1:1;", "")), "off by default before 1.29.7"),
                (0, proxy("server 127.0.0.1:1;", ""), "on by default since"),
                (0, old(proxy("server 127.0.0.1:1; keepalive 16;", "")), "turned on"),
                (0, old(proxy("server 127.0.0.1:1;", tunnel)), "a tunnel is never kept"),
                (0, implicit("http://$host"), "a group that is known while running alone"),
            ],
        );
    }

    #[test]
    fn names_an_implicit_group_where_it_is_used() {
        let findings = check(&implicit("http://127.0.0.1:3000/"));
        assert_eq!((fired(&findings), findings[0].place_text().as_str()), (1, "/etc/nginx/nginx.conf:2:30"));
        assert!(findings[0].arithmetic.contains("28232 ports / 60 s = 470 requests/s"), "{}", findings[0].arithmetic);
    }
}
