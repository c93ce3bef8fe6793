//! Attachment of routes, references to backends, and the statuses of both.

use super::{World, gateway, listener, no, route, rule, with, yes};
use ingress::Kind;
use serde_json::{Value, json};

const HTTP: Kind = Kind::HttpRoute;

#[test]
fn http_route_simple_same_namespace() {
    let outcome = World::new().add(route("r", json!([{ "backendRefs": [{ "name": "app", "port": 8080 }] }]))).clean();
    assert_eq!(outcome.route(HTTP, "infra/r", "Accepted"), yes("Accepted"));
    assert_eq!(outcome.route(HTTP, "infra/r", "ResolvedRefs"), yes("ResolvedRefs"));
    let parent = &outcome.status(HTTP, "infra/r")["parents"][0];
    assert_eq!(parent["controllerName"], "holdfast.dev/gateway");
    assert_eq!(parent["parentRef"]["name"], "gw");
    assert_eq!(parent["conditions"][0]["observedGeneration"], 2);
    assert_eq!(outcome.listener_json("infra/gw", "http")["attachedRoutes"], 1);
    assert_eq!(outcome.block("location / {"), "    route_to @http.infra.r.0;\n    return 404;\n");
    outcome.has("proxy_pass http://infra_app_8080;");
}

#[test]
fn http_route_invalid_references() {
    for (reference, reason) in [
        (json!({ "name": "nope", "port": 8080 }), "BackendNotFound"),
        (json!({ "name": "app", "port": 9 }), "BackendNotFound"),
        (json!({ "name": "app" }), "BackendNotFound"),
        (json!({ "name": "app", "port": 53 }), "UnsupportedProtocol"),
        (json!({ "name": "app", "kind": "Bucket", "group": "storage.example", "port": 8080 }), "InvalidKind"),
        (json!({ "name": "app", "namespace": "web", "port": 8080 }), "RefNotPermitted"),
    ] {
        let outcome = World::new().add(route("r", json!([{ "backendRefs": [reference] }]))).clean();
        assert_eq!(outcome.route(HTTP, "infra/r", "Accepted"), yes("Accepted"));
        assert_eq!(outcome.route(HTTP, "infra/r", "ResolvedRefs"), no(reason), "{reference}");
        assert_eq!(outcome.block("location @http.infra.r.0 {"), "    return 500;\n");
    }
}

#[test]
fn http_route_reference_grant() {
    let grant = |to: Value| {
        json!({
            "kind": "ReferenceGrant",
            "metadata": { "name": "g", "namespace": "infra" },
            "spec": { "from": [{ "group": "gateway.networking.k8s.io", "kind": "HTTPRoute", "namespace": "web" }], "to": [to] },
        })
    };
    let foreign = || {
        let mut route = route("r", json!([{ "backendRefs": [{ "name": "app", "namespace": "infra", "port": 8080 }] }]));
        route["metadata"]["namespace"] = json!("web");
        route["spec"]["parentRefs"][0]["namespace"] = json!("infra");
        route
    };
    for (to, allowed) in [
        (json!({ "group": "", "kind": "Service", "name": "app" }), true),
        (json!({ "group": "", "kind": "Service" }), true),
        (json!({ "group": "", "kind": "Service", "name": "app2" }), false),
        (json!({ "group": "", "kind": "Secret" }), false),
    ] {
        let outcome = World::new().add(foreign()).add(grant(to.clone())).clean();
        let expected = if allowed { yes("ResolvedRefs") } else { no("RefNotPermitted") };
        assert_eq!(outcome.route(HTTP, "web/r", "ResolvedRefs"), expected, "{to}");
    }
}

#[test]
fn http_route_parent_references() {
    let with_parent = |more: Value| {
        let mut route = route("r", json!([rule("/")]));
        route["spec"]["parentRefs"][0] = with(json!({ "name": "gw" }), more);
        World::new().add(route).clean()
    };
    for (more, expected) in [
        (json!({ "sectionName": "http" }), yes("Accepted")),
        (json!({ "port": 80 }), yes("Accepted")),
        (json!({ "sectionName": "other" }), no("NoMatchingParent")),
        (json!({ "port": 81 }), no("NoMatchingParent")),
        (json!({ "sectionName": "http", "port": 81 }), no("NoMatchingParent")),
    ] {
        assert_eq!(with_parent(more.clone()).route(HTTP, "infra/r", "Accepted"), expected, "{more}");
    }
    let foreign = with_parent(json!({ "name": "another-gateway" }));
    assert!(foreign.translation.statuses.iter().all(|wish| wish.object.kind != HTTP), "not this controller's");
}

