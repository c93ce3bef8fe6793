//! The initial socket buffers of every connection are so large that all connections together exceed the memory.

use super::{Needs, Rule, finding};
use crate::facts::{Facts, parse_numbers};
use report::figure::shown;
use report::{Finding, Severity, Unit};

const NAME: &str = "socket-buffers-beyond-memory";
const WHY: &str = "The second number is what every socket may fill before the kernel looks at its speed. When readers are slow, all of \
    them fill it, and memory is gone before any window closes.";
pub(super) const RULE: Rule = Rule {
    name: NAME,
    finds: "default buffers × sockets above the memory",
    needs: Needs::NOTHING,
    why: WHY,
    example: "",
    instead: "",
    check,
};
const SYSCTLS: [(&str, &str); 2] =
    [("net.ipv4.tcp_rmem", "4096 131072 6291456"), ("net.ipv4.tcp_wmem", "4096 16384 4194304")];
/// Twice the kernel's default; the operator did not choose a smaller value for its size.
const DEFAULT_LARGE: u64 = 262_144;

pub(super) fn check(facts: &Facts) -> Vec<Finding> {
    let (Some(memory), Some(sockets)) = (facts.system.memory_bytes, sockets(facts)) else { return Vec::new() };
    let mut findings = Vec::new();
    for (name, shipped) in SYSCTLS {
        for (place, value) in facts.values(name) {
            let Some(each) = parse_numbers(value).and_then(|numbers| numbers.get(1).copied()) else { continue };
            let sum = each.saturating_mul(sockets);
            if each <= DEFAULT_LARGE || sum <= memory {
                continue;
            }
            let size = |value: u64| shown(value as f64, &Unit::Bytes);
            findings.push(Finding {
                place,
                why: WHY.to_owned(),
                evidence: vec![
                    format!("{name} = {value}"),
                    format!("{sockets} sockets at most, {} of memory", size(memory)),
                ],
                arithmetic: format!("{} x {sockets} = {} > {}", size(each), size(sum), size(memory)),
                fix: format!("{name} = {shipped}"),
                side_effect:
                    "A fast, distant connection needs some round trips until its buffer has grown to the third number."
                        .to_owned(),
                undo: format!("{name} = {value}"),
                ..finding(
                    NAME,
                    Severity::Warning,
                    format!("sockets begin with buffers of {}, together {}", size(each), size(sum)),
                )
            });
        }
    }
    findings
}

/// Sockets that the server may have: two for each expected client, otherwise the configured number.
fn sockets(facts: &Facts) -> Option<u64> {
    if let Some(expected) = facts.expected.connections {
        return Some(expected.saturating_mul(2));
    }
    let configuration = facts.configuration.as_ref()?;
    Some(configuration.worker_connections().saturating_mul(configuration.workers(facts.system.cpus)?))
}

#[cfg(test)]
mod tests {
    use super::super::fixture::{facts, fired, with_sysctl};
    use super::*;

    fn of(value: &str, connections: u64) -> usize {
        let facts = facts(&format!("events {{ worker_connections {connections}; }}\nhttp {{}}\n"));
        fired(&check(&with_sysctl(facts, "net.ipv4.tcp_rmem", value)))
    }

    #[test]
    fn fires_on_large_beginnings_times_many_and_not_otherwise() {
        assert_eq!(of("4096 16777216 33554432", 1024), 1, "16 GiB of 8");
        assert_eq!(of("4096 16777216 33554432", 100), 0);
        assert_eq!(of("4096 131072 6291456", 1_000_000), 0, "as shipped");
        assert_eq!(of("x", 1_000_000), 0);
    }
}
