//! One loaded configuration with its run-time objects: workers hold it by reference count, and exchanges pin it. Each
//! bound object contains its plan and dereferences to it.

use crate::base::close::CloseReason;
use crate::base::logs::access::LogSink;
use crate::base::logs::error::ErrorLog;
use crate::base::route_cells::RouteCells;
use crate::plan::Plan;
use crate::plan::group::WarmingPlan;
use crate::plan::limits::RequestZoneId;
use crate::plan::listener::{ListenerPlan, covers};
use crate::plan::location::{Content, LocationId, LocationPlan};
use crate::plan::logs::SinkId;
use crate::plan::proxy::{ProxyId, ProxyPlan};
use crate::plan::slots::Slots;
use crate::plan::stream::{StreamProxyId, StreamProxyPlan};
use crate::plan::tunnel::TunnelPlan;
use crate::plan::upstream_tls::UpstreamTlsPlan;
use crate::plan::variable_pass::GuestsId;
use crate::registry::acme::BoundOrder;
use crate::registry::cache::CacheZone;
use crate::registry::checks::schedule::GroupChecks;
use crate::registry::geo_files::GeoFile;
use crate::registry::group::BoundGroup;
use crate::registry::guests::Guests;
use crate::registry::limit_zones::{ConnectionZone, RequestZone};
use crate::registry::named_sides::NamedSides;
use crate::registry::peer_states::PeerStates;
use crate::registry::peer_states::TunnelPeer;
use crate::registry::process::Registry;
use crate::registry::tls_choice::BoundTls;
use reactor::PeerAddress;
use rustc_hash::FxHashSet;
use std::net::IpAddr;
use std::ops::Deref;
use std::sync::Arc;
use upstream::shared::KeyId;

/// Number of a listening address, the same in all generations and never reused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct ListenerId(pub u32);

/// One loaded configuration.
pub struct Generation {
    /// Counts reloads, from 1.
    pub number: u64,
    pub(crate) plan: Plan,
    /// Unix time at which it was loaded.
    pub(crate) loaded_at_s: u64,
    /// What has changed since the configuration before, a line for each; empty for the first one.
    pub(crate) changes: Vec<String>,
    /// By [`ListenerId`]; `None` for an address that this configuration does not listen on.
    pub(crate) listeners: Vec<Option<BoundListener>>,
    /// TLS by the index of the server; `None` for a server without TLS.
    pub(crate) tls: Arc<[Option<BoundTls>]>,
    /// The same of `stream`.
    pub(crate) stream_tls: Arc<[Option<BoundTls>]>,
    /// By [`ProxyId`].
    pub(crate) proxies: Slots<BoundProxy>,
    /// By `GroupUseId`.
    pub(crate) groups: Slots<BoundGroup>,
    /// By [`StreamProxyId`].
    pub(crate) stream_proxies: Vec<BoundStreamProxy>,
    /// By [`GuestsId`].
    pub(crate) guests: Vec<Guests>,
    /// Connections to open ahead of demand.
    pub(crate) floors: Vec<Floor>,
    /// The same for peers from names.
    pub(crate) moving_floors: Vec<MovingFloor>,
    /// `health_check` of the groups in use.
    pub(crate) checks: Arc<[GroupChecks]>,
    /// By `AcmeOrderId`.
    pub(crate) acme_orders: Arc<[BoundOrder]>,
    /// By [`RequestZoneId`].
    pub(crate) request_zones: Vec<Arc<RequestZone>>,
    /// By `ConnectionZoneId`.
    pub(crate) connection_zones: Vec<Arc<ConnectionZone>>,
    /// By `CacheZoneId`.
    pub(crate) caches: Vec<Arc<CacheZone>>,
    /// Databases of addresses whose files may change.
    pub(crate) geo_files: Vec<Arc<GeoFile>>,
    /// Counters of locations, by [`LocationId`].
    pub(crate) routes: Slots<RouteCells>,
    /// By [`SinkId`].
    pub(crate) sinks: Vec<Arc<LogSink>>,
    /// By `ErrorLogId`.
    pub(crate) error_logs: Vec<Arc<ErrorLog>>,
    /// The marks of all routes to upstreams.
    pub(crate) route_marks: FxHashSet<u64>,
    /// The peers that tunnels may keep.
    pub(crate) peer_states: PeerStates,
}

impl Deref for Generation {
    type Target = Plan;

    fn deref(&self) -> &Plan {
        &self.plan
    }
}

/// A worker's hold on a generation. Exchanges count references to this, which is the worker's own memory. With every
/// request, all workers would contend for the generation's own counter.
pub(crate) struct Pinned(pub(crate) Arc<Generation>);

impl Deref for Pinned {
    type Target = Generation;

    fn deref(&self) -> &Generation {
        &self.0
    }
}

/// A listening address.
pub(crate) struct BoundListener {
    pub(crate) plan: Arc<ListenerPlan>,
    /// Handles TLS handshakes of its connections.
    pub(crate) tls: Option<Arc<dyn tls::Listener>>,
    /// Addresses without a socket of their own; this one accepts their connections.
    pub(crate) behind: Vec<(IpAddr, ListenerId)>,
}

impl Deref for BoundListener {
    type Target = ListenerPlan;

    fn deref(&self) -> &ListenerPlan {
        &self.plan
    }
}

/// `proxy_pass` with its group.
pub(crate) struct BoundProxy {
    pub(crate) plan: Arc<ProxyPlan>,
    pub(crate) group: Arc<BoundGroup>,
    /// The plan's TLS with the registry's side, which keeps sessions of earlier generations.
    pub(crate) tls: Option<UpstreamTlsPlan>,
    /// TLS settings by certificate, if requests name the certificate.
    pub(crate) sides: Option<Arc<NamedSides>>,
    /// Shared, so that a tunnel costs a pointer.
    pub(crate) tunnel: Arc<BoundTunnel>,
}

