//! Manifests as text -> objects. Several documents, lists and JSON are read; kinds that do not concern the migration are
//! counted. Each limit bounds what a text can make of itself: an alias that repeats an alias grows exponentially.

use crate::cluster::insert;
use crate::objects::Object;
use crate::{Cluster, Kind};
use serde::de::DeserializeOwned;
use serde_json::Value;
use serde_saphyr::{Options, alias_limits, budget, options};
use std::collections::BTreeMap;
use std::sync::Arc;

/// One file. The objects of a cluster with 10,000 Ingresses, as kubectl prints them, take about 40 MB.
pub const FILE_BYTES_MAX: usize = 128 << 20;
/// Events of the parser in one file: about three for each line.
const EVENTS_MAX: usize = 20_000_000;
/// Objects of Kubernetes nest below 20 levels; definitions of kinds up to 40.
const DEPTH_MAX: usize = 64;
/// Aliases are for people who write by hand; what they repeat counts as if it had been written.
const ALIASES_MAX: usize = 1_000;
/// Events that aliases may add to a file.
const REPEATED_EVENTS_MAX: usize = 100_000;
/// Lists in lists: `kubectl get --output yaml` writes one level.
const LISTS_MAX: u32 = 4;

/// What was read.
#[derive(Debug, Default)]
pub struct Manifests {
    /// The objects.
    pub cluster: Cluster,
    /// Where each object was found: `KIND NAMESPACE/NAME` -> name of the source.
    pub origins: BTreeMap<String, String>,
    /// Kinds that were left out, with their number.
    pub others: BTreeMap<String, usize>,
    /// Objects that the API server would refuse, and texts that are not YAML: source and reason.
    pub unreadable: Vec<(String, String)>,
}

impl Manifests {
    /// Reads one text; `source` is its name for messages.
    pub fn read(&mut self, source: &str, text: &str) {
        if text.len() > FILE_BYTES_MAX {
            let reason = format!("larger than {} MiB", FILE_BYTES_MAX >> 20);
            self.unreadable.push((source.to_owned(), reason));
            return;
        }
        match serde_saphyr::from_multiple_with_options::<Value>(text, bounds()) {
            Ok(documents) => documents.into_iter().for_each(|document| self.document(source, document, 0)),
            Err(error) => {
                // The first line; a picture of the text follows.
                let message = error.to_string();
                let line = message.lines().next().unwrap_or_default().to_owned();
                self.unreadable.push((source.to_owned(), line));
            }
        }
    }

    fn document(&mut self, source: &str, mut document: Value, depth: u32) {
        crate::objects::without_nulls(&mut document);
        let kind = document["kind"].as_str().unwrap_or_default().to_owned();
        if kind.ends_with("List") && depth < LISTS_MAX {
            if let Some(Value::Array(items)) = document.get_mut("items").map(Value::take) {
                // Items of a list such as IngressList may leave out their kind.
                let kind = kind.trim_end_matches("List");
                for mut item in items {
                    if item["kind"].is_null() && !kind.is_empty() && item.is_object() {
                        item["kind"] = kind.into();
                    }
                    self.document(source, item, depth + 1);
                }
            }
            return;
        }
        self.object(source, &kind, document);
    }

    fn object(&mut self, source: &str, kind: &str, mut object: Value) {
        let known = Kind::ALL.into_iter().find(|known| known.word() == kind);
        let old =
            object["apiVersion"].as_str().is_some_and(|it| it.starts_with("extensions/") || it.ends_with("beta1"));
        if matches!(known, Some(Kind::Ingress | Kind::IngressClass)) && old {
            let version = object["apiVersion"].as_str().unwrap_or_default();
            let reason = format!("{kind} of {version}: no API server since 1.22 reads it; write networking.k8s.io/v1");
            self.unreadable.push((source.to_owned(), reason));
            return;
        }
        let namespaced = !matches!(known, Some(Kind::IngressClass | Kind::Namespace | Kind::Node));
        if namespaced && object["metadata"].is_object() && object["metadata"]["namespace"].is_null() {
            object["metadata"]["namespace"] = "default".into();
        }
        let cluster = &mut self.cluster;
        let read = match known {
            Some(Kind::Ingress) => add(&mut cluster.ingresses, object),
            Some(Kind::IngressClass) => add(&mut cluster.ingress_classes, object),
            Some(Kind::Service) => add(&mut cluster.services, object),
            Some(Kind::Secret) => add(&mut cluster.secrets, with_string_data(object)),
            Some(Kind::ConfigMap) => add(&mut cluster.config_maps, object),
            Some(Kind::Namespace) => add(&mut cluster.namespaces, object),
            _ => {
                if !kind.is_empty() {
                    *self.others.entry(kind.to_owned()).or_insert(0) += 1;
                }
                return;
            }
        };
        match read {
            Ok(name) => {
                self.origins.insert(format!("{kind} {name}"), source.to_owned());
            }
            Err(reason) => self.unreadable.push((source.to_owned(), reason)),
        }
    }
}

