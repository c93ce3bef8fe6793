//! A listening address: its socket, and what is decided by the address alone.

use http1::Limits;
use reactor::{ListenOptions, PeerAddress};
use rules::server_name::ServerNames;
use std::time::Duration;

/// The block whose servers listen here: `names` has their numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Serves {
    Http,
    Stream,
}

/// What is decided by the address alone, before a request names a host: as in nginx by the default server of the address.
pub(crate) struct ListenerPlan {
    pub(crate) address: PeerAddress,
    /// How its socket is made; `None` where it needs none, because its connections come through that of another address.
    pub(crate) socket: Option<ListenOptions>,
    /// Addresses without a socket of their own, whose connections come through this one's.
    pub(crate) behind: Vec<PeerAddress>,
    pub(crate) serves: Serves,
    pub(crate) names: ServerNames,
    /// As wide as those of any server of this address: the Host field of a head selects the server.
    pub(crate) limits: Limits,
    /// The servers differ in what they take of a head, so each request is held against its own.
    pub(crate) limits_differ: bool,
    pub(crate) header_timeout: Duration,
    /// `ssl`: connections begin with a handshake.
    pub(crate) tls: bool,
    /// `listen … http2`: HTTP/2 is spoken, whatever the servers say.
    pub(crate) http2: bool,
    /// `proxy_protocol`: connections begin with a header that names their client.
    pub(crate) proxy_protocol: bool,
}
