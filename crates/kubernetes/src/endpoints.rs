//! Which addresses of a Service take traffic: what kube-proxy does, for a proxy that connects to Pods itself. Pure.

use ingress::EndpointSource;
use ingress::objects::core::{Endpoint, EndpointSlice, Service};
use std::collections::BTreeSet;
use std::net::{IpAddr, SocketAddr};

/// Most addresses of one Service that are used. Kubernetes is tested with 10,000 endpoints of a Service; this bounds the
/// memory of a hostile one.
const ADDRESSES_MAX: usize = 16_384;

/// An endpoint with one address and the port of a source.
struct Candidate<'a> {
    address: SocketAddr,
    endpoint: &'a Endpoint,
}

impl Candidate<'_> {
    fn is_ready(&self) -> bool {
        self.endpoint.conditions.ready != Some(false)
    }

    /// Answers, though it is being ended.
    fn is_serving_to_the_end(&self) -> bool {
        let conditions = self.endpoint.conditions;
        conditions.serving != Some(false) && conditions.terminating == Some(true)
    }

    fn is_meant_for(&self, zone: &str) -> bool {
        self.endpoint.hints.for_zones.iter().any(|hint| hint.name == zone)
    }
}

/// The addresses of a port of a Service, sorted. `zone` is that of this replica.
pub(crate) fn addresses(
    service: Option<&Service>,
    slices: &[&EndpointSlice],
    source: &EndpointSource,
    zone: Option<&str>,
) -> Vec<SocketAddr> {
    let Some(service) = service else { return Vec::new() };
    let all = candidates(service, slices, source);
    let all = of_one_family(all, service.spec.cluster_ip.contains(':'));
    let chosen = nearest(in_service(all, service.spec.publish_not_ready_addresses), service, zone);
    let sorted: BTreeSet<SocketAddr> = chosen.into_iter().map(|one| one.address).collect();
    sorted.into_iter().take(ADDRESSES_MAX).collect()
}

fn candidates<'a>(service: &Service, slices: &[&'a EndpointSlice], source: &EndpointSource) -> Vec<Candidate<'a>> {
    let protocol = if source.udp { "UDP" } else { "TCP" };
    let is_of = |written: &str| if written.is_empty() { protocol == "TCP" } else { written == protocol };
    let port = service.spec.ports.iter().find(|port| port.port == source.port && is_of(&port.protocol));
    let Some(port) = port else { return Vec::new() };
    let mut found = Vec::new();
    for slice in slices.iter().filter(|slice| matches!(slice.address_type.as_str(), "IPv4" | "IPv6")) {
        // The control plane has resolved target ports with names: the slice has numbers.
        let number = slice.ports.iter().find(|one| {
            one.name.as_deref().unwrap_or_default() == port.name && is_of(one.protocol.as_deref().unwrap_or_default())
        });
        let Some(number) = number.map(|one| one.port.unwrap_or(source.port)) else { continue };
        for endpoint in &slice.endpoints {
            let address = endpoint.addresses.first().and_then(|address| address.parse().ok());
            let address = address.filter(|ip| is_reachable(*ip)).map(|ip| SocketAddr::new(ip, number));
            found.extend(address.map(|address| Candidate { address, endpoint }));
        }
    }
    found
}

/// The API server refuses these addresses, too: they would lead to this Pod, or to the metadata of a cloud.
fn is_reachable(ip: IpAddr) -> bool {
    let is_link_local = match ip {
        IpAddr::V4(ip) => ip.is_link_local() || ip.is_broadcast(),
        IpAddr::V6(ip) => ip.is_unicast_link_local(),
    };
    !(is_link_local || ip.is_loopback() || ip.is_unspecified() || ip.is_multicast())
}

