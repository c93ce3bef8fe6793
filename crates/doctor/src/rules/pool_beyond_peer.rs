//! The pools of all workers together hold more connections than the peer accepts: it refuses some, or other clients of
//! the peer get none.

use super::{Needs, Rule, finding, quoted};
use crate::configuration::Configuration;
use crate::dialect::Dialect;
use crate::edit::{Change, UNDO};
use crate::facts::Facts;
use crate::group::{Group, groups, setting};
use conf::tree::Directive;
use report::{Finding, Severity};

const NAME: &str = "pool-beyond-peer";
const WHY: &str = "Idle connections count at the peer like busy ones. When the pools hold all it accepts, a worker that needs one more is \
    refused or waits, although its neighbours' connections do nothing.";
pub(super) const RULE: Rule = Rule {
    name: NAME,
    finds: "keepalive × workers above what the peers accept (`--peer-connections`, `max_conns`)",
    needs: Needs { word: true, running: false },
    why: WHY,
    example: r#"# holdfast doctor --peer-connections 100
upstream api { server 127.0.0.1:3000; keepalive 320; }
server { location / { proxy_http_version 1.1; proxy_set_header Connection ""; proxy_pass http://api; } }"#,
    instead: r#"# holdfast doctor --peer-connections 100
upstream api { server 127.0.0.1:3000; keepalive 100; }
server { location / { proxy_http_version 1.1; proxy_set_header Connection ""; proxy_pass http://api; } }"#,
    check,
};

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
            why: WHY.to_owned(),
            evidence: vec![quoted(configuration, at.span, &format!("keepalive {kept}")), whose],
            arithmetic: format!("{kept} x {workers} workers = {pool} > {limit}"),
            fix: fix(configuration, upstream, limit, workers),
            side_effect: "Bursts beyond the pool open connections that are closed afterwards.".to_owned(),
            undo: UNDO.to_owned(),
            ..finding(
                NAME,
                Severity::Warning,
                format!("the pools of upstream group \"{}\" outgrow what its peers accept", group.name),
            )
        });
    }
    findings
}

/// At least one for each worker, because nginx before 1.29.7 refuses 0; and no more workers than that allows.
fn fix(configuration: &Configuration, upstream: &Directive, limit: u64, workers: u64) -> String {
    let mut change = Change::new(configuration);
    change.set(upstream, format!("keepalive {};", (limit / workers).max(1)));
    if limit < workers {
        change.set_main(format!("worker_processes {};", limit.max(1)));
    }
    change.fix()
}

/// The connections that all peers together accept, and the source of that number.
fn limit(facts: &Facts, group: &Group<'_>) -> Option<(u64, String)> {
    if let Some(each) = facts.expected.peer_connections_max {
        return Some((
            each.saturating_mul(group.peers()),
            format!("each of {} peers accepts {each} connections", group.peers()),
        ));
    }
    // Holdfast counts idle connections in max_conns and makes room. As documented, idle connections of nginx may exceed
    // it.
    if facts.dialect == Dialect::Holdfast {
        return None;
    }
    let each = |server: &&Directive| {
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
    fn fires_where_all_workers_together_keep_too_many() {
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