fn bounds() -> Options {
    options! {
        budget: budget! {
            max_events: EVENTS_MAX,
            max_nodes: EVENTS_MAX,
            max_documents: EVENTS_MAX,
            max_total_scalar_bytes: FILE_BYTES_MAX,
            max_depth: DEPTH_MAX,
            max_aliases: ALIASES_MAX,
            max_anchors: ALIASES_MAX,
            max_recorded_anchor_events: REPEATED_EVENTS_MAX,
        },
        alias_limits: alias_limits! {
            max_total_replayed_events: REPEATED_EVENTS_MAX,
            max_replay_stack_depth: DEPTH_MAX,
        },
    }
}

/// Adds an object; returns its name.
fn add<T: Object + DeserializeOwned>(
    objects: &mut BTreeMap<crate::Name, Arc<T>>,
    object: Value,
) -> Result<String, String> {
    let name = format!(
        "{}/{}",
        object["metadata"]["namespace"].as_str().unwrap_or_default(),
        object["metadata"]["name"].as_str().unwrap_or_default()
    );
    let name = name.trim_start_matches('/').to_owned();
    let read: T = serde_json::from_value(object).map_err(|error| format!("{} {name}: {error}", T::KIND.word()))?;
    if read.metadata().name.is_empty() {
        return Err(format!("{} without a name", T::KIND.word()));
    }
    insert(objects, read);
    Ok(name)
}

/// `stringData` of a Secret, which the API server turns into `data`.
fn with_string_data(mut object: Value) -> Value {
    use base64::Engine as _;
    let given = object.get_mut("stringData").map(Value::take);
    for (key, value) in given.iter().filter_map(Value::as_object).flatten() {
        let text = value.as_str().unwrap_or_default();
        object["data"][key.as_str()] = base64::engine::general_purpose::STANDARD.encode(text).into();
    }
    object
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Name;
    use std::fmt::Write as _;

    fn read(text: &str) -> Manifests {
        let mut manifests = Manifests::default();
        manifests.read("a.yaml", text);
        manifests
    }

    const INGRESS: &str =
        "apiVersion: networking.k8s.io/v1\nkind: Ingress\nmetadata: {name: a, creationTimestamp: null}\n";

    #[test]
    fn reads_documents_lists_and_json() {
        let text = format!(
            "{INGRESS}---\n# nothing\n---\napiVersion: v1\nkind: List\nitems:\n- kind: Service\n  apiVersion: v1\n  \
             metadata: {{name: s, namespace: x}}\n- kind: Deployment\n---\n\
             {{\"kind\": \"IngressList\", \"items\": [{{\"metadata\": {{\"name\": \"b\", \"namespace\": \"x\"}}}}]}}\n"
        );
        let found = read(&text);
        assert_eq!(found.unreadable, []);
        assert!(found.cluster.ingresses.contains_key(&Name::new("default", "a")));
        assert!(found.cluster.ingresses.contains_key(&Name::new("x", "b")), "{:?}", found.cluster.ingresses.keys());
        assert!(found.cluster.services.contains_key(&Name::new("x", "s")));
        assert_eq!(found.others.get("Deployment"), Some(&1));
        assert_eq!(found.origins.get("Ingress default/a").map(String::as_str), Some("a.yaml"));
    }

    #[test]
    fn an_annotation_that_is_not_a_string_is_reported() {
        let found = read(
            "kind: Ingress\napiVersion: networking.k8s.io/v1\nmetadata: {name: a, annotations: {x: true}}\n---\n\
             kind: Ingress\napiVersion: networking.k8s.io/v1\nmetadata: {name: b}\n",
        );
        assert_eq!(found.unreadable.len(), 1, "{:?}", found.unreadable);
        assert!(found.unreadable[0].1.starts_with("Ingress default/a: "), "{:?}", found.unreadable);
        assert_eq!(found.cluster.ingresses.len(), 1);
    }

    #[test]
    fn old_versions_are_reported() {
        let found = read("apiVersion: extensions/v1beta1\nkind: Ingress\nmetadata: {name: a}\n");
        assert!(found.unreadable[0].1.contains("networking.k8s.io/v1"), "{:?}", found.unreadable);
    }

    #[test]
    fn aliases_that_repeat_aliases_are_refused_at_once() {
        let mut text = "a: &a [x,x,x,x,x,x,x,x,x]\n".to_owned();
        for (name, before) in ('b'..='j').zip('a'..) {
            let nine = vec![format!("*{before}"); 9].join(",");
            let _ = writeln!(text, "{name}: &{name} [{nine}]");
        }
        let began = std::time::Instant::now();
        let found = read(&text);
        assert_eq!(found.unreadable.len(), 1, "{:?}", found.unreadable);
        assert!(began.elapsed() < std::time::Duration::from_secs(30));
    }

    #[test]
    fn deep_nesting_is_refused() {
        for text in ["[".repeat(100_000), "{a: ".repeat(100_000), "- ".repeat(10_000)] {
            assert_eq!(read(&text).unreadable.len(), 1);
        }
    }

    #[test]
    fn secrets_may_be_written_as_text() {
        let found = read("kind: Secret\napiVersion: v1\nmetadata: {name: a}\nstringData: {auth: me}\n");
        assert_eq!(found.cluster.secrets[&Name::new("default", "a")].data["auth"], "bWU=");
    }

    proptest::proptest! {
        #[test]
        fn any_text_is_read_or_refused(text in "[a-z:{}\\[\\]&*|>!#%@`'\" \n-]{0,200}") {
            read(&text);
        }
    }
}