/// A Pod of a Service with two families is in two slices. Those of the Service's first family are used, if there are any.
fn of_one_family(all: Vec<Candidate<'_>>, ipv6_first: bool) -> Vec<Candidate<'_>> {
    let (first, other): (Vec<_>, Vec<_>) = all.into_iter().partition(|one| one.address.is_ipv6() == ipv6_first);
    if first.is_empty() { other } else { first }
}

/// The ready ones; if there are none, those that are being ended and still answer.
fn in_service(all: Vec<Candidate<'_>>, publish_not_ready: bool) -> Vec<Candidate<'_>> {
    if publish_not_ready {
        return all;
    }
    let (ready, other): (Vec<_>, Vec<_>) = all.into_iter().partition(Candidate::is_ready);
    if ready.is_empty() { other.into_iter().filter(Candidate::is_serving_to_the_end).collect() } else { ready }
}

/// Those of the own zone, if hints or the Service ask for it and the zone has any.
fn nearest<'a>(all: Vec<Candidate<'a>>, service: &Service, zone: Option<&str>) -> Vec<Candidate<'a>> {
    let Some(zone) = zone.filter(|zone| !zone.is_empty()) else { return all };
    // An endpoint without a hint means that the control plane has not finished: hints do not count then.
    let has_hints = all.iter().all(|one| !one.endpoint.hints.for_zones.is_empty());
    let wants_near = matches!(service.spec.traffic_distribution.as_deref(), Some("PreferClose" | "PreferSameZone"));
    let is_near = |one: &Candidate<'_>| {
        if has_hints { one.is_meant_for(zone) } else { wants_near && one.endpoint.zone.as_deref() == Some(zone) }
    };
    if !all.iter().any(is_near) {
        return all;
    }
    all.into_iter().filter(is_near).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use ingress::Name;
    use serde_json::{Value, json};

    #[allow(clippy::needless_pass_by_value)] // `json!` makes values
    fn service(spec: Value) -> Service {
        serde_json::from_value(json!({"metadata": {"name": "app", "namespace": "shop"}, "spec": spec})).unwrap()
    }

    #[allow(clippy::needless_pass_by_value)] // `json!` makes values
    fn slice(address_type: &str, endpoints: Value) -> EndpointSlice {
        let ports = json!([{"name": "http", "port": 8080, "protocol": "TCP"}, {"name": "dns", "port": 5353, "protocol": "UDP"}]);
        let value = json!({"addressType": address_type, "endpoints": endpoints, "ports": ports});
        serde_json::from_value(value).unwrap()
    }

    fn source(port: u16, udp: bool) -> EndpointSource {
        EndpointSource { service: Name::new("shop", "app"), port, udp }
    }

    fn plain() -> Value {
        json!({"ports": [{"name": "http", "port": 80, "targetPort": "web"}, {"name": "dns", "port": 53, "protocol": "UDP"}]})
    }

    fn found(spec: Value, slices: &[EndpointSlice], zone: Option<&str>) -> Vec<String> {
        let slices: Vec<_> = slices.iter().collect();
        let found = addresses(Some(&service(spec)), &slices, &source(80, false), zone);
        found.iter().map(ToString::to_string).collect()
    }

    fn with(mut spec: Value, key: &str, value: Value) -> Value {
        spec[key] = value;
        spec
    }

    #[test]
    fn ready_endpoints_at_the_port_of_the_slice_each_once() {
        let one = slice(
            "IPv4",
            json!([{"addresses": ["10.0.0.2"]}, {"addresses": ["10.0.0.1"], "conditions": {"ready": true}},
            {"addresses": ["10.0.0.3"], "conditions": {"ready": false}}]),
        );
        let same = slice("IPv4", json!([{"addresses": ["10.0.0.1"]}]));
        assert_eq!(found(plain(), &[one.clone(), same], None), ["10.0.0.1:8080", "10.0.0.2:8080"]);
        let udp = addresses(Some(&service(plain())), &[&one], &source(53, true), None);
        assert_eq!(udp.first().map(ToString::to_string).as_deref(), Some("10.0.0.1:5353"));
        assert!(addresses(Some(&service(plain())), &[&one], &source(81, false), None).is_empty(), "no such port");
        assert!(addresses(None, &[&one], &source(80, false), None).is_empty(), "no such Service");
    }

    #[test]
    fn not_ready_ones_serve_if_published() {
        let slices = [slice("IPv4", json!([{"addresses": ["10.0.0.3"], "conditions": {"ready": false}}]))];
        assert_eq!(found(plain(), &slices, None), [""; 0]);
        let published = with(plain(), "publishNotReadyAddresses", json!(true));
        assert_eq!(found(published, &slices, None), ["10.0.0.3:8080"]);
    }

    #[test]
    fn terminating_ones_serve_until_another_is_ready() {
        let ending =
            json!({"addresses": ["10.0.0.1"], "conditions": {"ready": false, "serving": true, "terminating": true}});
        let dead =
            json!({"addresses": ["10.0.0.2"], "conditions": {"ready": false, "serving": false, "terminating": true}});
        let ready = json!({"addresses": ["10.0.0.3"], "conditions": {"ready": true}});
        assert_eq!(found(plain(), &[slice("IPv4", json!([ending, dead]))], None), ["10.0.0.1:8080"]);
        assert_eq!(found(plain(), &[slice("IPv4", json!([ending, dead, ready]))], None), ["10.0.0.3:8080"]);
    }

    #[test]
    fn hints_count_if_every_endpoint_has_one_and_the_zone_is_served() {
        let at = |last: u8, zone: &str| json!({"addresses": [format!("10.0.0.{last}")], "hints": {"forZones": [{"name": zone}]}});
        let hinted = [slice("IPv4", json!([at(1, "a"), at(2, "b")]))];
        assert_eq!(found(plain(), &hinted, Some("a")), ["10.0.0.1:8080"]);
        assert_eq!(found(plain(), &hinted, Some("c")).len(), 2);
        assert_eq!(found(plain(), &hinted, None).len(), 2);
        let half = [slice("IPv4", json!([at(1, "a"), {"addresses": ["10.0.0.2"]}]))];
        assert_eq!(found(plain(), &half, Some("a")).len(), 2);
    }

    #[test]
    fn near_endpoints_are_preferred_if_the_service_says_so() {
        let slices = [slice(
            "IPv4",
            json!([{"addresses": ["10.0.0.1"], "zone": "a"}, {"addresses": ["10.0.0.2"], "zone": "b"}]),
        )];
        assert_eq!(found(plain(), &slices, Some("a")).len(), 2);
        for word in ["PreferClose", "PreferSameZone"] {
            let spec = with(plain(), "trafficDistribution", json!(word));
            assert_eq!(found(spec.clone(), &slices, Some("b")), ["10.0.0.2:8080"]);
            assert_eq!(found(spec, &slices, Some("c")).len(), 2, "no endpoint of the zone");
        }
    }

    #[test]
    fn one_family_of_two_is_used() {
        let both =
            [slice("IPv4", json!([{"addresses": ["10.0.0.1"]}])), slice("IPv6", json!([{"addresses": ["fd00::1"]}]))];
        assert_eq!(found(plain(), &both, None), ["10.0.0.1:8080"]);
        assert_eq!(found(with(plain(), "clusterIP", json!("fd00:1::9")), &both, None), ["[fd00::1]:8080"]);
        assert_eq!(found(plain(), &both[1..], None), ["[fd00::1]:8080"]);
        assert_eq!(found(with(plain(), "clusterIP", json!("None")), &both, None), ["10.0.0.1:8080"], "headless");
    }

    #[test]
    fn addresses_of_this_machine_and_of_metadata_are_left_out() {
        let bad = json!([{"addresses": ["127.0.0.1"]}, {"addresses": ["169.254.169.254"]}, {"addresses": ["0.0.0.0"]}, {"addresses": ["x"]},
            {"addresses": []}]);
        assert_eq!(found(plain(), &[slice("IPv4", bad)], None), [""; 0]);
        assert_eq!(found(plain(), &[slice("FQDN", json!([{"addresses": ["10.0.0.1"]}]))], None), [""; 0]);
    }
}