#[test]
fn http_route_preserve_foreign_status() {
    let mut gone = route("r", json!([rule("/")]));
    gone["spec"]["parentRefs"][0]["name"] = json!("deleted");
    gone["status"] = json!({ "parents": [
        { "parentRef": { "name": "deleted" }, "controllerName": "holdfast.dev/gateway" },
        { "parentRef": { "name": "x" }, "controllerName": "other.example/gateway" },
    ] });
    let outcome = World::new().add(gone).clean();
    assert_eq!(outcome.status(HTTP, "infra/r"), &json!({ "parents": [] }), "own entries go, others are not named");
}

#[test]
fn http_route_namespaces_of_listeners() {
    let in_web = || {
        let mut route = route("r", json!([rule("/")]));
        route["metadata"]["namespace"] = json!("web");
        route["spec"]["parentRefs"][0]["namespace"] = json!("infra");
        route
    };
    for (namespaces, allowed) in [
        (json!({ "from": "All" }), true),
        (json!({ "from": "Same" }), false),
        (json!({}), false),
        (json!({ "from": "Selector", "selector": { "matchLabels": { "team": "web" } } }), true),
        (json!({ "from": "Selector", "selector": { "matchLabels": { "team": "x" } } }), false),
        (
            json!({ "from": "Selector", "selector": { "matchExpressions": [{ "key": "team", "operator": "In", "values": ["web"] }] } }),
            true,
        ),
        (
            json!({ "from": "Selector", "selector": { "matchExpressions": [{ "key": "team", "operator": "DoesNotExist" }] } }),
            false,
        ),
        (json!({ "from": "Selector" }), false),
    ] {
        let own = with(listener("http", "HTTP", 80), json!({ "allowedRoutes": { "namespaces": namespaces } }));
        let outcome = World::empty().add(gateway("gw", json!([own]))).add(in_web()).clean();
        let expected = if allowed { yes("Accepted") } else { no("NotAllowedByListeners") };
        assert_eq!(outcome.route(HTTP, "web/r", "Accepted"), expected, "{namespaces}");
    }
}

#[test]
fn http_route_disallowed_kind() {
    let outcome = World::empty()
        .add(gateway("gw", json!([listener("tcp", "TCP", 9000)])))
        .add(route("r", json!([rule("/")])))
        .clean();
    assert_eq!(outcome.route(HTTP, "infra/r", "Accepted"), no("NotAllowedByListeners"));
}

#[test]
fn http_route_hostname_intersection() {
    let named = |name: &str, hostname: &str| with(listener(name, "HTTP", 80), json!({ "hostname": hostname }));
    let listeners = json!([named("exact", "very.specific.com"), named("wild", "*.wildcard.io")]);
    let of = |hostnames: Value| {
        let mut route = route("r", json!([rule("/")]));
        route["spec"]["hostnames"] = hostnames;
        World::empty().add(gateway("gw", listeners.clone())).add(route).clean()
    };
    let both = of(json!(["*.specific.com", "foo.wildcard.io", "non.matching.com"]));
    assert_eq!(both.route(HTTP, "infra/r", "Accepted"), yes("Accepted"));
    both.has("server_name very.specific.com;");
    both.has("server_name foo.wildcard.io;");
    both.has_not("non.matching.com");
    let none = of(json!(["specific.but.wrong.com", "wildcard.io"]));
    assert_eq!(none.route(HTTP, "infra/r", "Accepted"), no("NoMatchingListenerHostname"));
    assert_eq!(none.listener_json("infra/gw", "wild")["attachedRoutes"], 0);
}

#[test]
fn attached_routes_include_unresolved_references() {
    let bad = json!([{ "backendRefs": [{ "name": "nope", "port": 1 }] }]);
    let outcome = World::new().add(route("one", bad)).add(route("two", json!([rule("/")]))).clean();
    assert_eq!(outcome.listener_json("infra/gw", "http")["attachedRoutes"], 2);
}

#[test]
fn a_route_with_a_wrong_expression_is_refused_alone() {
    let wrong = json!([{ "matches": [{ "path": { "type": "RegularExpression", "value": "/(" } }] }]);
    let outcome = World::new().add(route("bad", wrong)).add(route("good", json!([rule("/good")]))).run();
    assert_eq!(outcome.route(HTTP, "infra/bad", "Accepted"), no("UnsupportedValue"));
    assert_eq!(outcome.route(HTTP, "infra/good", "Accepted"), yes("Accepted"));
    outcome.has("location @http.infra.good.0 {");
    outcome.has_not("infra.bad");
    assert!(outcome.translation.findings.iter().any(|finding| finding.object.to_string() == "HTTPRoute infra/bad"));
}
