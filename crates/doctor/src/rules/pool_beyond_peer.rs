//! Pools that, all workers together, hold more connections than the peer accepts: it refuses, or starves its other clients.

use super::{finding, quoted};
use crate::facts::{Dialect, Facts};
use crate::group::{Group, groups, setting};
use report::{Finding, Severity};

pub(super) const NAME: &str = "pool-beyond-peer";

pub(super) fn check(facts: &Facts) -> Vec<Finding> {
    let Some(configuration) = &facts.configuration else { return Vec::new() };
    let workers = configuration.workers(facts.system.cpus).unwrap_or(1).max(1);
    let mut findings = Vec::new();
    for group in groups(configuration) {
        let kept = group.kept(facts.dialect);
        let (Some(upstream), Some((limit, whose))) = (group.upstream, limit(facts, &group)) else { continue };
        let pool = kept.saturating_mul(workers);
        if pool <= limit {
            continue;
        }
        let at = setting(upstream, "keepalive").unwrap_or(upstream);
        findings.push(Finding {
            place: Some(configuration.place(at.span)),
            why: "Idle connections count at the peer like busy ones. When the pools hold all it accepts, a worker that needs one more is \
                  refused or waits, although its neighbours' connections do nothing."
                .to_owned(),
            evidence: vec![quoted(configuration, at.span, &format!("keepalive {kept}")), whose],
            arithmetic: format!("{kept} x {workers} workers = {pool} > {limit}"),
            fix: format!("keepalive {};   # for each of {workers} workers", limit / workers),
            side_effect: "Bursts beyond the pool open connections that are closed afterwards.".to_owned(),
            undo: format!("keepalive {kept}; and a reload."),
            ..finding(NAME, Severity::Warning, format!("the pools of upstream group \"{}\" outgrow what its peers accept", group.name))
        });
    }
    findings
}

/// What all peers together accept, and who says so.
fn limit(facts: &Facts, group: &Group<'_>) -> Option<(u64, String)> {
    if let Some(each) = facts.expected.peer_connections_max {
        return Some((
            each.saturating_mul(group.peers()),
            format!("each of {} peers accepts {each} connections", group.peers()),
        ));
    }
    // Ours counts idle connections against max_conns and makes room; nginx lets idle ones exceed it, as it documents.
    if facts.dialect == Dialect::Holdfast {
        return None;
    }
    let each = |server: &&conf::tree::Directive| {
        server
            .args
            .iter()
            .find_map(|word| word.text().strip_prefix("max_conns=")?.parse::<u64>().ok())
            .filter(|max| *max > 0)
    };
    let servers = group.servers();
    let sum = servers.iter().map(each).sum::<Option<u64>>().filter(|_| !servers.is_empty())?;
    Some((sum, format!("max_conns of the {} servers allows {sum}", servers.len())))
}

#[cfg(test)]
mod tests {
    use super::super::fixture::{expecting, facts, old, table};
    use super::*;
    use crate::facts::Expected;

    fn kept(servers: &str, keepalive: u32) -> Facts {
        facts(&format!(
            "worker_processes 8;\nevents {{}}\nhttp {{ upstream api {{ {servers} keepalive {keepalive}; }}\n\
             server {{ location / {{ proxy_pass http://api; }} }} }}\n"
        ))
    }

    /// Peers that accept two hundred connections each.
    fn accepting_200(facts: Facts) -> Facts {
        expecting(facts, Expected { peer_connections_max: Some(200), ..Expected::default() })
    }

    #[test]
    fn it_fires_where_all_workers_together_keep_too_many() {
        const ONE: &str = "server 127.0.0.1:1;";
        const THREE: &str = "server 127.0.0.1:1; server 127.0.0.1:2; server 127.0.0.1:3;";
        table(
            check,
            [
                (1, accepting_200(kept(ONE, 64)), "64 x 8 against 200"),
                (0, accepting_200(kept(ONE, 16)), "16 x 8"),
                (0, accepting_200(kept(THREE, 64)), "64 x 8 on three peers"),
                (0, kept(ONE, 64), "nothing is known of the peer"),
                (1, old(kept("server 127.0.0.1:1 max_conns=100;", 64)), "64 x 8 against its max_conns"),
                (0, old(kept("server 127.0.0.1:1 max_conns=100; server 127.0.0.1:2;", 64)), "the other has none"),
            ],
        );
        let findings = check(&accepting_200(kept(ONE, 64)));
        assert_eq!(findings[0].arithmetic, "64 x 8 workers = 512 > 200");
    }
}
