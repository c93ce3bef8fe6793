//! The client's side of a session that has no peer yet: a connection, or the socket that received its first datagram.

use crate::tunnel::datagrams::DatagramClient;
use reactor::{Listener, PeerAddress};
use std::net::SocketAddr;
use std::sync::Arc;
use tls::Session;
use transport::Transport;

/// The client's side.
pub(crate) enum SessionClient {
    Stream(Transport),
    Datagrams(Arc<Listener>, DatagramClient),
}

impl SessionClient {
    /// The connection, if it is one.
    pub(crate) fn stream(&self) -> Option<&Transport> {
        match self {
            Self::Stream(stream) => Some(stream),
            Self::Datagrams(..) => None,
        }
    }

    /// The same, mutable.
    pub(crate) fn stream_mut(&mut self) -> Option<&mut Transport> {
        match self {
            Self::Stream(stream) => Some(stream),
            Self::Datagrams(..) => None,
        }
    }

    /// Whether the client uses TLS.
    pub(crate) fn is_secure(&self) -> bool {
        self.stream().is_some_and(Transport::is_secure)
    }

    /// Passes the TLS session to the closure, if there is one.
    pub(crate) fn session<R>(&self, look: impl FnOnce(&Session) -> R) -> Option<R> {
        self.stream()?.session(look)
    }

    /// The same, mutable.
    pub(crate) fn session_mut<R>(&self, change: impl FnOnce(&mut Session) -> R) -> Option<R> {
        self.stream()?.session_mut(change)
    }

    pub(crate) fn is_datagrams(&self) -> bool {
        matches!(self, Self::Datagrams(..))
    }

    /// The address of this machine that the client uses; `None` for a Unix socket.
    pub(crate) fn local_address(&self) -> Option<SocketAddr> {
        match self {
            Self::Stream(stream) => stream.local_address().ok().flatten(),
            Self::Datagrams(listener, client) => match listener.local_address().ok().flatten()? {
                PeerAddress::Ip(bound) => {
                    Some(SocketAddr::new(client.local.unwrap_or_else(|| bound.ip()), bound.port()))
                }
                PeerAddress::Unix(_) => None,
            },
        }
    }
}
