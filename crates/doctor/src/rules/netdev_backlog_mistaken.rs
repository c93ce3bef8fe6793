//! `netdev_max_backlog` is raised because of a full accept queue. It is the queue between a network card and the
//! kernel, not that of `listen()`.

use super::{Needs, Rule, finding};
use crate::facts::Facts;
use report::{Finding, Severity};

const NAME: &str = "netdev-backlog-mistaken";
const WHY: &str = "It holds packets that arrive faster than a processor takes them off its card. Connections that wait for accept() are \
    in the listener's queue, which is the lesser of backlog= and somaxconn: overflows there go on as before.";
pub(super) const RULE: Rule = Rule {
    name: NAME,
    finds: "`netdev_max_backlog` raised where `somaxconn` was meant",
    needs: Needs::NOTHING,
    why: WHY,
    example: "net.core.netdev_max_backlog = 262144
net.core.somaxconn = 128",
    instead: "net.core.netdev_max_backlog = 262144
net.core.somaxconn = 8192",
    check,
};
const SYSCTL: &str = "net.core.netdev_max_backlog";
const SOMAXCONN: &str = "net.core.somaxconn";
/// Ten times the kernel's default: the operator wanted to absorb a burst.
const RAISED: u64 = 10_000;
/// The kernel's default since Linux 5.4; 128 before.
const SOMAXCONN_SHIPPED: u64 = 4096;

pub(super) fn check(facts: &Facts) -> Vec<Finding> {
    let accept = facts.values(SOMAXCONN).last().and_then(|(_, value)| value.parse::<u64>().ok());
    if accept.is_some_and(|accept| accept >= SOMAXCONN_SHIPPED) {
        return Vec::new();
    }
    let raised = facts.written(SYSCTL).filter_map(|setting| {
        let packets = setting.value.parse::<u64>().ok().filter(|packets| *packets >= RAISED)?;
        let mut evidence = vec![format!("{}:{}: {SYSCTL} = {packets}", setting.file, setting.line)];
        evidence.push(
            accept
                .map_or_else(|| format!("{SOMAXCONN} is not set anywhere"), |accept| format!("{SOMAXCONN} = {accept}")),
        );
        Some(Finding {
            place: Some((setting.file.clone(), setting.line, 1)),
            why: WHY.to_owned(),
            evidence,
            fix: format!("{SOMAXCONN} = 8192\n# and backlog=8192 in the listen line, then a restart"),
            side_effect: "No connection is dropped any more: under overload all wait longer.".to_owned(),
            undo: format!("{SOMAXCONN} = {}", accept.unwrap_or(SOMAXCONN_SHIPPED)),
            ..finding(NAME, Severity::Note, "netdev_max_backlog is not the accept queue".to_owned())
        })
    });
    raised.collect()
}

#[cfg(test)]
mod tests {
    use super::super::fixture::{fired, sysctl_file};
    use super::*;

    #[test]
    fn fires_on_netdev_backlog_without_a_raised_somaxconn() {
        let of = |text: &str| fired(&check(&sysctl_file(text)));
        assert_eq!(of(&format!("{SYSCTL} = 262144\n")), 1);
        assert_eq!(of(&format!("{SYSCTL} = 262144\n{SOMAXCONN} = 128\n")), 1);
        assert_eq!(of(&format!("{SYSCTL} = 262144\n{SOMAXCONN} = 8192\n")), 0);
        assert_eq!(of(&format!("{SYSCTL} = 2000\n")), 0);
    }
}
