//! A listening address: its socket, and the settings that only depend on the address.

use conf::source::Span;
use http1::Limits;
use reactor::{ListenOptions, PeerAddress};
use rules::server_name::ServerNames;
use std::net::SocketAddr;
use std::time::Duration;

/// Which block's servers listen here; `names` has their numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Serves {
    Http,
    Stream,
}

/// The settings that apply before a request names a host: as in nginx, those of the address's default server.
pub(crate) struct ListenerPlan {
    pub(crate) address: PeerAddress,
    /// Where it was written; `None` for the address that a server without `listen` has.
    pub(crate) span: Option<Span>,
    /// How its socket is made; `None` if it needs none, because the socket of another address accepts its connections.
    pub(crate) socket: Option<ListenOptions>,
    /// Addresses without a socket of their own; this one accepts their connections.
    pub(crate) behind: Vec<PeerAddress>,
    pub(crate) serves: Serves,
    pub(crate) names: ServerNames,
    /// As wide as those of any server of this address: only the Host field of the head selects the server.
    pub(crate) limits: Limits,
    /// The servers have different limits, so each request is checked against its own server's.
    pub(crate) limits_differ: bool,
    pub(crate) header_timeout: Duration,
    /// `ssl`: connections begin with a handshake.
    pub(crate) tls: bool,
    /// `listen … http2`: HTTP/2 is enabled, regardless of the servers' settings.
    pub(crate) http2: bool,
    /// `udp`: it receives datagrams.
    pub(crate) datagrams: bool,
    /// `proxy_protocol`: connections begin with a header that names their client.
    pub(crate) proxy_protocol: bool,
}

/// Whether the socket of one address accepts the connections of another.
pub(crate) fn covers(socket: &PeerAddress, other: &PeerAddress) -> bool {
    matches!((socket, other), (PeerAddress::Ip(socket), PeerAddress::Ip(other))
        if socket.ip().is_unspecified() && is_same_port(*socket, *other))
}

/// A wildcard socket of a family accepts the connections of that family only.
pub(crate) fn is_same_port(one: SocketAddr, other: SocketAddr) -> bool {
    one.port() == other.port() && one.is_ipv4() == other.is_ipv4()
}
