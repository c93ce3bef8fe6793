//! Expressions that exceeded their match limits, while a variable was evaluated or a field rewritten. The value of such
//! a variable is unknown, and a rule that depends on it must not pass: the request gets 500 at the next place where
//! that is possible. The exchange checks this after each phase and before it sends anything.

use crate::exchange::Exchange;
use crate::exchange::reply::Reply;
use std::cell::Cell;

/// The state of an exchange.
#[derive(Debug, Default)]
pub(crate) struct Undecided(Cell<Decision>);

#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum Decision {
    /// Every match was decided.
    #[default]
    No,
    /// A match was not decided: the response is 500.
    Yes,
    /// The request was answered with 500; variables in that answer change nothing any more.
    Answered,
}

impl Undecided {
    /// Notes a match that was not decided.
    pub(crate) fn note(&self) {
        if self.0.get() == Decision::No {
            self.0.set(Decision::Yes);
        }
    }

    /// Whether there was any.
    pub(crate) fn is_noted(&self) -> bool {
        self.0.get() != Decision::No
    }

    /// Whether the 500 is still due.
    pub(crate) fn is_due(&self) -> bool {
        self.0.get() == Decision::Yes
    }

    /// Whether the 500 is due; marks it as given.
    fn take_due(&self) -> bool {
        let due = self.is_due();
        if due {
            self.0.set(Decision::Answered);
        }
        due
    }
}

impl Exchange {
    /// The 500, once.
    pub(crate) fn refuse_undecided(&self) -> Option<Reply> {
        self.routing.undecided.take_due().then(|| Reply::error(500))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_answered_once() {
        let undecided = Undecided::default();
        assert!(!undecided.is_noted() && !undecided.take_due());
        undecided.note();
        assert!(undecided.is_due() && undecided.take_due());
        undecided.note();
        assert!(undecided.is_noted() && !undecided.is_due() && !undecided.take_due());
    }
}
