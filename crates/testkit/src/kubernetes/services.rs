//! Services without Pods: a test writes their endpoints itself.

use super::plane::ControlPlane;
use serde_json::json;
use std::net::{IpAddr, SocketAddr};

/// An endpoint of a Service.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Endpoint {
    /// Where it is. The API refuses loopback addresses: see `Network::publish`.
    pub address: SocketAddr,
    /// Whether its Pod would be ready.
    pub ready: bool,
    /// Whether its Pod would be about to end.
    pub terminating: bool,
}

impl From<SocketAddr> for Endpoint {
    fn from(address: SocketAddr) -> Self {
        Self { address, ready: true, terminating: false }
    }
}

impl ControlPlane {
    /// Writes a Service with one port, `http`, without a selector.
    #[track_caller]
    pub fn write_service(&self, namespace: &str, name: &str, port: u16) {
        self.apply(
            &json!({
                "apiVersion": "v1",
                "kind": "Service",
                "metadata": {"name": name, "namespace": namespace},
                "spec": {"ports": [{"name": "http", "port": port, "protocol": "TCP"}]},
            })
            .to_string(),
        );
    }

    /// Writes the slices of a Service: one for each endpoint, `SERVICE-0` and so on, because each may have another port. Slices of
    /// former endpoints are deleted.
    #[track_caller]
    pub fn write_endpoints(&self, namespace: &str, service: &str, endpoints: &[Endpoint]) {
        let resource = "discovery.k8s.io/v1/endpointslices";
        let name = |index: usize| format!("{service}-{index}");
        let slices: Vec<String> =
            endpoints.iter().enumerate().map(|(index, it)| slice(namespace, service, &name(index), it)).collect();
        if !slices.is_empty() {
            self.apply(&slices.join("\n---\n"));
        }
        for index in endpoints.len().. {
            if self.get(resource, namespace, &name(index)).is_none() {
                break;
            }
            self.delete(resource, namespace, &name(index));
        }
    }
}

fn slice(namespace: &str, service: &str, name: &str, endpoint: &Endpoint) -> String {
    let family = match endpoint.address.ip() {
        IpAddr::V4(_) => "IPv4",
        IpAddr::V6(_) => "IPv6",
    };
    json!({
        "apiVersion": "discovery.k8s.io/v1",
        "kind": "EndpointSlice",
        "metadata": {"name": name, "namespace": namespace, "labels": {"kubernetes.io/service-name": service}},
        "addressType": family,
        "ports": [{"name": "http", "port": endpoint.address.port(), "protocol": "TCP"}],
        "endpoints": [{
            "addresses": [endpoint.address.ip()],
            "conditions": {
                "ready": endpoint.ready && !endpoint.terminating,
                "serving": endpoint.ready,
                "terminating": endpoint.terminating,
            },
        }],
    })
    .to_string()
}
