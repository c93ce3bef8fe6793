//! How a task waits for its sockets. A wait begins with a look at the current state, because the event of an earlier moment may be
//! consumed already. Input that has arrived wakes the task as an event would, after the tasks that are already ready, so that no task
//! keeps the thread for itself.

use crate::reactor::{Reactor, flag};
use crate::stream::Stream;
use crate::task::TaskId;
use terms::Millis;

/// Which readiness of a socket is waited for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Interest(u8);

impl Interest {
    /// Nothing.
    pub const NONE: Self = Self(0);
    /// Data, the end of the stream, or an error.
    pub const READ: Self = Self(flag::READABLE);
    /// Room, or an error.
    pub const WRITE: Self = Self(flag::WRITABLE);
    /// Either.
    pub const BOTH: Self = Self(flag::READABLE | flag::WRITABLE);

    /// This one, where the condition holds.
    pub const fn only_if(self, wanted: bool) -> Self {
        if wanted { self } else { Self::NONE }
    }

    /// Either of two.
    #[must_use]
    pub const fn or(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// The rest of it, where no room is waited for.
    #[must_use]
    pub const fn without_write(self) -> Self {
        Self(self.0 & !flag::WRITABLE)
    }

    /// Whether it includes all of another one.
    pub const fn includes(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    pub(crate) const fn flags(self) -> u8 {
        self.0
    }
}

/// What counts as the peer's leaving.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Leaving {
    /// Nothing: the wait goes on for a peer that is gone.
    Ignored,
    /// A reset, or an error.
    Reset,
    /// The same, or a FIN behind which nothing is unread.
    ResetOrFin,
}

/// Something that a task waits for: a socket, or what reads ahead of one.
pub trait Waited {
    /// Whether something of this interest is there.
    fn is_ready(&self, interest: Interest) -> bool;

    /// Whether the peer has left. A FIN is a message like others: it counts when everything before it was read.
    fn has_left(&self, leaving: Leaving) -> bool;
}

/// What a task waits for, besides its deadline and calls by others.
#[derive(Debug)]
pub struct Awaited<'a, S: Waited = Stream> {
    /// Sockets, and what of each.
    pub sockets: [Option<(&'a S, Interest)>; 2],
    /// A peer that ends the wait when it leaves.
    pub peer: Option<(&'a S, Leaving)>,
}

/// Why a wait ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Woken {
    /// What was waited for may be there, or another task has woken this one.
    Ready,
    /// The peer has left.
    PeerGone,
    /// The deadline came, and nothing else did.
    Deadline,
}

impl<S: Waited> Awaited<'_, S> {
    fn is_ready(&self) -> bool {
        self.sockets.iter().flatten().any(|(stream, interest)| stream.is_ready(*interest))
    }

    fn peer_is_gone(&self) -> bool {
        self.peer.is_some_and(|(stream, leaving)| stream.has_left(leaving))
    }
}

impl Reactor {
    /// Begins a wait: from now on an event, a call or the deadline wakes the task, and so does input that has arrived already. An
    /// earlier deadline of the task is forgotten.
    pub fn begin_wait<S: Waited>(&self, task: TaskId, awaited: &Awaited<'_, S>, deadline: Millis) {
        self.take_deadline_fired(task);
        self.set_deadline(task, Some(deadline));
        if awaited.is_ready() || awaited.peer_is_gone() {
            self.wake(task);
        }
    }

    /// Ends a wait when the task was woken, and returns why.
    pub fn end_wait<S: Waited>(&self, task: TaskId, awaited: &Awaited<'_, S>) -> Woken {
        let deadline = self.take_deadline_fired(task);
        if awaited.peer_is_gone() {
            return Woken::PeerGone;
        }
        // What is waited for may come in the same turn as the deadline.
        if deadline && !awaited.is_ready() { Woken::Deadline } else { Woken::Ready }
    }
}
