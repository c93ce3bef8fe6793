//! Expressions whose match could not be decided within their limits, while a variable was made or a field rewritten. What
//! such a variable would have said is not known, and a rule that hangs on it must not be passed: the request is answered
//! with 500 at the next place where that can still be done. Wherever a phase ends, and before something is sent, it is asked.

use crate::exchange::Exchange;
use crate::exchange::reply::Reply;
use std::cell::Cell;

/// What an exchange knows about it.
#[derive(Debug, Default)]
pub(crate) struct Undecided(Cell<Decision>);

#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum Decision {
    /// Every match was decided.
    #[default]
    No,
    /// One was not, and the request is to be answered with 500.
    Yes,
    /// It was answered so; a variable in that answer changes nothing any more.
    Answered,
}

impl Undecided {
    /// A match was not decided.
    pub(crate) fn note(&self) {
        if self.0.get() == Decision::No {
            self.0.set(Decision::Yes);
        }
    }

    /// Whether there was one at all.
    pub(crate) fn is_noted(&self) -> bool {
        self.0.get() != Decision::No
    }

    /// Whether the answer to it is still due.
    pub(crate) fn is_due(&self) -> bool {
        self.0.get() == Decision::Yes
    }

    /// Whether the answer is due; then it counts as given.
    fn take_due(&self) -> bool {
        let due = self.is_due();
        if due {
            self.0.set(Decision::Answered);
        }
        due
    }
}

impl Exchange {
    /// The answer to it, once.
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
