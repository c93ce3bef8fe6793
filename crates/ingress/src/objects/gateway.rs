//! `gateway.networking.k8s.io`: classes, Gateways with their listeners, grants and policies. Versions `v1`, `v1beta1` and
//! `v1alpha2`, `v1alpha3` have the same fields, as far as they matter here. Routes are in `routes`.

use super::{Metadata, object};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Names a controller for Gateways.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct GatewayClass {
    /// Name, labels.
    pub metadata: Metadata,
    /// The controller.
    pub spec: GatewayClassSpec,
}
object!(GatewayClass, GatewayClass);

/// The specification of a class.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct GatewayClassSpec {
    /// The controller, as in `example.com/gateway`.
    pub controller_name: String,
    /// Settings of the class: not supported.
    pub parameters_ref: Option<ObjectReference>,
}

/// Listeners for traffic.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Gateway {
    /// Name, labels.
    pub metadata: Metadata,
    /// The listeners.
    pub spec: GatewaySpec,
    /// What was written before.
    pub status: GatewayStatus,
}
object!(Gateway, Gateway);

/// What was written before.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct GatewayStatus {
    /// The addresses that it has.
    pub addresses: Vec<GatewayAddress>,
}

/// The specification of a Gateway.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct GatewaySpec {
    /// Its class.
    pub gateway_class_name: String,
    /// Its listeners.
    pub listeners: Vec<Listener>,
    /// The addresses that it wants.
    pub addresses: Vec<GatewayAddress>,
    /// Settings of what serves it.
    pub infrastructure: Option<Infrastructure>,
    /// Which `ListenerSet`s may add listeners.
    pub allowed_listeners: Option<AllowedListeners>,
    /// TLS of all listeners, and towards backends.
    pub tls: Option<GatewayTls>,
}

/// One listener.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Listener {
    /// Its name.
    pub name: String,
    /// The hostname, perhaps with `*.`; empty for all.
    pub hostname: String,
    /// The port.
    pub port: u16,
    /// `HTTP`, `HTTPS`, `TLS`, `TCP`, `UDP`.
    pub protocol: String,
    /// Its certificates.
    pub tls: Option<ListenerTls>,
    /// Which routes may attach.
    pub allowed_routes: Option<AllowedRoutes>,
}

/// TLS of a listener.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ListenerTls {
    /// `Terminate` (missing) or `Passthrough`.
    pub mode: Option<String>,
    /// Secrets.
    pub certificate_refs: Vec<ObjectReference>,
    /// Options of implementations.
    pub options: BTreeMap<String, String>,
}

/// Names an object.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ObjectReference {
    /// Its group; the core group is empty.
    pub group: Option<String>,
    /// Its kind.
    pub kind: Option<String>,
    /// Its name.
    pub name: String,
    /// Its namespace, if it is another one.
    pub namespace: Option<String>,
}

/// Which routes may attach to a listener.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct AllowedRoutes {
    /// From which namespaces.
    pub namespaces: Option<RouteNamespaces>,
    /// Of which kinds; empty for those that the protocol has.
    pub kinds: Vec<RouteKind>,
}

/// A choice of namespaces.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct RouteNamespaces {
    /// `Same`, `All`, `Selector`, `None`.
    pub from: Option<String>,
    /// The labels for `Selector`.
    pub selector: Option<Selector>,
}

/// A choice by labels.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Selector {
    /// All must be equal.
    pub match_labels: BTreeMap<String, String>,
    /// All must hold.
    pub match_expressions: Vec<SelectorExpression>,
}

/// A condition on a label.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct SelectorExpression {
    /// The label.
    pub key: String,
    /// `In`, `NotIn`, `Exists`, `DoesNotExist`.
    pub operator: String,
    /// The values.
    pub values: Vec<String>,
}

/// A kind of route.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct RouteKind {
    /// Its group.
    pub group: Option<String>,
    /// Its kind.
    pub kind: String,
}

/// An address.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct GatewayAddress {
    /// `IPAddress` (missing), `Hostname`, or another.
    #[serde(rename = "type")]
    pub kind: Option<String>,
    /// The address; empty: any.
    pub value: String,
}

/// Settings of what serves a Gateway.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Infrastructure {
    /// Labels.
    pub labels: BTreeMap<String, String>,
    /// Annotations.
    pub annotations: BTreeMap<String, String>,
    /// Further settings: not supported.
    pub parameters_ref: Option<ObjectReference>,
}

