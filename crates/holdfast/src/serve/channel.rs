//! The connection between two of our own processes: packets with descriptors over a pair of Unix sockets. The child
//! gets its end as standard input, which needs no unsafe inheriting of descriptor numbers.

use rustix::fs::{MemfdFlags, memfd_create};
use rustix::net::sockopt::{Timeout, set_socket_timeout, socket_peercred};
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, SocketFlags, SocketType, recvmsg, sendmsg, socketpair,
};
use std::fs::File;
use std::io::{self, IoSlice, IoSliceMut, Read as _, Seek as _, Write as _};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

/// Most descriptors in one packet; the kernel allows 253 (`SCM_MAX_FD`).
const DESCRIPTORS_MAX: usize = 128;
/// Bytes of a packet: a kind and a short text. A longer body is sent as a file in memory.
const PACKET_BYTES: usize = 4096;
/// Most bytes of a short text.
pub(super) const TEXT_BYTES_MAX: usize = PACKET_BYTES - 1;
/// Most descriptors of one message, over several packets. A port range of 4,096 ports with the most workers would
/// exceed any process's limit.
const MESSAGE_DESCRIPTORS_MAX: usize = 1 << 20;
/// Most bytes of a body: a configuration and its envelope.
const BODY_BYTES_MAX: u64 = conf::load::TEXT_BYTES_MAX as u64 + (64 << 20);
/// A process that accepts no packet for this long is stuck; the sender gives up.
const SEND_TIMEOUT: Duration = Duration::from_secs(10);

/// How often, and with which pause, a packet is sent again if too many descriptors are in flight: for a second, in which
/// a process that is alive receives what was sent.
const IN_FLIGHT_TRIES: usize = 100;
const IN_FLIGHT_PAUSE: Duration = Duration::from_millis(10);

/// The kind of a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Kind {
    /// Some descriptors of the message that follows.
    Descriptors = b'd',
    /// To the child: apply this configuration.
    Configure = b'c',
    /// To the child: prepare this configuration, and keep the present one.
    Prepare = b'P',
    /// To the child: apply the configuration that you have prepared.
    Apply = b'A',
    /// To the child: forget it.
    Withdraw = b'W',
    /// To the child: these files of certificates have changed.
    Certificates = b'k',
    /// To the child: write to these logs from now on.
    Reopen = b'o',
    /// To the child: finish open requests, and end.
    Drain = b'q',
    /// To the child: end now.
    Stop = b's',
    /// To a child whose master has died: send your sockets, and take orders from me.
    Adopt = b'a',
    /// From such a child: the sockets.
    Heritage = b'h',
    /// To the child, or to the other program's master for its child: take over tunnels that come over this socket.
    TakeTunnels = b'i',
    /// To the child: hand your tunnels over through this socket.
    GiveTunnels = b'g',
    /// Between two such processes, from the one that takes over: the versions of the format that it knows.
    Hello = b'v',
    /// From the other one: idle connections to upstreams. They need no answer.
    Idle = b'I',
    /// From the other one: tunnels.
    Tunnels = b'm',
    /// The answer: which of them it holds.
    Held = b'M',
    /// The end of the exchange: they belong to the process that holds them.
    Commit = b'e',
    /// To the child: send your counts for the service manager. From the child: they are the text.
    Counts = b'z',
    /// To the child: the figures of the other processes.
    Figures = b'f',
    /// To the child: a request of `holdfast ctl`.
    Ctl = b't',
    /// From the child: the answer to it.
    CtlAnswer = b'T',
    /// From the child: it serves.
    Ready = b'r',
    /// From the child: it refuses, with the reason as text.
    Refused = b'n',
}

const KINDS: [Kind; 24] = [
    Kind::Descriptors,
    Kind::Configure,
    Kind::Prepare,
    Kind::Apply,
    Kind::Withdraw,
    Kind::Certificates,
    Kind::Reopen,
    Kind::Drain,
    Kind::Stop,
    Kind::Adopt,
    Kind::Heritage,
    Kind::TakeTunnels,
    Kind::GiveTunnels,
    Kind::Hello,
    Kind::Idle,
    Kind::Tunnels,
    Kind::Held,
    Kind::Commit,
    Kind::Counts,
    Kind::Figures,
    Kind::Ctl,
    Kind::CtlAnswer,
    Kind::Ready,
    Kind::Refused,
];

