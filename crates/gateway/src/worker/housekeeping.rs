//! What a worker does for itself by the clock: each chore has a time at which it is due, and one task wakes for the first.

use crate::worker::Worker;
use reactor::{Millis, TaskId};
use std::cell::Cell;
use std::rc::Rc;

/// Idle upstream connections that are past their time and could not all be looked at are looked at again after this many
/// milliseconds: they are due now, but the others' work is too.
const LEFT_OVER_MS: u64 = 10;

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
}

impl Chore {
    const ALL: [Self; 6] =
        [Self::ExpirePool, Self::AcceptAgain, Self::LookAtMemory, Self::WatchChurn, Self::WarmPool, Self::ReturnMemory];
}

/// The chores of a worker.
#[derive(Debug)]
pub(crate) struct House {
    /// Whose deadline is that of the chore that is due first.
    pub(crate) task: TaskId,
    due: [Cell<Option<Millis>>; Chore::ALL.len()],
}

impl House {
    pub(crate) fn new(task: TaskId) -> Self {
        Self { task, due: Default::default() }
    }

    fn first(&self) -> Option<Millis> {
        self.due.iter().filter_map(Cell::get).min()
    }
}

impl Worker {
    /// Makes sure that idle connections are looked through at this time at the latest.
    pub(crate) fn expire_pool_by(&self, at: upstream::Millis) {
        self.plan_chore(Chore::ExpirePool, Millis(at.0));
    }

    /// Plans a chore for this time, unless it is planned for an earlier one.
    pub(crate) fn plan_chore(&self, chore: Chore, at: Millis) {
        let due = &self.house.due[chore as usize];
        if due.get().is_none_or(|planned| at < planned) {
            due.set(Some(at));
            self.reactor.set_deadline(self.house.task, self.house.first());
        }
    }

    pub(crate) fn keep_house(self: &Rc<Self>) {
        self.reactor.take_deadline_fired(self.house.task);
        let now = self.reactor.now();
        for chore in Chore::ALL {
            let due = &self.house.due[chore as usize];
            if due.get().is_none_or(|at| at > now) {
                continue;
            }
            due.set(None);
            match chore {
                Chore::ExpirePool => self.expire_pool(),
                Chore::AcceptAgain => self.resume_accept(),
                Chore::LookAtMemory => self.look_at_memory(),
                Chore::WatchChurn => self.watch_churn(),
                Chore::WarmPool => self.warm_pool(),
                Chore::ReturnMemory => self.return_memory(),
            }
        }
        self.reactor.set_deadline(self.house.task, self.house.first());
    }

    fn expire_pool(&self) {
        let mut removed = Vec::new();
        let next = self.shared.pool.expire(self.id(), self.pool_now(), &mut removed);
        drop(removed);
        if let Some(at) = next {
            self.expire_pool_by(at.max(self.pool_now().plus(LEFT_OVER_MS)));
        }
    }
}
