//! Canary Ingresses: a second Ingress for the same host and path becomes weights and matches of the first one's rule.

use super::annotations::Annotations;
use super::{Options, routes};
use crate::objects::networking::{HttpIngressPath, Ingress};
use crate::{Cluster, Name};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};

/// ingress-nginx's default of `canary-weight-total`.
const WEIGHT_TOTAL: u32 = 100;

/// The backend of a canary, and who gets it.
#[derive(Debug, Clone)]
pub(super) struct Canary {
    name: Name,
    path: HttpIngressPath,
    header: Option<(String, HeaderRule)>,
    cookie: Option<String>,
    weight: u32,
    total: u32,
}

#[derive(Debug, Clone)]
enum HeaderRule {
    /// The value `always` or `never`.
    Word,
    /// This value.
    Value(String),
    /// A value that this expression matches.
    Pattern(String),
}

/// All canaries by namespace, host and path.
pub(super) struct Canaries {
    waiting: BTreeMap<(String, String, String), Canary>,
    names: BTreeSet<Name>,
    doubled: Vec<(Name, String, String)>,
}

impl Canaries {
    pub(super) fn collect(cluster: &Cluster, options: &Options) -> Self {
        let mut all = Self { waiting: BTreeMap::new(), names: BTreeSet::new(), doubled: Vec::new() };
        for (name, ingress) in &cluster.ingresses {
            let mut annotations = Annotations::new(ingress, &options.annotations_prefix);
            if annotations.is_on("canary") {
                all.names.insert(name.clone());
                all.add(name, ingress, &mut annotations);
            }
        }
        all
    }

    fn add(&mut self, name: &Name, ingress: &Ingress, annotations: &mut Annotations<'_>) {
        let rule = match (annotations.take("canary-by-header-value"), annotations.take("canary-by-header-pattern")) {
            (Some(value), _) => HeaderRule::Value(value.to_owned()),
            (None, Some(pattern)) => HeaderRule::Pattern(pattern.to_owned()),
            (None, None) => HeaderRule::Word,
        };
        let total = annotations.number("canary-weight-total").unwrap_or(WEIGHT_TOTAL).max(1);
        let header = annotations.take("canary-by-header").map(|header| (header.to_owned(), rule));
        let cookie = annotations.take("canary-by-cookie").map(str::to_owned);
        let weight = annotations.number("canary-weight").unwrap_or(0).min(total);
        for rule in &ingress.spec.rules {
            for path in rule.http.iter().flat_map(|http| &http.paths) {
                let (header, cookie) = (header.clone(), cookie.clone());
                let canary = Canary { name: name.clone(), path: path.clone(), header, cookie, weight, total };
                let place = (name.namespace.to_string(), rule.host.clone(), path.path.clone());
                if let Some(former) = self.waiting.insert(place, canary) {
                    let reason = "another canary has the same host and path; nginx uses one";
                    self.doubled.push((former.name, "canary".into(), reason.into()));
                }
            }
        }
    }

    pub(super) fn contains(&self, name: &Name) -> bool {
        self.names.contains(name)
    }

    /// The canary of a path, if there is one.
    pub(super) fn take(&mut self, namespace: &str, host: &str, path: &str) -> Option<Canary> {
        self.waiting.remove(&(namespace.to_owned(), host.to_owned(), path.to_owned()))
    }

    /// Canaries without an Ingress that they belong to.
    pub(super) fn unused(self) -> Vec<(Name, String, String)> {
        let without = self.waiting.into_values().map(|it| {
            let reason = format!("no other Ingress has the path {:?} of this host", it.path.path);
            (it.name, "canary".to_owned(), reason)
        });
        self.doubled.into_iter().chain(without).collect()
    }
}

impl Canary {
    /// The rules instead of one rule with `main`: matches that are more special first.
    pub(super) fn rules(&self, rule: &Value, cluster: &Cluster, comments: &mut Vec<String>) -> Vec<Value> {
        let canary = match routes::backend(&self.name.namespace, &self.path.backend, cluster) {
            Ok(backend) => backend,
            Err(reason) => {
                comments.push(format!("canary {}: {reason}", self.name));
                return vec![rule.clone()];
            }
        };
        let with = |matching: Option<Value>, backends: Value| {
            let mut one = rule.clone();
            one["backendRefs"] = backends;
            if let (Some(matching), Some(matches)) = (matching, one["matches"].as_array_mut()) {
                for it in matches {
                    it["headers"] = json!([matching]);
                }
            }
            one
        };
        let main = rule["backendRefs"].clone();
        let mut rules = Vec::new();
        match &self.header {
            Some((name, HeaderRule::Value(value))) => {
                rules.push(with(Some(exact(name, value)), json!([canary])));
            }
            Some((name, HeaderRule::Pattern(pattern))) => {
                rules.push(with(Some(expression(name, pattern)), json!([canary])));
            }
            Some((name, HeaderRule::Word)) => {
                rules.push(with(Some(exact(name, "always")), json!([canary])));
                rules.push(with(Some(exact(name, "never")), main.clone()));
            }
            None => {}
        }
        if let Some(cookie) = &self.cookie {
            let pattern = |value: &str| format!("^(.*;\\s*)?{}={value}(;.*)?$", escape(cookie));
            rules.push(with(Some(expression("Cookie", &pattern("always"))), json!([canary])));
            rules.push(with(Some(expression("Cookie", &pattern("never"))), main.clone()));
        }
        let mut both = vec![main[0].clone(), canary];
        both[0]["weight"] = (self.total - self.weight).into();
        both[1]["weight"] = self.weight.into();
        rules.push(if self.weight == 0 { rule.clone() } else { with(None, both.into()) });
        comments.push(format!("with the canary {}", self.name));
        rules
    }
}

fn exact(name: &str, value: &str) -> Value {
    json!({"type": "Exact", "name": name, "value": value})
}

fn expression(name: &str, value: &str) -> Value {
    json!({"type": "RegularExpression", "name": name, "value": value})
}

/// The text as an expression for itself.
fn escape(text: &str) -> String {
    let mut escaped = String::new();
    for c in text.chars() {
        if !c.is_ascii_alphanumeric() && c != '_' && c != '-' {
            escaped.push('\\');
        }
        escaped.push(c);
    }
    escaped
}
