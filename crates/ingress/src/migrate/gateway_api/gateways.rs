//! The Gateways and their listeners, and grants for certificates of other namespaces. Routes ask for a listener and get
//! the reference for their `parentRefs`.

use super::{Options, Written, slug};
use crate::{Cluster, Name};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};

const VERSION: &str = "gateway.networking.k8s.io/v1";
/// A Gateway has at most 64 listeners; a host takes up to two.
const HOSTS_OF_ONE: usize = 32;
/// The Secret of a host without a certificate of its own: the operator makes it.
const DEFAULT_CERTIFICATE: &str = "default-certificate";

/// Listeners under construction.
pub(super) struct Gateways<'a> {
    options: &'a Options,
    cluster: &'a Cluster,
    /// The first name of a Gateway -> its hosts in the order of their appearance.
    hosts: BTreeMap<Name, Vec<String>>,
    made: BTreeMap<Name, BTreeMap<String, Listener>>,
    /// Namespaces with Secrets that the one Gateway uses: namespace -> Secrets.
    granted: BTreeMap<String, BTreeSet<String>>,
    comments: Vec<String>,
}

struct Listener {
    object: Value,
    namespaces: BTreeSet<String>,
}

impl<'a> Gateways<'a> {
    pub(super) fn new(cluster: &'a Cluster, options: &'a Options) -> Self {
        Self {
            options,
            cluster,
            hosts: BTreeMap::new(),
            made: BTreeMap::new(),
            granted: BTreeMap::new(),
            comments: Vec::new(),
        }
    }

    /// A listener for plain HTTP.
    pub(super) fn http(&mut self, namespace: &str, host: &str) -> Value {
        self.listener(namespace, host, "http", json!({"port": 80, "protocol": "HTTP"}))
    }

    /// A listener for HTTPS with the certificate of a Secret.
    pub(super) fn https(&mut self, namespace: &str, host: &str, secret: &str) -> Value {
        let name = if secret.is_empty() { DEFAULT_CERTIFICATE } else { secret };
        if secret.is_empty() {
            self.comments.push(format!("{host}: no Secret is named; make {DEFAULT_CERTIFICATE} or name another"));
        }
        let gateway = self.gateway(namespace, host);
        let mut certificate = json!({"kind": "Secret", "name": name});
        if *gateway.namespace != *namespace && !secret.is_empty() {
            certificate["namespace"] = namespace.into();
            self.granted.entry(namespace.to_owned()).or_default().insert(name.to_owned());
        }
        let tls = json!({"mode": "Terminate", "certificateRefs": [certificate.clone()]});
        let reference = self.listener(namespace, host, "https", json!({"port": 443, "protocol": "HTTPS", "tls": tls}));
        // Another Ingress of the host may name another Secret.
        let listener = self.made.get_mut(&gateway).and_then(|all| all.get_mut(&listener_name("https", host)));
        let known = listener.and_then(|it| it.object["tls"]["certificateRefs"].as_array_mut());
        if let Some(known) = known.filter(|known| !known.contains(&certificate)) {
            known.push(certificate);
        }
        reference
    }

    /// A listener that passes TLS through.
    pub(super) fn passthrough(&mut self, namespace: &str, host: &str) -> Value {
        let tls = json!({"mode": "Passthrough"});
        self.listener(namespace, host, "tls", json!({"port": 443, "protocol": "TLS", "tls": tls}))
    }

    /// The Gateway for a host: another one after each 32.
    fn gateway(&mut self, namespace: &str, host: &str) -> Name {
        let own = || Name::new(namespace, self.options.class.as_str());
        let first = self.options.gateway.clone().unwrap_or_else(own);
        let hosts = self.hosts.entry(first.clone()).or_default();
        let at = hosts.iter().position(|known| known == host).unwrap_or_else(|| {
            hosts.push(host.to_owned());
            hosts.len() - 1
        });
        match at / HOSTS_OF_ONE {
            0 => first,
            more => Name::new(&*first.namespace, format!("{}-{}", first.name, more + 1)),
        }
    }

    fn listener(&mut self, namespace: &str, host: &str, kind: &str, mut object: Value) -> Value {
        let gateway = self.gateway(namespace, host);
        let name = listener_name(kind, host);
        object["name"] = name.as_str().into();
        if !host.is_empty() {
            object["hostname"] = host.into();
        }
        let listeners = self.made.entry(gateway.clone()).or_default();
        let listener = listeners.entry(name.clone()).or_insert(Listener { object, namespaces: BTreeSet::new() });
        listener.namespaces.insert(namespace.to_owned());
        let mut reference = json!({"name": &*gateway.name, "sectionName": name});
        if *gateway.namespace != *namespace {
            reference["namespace"] = (*gateway.namespace).into();
        }
        reference
    }

    /// The objects: Gateways, then grants.
    pub(super) fn finish(self) -> Vec<Written> {
        let mut objects = Vec::new();
        let mut comments = self.comments;
        comments.sort();
        comments.dedup();
        for (name, listeners) in self.made {
            let listeners = listeners.into_values().map(|listener| {
                let mut object = listener.object;
                object["allowedRoutes"] = allowed(&name.namespace, &listener.namespaces);
                object
            });
            let object = json!({
                "apiVersion": VERSION,
                "kind": "Gateway",
                "metadata": {"name": &*name.name, "namespace": &*name.namespace},
                "spec": {"gatewayClassName": self.options.class, "listeners": listeners.collect::<Vec<_>>()},
            });
            objects.push(Written { comments: std::mem::take(&mut comments), object });
        }
        let gateway = self.options.gateway.clone().unwrap_or_default();
        for (namespace, secrets) in self.granted {
            let to: Vec<Value> =
                secrets.iter().map(|name| json!({"group": "", "kind": "Secret", "name": name})).collect();
            let absent = secrets
                .iter()
                .filter(|it| !self.cluster.secrets.contains_key(&Name::new(namespace.as_str(), it.as_str())));
            let absent: Vec<_> = absent.map(|it| format!("the Secret {it} was not among the manifests")).collect();
            let object = json!({
                "apiVersion": VERSION,
                "kind": "ReferenceGrant",
                "metadata": {"name": format!("{}-certificates", gateway.name), "namespace": namespace},
                "spec": {
                    "from": [{"group": "gateway.networking.k8s.io", "kind": "Gateway", "namespace": &*gateway.namespace}],
                    "to": to,
                },
            });
            objects.push(Written { comments: absent, object });
        }
        objects
    }
}

fn listener_name(kind: &str, host: &str) -> String {
    if host.is_empty() { kind.to_owned() } else { format!("{kind}-{}", slug(host)).trim_matches('-').to_owned() }
}

/// Namespaces with routes: the Gateway's own, or those with routes for the host, by name.
fn allowed(own: &str, namespaces: &BTreeSet<String>) -> Value {
    if namespaces.len() == 1 && namespaces.contains(own) {
        return json!({"namespaces": {"from": "Same"}});
    }
    let expression = json!({"key": "kubernetes.io/metadata.name", "operator": "In", "values": namespaces});
    json!({"namespaces": {"from": "Selector", "selector": {"matchExpressions": [expression]}}})
}
