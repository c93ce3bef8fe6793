//! Lingering close: after a response that did not wait for the whole request, the client may still be sending. If the
//! gateway closed at once, the kernel would answer that with RST, which can destroy the response before the client has
//! read it. So the gateway closes its sending side, and reads and drops input for a while.

use crate::base::close::CloseReason;
use crate::downstream::h1::connection::Connection;
use reactor::{Millis, Read, SCRATCH_BYTES, TaskId};
use std::time::Duration;

/// Reads before other tasks get their turn.
const READS_MAX: usize = 16;

/// How long to linger.
#[derive(Debug, Clone, Copy)]
pub(crate) struct LingerPlan {
    /// Total time (`lingering_time`).
    pub(crate) total: Duration,
    /// Time without input (`lingering_timeout`).
    pub(crate) silence: Duration,
}

/// A connection that is closed for writing and still read from.
#[derive(Debug)]
pub(crate) struct Linger {
    connection: Box<Connection>,
    reason: CloseReason,
    plan: LingerPlan,
    began_at: Millis,
    ends: Millis,
    silent_since: Millis,
}

impl Linger {
    pub(crate) fn new(connection: Box<Connection>, reason: CloseReason, plan: LingerPlan, now: Millis) -> Self {
        // This fails if the client has already left; the next read reports that.
        let _ = connection.stream.shutdown_write();
        Self { connection, reason, plan, began_at: now, ends: now.after(plan.total), silent_since: now }
    }

    pub(crate) fn task(&self) -> TaskId {
        self.connection.task
    }

    pub(crate) fn serial(&self) -> u64 {
        self.connection.client.serial
    }

    pub(crate) fn began_at(&self) -> Millis {
        self.began_at
    }

    /// Drops the input; returns when to look again, or `None` when it is over.
    pub(crate) fn step(&mut self, now: Millis) -> Option<Millis> {
        for _ in 0..READS_MAX {
            match self.connection.stream.read_with(SCRATCH_BYTES, |_| ()) {
                Ok(Read::Data(())) => self.silent_since = now,
                Ok(Read::NotReady) => return self.deadline(now),
                Ok(Read::Closed) | Err(_) => return None,
            }
        }
        // More bytes may be there, and no event will report them: look again in the next millisecond.
        self.deadline(now).map(|_| Millis(now.0 + 1))
    }

    fn deadline(&self, now: Millis) -> Option<Millis> {
        let deadline = self.silent_since.after(self.plan.silence).min(self.ends);
        (now < deadline).then_some(deadline)
    }

    pub(crate) fn into_parts(self) -> (Box<Connection>, CloseReason) {
        (self.connection, self.reason)
    }
}