/// A message: its kind, a short text or a long body, descriptors.
#[derive(Debug)]
pub(super) struct Packet {
    pub(super) kind: Kind,
    pub(super) text: Vec<u8>,
    /// The body and the descriptors of the message, in order.
    pub(super) descriptors: Vec<OwnedFd>,
}

/// One end of the connection.
#[derive(Debug)]
pub(super) struct Channel {
    socket: OwnedFd,
    /// Descriptors of a message that is not complete yet.
    gathered: Vec<OwnedFd>,
}

impl Channel {
    /// Both ends; the second is for a process about to be started.
    pub(super) fn pair() -> io::Result<(Self, OwnedFd)> {
        let (here, there) = Self::ends()?;
        Ok((Self::over(here)?, there))
    }

    /// Both ends, for two other processes.
    pub(super) fn ends() -> io::Result<(OwnedFd, OwnedFd)> {
        Ok(socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)?)
    }

    /// The end that this process got as standard input.
    pub(super) fn from_stdin() -> io::Result<Self> {
        Self::over(io::stdin().as_fd().try_clone_to_owned()?)
    }

    /// An end from a socket for packets.
    pub(super) fn over(socket: OwnedFd) -> io::Result<Self> {
        set_socket_timeout(&socket, Timeout::Send, Some(SEND_TIMEOUT))?;
        Ok(Self { socket, gathered: Vec::new() })
    }

    /// A duplicate of this end, so that another thread can send.
    pub(super) fn try_clone(&self) -> io::Result<Self> {
        Ok(Self { socket: self.socket.try_clone()?, gathered: Vec::new() })
    }

    /// The user of the process at the other end.
    pub(super) fn peer_user(&self) -> io::Result<u32> {
        Ok(socket_peercred(&self.socket)?.uid.as_raw())
    }

    /// Sends a message without a body.
    pub(super) fn send(&self, kind: Kind, text: &str) -> io::Result<()> {
        let text = text.as_bytes();
        self.send_packet(kind, &text[..text.len().min(TEXT_BYTES_MAX)], &[])
    }

    /// Sends a message that consists of a descriptor.
    pub(super) fn send_with(&self, kind: Kind, descriptor: BorrowedFd<'_>) -> io::Result<()> {
        self.send_packet(kind, &[], &[descriptor])
    }

    /// Sends a message with a body and descriptors.
    pub(super) fn send_body(&self, kind: Kind, body: &[u8], descriptors: &[BorrowedFd<'_>]) -> io::Result<()> {
        for some in descriptors.chunks(DESCRIPTORS_MAX) {
            self.send_packet(Kind::Descriptors, &[], some)?;
        }
        let mut file = File::from(memfd_create(c"message", MemfdFlags::CLOEXEC)?);
        file.write_all(body)?;
        file.rewind()?;
        self.send_packet(kind, &[], &[file.as_fd()])
    }

    /// Descriptors in flight count against the limit of the user: if that is reached, it waits until others were received.
    fn send_packet(&self, kind: Kind, text: &[u8], descriptors: &[BorrowedFd<'_>]) -> io::Result<()> {
        for _ in 0..IN_FLIGHT_TRIES {
            match self.send_packet_once(kind, text, descriptors) {
                Err(error) if error.raw_os_error() == Some(nix::errno::Errno::ETOOMANYREFS as i32) => {
                    std::thread::park_timeout(IN_FLIGHT_PAUSE);
                }
                other => return other,
            }
        }
        self.send_packet_once(kind, text, descriptors)
    }

    fn send_packet_once(&self, kind: Kind, text: &[u8], descriptors: &[BorrowedFd<'_>]) -> io::Result<()> {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(DESCRIPTORS_MAX))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        if !descriptors.is_empty() && !control.push(SendAncillaryMessage::ScmRights(descriptors)) {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        let kind = [kind as u8];
        let parts = [IoSlice::new(&kind), IoSlice::new(text)];
        Ok(sendmsg(&self.socket, &parts, &mut control, SendFlags::NOSIGNAL).map(drop)?)
    }

    /// Receives the next message without waiting: `WouldBlock` if there is none, `UnexpectedEof` if the other end is
    /// closed.
    pub(super) fn receive(&mut self) -> io::Result<Packet> {
        loop {
            let packet = self.receive_packet(RecvFlags::DONTWAIT)?;
            if packet.kind != Kind::Descriptors {
                let mut descriptors = std::mem::take(&mut self.gathered);
                descriptors.extend(packet.descriptors);
                return Ok(Packet { descriptors, ..packet });
            }
            self.gathered.extend(packet.descriptors);
            if self.gathered.len() > MESSAGE_DESCRIPTORS_MAX {
                return Err(io::ErrorKind::InvalidData.into());
            }
        }
    }

    /// Waits for one packet, in a process that has nothing else to do.
    pub(super) fn wait(&mut self) -> io::Result<Packet> {
        self.receive_packet(RecvFlags::empty())
    }

    fn receive_packet(&self, flags: RecvFlags) -> io::Result<Packet> {
        let mut bytes = [0; PACKET_BYTES];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(DESCRIPTORS_MAX))];
        let mut control = RecvAncillaryBuffer::new(&mut space);
        let mut parts = [IoSliceMut::new(&mut bytes)];
        let received = recvmsg(&self.socket, &mut parts, &mut control, flags | RecvFlags::CMSG_CLOEXEC)?;
        let mut descriptors = Vec::new();
        for message in control.drain() {
            if let RecvAncillaryMessage::ScmRights(some) = message {
                descriptors.extend(some);
            }
        }
        if received.flags.intersects(ReturnFlags::TRUNC | ReturnFlags::CTRUNC) {
            // The kernel could not install all descriptors: the limit of this process is too low.
            return Err(io::ErrorKind::InvalidData.into());
        }
        let Some((first, text)) = bytes.get(..received.bytes).and_then(|bytes| bytes.split_first()) else {
            return Err(io::ErrorKind::UnexpectedEof.into());
        };
        let kind = KINDS.into_iter().find(|kind| *kind as u8 == *first);
        let kind = kind.ok_or_else(|| io::Error::from(io::ErrorKind::InvalidData))?;
        Ok(Packet { kind, text: text.to_vec(), descriptors })
    }

    /// Readable when a message has arrived or the other end is closed.
    pub(super) fn descriptor(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

impl Packet {
    /// Takes the body out: it is the last descriptor.
    pub(super) fn take_body(&mut self) -> io::Result<Vec<u8>> {
        let body = self.descriptors.pop().ok_or_else(|| io::Error::from(io::ErrorKind::InvalidData))?;
        let mut bytes = Vec::new();
        File::from(body).take(BODY_BYTES_MAX).read_to_end(&mut bytes)?;
        Ok(bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_arrives_whole_with_all_its_descriptors() {
        let (here, there) = Channel::pair().expect("a pair");
        let mut there = Channel::over(there).expect("a socket");
        let file = File::open("/dev/null").expect("it is there");
        let many = vec![file.as_fd(); DESCRIPTORS_MAX + 7];
        here.send_body(Kind::Configure, &vec![7; 300_000], &many).expect("sent");
        here.send(Kind::Refused, "no").expect("sent");
        let mut first = there.receive().expect("it is there");
        assert_eq!(first.take_body().expect("a body").len(), 300_000);
        assert_eq!((first.kind, first.descriptors.len()), (Kind::Configure, many.len()));
        let second = there.receive().expect("it is there");
        assert_eq!((second.kind, second.text.as_slice()), (Kind::Refused, &b"no"[..]));
        let nothing = there.receive().expect_err("nothing more");
        assert_eq!(nothing.kind(), io::ErrorKind::WouldBlock);
        drop(here);
        assert_eq!(there.receive().expect_err("the end").kind(), io::ErrorKind::UnexpectedEof);
    }
}
