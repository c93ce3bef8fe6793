//! The default receive buffer is one page: the window closes after a message or two, and the sender's queue grows.

use super::{Needs, Rule, finding};
use crate::facts::Facts;
use crate::kernel::PAGE_BYTES;
use report::{Finding, Severity};

const NAME: &str = "one-page-receive-buffer";
const WHY: &str = "A new socket offers a window of half its buffer. A broadcast of a few messages fills it, the sender sees a zero window, \
    its Send-Q grows, and proxies in between hold the bytes.";
pub(super) const RULE: Rule = Rule {
    name: NAME,
    finds: "`tcp_rmem` whose default is one page",
    needs: Needs::NOTHING,
    why: WHY,
    example: "net.ipv4.tcp_rmem = 4096 4096 16777216",
    instead: "net.ipv4.tcp_rmem = 4096 131072 6291456",
    check,
};
const SYSCTL: &str = "net.ipv4.tcp_rmem";
/// The kernel's default.
const SHIPPED: &str = "4096 131072 6291456";

pub(super) fn check(facts: &Facts) -> Vec<Finding> {
    facts.values(SYSCTL).filter_map(|(place, value)| complete(place, value)).collect()
}

fn complete(place: Option<(String, usize, usize)>, value: &str) -> Option<Finding> {
    let default = value.split_whitespace().nth(1)?.parse::<u64>().ok()?;
    (default <= PAGE_BYTES).then(|| Finding {
        place,
        why: WHY.to_owned(),
        evidence: vec![format!("{SYSCTL} = {value}: the second number is what sockets begin with")],
        arithmetic: format!("{default} bytes / 2 = a window of {} bytes, 1 segment of 1448", default / 2),
        fix: format!("{SYSCTL} = {SHIPPED}"),
        side_effect:
            "A socket may hold 128 KB when its reader is slow; an idle one holds nothing of it. tcp_mem bounds the sum."
                .to_owned(),
        undo: format!("{SYSCTL} = {value}"),
        ..finding(NAME, Severity::Warning, format!("sockets begin with a receive buffer of {default} bytes"))
    })
}

#[cfg(test)]
mod tests {
    use super::super::fixture::{facts, sysctl_file, table, with_sysctl};
    use super::*;

    #[test]
    fn fires_on_the_founding_setting_written_or_live() {
        let written = |value: &str| sysctl_file(&format!("{SYSCTL} = {value}\n"));
        table(
            check,
            [
                (1, written("4096 4096 16777216"), "the founding setting"),
                (1, with_sysctl(facts("events {}\n"), SYSCTL, "4096\t4096\t16777216"), "the same in use"),
                (0, facts("events {}\n"), "what the kernel ships"),
                (0, written("4096 87380 16777216"), "what it shipped once"),
                (0, written("x"), "nonsense"),
            ],
        );
    }
}
