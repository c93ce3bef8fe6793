//! Sessions of `stream`: their futures on the worker, and what happens to their connections.

use crate::base::counters::bump;
use crate::registry::generation::{ListenerId, Pinned};
use crate::session::{SessionBegin, SessionEnd};
use crate::thread::executor::{Desk, Slot};
use crate::worker::inspect::Begun;
use crate::worker::{Body, Worker};
use reactor::{PeerAddress, Stream, TaskId};
use std::cell::RefCell;
use std::rc::Rc;
use std::task::Poll;
use transport::Transport;

/// Futures kept for later sessions: a burst of connections allocates no more than run at a time.
const SLOTS_MAX: usize = 64;

/// The futures of a worker's sessions.
#[derive(Default)]
pub(crate) struct Sessions {
    desk: Rc<Desk<SessionBegin, SessionEnd>>,
    slots: RefCell<Vec<Slot>>,
}

impl Worker {
    /// Starts a session on a connection that was just accepted.
    pub(super) fn begin_session(
        self: &Rc<Self>,
        generation: Rc<Pinned>,
        stream: Stream,
        task: TaskId,
        listener: ListenerId,
        peer: PeerAddress,
    ) {
        let serial = self.thread.memory.serial(task);
        let begun = Begun::of_session(task, peer.clone(), self.thread.reactor.now());
        let thread = Rc::clone(&self.thread);
        let (hub, stream) = (Rc::clone(&self.spares.hub), Transport::plain(stream));
        let begin = SessionBegin { thread, hub, generation, stream, task, listener, peer, serial };
        bump(&self.thread.counters().sessions, 1);
        self.begun.borrow_mut().insert(task.index, begun);
        let spare = self.sessions.slots.borrow_mut().pop();
        let slot = spare.unwrap_or_else(|| Slot::new(crate::session::run(Rc::clone(&self.sessions.desk))));
        self.sessions.desk.put_arguments(begin);
        self.poll_session(task, slot);
    }

    pub(super) fn poll_session(self: &Rc<Self>, task: TaskId, mut slot: Slot) {
        let Poll::Ready(end) = self.sessions.desk.poll(&mut slot) else {
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
            SessionEnd::Closed(task, reason) => self.forget_connection(task, reason),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::session::calling::SESSION_BYTES;

    /// The size of the future that a function returns.
    fn size_of_future<F: Future>(_: impl Fn(Rc<Desk<SessionBegin, SessionEnd>>) -> F) -> usize {
        size_of::<F>()
    }

    #[test]
    fn a_session_is_no_larger_than_it_says() {
        let bytes = size_of_future(crate::session::run);
        assert!(bytes <= SESSION_BYTES, "{bytes} bytes");
    }
}
