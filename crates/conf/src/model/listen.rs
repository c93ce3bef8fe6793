//! `listen`: addresses, and what their sockets are given.

use std::time::Duration;

use super::server::ServerId;
use crate::source::Span;
use crate::value::Address;

/// One address of one `listen` (a range of ports gives several).
#[derive(Debug, Clone, PartialEq)]
pub struct Listen {
    /// The address.
    pub address: Address,
    /// This server answers here where no name matches.
    pub default_server: bool,
    /// What is written about the socket.
    pub options: ListenOptions,
    /// Where it was written; `None` for the implied `*:80`.
    pub span: Option<Span>,
}

/// Parameters of `listen`.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct ListenOptions {
    /// One of the words that concern the socket was there: it may be there once for an address.
    pub set: bool,
    /// Accept queue; `None` is nginx's 511.
    pub backlog: Option<u32>,
    /// `SO_RCVBUF` in bytes.
    pub rcvbuf: Option<u64>,
    /// `SO_SNDBUF` in bytes.
    pub sndbuf: Option<u64>,
    /// `TCP_FASTOPEN` queue.
    pub fastopen: FastOpen,
    /// `TCP_DEFER_ACCEPT`
    pub deferred: bool,
    /// `IPV6_V6ONLY`; `None` is on.
    pub ipv6only: Option<bool>,
    /// A socket for each worker.
    pub reuseport: bool,
    /// TCP keepalive.
    pub so_keepalive: SoKeepalive,
    /// A socket of its own although one for all addresses of the port is there.
    pub bind: bool,
    /// `IPPROTO_MPTCP`
    pub multipath: bool,
    /// Routing table (`SO_SETFIB` exists on FreeBSD only).
    pub setfib: Option<u32>,
    /// A filter (FreeBSD and NetBSD only).
    pub accept_filter: Option<String>,
    /// TLS.
    pub ssl: bool,
    /// HTTP/2 by `listen … http2`.
    pub http2: bool,
    /// HTTP/3.
    pub quic: bool,
    /// Every connection begins with a PROXY protocol header.
    pub proxy_protocol: bool,
}

/// `fastopen=`; `None` is off.
pub type FastOpen = Option<u32>;

/// `so_keepalive=`
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum SoKeepalive {
    /// As the system has it.
    #[default]
    System,
    /// Off.
    Off,
    /// On, with the system's times where `None`.
    On {
        /// Silence before the first probe.
        idle: Option<Duration>,
        /// Time between probes.
        interval: Option<Duration>,
        /// Probes before the connection is given up.
        count: Option<u32>,
    },
}

/// A socket to listen on, with the servers behind it.
#[derive(Debug, Clone, PartialEq)]
pub struct Listener {
    /// The address.
    pub address: Address,
    /// What its socket is given.
    pub options: ListenOptions,
    /// Who answers where no name matches: the one marked so, or the first.
    pub default_server: ServerId,
    /// All servers that listen here, in the order of the text.
    pub servers: Vec<ServerId>,
    /// Where the options, or the first `listen`, were written.
    pub span: Option<Span>,
}
