//! One configuration, compiled for the request path: tables to look up, templates to render, numbers to compare.
//! `lower` makes it, and it never changes. It holds no run-time objects: it refers by index to objects that outlive a
//! configuration, and the registry binds them.

pub(crate) mod access;
pub(crate) mod acme;
pub(crate) mod added_fields;
pub(crate) mod application;
pub(crate) mod auth_jwt;
pub(crate) mod cache;
pub(crate) mod check;
pub(crate) mod client;
pub(crate) mod files;
pub(crate) mod filters;
pub(crate) mod geoip;
pub(crate) mod group;
pub(crate) mod http2;
pub(crate) mod limits;
pub(crate) mod listener;
pub(crate) mod location;
pub(crate) mod logs;
pub(crate) mod more_headers;
pub(crate) mod name;
pub(crate) mod ocsp;
pub(crate) mod open_files;
pub(crate) mod otel;
pub(crate) mod program;
pub(crate) mod proxy;
pub(crate) mod route_to;
pub(crate) mod server;
pub(crate) mod slice;
pub(crate) mod slots;
pub(crate) mod sticky;
pub(crate) mod store;
pub(crate) mod stream;
pub(crate) mod symlinks;
pub(crate) mod tls;
pub(crate) mod tunnel;
pub(crate) mod upstream_tls;
pub(crate) mod user_id;
pub(crate) mod variable_pass;

use crate::base::logs::error::ErrorTarget;
use crate::plan::acme::AcmeOrderPlan;
use crate::plan::cache::CacheZonePlan;
use crate::plan::geoip::GeoFilePlan;
use crate::plan::group::{FloorPlan, GroupPlan, GroupUse};
use crate::plan::limits::ZonePlan;
use crate::plan::listener::ListenerPlan;
use crate::plan::location::{LocationId, LocationPlan};
use crate::plan::logs::SinkPlan;
use crate::plan::otel::ExporterPlan;
use crate::plan::proxy::ProxyPlan;
use crate::plan::server::ServerPlan;
use crate::plan::slots::Slots;
use crate::plan::stream::StreamPlan;
use crate::plan::tls::TlsPlan;
use crate::plan::tunnel::DrainPlan;
use crate::plan::variable_pass::GuestsPlan;
use conf::model::MemoryBudget;
use rules::charset::Charsets;
use rules::user_variables::Definitions;
use rules::variable::UserVariables;
use std::path::PathBuf;
use std::sync::Arc;

/// One configuration. The registry turns it into the `Generation` that workers hold.
#[derive(Default)]
pub struct Plan {
    /// In the order of the text; if addresses repeat, the last one counts.
    pub(crate) listeners: Vec<Arc<ListenerPlan>>,
    pub(crate) servers: Vec<Arc<ServerPlan>>,
    /// By [`LocationId`].
    pub(crate) locations: Slots<LocationPlan>,
    /// How the configuration's own variables are evaluated.
    pub(crate) definitions: Definitions,
    /// The names of the configuration's own variables, if pages may use them (`ssi`).
    pub(crate) page_variables: UserVariables,
    /// `stream`
    pub(crate) stream: StreamPlan,
    /// The character sets of `charset` and `charset_map`.
    pub(crate) charsets: Charsets,
    /// By `ProxyId`.
    pub(crate) proxies: Slots<ProxyPlan>,
    /// The groups that are used, by `GroupIndex`.
    pub(crate) groups: Slots<GroupPlan>,
    /// By `GroupUseId`.
    pub(crate) group_uses: Slots<GroupUse>,
    /// By `GuestsId`.
    pub(crate) guests: Vec<GuestsPlan>,
    /// Connections to open ahead of demand.
    pub(crate) floors: Vec<FloorPlan>,
    /// By `RequestZoneId`.
    pub(crate) request_zones: Vec<ZonePlan>,
    /// By `ConnectionZoneId`.
    pub(crate) connection_zones: Vec<ZonePlan>,
    /// By `CacheZoneId`.
    pub(crate) cache_zones: Vec<CacheZonePlan>,
    /// Databases of addresses whose files may change.
    pub(crate) geo_files: Vec<GeoFilePlan>,
    /// By `SinkId`.
    pub(crate) sinks: Vec<SinkPlan>,
    /// The lists of `error_log`s besides the process's own, by `ErrorLogId`.
    pub(crate) error_logs: Vec<Vec<ErrorTarget>>,
    /// By `AcmeOrderId`.
    pub(crate) acme_orders: Vec<Arc<AcmeOrderPlan>>,
    /// Where spans are sent; `None`: none are recorded.
    pub(crate) otel_exporter: Option<Arc<ExporterPlan>>,
    /// The directories for temporary files, each once.
    pub(crate) temp_directories: Vec<PathBuf>,
    /// `$hostname`.
    pub(crate) hostname: Box<[u8]>,
    /// `worker_connections`: most client connections of one worker.
    pub(crate) worker_connections: usize,
    /// A template uses `$upstream_local_addr`, which costs a system call per attempt.
    pub(crate) wants_upstream_local: bool,
    /// A template uses `$sent_http_…` or `$sent_trailer_…`, so exchanges keep what they send.
    pub(crate) keeps_sent: bool,
    /// A template uses the offers of clients' handshakes, so connections keep them.
    pub(crate) wants_tls_offers: bool,
    /// A `proxy_bind` is transparent, which needs `CAP_NET_RAW`.
    pub(crate) transparent: bool,
    pub(crate) memory_budget: Option<MemoryBudget>,
    pub(crate) drain: DrainPlan,
    /// Servers and groups that the generation before has, too, keep what they are bound to.
    pub(crate) shares: bool,
}

impl Plan {
    /// The same without anything of `http` and `stream`.
    pub(crate) fn emptied(self) -> Self {
        let Self { hostname, worker_connections, memory_budget, drain, .. } = self;
        Self { hostname, worker_connections, memory_budget, drain, ..Self::default() }
    }

    /// The directories where orders keep their keys and certificates, each once.
    pub(crate) fn state_directories(&self) -> Vec<PathBuf> {
        let mut directories: Vec<_> = self.acme_orders.iter().filter_map(|order| order.issuer.state.clone()).collect();
        directories.sort();
        directories.dedup();
        directories
    }

    /// TLS of all servers, of both blocks.
    pub(crate) fn tls_plans(&self) -> impl Iterator<Item = &TlsPlan> {
        let of_stream = self.stream.servers.iter().filter_map(|server| server.tls.as_deref());
        self.servers.iter().filter_map(|server| server.tls.as_deref()).chain(of_stream)
    }

    /// The marks of all routes to upstreams.
    pub(crate) fn route_marks(&self) -> impl Iterator<Item = u64> {
        let of_http = self.proxies.iter().map(|proxy| &proxy.tunnel);
        let of_stream = self.stream.proxies.iter().map(|proxy| &proxy.tunnel);
        of_http.chain(of_stream).flat_map(|tunnel| tunnel.marks.iter().copied())
    }

    pub(crate) fn server(&self, index: u32) -> &ServerPlan {
        &self.servers[index as usize]
    }

    pub(crate) fn location(&self, id: LocationId) -> &LocationPlan {
        self.locations.get(id.0)
    }
}
