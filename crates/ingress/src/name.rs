//! Names of objects: the keys of everything that is kept.

use std::fmt;
use std::sync::Arc;

/// The kinds that are read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Kind {
    /// `networking.k8s.io/v1` Ingress.
    Ingress,
    /// `networking.k8s.io/v1` `IngressClass`.
    IngressClass,
    /// `v1` Service.
    Service,
    /// `discovery.k8s.io/v1` `EndpointSlice`.
    EndpointSlice,
    /// `v1` Secret.
    Secret,
    /// `v1` `ConfigMap`.
    ConfigMap,
    /// `v1` Namespace.
    Namespace,
    /// `v1` Node: only its zone.
    Node,
    /// `gateway.networking.k8s.io` `GatewayClass`.
    GatewayClass,
    /// `gateway.networking.k8s.io` Gateway.
    Gateway,
    /// `gateway.networking.k8s.io` `ListenerSet`.
    ListenerSet,
    /// `gateway.networking.k8s.io` `HTTPRoute`.
    HttpRoute,
    /// `gateway.networking.k8s.io` `GRPCRoute`.
    GrpcRoute,
    /// `gateway.networking.k8s.io` `TLSRoute`.
    TlsRoute,
    /// `gateway.networking.k8s.io` `TCPRoute`.
    TcpRoute,
    /// `gateway.networking.k8s.io` `UDPRoute`.
    UdpRoute,
    /// `gateway.networking.k8s.io` `ReferenceGrant`.
    ReferenceGrant,
    /// `gateway.networking.k8s.io` `BackendTLSPolicy`.
    BackendTlsPolicy,
}

impl Kind {
    /// Every kind.
    pub const ALL: [Self; 18] = [
        Self::Ingress,
        Self::IngressClass,
        Self::Service,
        Self::EndpointSlice,
        Self::Secret,
        Self::ConfigMap,
        Self::Namespace,
        Self::Node,
        Self::GatewayClass,
        Self::Gateway,
        Self::ListenerSet,
        Self::HttpRoute,
        Self::GrpcRoute,
        Self::TlsRoute,
        Self::TcpRoute,
        Self::UdpRoute,
        Self::ReferenceGrant,
        Self::BackendTlsPolicy,
    ];

    /// The kind as manifests write it.
    pub fn word(self) -> &'static str {
        match self {
            Self::Ingress => "Ingress",
            Self::IngressClass => "IngressClass",
            Self::Service => "Service",
            Self::EndpointSlice => "EndpointSlice",
            Self::Secret => "Secret",
            Self::ConfigMap => "ConfigMap",
            Self::Namespace => "Namespace",
            Self::Node => "Node",
            Self::GatewayClass => "GatewayClass",
            Self::Gateway => "Gateway",
            Self::ListenerSet => "ListenerSet",
            Self::HttpRoute => "HTTPRoute",
            Self::GrpcRoute => "GRPCRoute",
            Self::TlsRoute => "TLSRoute",
            Self::TcpRoute => "TCPRoute",
            Self::UdpRoute => "UDPRoute",
            Self::ReferenceGrant => "ReferenceGrant",
            Self::BackendTlsPolicy => "BackendTLSPolicy",
        }
    }
}

/// `NAMESPACE/NAME`. The namespace of cluster-wide kinds is empty.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct Name {
    /// The namespace.
    pub namespace: Arc<str>,
    /// The name.
    pub name: Arc<str>,
}

impl Name {
    /// From its parts.
    pub fn new(namespace: impl Into<Arc<str>>, name: impl Into<Arc<str>>) -> Self {
        Self { namespace: namespace.into(), name: name.into() }
    }
}

impl fmt::Display for Name {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.namespace.is_empty() {
            out.write_str(&self.name)
        } else {
            write!(out, "{}/{}", self.namespace, self.name)
        }
    }
}

/// An object: `Ingress shop/front`.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ObjectName {
    /// Its kind.
    pub kind: Kind,
    /// Its name.
    pub name: Name,
}

impl fmt::Display for ObjectName {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{} {}", self.kind.word(), self.name)
    }
}
