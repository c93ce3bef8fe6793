//! A cluster of JSON objects, its translation, and the tree as text.

use conf::tree::{Block, Directive, Word};
use ingress::objects::Object;
use ingress::{Cluster, Level, Settings, Translation, cluster};
use serde_json::{Value, json};
use std::fmt::Write as _;

pub(crate) const PREFIX: &str = "nginx.ingress.kubernetes.io";

/// A cluster under construction.
#[derive(Default)]
pub(crate) struct World {
    pub(crate) cluster: Cluster,
    pub(crate) settings: Settings,
    count: usize,
}

impl World {
    /// Services `a` and `b` with the port 80 in the namespaces `shop` and `other`.
    pub(crate) fn new() -> Self {
        let mut world = Self::default();
        world.settings.watch_ingress_without_class = true;
        for namespace in ["shop", "other"] {
            for name in ["a", "b"] {
                world.service(
                    namespace,
                    name,
                    json!({"clusterIP": "10.0.0.9", "ports": [{"name": "web", "port": 80}]}),
                );
            }
        }
        world
    }

    pub(crate) fn service(&mut self, namespace: &str, name: &str, spec: Value) {
        let value = json!({"metadata": {"namespace": namespace, "name": name}, "spec": spec});
        cluster::insert(&mut self.cluster.services, serde_json::from_value(value).unwrap());
    }

    pub(crate) fn config_map(&mut self, namespace: &str, name: &str, data: Value) {
        let value = json!({"metadata": {"namespace": namespace, "name": name}, "data": data});
        cluster::insert(&mut self.cluster.config_maps, serde_json::from_value(value).unwrap());
    }

    /// Sets the controller's `ConfigMap`.
    pub(crate) fn keys(&mut self, data: Value) -> &mut Self {
        self.settings.config_map = Some(ingress::Name::new("system", "controller"));
        self.config_map("system", "controller", data);
        self
    }

    /// A Secret with values that are given as text.
    pub(crate) fn secret(&mut self, namespace: &str, name: &str, data: &[(&str, &str)]) {
        use base64::Engine as _;
        let encode = |text: &str| base64::engine::general_purpose::STANDARD.encode(text);
        let data: serde_json::Map<String, Value> =
            data.iter().map(|(key, text)| ((*key).to_owned(), json!(encode(text)))).collect();
        let value = json!({"metadata": {"namespace": namespace, "name": name}, "data": data});
        cluster::insert(&mut self.cluster.secrets, serde_json::from_value(value).unwrap());
    }

    pub(crate) fn certificate(&mut self, namespace: &str, name: &str) {
        let pem = "-----BEGIN X-----\n";
        self.secret(namespace, name, &[("tls.crt", pem), ("tls.key", pem), ("ca.crt", pem)]);
    }

    /// An Ingress with annotations (without the prefix) and a specification. Later ones are younger.
    pub(crate) fn ingress(&mut self, name: &str, annotations: Value, spec: Value) -> &mut Self {
        let (namespace, name) = name.split_once('/').unwrap_or(("shop", name));
        let annotations: serde_json::Map<String, Value> = annotations
            .as_object()
            .unwrap()
            .iter()
            .map(|(key, value)| {
                let key = if key.contains('/') { key.clone() } else { format!("{PREFIX}/{key}") };
                (key, value.clone())
            })
            .collect();
        self.count += 1;
        let created = format!("2026-01-01T00:{:02}:{:02}Z", self.count / 60, self.count % 60);
        let metadata =
            json!({"namespace": namespace, "name": name, "annotations": annotations, "creationTimestamp": created});
        let value = json!({"metadata": metadata, "spec": spec});
        cluster::insert(&mut self.cluster.ingresses, serde_json::from_value(value).unwrap());
        self
    }

    pub(crate) fn translate(&self) -> Outcome {
        let translation = ingress::translate(&self.cluster, &self.settings);
        let loaded = conf::load::Loaded::from_tree(translation.tree.clone(), translation.sources.clone());
        let mut found = conf::check(&loaded, conf::table::all());
        found.extend(conf::model::lower(&translation.tree, &translation.sources).1);
        let errors: Vec<_> = found
            .into_iter()
            .filter(|found| found.severity == conf::diagnostic::Severity::Error)
            .map(|found| format!("{}: {}", translation.sources.source(found.span.file).name, found.message))
            .collect();
        assert!(errors.is_empty(), "{errors:#?}\n{}", text(&translation.tree));
        Outcome { text: text(&translation.tree), translation }
    }
}

