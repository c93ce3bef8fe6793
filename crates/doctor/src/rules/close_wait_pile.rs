//! Connections that the peer has closed and the server still holds: the server no longer reads them.

use super::{Needs, Rule, finding};
use crate::facts::Facts;
use report::{Finding, Severity};
use sockdiag::State;

const NAME: &str = "close-wait-pile";
const WHY: &str = "The other side is gone, and this one has not closed: descriptors and memory leak until a limit is reached. A worker that \
    is blocked (a slow disk, a module, a lock) does this, and so does a program that forgot to close.";
pub(super) const RULE: Rule = Rule {
    name: NAME,
    finds: "connections that the peer closed and the server holds",
    needs: Needs { word: false, running: true },
    why: WHY,
    example: "",
    instead: "",
    check,
};
/// A busy server always has some, between the peer's FIN and its own.
const SOCKETS_MIN: u64 = 64;

pub(super) fn check(facts: &Facts) -> Vec<Finding> {
    let Some(live) = &facts.live else { return Vec::new() };
    let (waiting, open) = (live.in_state(State::CloseWait), live.in_state(State::Established));
    // More than a tenth of the open sockets is not a matter of moments.
    if waiting < SOCKETS_MIN || waiting < open / 10 {
        return Vec::new();
    }
    let mut evidence = vec![format!("{waiting} sockets in CLOSE_WAIT, {open} ESTABLISHED")];
    let worst = live
        .destinations
        .iter()
        .filter(|destination| destination.close_wait > 0)
        .max_by_key(|destination| destination.close_wait);
    evidence.extend(worst.map(crate::live::Destination::sentence));
    vec![Finding {
        why: WHY.to_owned(),
        evidence,
        fix: "# see what the workers wait for, then restart those that are stuck:\nstrace -f -p PID -c\nps -o pid,stat,wchan -p PID".to_owned(),
        side_effect: "A restart ends the connections of that worker; strace slows it down.".to_owned(),
        undo: "None needed: nothing was changed.".to_owned(),
        ..finding(NAME, Severity::Warning, format!("{waiting} connections were closed by the peer and not by the server"))
    }]
}

#[cfg(test)]
mod tests {
    use super::super::fixture::fired;
    use super::*;
    use crate::live::Live;

    fn of(waiting: u64, open: u64) -> usize {
        let states = [(State::CloseWait, waiting), (State::Established, open)].into();
        fired(&check(&Facts { live: Some(Live { states, ..Live::default() }), ..Facts::default() }))
    }

    #[test]
    fn fires_on_many_and_not_on_moments() {
        assert_eq!((of(500, 100), of(64, 640)), (1, 1));
        assert_eq!((of(20, 0), of(100, 10_000)), (0, 0));
        assert_eq!(fired(&check(&Facts::default())), 0);
    }
}
