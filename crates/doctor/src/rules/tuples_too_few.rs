//! Fewer combinations of source address, port and peer than the load needs: `connect()` fails with "Cannot assign
//! requested address" although all are idle.

use super::{Needs, Rule, finding, quoted};
use crate::configuration::argument;
use crate::facts::Facts;
use crate::group::{Group, groups};
use crate::kernel::{TIME_WAIT_REUSED_SECONDS, TIME_WAIT_SECONDS};
use report::{Finding, Severity};

const RANGE: &str = "net.ipv4.ip_local_port_range";
const NAME: &str = "tuples-too-few";
const WHY: &str = "A connection needs a local port that no other one to the same peer has, open or in TIME_WAIT. When there is none, \
    requests fail with 502 at once, and searching for one costs CPU before that.";
pub(super) const RULE: Rule = Rule {
    name: NAME,
    finds: "ports × sources × peers against `--connections`, `--concurrency` or `--rate`",
    needs: Needs { word: true, running: false },
    why: WHY,
    example: r#"# holdfast doctor --connections 50000
server {
    location /ws {
        proxy_http_version 1.1;
        proxy_set_header Upgrade $http_upgrade;
        proxy_set_header Connection "upgrade";
        proxy_read_timeout 900s;
        proxy_pass http://127.0.0.1:3000;
    }
}"#,
    instead: "",
    check,
};

pub(super) fn check(facts: &Facts) -> Vec<Finding> {
    let (Some(configuration), Some(ports)) = (&facts.configuration, facts.system.ports()) else { return Vec::new() };
    let mut findings = Vec::new();
    for group in groups(configuration) {
        let Some((wanted, sum)) = wanted(facts, &group) else { continue };
        let (sources, peers) = (sources(&group), group.peers());
        let tuples = ports.saturating_mul(sources).saturating_mul(peers);
        let (true, Some(at)) = (wanted > tuples, group.at()) else { continue };
        let mut evidence =
            vec![quoted(configuration, at.span, &format!("{peers} peers, from {sources} source addresses"))];
        evidence.push(format!("{ports} ports to choose from (ip_local_port_range less ip_local_reserved_ports)"));
        findings.push(Finding {
            place: Some(configuration.place(at.span)),
            why: WHY.to_owned(),
            evidence,
            arithmetic: format!("{sum} > {ports} ports x {sources} sources x {peers} peers = {tuples}"),
            fix: "sysctl -w net.ipv4.ip_local_port_range=\"1024 65535\"\n# with the ports listened on in net.ipv4.ip_local_reserved_ports; \
                  then more peers, or more listening ports of a peer: a server line for each"
                .to_owned(),
            side_effect: "A port that something means to listen on may be taken by a connection, unless it is reserved.".to_owned(),
            undo: format!("sysctl -w {RANGE}=\"{}\"", facts.system.sysctls.get(RANGE).map_or("32768 60999", String::as_str)),
            ..finding(NAME, Severity::Error, format!("{tuples} tuples towards \"{}\", and {wanted} are needed", group.name))
        });
    }
    findings
}

/// How many tuples the load needs, with the calculation.
fn wanted(facts: &Facts, group: &Group<'_>) -> Option<(u64, String)> {
    if group.is_for_tunnels() {
        return facts.expected.connections.map(|held| (held, format!("{held} tunnels")));
    }
    if group.kept(facts.dialect) > 0 {
        return facts.expected.concurrency.map(|held| (held, format!("{held} at once")));
    }
    let rate = facts.expected.requests_per_second?;
    // One second or one minute, which decides the result: if it is unknown, the rule reports nothing.
    let reuses = facts.system.number("net.ipv4.tcp_tw_reuse")? == 1;
    let seconds = if reuses { TIME_WAIT_REUSED_SECONDS } else { TIME_WAIT_SECONDS };
    let held = (rate * seconds as f64).ceil() as u64;
    Some((held, format!("{rate} requests/s x {seconds} s in TIME_WAIT = {held}")))
}

/// Source addresses of connections: those of `proxy_bind_pool`, otherwise one.
fn sources(group: &Group<'_>) -> u64 {
    let pool = group.passes.first().and_then(|pass| pass.inherited("proxy_bind_pool"));
    let addresses = pool.map_or(1, |pool| pool.args.len() as u64);
    // A variable gives a different address for each client or connection. Their number is unknown; two means "several".
    let varies = group.passes.first().and_then(|pass| pass.inherited("proxy_bind")).and_then(|bind| argument(bind, 0));
    if varies.is_some_and(|address| address.contains('$')) { addresses.max(2) } else { addresses }
}

#[cfg(test)]
mod tests {
    use super::super::fixture::{expecting, fired, old, proxy, table, with_sysctl};
    use super::*;
    use crate::facts::Expected;

    const ONE: &str = "server 127.0.0.1:1;";

    /// Fifty thousand concurrent tunnels.
    fn held(upstream: &str, location: &str) -> Facts {
        let tunnel = format!("proxy_set_header Upgrade $http_upgrade; {location}");
        expecting(proxy(upstream, &tunnel), Expected { connections: Some(50_000), ..Expected::default() })
    }

    /// Twelve hundred requests per second.
    fn churned(facts: Facts) -> Facts {
        expecting(facts, Expected { requests_per_second: Some(1200.0), ..Expected::default() })
    }

    #[test]
    fn fires_where_tunnels_or_churn_outnumber_the_ports() {
        table(
            check,
            [
                (1, held(ONE, ""), "50,000 tunnels to one peer"),
                (0, held("server 127.0.0.1:1; server 127.0.0.1:2;", ""), "to two"),
                (0, held(ONE, "proxy_bind_pool 127.0.0.2 127.0.0.3;"), "from two addresses"),
                (1, churned(old(proxy(ONE, ""))), "1200/s to one peer"),
                (0, with_sysctl(churned(old(proxy(ONE, ""))), "net.ipv4.tcp_tw_reuse", "1"), "ports that are reused"),
                (0, churned(proxy("server 127.0.0.1:1; keepalive 9;", "")), "connections that are kept"),
            ],
        );
        let findings = check(&churned(old(proxy(ONE, ""))));
        assert_eq!(fired(&findings), 1);
        assert!(findings[0].arithmetic.contains("= 72000 > 28232 ports x 1 sources x 1 peers"), "{findings:?}");
    }
}
