//! Servers and groups of the plan before, for plans that are made one after another from models that share what did not change
//! (`conf::reuse`). A server's part of a plan is used again if everything that it was made of is the same: the model's server
//! with the groups that it leads to, the frame of `http`, the environment, the numbers of variables, and the addresses at
//! which it listens. It keeps its numbers ([`crate::plan::slots`]).
//!
//! Its warnings are kept with it. A server is not kept if lowering it left something in the plan besides locations, proxies and uses of
//! groups. The memory has only what the last plan has.

use crate::base::share::Share;
use crate::lower::route_marks::entries;
use crate::lower::tls::listens_with_tls;
use crate::lower::{LowerOptions, Lowering};
use crate::plan::Plan;
use crate::plan::group::{GroupIndex, GroupPlan, GroupUse, GroupUseId};
use crate::plan::location::LocationPlan;
use crate::plan::proxy::ProxyPlan;
use crate::plan::server::ServerPlan;
use crate::plan::slots::Slots;
use crate::plan::tls::Offers;
use conf::diagnostic::Diagnostic;
use conf::model::{Frame, Http, Server, ServerId, Sticky, Upstream};
use rules::variable::UserVariables;
use std::collections::{HashMap, HashSet};
use std::path::PathBuf;
use std::sync::Arc;

/// Most unused numbers of locations for each used one. With more, the next plan shares nothing and has no gaps.
const GAPS_MAX: usize = 1;
/// Unused numbers that are always permitted.
const GAPS_FREE: usize = 256;

/// What is known of the plan before.
#[derive(Default)]
pub struct LowerMemory(Option<KeptPlan>);

struct KeptPlan {
    frame: Arc<Frame>,
    environment: Environment,
    users: UserVariables,
    /// By the address of the model's server, which is kept with it.
    servers: HashMap<usize, KeptServer>,
    /// By the address of the model's group.
    groups: HashMap<usize, KeptGroup>,
    uses: HashMap<u32, Arc<GroupUse>>,
}

/// What else a plan is made of.
#[derive(Clone, PartialEq)]
struct Environment {
    prefix: PathBuf,
    conf_directory: PathBuf,
    workers: u16,
    share: Share,
    hostname: String,
    has_tls_listener: bool,
}

#[derive(Clone)]
struct KeptServer {
    made_of: Arc<Server>,
    place: ServerPlace,
    plan: Arc<ServerPlan>,
    locations: Vec<(u32, Arc<LocationPlan>)>,
    proxies: Vec<(u32, Arc<ProxyPlan>)>,
    uses: Vec<GroupUseId>,
    wants: WantedData,
    found: Vec<Diagnostic>,
}

/// How a server is reached.
#[derive(Clone, PartialEq)]
struct ServerPlace {
    entries: Vec<String>,
    has_tls: bool,
    offers: Offers,
}

#[derive(Clone)]
struct KeptGroup {
    made_of: Arc<Upstream>,
    index: GroupIndex,
    plan: Arc<GroupPlan>,
    wants: WantedData,
}

/// What templates want of all exchanges.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct WantedData {
    upstream_local: bool,
    sent: bool,
    tls_offers: bool,
    transparent: bool,
}

impl WantedData {
    fn and(self, other: Self) -> Self {
        Self {
            upstream_local: self.upstream_local | other.upstream_local,
            sent: self.sent | other.sent,
            tls_offers: self.tls_offers | other.tls_offers,
            transparent: self.transparent | other.transparent,
        }
    }
}

impl Plan {
    fn wants(&self) -> WantedData {
        WantedData {
            upstream_local: self.wants_upstream_local,
            sent: self.keeps_sent,
            tls_offers: self.wants_tls_offers,
            transparent: self.transparent,
        }
    }

    fn set_wants(&mut self, wants: WantedData) {
        let WantedData { upstream_local, sent, tls_offers, transparent } = wants;
        (self.wants_upstream_local, self.keeps_sent) = (upstream_local, sent);
        (self.wants_tls_offers, self.transparent) = (tls_offers, transparent);
    }

