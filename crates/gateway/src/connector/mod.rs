//! From a peer to a connection: choose the peer, take an idle connection, wait in line for one, or open one. It does
//! not depend on exchanges: everything that needs a connection calls it.

pub(crate) mod choose;
pub(crate) mod connect;
pub(crate) mod datagrams;
pub(crate) mod h2;
pub(crate) mod handed_over;
pub(crate) mod lease;
pub(crate) mod leased;
pub(crate) mod names;
pub(crate) mod opening;
pub(crate) mod pending;
#[cfg(test)]
mod scripted;
pub(crate) mod tries;

use crate::base::logs::error::Level;
use crate::connector::h2::hub::Hub;
use crate::thread::WorkerThread;
use reactor::{Interest, TaskId, Woken};
use rules::template::Template;
use std::io;
use std::rc::Rc;
use std::time::Duration;
use transport::Transport;

/// A task that wants a connection.
pub(crate) trait Caller {
    fn thread(&self) -> &Rc<WorkerThread>;

    fn task(&self) -> TaskId;

    /// The shared connections of its worker.
    fn hub(&self) -> &Rc<Hub>;

    /// Waits for an event on the stream, a wake-up by another task, or the time. `PeerGone`: the connection is not
    /// needed any more.
    async fn wait_for(&self, stream: Option<(&Transport, Interest)>, at_most: Duration) -> Woken;

    /// Runs a job that may block on another thread.
    async fn offload<T: Send + 'static>(&self, job: impl FnOnce() -> T + Send + 'static) -> io::Result<T>;

    /// Lets other tasks run before this one goes on.
    async fn let_others_run(&self);

    /// Writes a line to the error log, with the caller's details.
    fn log_line(&self, level: Level, message: &str);

    /// The value of a template.
    fn value(&self, template: &Template) -> Vec<u8>;
}

/// The time that asking for a connection took, also if none was got.
#[derive(Debug, Default, Clone, Copy)]
pub(crate) struct WaitTimes {
    /// Milliseconds in line for a connection; `None` if it did not wait.
    pub(crate) queue_ms: Option<u64>,
    /// Microseconds of connecting; `None` for a pooled connection.
    pub(crate) connect_us: Option<u64>,
}
