//! Classes, Gateways, listeners and `ListenerSet`s.

use super::{World, authority, certificate, condition_of, gateway, listener, no, route, rule, with, yes};
use ingress::Kind;
use serde_json::{Value, json};

fn secure(references: Value) -> Value {
    with(listener("https", "HTTPS", 443), json!({ "tls": { "certificateRefs": references } }))
}

#[test]
fn gateway_class_is_accepted_with_its_features() {
    let mut world = World::empty();
    world.add(
        json!({ "kind": "GatewayClass", "metadata": { "name": "other" }, "spec": { "controllerName": "x.example/y" } }),
    );
    let outcome = world.clean();
    let status = outcome.status(Kind::GatewayClass, "holdfast");
    assert_eq!(condition_of(status, "Accepted"), yes("Accepted"));
    assert_eq!(status["conditions"][0]["observedGeneration"], 3);
    let names: Vec<_> =
        status["supportedFeatures"].as_array().expect("features").iter().map(|each| each["name"].as_str()).collect();
    assert!(names.is_sorted() && names.contains(&Some("HTTPRoute")), "{names:?}");
    assert_eq!(outcome.translation.statuses.len(), 1, "not the class of another controller");
}

#[test]
fn a_class_with_parameters_is_refused_with_its_gateways() {
    let mut world = World::new();
    world.add(json!({
        "kind": "GatewayClass", "metadata": { "name": "holdfast" },
        "spec": { "controllerName": "holdfast.dev/gateway", "parametersRef": { "group": "x", "kind": "Y", "name": "z" } },
    }));
    let outcome = world.clean();
    assert_eq!(condition_of(outcome.status(Kind::GatewayClass, "holdfast"), "Accepted"), no("InvalidParameters"));
    assert_eq!(outcome.translation.statuses.len(), 1);
}

#[test]
fn a_gateway_is_accepted_and_programmed() {
    let outcome = World::new().clean();
    assert_eq!(outcome.gateway("infra/gw", "Accepted"), yes("Accepted"));
    assert_eq!(outcome.gateway("infra/gw", "Programmed"), yes("Programmed"));
    let listener = outcome.listener_json("infra/gw", "http");
    for (condition, expected) in [
        ("Accepted", yes("Accepted")),
        ("Programmed", yes("Programmed")),
        ("ResolvedRefs", yes("ResolvedRefs")),
        ("Conflicted", no("NoConflicts")),
    ] {
        assert_eq!(condition_of(&listener, condition), expected, "{condition}");
    }
    let kinds: Vec<_> =
        listener["supportedKinds"].as_array().expect("kinds").iter().map(|each| each["kind"].clone()).collect();
    assert_eq!(kinds, ["HTTPRoute", "GRPCRoute"]);
    assert_eq!(listener["conditions"][0]["observedGeneration"], 7);
}

#[test]
fn gateway_invalid_route_kind() {
    let of = |kinds: Value| {
        let own = with(listener("http", "HTTP", 80), json!({ "allowedRoutes": { "kinds": kinds } }));
        World::empty().add(gateway("gw", json!([own]))).clean()
    };
    let only = of(json!([{ "kind": "FooRoute" }]));
    assert_eq!(only.listener("infra/gw", "http", "ResolvedRefs"), no("InvalidRouteKinds"));
    assert_eq!(only.listener_json("infra/gw", "http")["supportedKinds"], json!([]));
    let some = of(json!([{ "kind": "FooRoute" }, { "kind": "HTTPRoute" }]));
    assert_eq!(some.listener("infra/gw", "http", "ResolvedRefs"), no("InvalidRouteKinds"));
    assert_eq!(some.listener_json("infra/gw", "http")["supportedKinds"][0]["kind"], "HTTPRoute");
    let other = of(json!([{ "kind": "HTTPRoute", "group": "x.example" }]));
    assert_eq!(other.listener("infra/gw", "http", "ResolvedRefs"), no("InvalidRouteKinds"));
}

