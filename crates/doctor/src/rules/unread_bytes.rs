//! Bytes that the running server has not read, or its peers have not accepted: the queue shows which side is slow.

use super::{Needs, Rule, finding};
use crate::facts::Facts;
use crate::live::Pile;
use report::figure::shown;
use report::{Finding, Severity, Unit};

const NAME: &str = "bytes-pile-up";
const WHY: &str = "The kernel has bytes that the server does not take, or holds bytes that the peers do not take. Where they pile up is where it is slow.";
pub(super) const RULE: Rule = Rule {
    name: NAME,
    finds: "bytes that the server does not read, or its peers do not take",
    needs: Needs { word: false, running: true },
    why: WHY,
    example: "",
    instead: "",
    check,
};
/// A busy moment explains fewer sockets with unread bytes than this.
const UNREAD_SOCKETS_MIN: u64 = 16;
/// Some unacknowledged bytes are normal. A gigabyte of them, or this share of memory, means a broadcast to slow
/// readers.
const UNSENT_SHARE_OF_MEMORY: u64 = 8;

pub(super) fn check(facts: &Facts) -> Vec<Finding> {
    let Some(live) = &facts.live else { return Vec::new() };
    let mut findings = Vec::new();
    if live.unread.sockets >= UNREAD_SOCKETS_MIN {
        let what = format!("{} have not been read from {} sockets", size(live.unread.bytes), live.unread.sockets);
        let why = "The kernel has these bytes and the server does not take them: it is at its CPU, or waits until another program takes what \
                   it read before. The senders' windows close.";
        let fix = "# CPU at 100 %? more workers: worker_processes auto\n# otherwise the other side of these connections is slow: holdfast watch, page 4";
        findings.push(complete(&live.unread, "Recv-Q", what, why, fix));
    }
    let memory = facts.system.memory_bytes.unwrap_or(u64::MAX);
    if live.unsent.bytes >= (memory / UNSENT_SHARE_OF_MEMORY).min(1 << 30) {
        let what =
            format!("{} wait to be taken by the peers of {} sockets", size(live.unsent.bytes), live.unsent.sockets);
        let why = "Peers read more slowly than they are sent to. The kernel holds what they have not taken, in memory, up to the third \
                   number of tcp_wmem for each socket.";
        let fix = "sysctl -w net.ipv4.tcp_wmem=\"4096 16384 1048576\"\n# proxy_buffer_size 4k where tunnels are\n# pace the senders to their slowest readers";
        findings.push(complete(&live.unsent, "Send-Q", what, why, fix));
    }
    findings
}

fn complete(pile: &Pile, queue: &str, what: String, why: &str, fix: &str) -> Finding {
    let mut evidence =
        vec![format!("{} sockets with more than a page in {queue}, {} together", pile.sockets, size(pile.bytes))];
    evidence
        .extend(pile.worst.map(|(local, remote, bytes)| format!("the fullest: {local} - {remote}, {}", size(bytes))));
    Finding {
        why: why.to_owned(),
        evidence,
        fix: fix.to_owned(),
        side_effect: "Smaller buffers are slower over long distances; more workers compete for the same processors."
            .to_owned(),
        undo: "The settings as they were.".to_owned(),
        ..finding(NAME, Severity::Warning, what)
    }
}

fn size(bytes: u64) -> String {
    shown(bytes as f64, &Unit::Bytes)
}

#[cfg(test)]
mod tests {
    use super::super::fixture::fired;
    use super::*;
    use crate::live::Live;

    fn of(unread: (u64, u64), unsent: (u64, u64)) -> usize {
        let pile = |(sockets, bytes)| Pile { sockets, bytes, worst: None };
        let live = Some(Live { unread: pile(unread), unsent: pile(unsent), ..Live::default() });
        fired(&check(&Facts { live, ..Facts::default() }))
    }

    #[test]
    fn fires_on_either_pile_and_not_on_moments() {
        assert_eq!(of((40, 4 << 20), (0, 0)), 1);
        assert_eq!(of((0, 0), (5000, 3 << 30)), 1);
        assert_eq!(of((3, 1 << 20), (2000, 100 << 20)), 0);
    }
}
