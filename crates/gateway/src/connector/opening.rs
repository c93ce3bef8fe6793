//! Connections being opened for the pool, not for an exchange: for a floor, or because their exchange took one that
//! came free first. Each is a task without an exchange.

use crate::base::fault::Fault;
use crate::base::logs::error::{Level, errno};
use crate::connector::h2::{ForStreams, begin_idle};
use crate::connector::leased::{Leased, pool_before_use};
use crate::connector::pending::{OpenError, OpenStep, Pending};
use crate::thread::WorkerThread;
use crate::thread::job::Job;
use reactor::{Millis, PeerAddress, TaskId};
use std::io;
use std::rc::Rc;
use std::sync::Arc;
use upstream::balance::{Group, Outcome, Standing};
use upstream::shared::KeyId;

/// Why a connection is opened for the pool. The reason decides what a failure means.
pub(crate) enum OpenedFor {
    /// `keepalive … floor=`: after a failure the peer is left alone for a while.
    Floor { key: KeyId, http2: bool },
    /// An exchange with this peer of its group, and the peer's address: a failure counts as it would have in the
    /// exchange.
    Exchange { group: Arc<Group>, index: usize, address: PeerAddress },
    /// Requests that wait for a stream.
    Streams(Box<ForStreams>),
}

/// A connection on its way into the pool.
pub(crate) struct Opening {
    task: TaskId,
    pending: Pending,
    reason: OpenedFor,
}

/// Opens the connection for the pool, until the deadline at most.
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
        let fired = thread.reactor.take_deadline_fired(self.task);
        let Self { task, pending, reason } = *self;
        let (pending, step) = pending.step();
        let failure = match step {
            OpenStep::Wait(_) if !fired => return Some(Box::new(Self { task, pending, reason })),
            OpenStep::Wait(_) => {
                pending.count_timeout(thread);
                Some(OpenError::Connect(io::ErrorKind::TimedOut.into()))
            }
            OpenStep::Ready => None,
            OpenStep::Failed(error) => Some(error),
        };
        let Pending { stream, port, permit, is_own, .. } = pending;
        match failure {
            None => match reason {
                OpenedFor::Streams(streams) => {
                    streams.ready(Leased::fresh(permit, stream, port, is_own, thread.pool_now()), thread);
                }
                OpenedFor::Floor { http2: true, .. } => {
                    begin_idle(thread, Leased::fresh(permit, stream, port, is_own, thread.pool_now()));
                }
                _ => pool_before_use(permit, stream, port, thread),
            },
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
    pub(crate) fn fail(&self, error: &OpenError, thread: &WorkerThread) {
        error.count(thread);
        match self {
            Self::Streams(streams) => streams.fail(error, thread),
            Self::Floor { key, .. } => thread.pauses.refused(*key, thread.reactor.now()),
            Self::Exchange { group, index, address } => {
                let log = &thread.shared.error_log;
                let line = match error {
                    OpenError::Connect(error) => format!("connect() to {address} failed ({})", errno(error)),
                    OpenError::Handshake { phrase, .. } => format!("{phrase} while SSL handshaking to {address}"),
                };
                log.log(Level::Error, &format!("{line} for a request served otherwise"));
                if group.report(*index, Outcome::Failed, thread.pool_now()) == Standing::Disabled {
                    log.log(Level::Warn, &format!("upstream server {address} temporarily disabled"));
                }
            }
        }
    }
}
