//! The limit of TIME_WAIT sockets is too low: the kernel destroys further ones at once, and old segments can reach new
//! connections.

use super::{Needs, Rule, finding};
use crate::facts::Facts;
use report::{Finding, Severity};
use sockdiag::State;

const NAME: &str = "tw-buckets";
const WHY: &str = "The number of TIME_WAIT sockets falls. Nothing else improves. A late segment of the old connection is reset or \
    accepted by a new connection. The kernel logs \"time wait bucket table overflow\", and the peers hold sockets that \
    this side has forgotten. A TIME_WAIT socket costs 256 bytes.";
pub(super) const RULE: Rule = Rule {
    name: NAME,
    finds: "`tcp_max_tw_buckets` so low that it hides TIME_WAIT, or nearly reached",
    needs: Needs { word: false, running: true },
    why: WHY,
    example: "net.ipv4.tcp_max_tw_buckets = 5000",
    instead: "net.ipv4.tcp_max_tw_buckets = 262144",
    check,
};
const SYSCTL: &str = "net.ipv4.tcp_max_tw_buckets";
/// The most that one destination can have with the default port range; a lower limit was set to hide them.
const BUCKETS_FEW: u64 = 28_232;
/// The kernel's choice on a machine with a few gigabytes.
const BUCKETS_SHIPPED: u64 = 262_144;

pub(super) fn check(facts: &Facts) -> Vec<Finding> {
    let few = |value: &str| value.trim().parse::<u64>().ok().filter(|buckets| *buckets < BUCKETS_FEW);
    let mut findings: Vec<Finding> = facts
        .written(SYSCTL)
        .filter_map(|setting| {
            let buckets = few(&setting.value)?;
            let evidence = vec![format!("{}:{}: {SYSCTL} = {buckets}", setting.file, setting.line)];
            let place = Some((setting.file.clone(), setting.line, 1));
            let arithmetic =
                format!("{buckets} buckets / 60 s = {} closes/s before the first is destroyed early", buckets / 60);
            Some(Finding { place, arithmetic, ..complete(buckets, evidence) })
        })
        .collect();
    let live = facts.live.as_ref().zip(facts.system.number(SYSCTL));
    if let Some((live, buckets)) = live {
        let waiting = live.in_state(State::TimeWait);
        // Above nine tenths, the next burst exceeds the limit.
        if waiting >= buckets.saturating_mul(9) / 10 && buckets > 0 {
            let mut evidence = vec![format!("{waiting} sockets in TIME_WAIT now, {SYSCTL} = {buckets}")];
            evidence.extend(
                live.time_wait_overflows.map(|count| format!("TCPTimeWaitOverflow: {count} since the namespace began")),
            );
            findings.push(complete(buckets, evidence));
        }
    }
    findings
}

fn complete(buckets: u64, evidence: Vec<String>) -> Finding {
    Finding {
        why: WHY.to_owned(),
        evidence,
        fix: format!("{SYSCTL} = {BUCKETS_SHIPPED}\n# and fewer closes, with keepalive in the upstream"),
        side_effect: format!("Up to {} MB of kernel memory when all are taken.", BUCKETS_SHIPPED * 256 / 1_000_000),
        undo: format!("{SYSCTL} = {buckets}"),
        ..finding(NAME, Severity::Warning, format!("only {buckets} sockets may appear in TIME_WAIT"))
    }
}

#[cfg(test)]
mod tests {
    use super::super::fixture::{proxy, sysctl_file, table, with_sockets, with_sysctl};
    use super::*;

    #[test]
    fn fires_on_low_limits_and_on_a_nearly_full_table() {
        let written = |value: &str| sysctl_file(&format!("{SYSCTL} = {value}\n"));
        let beside_8000 = |buckets: &str| {
            let facts = with_sockets(proxy("server 127.0.0.1:3000;", ""), "127.0.0.1:3000", 1, 8000);
            with_sysctl(facts, SYSCTL, buckets)
        };
        table(
            check,
            [
                (1, written("5000"), "as folklore has it"),
                (0, written("200000"), "the founding number"),
                (0, written("x"), "nonsense"),
                (1, beside_8000("8192"), "8,000 of 8,192"),
                (0, beside_8000("65536"), "8,000 of 65,536"),
            ],
        );
    }
}
