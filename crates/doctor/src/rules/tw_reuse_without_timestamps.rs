//! `tcp_tw_reuse` without timestamps, which it needs: the kernel cannot distinguish old segments from new ones, and
//! reuses nothing.

use super::{Needs, Rule, finding};
use crate::facts::Facts;
use report::{Finding, Severity};

const NAME: &str = "tw-reuse-without-timestamps";
const WHY: &str = "connect() takes a port out of TIME_WAIT only where timestamps show that its new segments are newer; without them every \
    port stays taken for 60 s, whatever tcp_tw_reuse says.";
pub(super) const RULE: Rule = Rule {
    name: NAME,
    finds: "`tcp_tw_reuse` without what it needs",
    needs: Needs::NOTHING,
    why: WHY,
    example: "net.ipv4.tcp_tw_reuse = 1
net.ipv4.tcp_timestamps = 0",
    instead: "net.ipv4.tcp_tw_reuse = 1
net.ipv4.tcp_timestamps = 1",
    check,
};
const REUSE: &str = "net.ipv4.tcp_tw_reuse";
const TIMESTAMPS: &str = "net.ipv4.tcp_timestamps";

pub(super) fn check(facts: &Facts) -> Vec<Finding> {
    // The last line that sets it counts; without one, the current value.
    let Some((place, reuse)) = facts.values(REUSE).last() else { return Vec::new() };
    let Some((_, timestamps)) = facts.values(TIMESTAMPS).last() else { return Vec::new() };
    if reuse.trim() != "1" || timestamps.trim() != "0" {
        return Vec::new();
    }
    vec![Finding {
        place,
        why: WHY.to_owned(),
        evidence: vec![format!("{REUSE} = 1"), format!("{TIMESTAMPS} = 0")],
        fix: format!("{TIMESTAMPS} = 1"),
        side_effect: "12 bytes in each segment; uptime cannot be read from them since Linux 4.10.".to_owned(),
        undo: format!("{TIMESTAMPS} = 0"),
        ..finding(NAME, Severity::Warning, "tcp_tw_reuse has no effect without timestamps".to_owned())
    }]
}

#[cfg(test)]
mod tests {
    use super::super::fixture::{fired, sysctl_file};
    use super::*;

    #[test]
    fn fires_on_the_pair_and_on_neither_alone() {
        let of = |text: &str| fired(&check(&sysctl_file(text)));
        assert_eq!(of(&format!("{REUSE} = 1\n{TIMESTAMPS} = 0\n")), 1);
        assert_eq!(of(&format!("{REUSE} = 1\n{TIMESTAMPS} = 1\n")), 0);
        assert_eq!(of(&format!("{REUSE} = 2\n{TIMESTAMPS} = 0\n")), 0);
        assert_eq!(of(&format!("{REUSE} = 1\n")), 0);
        assert_eq!(of(&format!("{REUSE} = 1\n{TIMESTAMPS} = 0\n{TIMESTAMPS} = 1\n")), 0, "the last line counts");
    }
}
