//! The epoll descriptor and what its tokens mean.

use crate::sys;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// Number of a descriptor that is not a connection (a listener, a mailbox): chosen by its watcher.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct SourceId(pub u32);

/// Set in tokens of sources, so that they never look like a slot.
const SOURCE_BIT: u64 = 1 << 63;

/// What an epoll token means.
pub(crate) enum Token {
    Slot { slot: u32, generation: u32 },
    Source(SourceId),
}

impl Token {
    pub(crate) fn encode(&self) -> u64 {
        match *self {
            Self::Slot { slot, generation } => u64::from(generation & 0x7fff_ffff) << 32 | u64::from(slot),
            Self::Source(SourceId(id)) => SOURCE_BIT | u64::from(id),
        }
    }

    pub(crate) fn decode(token: u64) -> Self {
        if token & SOURCE_BIT == 0 {
            Self::Slot { slot: token as u32, generation: (token >> 32) as u32 }
        } else {
            Self::Source(SourceId(token as u32))
        }
    }
}

/// Edge-triggered interest of a connected socket. EPOLLOUT is left out until a write has not gone through: an add reports
/// writability at once, which would be a wake-up for nothing.
pub(crate) const READ_INTEREST: i32 = libc::EPOLLIN | libc::EPOLLRDHUP | libc::EPOLLET;
/// The same with EPOLLOUT, for sockets that are connecting or whose send buffer was full once.
pub(crate) const READ_WRITE_INTEREST: i32 = READ_INTEREST | libc::EPOLLOUT;

/// An epoll instance. Other threads may remove and add descriptors, which the kernel allows.
#[derive(Debug)]
pub(crate) struct Poller {
    epoll: OwnedFd,
}

impl Poller {
    pub(crate) fn new() -> io::Result<Self> {
        Ok(Self { epoll: sys::epoll_create()? })
    }

    pub(crate) fn add(&self, socket: BorrowedFd<'_>, events: i32, token: &Token) -> io::Result<()> {
        sys::epoll_ctl(self.epoll.as_fd(), libc::EPOLL_CTL_ADD, socket, events, token.encode())
    }

    pub(crate) fn modify(&self, socket: BorrowedFd<'_>, events: i32, token: &Token) -> io::Result<()> {
        sys::epoll_ctl(self.epoll.as_fd(), libc::EPOLL_CTL_MOD, socket, events, token.encode())
    }

    pub(crate) fn remove(&self, socket: BorrowedFd<'_>) -> io::Result<()> {
        sys::epoll_ctl(self.epoll.as_fd(), libc::EPOLL_CTL_DEL, socket, 0, 0)
    }

    pub(crate) fn wait(&self, events: &mut [libc::epoll_event], timeout_ms: i32) -> io::Result<usize> {
        sys::epoll_wait(self.epoll.as_fd(), events, timeout_ms)
    }
}
