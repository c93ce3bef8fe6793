//! The objects that are kept, and what a change of one means: a new configuration, other endpoints, or nothing. Pure.

use crate::kinds;
use crate::references::{self, References};
use ingress::{Cluster, Kind, Name, ObjectName};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::hash::{DefaultHasher, Hash as _, Hasher as _};

/// Most objects of one kind. Kubernetes is tested with 10,000 Services and 150,000 Pods; this bounds the memory of a
/// cluster that someone floods.
const OBJECTS_MAX: usize = 200_000;

/// What must be known to write a status.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Written {
    pub(crate) uid: String,
    pub(crate) resource_version: String,
    /// The whole `status`, those of other controllers too.
    pub(crate) status: Value,
}

/// What a change means.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Effect {
    /// The configuration may be another.
    pub(crate) configuration: bool,
    /// The Services that may have other endpoints.
    pub(crate) services: BTreeSet<Name>,
    /// The status of an object changed.
    pub(crate) status: bool,
    /// The zone of this replica may be another.
    pub(crate) zone: bool,
}

impl Effect {
    /// Adds another.
    pub(crate) fn add(&mut self, other: Self) {
        self.configuration |= other.configuration;
        self.status |= other.status;
        self.zone |= other.zone;
        self.services.extend(other.services);
    }
}

/// The objects.
#[derive(Debug, Default)]
pub(crate) struct Store {
    pub(crate) cluster: Cluster,
    written: BTreeMap<ObjectName, Written>,
    /// Of each object without its status and its version: an object that differs in nothing else changes nothing.
    digests: BTreeMap<ObjectName, u64>,
    references: BTreeMap<ObjectName, References>,
    /// How many objects name a Secret or `ConfigMap`.
    named: BTreeMap<(Kind, Name), usize>,
    /// Those that flags name.
    always: References,
    /// Named since [`Store::take_missing`] was called last.
    missing: References,
    /// The slices of each Service.
    slices_of: BTreeMap<Name, BTreeSet<Name>>,
    listed: BTreeSet<Kind>,
    annotations_prefix: String,
}

impl Store {
    pub(crate) fn new(annotations_prefix: &str, always: References) -> Self {
        Self { annotations_prefix: format!("{annotations_prefix}/"), always, ..Self::default() }
    }

    /// Inserts or replaces an object. An error: it does not have the form of its kind, and is left out.
    pub(crate) fn put(&mut self, kind: Kind, object: Value) -> Result<Effect, String> {
        let Some(name) = name_of(&object) else { return Err("an object without a name".to_owned()) };
        if kinds::is_kept_if_named(kind) && !self.is_named(kind, &name) {
            return Ok(self.remove(kind, &name));
        }
        let key = ObjectName { kind, name };
        let digest = digest(&object);
        let is_same = self.digests.get(&key) == Some(&digest);
        if !is_same && !self.digests.contains_key(&key) && self.count(kind) >= OBJECTS_MAX {
            return Err(format!("there are more than {OBJECTS_MAX} objects of the kind {}", kind.word()));
        }
        // The addresses of a Service may be those that are published.
        let has_status = kinds::has_status(kind);
        let mut effect = Effect { status: has_status || kind == Kind::Service, ..Effect::default() };
        if has_status {
            self.written.insert(key.clone(), written(&object));
        }
        let names = references::of(kind, &object, &self.annotations_prefix);
        if kind == Kind::EndpointSlice {
            effect.services.extend(self.unlink(&key.name));
        }
        if let Err(error) = kinds::insert(&mut self.cluster, kind, object) {
            let removed = self.remove(kind, &key.name);
            let was_here = removed != Effect::default();
            effect.add(removed);
            return if was_here { Ok(effect) } else { Err(error.to_string()) };
        }
        if kind == Kind::EndpointSlice {
            effect.services.extend(self.link(&key.name));
        }
        if !is_same {
            if kind != Kind::ConfigMap || self.always.contains(&(kind, key.name.clone())) {
                self.refer(&key, names);
            }
            effect.add(changed(kind, &key.name));
            self.digests.insert(key, digest);
        } else if kind == Kind::EndpointSlice {
            effect.services.clear();
        }
        Ok(effect)
    }