/// A rule for one path.
pub(crate) fn rule(host: &str, path: &str, service: &str) -> Value {
    typed_rule(host, path, "Prefix", service)
}

pub(crate) fn typed_rule(host: &str, path: &str, kind: &str, service: &str) -> Value {
    let backend = json!({"service": {"name": service, "port": {"number": 80}}});
    json!({"host": host, "http": {"paths": [{"path": path, "pathType": kind, "backend": backend}]}})
}

/// A specification with one rule.
pub(crate) fn one(host: &str, path: &str, service: &str) -> Value {
    json!({"rules": [rule(host, path, service)]})
}

/// A translation without errors.
pub(crate) struct Outcome {
    pub(crate) text: String,
    pub(crate) translation: Translation,
}

impl Outcome {
    /// The body of the server of a host.
    pub(crate) fn server(&self, host: &str) -> String {
        let http = block(&self.translation.tree, "http");
        let name = if host.is_empty() { "_" } else { host };
        let found = http.directives.iter().find(|it| {
            it.name.value == b"server"
                && it.block.as_ref().is_some_and(|block| {
                    block.directives.iter().any(|line| {
                        line.name.value == b"server_name" && line.args.first().is_some_and(|word| word.text() == name)
                    })
                })
        });
        let found = found.unwrap_or_else(|| panic!("no server {host}\n{}", self.text));
        text(found.block.as_ref().unwrap())
    }

    /// The body of a location: `location("shop.test", "= /a")`.
    pub(crate) fn location(&self, host: &str, matcher: &str) -> String {
        let server = self.server(host);
        let start = format!("location {matcher} {{\n");
        let at = server.find(&start).unwrap_or_else(|| panic!("no {start} in\n{server}"));
        let body = &server[at + start.len()..];
        body[..body.find("\n}\n").map_or(0, |end| end + 1)].to_owned()
    }

    pub(crate) fn has_location(&self, host: &str, matcher: &str) -> bool {
        self.server(host).contains(&format!("location {matcher} {{\n"))
    }

    /// Findings of an object at a level or above.
    pub(crate) fn findings(&self, object: &str, level: Level) -> Vec<String> {
        let found = self.translation.findings.iter();
        let found = found.filter(|it| it.object.to_string() == object && it.level >= level);
        found.map(|it| format!("{}: {}", it.reason, it.message)).collect()
    }

    pub(crate) fn assert_quiet(&self) {
        let loud: Vec<_> = self.translation.findings.iter().filter(|it| it.level > Level::Note).collect();
        assert!(loud.is_empty(), "{loud:#?}");
    }
}

fn block<'t>(tree: &'t Block, name: &str) -> &'t Block {
    let found = tree.directives.iter().find(|it| it.name.text() == name);
    found.and_then(|it| it.block.as_deref()).expect("the block exists")
}

/// The tree as text. Words that need no quotes have none.
pub(crate) fn text(block: &Block) -> String {
    let mut out = String::new();
    write_block(&mut out, block, 0);
    out
}

fn write_block(out: &mut String, block: &Block, depth: usize) {
    for Directive { name, args, block, .. } in &block.directives {
        let _ = write!(out, "{:width$}{}", "", quoted(name), width = depth * 4);
        for word in args {
            let _ = write!(out, " {}", quoted(word));
        }
        match block {
            None => out.push_str(";\n"),
            Some(block) => {
                out.push_str(" {\n");
                write_block(out, block, depth + 1);
                let _ = writeln!(out, "{:width$}}}", "", width = depth * 4);
            }
        }
    }
}

fn quoted(word: &Word) -> String {
    let value = word.text();
    let plain = !value.is_empty() && !value.contains([' ', ';', '{', '}', '"', '\'', '\\', '\n', '\r', '\t']);
    if plain { value.into_owned() } else { format!("\"{}\"", value.replace('\\', "\\\\").replace('"', "\\\"")) }
}

/// An object of the cluster must be named by its metadata.
#[test]
fn objects_are_kept_by_name() {
    let world = World::new();
    let (name, service) = world.cluster.services.iter().next().unwrap();
    assert_eq!(*name, service.metadata().key());
}
