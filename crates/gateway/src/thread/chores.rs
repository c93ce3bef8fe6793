//! Timed work of a worker: each chore has a due time, and one task wakes for the first.

use reactor::{Millis, Reactor, TaskId};
use std::cell::Cell;
use std::rc::Rc;

/// Work to do at a certain time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Chore {
    /// Close expired idle upstream connections.
    ExpirePool,
    /// Accept again after a pause.
    AcceptAgain,
    /// React to the shortage of memory.
    LookAtMemory,
    /// Check what the limits of the pool cost.
    WatchChurn,
    /// Open connections ahead of demand.
    WarmPool,
    /// Return memory that a burst has left.
    ReturnMemory,
    /// Manage the files of caches.
    TendCaches,
    /// Look at the files of `geoip2`.
    TendGeoFiles,
    /// Close the files of cached responses that are not used.
    CloseUnusedResponses,
    /// Look for tunnels to drain, and drain those whose turn it is.
    DrainTunnels,
}

impl Chore {
    pub(crate) const ALL: [Self; 10] = [
        Self::ExpirePool,
        Self::AcceptAgain,
        Self::LookAtMemory,
        Self::WatchChurn,
        Self::WarmPool,
        Self::ReturnMemory,
        Self::TendCaches,
        Self::TendGeoFiles,
        Self::CloseUnusedResponses,
        Self::DrainTunnels,
    ];
}

/// The chores of a worker, by due time.
pub(crate) struct Chores {
    reactor: Rc<Reactor>,
    /// The task with the deadline of the first chore.
    pub(crate) task: TaskId,
    due: [Cell<Option<Millis>>; Chore::ALL.len()],
}

impl Chores {
    pub(crate) fn new(reactor: Rc<Reactor>) -> Self {
        Self { task: reactor.create_task(), reactor, due: Default::default() }
    }

    /// Schedules a chore for this time, unless it is scheduled earlier.
    pub(crate) fn plan(&self, chore: Chore, at: Millis) {
        let due = &self.due[chore as usize];
        if due.get().is_none_or(|planned| at < planned) {
            due.set(Some(at));
            self.set_deadline();
        }
    }

    /// Whether a chore is due; if so, removes it from the schedule.
    pub(crate) fn take_due(&self, chore: Chore, now: Millis) -> bool {
        let due = &self.due[chore as usize];
        let is_due = due.get().is_some_and(|at| at <= now);
        if is_due {
            due.set(None);
        }
        is_due
    }

    /// Sets the task's deadline to the first chore.
    pub(crate) fn set_deadline(&self) {
        self.reactor.set_deadline(self.task, self.due.iter().filter_map(Cell::get).min());
    }
}
