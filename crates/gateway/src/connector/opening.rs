//! Connections being opened for the pool, not for an exchange: for a floor, or because their exchange took one that
//! came free first. Each is a task without an exchange.

use crate::base::fault::Fault;
use crate::base::logs::error::{Level, errno};
use crate::connector::connect::dial;
use crate::connector::h2::{ForStreams, begin_idle};
use crate::connector::leased::{Leased, pool_before_use};
use crate::connector::pending::{Handshake, OpenError, OpenStep, Pending};
use crate::plan::group::WarmingPlan;
use crate::thread::WorkerThread;
use crate::thread::job::Job;
use reactor::{Millis, PeerAddress, TaskId};
use std::io;
use std::rc::Rc;
use std::sync::Arc;
use upstream::balance::{Group, Outcome, PeerChange};
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

/// What came of opening a spare connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Spare {
    /// It is being opened.
    Opening,
    /// The pool has no room for a connection that no request needs yet.
    NoRoom,
    /// It failed before it began: the peer is left alone for a while.
    Refused,
}

/// Opens a connection ahead of demand. No other connection is closed for it.
pub(crate) fn open_spare(thread: &WorkerThread, key: KeyId, address: &PeerAddress, plan: &WarmingPlan) -> Spare {
    let now = thread.reactor.now();
    let Some(permit) = thread.registry.pool.open_spare(thread.id(), key) else { return Spare::NoRoom };
    // Its own task is created when it waits; until then no event comes.
    let Ok((stream, port)) = dial(thread, address, &plan.connect, thread.chores.task) else {
        thread.pauses.refused(key, now);
        return Spare::Refused;
    };
    let tls = plan.tls.as_ref().map(|tls| Handshake::without_request(tls, address));
    let pending = Pending::new(stream, port, permit, tls);
    open_for_pool(thread, pending, OpenedFor::Floor { key, http2: plan.http2 }, now.after(plan.connect_timeout));
    Spare::Opening
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
        thread.registry.faults.pass(Fault::Opening);
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
                let log = &thread.registry.error_log;
                let line = match error {
                    OpenError::Connect(error) => format!("connect() to {address} failed ({})", errno(error)),
                    OpenError::Handshake { phrase, .. } => format!("{phrase} while SSL handshaking to {address}"),
                };
                log.log(Level::Error, &format!("{line} for a request served otherwise"));
                if group.report(*index, Outcome::Failed, thread.pool_now()) == PeerChange::Disabled {
                    log.log(Level::Warn, &format!("upstream server {address} temporarily disabled"));
                }
            }
        }
    }
}
