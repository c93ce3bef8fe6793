//! A process of the running server uses nearly all of its descriptors.

use super::{Needs, Rule, finding};
use crate::edit::{Change, UNDO};
use crate::facts::Facts;
use report::{Finding, Severity};

const NAME: &str = "descriptors-running-out";
const WHY: &str = "At the limit accept() and connect() fail with \"Too many open files\": clients wait in the queue, and requests in flight \
    get 500 or 502.";
pub(super) const RULE: Rule = Rule {
    name: NAME,
    finds: "a process near its limit",
    needs: Needs { word: false, running: true },
    why: WHY,
    example: "",
    instead: "",
    check,
};

pub(super) fn check(facts: &Facts) -> Vec<Finding> {
    let Some(live) = &facts.live else { return Vec::new() };
    let short = live.processes.iter().filter_map(|process| {
        let limit = process.limit.filter(|limit| *limit > 0)?;
        let (used, pid) = (process.used, process.pid);
        if used < limit.saturating_mul(4) / 5 {
            return None;
        }
        Some(Finding {
            why: WHY.to_owned(),
            evidence: vec![format!("/proc/{pid}/fd has {used} entries, /proc/{pid}/limits allows {limit}")],
            arithmetic: format!("{used} / {limit} = {} %", used * 100 / limit),
            fix: fix(facts, limit.saturating_mul(4)),
            side_effect: "A worker can hold more sockets, and their kernel memory of some 4 KB each.".to_owned(),
            undo: UNDO.to_owned(),
            ..finding(NAME, Severity::Error, format!("process {pid} has {used} of {limit} descriptors open"))
        })
    });
    short.collect()
}

fn fix(facts: &Facts, wanted: u64) -> String {
    let line = format!("worker_rlimit_nofile {wanted};");
    match &facts.configuration {
        Some(configuration) => Change::new(configuration).set_main(line).fix(),
        None => format!("# at the top level of its configuration, then a reload:\n# {line}"),
    }
}

#[cfg(test)]
mod tests {
    use super::super::fixture::fired;
    use super::*;
    use crate::live::{Live, Process};

    #[test]
    fn fires_near_the_limit_and_not_far_from_it() {
        let of = |used, limit| {
            let live =
                Some(Live { processes: vec![Process { pid: 7, used, limit, hard_limit: limit }], ..Live::default() });
            fired(&check(&Facts { live, ..Facts::default() }))
        };
        assert_eq!((of(1000, Some(1024)), of(200, Some(1024)), of(1000, None)), (1, 0, 0));
    }
}
