//! Binds a plan: looks up, or creates, everything in it that outlives configurations, by its identity. The result is
//! the generation that workers hold. Here a configuration has side effects; a failure is reported as an error of the
//! configuration at its place in the text.

mod acme;
mod caches;
mod groups;
mod limit_zones;
mod listeners;
mod log_names;
mod logs;
mod server_tls;
mod sharing;
#[cfg(test)]
mod tests;

use crate::base::logs::access::{AccessOutput, LogSink};
use crate::base::logs::error::{ErrorLog, ErrorOutput, ErrorTarget};
use crate::base::logs::place::LogPlace;
use crate::base::route_cells::RouteCells;
use crate::plan::Plan;
use crate::plan::location::{Content, LocationPlan};
use crate::plan::slots::Slots;
use crate::plan::tls::CacheSize;
use crate::plan::tunnel::TunnelPlan;
use crate::plan::upstream_tls::UpstreamTlsPlan;
use crate::registry::acme::{AcmeCertificate, AcmeKey};
use crate::registry::cache::CacheZone;
use crate::registry::certificate_finder::CertificateFinder;
use crate::registry::generation::{BoundProxy, BoundStreamProxy, BoundTunnel, Generation, ListenerId};
use crate::registry::geo_files::GeoFile;
use crate::registry::limit_zones::{ConnectionZone, RequestZone};
use crate::registry::named_sides::NamedSides;
use crate::registry::outline::Outline;
use crate::registry::peer_states::DrainedSince;
use crate::registry::process::Registry;
use crate::registry::shared_zones::ZoneSpec;
use cache::Levels;
use conf::diagnostic::Diagnostic;
use conf::model::CertificateCache;
use reactor::{ListenOptions, PeerAddress};
use std::collections::{HashMap, HashSet};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use tls::{ClientSide, SessionCache, TicketKeys};
use upstream::balance::{HealthRegistry, SeatLine, Sessions};

/// A zone's identity, as in nginx: its name and its bytes. A reload that keeps both keeps the zone's counts; the rate
/// may change.
type ZoneKey = (String, u64);

/// The contents of the ticket key files, and the seconds that tickets last.
type TicketIdentity = (Vec<Box<[u8]>>, u32);

/// The objects that plans refer to, by identity. Used only at start and at each reload.
#[derive(Default)]
pub(crate) struct Identities(Mutex<Known>);

#[derive(Default)]
struct Known {
    generations: u64,
    /// By address, and whether it is for datagrams.
    listeners: HashMap<(PeerAddress, bool), ListenerId>,
    sinks: HashMap<LogPlace, Arc<LogSink>>,
    error_logs: HashMap<Vec<ErrorTarget>, Arc<ErrorLog>>,
    health: Arc<HealthRegistry>,
    /// The sessions of `sticky learn` by zone, with the zone's group.
    sessions: HashMap<String, (Box<str>, Arc<Sessions>)>,
    request_zones: HashMap<ZoneKey, Arc<RequestZone>>,
    connection_zones: HashMap<ZoneKey, Arc<ConnectionZone>>,
    /// Caches of TLS sessions, by the cache's name, its size and the lifetime of sessions in seconds.
    session_caches: HashMap<(String, CacheSize, u32), Arc<SessionCache>>,
    /// Keys of session tickets.
    ticket_keys: HashMap<TicketIdentity, Arc<TicketKeys>>,
    acme: HashMap<AcmeKey, Arc<AcmeCertificate>>,
    /// Caches by name, directory and levels.
    caches: HashMap<(String, PathBuf, Levels), Arc<CacheZone>>,
    /// The waiting lines of groups with `queue`, by the group's name.
    lines: HashMap<Box<str>, Arc<SeatLine>>,
    /// TLS settings towards upstreams, by identity: they hold the sessions that can be resumed.
    sides: HashMap<Box<[u8]>, ClientSide>,
    /// Peers that the configuration before marks `drain`, and the generation that first did.
    drained: DrainedSince,
    /// What the configuration before has.
    outline: Option<Outline>,
    /// The generation before, while it lives.
    last: Weak<Generation>,
}

impl Identities {
    fn lock(&self) -> MutexGuard<'_, Known> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The health state of peers.
    pub(crate) fn health(&self) -> Arc<HealthRegistry> {
        Arc::clone(&self.lock().health)
    }
}

impl Known {
    /// Drops logs and zones that only earlier configurations used.
    fn forget_unused(&mut self) {
        self.sinks.retain(|_, sink| Arc::strong_count(sink) > 1);
        self.error_logs.retain(|_, log| Arc::strong_count(log) > 1);
        self.request_zones.retain(|_, zone| Arc::strong_count(zone) > 1);
        self.connection_zones.retain(|_, zone| Arc::strong_count(zone) > 1);
        self.caches.retain(|_, zone| Arc::strong_count(zone) > 1);
        self.acme.retain(|_, certificate| Arc::strong_count(certificate) > 1);
        self.sides.retain(|_, side| Arc::strong_count(side.identity()) > 1);
    }

