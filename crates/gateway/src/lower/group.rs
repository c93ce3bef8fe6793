//! Upstream groups: addresses, balance, sessions, checks.

use crate::base::share::Share;
use crate::lower::Lowering;
use crate::plan::check::CheckPlan;
use crate::plan::group::{GroupIndex, GroupPlan, GroupServerPlan, GroupUse, GroupUseId, Sharing};
use crate::plan::slots::Slots;
use crate::plan::sticky::{CookiePlan, LearnPlan, StickyPlan, is_same_site, zone_of_another};
use crate::plan::upstream_tls::UpstreamTlsPlan;
use conf::diagnostic::Diagnostic;
use conf::model::{Balance, HealthCheck, RandomPick, Sticky, TimeMeasure, Upstream, UpstreamServer};
use rules::template::Template;
use rules::variable::{FieldName, Scope};
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;
use upstream::balance::{Checked, Measure, Method, PeerSpec};
use upstream::shared::GroupLimits;

/// Groups that were lowered already.
#[derive(Default)]
pub(super) struct Groups {
    /// By the address of the model's group.
    indices: HashMap<usize, Option<GroupIndex>>,
    uses: HashMap<(GroupIndex, Sharing), GroupUseId>,
    /// The group of all peers that only requests name.
    pub(super) guests: Option<GroupIndex>,
    /// TLS of the first proxy that uses a group, and whether that proxy names the group without variables; `None` if
    /// another proxy of that kind uses the group without TLS.
    tls: HashMap<GroupIndex, (bool, Option<UpstreamTlsPlan>)>,
}

impl Groups {
    fn note_tls(&mut self, group: GroupIndex, is_fixed: bool, tls: Option<&UpstreamTlsPlan>) {
        let (was_fixed, noted) = self.tls.entry(group).or_insert_with(|| (is_fixed, tls.cloned()));
        if is_fixed && !*was_fixed {
            (*was_fixed, *noted) = (true, tls.cloned());
        } else if is_fixed == *was_fixed && tls.is_none() {
            *noted = None;
        }
    }

    /// The number of a group that was lowered, by the address of the model's group.
    pub(super) fn index_of(&self, at: usize) -> Option<GroupIndex> {
        self.indices.get(&at).copied().flatten()
    }

    /// Adds a group of the plan before.
    pub(super) fn adopt(&mut self, at: usize, index: GroupIndex) {
        self.indices.insert(at, Some(index));
    }

    /// Adds a use of such a group.
    pub(super) fn adopt_use(&mut self, used: &GroupUse, id: GroupUseId) {
        self.uses.insert((used.group, used.sharing.clone()), id);
    }

    /// Peers are checked in the way that requests reach them: over TLS if all proxies of their group use it.
    pub(super) fn secure_checks(&mut self, groups: &mut Slots<GroupPlan>) {
        for (index, (_, tls)) in self.tls.drain() {
            if let (Some(tls), Some(group)) = (tls, groups.entry_mut(index.0))
                && let Some(check) = group.check.as_mut().and_then(Arc::get_mut)
            {
                check.use_tls(&tls);
            }
        }
    }
}

