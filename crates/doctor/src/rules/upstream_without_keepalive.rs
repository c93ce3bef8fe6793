//! Every request opens a connection to the upstream and leaves it in TIME_WAIT: the group keeps none, or there is no group.

use super::{finding, quoted};
use crate::configuration::{Configuration, Found};
use crate::facts::{Dialect, Facts};
use crate::group::{Group, groups};
use crate::kernel::TIME_WAIT_SECONDS;
use conf::tree::Directive;
use report::{Finding, Severity};

pub(super) const NAME: &str = "upstream-without-keepalive";

pub(super) fn check(facts: &Facts) -> Vec<Finding> {
    let Some(configuration) = &facts.configuration else { return Vec::new() };
    let mut findings = Vec::new();
    for group in groups(configuration) {
        // A tunnel has its upstream connection for itself, and whoever passes Upgrade on mostly carries tunnels.
        let Some(pass) = group.passes.iter().find(|pass| !pass.upgrades()) else { continue };
        let mut finding = match group.upstream {
            Some(_) if group.kept(facts.dialect) > 0 => continue,
            Some(upstream) => explicit(facts, configuration, upstream, &group.name),
            None => implicit(facts, configuration, pass, &group.name),
        };
        finding.evidence.extend(seen(facts, &group));
        findings.push(finding);
    }
    findings
}

/// What the sockets say, where the server runs.
fn seen(facts: &Facts, group: &Group<'_>) -> Vec<String> {
    let Some(live) = &facts.live else { return Vec::new() };
    group.addresses().into_iter().filter_map(|peer| live.towards(peer)).map(|seen| seen.sentence()).collect()
}

fn explicit(facts: &Facts, configuration: &Configuration, upstream: &Directive, name: &str) -> Finding {
    let what = format!("upstream group \"{name}\" keeps no connections");
    let version = if facts.dialect == Dialect::Nginx1_22 {
        "\n\n# and where it is used:\nproxy_http_version 1.1;\nproxy_set_header Connection \"\";"
    } else {
        ""
    };
    let fix = format!("upstream {name} {{\n    # as it is, and then:\n    keepalive 32;\n}}{version}");
    let text = format!("upstream {name} {{ … }} without connections kept, read as {}", facts.dialect.name());
    complete(facts, what, fix, configuration, upstream, &text)
}

fn implicit(facts: &Facts, configuration: &Configuration, pass: &Found<'_>, name: &str) -> Finding {
    let what = format!("proxy_pass to {name} without an upstream {{}} keeps no connections");
    let fix = format!(
        "upstream pooled {{\n    server {name};\n    keepalive 32;\n}}\n\n# and where it is used:\nproxy_pass http://pooled;\n\
         proxy_http_version 1.1;\nproxy_set_header Connection \"\";\nproxy_set_header Host {name};"
    );
    complete(facts, what, fix, configuration, pass.directive, &format!("proxy_pass … {name}"))
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
        why: "Each request opens a connection and closes it. Whoever closes first holds it in TIME_WAIT for a minute; the ports \
              towards one peer run out, and connecting costs more than the request."
            .to_owned(),
        evidence: vec![quoted(configuration, at.span, text)],
        arithmetic: facts.system.ports().map(arithmetic).unwrap_or_default(),
        fix,
        side_effect: "Idle connections stay open at the upstream, up to the number for each worker. A peer that closes idle ones \
                      sooner than we do can meet a request with its close: keep our keepalive_timeout below its own."
            .to_owned(),
        undo: "keepalive 0; or the lines removed, and a reload.".to_owned(),
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
    fn it_fires_where_nothing_is_kept_and_not_where_something_is_or_cannot_be() {
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
    fn a_group_that_nobody_wrote_is_named_where_it_is_used() {
        let findings = check(&implicit("http://127.0.0.1:3000/"));
        assert_eq!((fired(&findings), findings[0].place_text().as_str()), (1, "/etc/nginx/nginx.conf:2:30"));
        assert!(findings[0].arithmetic.contains("28232 ports / 60 s = 470 requests/s"), "{}", findings[0].arithmetic);
    }
}
