//! An `upstream {}`, or an implicit one: its servers, how one is chosen, and how proxies share its connections.

use crate::plan::check::CheckPlan;
use crate::plan::name::Question;
use crate::plan::sticky::StickyPlan;
use crate::plan::upstream_tls::{SharedTls, UpstreamTlsPlan};
use conf::source::Span;
use reactor::{ConnectOptions, PeerAddress};
use rules::template::Template;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;
use upstream::balance::{Checked, Method, PeerSpec};
use upstream::shared::GroupLimits;

/// Index of a group in its plan.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct GroupIndex(pub(crate) u32);

/// Index of a [`GroupUse`] in its plan.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct GroupUseId(pub(crate) u32);

/// An `upstream {}`, or an implicit one.
pub(crate) struct GroupPlan {
    /// The name by which the pool, health and counters know the group.
    pub(crate) name: Box<str>,
    pub(crate) span: Span,
    pub(crate) limits: GroupLimits,
    pub(crate) method: Method,
    /// The key of `hash`.
    pub(crate) hash_key: Option<Template>,
    pub(crate) sticky: Option<StickyPlan>,
    /// `queue`: most requests that wait for a peer.
    pub(crate) queue_length: Option<u32>,
    /// How long a request waits for a connection when all permitted ones are in use.
    pub(crate) queue_timeout: Duration,
    /// `http2_ping`: the silence after which a connection is pinged, and how long the answer may take.
    pub(crate) http2_ping: Option<(Duration, Duration)>,
    pub(crate) check: Option<Arc<CheckPlan>>,
    /// The health state of a new peer.
    pub(crate) newcomer: Checked,
    /// Empty if only requests name the peers.
    pub(crate) servers: Vec<GroupServerPlan>,
}

/// One `server` of a group.
pub(crate) struct GroupServerPlan {
    pub(crate) spec: PeerSpec,
    /// As written.
    pub(crate) text: Arc<str>,
    pub(crate) span: Span,
    /// Its name in sticky sessions.
    pub(crate) route: Option<String>,
    pub(crate) source: AddressSource,
}

/// The source of a server's addresses.
pub(crate) enum AddressSource {
    /// Written, or looked up when the configuration was loaded.
    Fixed(Vec<PeerAddress>),
    /// From a name, with a port for addresses that bring none.
    Name(Arc<Question>, u16),
}

impl GroupServerPlan {
    /// Whether this address was written, or found when the configuration was loaded.
    pub(crate) fn has(&self, address: &PeerAddress) -> bool {
        matches!(&self.source, AddressSource::Fixed(addresses) if addresses.contains(address))
    }
}

impl GroupPlan {
    /// A group without servers, with round-robin peers.
    pub(crate) fn without_servers(name: &str, span: Span, limits: GroupLimits) -> Self {
        Self {
            name: name.into(),
            span,
            limits,
            method: Method::RoundRobin,
            hash_key: None,
            sticky: None,
            queue_length: None,
            queue_timeout: Duration::ZERO,
            http2_ping: None,
            check: None,
            newcomer: Checked::Healthy,
            servers: Vec::new(),
        }
    }

    /// Whether its peers may be replaced while the generation lives.
    pub(crate) fn follows_names(&self) -> bool {
        self.servers.iter().any(|server| matches!(server.source, AddressSource::Name(..)))
    }

    /// The names that it follows, by server.
    pub(crate) fn questions(&self) -> impl Iterator<Item = &Arc<Question>> {
        self.servers.iter().filter_map(|server| match &server.source {
            AddressSource::Name(question, _) => Some(question),
            AddressSource::Fixed(_) => None,
        })
    }
}

/// A group as some proxies use it: with the same connections.
pub(crate) struct GroupUse {
    pub(crate) group: GroupIndex,
    pub(crate) sharing: Sharing,
}

/// Proxies share connections if this is equal.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub(crate) struct Sharing {
    /// `proxy_bind`.
    pub(crate) source: Option<IpAddr>,
    /// Identity of the location, if the pool is `local`.
    pub(crate) location: Option<Box<str>>,
    /// TLS settings and server name; `None` without TLS.
    pub(crate) tls: Option<SharedTls>,
}

/// `keepalive … floor=`: connections to each peer of a group that are kept open ahead of demand.
pub(crate) struct FloorPlan {
    pub(crate) group: GroupUseId,
    pub(crate) warming: WarmingPlan,
}

/// How to open connections ahead of demand, and how many per peer.
#[derive(Clone)]
pub(crate) struct WarmingPlan {
    pub(crate) connect: ConnectOptions,
    pub(crate) connect_timeout: Duration,
    pub(crate) tls: Option<UpstreamTlsPlan>,
    /// They speak HTTP/2.
    pub(crate) http2: bool,
    pub(crate) floor: u32,
}
