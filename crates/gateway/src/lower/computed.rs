//! Names that are looked up at run time: `resolver`, groups with `resolve`, and `proxy_pass` with variables.

use crate::lower::Lowering;
use crate::lower::group::GroupUse;
use crate::plan::computed::{ComputedPlan, KnownGroup, PassingSets};
use crate::plan::generation::{Content, PassUriPlan};
use crate::registry::group::{GroupPlan, Members, PeerSet};
use crate::registry::names::keys::KeyHold;
use crate::registry::names::moving::{AddressSource, MovingGroup, Passing, Recipe, ServerRecipe, Use};
use crate::registry::names::{Question, ResolverPlan};
use conf::diagnostic::Diagnostic;
use conf::model::{LocationSettings, Resolver, Upstream, UpstreamId, UpstreamServer};
use conf::source::Span;
use conf::value::{Host, Template};
use reactor::PeerAddress;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use upstream::balance::{Group, Method, SeatLine};
use upstream::shared::{GroupId, GroupLimits};

/// The group of the pool in which all connections are that only requests have named. Who names the same address uses the
/// same connections, as far as `proxy_bind` allows.
const PASSING: &str = "proxy_pass with variables";

impl Lowering<'_> {
    fn resolver(&mut self, written: &Resolver, timeout: Duration) -> Arc<ResolverPlan> {
        let mut servers = Vec::new();
        for server in &written.servers {
            servers.extend(self.addresses(server, Some(written.span)).into_iter().filter_map(
                |address| match address {
                    PeerAddress::Ip(address) => Some(address),
                    PeerAddress::Unix(_) => None,
                },
            ));
        }
        Arc::new(ResolverPlan {
            servers,
            // `valid=0` means what the answers say.
            valid_ms: written.valid.map(|valid| valid.as_millis() as u64).filter(|&valid| valid > 0),
            ipv4: written.ipv4,
            ipv6: written.ipv6,
            timeout_ms: timeout.as_millis() as u64,
            zone: written.status_zone.as_deref().map(Into::into),
        })
    }

    /// The resolver of a group: its own, or that of `http`.
    fn resolver_of(&mut self, upstream: &Upstream) -> Option<Arc<ResolverPlan>> {
        let settings = &upstream.settings;
        if let Some(own) = &settings.resolver {
            return Some(self.resolver(own, settings.resolver_timeout));
        }
        let http = Arc::clone(&self.http.location.client);
        http.resolver.as_ref().map(|outer| self.resolver(outer, http.resolver_timeout))
    }

    /// Who makes the peers of a group with `resolve` anew; `None` for a group whose peers stay.
    pub(super) fn moving(
        &mut self,
        id: UpstreamId,
        group: GroupId,
        method: Method,
        line: Option<Arc<SeatLine>>,
    ) -> Option<Arc<MovingGroup>> {
        let upstream = self.http.upstreams.get(id.0 as usize)?;
        if !upstream.servers.iter().any(|server| server.resolve) {
            return None;
        }
        if let Some(known) = self.groups.moving.get(&id) {
            return Some(Arc::clone(known));
        }
        // Without one the check has said so.
        let resolver = self.resolver_of(upstream)?;
        let servers = upstream.servers.iter().map(|server| ServerRecipe {
            spec: crate::lower::group::peer_spec(server),
            text: server.address.text.as_str().into(),
            route: server.route.clone(),
            source: self.source(server, &resolver),
        });
        let servers = servers.collect();
        let moving = MovingGroup::new(Recipe {
            sticky: upstream.settings.sticky.is_some(),
            line,
            checked: upstream.settings.health_check.as_ref().map(crate::lower::group::newcomer),
            ..self.recipe(&upstream.name, group, method, servers)
        });
        moving.follow();
        self.groups.moving.insert(id, Arc::clone(&moving));
        Some(moving)
    }

    fn source(&mut self, server: &UpstreamServer, resolver: &Arc<ResolverPlan>) -> AddressSource {
        let address = &server.address.address;
        match &address.host {
            Host::Name(name) if server.resolve => {
                let question = Question {
                    resolver: Arc::clone(resolver),
                    name: name.strip_suffix('.').unwrap_or(name).into(),
                    service: server.service.as_deref().map(Into::into),
                };
                AddressSource::Name(Arc::new(question), address.port)
            }
            _ => AddressSource::Fixed(self.addresses(address, Some(server.span))),
        }
    }

    fn recipe(&self, name: &str, id: GroupId, method: Method, servers: Vec<ServerRecipe>) -> Recipe {
        let health = Arc::clone(&self.registry.health);
        Recipe {
            shared: self.options.shared,
            health,
            name: name.into(),
            id,
            method,
            sticky: false,
            line: None,
            checked: None,
            servers,
        }
    }

    /// `proxy_pass` with variables.
    pub(super) fn computed(
        &mut self,
        url: &Template,
        span: Span,
        settings: &Arc<LocationSettings>,
        name: &[u8],
    ) -> Content {
        let binding = self.connect_options(settings, span);
        let of = Use { source: binding.0.source, location: self.pool_of(None, name, &binding.1).map(Into::into) };
        let shared = self.options.shared;
        let Some((group, spare)) = self.passing_group(span, &of) else { return Content::Nothing };
        let cells = shared.status.group(PASSING, group);
        let other = Arc::new(GroupPlan {
            host: Box::default(),
            members: Members::Moving(Mutex::new(Arc::new(PeerSet {
                peers: Vec::new(),
                balance: Arc::new(Group::new(Method::RoundRobin, Vec::new())),
                _holds: Vec::new(),
            }))),
            hash_key: None,
            sticky: None,
            queue_timeout: Duration::ZERO,
            cells,
            moving: None,
        });
        let other = self.plan_with(other, binding.clone(), PassUriPlan::Computed, None, settings, name);
        let mut known = Vec::new();
        for (index, upstream) in self.http.upstreams.iter().enumerate() {
            let server = upstream.servers.first().filter(|_| upstream.implicit);
            let (name_of, port) = match server.map(|server| &server.address.address) {
                None => (upstream.name.to_ascii_lowercase(), None),
                Some(address) => match &address.host {
                    Host::Name(host) => (host.clone(), Some(address.port)),
                    Host::Ip(_) | Host::Unix(_) => continue,
                },
            };
            let used = GroupUse {
                upstream: UpstreamId(index as u32),
                source: binding.0.source,
                location: self.pool_of(Some(UpstreamId(index as u32)), name, &binding.1),
                host: upstream.name.as_bytes().to_vec(),
            };
            let Some(group) = self.group(used) else { continue };
            self.note_floors(UpstreamId(index as u32), &group, &binding, settings.transport.connect_timeout);
            let plan = self.plan_with(group, binding.clone(), PassUriPlan::Computed, port, settings, name);
            known.push(KnownGroup { name: name_of.into(), port, plan });
        }
        let client = Arc::clone(&settings.client);
        let resolver = client.resolver.as_ref().map(|resolver| self.resolver(resolver, client.resolver_timeout));
        Content::Computed(Box::new(ComputedPlan {
            url: self.template(url),
            other,
            known,
            resolver,
            passing: Passing { shared, id: group, of, cells: shared.status.unlisted_peer(), spare },
            sets: Mutex::new(PassingSets::default()),
        }))
    }

    /// The group, and the key that is for all addresses that find no number.
    fn passing_group(&mut self, span: Span, of: &Use) -> Option<(GroupId, KeyHold)> {
        // What nginx keeps for a group by default.
        let limits = GroupLimits::keepalive(32, false, self.options.workers);
        let shared = self.options.shared;
        let group = shared.pool.intern_group(PASSING, &limits);
        match group.and_then(|group| Ok((group, Passing::spare(shared, group, of)?))) {
            Ok(found) => Some(found),
            Err(error) => {
                self.found.push(Diagnostic::error(span, error.to_string()));
                None
            }
        }
    }
}

/// The plan of a group whose peers come out of names.
pub(super) fn moving_plan(
    moving: &Arc<MovingGroup>,
    used: &GroupUse,
    plan: impl FnOnce(Members) -> GroupPlan,
) -> Arc<GroupPlan> {
    let of = Use { source: used.source, location: used.location.as_deref().map(Into::into) };
    let mut plan = plan(Members::Moving(Mutex::new(Arc::new(moving.made_for(&of)))));
    plan.moving = Some(Arc::clone(moving));
    let plan = Arc::new(plan);
    moving.join(&plan, of);
    plan
}