/// Which `ListenerSet`s may add listeners.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct AllowedListeners {
    /// From which namespaces; missing: none.
    pub namespaces: Option<RouteNamespaces>,
}

/// TLS of a Gateway.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct GatewayTls {
    /// Towards backends.
    pub backend: Option<GatewayBackendTls>,
    /// Towards clients.
    pub frontend: Option<FrontendTls>,
}

/// TLS towards backends.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct GatewayBackendTls {
    /// The certificate that is shown to backends.
    pub client_certificate_ref: Option<ObjectReference>,
}

/// Which certificates clients need.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct FrontendTls {
    /// On ports that are not named.
    #[serde(rename = "default")]
    pub default: PortTls,
    /// On single ports.
    pub per_port: Vec<PerPortTls>,
}

/// TLS of a port.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct PortTls {
    /// Which client certificates are accepted.
    pub validation: Option<FrontendValidation>,
}

/// TLS of one port.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct PerPortTls {
    /// The port.
    pub port: u16,
    /// Its settings.
    pub tls: PortTls,
}

/// Which client certificates are accepted.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct FrontendValidation {
    /// The authorities: `ConfigMap`s or Secrets with a key `ca.crt`.
    #[serde(rename = "caCertificateRefs")]
    pub ca_certificate_refs: Vec<ObjectReference>,
    /// `AllowValidOnly` (missing) or `AllowInsecureFallback`.
    pub mode: Option<String>,
}

/// More listeners for a Gateway.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ListenerSet {
    /// Name, labels.
    pub metadata: Metadata,
    /// The listeners.
    pub spec: ListenerSetSpec,
}
object!(ListenerSet, ListenerSet);

/// The specification of a `ListenerSet`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ListenerSetSpec {
    /// The Gateway.
    pub parent_ref: ObjectReference,
    /// The listeners.
    pub listeners: Vec<Listener>,
}

/// Allows references from other namespaces.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ReferenceGrant {
    /// Name, labels.
    pub metadata: Metadata,
    /// From where to what.
    pub spec: ReferenceGrantSpec,
}
object!(ReferenceGrant, ReferenceGrant);

/// The specification of a grant.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ReferenceGrantSpec {
    /// Who may refer.
    pub from: Vec<GrantFrom>,
    /// To what in this namespace.
    pub to: Vec<GrantTo>,
}

/// Kinds of objects in a namespace.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct GrantFrom {
    /// Their group.
    pub group: String,
    /// Their kind.
    pub kind: String,
    /// Their namespace.
    pub namespace: String,
}

/// Objects that may be named.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct GrantTo {
    /// Their group.
    pub group: String,
    /// Their kind.
    pub kind: String,
    /// One object; missing: all.
    pub name: Option<String>,
}

/// TLS towards the Pods of a Service.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct BackendTlsPolicy {
    /// Name, labels.
    pub metadata: Metadata,
    /// Its target and what is verified.
    pub spec: BackendTlsPolicySpec,
}
object!(BackendTlsPolicy, BackendTlsPolicy);

/// The specification of a policy.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct BackendTlsPolicySpec {
    /// The Services.
    pub target_refs: Vec<PolicyTarget>,
    /// What is verified.
    pub validation: BackendValidation,
    /// Options of implementations.
    pub options: BTreeMap<String, String>,
}

/// The target of a policy.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct PolicyTarget {
    /// Its group.
    pub group: String,
    /// Its kind.
    pub kind: String,
    /// Its name.
    pub name: String,
    /// One port, by its name.
    pub section_name: Option<String>,
}

/// What is verified of a backend.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct BackendValidation {
    /// The authorities.
    #[serde(rename = "caCertificateRefs")]
    pub ca_certificate_refs: Vec<ObjectReference>,
    /// `System`.
    #[serde(rename = "wellKnownCACertificates")]
    pub well_known_ca_certificates: Option<String>,
    /// The name for SNI, and the name in the certificate.
    pub hostname: String,
    /// Names of which the certificate needs one; then `hostname` is for SNI only.
    pub subject_alt_names: Vec<SubjectAltName>,
}

/// A name in a certificate.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct SubjectAltName {
    /// `Hostname` or `URI`.
    #[serde(rename = "type")]
    pub kind: String,
    /// The hostname.
    pub hostname: String,
    /// The URI.
    pub uri: String,
}
