//! Merges the status that an object should have into the one that it has: conditions and entries of other controllers stay,
//! and a condition keeps the time of its last transition. Pure: the time comes in as text.

use ingress::Kind;
use serde_json::{Map, Value, json};

/// Most conditions of one list, as the Gateway API's schemas allow.
const CONDITIONS_MAX: usize = 8;

/// The status to write; `None` if the present one says the same.
pub(crate) fn merged(kind: Kind, present: &Value, wish: &Value, controller: &str, now: &str) -> Option<Value> {
    let mut status = present.as_object().cloned().unwrap_or_default();
    for (field, wanted) in wish.as_object()? {
        let before = present.get(field).unwrap_or(&Value::Null);
        let value = match field.as_str() {
            "conditions" => conditions(before, wanted, now),
            "parents" => entries(before, wanted, "parentRef", controller, now),
            "ancestors" => entries(before, wanted, "ancestorRef", controller, now),
            "listeners" => listeners(before, wanted, now),
            _ => wanted.clone(),
        };
        status.insert(field.clone(), value);
    }
    let status = Value::Object(status);
    let is_same = status == *present || (kind == Kind::Ingress && is_empty(&status) && is_empty(present));
    (!is_same).then_some(status)
}

/// An Ingress without addresses has an empty list, an empty object or nothing.
fn is_empty(status: &Value) -> bool {
    let addresses = status.get("loadBalancer").and_then(|balancer| balancer.get("ingress"));
    addresses.and_then(Value::as_array).is_none_or(Vec::is_empty)
}

/// Conditions by type: ours replace those of the same type.
fn conditions(before: &Value, wanted: &Value, now: &str) -> Value {
    let before = before.as_array().map(Vec::as_slice).unwrap_or_default();
    let wanted = wanted.as_array().map(Vec::as_slice).unwrap_or_default();
    let of_type = |list: &[Value], kind: &Value| list.iter().find(|one| one["type"] == *kind).cloned();
    // In their present order, so that a list which says the same is the same.
    let mut all: Vec<Value> = Vec::new();
    for old in before {
        all.push(of_type(wanted, &old["type"]).map_or_else(|| old.clone(), |new| with_transition(Some(old), new, now)));
    }
    for new in wanted.iter().filter(|new| of_type(before, &new["type"]).is_none()) {
        all.push(with_transition(None, new.clone(), now));
    }
    all.truncate(CONDITIONS_MAX.max(wanted.len()));
    Value::Array(all)
}

/// A condition with the time at which its status changed last.
fn with_transition(before: Option<&Value>, mut new: Value, now: &str) -> Value {
    let kept = before.filter(|old| old["status"] == new["status"]).map(|old| old["lastTransitionTime"].clone());
    if let Some(fields) = new.as_object_mut() {
        fields.insert("lastTransitionTime".into(), kept.filter(Value::is_string).unwrap_or_else(|| json!(now)));
    }
    new
}

/// `status.parents` of routes and `status.ancestors` of policies: those of other controllers stay.
fn entries(before: &Value, wanted: &Value, reference: &str, controller: &str, now: &str) -> Value {
    let before = before.as_array().map(Vec::as_slice).unwrap_or_default();
    let wanted = wanted.as_array().map(Vec::as_slice).unwrap_or_default();
    let is_ours = |entry: &Value| entry["controllerName"] == controller;
    let with_name = |entry: &Value| {
        let mut entry = entry.as_object().cloned().unwrap_or_default();
        entry.insert("controllerName".into(), json!(controller));
        let old = before.iter().find(|old| is_ours(old) && is_same(&old[reference], entry.get(reference)));
        let merged = conditions_of(old, &Value::Object(entry.clone()), now);
        entry.insert("conditions".into(), merged);
        Value::Object(entry)
    };
    let mut all: Vec<Value> = before.iter().filter(|entry| !is_ours(entry)).cloned().collect();
    all.extend(wanted.iter().map(with_name));
    // Keep the order of the present list where nothing else differs.
    let position = |entry: &Value| {
        before.iter().position(|old| {
            old["controllerName"] == entry["controllerName"] && is_same(&old[reference], entry.get(reference))
        })
    };
    all.sort_by_key(|entry| position(entry).unwrap_or(usize::MAX));
    Value::Array(all)
}

/// Conditions of an entry that we own: exactly those that are wanted.
fn conditions_of(old: Option<&Value>, new: &Value, now: &str) -> Value {
    let before = old.map(|old| old["conditions"].clone()).unwrap_or_default();
    let wanted = new["conditions"].as_array().cloned().unwrap_or_default();
    let kept: Vec<Value> = before
        .as_array()
        .into_iter()
        .flatten()
        .filter(|old| wanted.iter().any(|new| new["type"] == old["type"]))
        .cloned()
        .collect();
    conditions(&Value::Array(kept), &Value::Array(wanted), now)
}

