//! The names of upstreams, and the Services behind them.

use crate::endpoints;
use crate::store::Store;
use ingress::{EndpointSource, Name};
use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;

/// Names with their sources.
#[derive(Debug, Default)]
pub(crate) struct EndpointBook {
    sources: BTreeMap<String, EndpointSource>,
    of_service: BTreeMap<Name, BTreeSet<String>>,
    zone: Option<String>,
}

impl EndpointBook {
    /// Adds names; those that are there stay. Returns the Services of the new ones.
    pub(crate) fn add(&mut self, sources: &BTreeMap<String, EndpointSource>) -> BTreeSet<Name> {
        let mut services = BTreeSet::new();
        for (name, source) in sources.iter().filter(|(name, _)| !self.sources.contains_key(*name)).collect::<Vec<_>>() {
            self.sources.insert(name.clone(), source.clone());
            services.insert(source.service.clone());
        }
        if !services.is_empty() {
            self.index();
        }
        services
    }

    /// Removes all names but these.
    pub(crate) fn retain(&mut self, sources: &BTreeMap<String, EndpointSource>) {
        let before = self.sources.len();
        self.sources.retain(|name, _| sources.contains_key(name));
        if self.sources.len() != before {
            self.index();
        }
    }

    fn index(&mut self) {
        self.of_service.clear();
        for (name, source) in &self.sources {
            self.of_service.entry(source.service.clone()).or_default().insert(name.clone());
        }
    }

    /// Sets the zone of this replica; whether it is another.
    pub(crate) fn set_zone(&mut self, zone: Option<String>) -> bool {
        let is_other = self.zone != zone;
        self.zone = zone;
        is_other
    }

    /// The addresses of all names of these Services; `None`: of all Services.
    pub(crate) fn addresses(&self, store: &Store, services: Option<&BTreeSet<Name>>) -> Vec<(String, Vec<SocketAddr>)> {
        let names: Vec<&String> = match services {
            Some(services) => services.iter().filter_map(|service| self.of_service.get(service)).flatten().collect(),
            None => self.sources.keys().collect(),
        };
        let found = names.into_iter().filter_map(|name| {
            let source = self.sources.get(name)?;
            let service = store.cluster.services.get(&source.service).map(|service| &**service);
            let slices = store.slices(&source.service);
            Some((name.clone(), endpoints::addresses(service, &slices, source, self.zone.as_deref())))
        });
        found.collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::references::References;
    use ingress::Kind;
    use serde_json::json;

    #[test]
    fn only_the_names_of_a_changed_service_are_computed() {
        let (mut store, mut book) = (Store::new("p", References::new()), EndpointBook::default());
        for service in ["a", "b"] {
            let meta = json!({"namespace": "shop", "name": service});
            store.put(Kind::Service, json!({"metadata": meta, "spec": {"ports": [{"port": 80}]}})).unwrap();
            let meta = json!({"namespace": "shop", "name": service, "labels": {"kubernetes.io/service-name": service}});
            let slice = json!({"metadata": meta, "addressType": "IPv4", "ports": [{"port": 8080}], "endpoints": [{"addresses": ["10.0.0.1"]}]});
            store.put(Kind::EndpointSlice, slice).unwrap();
        }
        let source = |name| EndpointSource { service: Name::new("shop", name), port: 80, udp: false };
        let sources = BTreeMap::from([("one".to_owned(), source("a")), ("two".to_owned(), source("b"))]);
        let both = BTreeSet::from([Name::new("shop", "a"), Name::new("shop", "b")]);
        assert_eq!(book.add(&sources), both);
        assert!(book.add(&sources).is_empty(), "they are there");
        let of_a = book.addresses(&store, Some(&BTreeSet::from([Name::new("shop", "a")])));
        assert_eq!(of_a, [("one".to_owned(), vec!["10.0.0.1:8080".parse().unwrap()])]);
        assert_eq!(book.addresses(&store, None).len(), 2);
        book.retain(&BTreeMap::new());
        assert!(book.addresses(&store, None).is_empty());
        assert!(book.set_zone(Some("x".into())) && !book.set_zone(Some("x".into())));
    }
}
