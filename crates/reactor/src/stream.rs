//! A connected socket of a task: reads through the thread's scratch buffer, optimistic writes, half-close, reset.

use crate::parked::Parked;
use crate::reactor::{Reactor, flag};
use crate::scratch::{SCRATCH_BYTES, with_scratch};
use crate::sys;
use crate::task::TaskId;
use crate::wait::{Interest, Leaving, Waited};
use std::io::{self, IoSlice};
use std::net::Shutdown;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::rc::Rc;
use std::time::Duration;
use terms::Millis;

/// The result of a read attempt.
#[derive(Debug)]
pub enum Read<R> {
    /// Bytes were there; what the closure made of them.
    Data(R),
    /// Nothing at the moment: an event reports the next bytes.
    NotReady,
    /// The peer has closed its sending side, and everything before that was read.
    Closed,
}

/// What a look at a socket found, without taking anything.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Peeked {
    /// Nothing: a read would wait.
    Nothing,
    /// Bytes.
    Data,
    /// The end of the stream, or an error.
    Ended,
}

impl Peeked {
    pub(crate) fn of(socket: BorrowedFd<'_>) -> Self {
        match sys::peek(socket) {
            Ok(0) => Self::Ended,
            Ok(_) => Self::Data,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Self::Nothing,
            Err(_) => Self::Ended,
        }
    }
}

/// The connection's state in the kernel, as far as it shows whether sent bytes arrived.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TcpState {
    /// Neither side has closed.
    Established,
    /// The peer's FIN was received; this side has not closed.
    CloseWait,
    /// The connection is over: a reset came, or the retransmissions were given up.
    Closed,
    /// Any other state.
    Other,
}

/// How far a connection's outgoing bytes have come, at the time of one system call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Progress {
    /// The state.
    pub state: TcpState,
    /// Bytes that the peer's kernel has acknowledged since the beginning (`tcpi_bytes_acked`, RFC 4898).
    pub acked_bytes: u64,
}

/// Values of `tcpi_state` (`include/net/tcp_states.h`).
const TCP_ESTABLISHED: u8 = 1;
const TCP_FIN_WAIT1: u8 = 4;
const TCP_FIN_WAIT2: u8 = 5;
const TCP_CLOSE: u8 = 7;
const TCP_CLOSE_WAIT: u8 = 8;
const TCP_CLOSING: u8 = 11;

/// A connected socket registered with a reactor. Dropping it closes the socket.
#[derive(Debug)]
pub struct Stream {
    /// `None` only after `park` or `into_socket` took it.
    socket: Option<OwnedFd>,
    slot: u32,
    reactor: Rc<Reactor>,
}

impl Stream {
    pub(crate) fn from_parts(socket: OwnedFd, slot: u32, reactor: Rc<Reactor>) -> Self {
        Self { socket: Some(socket), slot, reactor }
    }

    /// The time of the reactor's turn.
    pub fn now(&self) -> Millis {
        self.reactor.now()
    }

    /// Forgets what the kernel has reported, because it was taken.
    pub(crate) fn clear(&self, flags: u8) {
        self.reactor.clear_flags(self.slot, flags);
    }

