//! Expressions whose match could not be decided within their limits, while a variable was made or a field rewritten. What
//! such a variable would have said is not known, and a rule that hangs on it must not be passed: the request is answered
//! with 500 at the next place where that can still be done. Wherever a phase ends, and before something is sent, it is asked.

use crate::exchange::Exchange;
use crate::exchange::reply::Reply;

/// What an exchange knows about it.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Undecided {
    /// Every match was decided.
    #[default]
    No,
    /// One was not, and the request is to be answered with 500.
    Yes,
    /// It was answered so; a variable in that answer changes nothing any more.
    Answered,
}

impl Exchange {
    /// A match was not decided; the log has its reason.
    pub(crate) fn note_undecided(&self) {
        if self.undecided.get() == Undecided::No {
            self.undecided.set(Undecided::Yes);
        }
    }

    /// Whether there was one at all.
    pub(crate) fn is_undecided(&self) -> bool {
        self.undecided.get() != Undecided::No
    }

    /// Whether the answer to it is still due.
    pub(crate) fn must_refuse_undecided(&self) -> bool {
        self.undecided.get() == Undecided::Yes
    }

    /// The answer to it, once.
    pub(crate) fn refuse_undecided(&self) -> Option<Reply> {
        if !self.must_refuse_undecided() {
            return None;
        }
        self.undecided.set(Undecided::Answered);
        Some(Reply::error(500))
    }
}
