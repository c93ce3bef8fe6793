//! Every socket once: asks the kernel over netlink, or reads `/proc/net/tcp{,6}` where there is no netlink, and hands each
//! socket to a closure. Keeps none. The formats are in `netlink` and `proc_net`; called by `watch` and the doctor.

use crate::dump::Dump;
use crate::netlink::{self, AF_INET, AF_INET6, DumpRequest, REPLY_BYTES};
use crate::{Error, Filter, Owners, Socket, StateSet, proc_net};
use rustix::net::sockopt::{Timeout, set_socket_timeout};
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, bind, netlink as netlink_address, recv, send,
    socket_with,
};
use std::fmt;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

/// A question to the kernel.
#[derive(Debug, Clone, Copy)]
pub struct Question<'a> {
    /// Sockets in these states.
    pub states: StateSet,
    /// Sockets that match this filter; the kernel applies as much of it as it can.
    pub filter: Option<&'a Filter>,
    /// Which process holds which socket, for a filter that names a process.
    pub owners: Option<&'a Owners>,
    /// With [`Socket::tcp`].
    pub tcp_info: bool,
    /// With [`Socket::memory`].
    pub memory: bool,
    /// Sockets of these families.
    pub families: Families,
}

/// Which sockets, by the family that they were created with. For each family the kernel walks its whole table, even if few sockets match:
/// some milliseconds for a table with 262,144 chains. An IPv4 connection of an IPv6 socket is in the IPv6 family.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Families {
    /// Both.
    #[default]
    Both,
    /// `AF_INET` alone.
    V4,
    /// `AF_INET6` alone.
    V6,
}

impl Families {
    fn numbers(self) -> &'static [u8] {
        match self {
            Self::Both => &[AF_INET, AF_INET6],
            Self::V4 => &[AF_INET],
            Self::V6 => &[AF_INET6],
        }
    }
}

impl Default for Question<'_> {
    /// Every socket, with all that is known of it.
    fn default() -> Self {
        Self {
            states: StateSet::ALL,
            filter: None,
            owners: None,
            tcp_info: true,
            memory: true,
            families: Families::Both,
        }
    }
}

/// Where sockets are learned from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Source {
    /// sock_diag over netlink: everything.
    Netlink,
    /// `/proc/net/tcp{,6}`: no `TCP_INFO`, no memory, no cookies, no control groups, no granted backlogs, and several times
    /// the cost. With the reason why there is no netlink.
    Proc(String),
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Netlink => write!(f, "sock_diag over netlink"),
            Self::Proc(reason) => write!(f, "/proc/net/tcp, without details, since {reason}"),
        }
    }
}

/// How a census went.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Summary {
    /// Sockets handed over.
    pub sockets: u64,
    /// Sockets that the kernel reported with a family or state that is not known here.
    pub unknown: u64,
    /// Sockets that the kernel reported again, because other sockets were added to their chain of its table meanwhile; they were handed
    /// over once. Known only over netlink: `/proc` has no number that identifies a socket.
    pub retold: u64,
    /// Whether the kernel marked the last attempt's dump as interrupted by changes: some sockets may have been reported twice or not at
    /// all.
    pub interrupted: bool,
    /// Dumps that were needed.
    pub attempts: u32,
}

/// Asks for sockets. It belongs to the network namespace of the thread that opened it, also when another thread uses it later.
#[derive(Debug)]
pub struct Census {
    source: Source,
    /// None before the first question, and after one that was not answered to its end.
    socket: Option<OwnedFd>,
    buffer: Vec<u8>,
    sequence: u32,
    proc_files: proc_net::Files,
}

/// The kernel answers from memory: seconds for millions of sockets. A longer wait would bring nothing.
const SILENCE_MAX: Duration = Duration::from_secs(10);
/// A dump of ten million sockets takes some ten seconds; one that sockets are added to faster than it proceeds never ends.
const DUMP_TIME_MAX: Duration = Duration::from_mins(2);
/// How often a dump that was interrupted by changes is tried again.
const ATTEMPTS_MAX: u32 = 3;

impl Census {
    /// Netlink if it answers, otherwise `/proc`.
    pub fn open() -> Result<Self, Error> {
        let mut census = Self::new(Source::Netlink);
        // A question about states that nothing is in: whether it is answered is what matters.
        let probe = Question { states: StateSet::NONE, tcp_info: false, memory: false, ..Question::default() };
        match census.for_each(&probe, |_| {}) {
            Ok(_) => Ok(census),
            Err(error) => Self::open_proc(error.to_string()),
        }
    }

    /// `/proc`, for the reason given.
    pub fn open_proc(reason: String) -> Result<Self, Error> {
        let mut census = Self::new(Source::Proc(reason));
        census.proc_files = proc_net::Files::open()?;
        Ok(census)
    }

    fn new(source: Source) -> Self {
        Self { source, socket: None, buffer: vec![0; REPLY_BYTES], sequence: 0, proc_files: proc_net::Files::default() }
    }

    /// Where the sockets come from.
    pub fn source(&self) -> &Source {
        &self.source
    }

