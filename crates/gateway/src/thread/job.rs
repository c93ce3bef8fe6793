//! Work that belongs to no client connection, such as opening a connection for the pool. Each job has a task of its
//! own.

use crate::thread::WorkerThread;
use reactor::TaskId;
use std::rc::Rc;

/// A job.
pub(crate) trait Job {
    /// The task whose events step it.
    fn task(&self) -> TaskId;

    /// Does what is possible now. `None`: the job and its task have ended.
    fn step(self: Box<Self>, thread: &Rc<WorkerThread>) -> Option<Box<dyn Job>>;
}
