//! Connections that are being opened for the pool, not for an exchange: those of a floor, and those whose exchange took
//! another one that came free meanwhile. Each is a task without an exchange.

use crate::base::logs::error::{Level, errno};
use crate::registry::pool::{IdleSocket, pool_before_use};
use crate::registry::ports::PortUse;
use crate::worker::{Body, Worker};
use reactor::{Millis, PeerAddress, Stream, TaskId};
use std::io;
use std::rc::Rc;
use std::sync::Arc;
use upstream::balance::{Group, Outcome, Standing};
use upstream::shared::{Connecting, KeyId};

/// A socket whose `connect()` is under way, and the right to it.
pub(crate) struct Pending {
    pub(crate) stream: Stream,
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

impl Worker {
    /// Opens the connection for the pool from now on, for at most until the deadline.
    pub(crate) fn open_for_pool(self: &Rc<Self>, pending: Pending, reason: OpenedFor, deadline: Millis) {
        let task = self.reactor.create_task();
        pending.stream.attach(task);
        self.reactor.set_deadline(task, Some(deadline));
        // Its event may have come while it was an exchange's.
        self.step_opening(Box::new(Opening { task, pending, reason }));
    }

    pub(crate) fn step_opening(self: &Rc<Self>, opening: Box<Opening>) {
        let stream = &opening.pending.stream;
        let fired = self.reactor.take_deadline_fired(opening.task);
        if !stream.is_writable() && !stream.is_failed() && !fired {
            return self.put(opening.task, Body::Opening(opening));
        }
        let Opening { task, pending, reason } = *opening;
        let Pending { stream, port, permit } = pending;
        let failure = match stream.take_error() {
            Ok(None) if stream.is_writable() => None,
            Ok(None) => Some(io::ErrorKind::TimedOut.into()),
            Ok(Some(error)) | Err(error) => Some(error),
        };
        match failure {
            None => pool_before_use(permit, stream, port, self),
            Some(error) => {
                drop((stream, port, permit));
                self.opening_failed(&reason, &error);
            }
        }
        self.reactor.end_task(task);
    }

    fn opening_failed(&self, reason: &OpenedFor, error: &io::Error) {
        match reason {
            OpenedFor::Floor(key) => self.pauses.refused(*key, self.reactor.now()),
            OpenedFor::Exchange { group, index, address } => {
                let log = &self.shared.error_log;
                let error = errno(error);
                log.log(
                    Level::Error,
                    &format!("connect() to {address} failed ({error}) for a request served otherwise"),
                );
                if group.report(*index, Outcome::Failed, self.pool_now()) == Standing::Disabled {
                    log.log(Level::Warn, &format!("upstream server {address} temporarily disabled"));
                }
            }
        }
    }
}