    /// The lengths of the lists that a server may add to.
    fn lengths(&self) -> ListLengths {
        ListLengths {
            guests: self.guests.len(),
            floors: self.floors.len(),
            request_zones: self.request_zones.len(),
            connection_zones: self.connection_zones.len(),
            sinks: self.sinks.len(),
            error_logs: self.error_logs.len(),
            acme_orders: self.acme_orders.len(),
            geo_files: self.geo_files.len(),
        }
    }
}

/// The lengths of the lists of a plan that a server may add to.
#[derive(PartialEq, Eq)]
struct ListLengths {
    guests: usize,
    floors: usize,
    request_zones: usize,
    connection_zones: usize,
    sinks: usize,
    error_logs: usize,
    acme_orders: usize,
    geo_files: usize,
}

/// A plan that shares servers and groups, in the making.
pub(super) struct SharedParts {
    environment: Environment,
    /// The servers of the plan before that are used again, by their index in this one.
    kept: HashMap<usize, KeptServer>,
    /// The groups, with what their templates want; `None` if lowering found something.
    groups: HashMap<GroupIndex, Option<WantedData>>,
    /// The formats that are compiled before the first server.
    formats: Vec<bool>,
    /// The lengths of lists before the first server.
    lengths: ListLengths,
    open_files: usize,
    made: Vec<Made>,
    /// The server that is being lowered.
    now: Made,
}

/// What lowering a server has made.
#[derive(Default)]
struct Made {
    index: usize,
    locations: Vec<u32>,
    proxies: Vec<u32>,
    uses: Vec<GroupUseId>,
    wants: WantedData,
    found: Vec<Diagnostic>,
    /// It refers to something besides locations, proxies and groups that other servers may have added.
    is_entangled: bool,
}

impl SharedParts {
    pub(super) fn note_location(&mut self, id: u32) {
        self.now.locations.push(id);
    }

    pub(super) fn note_proxy(&mut self, id: u32) {
        self.now.proxies.push(id);
    }

    pub(super) fn note_use(&mut self, id: GroupUseId) {
        self.now.uses.push(id);
    }

    /// The server uses a log format.
    pub(super) fn note_format(&mut self, index: usize) {
        self.now.is_entangled |= !self.formats.get(index).copied().unwrap_or(false);
    }

    // An entry behind those of `http` itself may be another server's.

    pub(super) fn note_request_zone(&mut self, index: u32) {
        self.now.is_entangled |= index as usize >= self.lengths.request_zones;
    }

    pub(super) fn note_connection_zone(&mut self, index: u32) {
        self.now.is_entangled |= index as usize >= self.lengths.connection_zones;
    }

    pub(super) fn note_sink(&mut self, index: usize) {
        self.now.is_entangled |= index >= self.lengths.sinks;
    }

    pub(super) fn note_error_log(&mut self, index: usize) {
        self.now.is_entangled |= index >= self.lengths.error_logs;
    }

    pub(super) fn note_open_files(&mut self, index: usize) {
        self.now.is_entangled |= index >= self.open_files;
    }
}

