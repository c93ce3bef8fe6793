//! Ingresses become servers and locations.
//!
//! Rules of all Ingresses are gathered by host first, from the oldest Ingress to the newest: the first one to name a path
//! has it. Then each host is written.

mod backends;
mod certificates;
mod class;
mod hosts;
mod locations;
mod memory;
mod streams;

pub(crate) use certificates::{CERT_MANAGER, OWN as OWN_ACME, SHARED as SHARED_ACME};
pub(crate) use class::is_ours;
pub use memory::Memory;
pub(crate) use memory::Remembering;

use crate::annotations::{self, Plan};
use crate::assembly::Assembly;
use crate::config_map::{self, Global};
use crate::from_gateway::Claims;
use crate::objects::networking::Ingress;
use crate::{Kind, Level, ObjectName, value};
use std::sync::Arc;

/// Most paths of one Ingress. A tenant can fill only its own share of memory.
const PATHS_MAX: usize = 5000;

/// An Ingress that is served.
pub(crate) struct Served {
    pub(crate) ingress: Arc<Ingress>,
    pub(crate) name: ObjectName,
    pub(crate) plan: Arc<Plan>,
}

/// Writes what the `ConfigMap`s and the Ingresses of the cluster ask for.
pub(crate) fn write(assembly: &mut Assembly<'_>, claims: &Claims, memory: &mut Option<Remembering>) {
    let global = config_map::write(assembly);
    let served = served(assembly, &global, memory);
    let hosts = hosts::gather(assembly, &served);
    let owners = hosts::write(assembly, &global, &served, (hosts, claims), memory);
    certificates::write(assembly, &served, &owners);
    streams::write(assembly, &global);
}

/// The Ingresses of our classes with their plans, the oldest first.
fn served(assembly: &mut Assembly<'_>, global: &Global, memory: &mut Option<Remembering>) -> Vec<Served> {
    let cluster = assembly.cluster;
    let mut found: Vec<&Arc<Ingress>> =
        cluster.ingresses.values().filter(|ingress| is_ours(cluster, assembly.settings, ingress)).collect();
    found.sort_by(|one, two| {
        let (one, two) = (&one.metadata, &two.metadata);
        (&one.creation_timestamp, &one.namespace, &one.name).cmp(&(&two.creation_timestamp, &two.namespace, &two.name))
    });
    let mut out = Vec::with_capacity(found.len());
    for ingress in found {
        let name = ObjectName { kind: Kind::Ingress, name: ingress.metadata.key() };
        if assembly.is_refused(&name) || ingress.metadata.deletion_timestamp.is_some() {
            continue;
        }
        let is_named = value::is_object_name(&name.name.namespace) && value::is_object_name(&name.name.name);
        let paths: usize =
            ingress.spec.rules.iter().map(|rule| rule.http.as_ref().map_or(0, |http| http.paths.len()) + 1).sum();
        if !is_named || paths > PATHS_MAX || ingress.spec.tls.len() > PATHS_MAX {
            let message = format!("it has no valid name, or more than {PATHS_MAX} rules, paths or certificates");
            assembly.find(&name, Level::Refused, "TooLarge", message);
            continue;
        }
        assembly.origin(&name);
        let plan = match memory {
            Some(memory) => memory.plan(assembly, global, ingress),
            None => Arc::new(annotations::plan(assembly, global, ingress)),
        };
        out.push(Served { ingress: Arc::clone(ingress), name, plan });
    }
    out
}