#[test]
fn gateway_invalid_tls_configuration() {
    let mut malformed = certificate("infra", "malformed");
    malformed["data"]["tls.crt"] = json!("Q2VydGlmaWNhdGUK");
    for (references, reason) in [
        (json!([{ "name": "nope" }]), "InvalidCertificateRef"),
        (json!([{ "name": "cert", "group": "x.example", "kind": "Secret" }]), "InvalidCertificateRef"),
        (json!([{ "name": "cert", "kind": "ConfigMap" }]), "InvalidCertificateRef"),
        (json!([{ "name": "malformed" }]), "InvalidCertificateRef"),
        (json!([]), "InvalidCertificateRef"),
        (json!([{ "name": "cert", "namespace": "web" }]), "RefNotPermitted"),
    ] {
        let outcome = World::empty()
            .add(certificate("infra", "cert"))
            .add(certificate("web", "cert"))
            .add(malformed.clone())
            .add(gateway("gw", json!([secure(references.clone())])))
            .clean();
        assert_eq!(outcome.listener("infra/gw", "https", "ResolvedRefs"), no(reason), "{references}");
        assert_eq!(outcome.listener("infra/gw", "https", "Programmed"), no("Invalid"), "{references}");
    }
}

#[test]
fn gateway_secret_reference_grant() {
    for (name, expected) in [
        (json!("cert"), yes("ResolvedRefs")),
        (json!("other"), no("RefNotPermitted")),
        (json!(null), yes("ResolvedRefs")),
    ] {
        let grant = json!({
            "kind": "ReferenceGrant",
            "metadata": { "name": "g", "namespace": "web" },
            "spec": {
                "from": [{ "group": "gateway.networking.k8s.io", "kind": "Gateway", "namespace": "infra" }],
                "to": [{ "group": "", "kind": "Secret", "name": name }],
            },
        });
        let outcome = World::empty()
            .add(certificate("web", "cert"))
            .add(grant)
            .add(gateway("gw", json!([secure(json!([{ "name": "cert", "namespace": "web" }]))])))
            .clean();
        assert_eq!(outcome.listener("infra/gw", "https", "ResolvedRefs"), expected);
    }
}

#[test]
fn gateway_unsupported_protocol() {
    let strange = with(listener("invalid", "HTTP", 8080), json!({ "protocol": "x.example/bar" }));
    let only = World::empty().add(gateway("gw", json!([strange]))).clean();
    assert_eq!(only.gateway("infra/gw", "Accepted"), no("ListenersNotValid"));
    assert_eq!(only.listener("infra/gw", "invalid", "Accepted"), no("UnsupportedProtocol"));
    let some = World::empty().add(gateway("gw", json!([strange, listener("http", "HTTP", 80)]))).clean();
    assert_eq!(some.gateway("infra/gw", "Accepted"), yes("ListenersNotValid"));
    assert_eq!(some.listener("infra/gw", "http", "Accepted"), yes("Accepted"));
}

#[test]
fn listeners_of_one_gateway_in_conflict_lose_both() {
    let outcome = World::empty()
        .add(certificate("infra", "cert"))
        .add(gateway(
            "gw",
            json!([
                listener("a", "HTTP", 80),
                listener("b", "HTTP", 80),
                listener("c", "HTTP", 443),
                secure(json!([{ "name": "cert" }])),
                listener("d", "HTTP", 8080),
            ]),
        ))
        .clean();
    for name in ["a", "b"] {
        assert_eq!(outcome.listener("infra/gw", name, "Conflicted"), yes("HostnameConflict"), "{name}");
        assert_eq!(outcome.listener("infra/gw", name, "Accepted"), no("HostnameConflict"), "{name}");
        assert_eq!(outcome.listener("infra/gw", name, "Programmed"), no("HostnameConflict"), "{name}");
    }
    for name in ["c", "https"] {
        assert_eq!(outcome.listener("infra/gw", name, "Conflicted"), yes("ProtocolConflict"), "{name}");
    }
    assert_eq!(outcome.listener("infra/gw", "d", "Conflicted"), no("NoConflicts"));
}

#[test]
fn of_two_gateways_with_shared_addresses_the_older_wins() {
    let mut young = gateway("young", json!([listener("http", "HTTP", 80)]));
    young["metadata"]["creationTimestamp"] = json!("2027-01-01T00:00:00Z");
    let mut world = World::new();
    world.add(young.clone());
    let outcome = world.clean();
    assert_eq!(outcome.listener("infra/gw", "http", "Accepted"), yes("Accepted"));
    assert_eq!(outcome.listener("infra/young", "http", "Conflicted"), yes("HostnameConflict"));
    let outcome = world.pool(&["10.0.0.1", "10.0.0.2"]).clean();
    assert_eq!(outcome.listener("infra/young", "http", "Accepted"), yes("Accepted"));
    outcome.has("listen 10.0.0.1:80 default_server;");
    outcome.has("listen 10.0.0.2:80 default_server;");
    assert_eq!(
        outcome.status(Kind::Gateway, "infra/young")["addresses"],
        json!([{ "type": "IPAddress", "value": "10.0.0.2" }])
    );
    // With an address of its own a Gateway keeps it although an older one comes.
    young["status"] = json!({ "addresses": [{ "type": "IPAddress", "value": "10.0.0.1" }] });
    let outcome = world.add(young).clean();
    assert_eq!(outcome.status(Kind::Gateway, "infra/young")["addresses"][0]["value"], "10.0.0.1");
    assert_eq!(outcome.status(Kind::Gateway, "infra/gw")["addresses"][0]["value"], "10.0.0.2");
    let outcome = world.pool(&["10.0.0.1"]).clean();
    assert_eq!(outcome.gateway("infra/gw", "Programmed"), no("AddressNotAssigned"));
}

