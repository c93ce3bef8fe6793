//! The table of tracked flows is full, or smaller than the server's connections: the kernel silently drops new
//! connections.

use super::{Needs, Rule, finding};
use crate::facts::Facts;
use crate::kernel::CONNTRACK_BYTES;
use report::{Finding, Severity};

const NAME: &str = "conntrack-table";
const WHY: &str = "When the table is full, the kernel drops packets of new connections and logs \"nf_conntrack: table full, dropping packet\": \
    clients and upstreams see timeouts, and neither program has an error. Closed flows stay for two minutes.";
pub(super) const RULE: Rule = Rule {
    name: NAME,
    finds: "a table that is full, or smaller than what the server may hold",
    needs: Needs::NOTHING,
    why: WHY,
    example: "",
    instead: "",
    check,
};
const MAX: &str = "net.netfilter.nf_conntrack_max";
const COUNT: &str = "net.netfilter.nf_conntrack_count";

pub(super) fn check(facts: &Facts) -> Vec<Finding> {
    let mut findings = Vec::new();
    let count = facts.system.number(COUNT);
    if let Some((max, count)) = facts.system.number(MAX).filter(|max| *max > 0).zip(count)
        && count >= max.saturating_mul(4) / 5
    {
        let evidence = vec![format!("{COUNT} = {count}, {MAX} = {max}")];
        let severity = if count >= max { Severity::Error } else { Severity::Warning };
        let what = format!("the table of tracked flows holds {count} of {max}");
        findings.push(complete(
            None,
            severity,
            what,
            evidence,
            format!("{count} / {max} = {} %", count * 100 / max),
            max,
            max.saturating_mul(4),
        ));
    }
    let Some(needed) = needed(facts) else { return findings };
    // If nothing is tracked, the limit does not exist; if a file sets it, it will.
    for (place, value) in facts.values(MAX) {
        let Some(max) = value.parse::<u64>().ok().filter(|max| *max > 0 && *max < needed) else { continue };
        let what = format!("{max} flows can be tracked, and the server may hold {needed} connections");
        let evidence =
            vec![format!("{MAX} = {max}"), format!("worker_connections x workers, or what is expected: {needed}")];
        findings.push(complete(
            place,
            Severity::Warning,
            what,
            evidence,
            format!("{needed} > {max}"),
            max,
            needed.saturating_mul(2),
        ));
    }
    findings
}

/// Connections that the server may have at once: the expected ones (two each when proxied), otherwise the configured
/// ones.
fn needed(facts: &Facts) -> Option<u64> {
    let configuration = facts.configuration.as_ref()?;
    if let Some(expected) = facts.expected.connections {
        return Some(expected.saturating_mul(2));
    }
    Some(configuration.worker_connections().saturating_mul(configuration.workers(facts.system.cpus)?))
}

fn complete(
    place: Option<(String, usize, usize)>,
    severity: Severity,
    what: String,
    evidence: Vec<String>,
    arithmetic: String,
    max: u64,
    wanted: u64,
) -> Finding {
    Finding {
        place,
        why: WHY.to_owned(),
        evidence,
        arithmetic,
        fix: format!("{MAX} = {wanted}\n# or do not track what is proxied (nftables): notrack for these ports"),
        side_effect: format!(
            "{} MB of kernel memory when it is full; untracked ports have no NAT and no state in rules.",
            wanted.saturating_mul(CONNTRACK_BYTES) / 1_000_000
        ),
        undo: format!("{MAX} = {max}"),
        ..finding(NAME, severity, what)
    }
}

#[cfg(test)]
mod tests {
    use super::super::fixture::{facts, fired, sysctl_file, with_sysctl};
    use super::*;

    fn of(events: &str, max: &str, count: &str) -> usize {
        let facts = facts(&format!("worker_processes 4;\nevents {{ {events} }}\nhttp {{}}\n"));
        fired(&check(&with_sysctl(with_sysctl(facts, MAX, max), COUNT, count)))
    }

    #[test]
    fn fires_on_full_and_too_small_tables() {
        assert_eq!(of("", "65536", "65536"), 1);
        assert_eq!(of("", "65536", "60000"), 1);
        assert_eq!(of("worker_connections 65535;", "65536", "10"), 1);
    }

    #[test]
    fn silent_with_room_or_where_nothing_is_tracked() {
        assert_eq!(of("", "262144", "1000"), 0);
        assert_eq!(fired(&check(&facts("events { worker_connections 1000000; }\nhttp {}\n"))), 0);
        assert_eq!(fired(&check(&sysctl_file(&format!("{MAX} = 1000\n")))), 0);
    }
}
