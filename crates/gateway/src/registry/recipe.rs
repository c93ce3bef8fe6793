//! How to build the peers of a group: from the servers of its plan, the addresses of their names, and the process's
//! state of each address. The same for fixed groups and for groups with names.

use crate::plan::group::{AddressSource, GroupPlan, GroupServerPlan, Sharing};
use crate::plan::sticky::sid;
use crate::plan::upstream_tls::SharedName;
use crate::registry::checks::schedule::CheckedPeer;
use crate::registry::group::{BoundPeer, PeerSet};
use crate::registry::names::Found;
use crate::registry::names::keys::{KeyHold, NamedKeys};
use crate::registry::process::Registry;
use reactor::PeerAddress;
use std::net::SocketAddr;
use std::sync::Arc;
use upstream::balance::{Group, HealthRegistry, Member, Ordinals, PeerSpec, SeatLine};
use upstream::shared::{GroupId, PoolKey, TableFull, TlsIdentity};

/// How to build the peers of a group.
pub(crate) struct Recipe {
    pub(crate) registry: &'static Registry,
    pub(crate) health: Arc<HealthRegistry>,
    pub(crate) plan: Arc<GroupPlan>,
    pub(crate) id: GroupId,
    /// The line for requests without an available peer (`queue`).
    pub(crate) line: Option<Arc<SeatLine>>,
}

/// A future peer.
pub(crate) struct Candidate {
    /// Index of its server in the group's plan.
    pub(crate) server: usize,
    pub(crate) address: PeerAddress,
    pub(crate) member: Member,
}

impl Candidate {
    /// The peer for health checks; `None` for one marked `down`.
    pub(crate) fn checked(&self) -> Option<CheckedPeer> {
        let Self { address, member, .. } = self;
        (!member.spec.down).then(|| CheckedPeer { address: address.clone(), health: Arc::clone(&member.health) })
    }
}

impl Recipe {
    /// The future peers, if the names of servers have these addresses.
    pub(crate) fn candidates(&self, found: &[Option<Arc<[Found]>>]) -> Vec<Candidate> {
        let (mut candidates, mut ordinals) = (Vec::new(), Ordinals::default());
        let mut add = |place: usize, server: &GroupServerPlan, address: PeerAddress, spec: PeerSpec| {
            let health = self.health.health(&self.plan.name, &address, ordinals.next(&address), self.plan.newcomer);
            let sid = if self.plan.sticky.is_some() { sid(server.route.as_deref(), &address) } else { Vec::new() };
            let member = Member { spec, server: Arc::clone(&server.text), sid: sid.into(), health };
            candidates.push(Candidate { server: place, address, member });
        };
        for (place, server) in self.plan.servers.iter().enumerate() {
            match &server.source {
                AddressSource::Fixed(addresses) => {
                    for address in addresses {
                        add(place, server, address.clone(), server.spec);
                    }
                }
                AddressSource::Name(_, port) => {
                    let Some(Some(found)) = found.get(place) else { continue };
                    let first = found.iter().map(|one| one.priority).min().unwrap_or(0);
                    for one in found.iter() {
                        let spec = PeerSpec {
                            weight: server.spec.weight.saturating_mul(u32::from(one.weight.max(1))),
                            backup: server.spec.backup || one.priority > first,
                            ..server.spec
                        };
                        add(place, server, PeerAddress::Ip(SocketAddr::new(one.ip, one.port.unwrap_or(*port))), spec);
                    }
                }
            }
        }
        candidates
    }

    /// The peers for one use, without those that the pool has no room for: `refused` gets them.
    pub(crate) fn set(
        &self,
        candidates: &[Candidate],
        sharing: &Sharing,
        balance: Arc<Group>,
        mut refused: impl FnMut(&Candidate, TableFull),
    ) -> PeerSet {
        let (mut peers, mut holds) = (Vec::new(), Vec::new());
        for candidate in candidates {
            let Candidate { address, member, .. } = candidate;
            let name = address.to_string();
            match KeyHold::take(self.registry, &pool_key(self.id, address, sharing)) {
                Ok(hold) => {
                    let ordinal = member.health.ordinal();
                    let cells = self.registry.status.peer(&self.plan.name, &name, ordinal, hold.peer);
                    peers.push(BoundPeer {
                        address: address.clone(),
                        name: name.into_bytes().into(),
                        key: hold.key,
                        is_pooled: true,
                        named: NamedKeys::of(self.registry, self.id, address, sharing),
                        cells,
                    });
                    holds.push(hold);
                }
                Err(error) => refused(candidate, error),
            }
        }
        PeerSet { peers, balance, holds }
    }

    /// The balancer of these peers; it continues the state of the previous one.
    pub(crate) fn group(&self, candidates: &[Candidate], before: Option<&Group>) -> Arc<Group> {
        let members = candidates.iter().map(|candidate| candidate.member.clone()).collect();
        Arc::new(match (before, &self.line) {
            (Some(before), _) => before.succeed(members),
            (None, Some(line)) => Group::new(self.plan.method, members).with_line(line),
            (None, None) => Group::new(self.plan.method, members),
        })
    }
}

/// The key of a peer's connections.
pub(crate) fn pool_key(group: GroupId, address: &PeerAddress, sharing: &Sharing) -> PoolKey {
    PoolKey {
        group,
        peer: address.clone(),
        tls: sharing.tls.as_ref().map(|tls| TlsIdentity {
            server_name: match &tls.name {
                SharedName::Fixed(name) => Some((**name).into()),
                SharedName::Nameless | SharedName::PerRequest => None,
            },
            settings: (*tls.settings).into(),
        }),
        source: sharing.source,
        proxy_protocol: false,
        location: sharing.location.clone(),
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use conf::source::{FileId, Span};
    use upstream::shared::GroupLimits;

    /// A group of one server.
    pub(crate) fn recipe(registry: &'static Registry, name: &str, source: AddressSource) -> Recipe {
        let span = Span { file: FileId(0), start: 0, end: 0 };
        let limits = GroupLimits::keepalive(4, false, 1);
        let id = registry.pool.intern_group(name, &limits).unwrap();
        let server = GroupServerPlan { spec: PeerSpec::default(), text: name.into(), span, route: None, source };
        let plan = GroupPlan { servers: vec![server], ..GroupPlan::without_servers(name, span, limits) };
        Recipe { registry, health: Arc::default(), plan: Arc::new(plan), id, line: None }
    }
}
