//! `v1` and `discovery.k8s.io/v1`: Service, `EndpointSlice`, Secret, `ConfigMap`, Namespace, Node.

use super::networking::LoadBalancerStatus;
use super::{Metadata, object};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// A Service: a name for Pods.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Service {
    /// Name, annotations.
    pub metadata: Metadata,
    /// Its type and ports.
    pub spec: ServiceSpec,
    /// The addresses of a Service of type `LoadBalancer`.
    pub status: ServiceStatus,
}
object!(Service, Service);

/// The specification of a Service.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ServiceSpec {
    /// `ClusterIP`, `NodePort`, `LoadBalancer`, `ExternalName`; empty is `ClusterIP`.
    #[serde(rename = "type")]
    pub kind: String,
    /// The address, `None` for a headless Service.
    #[serde(rename = "clusterIP")]
    pub cluster_ip: String,
    /// The target of `ExternalName`.
    pub external_name: String,
    /// Addresses that the administrator names.
    #[serde(rename = "externalIPs")]
    pub external_ips: Vec<String>,
    /// The ports.
    pub ports: Vec<ServicePort>,
    /// Pods that are not ready get traffic, too.
    pub publish_not_ready_addresses: bool,
    /// `PreferClose` and its kin: endpoints of the own zone first.
    pub traffic_distribution: Option<String>,
}

/// One port of a Service.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ServicePort {
    /// Its name; empty if it is the only one.
    pub name: String,
    /// Its number.
    pub port: u16,
    /// `TCP` (empty), `UDP` or `SCTP`.
    pub protocol: String,
    /// `kubernetes.io/h2c`, `kubernetes.io/ws`, `https`, …
    pub app_protocol: Option<String>,
    /// The port of the Pods: a number or a name.
    pub target_port: serde_json::Value,
}

/// What the cloud wrote.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ServiceStatus {
    /// The addresses.
    pub load_balancer: LoadBalancerStatus,
}

/// Some endpoints of a Service, which the label `kubernetes.io/service-name` names.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct EndpointSlice {
    /// Name and labels.
    pub metadata: Metadata,
    /// `IPv4`, `IPv6` or `FQDN`.
    pub address_type: String,
    /// The endpoints.
    pub endpoints: Vec<Endpoint>,
    /// The ports of all of them.
    pub ports: Vec<EndpointPort>,
}
object!(EndpointSlice, EndpointSlice);

impl EndpointSlice {
    /// The Service that it belongs to.
    pub fn service(&self) -> Option<&str> {
        self.metadata.labels.get("kubernetes.io/service-name").map(String::as_str)
    }
}

/// One endpoint.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Endpoint {
    /// The first address is used; all are of one Pod.
    pub addresses: Vec<String>,
    /// Whether it takes traffic.
    pub conditions: EndpointConditions,
    /// The zone it is in.
    pub zone: Option<String>,
    /// The zones that it is meant for.
    pub hints: EndpointHints,
}

/// The states of an endpoint. A missing value means `true` for `ready` and `serving`, and `false` for `terminating`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct EndpointConditions {
    /// It takes new traffic.
    pub ready: Option<bool>,
    /// It answers, though it may be terminating.
    pub serving: Option<bool>,
    /// It is being ended.
    pub terminating: Option<bool>,
}

/// Hints of the control plane.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct EndpointHints {
    /// The zones that should use this endpoint.
    pub for_zones: Vec<ForZone>,
}

/// One zone.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ForZone {
    /// Its name.
    pub name: String,
}

/// A port of the endpoints.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct EndpointPort {
    /// The name of the port of the Service.
    pub name: Option<String>,
    /// The number.
    pub port: Option<u16>,
    /// `TCP` (missing), `UDP` or `SCTP`.
    pub protocol: Option<String>,
}

/// Secret values; base64 in the API.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Secret {
    /// Name.
    pub metadata: Metadata,
    /// `kubernetes.io/tls`, `Opaque`, …
    #[serde(rename = "type")]
    pub kind: String,
    /// The values in base64.
    pub data: BTreeMap<String, String>,
}
object!(Secret, Secret);

/// Settings.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ConfigMap {
    /// Name.
    pub metadata: Metadata,
    /// The values.
    pub data: BTreeMap<String, String>,
}
object!(ConfigMap, ConfigMap);

/// A namespace: its labels select who may attach routes.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Namespace {
    /// Name and labels.
    pub metadata: Metadata,
}
object!(Namespace, Namespace);

/// A node: its label `topology.kubernetes.io/zone` says the zone of this replica.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Node {
    /// Name and labels.
    pub metadata: Metadata,
}
object!(Node, Node);
