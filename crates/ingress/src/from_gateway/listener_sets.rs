//! `ListenerSet`s: more listeners for a Gateway, where it allows them.

use super::gateways::GatewayPlan;
use super::listeners::{Listeners, Namespaces};
use super::secrets::{Lookup, by_age};
use super::status::{Condition, Fault, conditions};
use crate::objects::gateway::ListenerSet;
use crate::{Cluster, Kind, Name, ObjectName, StatusWish};
use serde_json::json;

/// A `ListenerSet` of a Gateway that is served.
pub(crate) struct SetPlan<'a> {
    object: &'a ListenerSet,
    pub(crate) name: Name,
    /// Why its listeners are not added.
    refused: Option<Fault>,
}

/// Adds the listeners of the sets that Gateways allow; the older set first.
pub(crate) fn add<'a>(
    cluster: &'a Cluster,
    gateways: &[GatewayPlan<'_>],
    listeners: &mut Listeners<'a>,
    lookup: Lookup<'_>,
) -> Vec<SetPlan<'a>> {
    let mut plans = Vec::new();
    for set in by_age(&cluster.listener_sets) {
        let parent = &set.spec.parent_ref;
        if !super::classes::is_own_group(parent.group.as_deref())
            || parent.kind.as_deref().is_some_and(|kind| kind != "Gateway")
        {
            continue;
        }
        let namespace = parent.namespace.as_deref().unwrap_or(&set.metadata.namespace);
        let name = Name::new(namespace, parent.name.as_str());
        let Some(gateway) = gateways.iter().find(|gateway| gateway.name == name) else { continue };
        let allowed = gateway.object.spec.allowed_listeners.as_ref();
        let namespaces = Namespaces::of(allowed.and_then(|allowed| allowed.namespaces.as_ref()), "None");
        let refused = if !namespaces.allow(cluster, namespace, &set.metadata.namespace) {
            Some(Fault::new("NotAllowed", format!("Gateway {name} does not allow listeners of this namespace")))
        } else if !gateway.serves() {
            Some(Fault::new("ParentNotAccepted", format!("Gateway {name} is not accepted")))
        } else {
            None
        };
        let own = set.metadata.key();
        let owner = ObjectName { kind: Kind::ListenerSet, name: own.clone() };
        if refused.is_none() {
            listeners.add(gateway, &owner, &set.metadata.creation_timestamp, &set.spec.listeners, lookup);
        } else {
            listeners.know(owner);
        }
        plans.push(SetPlan { object: set, name: own, refused });
    }
    plans
}

impl SetPlan<'_> {
    /// Its status.
    pub(crate) fn wish(&self, listeners: &Listeners<'_>) -> StatusWish {
        let generation = self.object.metadata.generation;
        let own = listeners.of(Kind::ListenerSet, &self.name);
        let none_valid = Fault::new("ListenersNotValid", "no listener is valid");
        let is_empty = self.refused.is_none() && !own.iter().any(|each| each.is_programmed());
        let refused = self.refused.as_ref().or(is_empty.then_some(&none_valid));
        let list = [Condition::unless("Accepted", refused), Condition::unless("Programmed", refused)];
        StatusWish {
            object: ObjectName { kind: Kind::ListenerSet, name: self.name.clone() },
            generation,
            status: json!({
                "conditions": conditions(&list, generation),
                "listeners": own.iter().map(|each| each.json(generation)).collect::<Vec<_>>(),
            }),
        }
    }
}