    /// The known TLS side with this identity; otherwise remembers this one.
    fn side(&mut self, tls: &UpstreamTlsPlan) -> UpstreamTlsPlan {
        let identity: &[u8] = tls.side.identity();
        let side = self.sides.entry(identity.into()).or_insert_with(|| tls.side.clone());
        UpstreamTlsPlan { side: side.clone(), ..tls.clone() }
    }
}

/// A socket that a configuration needs.
#[derive(Debug, Clone)]
pub struct ListenerSpec {
    /// Its number, the same in all generations.
    pub id: ListenerId,
    /// Its address.
    pub address: PeerAddress,
    /// Its options.
    pub options: ListenOptions,
}

/// A configuration, ready for use.
pub struct BoundPlan {
    /// The generation for the workers.
    pub generation: Arc<Generation>,
    /// The sockets to listen on.
    pub listeners: Vec<ListenerSpec>,
    /// The access logs that it writes.
    pub logs: Vec<AccessOutput>,
    /// The error logs that it writes besides the process's own.
    pub error_logs: Vec<ErrorOutput>,
    /// The zones of limits and the caches, which several processes share.
    pub zones: Vec<ZoneSpec>,
    /// The directories for temporary files, each once.
    pub temp_directories: Vec<PathBuf>,
    /// The directories for keys and certificates, each once.
    pub state_directories: Vec<PathBuf>,
    /// A `proxy_bind` is transparent, which needs `CAP_NET_RAW`.
    pub transparent: bool,
}

/// The work in progress.
struct Binding<'a> {
    registry: &'static Registry,
    known: &'a mut Known,
    plan: &'a Plan,
    /// The generation before, if this one may share what it is bound to.
    before: Option<Arc<Generation>>,
    /// Finders of certificates that variables name, by their cache settings.
    finders: HashMap<CertificateCache, CertificateFinder>,
    found: Vec<Diagnostic>,
}

impl Registry {
    /// Binds a plan. The errors are those of a configuration that needs more than the process has, or that uses an
    /// object differently from an earlier one.
    pub fn bind(&'static self, plan: Plan) -> Result<BoundPlan, Vec<Diagnostic>> {
        // The operator may have changed a sysctl before the reload.
        self.ports.refresh();
        let mut known = self.identities.lock();
        known.generations += 1;
        known.forget_unused();
        let before = known.before(&plan);
        let (finders, found) = (HashMap::new(), Vec::new());
        let mut binding = Binding { registry: self, known: &mut known, plan: &plan, before, finders, found };
        let (request_zones, connection_zones) = (binding.request_zones(), binding.connection_zones());
        let caches = binding.caches();
        let Some(groups) = binding.groups().filter(|_| binding.found.is_empty()) else { return Err(binding.found) };
        let acme_orders = binding.acme_orders();
        let tls = binding.tls(&acme_orders);
        let stream_tls = binding.stream_tls();
        if !binding.found.is_empty() {
            return Err(binding.found);
        }
        let (listeners, specs) = binding.listeners(&tls, &stream_tls);
        let logs = binding.access_logs();
        let error_logs = binding.error_logs();
        let proxies = binding.proxies(&groups, &error_logs);
        let stream_proxies = binding.stream_proxies(&groups, &error_logs);
        let routes = binding.routes();
        let before = binding.before.take();
        let groups::BoundGroups { uses, guests, floors, moving_floors, checks, peer_states, .. } = groups;
        self.client_statuses.keep_caches(|name| plan.tls_plans().any(|tls| tls.keeps_client_statuses(name)));
        let number = known.generations;
        let changes = known.changes(&plan, before.as_deref());
        drop((known, before));
        let route_marks = plan.route_marks().collect();
        let (temp_directories, transparent) = (plan.temp_directories.clone(), plan.transparent);
        let generation = Arc::new(Generation {
            number,
            loaded_at_s: reactor::wall_clock().as_secs(),
            changes,
            geo_files: plan.geo_files.iter().map(GeoFile::new).collect(),
            plan,
            listeners,
            tls,
            stream_tls,
            proxies,
            groups: uses,
            stream_proxies,
            guests,
            floors,
            moving_floors,
            checks: checks.into(),
            acme_orders,
            request_zones,
            connection_zones,
            caches,
            routes,
            sinks: logs.iter().map(|output| Arc::clone(&output.sink)).collect(),
            error_logs: error_logs.iter().map(|output| Arc::clone(&output.log)).collect(),
            route_marks,
            peer_states,
        });
        self.identities.note(&generation);
        Ok(BoundPlan {
            listeners: specs,
            logs,
            error_logs,
            zones: limit_zones::specs(&generation.plan).into_iter().chain(caches::specs(&generation.plan)).collect(),
            temp_directories,
            state_directories: generation.plan.state_directories(),
            transparent,
            generation,
        })
    }
}

