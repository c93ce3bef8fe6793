//! `TLSRoute`, `TCPRoute`, `UDPRoute`.

use super::{World, certificate, gateway, listener, no, route_of, with, yes};
use ingress::Kind;
use serde_json::{Value, json};

fn to(names: &[(&str, u32)], port: u16) -> Value {
    let backends: Vec<_> =
        names.iter().map(|(name, weight)| json!({ "name": name, "port": port, "weight": weight })).collect();
    json!({ "rules": [{ "backendRefs": backends }] })
}

fn at(kind: &str, name: &str, hostnames: &[&str], rules: Value) -> Value {
    let mut route = route_of(kind, name, rules);
    if !hostnames.is_empty() {
        route["spec"]["hostnames"] = json!(hostnames);
    }
    route
}

fn passing(hostname: &str) -> Value {
    with(listener("tls", "TLS", 8443), json!({ "hostname": hostname, "tls": { "mode": "Passthrough" } }))
}

#[test]
fn tls_route_simple_same_namespace() {
    let outcome = World::empty()
        .add(gateway("gw", json!([passing("")])))
        .add(at("TLSRoute", "r", &["abc.example.com"], to(&[("app", 1)], 8080)))
        .clean();
    assert_eq!(outcome.route(Kind::TlsRoute, "infra/r", "Accepted"), yes("Accepted"));
    assert_eq!(outcome.listener_json("infra/gw", "tls")["supportedKinds"][0]["kind"], "TLSRoute");
    outcome.has("abc.example.com infra_app_8080;");
    outcome.has("ssl_preread on;");
}

#[test]
fn tls_route_invalid_references_and_listeners() {
    let of = |listener: Value, rules: Value| {
        World::empty().add(gateway("gw", json!([listener]))).add(at("TLSRoute", "r", &["a.example.com"], rules)).clean()
    };
    let good = || to(&[("app", 1)], 8080);
    let missing = of(passing(""), to(&[("nope", 1)], 8080));
    assert_eq!(missing.route(Kind::TlsRoute, "infra/r", "ResolvedRefs"), no("BackendNotFound"));
    let other_host = of(passing("b.example.com"), good());
    assert_eq!(other_host.route(Kind::TlsRoute, "infra/r", "Accepted"), no("NoMatchingListenerHostname"));
    let other_kind = of(listener("http", "HTTP", 80), good());
    assert_eq!(other_kind.route(Kind::TlsRoute, "infra/r", "Accepted"), no("NotAllowedByListeners"));
}

#[test]
fn tls_route_terminate() {
    let own = with(
        listener("tls", "TLS", 8443),
        json!({ "tls": { "mode": "Terminate", "certificateRefs": [{ "name": "cert" }] } }),
    );
    let outcome = World::empty()
        .add(certificate("infra", "cert"))
        .add(gateway("gw", json!([own])))
        .add(at("TLSRoute", "r", &["abc.example.com"], to(&[("app", 1)], 8080)))
        .clean();
    outcome.has("listen 8443 ssl;");
    outcome.has("server_name abc.example.com;");
    outcome.has("ssl_certificate /kubernetes/secrets/infra/cert/tls.crt;");
    outcome.has("proxy_pass infra_app_8080;");
}

#[test]
fn tls_of_names_without_a_route_or_a_backend_is_refused() {
    let passed = World::empty()
        .add(gateway("gw", json!([passing("")])))
        .add(at("TLSRoute", "r", &["a.example.com"], to(&[("nope", 1)], 8080)))
        .clean();
    passed.has("a.example.com \"\";");
    let without = World::empty().add(gateway("gw", json!([passing("")]))).clean();
    without.has("listen 8443;");
    let own = with(
        listener("tls", "TLS", 8443),
        json!({ "tls": { "mode": "Terminate", "certificateRefs": [{ "name": "cert" }] } }),
    );
    let of = |hosts: &[&str], service: &str| {
        World::empty()
            .add(certificate("infra", "cert"))
            .add(gateway("gw", json!([own.clone()])))
            .add(at("TLSRoute", "r", hosts, to(&[(service, 1)], 8080)))
            .clean()
    };
    let ended = of(&["a.example.com"], "nope");
    ended.has("return \"\";");
    ended.has("listen 8443 ssl default_server;");
    ended.has("ssl_reject_handshake on;");
    of(&[], "app").has("server_name ~^;");
}

fn ending(name: &str, hostname: &str) -> Value {
    let tls = json!({ "mode": "Terminate", "certificateRefs": [{ "name": "cert" }] });
    with(listener(name, "TLS", 8443), json!({ "hostname": hostname, "tls": tls }))
}

