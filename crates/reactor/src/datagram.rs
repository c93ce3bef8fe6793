//! Datagrams: sockets that many clients share, sockets connected to one peer, and batches that one system call receives or
//! sends. A [`Listener`] of datagrams is one of the first kind; [`Reactor::connect_datagrams`] makes one of the second.

use crate::address::to_sockaddr;
use crate::connect::{ConnectOptions, set_options};
use crate::listener::Listener;
use crate::reactor::{Reactor, flag};
use crate::stream::Stream;
use crate::sys_datagram;
use crate::task::TaskId;
use socket2::{Domain, Socket, Type};
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{BorrowedFd, OwnedFd};
use std::rc::Rc;
use terms::PeerAddress;

/// Datagrams of one batch: enough that the call is a small part of the work, few enough that a flood delays the other
/// tasks by microseconds.
pub const BATCH_MAX: usize = 16;

/// Bytes of a slot: no datagram of UDP is larger, but for jumbograms, which are marked as truncated. Pages that no
/// datagram has touched take no memory.
const SLOT_BYTES: usize = 1 << 16;

/// What is known about a received datagram beside its bytes.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Received {
    pub(crate) length: usize,
    pub(crate) truncated: bool,
    pub(crate) from: Option<SocketAddr>,
    pub(crate) local: Option<IpAddr>,
}

/// One received datagram.
#[derive(Debug, Clone, Copy)]
pub struct Datagram<'a> {
    /// Its payload, which may be empty.
    pub bytes: &'a [u8],
    /// Its sender; `None` if that is no address of IP.
    pub from: Option<SocketAddr>,
    /// The address of this machine that it came to, if the socket has several.
    pub local: Option<IpAddr>,
    /// Some of it did not fit.
    pub truncated: bool,
}

/// Room for a batch of datagrams, used again and again.
#[derive(Debug)]
pub struct Datagrams {
    bytes: Vec<u8>,
    received: [Received; BATCH_MAX],
    count: usize,
}

impl Default for Datagrams {
    fn default() -> Self {
        Self { bytes: vec![0; BATCH_MAX * SLOT_BYTES], received: [Received::default(); BATCH_MAX], count: 0 }
    }
}

impl Datagrams {
    /// Number of datagrams in the batch.
    pub fn len(&self) -> usize {
        self.count
    }

    /// Whether the batch has none.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Whether the batch is full: more may wait.
    pub fn is_full(&self) -> bool {
        self.count == BATCH_MAX
    }

    /// The datagrams in the order of their arrival.
    pub fn datagrams(&self) -> impl Iterator<Item = Datagram<'_>> {
        self.received[..self.count].iter().zip(self.bytes.chunks_exact(SLOT_BYTES)).map(|(received, slot)| {
            let Received { length, truncated, from, local } = *received;
            Datagram { bytes: &slot[..length], from, local, truncated }
        })
    }

    /// Receives a batch of at most this many; an empty one if no datagram is there.
    fn receive(&mut self, socket: BorrowedFd<'_>, most: usize) -> io::Result<()> {
        self.count = 0;
        let most = most.min(BATCH_MAX);
        match sys_datagram::recvmmsg(socket, &mut self.bytes[..most * SLOT_BYTES], &mut self.received[..most]) {
            Ok(count) => self.count = count.min(most),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(error) if error.kind() == io::ErrorKind::Interrupted => return self.receive(socket, most),
            Err(error) => return Err(error),
        }
        Ok(())
    }
}

/// What became of datagrams that were to be sent.
#[derive(Debug, Default)]
pub struct Sent {
    /// How many left. Those behind them did not.
    pub count: usize,
    /// Why the next one did not leave, if that is not a full buffer.
    pub error: Option<io::Error>,
}

fn send(socket: BorrowedFd<'_>, datagrams: &[&[u8]], to: Option<SocketAddr>, from: Option<IpAddr>) -> Sent {
    let mut sent = Sent::default();
    while sent.count < datagrams.len() {
        match sys_datagram::sendmmsg(socket, &datagrams[sent.count..], to, from) {
            Ok(0) => break,
            Ok(count) => sent.count += count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => {
                let is_full = error.kind() == io::ErrorKind::WouldBlock || error.raw_os_error() == Some(libc::ENOBUFS);
                sent.error = Some(error).filter(|_| !is_full);
                break;
            }
        }
    }
    sent
}

impl Listener {
    /// Receives a batch of datagrams from any client; an empty one if none is there.
    pub fn receive_datagrams(&self, batch: &mut Datagrams) -> io::Result<()> {
        batch.receive(self.descriptor(), BATCH_MAX)
    }

    /// Sends datagrams to a client, from the address that it had written to.
    pub fn send_datagrams(&self, datagrams: &[&[u8]], to: SocketAddr, from: Option<IpAddr>) -> Sent {
        send(self.descriptor(), datagrams, Some(to), from)
    }
}

impl Stream {
    /// Receives a batch of at most this many datagrams of a connected socket; an empty one if none is there, and then an
    /// event reports the next. An error is what the kernel has learnt of the peer (ICMP); the socket works on.
    pub fn receive_datagrams(&self, batch: &mut Datagrams, most: usize) -> io::Result<()> {
        batch.receive(self.fd(), most)?;
        if batch.len() < most {
            self.clear(flag::READABLE | flag::FAILED);
        }
        Ok(())
    }

    /// Sends datagrams to the peer.
    pub fn send_datagrams(&self, datagrams: &[&[u8]]) -> Sent {
        send(self.fd(), datagrams, None, None)
    }
}

impl Reactor {
    /// Makes a socket for the datagrams of one peer; others cannot send to it.
    pub fn connect_datagrams(
        self: &Rc<Self>,
        to: &PeerAddress,
        options: &ConnectOptions,
        task: TaskId,
    ) -> io::Result<Stream> {
        let address = to_sockaddr(to)?;
        let domain = Domain::from(i32::from(address.family()));
        let socket = Socket::new(domain, Type::DGRAM.nonblocking().cloexec(), None)?;
        if let PeerAddress::Ip(to) = to {
            set_options(&socket, *to, options)?;
        }
        socket.connect(&address)?;
        self.register(OwnedFd::from(socket), task)
    }
}
