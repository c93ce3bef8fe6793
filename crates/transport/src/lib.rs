//! A connected socket that carries bytes in clear or under TLS. [`Transport`] has the interface of [`reactor::Stream`] for both, so
//! code that speaks HTTP over it need not know which. `tls` has the protocol, `reactor` the socket.
//!
//! A connection under TLS begins with [`Transport::handshake`], which its owner calls at each wake until it is complete. Errors of
//! TLS are [`std::io::Error`]s with a [`tls::TlsError`] inside, which [`tls_error`] takes out.

mod secure;

use reactor::{Interest, Leaving, Parked, ParkedId, Peeked, Progress, Reactor, Read, Stream, TaskId, Waited};
use secure::Secure;
use std::cell::RefCell;
use std::io::{self, IoSlice};
use std::net::SocketAddr;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::rc::Rc;
use tls::{Pairs, Session, TlsError};

/// How far a handshake is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HandshakeProgress {
    /// Data can be sent and read.
    Done,
    /// It waits for the peer, for room in the socket, or for certificates.
    Waiting,
}

/// A connected socket, with or without TLS. Dropping it closes the socket; under TLS `close_notify` goes first, if there is room
/// for it.
#[derive(Debug)]
pub struct Transport {
    stream: Stream,
    secure: Option<Box<RefCell<Secure>>>,
}

impl Transport {
    /// Bytes in clear.
    pub fn plain(stream: Stream) -> Self {
        Self { stream, secure: None }
    }

    /// Bytes under TLS; the handshake has not begun.
    pub fn secure(stream: Stream, session: Session) -> Self {
        Self::secure_after(stream, session, Vec::new())
    }

    /// Bytes under TLS, of which these were read from the socket already: behind a head of the PROXY protocol, for example. They go to
    /// the session with the first call of [`Self::handshake`], which must not wait for an event.
    pub fn secure_after(stream: Stream, session: Session, received: Vec<u8>) -> Self {
        Self { stream, secure: Some(Box::new(RefCell::new(Secure::new(session, received)))) }
    }

    /// The same connection with TLS from here on: its owner finds that the peer speaks TLS. `received` is what was read of that
    /// already, as in [`Self::secure_after`]. The connection must be in clear.
    pub fn into_secure(mut self, session: Session, received: Vec<u8>) -> Self {
        self.begin_secure(session, received);
        self
    }

    /// The same for a connection that stays where it is.
    pub fn begin_secure(&mut self, session: Session, received: Vec<u8>) {
        debug_assert!(self.secure.is_none(), "TLS inside TLS");
        self.secure = Some(Box::new(RefCell::new(Secure::new(session, received))));
    }

    /// The socket itself.
    pub fn stream(&self) -> &Stream {
        &self.stream
    }

    /// Whether TLS is spoken.
    pub fn is_secure(&self) -> bool {
        self.secure.is_some()
    }

    /// Looks at the session of TLS, if there is one.
    pub fn session<R>(&self, look: impl FnOnce(&Session) -> R) -> Option<R> {
        self.secure.as_ref().map(|secure| look(&secure.borrow().session))
    }

    /// The same, for what changes it.
    pub fn session_mut<R>(&self, change: impl FnOnce(&mut Session) -> R) -> Option<R> {
        self.secure.as_ref().map(|secure| change(&mut secure.borrow_mut().session))
    }

    /// User memory that TLS holds for this connection at this moment, for an account of memory; 0 in clear. During the handshake and
    /// afterwards it is about what is measured, with the exact size of what is buffered.
    pub fn held_bytes(&self) -> usize {
        self.secure.as_ref().map_or(0, |secure| size_of::<RefCell<Secure>>() + secure.borrow().held_bytes())
    }

    /// Goes on with the handshake, as far as the socket lets it, and with what is left to send of it. A socket in clear is ready at once.
    pub fn handshake(&self) -> io::Result<HandshakeProgress> {
        match &self.secure {
            Some(secure) => secure.borrow_mut().handshake(self.stream()),
            None => Ok(HandshakeProgress::Done),
        }
    }