#[test]
fn gateway_static_addresses() {
    let of = |addresses: Value| {
        let mut gateway = gateway("gw", json!([listener("http", "HTTP", 80)]));
        gateway["spec"]["addresses"] = addresses;
        World::empty().add(gateway).pool(&["10.0.0.1", "10.0.0.2"]).clean()
    };
    let strange = json!({ "type": "test/fake-invalid-type", "value": "x" });
    let unusable = json!({ "type": "IPAddress", "value": "192.0.2.9" });
    let usable = json!({ "type": "IPAddress", "value": "10.0.0.2" });
    let outcome = of(json!([strange, unusable, usable]));
    assert_eq!(outcome.gateway("infra/gw", "Accepted"), no("UnsupportedAddress"));
    let outcome = of(json!([unusable, usable]));
    assert_eq!(outcome.gateway("infra/gw", "Accepted"), yes("Accepted"));
    assert_eq!(outcome.gateway("infra/gw", "Programmed"), no("AddressNotUsable"));
    let outcome = of(json!([usable]));
    assert_eq!(outcome.gateway("infra/gw", "Programmed"), yes("Programmed"));
    assert_eq!(outcome.status(Kind::Gateway, "infra/gw")["addresses"], json!([usable]));
    let outcome = of(json!([{ "type": "IPAddress" }]));
    assert_eq!(outcome.gateway("infra/gw", "Programmed"), yes("Programmed"));
}

#[test]
fn gateway_parameters_are_refused() {
    let mut object = gateway("gw", json!([listener("http", "HTTP", 80)]));
    object["spec"]["infrastructure"] = json!({ "parametersRef": { "group": "", "kind": "ConfigMap", "name": "p" } });
    let outcome = World::empty().add(object).clean();
    assert_eq!(outcome.gateway("infra/gw", "Accepted"), no("InvalidParameters"));
    assert_eq!(outcome.listener("infra/gw", "http", "Programmed"), no("Invalid"));
}

#[test]
fn gateway_client_certificate_validation() {
    let of = |validation: Value| {
        let mut object = gateway("gw", json!([secure(json!([{ "name": "cert" }]))]));
        object["spec"]["tls"] =
            json!({ "frontend": { "default": {}, "perPort": [{ "port": 443, "tls": { "validation": validation } }] } });
        World::empty().add(certificate("infra", "cert")).add(authority("ca")).add(object).clean()
    };
    let good = json!({ "kind": "ConfigMap", "group": "", "name": "ca" });
    let outcome = of(json!({ "caCertificateRefs": [good] }));
    outcome.has("ssl_verify_client on;");
    outcome.has("ssl_client_certificate /kubernetes/configmaps/infra/ca/ca.crt;");
    // No answer, as the API wants it.
    outcome.has("error_page 495 496 @refused;");
    outcome.has("return 444;");
    let outcome = of(json!({ "caCertificateRefs": [good], "mode": "AllowInsecureFallback" }));
    outcome.has("ssl_verify_client optional_no_ca;");
    outcome.has_not("ssl_client_certificate");
    assert_eq!(outcome.gateway("infra/gw", "InsecureFrontendValidationMode"), yes("ConfigurationChanged"));
    for (reference, reason) in [
        (json!({ "kind": "ConfigMap", "group": "", "name": "nope" }), "InvalidCACertificateRef"),
        (json!({ "kind": "Pod", "group": "", "name": "ca" }), "InvalidCACertificateKind"),
        (json!({ "kind": "ConfigMap", "group": "", "name": "ca", "namespace": "web" }), "RefNotPermitted"),
    ] {
        let outcome = of(json!({ "caCertificateRefs": [reference] }));
        assert_eq!(outcome.listener("infra/gw", "https", "ResolvedRefs"), no(reason));
        assert_eq!(outcome.listener("infra/gw", "https", "Accepted"), no("NoValidCACertificate"));
        assert_eq!(outcome.listener("infra/gw", "https", "Programmed"), no("Invalid"));
    }
}

