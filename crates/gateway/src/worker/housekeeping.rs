//! The chores of a worker, when they are due.

use crate::thread::chores::Chore;
use crate::worker::Worker;
use std::rc::Rc;

/// Idle upstream connections that are past their time and could not all be looked at are looked at again after this many
/// milliseconds: they are due now, but the others' work is too.
const LEFT_OVER_MS: u64 = 10;

impl Worker {
    pub(crate) fn keep_house(self: &Rc<Self>) {
        let thread = &self.thread;
        thread.reactor.take_deadline_fired(thread.chores.task);
        let now = thread.reactor.now();
        for chore in Chore::ALL {
            if !thread.chores.take_due(chore, now) {
                continue;
            }
            match chore {
                Chore::ExpirePool => self.expire_pool(),
                Chore::AcceptAgain => self.resume_accept(),
                Chore::LookAtMemory => self.look_at_memory(),
                Chore::WatchChurn => self.watch_churn(),
                Chore::WarmPool => self.warm_pool(),
                Chore::ReturnMemory => self.return_memory(),
            }
        }
        thread.chores.set_deadline();
    }

    fn expire_pool(&self) {
        let thread = &self.thread;
        let mut removed = Vec::new();
        let next = thread.shared.pool.expire(thread.id(), thread.pool_now(), &mut removed);
        drop(removed);
        if let Some(at) = next {
            thread.expire_pool_by(at.max(thread.pool_now().plus(LEFT_OVER_MS)));
        }
    }
}