/// References with defaults: the API server fills in group and kind.
fn is_same(old: &Value, new: Option<&Value>) -> bool {
    let Some(new) = new else { return false };
    let (Some(old), Some(new)) = (old.as_object(), new.as_object()) else { return false };
    let same = |key: &str| {
        let (old, new) = (old.get(key).filter(|value| !value.is_null()), new.get(key).filter(|value| !value.is_null()));
        old == new || (matches!(key, "group" | "kind") && (old.is_none() || new.is_none()))
    };
    ["group", "kind", "namespace", "name", "sectionName", "port"].into_iter().all(same)
}

/// `status.listeners` of a Gateway, by name.
fn listeners(before: &Value, wanted: &Value, now: &str) -> Value {
    let before = before.as_array().map(Vec::as_slice).unwrap_or_default();
    let merged = wanted.as_array().into_iter().flatten().map(|new| {
        let old = before.iter().find(|old| old["name"] == new["name"]);
        let mut entry: Map<String, Value> = new.as_object().cloned().unwrap_or_default();
        entry.insert("conditions".into(), conditions_of(old, new, now));
        Value::Object(entry)
    });
    Value::Array(merged.collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    const OURS: &str = "holdfast.dev/gateway";

    fn condition(kind: &str, status: &str, time: &str) -> Value {
        json!({"type": kind, "status": status, "reason": "R", "message": "", "lastTransitionTime": time})
    }

    fn wish(kind: &str, status: &str) -> Value {
        json!({"type": kind, "status": status, "reason": "R", "message": ""})
    }

    #[test]
    fn conditions_of_others_stay_and_times_change_with_the_status() {
        let present = json!({"conditions": [condition("Theirs", "True", "t0"), condition("Accepted", "True", "t0")]});
        let same = json!({"conditions": [wish("Accepted", "True")]});
        assert_eq!(merged(Kind::Gateway, &present, &same, OURS, "t1"), None);
        let other = json!({"conditions": [wish("Accepted", "False"), wish("Programmed", "True")]});
        let written = merged(Kind::Gateway, &present, &other, OURS, "t1").unwrap();
        let expected = [
            condition("Theirs", "True", "t0"),
            condition("Accepted", "False", "t1"),
            condition("Programmed", "True", "t1"),
        ];
        assert_eq!(written["conditions"], json!(expected));
        assert_eq!(merged(Kind::Gateway, &written, &other, OURS, "t2"), None);
    }

    #[test]
    fn parents_of_other_controllers_stay() {
        let theirs = json!({"controllerName": "other/gateway", "parentRef": {"name": "g"}, "conditions": [condition("Accepted", "False", "t0")]});
        let old = json!({"controllerName": OURS, "parentRef": {"name": "gone"}, "conditions": []});
        let present = json!({"parents": [theirs, old]});
        let wanted = json!({"parents": [{"parentRef": {"name": "g", "kind": "Gateway"}, "conditions": [wish("Accepted", "True")]}]});
        let written = merged(Kind::HttpRoute, &present, &wanted, OURS, "t1").unwrap();
        let parents = written["parents"].as_array().unwrap();
        assert_eq!(parents.len(), 2);
        assert_eq!(parents[0], theirs);
        assert_eq!(
            (&parents[1]["controllerName"], &parents[1]["conditions"][0]["lastTransitionTime"]),
            (&json!(OURS), &json!("t1"))
        );
        assert_eq!(merged(Kind::HttpRoute, &written, &wanted, OURS, "t2"), None);
        // Without a parent of ours, only theirs is left.
        let none = merged(Kind::HttpRoute, &written, &json!({"parents": []}), OURS, "t3").unwrap();
        assert_eq!(none["parents"], json!([theirs]));
    }

    #[test]
    fn listeners_are_merged_by_name() {
        let present = json!({"listeners": [{"name": "http", "attachedRoutes": 1, "conditions": [condition("Accepted", "True", "t0")]}]});
        let wanted = json!({"listeners": [{"name": "http", "attachedRoutes": 2, "conditions": [wish("Accepted", "True")]},
            {"name": "https", "attachedRoutes": 0, "conditions": []}]});
        let written = merged(Kind::Gateway, &present, &wanted, OURS, "t1").unwrap();
        assert_eq!(written["listeners"][0]["conditions"][0]["lastTransitionTime"], "t0");
        assert_eq!(written["listeners"][0]["attachedRoutes"], 2);
        assert_eq!(written["listeners"].as_array().unwrap().len(), 2);
    }

    #[test]
    fn an_ingress_without_addresses_is_not_written_again() {
        let wanted = json!({"loadBalancer": {"ingress": []}});
        assert_eq!(merged(Kind::Ingress, &json!({"loadBalancer": {}}), &wanted, OURS, "t"), None);
        assert_eq!(merged(Kind::Ingress, &Value::Null, &wanted, OURS, "t"), None);
        let address = json!({"loadBalancer": {"ingress": [{"ip": "192.0.2.1"}]}});
        assert_eq!(merged(Kind::Ingress, &json!({"loadBalancer": {}}), &address, OURS, "t"), Some(address));
    }
}
