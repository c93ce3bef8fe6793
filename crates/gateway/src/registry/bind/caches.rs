//! The zones of `proxy_cache_path` and its kin, by name, directory and levels. If a reload keeps these, the index is
//! kept.

use crate::registry::bind::Binding;
use crate::registry::cache::CacheZone;
use std::sync::Arc;

impl Binding<'_> {
    pub(super) fn caches(&mut self) -> Vec<Arc<CacheZone>> {
        let zones = self.plan.cache_zones.iter().map(|plan| {
            let identity = (plan.name.clone(), plan.directory.clone(), plan.levels);
            let zone = self.known.caches.entry(identity).or_insert_with(|| Arc::new(CacheZone::new(plan)));
            zone.set(plan.settings);
            Arc::clone(zone)
        });
        zones.collect()
    }
}
