//! Upstream groups: addresses, balance, and the keys under which the pool knows them.

use crate::lower::{Lowering, Registry};
use crate::plan::sticky::{CookiePlan, LearnPlan, StickyPlan, is_same_site, sid};
use crate::registry::checks::CheckPlan;
use crate::registry::checks::book::{CheckedPeer, CheckedPeers, GroupChecks};
use crate::registry::group::{GroupPlan, Members, PeerPlan, PeerSet};
use crate::registry::names::keys::KeyHold;
use crate::registry::names::moving::{MovingGroup, pool_address};
use conf::diagnostic::Diagnostic;
use conf::model::{Balance, HealthCheck, RandomPick, Sticky, TimeMeasure, Upstream, UpstreamId, UpstreamServer};
use reactor::PeerAddress;
use rules::template::Template;
use rules::variable::FieldName;
use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;
use upstream::balance::{Checked, Group, Measure, Member, Method, Ordinals, PeerSpec, SeatLine, Sessions};
use upstream::shared::{GroupId, GroupLimits, PoolKey};

/// What makes two proxies use the same connections of a group.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct GroupUse {
    pub(super) upstream: UpstreamId,
    /// `proxy_bind`.
    pub(super) source: Option<IpAddr>,
    /// Identity of the location, where the pool is `local`.
    pub(super) location: Option<String>,
    /// `$proxy_host`: it decides no reuse, but it is the plan's.
    pub(super) host: Vec<u8>,
}

/// Groups that were lowered already.
#[derive(Default)]
pub(super) struct Groups {
    plans: HashMap<GroupUse, Arc<GroupPlan>>,
    /// Whose turn it is does not depend on who asks, so it is the same for all uses of a group.
    balances: HashMap<UpstreamId, Arc<Group>>,
    /// Those whose peers come out of names.
    pub(super) moving: HashMap<UpstreamId, Arc<MovingGroup>>,
    /// Those whose peers are checked.
    pub(super) checks: Vec<GroupChecks>,
}

