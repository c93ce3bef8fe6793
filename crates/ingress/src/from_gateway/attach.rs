//! Which listeners a route attaches to, and its status.

use super::classes::is_own_group;
use super::hostname::intersection;
use super::listeners::Listeners;
use super::status::{Condition, Fault, conditions};
use crate::objects::Metadata;
use crate::objects::routes::{ParentReference, RouteStatus};
use crate::{Cluster, Kind, Name, ObjectName, StatusWish};
use serde_json::json;
use std::collections::BTreeSet;

/// A route at a listener.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Attachment {
    pub(crate) listener: usize,
    /// The hostnames that route and listener have in common; one empty name for all hosts.
    pub(crate) hostnames: Vec<String>,
}

/// A route at one of its parents.
struct ParentPlan<'a> {
    reference: &'a ParentReference,
    result: Result<Vec<Attachment>, Fault>,
}

/// What is common to routes of all kinds.
#[derive(Clone, Copy)]
pub(crate) struct RouteHead<'a> {
    pub(crate) kind: Kind,
    pub(crate) metadata: &'a Metadata,
    pub(crate) parents: &'a [ParentReference],
    pub(crate) hostnames: &'a [String],
    pub(crate) status: &'a RouteStatus,
}

/// What is wrong with the rules of a route.
#[derive(Debug, Default)]
pub(crate) struct RouteFaults {
    /// A reference that cannot be used.
    pub(crate) unresolved: Option<Fault>,
    /// A value that is not supported, and whether other rules are left.
    pub(crate) unsupported: Option<(Fault, bool)>,
}

impl RouteFaults {
    /// Keeps the first fault.
    pub(crate) fn unresolved(&mut self, fault: Fault) {
        self.unresolved.get_or_insert(fault);
    }

    /// Keeps the first fault.
    pub(crate) fn unsupported(&mut self, fault: Fault) {
        self.unsupported.get_or_insert((fault, false));
    }
}

/// A route with its parents.
pub(crate) struct RoutePlan<'a> {
    head: RouteHead<'a>,
    pub(crate) name: ObjectName,
    parents: Vec<ParentPlan<'a>>,
}

impl<'a> RoutePlan<'a> {
    /// Attaches a route. `None`: no parent is of this controller.
    pub(crate) fn attach(cluster: &Cluster, listeners: &mut Listeners<'_>, head: RouteHead<'a>) -> Self {
        let mut parents = Vec::new();
        for reference in head.parents {
            let Some(candidates) = candidates(listeners, head, reference) else { continue };
            parents.push(ParentPlan { reference, result: attach_to(cluster, listeners, head, reference, &candidates) });
        }
        let name = ObjectName { kind: head.kind, name: head.metadata.key() };
        let plan = Self { head, name, parents };
        for index in plan.listeners() {
            if let Some(listener) = listeners.all.get_mut(index) {
                listener.attached += 1;
            }
        }
        plan
    }

    /// Whether none of its parents is of this controller.
    pub(crate) fn is_foreign(&self) -> bool {
        self.parents.is_empty()
    }

    fn listeners(&self) -> BTreeSet<usize> {
        self.attachments().map(|each| each.listener).collect()
    }

    /// Where it is attached. A listener can occur twice.
    pub(crate) fn attachments(&self) -> impl Iterator<Item = &Attachment> {
        self.parents.iter().filter_map(|parent| parent.result.as_ref().ok()).flatten()
    }

    /// The Gateways that it is attached to.
    pub(crate) fn gateways(&self, listeners: &Listeners<'_>) -> BTreeSet<Name> {
        self.listeners().iter().filter_map(|index| listeners.all.get(*index)).map(|each| each.gateway.clone()).collect()
    }

    /// Its status. `None`: nothing of it is this controller's.
    pub(crate) fn wish(&self, listeners: &Listeners<'_>, faults: &RouteFaults, controller: &str) -> Option<StatusWish> {
        let had = self.head.status.parents.iter().any(|parent| parent.controller_name == controller);
        if self.parents.is_empty() && !had {
            return None;
        }
        let generation = self.head.metadata.generation;
        let parents: Vec<_> = self
            .parents
            .iter()
            .map(|parent| {
                json!({
                    "parentRef": reference_json(parent.reference),
                    "controllerName": controller,
                    "conditions": conditions(&Self::conditions_at(parent, listeners, faults), generation),
                })
            })
            .collect();
        Some(StatusWish { object: self.name.clone(), generation, status: json!({ "parents": parents }) })
    }