#[test]
fn gateway_invalid_tls_backend_configuration() {
    for (reference, expected) in [
        (json!({ "name": "cert" }), yes("ResolvedRefs")),
        (json!({ "name": "nope" }), no("InvalidClientCertificateRef")),
        (json!({ "name": "cert", "kind": "ConfigMap" }), no("InvalidClientCertificateRef")),
        (json!({ "name": "cert", "namespace": "web" }), no("RefNotPermitted")),
    ] {
        let mut object = gateway("gw", json!([listener("http", "HTTP", 80)]));
        object["spec"]["tls"] = json!({ "backend": { "clientCertificateRef": reference } });
        let outcome = World::empty().add(certificate("infra", "cert")).add(object).clean();
        assert_eq!(outcome.gateway("infra/gw", "ResolvedRefs"), expected, "{reference}");
        assert_eq!(outcome.gateway("infra/gw", "Accepted"), yes("Accepted"));
    }
}

fn set(name: &str, namespace: &str, listeners: Value) -> Value {
    json!({
        "kind": "ListenerSet",
        "metadata": { "name": name, "namespace": namespace, "creationTimestamp": "2026-02-01T00:00:00Z" },
        "spec": { "parentRef": { "name": "gw", "namespace": "infra" }, "listeners": listeners },
    })
}

fn allowing(from: Value) -> Value {
    let mut object = gateway("gw", json!([listener("http", "HTTP", 80)]));
    object["spec"]["allowedListeners"] = json!({ "namespaces": from });
    object
}

#[test]
fn listener_set_allowed_namespaces() {
    for (object, expected) in [
        (gateway("gw", json!([listener("http", "HTTP", 80)])), no("NotAllowed")),
        (allowing(json!({ "from": "None" })), no("NotAllowed")),
        (allowing(json!({ "from": "Same" })), no("NotAllowed")),
        (allowing(json!({ "from": "All" })), yes("Accepted")),
        (allowing(json!({ "from": "Selector", "selector": { "matchLabels": { "team": "web" } } })), yes("Accepted")),
    ] {
        let outcome = World::empty().add(object).add(set("ls", "web", json!([listener("more", "HTTP", 8080)]))).clean();
        assert_eq!(condition_of(outcome.status(Kind::ListenerSet, "web/ls"), "Accepted"), expected);
        let count = i32::from(expected.0 == "True");
        assert_eq!(outcome.status(Kind::Gateway, "infra/gw")["attachedListenerSets"], count);
    }
}

#[test]
fn listener_set_hostname_conflict() {
    let outcome = World::empty()
        .add(allowing(json!({ "from": "All" })))
        .add(set("one", "infra", json!([listener("own", "HTTP", 8081), listener("http", "HTTP", 80)])))
        .add(set("two", "infra", json!([listener("http", "HTTP", 80)])))
        .clean();
    assert_eq!(outcome.listener("infra/gw", "http", "Accepted"), yes("Accepted"));
    let one = outcome.status(Kind::ListenerSet, "infra/one");
    assert_eq!(condition_of(one, "Accepted"), yes("Accepted"));
    assert_eq!(condition_of(&one["listeners"][1], "Conflicted"), yes("HostnameConflict"));
    assert_eq!(condition_of(outcome.status(Kind::ListenerSet, "infra/two"), "Accepted"), no("ListenersNotValid"));
    assert_eq!(outcome.status(Kind::Gateway, "infra/gw")["attachedListenerSets"], 1);
}

#[test]
fn listener_set_http_routing() {
    let mut at_set = route("r", json!([rule("/")]));
    at_set["spec"]["parentRefs"] = json!([{ "kind": "ListenerSet", "name": "ls", "sectionName": "more" }]);
    let outcome = World::empty()
        .add(allowing(json!({ "from": "All" })))
        .add(set("ls", "infra", json!([listener("more", "HTTP", 8080)])))
        .add(at_set)
        .clean();
    assert_eq!(outcome.route(Kind::HttpRoute, "infra/r", "Accepted"), yes("Accepted"));
    assert_eq!(outcome.listener_json("infra/gw", "http")["attachedRoutes"], 0);
    assert_eq!(outcome.status(Kind::ListenerSet, "infra/ls")["listeners"][0]["attachedRoutes"], 1);
    outcome.has("listen 8080 default_server;");
}
