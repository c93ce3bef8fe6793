//! Listening sockets with an explicit backlog, compared with what the kernel granted; and sockets of datagrams, which are
//! bound and opened alike, and do not accept.

use crate::address::to_sockaddr;
use crate::sys;
use socket2::{Domain, SockAddr, Socket, Type};
use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::PathBuf;
use std::time::Duration;
use terms::PeerAddress;

/// Parameters of `listen`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListenOptions {
    /// Accept queue asked for, in connections.
    pub backlog: u32,
    /// `SO_REUSEPORT`: several sockets on one address, the kernel spreads connections over them.
    pub reuseport: bool,
    /// `IPV6_V6ONLY`.
    pub ipv6_only: bool,
    /// `SO_RCVBUF` in bytes.
    pub receive_buffer_bytes: Option<usize>,
    /// `SO_SNDBUF` in bytes.
    pub send_buffer_bytes: Option<usize>,
    /// `TCP_FASTOPEN` queue length.
    pub fastopen: Option<u32>,
    /// `TCP_DEFER_ACCEPT`: wake only when data has arrived.
    pub deferred: bool,
    /// `SO_KEEPALIVE` of accepted connections.
    pub so_keepalive: Option<SoKeepalive>,
    /// `udp`: a socket for datagrams.
    pub datagrams: bool,
}

/// `so_keepalive=` of `listen`; `None` leaves the kernel's value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SoKeepalive {
    /// On or off.
    pub on: bool,
    /// `TCP_KEEPIDLE`.
    pub idle: Option<Duration>,
    /// `TCP_KEEPINTVL`.
    pub interval: Option<Duration>,
    /// `TCP_KEEPCNT`.
    pub probes: Option<u32>,
}

impl Default for ListenOptions {
    fn default() -> Self {
        Self {
            backlog: 511, // nginx's default on Linux
            reuseport: false,
            ipv6_only: true,
            receive_buffer_bytes: None,
            send_buffer_bytes: None,
            fastopen: None,
            deferred: false,
            so_keepalive: None,
            datagrams: false,
        }
    }
}

/// A listening socket.
#[derive(Debug)]
pub struct Listener {
    socket: Socket,
    datagrams: bool,
}

/// One accepted connection: the socket and the client's address.
#[derive(Debug)]
pub struct Accepted {
    /// Non-blocking, close-on-exec.
    pub socket: OwnedFd,
    /// The client; a Unix client that is not bound has an empty path.
    pub from: PeerAddress,
}

impl Accepted {
    /// A connected socket that another process accepted. An error: the client has left.
    pub fn of_other_process(socket: OwnedFd) -> io::Result<Self> {
        let from = peer_address(&socket2::SockRef::from(&socket).peer_addr()?);
        Ok(Self { socket, from })
    }
}

/// The accept queue that was asked for and the one the kernel granted: `net.core.somaxconn` truncates silently.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BacklogGranted {
    /// What `listen()` was called with.
    pub asked: u32,
    /// What the kernel keeps.
    pub granted: u32,
}

/// The accept queue of a listener at one moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AcceptQueue {
    /// Connections that wait to be accepted.
    pub waiting: u32,
    /// How many may wait: the effective backlog. A queue of n holds n + 1.
    pub backlog: u32,
    /// Connections that found it full, since the socket was made; wraps around.
    pub dropped: u32,
}

impl Listener {
    /// Binds and listens.
    pub fn bind(address: &PeerAddress, options: &ListenOptions) -> io::Result<Self> {
        let sockaddr = to_sockaddr(address)?;
        let domain = Domain::from(i32::from(sockaddr.family()));
        let kind = if options.datagrams { Type::DGRAM } else { Type::STREAM };
        let socket = Socket::new(domain, kind.nonblocking().cloexec(), None)?;
        if let PeerAddress::Ip(ip) = address {
            // With it two sockets of datagrams could have one address, and the second would silently get all of them.
            if !options.datagrams {
                socket.set_reuse_address(true)?;
            }
            if options.reuseport {
                socket.set_reuse_port(true)?;
            }
            if ip.is_ipv6() {
                socket.set_only_v6(options.ipv6_only)?;
            }
            // Inherited by accepted sockets, which saves a call per connection. Responses are written whole.
            if !options.datagrams {
                socket.set_tcp_nodelay(true)?;
            }
        }
        socket.bind(&sockaddr)?;
        let listener = Self { socket, datagrams: options.datagrams };
        listener.apply(options)?;
        Ok(listener)
    }

