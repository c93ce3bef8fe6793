//! What a worker does for itself by the clock: each chore has a time at which it is due, and one task wakes for the first.

use reactor::{Millis, Reactor, TaskId};
use std::cell::Cell;
use std::rc::Rc;

/// Something to be done at a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Chore {
    /// Close idle upstream connections that are past their time.
    ExpirePool,
    /// Accept again after a pause.
    AcceptAgain,
    /// Act on how short memory is.
    LookAtMemory,
    /// Look at what the limits of the pool cost.
    WatchChurn,
    /// Open connections ahead of demand.
    WarmPool,
    /// Give back what a burst has left.
    ReturnMemory,
    /// Look after the files of caches.
    TendCaches,
}

impl Chore {
    pub(crate) const ALL: [Self; 7] = [
        Self::ExpirePool,
        Self::AcceptAgain,
        Self::LookAtMemory,
        Self::WatchChurn,
        Self::WarmPool,
        Self::ReturnMemory,
        Self::TendCaches,
    ];
}

/// The chores of a worker, by the time at which each is due.
pub(crate) struct Chores {
    reactor: Rc<Reactor>,
    /// Whose deadline is that of the chore that is due first.
    pub(crate) task: TaskId,
    due: [Cell<Option<Millis>>; Chore::ALL.len()],
}

impl Chores {
    pub(crate) fn new(reactor: Rc<Reactor>) -> Self {
        Self { task: reactor.create_task(), reactor, due: Default::default() }
    }

    /// Plans a chore for this time, unless it is planned for an earlier one.
    pub(crate) fn plan(&self, chore: Chore, at: Millis) {
        let due = &self.due[chore as usize];
        if due.get().is_none_or(|planned| at < planned) {
            due.set(Some(at));
            self.set_deadline();
        }
    }

    /// Whether a chore is due; then it is planned no more.
    pub(crate) fn take_due(&self, chore: Chore, now: Millis) -> bool {
        let due = &self.due[chore as usize];
        let is_due = due.get().is_some_and(|at| at <= now);
        if is_due {
            due.set(None);
        }
        is_due
    }

    /// Wakes the task for the chore that is due first.
    pub(crate) fn set_deadline(&self) {
        self.reactor.set_deadline(self.task, self.due.iter().filter_map(Cell::get).min());
    }
}
