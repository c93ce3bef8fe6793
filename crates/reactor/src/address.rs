//! Addresses of peers: IP sockets and Unix sockets in one type.

use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;

/// Where a socket is bound or connected.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum PeerAddress {
    /// IPv4 or IPv6, with port.
    Ip(SocketAddr),
    /// The path of a Unix stream socket.
    Unix(PathBuf),
}

impl fmt::Display for PeerAddress {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ip(address) => address.fmt(out),
            Self::Unix(path) => write!(out, "unix:{}", path.display()),
        }
    }
}

impl From<SocketAddr> for PeerAddress {
    fn from(address: SocketAddr) -> Self {
        Self::Ip(address)
    }
}

impl PeerAddress {
    /// The IP address; none of a Unix socket.
    pub fn ip(&self) -> Option<IpAddr> {
        match self {
            Self::Ip(address) => Some(address.ip()),
            Self::Unix(_) => None,
        }
    }

    /// The form that system calls take.
    pub(crate) fn to_sockaddr(&self) -> std::io::Result<socket2::SockAddr> {
        match self {
            Self::Ip(address) => Ok((*address).into()),
            Self::Unix(path) => socket2::SockAddr::unix(path),
        }
    }
}