    /// While a client's handshake is incomplete, shows the early data that it sent along. If the closure says so, that is read and
    /// answered from now on; an attacker may have copied it from a connection of the client. What else comes before the end of the
    /// handshake waits for it, and reads go on with the handshake. `false` where early data cannot be answered.
    pub fn answer_early_data(&self, look: impl FnOnce(&[u8]) -> bool) -> bool {
        self.secure.as_ref().is_some_and(|secure| secure.borrow_mut().answer_early_data(look))
    }

    /// The certificates that the handshake has waited for ([`Session::awaits_certificate`]). [`Self::handshake`] goes on with them, and
    /// must not wait for an event.
    pub fn show_certificates(&self, pairs: Pairs) -> io::Result<()> {
        self.secure.as_ref().map_or(Ok(()), |secure| secure.borrow_mut().show(pairs))
    }

    /// The certificates are not available: the peer gets an alert that the handshake has failed.
    pub fn refuse_certificates(&self) {
        if let Some(secure) = &self.secure {
            secure.borrow_mut().refuse(self.stream());
        }
    }

    /// Whether a read may give something (data, end of stream or an error).
    pub fn is_readable(&self) -> bool {
        self.stream().is_readable() || self.secure.as_ref().is_some_and(|secure| secure.borrow().is_readable())
    }

    /// Whether a write has not been refused since the last sign of room.
    pub fn is_writable(&self) -> bool {
        self.stream().is_writable()
    }

    /// Whether the peer sends nothing more: it has closed the connection, or said so under TLS. Data before may still be unread.
    pub fn is_peer_closed(&self) -> bool {
        self.stream().is_peer_closed()
            || self.secure.as_ref().is_some_and(|secure| secure.borrow().session.is_peer_closed())
    }

    /// Whether the connection is broken: reset, or an error.
    pub fn is_failed(&self) -> bool {
        self.stream().is_failed()
    }

    /// Whether the peer has closed under TLS without `close_notify`: anything may be missing of what it sent.
    pub fn is_truncated(&self) -> bool {
        self.secure.as_ref().is_some_and(|secure| secure.borrow().is_truncated())
    }

    /// Reads up to `max` bytes from the socket and hands what they carry to the closure, as [`Stream::read_with`] does.
    pub fn read_with<R>(&self, max: usize, look: impl FnOnce(&[u8]) -> R) -> io::Result<Read<R>> {
        match &self.secure {
            Some(secure) => Secure::read_with(secure, self.stream(), max, look),
            None => self.stream().read_with(max, look),
        }
    }

