//! Connections that are being opened for the pool, not for an exchange: those of a floor, and those whose exchange took
//! another one that came free meanwhile. Each is a task without an exchange.

use crate::base::fault::Fault;
use crate::base::logs::error::{Level, errno};
use crate::connector::leased::pool_before_use;
use crate::registry::pool::IdleSocket;
use crate::registry::ports::PortUse;
use crate::thread::WorkerThread;
use crate::thread::job::Job;
use reactor::{Millis, PeerAddress, TaskId};
use std::io;
use std::rc::Rc;
use std::sync::Arc;
use transport::Transport;
use upstream::balance::{Group, Outcome, Standing};
use upstream::shared::{Connecting, KeyId};

/// A socket whose `connect()` is under way, and the right to it.
pub(crate) struct Pending {
    pub(crate) stream: Transport,
    pub(crate) port: Option<PortUse>,
    pub(crate) permit: Connecting<'static, IdleSocket>,
}

/// Why a connection is opened for the pool, which says what becomes of a failure.
pub(crate) enum OpenedFor {
    /// `keepalive … floor=`: the peer is left alone for a while.
    Floor(KeyId),
    /// An exchange with this peer of its group, and the peer's address: it counts as it would have counted there.
    Exchange { group: Arc<Group>, index: usize, address: PeerAddress },
}

/// A connection on its way into the pool.
pub(crate) struct Opening {
    task: TaskId,
    pending: Pending,
    reason: OpenedFor,
}

/// Opens the connection for the pool from now on, for at most until the deadline.
pub(crate) fn open_for_pool(thread: &WorkerThread, pending: Pending, reason: OpenedFor, deadline: Millis) {
    let task = thread.reactor.create_task();
    pending.stream.attach(task);
    thread.reactor.set_deadline(task, Some(deadline));
    thread.spawn(Box::new(Opening { task, pending, reason }));
}

impl Job for Opening {
    fn task(&self) -> TaskId {
        self.task
    }

    fn step(self: Box<Self>, thread: &Rc<WorkerThread>) -> Option<Box<dyn Job>> {
        thread.shared.faults.pass(Fault::Opening);
        let stream = &self.pending.stream;
        let fired = thread.reactor.take_deadline_fired(self.task);
        if !stream.is_writable() && !stream.is_failed() && !fired {
            return Some(self);
        }
        let Self { task, pending, reason } = *self;
        let Pending { stream, port, permit } = pending;
        let failure = match stream.take_error() {
            Ok(None) if stream.is_writable() => None,
            Ok(None) => Some(io::ErrorKind::TimedOut.into()),
            Ok(Some(error)) | Err(error) => Some(error),
        };
        match failure {
            None => pool_before_use(permit, stream, port, thread),
            Some(error) => {
                drop((stream, port, permit));
                reason.fail(&error, thread);
            }
        }
        thread.reactor.end_task(task);
        None
    }
}

impl OpenedFor {
    fn fail(&self, error: &io::Error, thread: &WorkerThread) {
        match self {
            Self::Floor(key) => thread.pauses.refused(*key, thread.reactor.now()),
            Self::Exchange { group, index, address } => {
                let log = &thread.shared.error_log;
                let error = errno(error);
                log.log(
                    Level::Error,
                    &format!("connect() to {address} failed ({error}) for a request served otherwise"),
                );
                if group.report(*index, Outcome::Failed, thread.pool_now()) == Standing::Disabled {
                    log.log(Level::Warn, &format!("upstream server {address} temporarily disabled"));
                }
            }
        }
    }
}
