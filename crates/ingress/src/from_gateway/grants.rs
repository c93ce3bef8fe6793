//! `ReferenceGrant`: which references across namespaces are allowed. An index, so that a look-up does not walk all grants.

use crate::cluster::Objects;
use crate::objects::gateway::ReferenceGrant;
use std::collections::{BTreeMap, BTreeSet};

/// The group of routes and Gateways.
pub(crate) const GROUP: &str = "gateway.networking.k8s.io";

/// Something that refers, or that is referred to: group, kind, namespace.
type Side<'a> = (&'a str, &'a str, &'a str);

/// All grants.
#[derive(Debug, Default)]
pub(crate) struct Grants<'a> {
    /// From -> to -> the names; `None`: all.
    index: BTreeMap<(Side<'a>, Side<'a>), Option<BTreeSet<&'a str>>>,
}

impl<'a> Grants<'a> {
    pub(crate) fn new(grants: &'a Objects<ReferenceGrant>) -> Self {
        let mut index: BTreeMap<_, Option<BTreeSet<&str>>> = BTreeMap::new();
        for grant in grants.values() {
            for from in &grant.spec.from {
                for to in &grant.spec.to {
                    let key = (
                        (from.group.as_str(), from.kind.as_str(), from.namespace.as_str()),
                        (to.group.as_str(), to.kind.as_str(), grant.metadata.namespace.as_str()),
                    );
                    let names = index.entry(key).or_insert_with(|| Some(BTreeSet::new()));
                    match (&to.name, &mut *names) {
                        (Some(name), Some(names)) => {
                            names.insert(name);
                        }
                        (Some(_), None) => {}
                        (None, names) => *names = None,
                    }
                }
            }
        }
        Self { index }
    }

    /// Whether an object of `kind` (in the group of the Gateway API) in `namespace` may name this object.
    pub(crate) fn allow(&self, (kind, namespace): (&str, &str), to: Side<'_>, name: &str) -> bool {
        if namespace == to.2 {
            return true;
        }
        match self.index.get(&((GROUP, kind, namespace), to)) {
            None => false,
            Some(None) => true,
            Some(Some(names)) => names.contains(name),
        }
    }
}