    /// Removes an object.
    pub(crate) fn remove(&mut self, kind: Kind, name: &Name) -> Effect {
        let key = ObjectName { kind, name: name.clone() };
        let mut effect = Effect::default();
        if kind == Kind::EndpointSlice {
            effect.services.extend(self.unlink(name));
        }
        self.written.remove(&key);
        self.refer(&key, References::new());
        self.digests.remove(&key);
        if kinds::remove(&mut self.cluster, kind, name) {
            effect.add(changed(kind, name));
        }
        effect
    }

    /// All objects of a kind were listed: those that are not in the list are gone.
    pub(crate) fn listed(&mut self, kind: Kind, seen: &BTreeSet<Name>) -> Effect {
        let mut effect = Effect::default();
        for name in kinds::names(&self.cluster, kind) {
            if !seen.contains(&name) {
                effect.add(self.remove(kind, &name));
            }
        }
        self.listed.insert(kind);
        effect
    }

    /// Whether a kind was listed once.
    pub(crate) fn is_listed(&self, kind: Kind) -> bool {
        self.listed.contains(&kind)
    }

    /// The kinds that were not listed yet.
    pub(crate) fn unlisted(&self) -> Vec<Kind> {
        Kind::ALL.into_iter().filter(|kind| !self.is_listed(*kind)).collect()
    }

    /// Whether an object or a flag names a Secret or `ConfigMap`.
    pub(crate) fn is_named(&self, kind: Kind, name: &Name) -> bool {
        let key = (kind, name.clone());
        self.named.contains_key(&key) || self.always.contains(&key)
    }

    /// Secrets and `ConfigMap`s that are named since the last call, and are not here: a list or a watch left them out.
    pub(crate) fn take_missing(&mut self) -> References {
        // A kind that is still being listed brings its objects, or leaves them out: that is known when it is listed.
        let all = std::mem::take(&mut self.missing);
        let (known, later): (References, References) = all.into_iter().partition(|(kind, _)| self.is_listed(*kind));
        self.missing = later;
        known.into_iter().filter(|(kind, name)| self.is_named(*kind, name) && !self.has(*kind, name)).collect()
    }

    /// Whether an object is here.
    pub(crate) fn has(&self, kind: Kind, name: &Name) -> bool {
        self.digests.contains_key(&ObjectName { kind, name: name.clone() })
    }

    /// The status of an object as it was seen last.
    pub(crate) fn written(&self, object: &ObjectName) -> Option<&Written> {
        self.written.get(object)
    }

    /// The slices of a Service.
    pub(crate) fn slices(&self, service: &Name) -> Vec<&ingress::objects::core::EndpointSlice> {
        let names = self.slices_of.get(service).into_iter().flatten();
        names.filter_map(|name| self.cluster.endpoint_slices.get(name)).map(|slice| &**slice).collect()
    }

    fn count(&self, kind: Kind) -> usize {
        let first = ObjectName { kind, name: Name::default() };
        if self.digests.len() < OBJECTS_MAX {
            0
        } else {
            self.digests.range(first..).take_while(|(key, _)| key.kind == kind).count()
        }
    }

    /// Replaces what an object names.
    fn refer(&mut self, object: &ObjectName, names: References) {
        for reference in &names {
            let count = self.named.entry(reference.clone()).or_insert(0);
            *count += 1;
            if *count == 1 {
                self.missing.insert(reference.clone());
            }
        }
        let before = if names.is_empty() {
            self.references.remove(object)
        } else {
            self.references.insert(object.clone(), names)
        };
        for reference in before.unwrap_or_default() {
            let Some(count) = self.named.get_mut(&reference) else { continue };
            *count -= 1;
            if *count == 0 {
                self.named.remove(&reference);
                if !self.always.contains(&reference) {
                    // Nothing names it any more, so no configuration depends on it.
                    let (kind, name) = reference;
                    self.digests.remove(&ObjectName { kind, name: name.clone() });
                    kinds::remove(&mut self.cluster, kind, &name);
                }
            }
        }
    }