impl Lowering<'_> {
    /// The group of a proxy; the same for all proxies that use it alike.
    pub(super) fn group(&mut self, used: GroupUse) -> Option<Arc<GroupPlan>> {
        if let Some(plan) = self.groups.plans.get(&used) {
            return Some(Arc::clone(plan));
        }
        let upstream = self.http.upstreams.get(used.upstream.0 as usize)?;
        let group = self.intern_group(upstream)?;
        let status = &self.options.shared.status;
        let cells = status.group(&upstream.name, group);
        let (method, hash_key) = self.method(upstream);
        let sticky = upstream.settings.sticky.as_ref().and_then(|sticky| self.sticky(upstream, sticky));
        let queue_timeout = match (&upstream.settings.queue, &upstream.settings.max_connections) {
            (Some(queue), _) => queue.timeout,
            (None, cap) => cap.as_ref().map_or(Duration::ZERO, |cap| cap.timeout),
        };
        let line = self.line(upstream);
        if let Some(line) = &line {
            cells.show_line(line);
        }
        let host = used.host.as_slice().into();
        let plan = |members| GroupPlan { host, members, hash_key, sticky, queue_timeout, cells, moving: None };
        let plan = if let Some(moving) = self.moving(used.upstream, group, method, line.clone()) {
            self.check(upstream, || CheckedPeers::Moving(Arc::clone(&moving)));
            crate::lower::computed::moving_plan(&moving, &used, plan)
        } else {
            let (peers, members, holds) = self.fixed_peers(upstream, group, &used);
            self.check(upstream, || CheckedPeers::Fixed(checked_peers(&peers, &members)));
            let balance = self.groups.balances.entry(used.upstream);
            let balance = Arc::clone(balance.or_insert_with(|| {
                let group = Group::new(method, members);
                Arc::new(if let Some(line) = &line { group.with_line(line) } else { group })
            }));
            Arc::new(plan(Members::Fixed(PeerSet { peers, balance, _holds: holds })))
        };
        self.groups.plans.insert(used, Arc::clone(&plan));
        Some(plan)
    }

    /// Has the peers of a group checked, if its `health_check` says so; they are the same whoever uses it.
    fn check(&mut self, upstream: &Upstream, peers: impl FnOnce() -> CheckedPeers) {
        let Some(written) = &upstream.settings.health_check else { return };
        let known = &mut self.groups.checks;
        if !known.iter().any(|group| *group.plan.group == *upstream.name) {
            known.push(GroupChecks { plan: Arc::new(CheckPlan::new(&upstream.name, written)), peers: peers() });
        }
    }

    /// The peers of addresses that are written, or looked up now.
    fn fixed_peers(
        &mut self,
        upstream: &Upstream,
        group: GroupId,
        used: &GroupUse,
    ) -> (Vec<PeerPlan>, Vec<Member>, Vec<KeyHold>) {
        let status = &self.options.shared.status;
        let (mut peers, mut members, mut holds) = (Vec::new(), Vec::new(), Vec::new());
        let mut ordinals = Ordinals::default();
        for server in &upstream.servers {
            for address in self.addresses(&server.address.address, Some(server.span)) {
                let Some(hold) = self.intern_peer(group, used, server, &address) else { continue };
                let ordinal = ordinals.next(&pool_address(&address));
                members.push(self.member(upstream, server, &address, ordinal));
                let name = address.to_string();
                let cells = status.peer(&upstream.name, &name, ordinal, hold.peer);
                peers.push(PeerPlan { name: name.into_bytes().into(), address, key: hold.key, is_pooled: true, cells });
                holds.push(hold);
            }
        }
        (peers, members, holds)
    }

    /// Where requests wait for which no peer can be chosen. The line of a name is the same in all generations.
    fn line(&mut self, upstream: &Upstream) -> Option<Arc<SeatLine>> {
        let queue = upstream.settings.queue?;
        let shared = self.options.shared;
        let line = self.registry.lines.entry(upstream.name.clone());
        let line = line.or_insert_with(|| Arc::new(SeatLine::new(Box::new(move |token| shared.wake(token)))));
        line.set_waiting_max(queue.length);
        Some(Arc::clone(line))
    }

    fn intern_group(&mut self, upstream: &Upstream) -> Option<GroupId> {
        let settings = &upstream.settings;
        let keepalive = settings.keepalive;
        let cap = settings.max_connections.as_ref();
        let limits = GroupLimits {
            idle_per_peer_max: keepalive.per_peer,
            requests_max: settings.keepalive_requests,
            age_max_ms: settings.keepalive_time.as_millis() as u64,
            idle_timeout_ms: settings.keepalive_timeout.as_millis() as u64,
            learn: settings.keepalive_learn,
            connections_max: cap.map(|cap| cap.most),
            connecting_max: cap.and_then(|cap| cap.connecting),
            waiting_max: cap.map_or(0, |cap| settings.queue.map_or(cap.queue, |queue| queue.length)),
            ..GroupLimits::keepalive(keepalive.idle, keepalive.local, self.options.workers)
        };
        self.check_limits(upstream, &limits);
        match self.options.shared.pool.intern_group(&upstream.name, &limits) {
            Ok(group) => Some(group),
            Err(error) => {
                self.found.push(Diagnostic::error(upstream.span, error.to_string()));
                None
            }
        }
    }

    fn intern_peer(
        &mut self,
        group: GroupId,
        used: &GroupUse,
        server: &UpstreamServer,
        address: &PeerAddress,
    ) -> Option<KeyHold> {
        let key = PoolKey {
            group,
            peer: pool_address(address),
            tls: None,
            source: used.source,
            proxy_protocol: false,
            location: used.location.as_deref().map(Into::into),
        };
        match KeyHold::take(self.options.shared, &key) {
            Ok(hold) => Some(hold),
            Err(error) => {
                self.found.push(Diagnostic::error(server.span, error.to_string()));
                None
            }
        }
    }

    /// What the balancer knows of an address. `ordinal`: its number among those of the group that are equal.
    fn member(&mut self, upstream: &Upstream, server: &UpstreamServer, address: &PeerAddress, ordinal: u32) -> Member {
        let sid = match upstream.settings.sticky {
            Some(_) => sid(server.route.as_deref(), address),
            None => Vec::new(),
        };
        let newcomer = upstream.settings.health_check.as_ref().map_or(Checked::Healthy, newcomer);
        Member {
            spec: peer_spec(server),
            server: server.address.text.as_str().into(),
            sid: sid.into(),
            health: self.registry.health.health(&upstream.name, &pool_address(address), ordinal, newcomer),
        }
    }

    pub(super) fn method(&mut self, upstream: &Upstream) -> (Method, Option<Template>) {
        let method = match &upstream.settings.balance {
            Balance::RoundRobin => Method::RoundRobin,
            Balance::IpHash => Method::IpHash,
            Balance::LeastConn => Method::LeastConn,
            Balance::LeastTime { measure: of, inflight } => {
                Method::LeastTime { measure: measure(*of), inflight: *inflight }
            }
            Balance::Random(RandomPick::One) => Method::Random,
            Balance::Random(RandomPick::TwoLeastConn) => Method::RandomTwoLeastConn,
            Balance::Random(RandomPick::TwoLeastTime(of)) => Method::RandomTwoLeastTime(measure(*of)),
            Balance::Hash { key, consistent } => {
                let method = if *consistent { Method::ConsistentHash } else { Method::Hash };
                return (method, Some(self.template(key)));
            }
        };
        (method, None)
    }

    fn sticky(&mut self, upstream: &Upstream, sticky: &Sticky) -> Option<StickyPlan> {
        Some(match sticky {
            Sticky::Cookie { name, expires, domain, path, httponly, secure, samesite } => {
                let samesite = samesite.as_ref().map(|samesite| self.template(samesite));
                if let Some(value) = samesite.as_ref().and_then(Template::as_constant)
                    && !is_same_site(value)
                {
                    let message = "\"samesite\" of \"sticky cookie\" must be \"strict\", \"lax\" or \"none\"";
                    self.found.push(Diagnostic::error(upstream.span, message));
                }
                StickyPlan::Cookie(Box::new(CookiePlan {
                    name: name.as_bytes().into(),
                    expires: *expires,
                    domain: domain.as_ref().map(|domain| self.template(domain)),
                    path: path.as_ref().map(|path| self.template(path)),
                    samesite,
                    httponly: *httponly,
                    secure: *secure,
                }))
            }
            Sticky::Route(templates) => StickyPlan::Route(self.templates(templates)),
            Sticky::Learn { create, lookup, zone, zone_bytes, timeout, header } => {
                let sessions = self.registry.sessions(zone, &upstream.name, *zone_bytes, *timeout);
                let Some(sessions) = sessions else {
                    let message = format!("the zone \"{zone}\" of \"sticky learn\" belongs to another upstream");
                    self.found.push(Diagnostic::error(upstream.span, message));
                    return None;
                };
                StickyPlan::Learn(Box::new(LearnPlan {
                    create: self.templates(create),
                    lookup: self.templates(lookup),
                    sessions,
                    at_header: *header,
                }))
            }
            Sticky::Header(name) => StickyPlan::Header { name: FieldName::new(name), written: name.as_bytes().into() },
        })
    }

    fn templates(&mut self, written: &[conf::value::Template]) -> Vec<Template> {
        written.iter().map(|template| self.template(template)).collect()
    }
}