impl Lowering<'_> {
    /// A group as a proxy uses it; the same for all proxies that share its connections.
    pub(super) fn group_use(&mut self, upstream: &Arc<Upstream>, sharing: Sharing) -> Option<GroupUseId> {
        let at = Arc::as_ptr(upstream) as usize;
        let known = self.groups.indices.get(&at).copied();
        let group = known.unwrap_or_else(|| {
            let made = self.shared_group(upstream);
            self.groups.indices.insert(at, made);
            made
        });
        Some(self.use_of(group?, sharing))
    }

    /// Notes how a proxy speaks to the peers of a group, since checks do the same. A URL with variables may lead
    /// anywhere, so it counts less.
    pub(super) fn note_tls(&mut self, used: GroupUseId, is_fixed: bool, tls: Option<&UpstreamTlsPlan>) {
        if let Some(used) = self.plan.group_uses.find(used.0) {
            self.groups.note_tls(used.group, is_fixed, tls);
        }
    }

    pub(super) fn add_group(&mut self, plan: GroupPlan) -> GroupIndex {
        GroupIndex(self.plan.groups.push(plan))
    }

    pub(super) fn use_of(&mut self, group: GroupIndex, sharing: Sharing) -> GroupUseId {
        let uses = &mut self.plan.group_uses;
        let id = *self
            .groups
            .uses
            .entry((group, sharing.clone()))
            .or_insert_with(|| GroupUseId(uses.push(GroupUse { group, sharing })));
        if let Some(sharing) = &mut self.sharing {
            sharing.note_use(id);
        }
        id
    }

    pub(super) fn group_plan(&mut self, upstream: &Upstream) -> Option<GroupPlan> {
        let settings = &upstream.settings;
        let limits = self.group_limits(upstream);
        let (method, hash_key) = self.method(upstream);
        let sticky = settings.sticky.as_ref().map(|sticky| self.sticky(upstream, sticky));
        let queue_timeout = match (&settings.queue, &settings.max_connections) {
            (Some(queue), _) => queue.timeout,
            (None, cap) => cap.as_ref().map_or(Duration::ZERO, |cap| cap.timeout),
        };
        let check = settings.health_check.as_ref();
        Some(GroupPlan {
            name: self.group_name(upstream).into(),
            span: upstream.span,
            limits,
            method,
            hash_key,
            sticky,
            queue_length: settings.queue.map(|queue| self.options.share.divide(queue.length)),
            queue_timeout,
            http2_ping: settings.http2_ping.map(|ping| (ping.interval, ping.timeout)),
            check: check.map(|written| Arc::new(CheckPlan::new(&upstream.name, written))),
            newcomer: check.map_or(Checked::Healthy, newcomer),
            servers: self.group_servers(upstream)?,
        })
    }

    /// A group of `stream` differs from the one with the same name in `http`.
    fn group_name(&self, upstream: &Upstream) -> String {
        match self.scope {
            Scope::Http => upstream.name.clone(),
            Scope::Stream => format!("stream:{}", upstream.name),
        }
    }

    fn group_servers(&mut self, upstream: &Upstream) -> Option<Vec<GroupServerPlan>> {
        // If the resolver is missing, the check has already reported it.
        let resolves = upstream.servers.iter().any(|server| server.resolve);
        let resolver = if resolves { Some(self.resolver_of(upstream)?) } else { None };
        let servers = upstream.servers.iter().map(|server| GroupServerPlan {
            spec: peer_spec(server, self.options.share),
            text: server.address.text.as_str().into(),
            span: server.span,
            route: server.route.clone(),
            source: self.address_source(server, resolver.as_ref()),
        });
        Some(servers.collect())
    }

    fn group_limits(&mut self, upstream: &Upstream) -> GroupLimits {
        let settings = &upstream.settings;
        let keepalive = settings.keepalive;
        let cap = settings.max_connections.as_ref();
        let share = self.options.share;
        let limits = GroupLimits {
            idle_per_peer_max: keepalive.per_peer.map(|most| share.divide(most)),
            requests_max: settings.keepalive_requests,
            age_max_ms: settings.keepalive_time.as_millis() as u64,
            idle_timeout_ms: settings.keepalive_timeout.as_millis() as u64,
            learn: settings.keepalive_learn,
            connections_max: cap.map(|cap| share.divide(cap.most)),
            connecting_max: cap.and_then(|cap| cap.connecting).map(|most| share.divide(most)),
            waiting_max: share.divide(cap.map_or(0, |cap| settings.queue.map_or(cap.queue, |queue| queue.length))),
            ..GroupLimits::keepalive(keepalive.idle, keepalive.local, self.options.workers)
        };
        self.check_limits(upstream, &limits);
        limits
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

    fn sticky(&mut self, upstream: &Upstream, sticky: &Sticky) -> StickyPlan {
        match sticky {
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
                let owns = |group: &Arc<GroupPlan>| group.sticky.as_ref().and_then(StickyPlan::zone) == Some(zone);
                if self.plan.groups.iter().any(owns) {
                    self.found.push(zone_of_another(zone, upstream.span));
                }
                StickyPlan::Learn(Box::new(LearnPlan {
                    create: self.templates(create),
                    lookup: self.templates(lookup),
                    zone: zone.clone(),
                    zone_bytes: *zone_bytes,
                    timeout: *timeout,
                    at_header: *header,
                }))
            }
            Sticky::Header(name) => StickyPlan::Header { name: FieldName::new(name), written: name.as_bytes().into() },
        }
    }

    fn templates(&mut self, written: &[conf::value::Template]) -> Vec<Template> {
        written.iter().map(|template| self.template(template)).collect()
    }
}

fn measure(written: TimeMeasure) -> Measure {
    match written {
        TimeMeasure::Header => Measure::Header,
        TimeMeasure::LastByte => Measure::LastByte,
        TimeMeasure::Connect => Measure::Connect,
        TimeMeasure::FirstByte => Measure::FirstByte,
    }
}

/// The health state of a new peer.
fn newcomer(check: &HealthCheck) -> Checked {
    if check.mandatory { Checked::Pending } else { Checked::Healthy }
}

fn peer_spec(server: &UpstreamServer, share: Share) -> PeerSpec {
    PeerSpec {
        weight: server.weight.max(1),
        max_conns: Some(share.divide(server.max_conns)).filter(|&limit| limit > 0),
        max_fails: server.max_fails,
        fail_timeout_ms: server.fail_timeout.as_millis() as u64,
        backup: server.backup,
        down: server.down,
        drain: server.drain,
        slow_start_ms: server.slow_start.as_millis() as u64,
    }
}
