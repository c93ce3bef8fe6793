//! Sessions of `stream`: their futures on the worker, and what happens to their connections.

use crate::base::close::CloseReason;
use crate::base::counters::bump;
use crate::downstream::h1::connection::Connection;
use crate::plan::listener::Serves;
use crate::registry::generation::{ListenerId, Pinned};
use crate::session::client::SessionClient;
use crate::session::pass::PassedConnection;
use crate::session::{SessionBegin, SessionEnd};
use crate::thread::executor::{Mailbox, Slot};
use crate::worker::inspect::Begun;
use crate::worker::{Body, Worker};
use reactor::{PeerAddress, TaskId};
use std::cell::RefCell;
use std::rc::Rc;
use std::task::Poll;

/// Futures kept for later sessions: a burst of connections allocates no more than run at a time.
const SLOTS_MAX: usize = 64;

/// The futures of a worker's sessions.
#[derive(Default)]
pub(crate) struct Sessions {
    mailbox: Rc<Mailbox<SessionBegin, SessionEnd>>,
    slots: RefCell<Vec<Slot>>,
}

impl Worker {
    /// Starts a session on a connection that was just accepted.
    pub(super) fn begin_session(
        self: &Rc<Self>,
        generation: Rc<Pinned>,
        client: SessionClient,
        pending: Vec<u8>,
        task: TaskId,
        listener: ListenerId,
        peer: PeerAddress,
    ) {
        let serial = self.thread.memory.serial(task);
        let (passes, serves) = (0, Serves::Stream);
        let connection = PassedConnection { client, task, pending, generation, listener, serves, peer, passes, serial };
        self.start_session(connection);
    }

    fn start_session(self: &Rc<Self>, connection: PassedConnection) {
        let PassedConnection { client, task, pending, generation, listener, peer, passes, serial, .. } = connection;
        let begun = Begun::of_session(task, peer.clone(), self.thread.reactor.now());
        let (thread, hub) = (Rc::clone(&self.thread), Rc::clone(&self.spares.hub));
        let begin = SessionBegin { thread, hub, generation, client, task, listener, peer, serial, pending, passes };
        bump(&self.thread.counters().sessions, 1);
        self.begun.borrow_mut().insert(task.index, begun);
        let spare = self.sessions.slots.borrow_mut().pop();
        let slot = spare.unwrap_or_else(|| Slot::new(crate::session::run(Rc::clone(&self.sessions.mailbox))));
        self.sessions.mailbox.put_arguments(begin);
        self.poll_session(task, slot);
    }

    /// A connection that `pass` hands to a listener of `http`: it waits for a head, like one that was just accepted.
    fn take_over(self: &Rc<Self>, passed: PassedConnection) {
        let PassedConnection { client, task, pending, generation, listener, peer, serial, .. } = passed;
        let SessionClient::Stream(stream) = client else {
            return self.forget_connection(task, CloseReason::SessionRefused);
        };
        let now = self.thread.reactor.now();
        let timeout = generation.listener(listener).map(|listener| listener.header_timeout);
        self.thread.reactor.set_deadline(task, timeout.map(|timeout| now.after(timeout)));
        let connection = Connection { pending, ..Connection::accepted(stream, task, listener, peer, serial, now) };
        self.put(task, Body::Idle(Box::new(connection)));
        // Bytes may have come already, and bring no event.
        self.thread.reactor.wake(task);
    }

    pub(super) fn poll_session(self: &Rc<Self>, task: TaskId, mut slot: Slot) {
        let Poll::Ready(end) = self.sessions.mailbox.poll(&mut slot) else {
            return self.put(task, Body::Session(slot));
        };
        bump(&self.thread.counters().sessions, -1);
        self.begun.borrow_mut().remove(&task.index);
        let mut slots = self.sessions.slots.borrow_mut();
        if slots.len() < SLOTS_MAX {
            slots.push(slot);
        }
        drop(slots);
        match end {
            SessionEnd::Tunnel(tunnel) => self.begin_tunnel(tunnel),
            SessionEnd::Datagrams(session, end) => self.join_datagrams(session, end),
            SessionEnd::Passed(passed) if passed.serves == Serves::Stream => self.start_session(*passed),
            SessionEnd::Passed(passed) => self.take_over(*passed),
            SessionEnd::Closed(task, reason) => self.forget_connection(task, reason),
        }
    }

    /// Ends a session that is not a tunnel yet; `false` if the task has none.
    pub(super) fn drop_session(&self, task: TaskId, reason: CloseReason) -> bool {
        let body = match self.bodies.borrow_mut().get_mut(task.index as usize) {
            Some(body) if matches!(body, Body::Session(_)) => std::mem::replace(body, Body::Free),
            _ => return false,
        };
        // Dropping the future closes its sockets.
        drop(body);
        bump(&self.thread.counters().sessions, -1);
        self.forget_connection(task, reason);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::session::calling::SESSION_BYTES;

    /// The size of the future that a function returns.
    fn size_of_future<F: Future>(_: impl Fn(Rc<Mailbox<SessionBegin, SessionEnd>>) -> F) -> usize {
        size_of::<F>()
    }

    #[test]
    fn session_stays_within_its_documented_size() {
        let bytes = size_of_future(crate::session::run);
        assert!(bytes <= SESSION_BYTES, "{bytes} bytes");
    }
}