impl Registry {
    /// The sessions of a zone: those of the generation before, where it had the zone for the same upstream. `None` if
    /// another upstream has it.
    fn sessions(&mut self, zone: &str, upstream: &str, bytes: u64, timeout: Duration) -> Option<Arc<Sessions>> {
        let timeout_ms = timeout.as_millis() as u64;
        let (owner, sessions) = self.sessions.entry(zone.to_owned()).or_insert_with(|| {
            let sessions = Sessions::new(bytes, timeout_ms);
            (upstream.to_owned(), Arc::new(sessions))
        });
        if owner != upstream {
            return None;
        }
        sessions.reconfigure(bytes, timeout_ms);
        Some(Arc::clone(sessions))
    }
}

fn measure(written: TimeMeasure) -> Measure {
    match written {
        TimeMeasure::Header => Measure::Header,
        TimeMeasure::LastByte => Measure::LastByte,
    }
}

/// What a peer is taken for that nobody knows yet.
pub(super) fn newcomer(check: &HealthCheck) -> Checked {
    if check.mandatory { Checked::Pending } else { Checked::Healthy }
}

/// Those that are asked: not whom the configuration has put down.
fn checked_peers(peers: &[PeerPlan], members: &[Member]) -> Vec<CheckedPeer> {
    let asked = peers.iter().zip(members).filter(|(_, member)| !member.spec.down);
    asked
        .map(|(peer, member)| CheckedPeer { address: peer.address.clone(), health: Arc::clone(&member.health) })
        .collect()
}

pub(super) fn peer_spec(server: &UpstreamServer) -> PeerSpec {
    PeerSpec {
        weight: server.weight.max(1),
        max_conns: Some(server.max_conns).filter(|&limit| limit > 0),
        max_fails: server.max_fails,
        fail_timeout_ms: server.fail_timeout.as_millis() as u64,
        backup: server.backup,
        down: server.down,
        drain: server.drain,
        slow_start_ms: server.slow_start.as_millis() as u64,
    }
}