    fn link(&mut self, slice: &Name) -> Option<Name> {
        let service = service_of(self.cluster.endpoint_slices.get(slice)?)?;
        self.slices_of.entry(service.clone()).or_default().insert(slice.clone());
        Some(service)
    }

    fn unlink(&mut self, slice: &Name) -> Option<Name> {
        let service = service_of(self.cluster.endpoint_slices.get(slice)?)?;
        if let Some(slices) = self.slices_of.get_mut(&service) {
            slices.remove(slice);
            if slices.is_empty() {
                self.slices_of.remove(&service);
            }
        }
        Some(service)
    }
}

fn service_of(slice: &ingress::objects::core::EndpointSlice) -> Option<Name> {
    Some(Name::new(slice.metadata.namespace.as_str(), slice.service()?))
}

/// What a change of an object of a kind means. Endpoints never make a configuration.
fn changed(kind: Kind, name: &Name) -> Effect {
    let configuration = !matches!(kind, Kind::EndpointSlice | Kind::Node);
    let services = if kind == Kind::Service { BTreeSet::from([name.clone()]) } else { BTreeSet::new() };
    Effect { configuration, services, zone: kind == Kind::Node, status: false }
}

/// The name of an object.
pub(crate) fn name_of(object: &Value) -> Option<Name> {
    let metadata = object.get("metadata")?;
    let name = metadata.get("name")?.as_str()?;
    Some(Name::new(metadata.get("namespace").and_then(Value::as_str).unwrap_or_default(), name))
}

fn written(object: &Value) -> Written {
    let text = |key: &str| object["metadata"][key].as_str().unwrap_or_default().to_owned();
    Written { uid: text("uid"), resource_version: text("resourceVersion"), status: object["status"].clone() }
}