    /// Writes the parts in order as far as the socket takes them, and returns the number of bytes, as [`Stream::write`] does. What
    /// is not counted as written must come first in the next call, unchanged: a part of it may be under way in a record.
    pub fn write(&self, parts: &[IoSlice<'_>], more: bool) -> io::Result<usize> {
        match &self.secure {
            Some(secure) => secure.borrow_mut().write(self.stream(), parts, more),
            None => self.stream().write(parts, more),
        }
    }

    /// Sends bytes of a file from this offset on, and moves the offset by those that were taken. In clear it is `sendfile(2)`; under
    /// TLS they are read and sealed, a batch of records at once. 0: there is no room, or the file has ended.
    pub fn write_file(&self, file: BorrowedFd<'_>, offset: &mut i64, count: usize) -> io::Result<usize> {
        match &self.secure {
            Some(secure) => secure.borrow_mut().write_file(self.stream(), file, offset, count),
            None => self.stream().write_file(file, offset, count),
        }
    }

    /// From now on this task is woken by the socket's events.
    pub fn attach(&self, task: TaskId) {
        self.stream().attach(task);
    }

    /// The local address, where it has one.
    pub fn local_address(&self) -> io::Result<Option<SocketAddr>> {
        self.stream().local_address()
    }

    /// The address of the other end, where it has one.
    pub fn peer_address(&self) -> io::Result<Option<SocketAddr>> {
        self.stream().peer_address()
    }

    /// What the kernel knows of TCP's progress.
    pub fn progress(&self) -> Option<Progress> {
        self.stream().progress()
    }

    /// Whether closing it now leaves the port in TIME_WAIT.
    pub fn leaves_time_wait(&self) -> bool {
        self.stream().leaves_time_wait()
    }

    /// Whether something of TLS waits for room in the socket: the handshake goes on when there is some.
    pub fn has_unsent(&self) -> bool {
        self.secure.as_ref().is_some_and(|secure| secure.borrow().has_unsent())
    }

    /// Takes it away from its task, with what TLS keeps for it.
    pub fn park(mut self) -> ParkedTransport {
        ParkedTransport { secure: self.secure.take(), parked: self.stream.park() }
    }

    /// Sends `close_notify` under TLS, and FIN: no more writes; reads go on.
    pub fn shutdown_write(&self) -> io::Result<()> {
        if let Some(secure) = &self.secure {
            secure.borrow_mut().send_close_notify(self.stream());
        }
        self.stream().shutdown_write()
    }

    /// Lets go of a socket in clear, and leaves the connection as it is: another process continues it.
    pub fn release(mut self) {
        debug_assert!(self.secure.is_none(), "another process has no keys");
        self.stream.release();
    }

    /// The error that a failed `connect` or a reset left, if any; asking takes it.
    pub fn take_error(&self) -> io::Result<Option<io::Error>> {
        self.stream().take_error()
    }

    /// Asks the kernel what has arrived. One system call.
    pub fn peek(&self) -> Peeked {
        self.stream().peek()
    }

    /// Closes with RST, and without `close_notify`.
    pub fn reset(mut self) {
        self.secure = None;
        self.stream.reset_when_dropped();
    }
}

/// A transport that no task owns: an idle connection of a pool. Any thread may take it.
#[derive(Debug)]
pub struct ParkedTransport {
    parked: Parked,
    secure: Option<Box<RefCell<Secure>>>,
}

impl ParkedTransport {
    /// Under which number the reactor knows it.
    pub fn id(&self) -> ParkedId {
        self.parked.id()
    }

    /// Asks the kernel what has arrived. One system call.
    pub fn peek(&self) -> Peeked {
        self.parked.peek()
    }

    /// What has arrived for its owner. Under TLS it is read: tickets and new keys are taken in, and are nothing; `close_notify` is an
    /// end. `reactor` is this thread's. One system call in clear; under TLS two for a ticket.
    pub fn look(&self, reactor: &Reactor) -> Peeked {
        match &self.secure {
            Some(secure) => secure.borrow_mut().look(&self.parked, reactor),
            None => self.parked.peek(),
        }
    }

    /// Whether closing it now leaves the port in TIME_WAIT.
    pub fn leaves_time_wait(&self) -> bool {
        self.parked.leaves_time_wait()
    }

    /// The socket, for another process; `None` under TLS, because the keys stay in this process.
    pub fn into_plain(self) -> Option<OwnedFd> {
        if self.secure.is_some() {
            return None;
        }
        self.parked.into_socket().ok()
    }

    /// Gives it to a task of this reactor.
    pub fn unpark(self, reactor: &Rc<Reactor>, task: TaskId) -> io::Result<Transport> {
        let stream = self.parked.unpark(reactor, task)?;
        Ok(Transport { stream, secure: self.secure })
    }
}

impl Waited for Transport {
    fn is_ready(&self, interest: Interest) -> bool {
        self.stream().is_ready(interest)
            || (interest.includes(Interest::READ)
                && self.secure.as_ref().is_some_and(|secure| secure.borrow().is_readable()))
    }

    /// Under TLS it reads what the peer sent before its FIN, and keeps the plaintext for the next read.
    fn has_left(&self, leaving: Leaving) -> bool {
        match &self.secure {
            Some(secure) => secure.borrow_mut().has_left(self.stream(), leaving),
            None => self.stream().has_left(leaving),
        }
    }
}

impl Drop for Transport {
    fn drop(&mut self) {
        if let Some(secure) = &self.secure
            && !self.stream.is_failed()
        {
            secure.borrow_mut().send_close_notify(&self.stream);
        }
    }
}

/// The TLS error inside an I/O error, if there is one.
pub fn tls_error(error: &io::Error) -> Option<&TlsError> {
    error.get_ref()?.downcast_ref()
}