    /// Takes over a listening socket that another process opened.
    pub fn from_inherited(socket: OwnedFd) -> io::Result<Self> {
        let socket = Socket::from(socket);
        socket.set_nonblocking(true)?;
        socket.set_cloexec(true)?;
        let listener = Self { datagrams: socket.r#type()? == Type::DGRAM, socket };
        // A service manager, or another program, has set neither.
        if listener.datagrams {
            listener.ask_for_local()?;
        } else if matches!(listener.local_address()?, Some(PeerAddress::Ip(_))) {
            listener.socket.set_tcp_nodelay(true)?;
        }
        Ok(listener)
    }

    /// Takes over a listening socket by the number that it has in this process since the start; `InvalidInput` if that is
    /// open and neither a listening socket nor one of datagrams.
    pub fn from_number(number: i32) -> io::Result<Self> {
        let is_expected = |socket: &Socket| Ok(socket.is_listener()? || socket.r#type()? == Type::DGRAM);
        Self::from_inherited(sys::take_inherited(number, is_expected)?)
    }

    /// Sets the options that may change while the socket lives, and (again) the backlog.
    pub fn apply(&self, options: &ListenOptions) -> io::Result<()> {
        if let Some(bytes) = options.receive_buffer_bytes {
            self.socket.set_recv_buffer_size(bytes)?;
        }
        if let Some(bytes) = options.send_buffer_bytes {
            self.socket.set_send_buffer_size(bytes)?;
        }
        if self.datagrams {
            return self.ask_for_local();
        }
        if let Some(keepalive) = options.so_keepalive {
            self.socket.set_keepalive(keepalive.on)?;
            let mut values = socket2::TcpKeepalive::new();
            if let Some(idle) = keepalive.idle {
                values = values.with_time(idle);
            }
            if let Some(interval) = keepalive.interval {
                values = values.with_interval(interval);
            }
            if let Some(probes) = keepalive.probes {
                values = values.with_retries(probes);
            }
            if keepalive.on {
                self.socket.set_tcp_keepalive(&values)?;
            }
        }
        if let Some(queue) = options.fastopen {
            sys::set_option(self.socket.as_fd(), libc::IPPROTO_TCP, libc::TCP_FASTOPEN, queue as i32)?;
        }
        if self.local_address()?.is_some_and(|address| matches!(address, PeerAddress::Ip(_))) {
            let seconds = i32::from(options.deferred);
            sys::set_option(self.socket.as_fd(), libc::IPPROTO_TCP, libc::TCP_DEFER_ACCEPT, seconds)?;
        }
        self.socket.listen(i32::try_from(options.backlog).unwrap_or(i32::MAX))
    }

    /// Makes a socket on all addresses tell to which of them a datagram came: an answer must leave from there.
    fn ask_for_local(&self) -> io::Result<()> {
        let (level, name) = match self.socket.local_addr()?.as_socket() {
            Some(SocketAddr::V4(ip)) if ip.ip().is_unspecified() => (libc::IPPROTO_IP, libc::IP_PKTINFO),
            Some(SocketAddr::V6(ip)) if ip.ip().is_unspecified() => (libc::IPPROTO_IPV6, libc::IPV6_RECVPKTINFO),
            _ => return Ok(()),
        };
        sys::set_option(self.socket.as_fd(), level, name, 1)
    }

    /// Whether it receives datagrams, and accepts no connections.
    pub fn is_datagrams(&self) -> bool {
        self.datagrams
    }

    /// Accepts one connection; `None` when none is waiting.
    pub fn accept(&self) -> io::Result<Option<Accepted>> {
        match sys::accept(self.socket.as_fd()) {
            Ok((socket, address)) => Ok(Some(Accepted { socket, from: peer_address(&address) })),
            Err(error) => match error.raw_os_error() {
                // The client left between SYN and accept, a signal came, or the network was lost with a connection in the
                // queue (accept(2) lists these errors). The next accept shows whether the listener works.
                Some(
                    libc::EAGAIN
                    | libc::ECONNABORTED
                    | libc::EINTR
                    | libc::EPROTO
                    | libc::ENETDOWN
                    | libc::ENOPROTOOPT
                    | libc::EHOSTDOWN
                    | libc::ENONET
                    | libc::EHOSTUNREACH
                    | libc::ENETUNREACH,
                ) => Ok(None),
                _ => Err(error),
            },
        }
    }

    /// The address it is bound to, with the port that the kernel chose for port 0.
    pub fn local_address(&self) -> io::Result<Option<PeerAddress>> {
        let address = self.socket.local_addr()?;
        Ok(Some(peer_address(&address)))
    }

    /// Compares the accept queue asked for with the one granted (read back from the kernel).
    ///
    /// `TCP_INFO` of a listener has the effective backlog in `tcpi_sacked` (net/ipv4/tcp.c, `tcp_get_info`).
    pub fn backlog_granted(&self, asked: u32) -> Option<BacklogGranted> {
        sys::tcp_info(self.socket.as_fd()).map(|info| BacklogGranted { asked, granted: info.tcpi_sacked })
    }

    /// The accept queue now; `None` on a Unix socket.
    ///
    /// `TCP_INFO` of a listener has the length in `tcpi_unacked` (net/ipv4/tcp.c, `tcp_get_info`). The drops are the
    /// socket's own (`tcp_listendrop`), so other listeners of the machine do not show here, as they do in `TcpExt`.
    pub fn accept_queue(&self) -> Option<AcceptQueue> {
        let info = sys::tcp_info(self.socket.as_fd())?;
        let dropped = sys::drops(self.socket.as_fd())?;
        Some(AcceptQueue { waiting: info.tcpi_unacked, backlog: info.tcpi_sacked, dropped })
    }

    /// For registration with a reactor and for passing on.
    pub fn descriptor(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

impl From<Listener> for OwnedFd {
    fn from(listener: Listener) -> Self {
        listener.socket.into()
    }
}

fn peer_address(address: &SockAddr) -> PeerAddress {
    match address.as_socket() {
        Some(ip @ (SocketAddr::V4(_) | SocketAddr::V6(_))) => PeerAddress::Ip(ip),
        None => PeerAddress::Unix(address.as_pathname().map(PathBuf::from).unwrap_or_default()),
    }
}
