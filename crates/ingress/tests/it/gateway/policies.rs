//! `BackendTLSPolicy`.

use super::{Outcome, World, authority, certificate, condition_of, gateway, listener, no, route, route_of, rule, yes};
use ingress::Kind;
use serde_json::{Value, json};

fn policy(name: &str, created: &str, validation: Value) -> Value {
    json!({
        "kind": "BackendTLSPolicy",
        "metadata": { "name": name, "namespace": "infra", "creationTimestamp": created, "generation": 4 },
        "spec": { "targetRefs": [{ "group": "", "kind": "Service", "name": "app" }], "validation": validation },
    })
}

fn with_ca(name: &str) -> Value {
    json!({ "hostname": "abc.example.com", "caCertificateRefs": [{ "group": "", "kind": "ConfigMap", "name": name }] })
}

fn world() -> World {
    let mut world = World::new();
    world.add(authority("ca")).add(route("r", json!([rule("/")])));
    world
}

#[track_caller]
fn ancestor(outcome: &Outcome, name: &str, condition: &str) -> (String, String) {
    let ancestors = outcome.status(Kind::BackendTlsPolicy, name)["ancestors"].as_array().expect("ancestors");
    assert_eq!(ancestors.len(), 1, "{ancestors:?}");
    assert_eq!(ancestors[0]["ancestorRef"]["name"], "gw");
    assert_eq!(ancestors[0]["conditions"][0]["observedGeneration"], 4);
    condition_of(&ancestors[0], condition)
}

#[test]
fn backend_tls_policy() {
    let outcome = world().add(policy("p", "2026-01-01T00:00:00Z", with_ca("ca"))).clean();
    assert_eq!(ancestor(&outcome, "infra/p", "Accepted"), yes("Accepted"));
    assert_eq!(ancestor(&outcome, "infra/p", "ResolvedRefs"), yes("ResolvedRefs"));
    for line in [
        "proxy_pass https://infra_app_8080;",
        "proxy_ssl_verify on;",
        "proxy_ssl_server_name on;",
        "proxy_ssl_name abc.example.com;",
        "proxy_ssl_trusted_certificate /kubernetes/configmaps/infra/ca/ca.crt;",
    ] {
        outcome.has(line);
    }
}

#[test]
fn backend_tls_policy_with_the_authorities_of_the_system() {
    let system = json!({ "hostname": "abc.example.com", "wellKnownCACertificates": "System" });
    let outcome = world().add(policy("p", "2026-01-01T00:00:00Z", system)).clean();
    outcome.has("proxy_ssl_verify on;");
    outcome.has_not("trusted_certificate");
}

#[test]
fn an_invalid_policy_fails_its_backend() {
    let mut wrong_kind = with_ca("ca");
    wrong_kind["caCertificateRefs"][0]["kind"] = json!("Pod");
    for (validation, reason) in [(with_ca("nope"), "InvalidCACertificateRef"), (wrong_kind, "InvalidKind")] {
        let outcome = world().add(policy("p", "2026-01-01T00:00:00Z", validation)).clean();
        assert_eq!(ancestor(&outcome, "infra/p", "Accepted"), no("NoValidCACertificate"));
        assert_eq!(ancestor(&outcome, "infra/p", "ResolvedRefs"), no(reason));
        assert_eq!(outcome.block("location @http.infra.r.0 {"), "    return 500;\n");
    }
    for name in [
        json!({ "type": "Email", "uri": "a@b" }),
        json!({ "type": "URI", "hostname": "a.test" }),
        json!({ "type": "URI", "uri": "spiffe://x/\n" }),
        json!({ "type": "Hostname", "hostname": "a".repeat(254) }),
    ] {
        let mut names = with_ca("ca");
        names["subjectAltNames"] = json!([name]);
        let outcome = world().add(policy("p", "2026-01-01T00:00:00Z", names)).clean();
        assert_eq!(ancestor(&outcome, "infra/p", "Accepted"), no("Invalid"));
        assert_eq!(outcome.block("location @http.infra.r.0 {"), "    return 500;\n");
    }
}

