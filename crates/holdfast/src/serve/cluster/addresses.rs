//! The addresses that Gateways got from the pool, until their statuses come back from the API server. Without them, a Gateway that
//! is made in the same second could take an address that another one has got already.

use ingress::cluster::Objects;
use ingress::objects::gateway::{Gateway, GatewayAddress};
use ingress::{Cluster, Kind, Name, Translation};
use std::collections::BTreeMap;
use std::sync::Arc;

/// By Gateway: its identity and its addresses. As many as there are Gateways.
#[derive(Default)]
pub(super) struct Addresses(BTreeMap<Name, (String, Vec<GatewayAddress>)>);

impl Addresses {
    /// Completes the statuses of Gateways that have no addresses yet, and forgets Gateways that are gone.
    pub(super) fn complete(&mut self, cluster: &mut Cluster) {
        self.0.retain(|name, (uid, addresses)| {
            let found = cluster.gateways.get_mut(name).filter(|gateway| gateway.metadata.uid == *uid);
            let Some(gateway) = found else { return false };
            if gateway.status.addresses.is_empty() {
                Arc::make_mut(gateway).status.addresses.clone_from(addresses);
            }
            true
        });
    }

    /// Notes what a translation has given to these Gateways.
    pub(super) fn note(&mut self, gateways: &Objects<Gateway>, translation: &Translation) {
        for wish in translation.statuses.iter().filter(|wish| wish.object.kind == Kind::Gateway) {
            let name = &wish.object.name;
            let given = serde_json::from_value(wish.status["addresses"].clone()).unwrap_or_default();
            if let Some(gateway) = gateways.get(name) {
                self.0.insert(name.clone(), (gateway.metadata.uid.clone(), given));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ingress::settings::GatewayAddresses;
    use ingress::{Settings, cluster, translate};
    use serde_json::{Value, json};

    /// What each Gateway gets, with the memory of the rounds before.
    fn round(memory: &mut Addresses, gateways: &[&str]) -> Vec<Value> {
        let addresses = [1, 2].map(|last| [192, 0, 2, last].into()).to_vec();
        let settings = Settings { gateway_addresses: GatewayAddresses::Pool(addresses), ..Settings::default() };
        let mut cluster = Cluster::default();
        let class = json!({"metadata": {"name": "c"}, "spec": {"controllerName": settings.gateway_controller}});
        cluster::insert(&mut cluster.gateway_classes, serde_json::from_value(class).unwrap());
        for name in gateways {
            let gateway = json!({
                "metadata": {"name": name, "namespace": "n", "uid": name},
                "spec": {"gatewayClassName": "c", "listeners": [{"name": "l", "port": 80, "protocol": "HTTP"}]},
            });
            cluster::insert(&mut cluster.gateways, serde_json::from_value(gateway).unwrap());
        }
        memory.complete(&mut cluster);
        let translation = translate(&cluster, &settings);
        memory.note(&cluster.gateways, &translation);
        let own = translation.statuses.iter().filter(|wish| wish.object.kind == Kind::Gateway);
        own.map(|wish| wish.status["addresses"][0]["value"].clone()).collect()
    }

    #[test]
    fn a_gateway_keeps_its_address_before_its_status_is_written() {
        let mut memory = Addresses::default();
        assert_eq!(round(&mut memory, &["b"]), ["192.0.2.1"]);
        assert_eq!(round(&mut memory, &["a", "b"]), ["192.0.2.2", "192.0.2.1"]);
        assert_eq!(round(&mut memory, &["a"]), ["192.0.2.2"]);
        assert_eq!(round(&mut Addresses::default(), &["a"]), ["192.0.2.1"]);
    }
}
