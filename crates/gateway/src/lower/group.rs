//! Upstream groups: addresses, balance, and the keys under which the pool knows them.

use super::Lowering;
use crate::generation::{GroupPlan, PeerPlan};
use conf::diagnostic::Diagnostic;
use conf::model::{Balance, Upstream, UpstreamId, UpstreamServer};
use reactor::PeerAddress;
use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;
use upstream::balance::{Group, Method, PeerHealth, PeerSpec};
use upstream::shared::{GroupId, GroupLimits, KeyId, PeerId, PeerLimits, PoolKey};

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
pub(super) struct Groups(HashMap<GroupUse, Arc<GroupPlan>>);

impl Lowering<'_> {
    /// The group of a proxy; the same for all proxies that use it alike.
    pub(super) fn group(&mut self, used: GroupUse) -> Option<Arc<GroupPlan>> {
        if let Some(plan) = self.groups.0.get(&used) {
            return Some(Arc::clone(plan));
        }
        let upstream = self.http.upstreams.get(used.upstream.0 as usize)?;
        let group = self.intern_group(upstream)?;
        let status = &self.options.shared.status;
        let cells = status.group(&upstream.name, group);
        let (mut peers, mut members) = (Vec::new(), Vec::new());
        for server in &upstream.servers {
            self.refuse_parameters(server);
            for address in self.addresses(&server.address.address, Some(server.span)) {
                let Some((peer, key)) = self.intern_peer(group, &used, server, &address) else { continue };
                let health = self.health(upstream, &address);
                members.push((peer_spec(server), health));
                let name = address.to_string();
                let cells = status.peer(&upstream.name, &name, peer);
                peers.push(PeerPlan { name: name.into_bytes().into(), address, key, cells });
            }
        }
        let balance = Group::new(self.method(upstream), members);
        let queue_timeout = upstream.settings.max_connections.as_ref().map_or(Duration::ZERO, |cap| cap.timeout);
        let plan = Arc::new(GroupPlan { host: used.host.as_slice().into(), peers, balance, queue_timeout, cells });
        self.groups.0.insert(used, Arc::clone(&plan));
        Some(plan)
    }

    fn intern_group(&mut self, upstream: &Upstream) -> Option<GroupId> {
        let settings = &upstream.settings;
        let keepalive = settings.keepalive;
        let cap = settings.max_connections.as_ref();
        if keepalive.floor > 0 {
            let message = "parameter \"floor\" is known but not supported by holdfast yet";
            self.found.push(Diagnostic::error(keepalive.span.unwrap_or(upstream.span), message));
        }
        let limits = GroupLimits {
            idle_per_peer_max: keepalive.per_peer,
            requests_max: settings.keepalive_requests,
            age_max_ms: settings.keepalive_time.as_millis() as u64,
            idle_timeout_ms: settings.keepalive_timeout.as_millis() as u64,
            learn: settings.keepalive_learn,
            connections_max: cap.map(|cap| cap.most),
            connecting_max: cap.and_then(|cap| cap.connecting),
            waiting_max: cap.map_or(0, |cap| cap.queue),
            ..GroupLimits::keepalive(keepalive.idle, keepalive.local, self.options.workers)
        };
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
    ) -> Option<(PeerId, KeyId)> {
        let pool = &self.options.shared.pool;
        let peer = pool_address(address);
        let key = PoolKey {
            group,
            peer: peer.clone(),
            tls: None,
            source: used.source,
            proxy_protocol: false,
            location: used.location.as_deref().map(Into::into),
        };
        let interned =
            pool.intern_peer(group, &peer, &PeerLimits::default()).and_then(|peer| Ok((peer, pool.intern_key(&key)?)));
        match interned {
            Ok(interned) => Some(interned),
            Err(error) => {
                self.found.push(Diagnostic::error(server.span, error.to_string()));
                None
            }
        }
    }

    /// Parameters of `server` that the gateway does not act on yet: accepting them would be a lie.
    fn refuse_parameters(&mut self, server: &UpstreamServer) {
        let parameters = [
            ("resolve", server.resolve),
            ("service", server.service.is_some()),
            ("route", server.route.is_some()),
            ("drain", server.drain),
            ("slow_start", !server.slow_start.is_zero()),
        ];
        for (name, _) in parameters.iter().filter(|(_, is_set)| *is_set) {
            let message = format!("parameter \"{name}\" is known but not supported by holdfast yet");
            self.found.push(Diagnostic::error(server.span, message));
        }
    }

    fn health(&mut self, upstream: &Upstream, address: &PeerAddress) -> Arc<PeerHealth> {
        self.registry.health.health(&upstream.name, &pool_address(address))
    }

    fn method(&mut self, upstream: &Upstream) -> Method {
        if upstream.settings.balance != Balance::RoundRobin {
            // The check refuses their directives until the gateway acts on them.
            self.found.push(Diagnostic::error(upstream.span, "only weighted round robin is supported yet"));
        }
        Method::RoundRobin
    }
}

fn pool_address(address: &PeerAddress) -> upstream::shared::PeerAddress {
    match address {
        PeerAddress::Ip(address) => upstream::shared::PeerAddress::Ip(*address),
        PeerAddress::Unix(path) => upstream::shared::PeerAddress::Unix(path.as_path().into()),
    }
}

fn peer_spec(server: &UpstreamServer) -> PeerSpec {
    PeerSpec {
        weight: server.weight.max(1),
        max_conns: Some(server.max_conns).filter(|&limit| limit > 0),
        max_fails: server.max_fails,
        fail_timeout_ms: server.fail_timeout.as_millis() as u64,
        backup: server.backup,
        down: server.down,
    }
}
