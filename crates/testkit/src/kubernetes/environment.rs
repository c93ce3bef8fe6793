//! The environment of a container, and the values of `$(NAME)` in its arguments.

use super::node::{Shared, text};
use serde_json::Value;
use std::net::Ipv4Addr;

/// Names and values, in the order of the Pod's text; an error names what is missing.
pub(super) fn values(
    node: &Shared,
    object: &Value,
    spec: &Value,
    address: Ipv4Addr,
) -> Result<Vec<(String, String)>, String> {
    let mut values: Vec<(String, String)> = Vec::new();
    for variable in spec["env"].as_array().into_iter().flatten() {
        let source = &variable["valueFrom"];
        let value = if source.is_null() {
            expand(&text(&variable["value"]), &values)
        } else if let Some(field) = source["fieldRef"]["fieldPath"].as_str() {
            field_value(node, object, field, address)?
        } else {
            let (resource, wanted) = match source.get("secretKeyRef") {
                Some(wanted) => ("v1/secrets", wanted),
                None => ("v1/configmaps", &source["configMapKeyRef"]),
            };
            let (name, key) = (text(&wanted["name"]), text(&wanted["key"]));
            let data = node.data(resource, &text(&object["metadata"]["namespace"]), &name);
            let value = data.and_then(|mut data| data.remove(&key));
            let value = value.ok_or(format!("{resource} \"{name}\" has no key {key}"))?;
            String::from_utf8_lossy(&value).into_owned()
        };
        values.push((text(&variable["name"]), value));
    }
    Ok(values)
}

fn field_value(node: &Shared, object: &Value, field: &str, address: Ipv4Addr) -> Result<String, String> {
    match field {
        "metadata.name" | "metadata.namespace" | "metadata.uid" | "spec.serviceAccountName" => {
            let (part, name) = field.split_once('.').expect("written above");
            Ok(text(&object[part][name]))
        }
        "spec.nodeName" => Ok(node.name.clone()),
        "status.podIP" | "status.podIPs" => Ok(address.to_string()),
        "status.hostIP" => Ok(node.network.address().to_string()),
        _ => match field.strip_prefix("metadata.annotations['").and_then(|name| name.strip_suffix("']")) {
            Some(name) => Ok(text(&object["metadata"]["annotations"][name])),
            None => Err(format!("the fake node does not know the field {field}")),
        },
    }
}

/// Replaces each `$(NAME)` that has a value; `$$(` is an escaped `$(`.
pub(super) fn expand(given: &str, values: &[(String, String)]) -> String {
    let mut expanded = String::new();
    let mut rest = given;
    while let Some(at) = rest.find('$') {
        expanded.push_str(&rest[..at]);
        rest = &rest[at + 1..];
        let name = rest.strip_prefix('(').and_then(|rest| rest.split_once(')'));
        if let Some(after) = rest.strip_prefix('$') {
            expanded.push('$');
            rest = after;
        } else if let Some((value, after)) = name.and_then(|(name, after)| {
            values.iter().rev().find(|(known, _)| known == name).map(|(_, value)| (value, after))
        }) {
            expanded.push_str(value);
            rest = after;
        } else {
            expanded.push('$');
        }
    }
    expanded + rest
}

#[cfg(test)]
mod tests {
    use super::expand;

    #[test]
    fn expands_known_names_and_keeps_the_rest() {
        let values = [("A".to_owned(), "1".to_owned()), ("A".to_owned(), "2".to_owned())];
        assert_eq!(expand("x$(A)$(B)$$(A) $", &values), "x2$(B)$(A) $");
    }
}
