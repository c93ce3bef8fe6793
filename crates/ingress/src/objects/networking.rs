//! `networking.k8s.io/v1`: Ingress and `IngressClass`.

use super::{Metadata, object};
use serde::{Deserialize, Serialize};

/// Rules for HTTP traffic to Services.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Ingress {
    /// Name, annotations.
    pub metadata: Metadata,
    /// The rules.
    pub spec: IngressSpec,
    /// The addresses that the controller wrote.
    pub status: IngressStatus,
}
object!(Ingress, Ingress);

/// The specification of an Ingress.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct IngressSpec {
    /// The class that serves it.
    pub ingress_class_name: Option<String>,
    /// Serves what no rule matches.
    pub default_backend: Option<IngressBackend>,
    /// Certificates.
    pub tls: Vec<IngressTls>,
    /// Hosts with their paths.
    pub rules: Vec<IngressRule>,
}

/// Where requests go.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct IngressBackend {
    /// A Service.
    pub service: Option<ServiceBackend>,
    /// Another kind: not supported, and reported.
    pub resource: Option<ResourceBackend>,
}

/// A port of a Service.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ServiceBackend {
    /// Its name, in the namespace of the Ingress.
    pub name: String,
    /// Its port.
    pub port: ServicePortReference,
}

/// By name or by number.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ServicePortReference {
    /// The name; empty without.
    pub name: String,
    /// The number; 0 without.
    pub number: u16,
}

/// An object of another kind.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ResourceBackend {
    /// Its group.
    pub api_group: Option<String>,
    /// Its kind.
    pub kind: String,
    /// Its name.
    pub name: String,
}

/// A certificate and the hosts that it is for.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct IngressTls {
    /// The hosts.
    pub hosts: Vec<String>,
    /// The Secret, in the namespace of the Ingress.
    pub secret_name: String,
}

/// A host with its paths.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct IngressRule {
    /// The host, perhaps `*.example.com`; empty for all.
    pub host: String,
    /// The paths.
    pub http: Option<HttpIngressRule>,
}

/// The paths of a host.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct HttpIngressRule {
    /// The paths.
    pub paths: Vec<HttpIngressPath>,
}

/// A path and its backend.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct HttpIngressPath {
    /// Begins with `/`.
    pub path: String,
    /// `Exact`, `Prefix` or `ImplementationSpecific`.
    pub path_type: String,
    /// Where its requests go.
    pub backend: IngressBackend,
}

/// What the controller wrote.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct IngressStatus {
    /// The addresses.
    pub load_balancer: LoadBalancerStatus,
}

/// Addresses at which clients find the proxy.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct LoadBalancerStatus {
    /// The addresses.
    pub ingress: Vec<LoadBalancerIngress>,
}

/// One address.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct LoadBalancerIngress {
    /// An IP address.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub ip: String,
    /// A host name.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub hostname: String,
}

/// Names a controller for Ingresses.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct IngressClass {
    /// Its name; the annotation `ingressclass.kubernetes.io/is-default-class` makes it the default.
    pub metadata: Metadata,
    /// The controller.
    pub spec: IngressClassSpec,
}
object!(IngressClass, IngressClass);

/// The specification of a class.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct IngressClassSpec {
    /// `holdfast.example/ingress`-like name of the controller.
    pub controller: String,
}
