//! The zones of `proxy_cache_path` and its kin, by name, directory and levels. If a reload keeps these, the index is
//! kept.

use crate::plan::Plan;
use crate::plan::cache::CacheZonePlan;
use crate::registry::bind::Binding;
use crate::registry::cache::CacheZone;
use crate::registry::shared_zones::{ZoneKind, ZoneSpec};
use std::sync::Arc;

impl Binding<'_> {
    pub(super) fn caches(&mut self) -> Vec<Arc<CacheZone>> {
        let zones = self.plan.cache_zones.iter().map(|plan| {
            let identity = (plan.name.clone(), plan.directory.clone(), plan.levels);
            let memory = self.registry.zone_memory(&plan.spec());
            // A configuration between had no such cache: the memory is another one, and so is the cache.
            self.known.caches.retain(|known, zone| *known != identity || zone.shares(memory.as_ref()));
            let zone = self.known.caches.entry(identity).or_insert_with(|| Arc::new(CacheZone::new(plan, memory)));
            zone.set(plan.settings);
            Arc::clone(zone)
        });
        zones.collect()
    }
}

/// What several processes share of a plan's caches.
pub(super) fn specs(plan: &Plan) -> impl Iterator<Item = ZoneSpec> {
    plan.cache_zones.iter().map(CacheZonePlan::spec)
}

impl CacheZonePlan {
    /// The memory does not depend on the settings, which a reload may change.
    fn spec(&self) -> ZoneSpec {
        let name = format!("{} {:?} {}", self.name, self.levels.0, self.directory.display());
        ZoneSpec { kind: ZoneKind::Cache, name, bytes: 0 }
    }
}