impl Lowering<'_> {
    /// Begins to share: what `http` itself has gets its numbers first, so that they do not depend on servers. Then what can be
    /// used again gets its own numbers back.
    pub(super) fn begin_sharing(&mut self, memory: &LowerMemory) {
        let http = self.http;
        self.access_logs(&http.location.log);
        self.error_log(&http.location.log);
        self.open_files_plan(&http.location.files);
        self.number_zones();
        let environment = self.environment();
        let known = memory.0.as_ref().filter(|kept| {
            Arc::ptr_eq(&kept.frame, &http.frame) && kept.environment == environment && kept.users == self.users
        });
        let mut sharing = SharedParts {
            environment,
            kept: HashMap::new(),
            groups: HashMap::new(),
            formats: self.formats.iter().map(Option::is_some).collect(),
            lengths: self.plan.lengths(),
            open_files: self.open_files.len(),
            made: Vec::new(),
            now: Made::default(),
        };
        if let Some(known) = known {
            sharing.kept = self.kept_servers(http, known);
            self.take_back(known, &mut sharing);
        }
        self.plan.shares = true;
        self.sharing = Some(sharing);
    }

    fn environment(&self) -> Environment {
        let LowerOptions { prefix, workers, share, hostname, conf_directory, .. } = self.options;
        Environment {
            prefix: prefix.clone(),
            conf_directory: conf_directory.clone(),
            workers: *workers,
            share: *share,
            hostname: hostname.clone(),
            has_tls_listener: self.has_tls_listener,
        }
    }

    fn place_of(&self, id: ServerId, server: &Server) -> ServerPlace {
        ServerPlace {
            entries: entries(&self.http.listeners, id, &server.names),
            has_tls: listens_with_tls(&self.http.listeners, id),
            offers: self.offers(id),
        }
    }

    /// The servers that are the same, by their present index.
    fn kept_servers(&self, http: &Http, known: &KeptPlan) -> HashMap<usize, KeptServer> {
        let present: HashSet<usize> = http.upstreams.iter().map(|group| Arc::as_ptr(group) as usize).collect();
        let groups: HashSet<u32> =
            known.groups.iter().filter(|(at, _)| present.contains(at)).map(|(_, group)| group.index.0).collect();
        let has_group = |id: &GroupUseId| known.uses.get(&id.0).is_some_and(|used| groups.contains(&used.group.0));
        let mut kept = HashMap::new();
        for (index, server) in http.servers.iter().enumerate() {
            let Some(found) = known.servers.get(&(Arc::as_ptr(server) as usize)) else { continue };
            if found.place == self.place_of(ServerId(index as u32), server) && found.uses.iter().all(has_group) {
                kept.insert(index, found.clone());
            }
        }
        kept
    }

    /// Puts what the kept servers have into the plan, at its numbers.
    fn take_back(&mut self, known: &KeptPlan, sharing: &mut SharedParts) {
        let kept = || sharing.kept.values();
        let uses: HashSet<u32> = kept().flat_map(|server| &server.uses).map(|id| id.0).collect();
        let uses: HashMap<u32, Arc<GroupUse>> =
            uses.into_iter().filter_map(|id| Some((id, Arc::clone(known.uses.get(&id)?)))).collect();
        let wanted: HashSet<GroupIndex> = uses.values().map(|used| used.group).collect();
        let groups = || known.groups.iter().filter(|(_, group)| wanted.contains(&group.index));
        self.plan.locations = Slots::with(kept().flat_map(|server| server.locations.iter().cloned()));
        self.plan.proxies = Slots::with(kept().flat_map(|server| server.proxies.iter().cloned()));
        self.plan.groups = Slots::with(groups().map(|(_, group)| (group.index.0, Arc::clone(&group.plan))));
        for (at, group) in groups() {
            self.groups.adopt(*at, group.index);
            sharing.groups.insert(group.index, Some(group.wants));
        }
        for (id, used) in &uses {
            self.groups.adopt_use(used, GroupUseId(*id));
        }
        let of_groups = groups().map(|(_, group)| group.wants);
        let wants = kept().map(|server| server.wants).chain(of_groups).fold(self.plan.wants(), WantedData::and);
        self.plan.set_wants(wants);
        self.plan.group_uses = Slots::with(uses);
    }

    /// A server's plan: that of the plan before, if it is the same.
    pub(super) fn shared_server(&mut self, index: usize, server: &Server) -> Arc<ServerPlan> {
        let Some(sharing) = &mut self.sharing else { return Arc::new(self.server(ServerId(index as u32), server)) };
        if let Some(kept) = sharing.kept.get(&index) {
            self.found.extend(kept.found.iter().cloned());
            return Arc::clone(&kept.plan);
        }
        sharing.now = Made { index, is_entangled: server.acme.is_some(), ..Made::default() };
        let (wanted, lengths, found) = (self.plan.wants(), self.plan.lengths(), self.found.len());
        self.plan.set_wants(WantedData::default());
        let plan = Arc::new(self.server(ServerId(index as u32), server));
        let wants = self.plan.wants();
        self.plan.set_wants(wanted.and(wants));
        let is_entangled = self.plan.lengths() != lengths;
        let found = self.found.get(found..).unwrap_or_default().to_vec();
        if let Some(sharing) = &mut self.sharing {
            let made = std::mem::take(&mut sharing.now);
            if !is_entangled && !made.is_entangled {
                sharing.made.push(Made { wants, found, ..made });
            }
        }
        plan
    }

    /// Lowers a group, and notes what its templates want.
    pub(super) fn shared_group(&mut self, upstream: &Upstream) -> Option<GroupIndex> {
        if self.sharing.is_none() {
            return self.group_plan(upstream).map(|plan| self.add_group(plan));
        }
        let (wanted, found) = (self.plan.wants(), self.found.len());
        self.plan.set_wants(WantedData::default());
        let made = self.group_plan(upstream).map(|plan| self.add_group(plan));
        let wants = self.plan.wants();
        self.plan.set_wants(wanted.and(wants));
        let is_silent = self.found.len() == found;
        if let (Some(sharing), Some(index)) = (&mut self.sharing, made) {
            sharing.groups.insert(index, (is_silent && is_simple(upstream)).then_some(wants));
        }
        made
    }

    /// What the next plan can use again.
    pub(super) fn keep(&mut self) -> LowerMemory {
        let Some(sharing) = self.sharing.take() else { return LowerMemory::default() };
        if self.plan.locations.end() > self.plan.locations.iter().count() * (1 + GAPS_MAX) + GAPS_FREE {
            return LowerMemory::default();
        }
        let groups = self.http.upstreams.iter().filter_map(|upstream| {
            let at = Arc::as_ptr(upstream) as usize;
            let index = self.groups.index_of(at)?;
            let (wants, plan) = ((*sharing.groups.get(&index)?)?, Arc::clone(self.plan.groups.get(index.0)));
            Some((at, KeptGroup { made_of: Arc::clone(upstream), index, plan, wants }))
        });
        let groups: HashMap<usize, KeptGroup> = groups.collect();
        debug_assert!(groups.iter().all(|(at, group)| Arc::as_ptr(&group.made_of) as usize == *at));
        let known: HashSet<GroupIndex> = groups.values().map(|group| group.index).collect();
        let uses = self.plan.group_uses.numbered().filter(|(_, used)| known.contains(&used.group));
        let uses: HashMap<u32, Arc<GroupUse>> = uses.map(|(id, used)| (id, Arc::clone(used))).collect();
        let SharedParts { environment, mut kept, made, .. } = sharing;
        for made in made.into_iter().filter(|made| made.uses.iter().all(|id| uses.contains_key(&id.0))) {
            kept.extend(self.kept_server(made));
        }
        let servers = kept.into_values().map(|server| (Arc::as_ptr(&server.made_of) as usize, server)).collect();
        let (frame, users) = (Arc::clone(&self.http.frame), self.users.clone());
        LowerMemory(Some(KeptPlan { frame, environment, users, servers, groups, uses }))
    }

    fn kept_server(&self, made: Made) -> Option<(usize, KeptServer)> {
        let Made { index, locations, proxies, uses, wants, found, .. } = made;
        let made_of = Arc::clone(self.http.servers.get(index)?);
        let place = self.place_of(ServerId(index as u32), &made_of);
        let (locations_of, proxies_of) = (&self.plan.locations, &self.plan.proxies);
        let kept = KeptServer {
            made_of,
            place,
            plan: Arc::clone(self.plan.servers.get(index)?),
            locations: locations.into_iter().map(|id| (id, Arc::clone(locations_of.get(id)))).collect(),
            proxies: proxies.into_iter().map(|id| (id, Arc::clone(proxies_of.get(id)))).collect(),
            uses,
            wants,
            found,
        };
        Some((index, kept))
    }
}

impl ServerPlan {
    /// Whether handshakes with its certificates keep offers in another way.
    pub(super) fn differs_in_offers(&self, keep: bool) -> bool {
        self.tls.as_deref().is_some_and(|tls| tls.keep_offers != keep)
    }
}

/// Whether a group leaves nothing in the plan that depends on the proxies that use it.
fn is_simple(upstream: &Upstream) -> bool {
    let settings = &upstream.settings;
    settings.health_check.is_none()
        && settings.keepalive.floor == 0
        && !matches!(settings.sticky, Some(Sticky::Learn { .. }))
}

#[cfg(test)]
pub(crate) mod tests;