    pub(crate) fn fd(&self) -> BorrowedFd<'_> {
        self.socket.as_ref().expect("only consuming methods take the socket").as_fd()
    }

    /// Delivers events of this socket to another task from now on.
    pub fn attach(&self, task: TaskId) {
        self.reactor.reattach(self.slot, task);
    }

    /// Whether a read may give something (data, end of stream or an error).
    pub fn is_readable(&self) -> bool {
        self.reactor.flags(self.slot) & flag::READABLE != 0
    }

    /// Whether a write has not been refused since the last sign of room.
    pub fn is_writable(&self) -> bool {
        self.reactor.flags(self.slot) & flag::WRITABLE != 0
    }

    /// Whether the peer's FIN, or a reset, has been reported. Data before it may still be unread.
    pub fn is_peer_closed(&self) -> bool {
        self.reactor.flags(self.slot) & flag::PEER_CLOSED != 0
    }

    /// Whether the connection is broken: reset, or an error.
    pub fn is_failed(&self) -> bool {
        self.reactor.flags(self.slot) & flag::FAILED != 0
    }

    /// Reads up to `max` bytes (at most [`SCRATCH_BYTES`]) into the thread's buffer and hands them to the closure.
    ///
    /// A read that returns less than asked has emptied the socket, so the next one, which would only say EAGAIN, is saved,
    /// unless the peer has closed: then the end of stream must still be read.
    pub fn read_with<R>(&self, max: usize, look: impl FnOnce(&[u8]) -> R) -> io::Result<Read<R>> {
        self.read_behind(&[], max, |bytes| look(bytes))
    }

    /// As [`Self::read_with`], with `front` copied in front of what was read, and both lent to be changed in place: for
    /// records of TLS, of which a part was there before. Both together take at most [`SCRATCH_BYTES`].
    pub fn read_behind<R>(&self, front: &[u8], max: usize, look: impl FnOnce(&mut [u8]) -> R) -> io::Result<Read<R>> {
        let flags = self.reactor.flags(self.slot);
        if flags & flag::READABLE == 0 {
            return Ok(Read::NotReady);
        }
        let kept = front.len();
        if kept >= SCRATCH_BYTES {
            return Err(io::ErrorKind::OutOfMemory.into());
        }
        let end = kept.saturating_add(max.max(1)).min(SCRATCH_BYTES);
        with_scratch(|scratch| match sys::recv(self.fd(), &mut scratch[kept..end]) {
            Ok(0) => Ok(Read::Closed),
            Ok(count) => {
                if kept + count < end && flags & (flag::PEER_CLOSED | flag::FAILED) == 0 {
                    self.reactor.clear_flags(self.slot, flag::READABLE);
                }
                scratch[..kept].copy_from_slice(front);
                Ok(Read::Data(look(&mut scratch[..kept + count])))
            }
            Err(error) => match error.kind() {
                io::ErrorKind::WouldBlock => {
                    self.reactor.clear_flags(self.slot, flag::READABLE);
                    Ok(Read::NotReady)
                }
                // Tried again at the next wake; the flag is still set.
                io::ErrorKind::Interrupted => Ok(Read::NotReady),
                _ => Err(error),
            },
        })
    }

    /// Asks the kernel, not the flags, what has arrived. One system call.
    pub fn peek(&self) -> Peeked {
        Peeked::of(self.fd())
    }

    /// Writes the parts in order as far as the socket takes them and returns the number of bytes; 0 when it takes none.
    /// After less than everything an event will tell when there is room again. With `more`, the kernel may hold back a
    /// partial segment because something follows at once.
    pub fn write(&self, parts: &[IoSlice<'_>], more: bool) -> io::Result<usize> {
        let total: usize = parts.iter().map(|part| part.len()).sum();
        if total == 0 || !self.is_writable() {
            return Ok(0);
        }
        let sent = match parts {
            [one] => sys::send(self.fd(), one, more),
            several => sys::send_vectored(self.fd(), several, more),
        };
        self.account_write(sent, total)
    }

    /// Sends up to `count` bytes of a file from `offset`, which is moved on; otherwise as [`Self::write`]. Returns 0 also at
    /// the end of the file.
    pub fn write_file(&self, file: BorrowedFd<'_>, offset: &mut i64, count: usize) -> io::Result<usize> {
        if count == 0 || !self.is_writable() {
            return Ok(0);
        }
        let sent = sys::sendfile(self.fd(), file, offset, count);
        match sent {
            // The file is shorter than promised: the socket is as writable as before.
            Ok(0) => Ok(0),
            sent => self.account_write(sent, count),
        }
    }

    fn account_write(&self, sent: io::Result<usize>, total: usize) -> io::Result<usize> {
        match sent {
            Ok(sent) => {
                if sent < total {
                    self.reactor.arm_write(self.slot, self.fd());
                }
                Ok(sent)
            }
            Err(error) => match error.kind() {
                io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted => {
                    self.reactor.arm_write(self.slot, self.fd());
                    Ok(0)
                }
                _ => Err(error),
            },
        }
    }

    /// Sends FIN: no more writes; reads go on.
    pub fn shutdown_write(&self) -> io::Result<()> {
        if self.reactor.flags(self.slot) & (flag::PEER_CLOSED | flag::FAILED) == 0 {
            self.reactor.add_flags(self.slot, flag::WE_CLOSED_FIRST);
        }
        socket2::SockRef::from(&self.fd()).shutdown(Shutdown::Write)
    }

    /// The error that a failed `connect` or a reset left, if any; asking takes it.
    pub fn take_error(&self) -> io::Result<Option<io::Error>> {
        socket2::SockRef::from(&self.fd()).take_error()
    }

    /// Closes with RST instead of FIN, so that the peer learns at once that the connection did not end well.
    pub fn reset(self) {
        self.reset_when_dropped();
    }

    /// The same for an owner that cannot give it away.
    pub fn reset_when_dropped(&self) {
        let _ = socket2::SockRef::from(&self.fd()).set_linger(Some(Duration::ZERO));
    }

    /// The local address.
    pub fn local_address(&self) -> io::Result<Option<std::net::SocketAddr>> {
        Ok(socket2::SockRef::from(&self.fd()).local_addr()?.as_socket())
    }

    /// The address of the other end, where it has one.
    pub fn peer_address(&self) -> io::Result<Option<std::net::SocketAddr>> {
        Ok(socket2::SockRef::from(&self.fd()).peer_addr()?.as_socket())
    }

    /// For socket options that have no method here.
    pub fn as_socket(&self) -> socket2::SockRef<'_> {
        socket2::SockRef::from(self.socket.as_ref().expect("only consuming methods take the socket"))
    }

    /// Round-trip time, its variance (µs), congestion window (segments) and receive window (bytes), if this is TCP.
    pub fn tcp_info(&self) -> Option<[u32; 4]> {
        sys::tcp_info(self.fd()).map(|info| [info.tcpi_rtt, info.tcpi_rttvar, info.tcpi_snd_cwnd, info.tcpi_rcv_space])
    }

    /// State and acknowledged bytes, if this is TCP. One system call.
    pub fn progress(&self) -> Option<Progress> {
        let (state, acked_bytes) = sys::tcp_state_and_acked(self.fd())?;
        let state = match state {
            TCP_ESTABLISHED => TcpState::Established,
            TCP_CLOSE_WAIT => TcpState::CloseWait,
            TCP_CLOSE => TcpState::Closed,
            _ => TcpState::Other,
        };
        Some(Progress { state, acked_bytes })
    }

    /// Whether its port is in TIME_WAIT when it is dropped now. Two system calls at most, and none if the peer has closed
    /// first.
    pub fn leaves_time_wait(&self) -> bool {
        let flags = self.reactor.flags(self.slot);
        let we_were_first = flags & flag::WE_CLOSED_FIRST != 0;
        let peer_was_first = !we_were_first && flags & (flag::PEER_CLOSED | flag::FAILED) != 0;
        !peer_was_first && leaves_time_wait(self.fd(), we_were_first)
    }

    /// Lets go of the socket and leaves the connection as it is: another process has it, and continues.
    pub fn release(&mut self) {
        if let Some(socket) = self.socket.take() {
            // The other process's descriptor would keep the registration alive, and events would come for nothing.
            let _ = self.reactor.home().poller.remove(socket.as_fd());
            self.reactor.free_slot(self.slot);
        }
    }

    /// Takes the socket from its task. It stays registered: an event on it is reported as `Ready::Parked` once it has a
    /// label. What is left must be dropped.
    pub fn park(&mut self) -> Parked {
        let socket = self.socket.take().expect("only consuming methods take the socket");
        self.reactor.park(self.slot, socket)
    }
}

