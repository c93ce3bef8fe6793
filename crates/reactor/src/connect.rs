//! Opening connections without waiting.

use crate::address::to_sockaddr;
use crate::reactor::Reactor;
use crate::stream::Stream;
use crate::sys;
use crate::task::TaskId;
use socket2::{Domain, Socket, Type};
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsFd, OwnedFd};
use std::rc::Rc;
use terms::PeerAddress;

/// How a connection is opened; the default asks for nothing special.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct ConnectOptions {
    /// Source address; its port is chosen by the kernel at connect time, per destination, unless `source_port` says which.
    pub source: Option<IpAddr>,
    /// Source port; only with `source`.
    pub source_port: Option<u16>,
    /// `SO_KEEPALIVE`.
    pub so_keepalive: bool,
    /// `SO_SNDBUF` in bytes.
    pub send_buffer_bytes: Option<usize>,
    /// `SO_RCVBUF` in bytes.
    pub receive_buffer_bytes: Option<usize>,
    /// `IP_TRANSPARENT`: the source address need not be ours.
    pub transparent: bool,
}

impl Reactor {
    /// Begins to connect. The stream becomes writable when the outcome is known; then [`Stream::take_error`] tells it.
    pub fn connect(self: &Rc<Self>, to: &PeerAddress, options: &ConnectOptions, task: TaskId) -> io::Result<Stream> {
        let address = to_sockaddr(to)?;
        let domain = Domain::from(i32::from(address.family()));
        let socket = Socket::new(domain, Type::STREAM.nonblocking().cloexec(), None)?;
        if let PeerAddress::Ip(to) = to {
            socket.set_tcp_nodelay(true)?;
            set_options(&socket, *to, options)?;
            if options.source_port.is_none() {
                search_all_ports(&socket);
            }
        }
        match socket.connect(&address) {
            // Unix sockets, and TCP Fast Open, connect at once.
            Ok(()) => self.register(OwnedFd::from(socket), task),
            Err(error) if error.raw_os_error() == Some(libc::EINPROGRESS) => {
                self.register_connecting(OwnedFd::from(socket), task)
            }
            Err(error) => Err(error),
        }
    }
}

/// `IP_LOCAL_PORT_RANGE` of `include/uapi/linux/in.h`, since Linux 6.3; the crate `libc` does not have it.
const IP_LOCAL_PORT_RANGE: libc::c_int = 51;
/// The first port in the lower half, the last one in the upper: the kernel takes what its own range has of it.
const ALL_PORTS: u32 = (65_535 << 16) | 1;

/// Lets `connect` search all ports from a random one on. By default it searches every second port first, so from half of
/// the ports on it looks at all of those in vain, each time (ADR 92). Older kernels refuse the option, and those before 6.8
/// still search so.
fn search_all_ports(socket: &Socket) {
    let _ = sys::set_option(socket.as_fd(), libc::SOL_IP, IP_LOCAL_PORT_RANGE, ALL_PORTS.cast_signed());
}

pub(crate) fn set_options(socket: &Socket, to: SocketAddr, options: &ConnectOptions) -> io::Result<()> {
    if options.so_keepalive {
        socket.set_keepalive(true)?;
    }
    if let Some(bytes) = options.send_buffer_bytes {
        socket.set_send_buffer_size(bytes)?;
    }
    if let Some(bytes) = options.receive_buffer_bytes {
        socket.set_recv_buffer_size(bytes)?;
    }
    let Some(source) = options.source else { return Ok(()) };
    if options.transparent {
        let (level, name) = match to {
            SocketAddr::V4(_) => (libc::SOL_IP, libc::IP_TRANSPARENT),
            SocketAddr::V6(_) => (libc::SOL_IPV6, libc::IPV6_TRANSPARENT),
        };
        sys::set_option(socket.as_fd(), level, name, 1)?;
    }
    if options.source_port.is_none() {
        // Without it bind() takes a port for every destination at once, and 28,000 connections exhaust the source address.
        sys::set_option(socket.as_fd(), libc::SOL_IP, libc::IP_BIND_ADDRESS_NO_PORT, 1)?;
    }
    socket.bind(&SocketAddr::new(source, options.source_port.unwrap_or(0)).into())
}