/// A digest of an object without what changes with each write. Its status counts for a Service only.
fn digest(object: &Value) -> u64 {
    let mut hasher = DefaultHasher::new();
    for (key, value) in object.as_object().into_iter().flatten() {
        match key.as_str() {
            "status" => {}
            "metadata" => {
                let fields = value.as_object().into_iter().flatten();
                for (key, value) in
                    fields.filter(|(key, _)| !matches!(key.as_str(), "resourceVersion" | "managedFields"))
                {
                    (key, value.to_string()).hash(&mut hasher);
                }
            }
            _ => (key, value.to_string()).hash(&mut hasher),
        }
    }
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn store() -> Store {
        Store::new("nginx.ingress.kubernetes.io", References::from([(Kind::ConfigMap, Name::new("sys", "settings"))]))
    }

    fn object(namespace: &str, name: &str, rest: &Value) -> Value {
        let mut value = json!({"metadata": {"namespace": namespace, "name": name, "uid": "u", "resourceVersion": "1"}});
        for (key, field) in rest.as_object().unwrap() {
            value[key] = field.clone();
        }
        value
    }

    fn slice(name: &str, service: &str, address: &str) -> Value {
        let mut value = object("shop", name, &json!({"addressType": "IPv4", "endpoints": [{"addresses": [address]}]}));
        value["metadata"]["labels"] = json!({"kubernetes.io/service-name": service});
        value
    }

    fn services(effect: &Effect) -> Vec<String> {
        effect.services.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn endpoints_change_no_configuration() {
        let mut store = store();
        let effect = store.put(Kind::EndpointSlice, slice("a-1", "a", "10.0.0.1")).unwrap();
        assert!(!effect.configuration && services(&effect) == ["shop/a"]);
        let again = store.put(Kind::EndpointSlice, slice("a-1", "a", "10.0.0.1")).unwrap();
        assert_eq!(again, Effect::default(), "nothing changed");
        let moved = store.put(Kind::EndpointSlice, slice("a-1", "b", "10.0.0.1")).unwrap();
        assert_eq!(services(&moved), ["shop/a", "shop/b"]);
        assert!(store.slices(&Name::new("shop", "a")).is_empty());
        assert_eq!(services(&store.remove(Kind::EndpointSlice, &Name::new("shop", "a-1"))), ["shop/b"]);
    }

    #[test]
    fn a_slice_without_endpoints_has_nulls() {
        let mut store = store();
        let mut empty = slice("a-1", "a", "10.0.0.1");
        (empty["endpoints"], empty["ports"]) = (Value::Null, Value::Null);
        assert_eq!(services(&store.put(Kind::EndpointSlice, empty).unwrap()), ["shop/a"]);
        assert!(store.slices(&Name::new("shop", "a"))[0].endpoints.is_empty());
    }

    #[test]
    fn a_status_changes_no_configuration() {
        let mut store = store();
        let mut ingress = object("shop", "front", &json!({"spec": {"rules": []}}));
        assert!(store.put(Kind::Ingress, ingress.clone()).unwrap().configuration);
        ingress["status"] = json!({"loadBalancer": {"ingress": [{"ip": "192.0.2.1"}]}});
        ingress["metadata"]["resourceVersion"] = json!("2");
        let effect = store.put(Kind::Ingress, ingress.clone()).unwrap();
        assert_eq!(effect, Effect { status: true, ..Effect::default() });
        let key = ObjectName { kind: Kind::Ingress, name: Name::new("shop", "front") };
        assert_eq!(store.written(&key).unwrap().resource_version, "2");
        ingress["metadata"]["annotations"] = json!({"a": "b"});
        assert!(store.put(Kind::Ingress, ingress).unwrap().configuration);
    }

    #[test]
    fn only_named_secrets_are_kept() {
        let mut store = store();
        let secret = |name: &str| object("shop", name, &json!({"data": {"a": "Yg=="}}));
        assert_eq!(store.put(Kind::Secret, secret("front")).unwrap(), Effect::default());
        assert!(store.cluster.secrets.is_empty());
        store.listed(Kind::Secret, &BTreeSet::new());
        let ingress = object("shop", "front", &json!({"spec": {"tls": [{"secretName": "front"}]}}));
        store.put(Kind::Ingress, ingress).unwrap();
        let missing = store.take_missing();
        assert_eq!(missing, References::from([(Kind::Secret, Name::new("shop", "front"))]));
        assert!(store.put(Kind::Secret, secret("front")).unwrap().configuration);
        assert!(store.take_missing().is_empty());
        store.remove(Kind::Ingress, &Name::new("shop", "front"));
        assert!(store.cluster.secrets.is_empty(), "nothing names it");
    }

    #[test]
    fn the_settings_of_all_name_secrets_too() {
        let mut store = store();
        store.listed(Kind::Secret, &BTreeSet::new());
        let settings = object("sys", "settings", &json!({"data": {"ssl-dh-param": "sys/dh"}}));
        assert!(store.put(Kind::ConfigMap, settings).unwrap().configuration);
        assert_eq!(store.take_missing(), References::from([(Kind::Secret, Name::new("sys", "dh"))]));
    }

    #[test]
    fn list_removes_missing_objects() {
        let mut store = store();
        for name in ["a", "b"] {
            store.put(Kind::Service, object("shop", name, &json!({}))).unwrap();
        }
        let effect = store.listed(Kind::Service, &BTreeSet::from([Name::new("shop", "a")]));
        assert!(effect.configuration && services(&effect) == ["shop/b"]);
        assert!(!store.unlisted().contains(&Kind::Service));
    }

    #[test]
    fn an_object_of_another_form_is_left_out() {
        let mut store = store();
        assert!(store.put(Kind::Service, json!({"spec": {}})).is_err());
        assert!(store.put(Kind::Service, object("shop", "a", &json!({"spec": {"ports": "x"}}))).is_err());
        store.put(Kind::Service, object("shop", "a", &json!({}))).unwrap();
        let effect = store.put(Kind::Service, object("shop", "a", &json!({"spec": {"ports": "x"}}))).unwrap();
        assert!(effect.configuration && store.cluster.services.is_empty(), "the old one is not valid any more");
    }
}