/// What operators call a location: the first name of the server, and the words behind `location`.
fn shown_route(location: &LocationPlan) -> (String, String) {
    let name_or = |name: &[u8], other: &str| match String::from_utf8_lossy(name) {
        name if name.is_empty() => other.to_owned(),
        name => name.into_owned(),
    };
    (name_or(&location.server, "_"), name_or(&location.route, "-"))
}

impl Binding<'_> {
    fn proxies(&mut self, groups: &groups::BoundGroups, error_logs: &[ErrorOutput]) -> Slots<BoundProxy> {
        let (mut proxies, mut fresh) = (Vec::new(), Vec::new());
        for (id, plan) in self.plan.proxies.numbered() {
            let known = self.before.as_ref().and_then(|before| before.proxy_again(id, plan, groups, error_logs));
            match known {
                Some(known) => proxies.push((id, known)),
                None => fresh.push((id, plan)),
            }
        }
        let mut routes = self.proxy_routes(&fresh.iter().map(|(id, _)| *id).collect());
        for (id, plan) in fresh {
            let (tls, sides) = self.bound_tls(plan.tls.as_ref());
            let group = Arc::clone(groups.uses.get(plan.group.0));
            let tunnel = self.bound_tunnel(&plan.tunnel, error_logs, routes.remove(&id));
            proxies.push((id, Arc::new(BoundProxy { plan: Arc::clone(plan), group, tls, sides, tunnel })));
        }
        Slots::with(proxies)
    }

    fn stream_proxies(&mut self, groups: &groups::BoundGroups, error_logs: &[ErrorOutput]) -> Vec<BoundStreamProxy> {
        let mut proxies = Vec::new();
        for plan in &self.plan.stream.proxies {
            let (tls, sides) = self.bound_tls(plan.tls.as_ref());
            let group = Arc::clone(groups.uses.get(plan.group.0));
            let tunnel = self.bound_tunnel(&plan.tunnel, error_logs, None);
            proxies.push(BoundStreamProxy { plan: Arc::clone(plan), group, tls, sides, tunnel });
        }
        proxies
    }

    /// The counters of locations.
    fn routes(&self) -> Slots<RouteCells> {
        self.registry.status.forget_routes();
        let cells = |(id, location): (u32, &Arc<LocationPlan>)| {
            let known = self.before.as_ref().and_then(|before| before.route_again(id, location));
            let cells = known.unwrap_or_else(|| {
                let (server, route) = shown_route(location);
                self.registry.status.route(&server, &route)
            });
            (id, cells)
        };
        Slots::with(self.plan.locations.numbered().map(cells))
    }

    fn bound_tunnel(&self, plan: &TunnelPlan, error_logs: &[ErrorOutput], route: Option<Box<str>>) -> Arc<BoundTunnel> {
        let error_log = plan.error_log.map(|id| Arc::clone(&error_logs[id.0 as usize].log));
        let (generation, registry) = (self.known.generations, self.registry);
        Arc::new(BoundTunnel { plan: plan.clone(), error_log, route, generation, registry })
    }

    /// Server and location of these proxies.
    fn proxy_routes(&self, wanted: &HashSet<u32>) -> HashMap<u32, Box<str>> {
        let mut routes = HashMap::new();
        for location in self.plan.locations.iter().filter(|_| !wanted.is_empty()) {
            for proxy in (0..).map_while(|place| location.content.proxy(place)) {
                if wanted.contains(&proxy.0) {
                    let (server, route) = shown_route(location);
                    routes.insert(proxy.0, format!("{server} {route}").into_boxed_str());
                }
                if matches!(location.content, Content::Proxy(_)) {
                    break;
                }
            }
        }
        routes
    }

    /// TLS of a proxy with the objects that outlive configurations, and the sides for certificates that variables name.
    fn bound_tls(&mut self, tls: Option<&UpstreamTlsPlan>) -> (Option<UpstreamTlsPlan>, Option<Arc<NamedSides>>) {
        let tls = tls.map(|tls| self.known.side(tls));
        let sides = tls.as_ref().and_then(|tls| {
            let made = tls.certificate.as_ref()?;
            Some(Arc::new(NamedSides::new(Arc::clone(made), self.finder(made.cache), tls.side.clone())))
        });
        (tls, sides)
    }
}