impl Deref for BoundProxy {
    type Target = ProxyPlan;

    fn deref(&self) -> &ProxyPlan {
        &self.plan
    }
}

/// `proxy_pass` of `stream` with its group.
pub(crate) struct BoundStreamProxy {
    pub(crate) plan: Arc<StreamProxyPlan>,
    pub(crate) group: Arc<BoundGroup>,
    /// The plan's TLS with the registry's side, which keeps sessions of earlier generations.
    pub(crate) tls: Option<UpstreamTlsPlan>,
    /// TLS settings by certificate, if sessions name the certificate.
    pub(crate) sides: Option<Arc<NamedSides>>,
    /// Shared, so that a tunnel costs a pointer.
    pub(crate) tunnel: Arc<BoundTunnel>,
}

impl Deref for BoundStreamProxy {
    type Target = StreamProxyPlan;

    fn deref(&self) -> &StreamProxyPlan {
        &self.plan
    }
}

/// The settings that a tunnel keeps of the exchange that opened it.
pub(crate) struct BoundTunnel {
    pub(crate) plan: TunnelPlan,
    /// The location's own error log.
    pub(crate) error_log: Option<Arc<ErrorLog>>,
    /// Server and location, as operators call them; `None` of `stream`.
    pub(crate) route: Option<Box<str>>,
    /// The number of the generation that it was bound for. Later ones may share it, if no peer is marked `drain`.
    pub(crate) generation: u64,
    /// Where its tunnels give back what they have counted.
    pub(crate) registry: &'static Registry,
}

impl Deref for BoundTunnel {
    type Target = TunnelPlan;

    fn deref(&self) -> &TunnelPlan {
        &self.plan
    }
}

/// Connections to a peer that are kept open ahead of demand.
pub(crate) struct Floor {
    pub(crate) key: KeyId,
    pub(crate) address: PeerAddress,
    pub(crate) warming: WarmingPlan,
}

/// The floor of a group whose peers may be replaced at any time: it applies to the present peers.
pub(crate) struct MovingFloor {
    pub(crate) group: Arc<BoundGroup>,
    pub(crate) warming: WarmingPlan,
}

impl Generation {
    pub(crate) fn listener(&self, id: ListenerId) -> Option<&BoundListener> {
        self.listeners.get(id.0 as usize)?.as_ref()
    }

    /// The listener of a connection that a socket accepted. `local` returns the local address of the connection; it is
    /// called only if that makes a difference.
    pub(crate) fn listener_behind(&self, socket: ListenerId, local: impl FnOnce() -> Option<IpAddr>) -> ListenerId {
        match self.listener(socket) {
            Some(listener) if !listener.behind.is_empty() => {
                let local = local();
                listener.behind.iter().find(|(ip, _)| Some(*ip) == local).map_or(socket, |(_, id)| *id)
            }
            _ => socket,
        }
    }

    /// The listener with this address; otherwise the one whose socket accepts its connections.
    pub(crate) fn listener_at(&self, address: &PeerAddress) -> Option<ListenerId> {
        let all = || (0..).map(ListenerId).zip(&self.listeners).filter_map(|(id, bound)| Some((id, bound.as_ref()?)));
        let same = all().find(|(_, bound)| bound.address == *address);
        same.or_else(|| all().find(|(_, bound)| covers(&bound.address, address))).map(|(id, _)| id)
    }

    pub(crate) fn proxy(&self, id: ProxyId) -> &BoundProxy {
        self.proxies.get(id.0)
    }

    pub(crate) fn stream_proxy(&self, id: StreamProxyId) -> &BoundStreamProxy {
        &self.stream_proxies[id.0 as usize]
    }

    /// The proxy with this index in a location: a `proxy_pass` with variables has several.
    pub(crate) fn proxy_of(&self, content: &Content, place: u16) -> Option<&BoundProxy> {
        content.proxy(place).map(|id| self.proxy(id))
    }

    pub(crate) fn guests(&self, id: GuestsId) -> &Guests {
        &self.guests[id.0 as usize]
    }

    pub(crate) fn request_zone(&self, id: RequestZoneId) -> &RequestZone {
        &self.request_zones[id.0 as usize]
    }

    pub(crate) fn sink(&self, id: SinkId) -> &Arc<LogSink> {
        &self.sinks[id.0 as usize]
    }

    /// Whether a connection closes only when its line is in this log.
    pub(crate) fn is_awaited(&self, id: SinkId) -> bool {
        self.plan.sinks[id.0 as usize].is_awaited()
    }

    pub(crate) fn route_cells(&self, id: LocationId) -> &RouteCells {
        self.routes.get(id.0)
    }

    /// Why a tunnel of an earlier generation is drained; `None` if its route and its peer are unchanged.
    pub(crate) fn drains(&self, plan: &BoundTunnel, peer: Option<TunnelPeer>) -> Option<CloseReason> {
        if plan.generation >= self.number {
            return None;
        }
        // A tunnel without marks came from another process, and its route is not known here.
        if !plan.marks.is_empty() && !plan.marks.iter().any(|mark| self.route_marks.contains(mark)) {
            return Some(CloseReason::DrainedRoute);
        }
        peer.filter(|peer| self.peer_states.drains(*peer, plan.generation)).map(|_| CloseReason::DrainedPeer)
    }

    /// A location's own error log; `None` if it uses the process's.
    pub(crate) fn error_log(&self, location: &LocationPlan) -> Option<&ErrorLog> {
        location.error_log.map(|id| &*self.error_logs[id.0 as usize])
    }
}
