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
    use super::super::fixture::{expecting, facts, fired, old};
    use super::*;
    use crate::facts::Expected;

    fn proxy(upstream: &str) -> Facts {
        facts(&format!(
            "worker_processes 8;\nevents {{}}\nhttp {{ upstream api {{ {upstream} }}\nserver {{ location / {{ proxy_pass http://api; }} }} }}\n"
        ))
    }

    #[test]
    fn it_fires_where_all_workers_together_keep_too_many() {
        let expected = Expected { peer_connections_max: Some(200), ..Expected::default() };
        let findings = check(&expecting(proxy("server 127.0.0.1:1; keepalive 64;"), expected));
        assert_eq!((fired(&findings), findings[0].arithmetic.as_str()), (1, "64 x 8 workers = 512 > 200"));
        assert_eq!(fired(&check(&old(proxy("server 127.0.0.1:1 max_conns=100; keepalive 64;")))), 1);
    }

    #[test]
    fn it_does_not_where_they_fit_or_nothing_is_known() {
        let expected = Expected { peer_connections_max: Some(200), ..Expected::default() };
        assert_eq!(fired(&check(&expecting(proxy("server 127.0.0.1:1; keepalive 16;"), expected))), 0);
        assert_eq!(
            fired(&check(&expecting(
                proxy("server 127.0.0.1:1; server 127.0.0.1:2; server 127.0.0.1:3; keepalive 64;"),
                expected
            ))),
            0
        );
        assert_eq!(fired(&check(&proxy("server 127.0.0.1:1; keepalive 64;"))), 0);
        assert_eq!(
            fired(&check(&old(proxy("server 127.0.0.1:1 max_conns=100; server 127.0.0.1:2; keepalive 64;")))),
            0
        );
    }
}
