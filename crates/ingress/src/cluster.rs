//! The objects of a cluster at one moment. The crate `kubernetes` keeps one up to date; `migrate kubernetes` fills one from
//! files. Cheap to clone: objects are shared.

use crate::Name;
use crate::objects::Object;
use crate::objects::core::{ConfigMap, EndpointSlice, Namespace, Node, Secret, Service};
use crate::objects::networking::{Ingress, IngressClass};
use std::collections::BTreeMap;
use std::sync::Arc;

/// All objects of one kind.
pub type Objects<T> = BTreeMap<Name, Arc<T>>;

/// The objects that are known.
#[derive(Debug, Clone, Default)]
pub struct Cluster {
    /// Ingresses of all namespaces that are watched.
    pub ingresses: Objects<Ingress>,
    /// Classes.
    pub ingress_classes: Objects<IngressClass>,
    /// Services.
    pub services: Objects<Service>,
    /// Endpoints. Not read by [`crate::translate`]: they change without a new configuration.
    pub endpoint_slices: Objects<EndpointSlice>,
    /// Secrets that an object names.
    pub secrets: Objects<Secret>,
    /// The controller's `ConfigMap`s and those that an object names.
    pub config_maps: Objects<ConfigMap>,
    /// Namespaces.
    pub namespaces: Objects<Namespace>,
    /// Nodes.
    pub nodes: Objects<Node>,
}

/// Adds an object under its name.
pub fn insert<T: Object>(objects: &mut Objects<T>, object: T) {
    objects.insert(object.metadata().key(), Arc::new(object));
}