#[test]
fn hostname_that_tls_cannot_ask_for_fails_only_its_policy() {
    let long = format!("{}.test", "a".repeat(64));
    for (hostname, is_good) in [
        ("a.test", true),
        ("a_b.c-d.test", true),
        ("10.0.0.1", true),
        ("localhost", true),
        ("a.123", false),
        ("123", false),
        ("-a.test", false),
        ("a-.test", false),
        ("a..test", false),
        ("*.a.test", false),
        ("", false),
        (long.as_str(), false),
    ] {
        let mut validation = with_ca("ca");
        validation["hostname"] = json!(hostname);
        let outcome = world().add(policy("p", "2026-01-01T00:00:00Z", validation)).clean();
        let expected = if is_good { yes("Accepted") } else { no("Invalid") };
        assert_eq!(ancestor(&outcome, "infra/p", "Accepted"), expected, "{hostname}");
        assert_eq!(outcome.block("location @http.infra.r.0 {") == "    return 500;\n", !is_good, "{hostname}");
    }
}

#[test]
fn backend_tls_policy_san_validation() {
    let mut names = with_ca("ca");
    names["subjectAltNames"] =
        json!([{ "type": "Hostname", "hostname": "Other.example.com" }, { "type": "URI", "uri": "spiffe://x/$y;" }]);
    let outcome = world().add(policy("p", "2026-01-01T00:00:00Z", names.clone())).clean();
    assert_eq!(ancestor(&outcome, "infra/p", "Accepted"), yes("Accepted"));
    outcome.has("proxy_ssl_name abc.example.com;");
    outcome.has("proxy_ssl_verify_san DNS:other.example.com URI:spiffe://x/$y;;");
    // Calls of gRPC and connections of TLSRoutes are verified in the same way.
    let calls = json!({ "rules": [{ "backendRefs": [{ "name": "app", "port": 8080 }] }] });
    let mut secure = gateway("gw", json!([listener("tls", "TLS", 443)]));
    secure["spec"]["listeners"][0]["tls"] = json!({ "mode": "Terminate", "certificateRefs": [{ "name": "cert" }] });
    let mut both = World::new();
    both.add(authority("ca")).add(certificate("infra", "cert")).add(policy("p", "2026-01-01T00:00:00Z", names));
    both.add(route_of("GRPCRoute", "g", calls.clone()));
    both.clean().has("grpc_ssl_verify_san DNS:other.example.com URI:spiffe://x/$y;;");
    let mut calls = calls;
    calls["hostnames"] = json!(["a.test"]);
    both.add(secure).add(route_of("TLSRoute", "t", calls));
    both.clean().has("proxy_ssl_verify_san DNS:other.example.com URI:spiffe://x/$y;;");
}

#[test]
fn backend_tls_policy_conflict_resolution() {
    let outcome = world()
        .add(policy("young", "2026-02-01T00:00:00Z", with_ca("nope")))
        .add(policy("old", "2026-01-01T00:00:00Z", with_ca("ca")))
        .clean();
    assert_eq!(ancestor(&outcome, "infra/old", "Accepted"), yes("Accepted"));
    assert_eq!(ancestor(&outcome, "infra/young", "Accepted"), no("Conflicted"));
    outcome.has("proxy_pass https://infra_app_8080;");
    // A policy for one port goes before one for the whole Service.
    let mut port = policy(
        "port",
        "2026-03-01T00:00:00Z",
        json!({ "hostname": "port.example.com", "wellKnownCACertificates": "System" }),
    );
    port["spec"]["targetRefs"][0]["sectionName"] = json!("http");
    let outcome = world().add(policy("old", "2026-01-01T00:00:00Z", with_ca("ca"))).add(port).clean();
    outcome.has("proxy_ssl_name port.example.com;");
}

#[test]
fn gateway_backend_client_certificate() {
    let mut object = gateway("gw", json!([listener("http", "HTTP", 80)]));
    object["spec"]["tls"] = json!({ "backend": { "clientCertificateRef": { "name": "client" } } });
    let outcome = world()
        .add(object)
        .add(certificate("infra", "client"))
        .add(policy("p", "2026-01-01T00:00:00Z", with_ca("ca")))
        .clean();
    outcome.has("proxy_ssl_certificate /kubernetes/secrets/infra/client/tls.crt;");
}
