//! The Gateway API. Cases have the names of the project's conformance tests where they are about the same.
#![allow(clippy::needless_pass_by_value)] // cases are written as literals

mod admission;
mod filters;
mod http;
mod ingresses;
mod listeners;
mod policies;
mod routes;
mod streams;

use conf::diagnostic::Severity;
use conf::tree::{Block, Directive};
use ingress::cluster::insert;
use ingress::{Cluster, GatewayAddresses, Kind, Level, Settings, Translation, translate};
use serde_json::{Value, json};

/// Objects, and what became of them.
pub(crate) struct World {
    pub(crate) cluster: Cluster,
    pub(crate) settings: Settings,
}

impl World {
    /// A class, a Gateway `infra/gw` with one HTTP listener `http` at port 80 for all namespaces, and a Service `infra/app`
    /// with port 8080.
    pub(crate) fn new() -> Self {
        let mut world = Self::empty();
        world.add(gateway("gw", json!([listener("http", "HTTP", 80)])));
        world
    }

    /// Without a Gateway.
    pub(crate) fn empty() -> Self {
        let mut world = Self { cluster: Cluster::default(), settings: Settings::default() };
        world.add(json!({
            "kind": "GatewayClass",
            "metadata": { "name": "holdfast", "generation": 3 },
            "spec": { "controllerName": "holdfast.dev/gateway" },
        }));
        for namespace in ["infra", "web"] {
            world.add(
                json!({ "kind": "Namespace", "metadata": { "name": namespace, "labels": { "team": namespace } } }),
            );
        }
        world.add(service("app"));
        world.add(service("app2"));
        world
    }

    pub(crate) fn add(&mut self, object: Value) -> &mut Self {
        let cluster = &mut self.cluster;
        let kind = object["kind"].as_str().expect("a kind").to_owned();
        macro_rules! kinds {
            ($($kind:literal => $field:ident,)*) => {
                match kind.as_str() {
                    $($kind => insert(&mut cluster.$field, serde_json::from_value(object).expect($kind)),)*
                    other => panic!("{other}"),
                }
            };
        }
        kinds! {
            "GatewayClass" => gateway_classes,
            "Gateway" => gateways,
            "ListenerSet" => listener_sets,
            "HTTPRoute" => http_routes,
            "GRPCRoute" => grpc_routes,
            "TLSRoute" => tls_routes,
            "TCPRoute" => tcp_routes,
            "UDPRoute" => udp_routes,
            "ReferenceGrant" => reference_grants,
            "BackendTLSPolicy" => backend_tls_policies,
            "Service" => services,
            "Secret" => secrets,
            "Ingress" => ingresses,
            "ConfigMap" => config_maps,
            "Namespace" => namespaces,
        }
        self
    }

    /// An address for each Gateway.
    pub(crate) fn pool(&mut self, addresses: &[&str]) -> &mut Self {
        let addresses = addresses.iter().map(|address| address.parse().expect("an address")).collect();
        self.settings.gateway_addresses = GatewayAddresses::Pool(addresses);
        self
    }

    pub(crate) fn run(&self) -> Outcome {
        let translation = translate(&self.cluster, &self.settings);
        let (_, found) = conf::model::lower(&translation.tree, &translation.sources);
        let errors: Vec<_> = found.iter().filter(|found| found.severity == Severity::Error).collect();
        assert!(errors.is_empty(), "{errors:?}\n{}", print(&translation.tree));
        Outcome { text: print(&translation.tree), translation }
    }

    /// As [`Self::run`]; no object may be refused by the configuration language.
    pub(crate) fn clean(&self) -> Outcome {
        let outcome = self.run();
        let refused: Vec<_> =
            outcome.translation.findings.iter().filter(|finding| finding.level == Level::Refused).collect();
        assert!(refused.is_empty(), "{refused:?}");
        outcome
    }
}

/// A translation, with its tree as text.
pub(crate) struct Outcome {
    pub(crate) text: String,
    pub(crate) translation: Translation,
}

impl Outcome {
    /// The status of an object, by `namespace/name`.
    #[track_caller]
    pub(crate) fn status(&self, kind: Kind, name: &str) -> &Value {
        let mut wishes = self.translation.statuses.iter();
        let wish = wishes.find(|wish| wish.object.kind == kind && wish.object.name.to_string() == name);
        &wish.unwrap_or_else(|| panic!("{kind:?} {name} has no status")).status
    }

    /// Status and reason of a condition of a route at its only parent.
    #[track_caller]
    pub(crate) fn route(&self, kind: Kind, name: &str, condition: &str) -> (String, String) {
        let parents = self.status(kind, name)["parents"].as_array().expect("parents");
        assert_eq!(parents.len(), 1, "{parents:?}");
        condition_of(&parents[0], condition)
    }

    /// Status and reason of a condition of a listener of a Gateway.
    #[track_caller]
    pub(crate) fn listener(&self, gateway: &str, listener: &str, condition: &str) -> (String, String) {
        condition_of(&self.listener_json(gateway, listener), condition)
    }

    #[track_caller]
    pub(crate) fn listener_json(&self, gateway: &str, listener: &str) -> Value {
        let listeners = self.status(Kind::Gateway, gateway)["listeners"].as_array().expect("listeners");
        listeners.iter().find(|each| each["name"] == listener).expect("the listener").clone()
    }

    #[track_caller]
    pub(crate) fn gateway(&self, name: &str, condition: &str) -> (String, String) {
        condition_of(self.status(Kind::Gateway, name), condition)
    }

