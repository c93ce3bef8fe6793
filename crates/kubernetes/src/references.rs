//! The Secrets and `ConfigMap`s that an object names, so that the contents of all others need not be kept. It finds too many
//! rather than too few: whether an object may use a Secret is decided by the translation. Pure.

use ingress::{Kind, Name};
use serde_json::Value;
use std::collections::BTreeSet;

/// Most names that one object can make this replica keep: an Ingress has some. A tenant cannot fill the memory with the
/// Secrets of others by one object.
const NAMES_MAX: usize = 1024;
/// Longest `NAMESPACE/NAME`.
const NAME_BYTES_MAX: usize = 253 * 2 + 1;

/// Names of Secrets and `ConfigMap`s.
pub(crate) type References = BTreeSet<(Kind, Name)>;

/// What an object names.
pub(crate) fn of(kind: Kind, object: &Value, annotations_prefix: &str) -> References {
    let namespace = object["metadata"]["namespace"].as_str().unwrap_or_default();
    let mut found = References::new();
    match kind {
        Kind::Ingress => {
            for tls in object["spec"]["tls"].as_array().into_iter().flatten() {
                add(&mut found, Kind::Secret, namespace, tls["secretName"].as_str());
            }
            let annotations = object["metadata"]["annotations"].as_object().into_iter().flatten();
            for (_, value) in annotations.filter(|(key, _)| key.starts_with(annotations_prefix)) {
                add(&mut found, Kind::Secret, namespace, value.as_str());
                add(&mut found, Kind::ConfigMap, namespace, value.as_str());
            }
        }
        // Only those that flags name are looked at: their values name others.
        Kind::ConfigMap => {
            for value in object["data"].as_object().into_iter().flatten().filter_map(|(_, value)| value.as_str()) {
                if value.contains('/') {
                    add(&mut found, Kind::Secret, namespace, Some(value));
                    add(&mut found, Kind::ConfigMap, namespace, Some(value));
                }
            }
        }
        Kind::Gateway | Kind::ListenerSet | Kind::BackendTlsPolicy => {
            walk(&object["spec"], namespace, false, &mut found, 0);
        }
        _ => {}
    }
    found
}

/// References of the Gateway API: `{kind, name, namespace}`. Lists of certificates mean Secrets without a kind.
fn walk(value: &Value, namespace: &str, of_certificates: bool, found: &mut References, depth: usize) {
    // The API server limits the depth of objects by their schema; no reference is deeper than this.
    const DEPTH_MAX: usize = 12;
    if depth > DEPTH_MAX {
        return;
    }
    match value {
        Value::Array(all) => all.iter().for_each(|one| walk(one, namespace, of_certificates, found, depth + 1)),
        Value::Object(fields) => {
            let kind = match fields.get("kind").and_then(Value::as_str) {
                Some("Secret") => Some(Kind::Secret),
                Some("ConfigMap") => Some(Kind::ConfigMap),
                None if of_certificates => Some(Kind::Secret),
                _ => None,
            };
            if let (Some(kind), Some(name)) = (kind, fields.get("name").and_then(Value::as_str)) {
                let own = fields.get("namespace").and_then(Value::as_str).unwrap_or(namespace);
                add(found, kind, own, Some(name));
            }
            for (key, inner) in fields {
                let certificates = of_certificates || key.to_ascii_lowercase().contains("certificateref");
                walk(inner, namespace, certificates, found, depth + 1);
            }
        }
        _ => {}
    }
}

fn add(found: &mut References, kind: Kind, namespace: &str, written: Option<&str>) {
    let Some(written) = written.filter(|written| written.len() <= NAME_BYTES_MAX && found.len() < NAMES_MAX) else {
        return;
    };
    let (namespace, name) = written.split_once('/').unwrap_or((namespace, written));
    if is_name(namespace) && is_name(name) {
        found.insert((kind, Name::new(namespace, name)));
    }
}

/// Whether the API server accepts it as a name.
fn is_name(text: &str) -> bool {
    let allowed = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || matches!(byte, b'-' | b'.');
    !text.is_empty() && text.bytes().all(allowed)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn names(kind: Kind, object: &Value) -> Vec<String> {
        of(kind, object, "nginx.ingress.kubernetes.io/")
            .iter()
            .map(|(kind, name)| format!("{} {name}", kind.word()))
            .collect()
    }

    #[test]
    fn an_ingress_names_certificates_and_annotations() {
        let ingress = json!({"metadata": {"namespace": "shop", "annotations": {
            "nginx.ingress.kubernetes.io/auth-secret": "users", "nginx.ingress.kubernetes.io/auth-tls-secret": "certs/ca",
            "nginx.ingress.kubernetes.io/rewrite-target": "/$1", "other/auth-secret": "not"}},
            "spec": {"tls": [{"secretName": "front"}, {}]}});
        let expected =
            ["Secret certs/ca", "Secret shop/front", "Secret shop/users", "ConfigMap certs/ca", "ConfigMap shop/users"];
        assert_eq!(names(Kind::Ingress, &ingress), expected);
    }

    #[test]
    fn gateway_api_references_have_a_kind_or_are_certificates() {
        let gateway = json!({"metadata": {"namespace": "infra"}, "spec": {"listeners": [{"name": "https", "tls": {"certificateRefs": [
            {"name": "own"}, {"kind": "Secret", "name": "theirs", "namespace": "other"}]}}]}});
        assert_eq!(names(Kind::Gateway, &gateway), ["Secret infra/own", "Secret other/theirs"]);
        let policy = json!({"metadata": {"namespace": "a"}, "spec": {"targetRefs": [{"kind": "Service", "name": "s"}],
            "validation": {"caCertificateRefs": [{"kind": "ConfigMap", "name": "ca", "group": ""}]}}});
        assert_eq!(names(Kind::BackendTlsPolicy, &policy), ["ConfigMap a/ca"]);
    }

    #[test]
    fn an_object_cannot_name_without_limit() {
        let tls: Vec<Value> = (0..5000).map(|number| json!({"secretName": format!("s{number}")})).collect();
        let ingress = json!({"metadata": {"namespace": "shop"}, "spec": {"tls": tls}});
        assert_eq!(names(Kind::Ingress, &ingress).len(), NAMES_MAX);
    }
}