/// Whether closing a socket now leaves its port in TIME_WAIT, or has done so: neither side has closed, or we have first. A close
/// with unread bytes is a reset, which leaves nothing (`tcp_close()` in `net/ipv4/tcp.c`). When both sides have closed, the
/// kernel keeps TIME_WAIT apart from the socket, which counts as closed; so it does after a reset, which leaves an error.
pub(crate) fn leaves_time_wait(socket: BorrowedFd<'_>, we_closed_first: bool) -> bool {
    match sys::tcp_state_and_acked(socket) {
        Some((TCP_ESTABLISHED | TCP_FIN_WAIT1 | TCP_FIN_WAIT2 | TCP_CLOSING, _)) => {
            sys::peek(socket).map_or(true, |unread| unread == 0)
        }
        Some((TCP_CLOSE, _)) if we_closed_first => matches!(socket2::SockRef::from(&socket).take_error(), Ok(None)),
        _ => false,
    }
}

impl Waited for Stream {
    fn is_ready(&self, interest: Interest) -> bool {
        self.reactor.flags(self.slot) & interest.flags() != 0
    }

    /// Asks the kernel once a FIN was reported: something may be unread before it.
    fn has_left(&self, leaving: Leaving) -> bool {
        let flags = self.reactor.flags(self.slot);
        match leaving {
            Leaving::Ignored => false,
            Leaving::Reset => flags & flag::FAILED != 0,
            Leaving::ResetOrFin => {
                flags & flag::FAILED != 0 || (flags & flag::PEER_CLOSED != 0 && self.peek() == Peeked::Ended)
            }
        }
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        // Closing the only descriptor of a socket removes it from epoll.
        if self.socket.take().is_some() {
            self.reactor.free_slot(self.slot);
        }
    }
}
