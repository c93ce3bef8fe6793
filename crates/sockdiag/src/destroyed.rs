//! Sockets that die, as the kernel reports them (`SKNLGRP_INET_TCP_DESTROY` and its IPv6 counterpart). This is the only way
//! to see sockets that live shorter than the time between two censuses. It needs no privilege. Each overflow of the kernel's
//! queue is counted.
//!
//! A socket that this side closed first dies when TIME_WAIT takes its place; the end of TIME_WAIT itself is not reported. So
//! an event says that a connection ended, and its `TCP_INFO` says how far it came. It does not say which side closed first.

use crate::netlink::{REPLY_BYTES, Reply, parse_replies};
use crate::{Error, Socket};
use rustix::net::sockopt::{set_socket_recv_buffer_size, set_socket_recv_buffer_size_force};
use rustix::net::{
    AddressFamily, RecvFlags, SocketFlags, SocketType, bind, netlink as netlink_address, recv, socket_with,
};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// `SKNLGRP_INET_TCP_DESTROY` (1) and `SKNLGRP_INET6_TCP_DESTROY` (3) as bits.
const GROUPS: u32 = 1 << 0 | 1 << 2;

/// An event takes about 1.2 KB of the kernel's queue, so this holds some 13,000: two tenths of a second at 60,000 closes a
/// second. Without privileges the kernel grants `net.core.rmem_max` instead.
const QUEUE_BYTES: usize = 16 * 1024 * 1024;

/// Reads that one call makes at most, so that a flood of events cannot keep it.
const READS_MAX: u32 = 65_536;

/// A dead socket. Its state is usually CLOSE; the state before that is only in the last census.
pub type Destroyed = Socket;

/// What one call of [`DestroyEvents::drain`] found.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Drained {
    /// Events handed over.
    pub events: u64,
    /// How often the kernel reported that its queue was full (`ENOBUFS`). Each time an unknown number of events is lost.
    pub overruns: u32,
    /// Whether more may be waiting.
    pub more: bool,
}

/// Listens for dying TCP sockets of the network namespace of the thread that opened it.
#[derive(Debug)]
pub struct DestroyEvents {
    socket: OwnedFd,
    buffer: Vec<u8>,
}

impl DestroyEvents {
    /// Listens from now on.
    pub fn open() -> Result<Self, Error> {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let socket = socket_with(AddressFamily::NETLINK, SocketType::RAW, flags, Some(netlink_address::SOCK_DIAG))
            .map_err(Error::system("opening a netlink socket"))?;
        set_socket_recv_buffer_size_force(&socket, QUEUE_BYTES)
            .or_else(|_| set_socket_recv_buffer_size(&socket, QUEUE_BYTES))
            .map_err(Error::system("enlarging a netlink socket's queue"))?;
        bind(&socket, &netlink_address::SocketAddrNetlink::new(0, GROUPS))
            .map_err(Error::system("subscribing to dying sockets"))?;
        Ok(Self { socket, buffer: vec![0; REPLY_BYTES] })
    }

    /// Hands over the events that wait, and does not block.
    pub fn drain(&mut self, mut visit: impl FnMut(&Destroyed)) -> Result<Drained, Error> {
        let mut drained = Drained::default();
        for _ in 0..READS_MAX {
            let length = match recv(&self.socket, &mut self.buffer[..], RecvFlags::TRUNC) {
                Ok((_, length)) => length,
                Err(rustix::io::Errno::AGAIN) => return Ok(drained),
                Err(rustix::io::Errno::INTR) => continue,
                Err(rustix::io::Errno::NOBUFS) => {
                    drained.overruns += 1;
                    continue;
                }
                Err(error) => return Err(Error::system("reading from netlink")(error)),
            };
            let bytes = self.buffer.get(..length).ok_or(Error::CutOff(length))?;
            parse_replies(bytes, None, |reply, _| {
                if let Reply::Socket(socket) = reply {
                    drained.events += 1;
                    visit(&socket);
                }
            })?;
        }
        drained.more = true;
        Ok(drained)
    }
}

impl AsFd for DestroyEvents {
    /// Readable while an event waits.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}
