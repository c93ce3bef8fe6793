//! The zones of `limit_req` and `limit_conn`, by name and size.

use crate::plan::Plan;
use crate::plan::limits::ZonePlan;
use crate::registry::bind::Binding;
use crate::registry::limit_zones::{ConnectionZone, RequestZone};
use crate::registry::process::Registry;
use crate::registry::shared_zones::{ZoneKind, ZoneMemory, ZoneSpec};
use conf::diagnostic::Diagnostic;
use std::sync::{Arc, PoisonError};

impl Binding<'_> {
    pub(super) fn request_zones(&mut self) -> Vec<Arc<RequestZone>> {
        let zones = self.plan.request_zones.iter().map(|plan| {
            let memory = || self.registry.zone_memory(&plan.spec(ZoneKind::Requests));
            let known = self.known.request_zones.entry((plan.name.clone(), plan.bytes));
            let zone =
                known.or_insert_with(|| Arc::new(RequestZone::new(&plan.name, &plan.key_text, plan.bytes, memory())));
            self.found.extend(other_key("limit_req", plan, &zone.key_text));
            Arc::clone(zone)
        });
        zones.collect()
    }

    pub(super) fn connection_zones(&mut self) -> Vec<Arc<ConnectionZone>> {
        let zones = self.plan.connection_zones.iter().map(|plan| {
            let memory = || self.registry.zone_memory(&plan.spec(ZoneKind::Connections));
            let known = self.known.connection_zones.entry((plan.name.clone(), plan.bytes));
            let zone = known
                .or_insert_with(|| Arc::new(ConnectionZone::new(&plan.name, &plan.key_text, plan.bytes, memory())));
            self.found.extend(other_key("limit_conn_zone", plan, &zone.key_text));
            Arc::clone(zone)
        });
        zones.collect()
    }
}

/// The zones of a plan.
pub(super) fn specs(plan: &Plan) -> Vec<ZoneSpec> {
    let of_requests = plan.request_zones.iter().map(|zone| zone.spec(ZoneKind::Requests));
    of_requests.chain(plan.connection_zones.iter().map(|zone| zone.spec(ZoneKind::Connections))).collect()
}

impl ZonePlan {
    fn spec(&self, kind: ZoneKind) -> ZoneSpec {
        ZoneSpec { kind, name: self.name.clone(), bytes: self.bytes }
    }
}

impl Registry {
    /// Sets the memory of zones and caches that this process shares with others, for the configurations that follow.
    pub fn adopt_zones(&self, zones: Vec<ZoneMemory>) {
        *self.zone_memory.lock().unwrap_or_else(PoisonError::into_inner) = zones;
    }

    pub(super) fn zone_memory(&self, spec: &ZoneSpec) -> Option<ZoneMemory> {
        let zones = self.zone_memory.lock().unwrap_or_else(PoisonError::into_inner);
        zones.iter().find(|memory| memory.spec == *spec).cloned()
    }
}

/// The error for a zone with another key: counts by the previous key cannot be used for this one.
fn other_key(word: &str, plan: &ZonePlan, before: &str) -> Option<Diagnostic> {
    let ZonePlan { name, key_text: now, .. } = plan;
    let message = format!("{word} \"{name}\" uses the \"{now}\" key while previously it used the \"{before}\" key");
    let hint = "another key needs another zone: give it another name";
    (now != before).then(|| Diagnostic::error(plan.span, message).with_hint(hint))
}
