//! What a generation takes over from the one before: what parts of the plan are bound to, if both plans have these parts
//! (`lower::sharing`). Only groups with peers from names are taken over: they follow their names, so they are up to date.

use crate::base::logs::error::ErrorOutput;
use crate::base::route_cells::RouteCells;
use crate::plan::Plan;
use crate::plan::location::LocationPlan;
use crate::plan::proxy::ProxyPlan;
use crate::plan::server::ServerPlan;
use crate::registry::bind::groups::BoundGroups;
use crate::registry::bind::{Identities, Known};
use crate::registry::generation::{BoundProxy, Generation};
use crate::registry::group::BoundGroup;
use crate::registry::outline::Outline;
use crate::registry::tls_choice::BoundTls;
use std::collections::HashMap;
use std::sync::Arc;

impl Identities {
    /// The next plan may share what this generation is bound to.
    pub(super) fn note(&self, generation: &Arc<Generation>) {
        if generation.plan.shares {
            self.lock().last = Arc::downgrade(generation);
        }
    }
}

impl Known {
    /// The generation before, if a plan may share with it. Not while a peer is marked `drain`: then the number of the generation
    /// in which a tunnel began matters.
    pub(super) fn before(&self, plan: &Plan) -> Option<Arc<Generation>> {
        self.last.upgrade().filter(|_| plan.shares && self.drained.is_empty())
    }

    /// What has changed since the generation before, a line for each.
    pub(super) fn changes(&mut self, plan: &Plan, before: Option<&Generation>) -> Vec<String> {
        if let Some(before) = before {
            self.outline = None;
            let [before, now] = Outline::of_differences(&before.plan, plan);
            return now.changes_since(&before);
        }
        let outline = Outline::of(plan);
        let before = self.outline.replace(outline.clone());
        before.map(|before| outline.changes_since(&before)).unwrap_or_default()
    }
}

impl Generation {
    /// A group as some proxies use it.
    pub(super) fn group_again(&self, plan: &Plan, id: u32) -> Option<Arc<BoundGroup>> {
        let (used, before) = (plan.group_uses.get(id), self.plan.group_uses.find(id)?);
        let group = self.groups.find(id)?;
        let is_same = Arc::ptr_eq(used, before) && Arc::ptr_eq(plan.groups.get(used.group.0), &group.plan);
        (is_same && group.moving.is_some()).then(|| Arc::clone(group))
    }

    /// A proxy, if it leads to the same group and writes to the same log.
    pub(super) fn proxy_again(
        &self,
        id: u32,
        plan: &Arc<ProxyPlan>,
        groups: &BoundGroups,
        error_logs: &[ErrorOutput],
    ) -> Option<Arc<BoundProxy>> {
        let known = self.proxies.find(id).filter(|known| Arc::ptr_eq(&known.plan, plan))?;
        let log =
            plan.tunnel.error_log.and_then(|id| error_logs.get(id.0 as usize)).map(|output| Arc::as_ptr(&output.log));
        let is_same = Arc::ptr_eq(&known.group, groups.uses.get(plan.group.0))
            && known.tunnel.error_log.as_ref().map(Arc::as_ptr) == log
            && known.sides.is_none();
        is_same.then(|| Arc::clone(known))
    }

    /// The counters of a location.
    pub(super) fn route_again(&self, id: u32, location: &Arc<LocationPlan>) -> Option<Arc<RouteCells>> {
        let known = self.plan.locations.find(id)?;
        Arc::ptr_eq(known, location).then(|| Arc::clone(self.routes.get(id)))
    }

    /// The index of each server, by its address.
    pub(super) fn places_of_servers(&self) -> HashMap<*const ServerPlan, usize> {
        self.plan.servers.iter().enumerate().map(|(place, server)| (Arc::as_ptr(server), place)).collect()
    }

    /// TLS of a server, unless handshakes or ACME determine its certificate.
    pub(super) fn tls_again(
        &self,
        server: &Arc<ServerPlan>,
        places: &HashMap<*const ServerPlan, usize>,
    ) -> Option<BoundTls> {
        let plan = server.tls.as_deref().filter(|plan| plan.made.is_none() && plan.acme.is_none())?;
        let known = self.tls.get(*places.get(&Arc::as_ptr(server))?)?.clone();
        known.filter(|_| !plan.reject)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::logs::error::{ErrorLog, Level};
    use crate::lower::sharing::tests::{A, B, PlanRow, parts};
    use crate::plan::location::{Content, LocationId};
    use crate::registry::bind::BoundPlan;
    use crate::registry::process::Registry;
    use rules::captures::Captures;
    use rules::location::Found;
    use std::collections::BTreeMap;

    /// Binds the plans of a row.
    struct SharingRow {
        row: PlanRow,
        registry: &'static Registry,
        last: Option<BoundPlan>,
    }

    impl SharingRow {
        fn next(&mut self, parts: &BTreeMap<u8, String>) -> &BoundPlan {
            let plan = self.row.next("resolver 127.0.0.1;", parts).unwrap().plan;
            let bound = self.registry.bind(plan).unwrap_or_else(|found| panic!("{found:?}"));
            self.last.insert(bound)
        }
    }

    #[test]
    fn a_generation_shares_what_its_plan_shares() {
        let registry = Registry::leak(1, ErrorLog::new(Level::Notice, 0)).unwrap();
        let mut bound = SharingRow { row: PlanRow::default(), registry, last: None };
        let moving = "upstream app { zone app 64k; server own.test:1 resolve; keepalive 4; }";
        let proxy = |bound: &BoundPlan, server: usize| {
            let plan = &bound.generation.plan;
            let found = plan.servers[server].locations.find(b"/a", &mut Captures::default());
            let Ok(Found::Location { id, .. }) = found else { panic!("no location") };
            let Content::Proxy(proxy) = plan.location(LocationId(id)).content else { panic!("no proxy") };
            (Arc::clone(bound.generation.proxies.get(proxy.0)), Arc::clone(bound.generation.routes.get(id)))
        };
        let (first, cells) = proxy(bound.next(&parts([(1, moving), (2, A), (3, B)])), 1);
        let next = bound.next(&parts([(1, moving), (2, &A.replace("204", "205")), (3, B)]));
        let (changed, (second, again)) = (proxy(next, 0).0, proxy(next, 1));
        assert!(Arc::ptr_eq(&first, &second) && Arc::ptr_eq(&cells, &again));
        assert!(Arc::ptr_eq(&first.group, &changed.group), "the group is shared, too");
        assert_eq!(next.generation.changes, [""; 0]);
        let other = moving.replace("own.test", "other.test");
        let next = bound.next(&parts([(1, &other), (2, A), (3, B)]));
        let (third, _) = proxy(next, 1);
        assert!(!Arc::ptr_eq(&first.group, &third.group));
        assert_eq!(next.generation.changes, ["upstream app changed: own.test:1 -> other.test:1"]);
    }
}
