//! Connections that are closed only when their log lines are written: a client that sees the connection close finds its
//! line in the file. The client already has the response; only the FIN waits, for about as long as a write takes. That
//! costs two thread switches, so under load connections are closed at once, and their lines follow within the writer's
//! period.

use crate::base::close::CloseReason;
use crate::downstream::h1::connection::Connection;
use crate::downstream::h1::linger::LingerPlan;
use crate::worker::{Body, Worker};
use reactor::{Millis, TaskId};
use std::rc::Rc;
use std::sync::atomic::Ordering;

/// A disk that accepts no lines delays no connection for longer than it delays lines under load.
const HELD_MAX_MS: u64 = 100;

/// Least time between two held-back connections of a worker. A person or script that reads the log after each request
/// makes requests less often than that. A load of one request per connection makes them more often: with every
/// connection held back, a single client got a quarter of the requests/s, at 80 µs of CPU a request instead of 32.
const APART_MS: u64 = 10;

/// A connection waiting to be closed.
pub(crate) struct HeldBack {
    connection: Box<Connection>,
    reason: CloseReason,
    linger: Option<LingerPlan>,
    /// The collection that includes its lines.
    collection: u64,
}

impl HeldBack {
    /// Takes the connection, to close it at once.
    pub(crate) fn into_connection(self) -> Box<Connection> {
        self.connection
    }
}

impl Worker {
    /// Closes a connection, or starts to linger on it, once its lines are written.
    pub(crate) fn close_after_lines(
        self: &Rc<Self>,
        connection: Box<Connection>,
        reason: CloseReason,
        linger: Option<LingerPlan>,
    ) {
        let bell = &self.thread.registry.log_bell;
        let gone = matches!(reason, CloseReason::ClientAborted | CloseReason::ClientClosed);
        let now = self.thread.reactor.now();
        let is_load = now.since(self.held_back_at.get()) < APART_MS;
        if gone || is_load || !connection.line_waits.get() || !bell.has_writer() {
            return self.close_or_linger(connection, reason, linger);
        }
        self.held_back_at.set(now);
        let task = connection.task;
        self.thread.reactor.set_deadline(task, Some(Millis(now.0 + HELD_MAX_MS)));
        self.held_back.borrow_mut().push(task);
        // The flag is set first, so that a collection which ends afterwards tells us.
        self.thread.registry.workers[self.thread.index as usize].awaits_lines.store(true, Ordering::SeqCst);
        let collection = bell.request_collection();
        self.put(task, Body::HeldBack(Box::new(HeldBack { connection, reason, linger, collection })));
    }

    /// Handles an event of a held-back connection: its lines are written, its time has passed, or the client did
    /// something, which changes nothing.
    pub(crate) fn step_held_back(self: &Rc<Self>, held: Box<HeldBack>) {
        let task = held.connection.task;
        let over = self.thread.reactor.take_deadline_fired(task);
        if !over && !self.thread.registry.log_bell.is_done(held.collection) {
            return self.put(task, Body::HeldBack(held));
        }
        self.held_back.borrow_mut().retain(|other| *other != task);
        let HeldBack { connection, reason, linger, .. } = *held;
        self.close_or_linger(connection, reason, linger);
    }

    /// A collection has ended: closes the connections whose lines it wrote; for the others another collection is under
    /// way.
    pub(crate) fn lines_are_written(self: &Rc<Self>) {
        let all: Vec<TaskId> = self.held_back.take();
        let mut left = Vec::new();
        for task in all {
            let mut bodies = self.bodies.borrow_mut();
            let Some(body) = bodies.get_mut(task.index as usize) else { continue };
            match std::mem::replace(body, Body::Free) {
                Body::HeldBack(held) if held.connection.task == task => {
                    if !self.thread.registry.log_bell.is_done(held.collection) {
                        *body = Body::HeldBack(held);
                        left.push(task);
                        continue;
                    }
                    drop(bodies);
                    let HeldBack { connection, reason, linger, .. } = *held;
                    self.close_or_linger(connection, reason, linger);
                }
                other => *body = other,
            }
        }
        if !left.is_empty() {
            self.held_back.borrow_mut().append(&mut left);
            self.thread.registry.workers[self.thread.index as usize].awaits_lines.store(true, Ordering::SeqCst);
            self.thread.registry.log_bell.request_collection();
        }
    }
}
