//! Sockets without a task: idle connections that wait in a pool. They stay registered with the reactor that parked them,
//! which reports when something happens on them; any thread may take them over.

use crate::poller::Poller;
use crate::reactor::{Reactor, flag};
use crate::scratch::{SCRATCH_BYTES, with_scratch};
use crate::stream::{Peeked, Read, Stream, leaves_time_wait};
use crate::sys;
use crate::task::TaskId;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::rc::Rc;
use std::sync::{Arc, Mutex, PoisonError};

/// What other threads may touch of a reactor: its epoll, and the list of slots that thieves left behind.
#[derive(Debug)]
pub(crate) struct Home {
    pub(crate) poller: Poller,
    orphans: Mutex<Vec<u32>>,
}

impl Home {
    pub(crate) fn new(poller: Poller) -> Self {
        Self { poller, orphans: Mutex::new(Vec::new()) }
    }

    /// Slots of sockets that were taken away; the owner frees them when it next turns.
    pub(crate) fn take_orphans(&self) -> Vec<u32> {
        std::mem::take(&mut *self.orphans.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn orphan(&self, slot: u32) {
        self.orphans.lock().unwrap_or_else(PoisonError::into_inner).push(slot);
    }
}

/// Names a parked socket to the reactor that parked it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ParkedId(pub(crate) u32);

/// A registered socket without a task. Dropping it closes the socket.
#[derive(Debug)]
pub struct Parked {
    /// `None` only after it was taken out by `unpark`.
    socket: Option<OwnedFd>,
    slot: u32,
    home: Arc<Home>,
}

impl Parked {
    pub(crate) fn new(socket: OwnedFd, slot: u32, home: Arc<Home>) -> Self {
        Self { socket: Some(socket), slot, home }
    }

    /// For [`Reactor::label_parked`].
    pub fn id(&self) -> ParkedId {
        ParkedId(self.slot)
    }

    /// Asks the kernel, not the flags, what has arrived. One system call.
    pub fn peek(&self) -> Peeked {
        self.socket.as_ref().map_or(Peeked::Ended, |socket| Peeked::of(socket.as_fd()))
    }

    /// Reads what has arrived without taking the socket away, as [`crate::Stream::read_behind`] does: `front` goes before it. The owner of
    /// a parked socket may have to take in what is no data, such as tickets of TLS. `reactor` is this thread's; where the socket is parked
    /// there, an empty socket does not count as readable any more.
    pub fn read_behind<R>(
        &self,
        reactor: &Reactor,
        front: &[u8],
        max: usize,
        look: impl FnOnce(&mut [u8]) -> R,
    ) -> io::Result<Read<R>> {
        let Some(socket) = &self.socket else { return Ok(Read::Closed) };
        let end = front.len().saturating_add(max.max(1)).min(SCRATCH_BYTES);
        if front.len() >= end {
            return Err(io::ErrorKind::OutOfMemory.into());
        }
        with_scratch(|scratch| match sys::recv(socket.as_fd(), &mut scratch[front.len()..end]) {
            Ok(0) => Ok(Read::Closed),
            Ok(count) => {
                scratch[..front.len()].copy_from_slice(front);
                Ok(Read::Data(look(&mut scratch[..front.len() + count])))
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                if Arc::ptr_eq(&self.home, reactor.home()) {
                    reactor.clear_flags(self.slot, flag::READABLE);
                }
                Ok(Read::NotReady)
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => Ok(Read::NotReady),
            Err(error) => Err(error),
        })
    }

    /// Whether dropping it now leaves its port in TIME_WAIT. Two system calls.
    pub fn leaves_time_wait(&self) -> bool {
        self.socket.as_ref().is_some_and(|socket| leaves_time_wait(socket.as_fd(), false))
    }

    /// The socket, for another process: no reactor watches it any more.
    pub fn into_socket(mut self) -> io::Result<OwnedFd> {
        let socket = self.socket.take().expect("it is taken only by what consumes the value");
        let removed = self.home.poller.remove(socket.as_fd());
        self.home.orphan(self.slot);
        removed.map(|()| socket)
    }

    /// Gives the socket to a task of this reactor. On the reactor that parked it this is a store; from another one it is
    /// moved from epoll to epoll, and the edge-triggered add reports a FIN that is already there.
    pub fn unpark(mut self, reactor: &Rc<Reactor>, task: TaskId) -> io::Result<Stream> {
        let socket = self.socket.take().expect("only `unpark` takes the socket, and it consumes the value");
        if Arc::ptr_eq(&self.home, reactor.home()) {
            reactor.reattach(self.slot, task);
            return Ok(Stream::from_parts(socket, self.slot, Rc::clone(reactor)));
        }
        let removed = self.home.poller.remove(socket.as_fd());
        self.home.orphan(self.slot);
        removed?;
        reactor.register(socket, task)
    }
}

impl Drop for Parked {
    fn drop(&mut self) {
        if self.socket.take().is_some() {
            self.home.orphan(self.slot);
        }
    }
}
