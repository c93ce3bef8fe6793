//! The objects of a cluster at one moment. The crate `kubernetes` keeps one up to date; `migrate kubernetes` fills one from
//! files. Cheap to clone: objects are shared.

use crate::Name;
use crate::objects::Object;
use crate::objects::core::{ConfigMap, EndpointSlice, Namespace, Node, Secret, Service};
use crate::objects::gateway::{BackendTlsPolicy, Gateway, GatewayClass, ListenerSet, ReferenceGrant};
use crate::objects::networking::{Ingress, IngressClass};
use crate::objects::routes::{GrpcRoute, HttpRoute, TcpRoute, TlsRoute, UdpRoute};
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
    /// Classes of Gateways.
    pub gateway_classes: Objects<GatewayClass>,
    /// Gateways.
    pub gateways: Objects<Gateway>,
    /// Further listeners.
    pub listener_sets: Objects<ListenerSet>,
    /// Routes of HTTP.
    pub http_routes: Objects<HttpRoute>,
    /// Routes of gRPC.
    pub grpc_routes: Objects<GrpcRoute>,
    /// Routes of TLS.
    pub tls_routes: Objects<TlsRoute>,
    /// Routes of TCP.
    pub tcp_routes: Objects<TcpRoute>,
    /// Routes of UDP.
    pub udp_routes: Objects<UdpRoute>,
    /// References that are allowed across namespaces.
    pub reference_grants: Objects<ReferenceGrant>,
    /// TLS towards backends.
    pub backend_tls_policies: Objects<BackendTlsPolicy>,
}

/// Adds an object under its name.
pub fn insert<T: Object>(objects: &mut Objects<T>, object: T) {
    objects.insert(object.metadata().key(), Arc::new(object));
}
