//! Starts the jobs and subrequests that the tasks of a turn have queued, before the worker waits for events.

use crate::base::counters::bump;
use crate::exchange::Begin;
use crate::thread::executor::Slot;
use crate::thread::job::Job;
use crate::worker::{Body, Worker, catch_bug};
use std::rc::Rc;

impl Worker {
    /// Starts the jobs that were queued since the last task ran.
    pub(super) fn begin_jobs(&self) {
        while let Some(job) = self.thread.next_job() {
            self.step_job(job);
        }
    }

    /// Starts the subrequests that were queued since the last task ran.
    pub(super) fn begin_subrequests(self: &Rc<Self>) {
        while let Some(begin) = self.spares.next_started() {
            if let Err(panic) = catch_bug(|| self.run_exchange(begin)) {
                // Unwinding has ended its task, and the exchange that waits for it sees that.
                self.report_bug(&panic, "");
                self.count_again();
            }
        }
    }

    /// A job belongs to no client connection: when it panics, only its own task ends.
    pub(super) fn step_job(&self, job: Box<dyn Job>) {
        let task = job.task();
        match catch_bug(|| job.step(&self.thread)) {
            Ok(Some(job)) => self.put(task, Body::Job(Box::new(job))),
            Ok(None) => {}
            Err(panic) => {
                self.report_bug(&panic, "");
                if self.thread.reactor.is_live(task) {
                    self.thread.reactor.end_task(task);
                }
            }
        }
    }

    /// Runs an exchange until it waits or ends.
    pub(super) fn run_exchange(self: &Rc<Self>, begin: Begin) {
        let task = begin.asker.task();
        bump(&self.thread.counters().exchanges, 1);
        let spare = self.slots.borrow_mut().pop();
        let slot = spare.unwrap_or_else(|| Slot::new(crate::phases::run(Rc::clone(&self.mailbox))));
        self.mailbox.put_arguments(begin);
        self.poll_exchange(task, slot);
    }
}