    /// Visits each socket at most once, in no order; from `/proc` those of all families. The kernel walks its table while sockets come and go, so one that comes or
    /// goes meanwhile may be visited. One that is there all the time is, but for this: the kernel keeps its place between two of
    /// our reads as a number within a chain of the table, so when a socket of that very chain goes in between, its neighbour is
    /// passed over, and nothing says so. A table as kernels make it has more chains than sockets; then that takes a close within the
    /// microseconds between two reads, in the one chain of some hundred thousand that the walk is in.
    pub fn for_each(&mut self, question: &Question<'_>, visit: impl FnMut(&Socket)) -> Result<Summary, Error> {
        let mut visitor = Visitor { question, visit, summary: Summary { attempts: 1, ..Summary::default() } };
        if self.source == Source::Netlink {
            for family in question.families.numbers() {
                self.dump(*family, &mut visitor)?;
            }
        } else {
            self.proc_files.for_each(|socket| visitor.take_any_state(socket))?;
        }
        Ok(visitor.summary)
    }

    /// The same with something to collect into, which is begun anew if the kernel says that the dump was interrupted.
    pub fn collect<T>(
        &mut self,
        question: &Question<'_>,
        mut begin: impl FnMut() -> T,
        mut visit: impl FnMut(&mut T, &Socket),
    ) -> Result<(T, Summary), Error> {
        let mut attempts = 0;
        loop {
            attempts += 1;
            let mut collected = begin();
            let summary = self.for_each(question, |socket| visit(&mut collected, socket))?;
            if !summary.interrupted || attempts >= ATTEMPTS_MAX {
                return Ok((collected, Summary { attempts, ..summary }));
            }
        }
    }

    fn dump<V: FnMut(&Socket)>(&mut self, family: u8, visitor: &mut Visitor<'_, '_, V>) -> Result<(), Error> {
        // Until it is answered to its end, this socket may have replies under way that belong to no later question.
        let socket = match self.socket.take() {
            Some(socket) => socket,
            None => open_socket()?,
        };
        self.sequence = self.sequence.wrapping_add(1);
        let question = visitor.question;
        let states = question.filter.map_or(StateSet::ALL, Filter::states).intersection(question.states);
        let bytecode = question.filter.map(Filter::encode).unwrap_or_default();
        let request = netlink::encode_dump(DumpRequest {
            family,
            states,
            tcp_info: question.tcp_info,
            memory: question.memory,
            bytecode: &bytecode,
            sequence: self.sequence,
        });
        send(&socket, &request, SendFlags::empty()).map_err(Error::system("asking over netlink"))?;
        let begun = Instant::now();
        let mut dump = Dump::new(self.sequence);
        while !dump.complete {
            if begun.elapsed() > DUMP_TIME_MAX {
                return Err(Error::TooSlow(DUMP_TIME_MAX));
            }
            let length = match recv(&socket, &mut self.buffer[..], RecvFlags::TRUNC) {
                Ok((_, 0)) => return Err(Error::Malformed("a read came back empty")),
                Ok((_, length)) => length,
                Err(rustix::io::Errno::INTR) => continue,
                Err(rustix::io::Errno::AGAIN) => return Err(Error::TooSlow(SILENCE_MAX)),
                Err(error) => return Err(Error::system("reading from netlink")(error)),
            };
            let bytes = self.buffer.get(..length).ok_or(Error::CutOff(length))?;
            dump.take(bytes, |socket| visitor.take(socket))?;
        }
        visitor.summary.interrupted |= dump.interrupted;
        visitor.summary.unknown += dump.unknown;
        visitor.summary.retold += dump.retold;
        self.socket = Some(socket);
        Ok(())
    }
}

/// Applies what the kernel could not, and counts.
struct Visitor<'q, 'a, V> {
    question: &'q Question<'a>,
    visit: V,
    summary: Summary,
}

impl<V: FnMut(&Socket)> Visitor<'_, '_, V> {
    fn take(&mut self, socket: &Socket) {
        if let Some(filter) = self.question.filter {
            let owner = self.question.owners.and_then(|owners| owners.of(socket.inode));
            if !filter.matches(socket, owner) {
                return;
            }
        }
        self.summary.sockets += 1;
        (self.visit)(socket);
    }

    /// From `/proc`, which tells of all states.
    fn take_any_state(&mut self, socket: &Socket) {
        if self.question.states.contains(socket.state) {
            self.take(socket);
        }
    }
}

/// A netlink socket of this thread's network namespace, bound by the kernel.
fn open_socket() -> Result<OwnedFd, Error> {
    let socket =
        socket_with(AddressFamily::NETLINK, SocketType::RAW, SocketFlags::CLOEXEC, Some(netlink_address::SOCK_DIAG))
            .map_err(Error::system("opening a netlink socket"))?;
    bind(&socket, &netlink_address::SocketAddrNetlink::new(0, 0)).map_err(Error::system("binding a netlink socket"))?;
    set_socket_timeout(&socket, Timeout::Recv, Some(SILENCE_MAX))
        .map_err(Error::system("limiting the wait for netlink"))?;
    Ok(socket)
}

#[cfg(test)]
#[path = "census_tests.rs"]
mod tests;
