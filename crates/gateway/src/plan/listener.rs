//! A listening address: its socket, and the settings that only depend on the address.

use http1::Limits;
use reactor::{ListenOptions, PeerAddress};
use rules::server_name::ServerNames;
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
    /// `proxy_protocol`: connections begin with a header that names their client.
    pub(crate) proxy_protocol: bool,
}
