//! `tcp_mem` is set in bytes, but the kernel counts pages: TCP may use more memory than the machine has.

use super::{Needs, Rule, finding};
use crate::facts::{Facts, parse_numbers};
use crate::kernel::PAGE_BYTES;
use report::figure::shown;
use report::{Finding, Severity, Unit};

const NAME: &str = "tcp-mem-in-bytes";
const WHY: &str = "The numbers are pages of 4 KB. At the third one TCP stops taking memory; when that is beyond the machine, slow readers fill \
    the memory first, and the kernel ends the largest process.";
pub(super) const RULE: Rule = Rule {
    name: NAME,
    finds: "`tcp_mem` beyond the memory: it counts pages",
    needs: Needs::NOTHING,
    why: WHY,
    example: "net.ipv4.tcp_mem = 4294967296 4294967296 8589934592",
    instead: "net.ipv4.tcp_mem = 98304 131072 196608",
    check,
};
const SYSCTL: &str = "net.ipv4.tcp_mem";
/// An upper bound of memory in bytes, for a file that is read without its machine: no proxy has 64 TiB.
const MEMORY_UNHEARD_OF: u64 = 1 << 46;

pub(super) fn check(facts: &Facts) -> Vec<Finding> {
    let memory = facts.system.memory_bytes.unwrap_or(MEMORY_UNHEARD_OF);
    let above = |place, value: &str| {
        let pages = *parse_numbers(value)?.get(2)?;
        let bytes = pages.saturating_mul(PAGE_BYTES);
        (bytes > memory).then(|| complete(place, value, pages, bytes, memory))
    };
    facts.values(SYSCTL).filter_map(|(place, value)| above(place, value)).collect()
}

fn complete(place: Option<(String, usize, usize)>, value: &str, pages: u64, bytes: u64, memory: u64) -> Finding {
    let size = |value: u64| shown(value as f64, &Unit::Bytes);
    // The kernel's own default is about an eighth of the pages (tcp_init_mem), in steps of 1/2, 2/3 and 1.
    let most = memory / PAGE_BYTES / 8;
    Finding {
        place,
        why: WHY.to_owned(),
        evidence: vec![format!("{SYSCTL} = {value}"), format!("memory: {}", size(memory))],
        arithmetic: format!("{pages} pages x {PAGE_BYTES} = {} > {}", size(bytes), size(memory)),
        fix: format!("{SYSCTL} = {} {} {most}", most / 2, most * 2 / 3),
        side_effect: "When slow readers reach it, their connections get smaller windows, and new data may be refused."
            .to_owned(),
        undo: format!("{SYSCTL} = {value}"),
        ..finding(NAME, Severity::Warning, format!("TCP may take {} of {} of memory", size(bytes), size(memory)))
    }
}

#[cfg(test)]
mod tests {
    use super::super::fixture::{facts, sysctl_file, table};
    use super::*;

    #[test]
    fn fires_on_small_machines_and_on_bytes() {
        let on = |gigabytes: u64| {
            let settings = crate::facts::parse_settings("s", &format!("{SYSCTL} = 786432 2097152 3145728\n"));
            let mut facts = Facts { settings, ..facts("events {}\n") };
            facts.system.memory_bytes = Some(gigabytes << 30);
            facts
        };
        let written = |value: &str| sysctl_file(&format!("{SYSCTL} = {value}\n"));
        table(
            check,
            [
                (1, on(8), "12 GiB of 8"),
                (0, on(64), "12 GiB of 64"),
                (1, written("8589934592 17179869184 25769803776"), "bytes"),
                (0, written("94500 126000 189000"), "what the kernel chose"),
                (0, written("1"), "nonsense"),
            ],
        );
    }
}