#[test]
fn tls_route_mixed_termination_same_namespace() {
    let outcome = World::empty()
        .add(certificate("infra", "cert"))
        .add(gateway("gw", json!([ending("end", "tls.example.com"), passing("abc.example.com")])))
        .add(at("TLSRoute", "passed", &["abc.example.com"], to(&[("app", 1)], 8080)))
        .add(at("TLSRoute", "ended", &["tls.example.com"], to(&[("app2", 1)], 8080)))
        .clean();
    for name in ["end", "tls"] {
        assert_eq!(outcome.listener("infra/gw", name, "Accepted"), yes("Accepted"), "{name}");
        assert_eq!(outcome.listener_json("infra/gw", name)["attachedRoutes"], 1, "{name}");
    }
    // The port gives each connection to one of two listeners inside: 8442 ends TLS.
    outcome.has("listen 8443;");
    outcome.has("pass $hf_next_8443;");
    outcome.has("tls.example.com 127.0.0.1:8442;");
    outcome.has("default 127.0.0.1:8442;");
    outcome.has("listen 127.0.0.1:8442 ssl;");
    outcome.has("listen 127.0.0.1:8442 ssl default_server;");
    outcome.has("proxy_pass infra_app2_8080;");
    outcome.has("abc.example.com infra_app_8080;");
    outcome.has_not("listen 8443 ssl");
}

#[test]
fn the_more_exact_hostname_decides_the_tls_mode() {
    let of = |listeners: Value| {
        World::empty()
            .add(certificate("infra", "cert"))
            .add(gateway("gw", listeners))
            .add(at("TLSRoute", "r", &[], to(&[("app", 1)], 8080)))
            .clean()
    };
    // Only the names of its own listener are passed on by each server.
    let outcome = of(json!([ending("end", "a.example.com"), passing("*.example.com")]));
    outcome.has("a.example.com 127.0.0.1:8442;");
    outcome.has("*.example.com 127.0.0.1:8441;");
    outcome.has("server_name a.example.com;");
    let outcome = of(json!([ending("end", "*.example.com"), passing("a.example.com")]));
    outcome.has("a.example.com 127.0.0.1:8441;");
    outcome.has("a.example.com infra_app_8080;");
    outcome.has("*.example.com 127.0.0.1:8442;");
    outcome.has("server_name *.example.com;");
    // Without a route, its connections are closed, not taken by the other mode.
    let outcome = World::empty()
        .add(certificate("infra", "cert"))
        .add(gateway("gw", json!([ending("end", ""), passing("a.example.com")])))
        .add(at("TLSRoute", "r", &["b.example.com"], to(&[("app", 1)], 8080)))
        .clean();
    outcome.has("a.example.com 127.0.0.1:8441;");
    outcome.has("a.example.com \"\";");
    outcome.has("b.example.com 127.0.0.1:8442;");
}

#[test]
fn one_hostname_has_one_tls_mode() {
    let outcome = World::empty()
        .add(certificate("infra", "cert"))
        .add(gateway("gw", json!([ending("end", "a.b"), passing("a.b"), ending("other", "c.d")])))
        .clean();
    for name in ["end", "tls"] {
        assert_eq!(outcome.listener("infra/gw", name, "Accepted"), no("HostnameConflict"), "{name}");
    }
    assert_eq!(outcome.listener("infra/gw", "other", "Accepted"), yes("Accepted"));
}

#[test]
fn tcp_and_udp_routes() {
    let outcome = World::empty()
        .add(gateway("gw", json!([listener("tcp", "TCP", 5353), listener("udp", "UDP", 5353)])))
        .add(at("TCPRoute", "t", &[], to(&[("app", 90), ("app2", 10)], 8080)))
        .add(at("UDPRoute", "u", &[], to(&[("app", 1)], 53)))
        .clean();
    assert_eq!(outcome.route(Kind::TcpRoute, "infra/t", "Accepted"), yes("Accepted"));
    assert_eq!(outcome.route(Kind::UdpRoute, "infra/u", "ResolvedRefs"), yes("ResolvedRefs"));
    assert_eq!(outcome.listener_json("infra/gw", "udp")["attachedRoutes"], 1);
    outcome.has("listen 5353;");
    outcome.has("listen 5353 udp;");
    assert!(outcome.text.contains("weight=90"), "{}", outcome.text);
}

#[test]
fn tcp_route_multiple_routes_attachment() {
    let mut young = at("TCPRoute", "young", &[], to(&[("app2", 1)], 8080));
    young["metadata"]["creationTimestamp"] = json!("2027-01-01T00:00:00Z");
    let outcome = World::empty()
        .add(gateway("gw", json!([listener("tcp", "TCP", 9000)])))
        .add(young)
        .add(at("TCPRoute", "old", &[], to(&[("app", 1)], 8080)))
        .clean();
    assert_eq!(outcome.listener_json("infra/gw", "tcp")["attachedRoutes"], 2);
    outcome.has("proxy_pass infra_app_8080;");
    outcome.has_not("infra_app2_8080");
}

#[test]
fn udp_route_wants_a_udp_port() {
    let outcome = World::empty()
        .add(gateway("gw", json!([listener("udp", "UDP", 5353)])))
        .add(at("UDPRoute", "u", &[], to(&[("app", 1)], 8080)))
        .clean();
    assert_eq!(outcome.route(Kind::UdpRoute, "infra/u", "ResolvedRefs"), no("UnsupportedProtocol"));
}