    fn conditions_at(parent: &ParentPlan<'_>, listeners: &Listeners<'_>, faults: &RouteFaults) -> Vec<Condition> {
        let refused_by_all = parent.result.as_ref().is_ok_and(|attached| {
            !attached
                .iter()
                .any(|each| listeners.all.get(each.listener).is_some_and(super::listeners::ListenerPlan::is_accepted))
        });
        let no_listener = Fault::new("NoMatchingParent", "the listener is not accepted");
        let unsupported = faults.unsupported.as_ref();
        let refused = parent
            .result
            .as_ref()
            .err()
            .or(refused_by_all.then_some(&no_listener))
            .or(unsupported.filter(|(_, is_partial)| !is_partial).map(|(fault, _)| fault));
        let mut list =
            vec![Condition::unless("Accepted", refused), Condition::unless("ResolvedRefs", faults.unresolved.as_ref())];
        if let Some((fault, true)) = unsupported {
            list.push(Condition { holds: true, ..Condition::no("PartiallyInvalid", fault) });
        }
        list
    }
}

/// Without the fields that are not written: the reference is compared with that of the specification.
fn reference_json(reference: &ParentReference) -> serde_json::Value {
    let mut value = json!({
        "group": reference.group.as_deref().unwrap_or(super::grants::GROUP),
        "kind": reference.kind.as_deref().unwrap_or("Gateway"),
        "name": reference.name,
    });
    if let Some(fields) = value.as_object_mut() {
        let namespace = reference.namespace.as_ref().map(|namespace| ("namespace", json!(namespace)));
        let section = reference.section_name.as_ref().map(|section| ("sectionName", json!(section)));
        let port = reference.port.map(|port| ("port", json!(port)));
        for (key, value) in [namespace, section, port].into_iter().flatten() {
            fields.insert(key.to_owned(), value);
        }
    }
    value
}

/// The listeners of a parent. `None`: the parent is not of this controller.
fn candidates(listeners: &Listeners<'_>, head: RouteHead<'_>, reference: &ParentReference) -> Option<Vec<usize>> {
    if !is_own_group(reference.group.as_deref()) {
        return None;
    }
    let kind = match reference.kind.as_deref() {
        None | Some("Gateway") => Kind::Gateway,
        Some("ListenerSet") => Kind::ListenerSet,
        Some(_) => return None,
    };
    let namespace = reference.namespace.as_deref().unwrap_or(&head.metadata.namespace);
    let name = Name::new(namespace, reference.name.as_str());
    listeners.is_known(kind, &name).then(|| listeners.indexes(kind, &name).to_vec())
}

fn attach_to(
    cluster: &Cluster,
    listeners: &Listeners<'_>,
    head: RouteHead<'_>,
    reference: &ParentReference,
    candidates: &[usize],
) -> Result<Vec<Attachment>, Fault> {
    let named: Vec<_> = candidates
        .iter()
        .filter_map(|index| Some((*index, listeners.all.get(*index)?)))
        .filter(|(_, each)| reference.section_name.as_ref().is_none_or(|name| *name == each.listener.name))
        .filter(|(_, each)| reference.port.is_none_or(|port| port == each.listener.port))
        .collect();
    if named.is_empty() {
        return Err(Fault::new("NoMatchingParent", "the parent has no listener of this name and port"));
    }
    let allowed: Vec<_> =
        named.into_iter().filter(|(_, each)| each.allows(cluster, head.kind, &head.metadata.namespace)).collect();
    if allowed.is_empty() {
        let message = "no listener allows routes of this kind and namespace";
        return Err(Fault::new("NotAllowedByListeners", message));
    }
    let mut attached = Vec::new();
    for (listener, each) in allowed {
        let mut hostnames = common_hostnames(head.hostnames, &each.hostname);
        hostnames.sort();
        hostnames.dedup();
        if !hostnames.is_empty() {
            attached.push(Attachment { listener, hostnames });
        }
    }
    if attached.is_empty() {
        let message = "the hostnames of the route and of the listeners have no host in common";
        return Err(Fault::new("NoMatchingListenerHostname", message));
    }
    Ok(attached)
}

fn common_hostnames(route: &[String], listener: &str) -> Vec<String> {
    if route.is_empty() {
        return vec![listener.to_owned()];
    }
    route.iter().filter_map(|name| intersection(&name.to_ascii_lowercase(), listener)).collect()
}
