//! The kinds that are watched: their places in the API, and their places in a [`Cluster`].

use ingress::cluster::{Objects, insert as insert_object};
use ingress::objects::Object;
use ingress::{Cluster, Kind, Name};
use serde::Serialize;
use serde_json::Value;

/// The group of the Gateway API.
const GATEWAY: &str = "gateway.networking.k8s.io";

/// Where a kind is in the API.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Place {
    /// Its group; empty for the core.
    pub(crate) group: &'static str,
    /// Its versions, the preferred one first. All are read by the same struct.
    pub(crate) versions: &'static [&'static str],
    /// The name in paths.
    pub(crate) plural: &'static str,
    /// Whether its objects have a namespace.
    pub(crate) namespaced: bool,
    /// Whether an API server may lack it.
    pub(crate) optional: bool,
}

/// The place of a kind.
pub(crate) fn place(kind: Kind) -> Place {
    let core = |plural, namespaced| Place { group: "", versions: &["v1"], plural, namespaced, optional: false };
    let networking = |plural, namespaced| Place { group: "networking.k8s.io", ..core(plural, namespaced) };
    let gateway = |plural, versions| Place { group: GATEWAY, versions, plural, namespaced: true, optional: true };
    match kind {
        Kind::Ingress => networking("ingresses", true),
        Kind::IngressClass => networking("ingressclasses", false),
        Kind::Service => core("services", true),
        Kind::EndpointSlice => Place { group: "discovery.k8s.io", ..core("endpointslices", true) },
        Kind::Secret => core("secrets", true),
        Kind::ConfigMap => core("configmaps", true),
        Kind::Namespace => core("namespaces", false),
        Kind::Node => core("nodes", false),
        Kind::GatewayClass => Place { namespaced: false, ..gateway("gatewayclasses", &["v1", "v1beta1"]) },
        Kind::Gateway => gateway("gateways", &["v1", "v1beta1"]),
        Kind::ListenerSet => gateway("listenersets", &["v1", "v1beta1", "v1alpha1"]),
        Kind::HttpRoute => gateway("httproutes", &["v1", "v1beta1"]),
        Kind::GrpcRoute => gateway("grpcroutes", &["v1", "v1alpha2"]),
        Kind::TlsRoute => gateway("tlsroutes", &["v1", "v1beta1", "v1alpha3", "v1alpha2"]),
        Kind::TcpRoute => gateway("tcproutes", &["v1", "v1alpha2"]),
        Kind::UdpRoute => gateway("udproutes", &["v1", "v1alpha2"]),
        Kind::ReferenceGrant => gateway("referencegrants", &["v1", "v1beta1", "v1alpha2"]),
        Kind::BackendTlsPolicy => gateway("backendtlspolicies", &["v1", "v1alpha3"]),
    }
}

impl Place {
    /// `v1` or `GROUP/VERSION`.
    pub(crate) fn api_version(&self, version: &str) -> String {
        if self.group.is_empty() { version.to_owned() } else { format!("{}/{version}", self.group) }
    }

    /// `/api/v1` or `/apis/GROUP/VERSION`.
    pub(crate) fn base(&self, version: &str) -> String {
        if self.group.is_empty() { format!("/api/{version}") } else { format!("/apis/{}/{version}", self.group) }
    }

    /// The path of all objects, or those of a namespace.
    pub(crate) fn list(&self, version: &str, namespace: Option<&str>) -> String {
        match namespace.filter(|_| self.namespaced) {
            Some(namespace) => format!("{}/namespaces/{namespace}/{}", self.base(version), self.plural),
            None => format!("{}/{}", self.base(version), self.plural),
        }
    }

    /// The path of one object.
    pub(crate) fn one(&self, version: &str, name: &Name) -> String {
        let namespace = Some(&*name.namespace).filter(|namespace| !namespace.is_empty());
        format!("{}/{}", self.list(version, namespace), name.name)
    }
}

/// Whether statuses of the kind are written, so that the present ones are kept.
pub(crate) fn has_status(kind: Kind) -> bool {
    !matches!(
        kind,
        Kind::IngressClass
            | Kind::Service
            | Kind::EndpointSlice
            | Kind::Secret
            | Kind::ConfigMap
            | Kind::Namespace
            | Kind::Node
            | Kind::ReferenceGrant
    )
}

/// Whether only named objects of the kind are kept.
pub(crate) fn is_kept_if_named(kind: Kind) -> bool {
    matches!(kind, Kind::Secret | Kind::ConfigMap)
}

/// The kinds that a [`Cluster`] has, with their fields.
macro_rules! fields {
    ($($kind:ident $field:ident;)*) => {
        /// Inserts an object.
        pub(crate) fn insert(cluster: &mut Cluster, kind: Kind, object: Value) -> serde_json::Result<()> {
            match kind {
                $(Kind::$kind => put(&mut cluster.$field, object)?,)*
            }
            Ok(())
        }

        /// Removes an object; whether it was there.
        pub fn remove(cluster: &mut Cluster, kind: Kind, name: &Name) -> bool {
            match kind {
                $(Kind::$kind => cluster.$field.remove(name).is_some(),)*
            }
        }

        /// The names of all objects of a kind.
        pub(crate) fn names(cluster: &Cluster, kind: Kind) -> Vec<Name> {
            match kind {
                $(Kind::$kind => cluster.$field.keys().cloned().collect(),)*
            }
        }

        /// All objects of a kind as JSON.
        pub(crate) fn values(cluster: &Cluster, kind: Kind) -> serde_json::Result<Vec<Value>> {
            match kind {
                $(Kind::$kind => all(&cluster.$field),)*
            }
        }
    };
}

fields! {
    Ingress ingresses;
    IngressClass ingress_classes;
    Service services;
    EndpointSlice endpoint_slices;
    Secret secrets;
    ConfigMap config_maps;
    Namespace namespaces;
    Node nodes;
    GatewayClass gateway_classes;
    Gateway gateways;
    ListenerSet listener_sets;
    HttpRoute http_routes;
    GrpcRoute grpc_routes;
    TlsRoute tls_routes;
    TcpRoute tcp_routes;
    UdpRoute udp_routes;
    ReferenceGrant reference_grants;
    BackendTlsPolicy backend_tls_policies;
}

fn put<T: Object + serde::de::DeserializeOwned>(objects: &mut Objects<T>, mut object: Value) -> serde_json::Result<()> {
    ingress::objects::without_nulls(&mut object);
    insert_object(objects, serde_json::from_value(object)?);
    Ok(())
}

fn all<T: Serialize>(objects: &Objects<T>) -> serde_json::Result<Vec<Value>> {
    objects.values().map(|object| serde_json::to_value(&**object)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_those_of_the_api() {
        let slices = place(Kind::EndpointSlice);
        assert_eq!(slices.list("v1", None), "/apis/discovery.k8s.io/v1/endpointslices");
        assert_eq!(slices.list("v1", Some("a")), "/apis/discovery.k8s.io/v1/namespaces/a/endpointslices");
        assert_eq!(place(Kind::Node).list("v1", Some("a")), "/api/v1/nodes");
        assert_eq!(place(Kind::Secret).one("v1", &Name::new("a", "b")), "/api/v1/namespaces/a/secrets/b");
        assert_eq!(
            place(Kind::GatewayClass).one("v1", &Name::new("", "b")),
            format!("/apis/{GATEWAY}/v1/gatewayclasses/b")
        );
        assert_eq!(place(Kind::Ingress).api_version("v1"), "networking.k8s.io/v1");
    }
}
