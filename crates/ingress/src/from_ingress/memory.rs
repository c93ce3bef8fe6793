//! Plans of Ingresses and contents of hosts of the translation before, for translations that are made one after another. A plan
//! is used again if its Ingress is the same object, and what it has read is the same; a host, if its paths are the same and
//! lead to the same plans. Objects are compared by their address, and the memory keeps those that it compares with.
//!
//! The memory has only what the last translation has.

use super::Served;
use super::hosts::Host;
use crate::annotations::Plan;
use crate::assembly::{Assembly, Journal, ServerId};
use crate::cluster::Objects;
use crate::config_map::Global;
use crate::objects::networking::Ingress;
use crate::tree::Origins;
use crate::{Cluster, Name, Settings, annotations};
use conf::tree::Directive;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

/// Most objects that are gone for each one that is there, of those that have written a part. With more, the next translation
/// begins anew.
const GONE_MAX: usize = 1;
/// Objects that are gone and do not count.
const GONE_FREE: usize = 256;

/// What is known of the translation before.
#[derive(Debug, Default)]
pub struct Memory {
    settings: Option<Settings>,
    cluster: Cluster,
    pub(crate) origins: Origins,
    /// By the address of the Ingress.
    plans: HashMap<usize, KnownPlan>,
    hosts: BTreeMap<String, KnownHost>,
}

#[derive(Debug)]
struct KnownPlan {
    #[expect(dead_code, reason = "while it is held, its address belongs to no other Ingress")]
    ingress: Arc<Ingress>,
    plan: Arc<Plan>,
    journal: Journal,
}

#[derive(Debug)]
struct KnownHost {
    host: Host,
    /// The plans that it leads to, in the order of [`Host::ingresses_of`].
    plans: Vec<Arc<Plan>>,
    certificate: Option<(String, String)>,
    lines: Vec<Directive>,
    journal: Journal,
}

/// A translation that remembers.
pub(crate) struct Remembering {
    before: Memory,
    /// Everything is made anew.
    is_new: bool,
    services: BTreeSet<Name>,
    secrets: BTreeSet<Name>,
    plans: HashMap<usize, KnownPlan>,
    hosts: BTreeMap<String, KnownHost>,
}

impl Memory {
    /// Begins a translation: finds out which objects are others.
    pub(crate) fn begin(mut self, cluster: &Cluster, settings: &Settings) -> Remembering {
        if self.origins.gone() > self.origins.present() * GONE_MAX + GONE_FREE {
            self = Self::default();
        }
        self.origins.begin();
        let services = different(&self.cluster.services, &cluster.services);
        // `ConfigMap`s are few and have settings of all, and so does the default backend.
        let is_new = self.settings.as_ref() != Some(settings)
            || !different(&self.cluster.config_maps, &cluster.config_maps).is_empty()
            || settings.default_backend.as_ref().is_some_and(|name| services.contains(name));
        let secrets = different(&self.cluster.secrets, &cluster.secrets);
        self.cluster = cluster.clone();
        self.settings = Some(settings.clone());
        let (plans, hosts) = (HashMap::new(), BTreeMap::new());
        Remembering { before: self, is_new, services, secrets, plans, hosts }
    }
}

impl Remembering {
    /// The places of objects.
    pub(crate) fn take_origins(&mut self) -> Origins {
        std::mem::take(&mut self.before.origins)
    }

    /// The memory for the next translation.
    pub(crate) fn end(self, origins: Origins) -> Memory {
        let Self { before: Memory { settings, cluster, .. }, plans, hosts, .. } = self;
        Memory { settings, cluster, origins, plans, hosts }
    }

    fn is_same(&self, journal: &Journal) -> bool {
        !self.is_new
            && !journal.services.iter().any(|name| self.services.contains(name))
            && !journal.secrets.iter().any(|name| self.secrets.contains(name))
    }

    /// The plan of an Ingress.
    pub(super) fn plan(&mut self, assembly: &mut Assembly<'_>, global: &Global, ingress: &Arc<Ingress>) -> Arc<Plan> {
        let at = Arc::as_ptr(ingress) as usize;
        if let Some(known) = self.before.plans.remove(&at)
            && self.is_same(&known.journal)
            && assembly.repeat(&known.journal)
        {
            let plan = Arc::clone(&known.plan);
            self.plans.insert(at, known);
            return plan;
        }
        assembly.begin_part();
        let plan = Arc::new(annotations::plan(assembly, global, ingress));
        let journal = assembly.end_part();
        self.plans.insert(at, KnownPlan { ingress: Arc::clone(ingress), plan: Arc::clone(&plan), journal });
        plan
    }

    /// Writes the contents of a host again, if they are the same; `false` if not.
    pub(super) fn repeat_host(
        &mut self,
        assembly: &mut Assembly<'_>,
        served: &[Served],
        id: ServerId,
        (name, host): (&str, &Host),
    ) -> bool {
        let Some(known) = self.before.hosts.remove(name) else { return false };
        let plans = || host.ingresses_of().map(|index| &served[index].plan);
        let is_same = known.host.is_like(host)
            && known.plans.iter().map(Arc::as_ptr).eq(plans().map(Arc::as_ptr))
            && self.is_same(&known.journal)
            && assembly.repeat(&known.journal);
        if is_same {
            let draft = assembly.server_mut(id);
            draft.certificate.clone_from(&known.certificate);
            draft.directives.clone_from(&known.lines);
            self.hosts.insert(name.to_owned(), known);
        }
        is_same
    }

    /// Remembers the contents of a host that was written since [`Assembly::begin_part`].
    pub(super) fn keep_host(
        &mut self,
        assembly: &mut Assembly<'_>,
        served: &[Served],
        id: ServerId,
        (name, host): (&str, &Host),
    ) {
        let journal = assembly.end_part();
        let lines = assembly.seal(id);
        let plans = host.ingresses_of().map(|index| Arc::clone(&served[index].plan)).collect();
        let certificate = assembly.server_mut(id).certificate.clone();
        let known = KnownHost { host: host.contents(), plans, certificate, lines, journal };
        self.hosts.insert(name.to_owned(), known);
    }
}

/// The names of objects that are in only one of two clusters, or another object in each.
fn different<T>(before: &Objects<T>, now: &Objects<T>) -> BTreeSet<Name> {
    let is_same =
        |name: &Name| before.get(name).zip(now.get(name)).is_some_and(|(before, now)| Arc::ptr_eq(before, now));
    before.keys().chain(now.keys()).filter(|name| !is_same(name)).cloned().collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cluster::insert;
    use crate::objects::core::Service;

    fn services(names: &[&str]) -> Objects<Service> {
        let mut all = Objects::new();
        for name in names {
            let mut service = Service::default();
            service.metadata.name = (*name).to_owned();
            insert(&mut all, service);
        }
        all
    }

    #[test]
    fn objects_that_come_go_and_change_are_different() {
        let before = services(&["a", "b", "c", "e"]);
        let mut now = before.clone();
        now.remove(&Name::new("", "a"));
        now.extend(services(&["c", "d", "f"]));
        let names: Vec<String> = different(&before, &now).iter().map(|name| name.name.to_string()).collect();
        assert_eq!(names, ["a", "c", "d", "f"]);
        assert!(different(&now, &now.clone()).is_empty());
    }
}