    /// The part of the text that begins with this line, up to the end of its block.
    #[track_caller]
    pub(crate) fn block(&self, head: &str) -> String {
        let mut lines = self.text.lines().skip_while(|line| line.trim_start() != head);
        let first = lines.next().unwrap_or_else(|| panic!("no {head:?} in\n{}", self.text));
        let indent = first.len() - first.trim_start().len();
        let end = format!("{}}}", " ".repeat(indent));
        let inner = lines.take_while(|line| **line != end).map(|line| line[indent..].to_owned() + "\n");
        inner.collect()
    }

    #[track_caller]
    pub(crate) fn has(&self, line: &str) {
        assert!(self.text.lines().any(|each| each.trim() == line), "no {line:?} in\n{}", self.text);
    }

    #[track_caller]
    pub(crate) fn has_not(&self, part: &str) {
        assert!(!self.text.contains(part), "{part:?} in\n{}", self.text);
    }
}

#[track_caller]
pub(crate) fn condition_of(status: &Value, condition: &str) -> (String, String) {
    let conditions = status["conditions"].as_array().unwrap_or_else(|| panic!("no conditions in {status}"));
    let found = conditions.iter().find(|each| each["type"] == condition);
    let found = found.unwrap_or_else(|| panic!("no {condition} in {status}"));
    let word = |key: &str| found[key].as_str().expect("a text").to_owned();
    (word("status"), word("reason"))
}

/// `("True", reason)`
pub(crate) fn yes(reason: &str) -> (String, String) {
    ("True".to_owned(), reason.to_owned())
}

/// `("False", reason)`
pub(crate) fn no(reason: &str) -> (String, String) {
    ("False".to_owned(), reason.to_owned())
}

pub(crate) fn gateway(name: &str, listeners: Value) -> Value {
    json!({
        "kind": "Gateway",
        "metadata": { "name": name, "namespace": "infra", "generation": 7, "creationTimestamp": "2026-01-01T00:00:00Z" },
        "spec": { "gatewayClassName": "holdfast", "listeners": listeners },
    })
}

pub(crate) fn listener(name: &str, protocol: &str, port: u16) -> Value {
    json!({
        "name": name, "protocol": protocol, "port": port,
        "allowedRoutes": { "namespaces": { "from": "All" } },
    })
}

/// With further fields.
pub(crate) fn with(mut object: Value, more: Value) -> Value {
    let Value::Object(more) = more else { panic!("no fields: {more}") };
    for (key, value) in more {
        object[key] = value;
    }
    object
}

pub(crate) fn service(name: &str) -> Value {
    json!({
        "kind": "Service",
        "metadata": { "name": name, "namespace": "infra" },
        "spec": { "ports": [{ "name": "http", "port": 8080 }, { "name": "dns", "port": 53, "protocol": "UDP" }] },
    })
}

/// An `HTTPRoute` `infra/NAME` at the Gateway `gw`.
pub(crate) fn route(name: &str, rules: Value) -> Value {
    route_of("HTTPRoute", name, json!({ "rules": rules }))
}

pub(crate) fn route_of(kind: &str, name: &str, spec: Value) -> Value {
    let parents = json!({ "parentRefs": [{ "name": "gw" }] });
    json!({
        "kind": kind,
        "metadata": { "name": name, "namespace": "infra", "generation": 2, "creationTimestamp": "2026-01-02T00:00:00Z" },
        "spec": with(parents, spec),
    })
}

/// A rule for a path prefix with the Service `app`.
pub(crate) fn rule(prefix: &str) -> Value {
    json!({
        "matches": [{ "path": { "type": "PathPrefix", "value": prefix } }],
        "backendRefs": [{ "name": "app", "port": 8080 }],
    })
}

pub(crate) fn certificate(namespace: &str, name: &str) -> Value {
    use base64::Engine as _;
    let encode = |text: &str| base64::engine::general_purpose::STANDARD.encode(text);
    json!({
        "kind": "Secret",
        "metadata": { "name": name, "namespace": namespace },
        "type": "kubernetes.io/tls",
        "data": {
            "tls.crt": encode("-----BEGIN CERTIFICATE-----\nMA==\n-----END CERTIFICATE-----\n"),
            "tls.key": encode("-----BEGIN PRIVATE KEY-----\nMA==\n-----END PRIVATE KEY-----\n"),
        },
    })
}

pub(crate) fn authority(name: &str) -> Value {
    json!({
        "kind": "ConfigMap",
        "metadata": { "name": name, "namespace": "infra" },
        "data": { "ca.crt": "-----BEGIN CERTIFICATE-----\nMA==\n-----END CERTIFICATE-----\n" },
    })
}

/// The tree as text. Words are written as they are.
fn print(block: &Block) -> String {
    let mut out = String::new();
    block.directives.iter().for_each(|directive| write(directive, 0, &mut out));
    out
}

fn write(directive: &Directive, indent: usize, out: &mut String) {
    let words = std::iter::once(&directive.name).chain(&directive.args);
    let words: Vec<_> = words.map(|word| if word.value.is_empty() { "\"\"".into() } else { word.text() }).collect();
    let pad = " ".repeat(indent);
    let line = [pad.as_str(), &words.join(" ")].concat();
    match &directive.block {
        None => out.extend([line.as_str(), ";\n"]),
        Some(block) => {
            out.extend([line.as_str(), " {\n"]);
            block.directives.iter().for_each(|inner| write(inner, indent + 4, out));
            out.extend([pad.as_str(), "}\n"]);
        }
    }
}
