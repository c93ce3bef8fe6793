//! Hosts that objects of the Gateway API name at the ports that Ingresses use, too. The oldest object that names a host at a port
//! has it, as among Ingresses and among Gateways; of two objects of one second, the Ingress.

use super::http::{AttachedHttp, hosts, routes_by_listener, spots};
use super::listeners::{Listeners, Protocol};
use crate::ObjectName;
use std::collections::BTreeMap;

/// Which object names a host at a port first.
#[derive(Debug, Default)]
pub(crate) struct Claims(BTreeMap<(u16, String), Claim>);

/// A host at a port.
#[derive(Debug)]
struct Claim {
    /// When the object was created.
    created: String,
    /// A listener's object for its hostname, else the oldest route with the hostname.
    owner: ObjectName,
}

impl Claims {
    /// The claims at these ports, of listeners with these protocols at the addresses of Ingresses.
    pub(super) fn of(ports: [(u16, Protocol); 2], listeners: &Listeners<'_>, routes: &[AttachedHttp<'_>]) -> Self {
        let mut claims = BTreeMap::new();
        let by_listener = routes_by_listener(routes);
        for spot in spots(listeners) {
            let Some(first) = spot.first().and_then(|index| listeners.all.get(*index)) else { continue };
            let port = first.listener.port;
            let is_shared = ports.iter().any(|(shared, protocol)| *shared == port && first.protocol == Some(*protocol));
            if !first.listen.is_empty() || !is_shared {
                continue;
            }
            for host in hosts(&spot, listeners, routes, &by_listener) {
                let Some(plan) = listeners.all.get(host.listener) else { continue };
                let claim = if host.name == plan.hostname {
                    Some(Claim { created: plan.created.to_owned(), owner: plan.owner.clone() })
                } else {
                    // Routes are in order of age, those of one kind before the other.
                    let attached = by_listener.get(&host.listener).into_iter().flatten();
                    let naming = attached.filter_map(|index| routes.get(*index)).filter(|each| each.names(&host));
                    let oldest = naming.min_by_key(|each| each.created());
                    oldest.map(|each| Claim { created: each.created().to_owned(), owner: each.route.name.clone() })
                };
                claims.extend(claim.map(|claim| ((port, host.name), claim)));
            }
        }
        Self(claims)
    }

    /// Whether an object of the Gateway API names the host.
    pub(crate) fn has(&self, port: u16, host: &str) -> bool {
        self.0.contains_key(&(port, host.to_owned()))
    }

    /// The object that named the host before an object that was created at this time.
    pub(crate) fn older(&self, port: u16, host: &str, created: &str) -> Option<&ObjectName> {
        let claim = self.0.get(&(port, host.to_owned()))?;
        (*claim.created < *created).then_some(&claim.owner)
    }
}
