//! The addresses at which clients find this proxy: `--publish-status-address`, or those of `--publish-service`. Pure.

use ingress::objects::core::Service;
use serde_json::{Value, json};
use std::net::IpAddr;

/// Most addresses of a status.
const ADDRESSES_MAX: usize = 64;

/// The entries of `status.loadBalancer.ingress`.
pub(crate) fn addresses(written: &[String], service: Option<&Service>) -> Vec<Value> {
    let mut all: Vec<Value> = written.iter().filter_map(|address| entry(address)).collect();
    if let (true, Some(service)) = (written.is_empty(), service) {
        all = of_service(service);
    }
    all.truncate(ADDRESSES_MAX);
    all
}

/// The same for a Gateway.
pub(crate) fn gateway_addresses(entries: &[Value]) -> Value {
    let typed = entries.iter().filter_map(|entry| {
        let (kind, key) = if entry.get("ip").is_some() { ("IPAddress", "ip") } else { ("Hostname", "hostname") };
        Some(json!({"type": kind, "value": entry.get(key)?}))
    });
    Value::Array(typed.collect())
}

fn entry(address: &str) -> Option<Value> {
    let address = address.trim();
    if address.is_empty() {
        return None;
    }
    Some(if address.parse::<IpAddr>().is_ok() { json!({"ip": address}) } else { json!({"hostname": address}) })
}

fn of_service(service: &Service) -> Vec<Value> {
    let spec = &service.spec;
    let external = spec.external_ips.iter().filter_map(|address| entry(address));
    match spec.kind.as_str() {
        "ExternalName" => entry(&spec.external_name).into_iter().collect(),
        "LoadBalancer" => {
            let balancer = &service.status.load_balancer.ingress;
            let own = balancer.iter().filter_map(|one| entry(if one.ip.is_empty() { &one.hostname } else { &one.ip }));
            own.chain(external).collect()
        }
        _ if !spec.external_ips.is_empty() => external.collect(),
        _ => entry(Some(spec.cluster_ip.as_str()).filter(|ip| *ip != "None").unwrap_or_default()).into_iter().collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(service: Value) -> Value {
        let service: Service = serde_json::from_value(service).unwrap();
        Value::Array(addresses(&[], Some(&service)))
    }

    #[test]
    fn written_addresses_come_first_and_are_typed() {
        let service = Service::default();
        let found = addresses(&["192.0.2.1".into(), " lb.example.com".into()], Some(&service));
        assert_eq!(found, [json!({"ip": "192.0.2.1"}), json!({"hostname": "lb.example.com"})]);
        let typed =
            json!([{"type": "IPAddress", "value": "192.0.2.1"}, {"type": "Hostname", "value": "lb.example.com"}]);
        assert_eq!(gateway_addresses(&found), typed);
    }

    #[test]
    fn addresses_of_a_service_depend_on_its_type() {
        let balancer = json!({"spec": {"type": "LoadBalancer", "clusterIP": "10.0.0.1"},
            "status": {"loadBalancer": {"ingress": [{"hostname": "lb.test"}, {"ip": "192.0.2.7"}]}}});
        assert_eq!(of(balancer), json!([{"hostname": "lb.test"}, {"ip": "192.0.2.7"}]));
        assert_eq!(of(json!({"spec": {"type": "LoadBalancer"}})), json!([]), "the cloud has not answered yet");
        assert_eq!(of(json!({"spec": {"type": "NodePort", "clusterIP": "10.0.0.1"}})), json!([{"ip": "10.0.0.1"}]));
        assert_eq!(
            of(json!({"spec": {"externalIPs": ["192.0.2.9"], "clusterIP": "10.0.0.1"}})),
            json!([{"ip": "192.0.2.9"}])
        );
        assert_eq!(
            of(json!({"spec": {"type": "ExternalName", "externalName": "x.test"}})),
            json!([{"hostname": "x.test"}])
        );
        assert_eq!(of(json!({"spec": {"clusterIP": "None"}})), json!([]));
    }
}
