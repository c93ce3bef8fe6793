//! What the admission webhook says about routes: what the controller would not accept for a reason in the route itself.

use super::{World, gateway, listener, no, route, route_of, rule, service, with, yes};
use ingress::admission::{Judgement, Reviewed, advice, asks_the_same, judge};
use ingress::{Kind, Level, Name};
use proptest::prelude::*;
use serde_json::{Value, json};

fn read(route: &Value) -> Reviewed {
    match route["kind"].as_str() {
        Some("HTTPRoute") => Reviewed::HttpRoute(serde_json::from_value(route.clone()).expect("a route")),
        Some("GRPCRoute") => Reviewed::GrpcRoute(serde_json::from_value(route.clone()).expect("a route")),
        Some("TLSRoute") => Reviewed::TlsRoute(serde_json::from_value(route.clone()).expect("a route")),
        Some("TCPRoute") => Reviewed::TcpRoute(serde_json::from_value(route.clone()).expect("a route")),
        Some("UDPRoute") => Reviewed::UdpRoute(serde_json::from_value(route.clone()).expect("a route")),
        other => panic!("{other:?}"),
    }
}

fn judged(world: &World, route: &Value) -> Judgement {
    judge(&world.cluster, &world.settings, read(route))
}

fn messages(findings: &[ingress::Finding]) -> Vec<&str> {
    findings.iter().map(|finding| finding.message.as_str()).collect()
}

/// A rule with other fields.
fn ruled(more: Value) -> Value {
    with(rule("/"), more)
}

#[test]
fn a_good_route_is_accepted_without_a_word() {
    assert_eq!(judged(&World::new(), &route("r", json!([rule("/a")]))), Judgement::default());
    let calls = json!({ "rules": [{ "matches": [{ "method": { "service": "a.B" } }], "backendRefs": [{ "name": "app", "port": 8080 }] }] });
    assert_eq!(judged(&World::new(), &route_of("GRPCRoute", "r", calls)), Judgement::default());
}

#[test]
fn what_the_controller_does_not_accept_is_refused() {
    let header = json!({ "set": [{ "name": "Transfer-Encoding", "value": "x" }] });
    for (kind, rule, words) in [
        (
            "HTTPRoute",
            ruled(json!({ "matches": [{ "path": { "type": "RegularExpression", "value": "/(" } }] })),
            "missing closing parenthesis",
        ),
        (
            "HTTPRoute",
            ruled(json!({ "filters": [{ "type": "ExternalAuth", "externalAuth": {} }] })),
            "the filter ExternalAuth is not supported",
        ),
        (
            "HTTPRoute",
            ruled(json!({ "filters": [{ "type": "ExtensionRef", "extensionRef": { "kind": "Lua", "name": "x" } }] })),
            "filters of kind \"Lua\"",
        ),
        (
            "HTTPRoute",
            ruled(json!({ "filters": [{ "type": "RequestHeaderModifier", "requestHeaderModifier": header }] })),
            "may not change the field",
        ),
        ("HTTPRoute", ruled(json!({ "timeouts": { "request": "soon" } })), "\"soon\" is not a duration"),
        ("HTTPRoute", ruled(json!({ "retry": { "codes": [418] } })), "retries after status 418"),
        ("HTTPRoute", ruled(json!({ "sessionPersistence": { "type": "Header" } })), "use Cookie"),
        ("HTTPRoute", ruled(json!({ "matches": [{ "path": { "type": "Glob", "value": "/*" } }] })), "path type Glob"),
        (
            "GRPCRoute",
            json!({ "matches": [{ "method": { "type": "RegularExpression", "service": "(" } }] }),
            "missing closing parenthesis",
        ),
        ("GRPCRoute", json!({ "filters": [{ "type": "URLRewrite" }] }), "has no settings"),
    ] {
        let route = route_of(kind, "r", json!({ "rules": [rule] }));
        let found = judged(&World::new(), &route);
        assert_eq!(found.refused.len(), 1, "{words}: {found:?}");
        assert!(found.refused[0].message.contains(words), "{found:?}");
        assert!(advice(&found.refused[0]).contains("Gateway API"));
        // The controller says the same of the stored route.
        let kind = found.refused[0].object.kind;
        let outcome = World::new().add(route).run();
        assert_eq!(outcome.route(kind, "infra/r", "Accepted"), no("UnsupportedValue"), "{words}");
    }
}

#[test]
fn what_may_come_later_is_a_warning() {
    let bad = json!({ "timeouts": { "request": "soon" } });
    let without = json!({ "backendRefs": [{ "name": "later", "port": 80 }] });
    let foreign = json!({ "backendRefs": [{ "name": "app", "namespace": "web", "port": 80 }] });
    for (world, rule, words) in [
        (World::new(), &without, "there is no Service infra/later"),
        (World::new(), &foreign, "no ReferenceGrant in web"),
    ] {
        let found = judged(&world, &route("r", json!([rule])));
        assert!(found.refused.is_empty() && messages(&found.warnings)[0].contains(words), "{found:?}");
        // A value of the route is refused although its Service is missing.
        let found = judged(&world, &route("r", json!([with(rule.clone(), bad.clone())])));
        assert!(messages(&found.refused)[0].contains("\"soon\""), "{found:?}");
    }
    let mut narrow = World::empty();
    narrow.add(gateway("gw", json!([with(listener("http", "HTTP", 80), json!({ "hostname": "a.test" }))])));
    let other = route_of("HTTPRoute", "r", json!({ "hostnames": ["b.test"], "rules": [rule("/")] }));
    let found = judged(&narrow, &other);
    assert!(found.refused.is_empty() && messages(&found.warnings)[0].contains("no host in common"), "{found:?}");
    assert!(found.warnings.iter().all(|it| it.level == Level::Warning));
}

#[test]
fn partly_wrong_route_is_stored_with_a_warning() {
    let wrong = ruled(json!({ "filters": [{ "type": "ExternalAuth" }] }));
    let found = judged(&World::new(), &route("r", json!([rule("/a"), wrong])));
    assert!(found.refused.is_empty(), "{found:?}");
    assert_eq!(messages(&found.warnings), ["the filter ExternalAuth is not supported"]);
}

#[test]
fn routes_of_connections_are_judged_at_a_listener_of_their_own() {
    let mut world = World::empty();
    let passing = json!({ "tls": { "mode": "Passthrough" } });
    let mut dns = service("dns");
    dns["spec"]["ports"] = json!([{ "port": 53, "protocol": "UDP" }]);
    world.add(service("app")).add(dns).add(gateway(
        "gw",
        json!([
            with(listener("tls", "TLS", 8443), passing),
            listener("tcp", "TCP", 9000),
            listener("udp", "UDP", 9000)
        ]),
    ));
    for kind in ["TLSRoute", "TCPRoute", "UDPRoute"] {
        let of = |rules: Value| route_of(kind, "r", with(json!({ "rules": rules }), hosts_of(kind)));
        let (name, port) = if kind == "UDPRoute" { ("dns", 53) } else { ("app", 8080) };
        let good = json!({ "backendRefs": [{ "name": name, "port": port }] });
        assert_eq!(judged(&world, &of(json!([good]))), Judgement::default(), "{kind}");
        let found = judged(&world, &of(json!([{ "backendRefs": [{ "name": "later", "port": 80 }] }])));
        assert!(found.refused.is_empty(), "{kind}: {found:?}");
        assert!(messages(&found.warnings)[0].contains("there is no Service infra/later"), "{kind}: {found:?}");
        let found = judged(&world, &of(json!([good, good])));
        assert!(found.refused.is_empty(), "{kind}: {found:?}");
        assert_eq!(messages(&found.warnings), ["only the first rule is used"], "{kind}");
        let many: Vec<Value> = (0..65).map(|_| good.clone()).collect();
        let found = judged(&world, &of(json!(many)));
        assert_eq!(found.refused[0].reason, "TooLarge", "{kind}");
        let labelled = with(of(json!([good])), json!({}));
        assert!(asks_the_same(&world.settings, &read(&labelled), &read(&of(json!([good])))));
        assert!(!asks_the_same(&world.settings, &read(&labelled), &read(&of(json!([good, good])))));
    }
}

/// Only a `TLSRoute` has hostnames, and it must have one.
fn hosts_of(kind: &str) -> Value {
    if kind == "TLSRoute" { json!({ "hostnames": ["a.test"] }) } else { json!({}) }
}

#[test]
fn routes_of_other_controllers_are_not_judged() {
    let bad = route("r", json!([ruled(json!({ "filters": [{ "type": "ExternalAuth" }] }))]));
    assert_eq!(judged(&World::empty(), &bad), Judgement::default(), "there is no Gateway yet");
    let mut world = World::empty();
    let mut other = gateway("gw", json!([listener("http", "HTTP", 80)]));
    other["spec"]["gatewayClassName"] = json!("other");
    world.add(other);
    assert_eq!(judged(&world, &bad), Judgement::default());
    // What an older version of the status says makes it no route of this controller.
    let status = json!({ "parents": [{ "controllerName": "holdfast.dev/gateway", "parentRef": { "name": "gw" } }] });
    assert_eq!(judged(&world, &with(bad.clone(), json!({ "status": status }))), Judgement::default());
    let mut ends = bad;
    ends["metadata"]["deletionTimestamp"] = json!("2026-01-02T00:00:00Z");
    assert_eq!(judged(&World::new(), &ends), Judgement::default());
}

#[test]
fn refusals_do_not_depend_on_other_objects() {
    let bad = route("r", json!([ruled(json!({ "timeouts": { "request": "soon" } }))]));
    let mut world = World::new();
    let refused = judged(&world, &bad).refused;
    world.pool(&[]).add(route("older", json!([rule("/")]))).cluster.services.remove(&Name::new("infra", "app"));
    assert_eq!(judged(&world, &bad).refused, refused);
    world.add(service("app"));
    assert_eq!(judged(&world, &bad).refused, refused);
    assert_eq!(refused[0].object.kind, Kind::HttpRoute);
}

#[test]
fn labels_of_a_route_ask_for_nothing_new() {
    let world = World::new();
    let old = route("r", json!([rule("/")]));
    let mut new = old.clone();
    new["metadata"]["labels"] = json!({ "a": "b" });
    assert!(asks_the_same(&world.settings, &read(&old), &read(&new)));
    new["spec"]["rules"][0]["timeouts"] = json!({ "request": "1s" });
    assert!(!asks_the_same(&world.settings, &read(&old), &read(&new)));
}

#[test]
fn largest_routes_are_judged_and_larger_ones_refused() {
    let regex = |at: usize| json!({ "path": { "type": "RegularExpression", "value": format!("/{at}/[a-z]+(x|y)*/{}", "a?".repeat(400)) } });
    let exact = |at: usize| json!({ "path": { "type": "Exact", "value": format!("/{at}") } });
    let matches: Vec<Value> = (0..64).map(regex).chain((0..64).map(exact)).collect();
    let hostnames: Vec<String> = (0..64).map(|at| format!("h{at}.test")).collect();
    let spec = |hostnames: &[String], matches: &[Value]| json!({ "hostnames": hostnames, "rules": [with(rule("/"), json!({ "matches": matches }))] });
    let found = judged(&World::new(), &route_of("HTTPRoute", "r", spec(&hostnames, &matches)));
    assert_eq!(found, Judgement::default());
    let many = [matches.clone(), vec![exact(200)]].concat();
    let fields: Vec<Value> = (0..65).map(|at| json!({ "name": format!("x-{at}"), "value": "v" })).collect();
    let filter = json!({ "type": "RequestHeaderModifier", "requestHeaderModifier": { "set": fields } });
    for spec in [
        spec(&[hostnames.clone(), hostnames].concat(), &matches),
        spec(&[], &many),
        json!({ "rules": vec![rule("/"); 65] }),
        json!({ "rules": [ruled(json!({ "filters": [filter.clone()] }))] }),
        json!({ "rules": [{ "backendRefs": [{ "name": "app", "port": 8080, "filters": [filter] }] }] }),
        json!({ "rules": [{ "matches": [{ "headers": fields }] }] }),
    ] {
        let found = judged(&World::new(), &route_of("HTTPRoute", "r", spec));
        assert_eq!(found.refused.iter().map(|it| it.reason).collect::<Vec<_>>(), ["TooLarge"]);
    }
}

/// A field of a route that may be wrong.
fn odd_rule() -> impl Strategy<Value = Value> {
    let text = prop_oneof!["[ -~]{0,12}", any::<String>(), "/[a-z(){}*+?$]{0,8}", "[0-9]{1,3}(s|ms|m|x)?"];
    let number = prop_oneof![Just(0), 1..600u32, any::<u32>()];
    let kind = prop_oneof![
        "Exact|PathPrefix|RegularExpression|Cookie|Header|ReplaceFullPath|ReplacePrefixMatch|Permanent|Session",
        "[A-Z][a-z]{0,6}"
    ];
    (text, number, kind, 0..9usize).prop_map(|(text, number, kind, which)| match which {
        0 => json!({ "matches": [{ "path": { "type": kind, "value": text } }] }),
        1 => json!({ "matches": [{ "headers": [{ "type": kind, "name": text, "value": text }] }] }),
        2 => json!({ "timeouts": { "request": text } }),
        3 => json!({ "retry": { "codes": [number % 1000], "attempts": number } }),
        4 => json!({ "sessionPersistence": { "type": kind, "sessionName": text, "absoluteTimeout": text } }),
        5 => json!({ "filters": [{ "type": "RequestRedirect", "requestRedirect":
            { "scheme": text, "statusCode": number % 1000, "path": { "type": kind, "replaceFullPath": text } } }] }),
        6 => json!({ "filters": [{ "type": "URLRewrite", "urlRewrite":
            { "hostname": text, "path": { "type": kind, "replacePrefixMatch": text } } }] }),
        7 => json!({ "filters": [{ "type": "ResponseHeaderModifier", "responseHeaderModifier":
            { "set": [{ "name": text, "value": text }], "remove": [kind] } }] }),
        _ => json!({ "filters": [{ "type": "CORS", "cors": { "allowOrigins": [text], "allowMethods": [kind] } }] }),
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 128, ..ProptestConfig::default() })]

    #[test]
    fn webhook_and_controller_agree_about_any_route(rules in proptest::collection::vec(odd_rule(), 1..4)) {
        let rules: Vec<Value> = rules.into_iter().map(ruled).collect();
        let route = route("r", json!(rules));
        let found = judged(&World::new(), &route);
        let outcome = World::new().add(route).run();
        let accepted = outcome.route(Kind::HttpRoute, "infra/r", "Accepted");
        prop_assert_eq!(found.refused.is_empty(), accepted == yes("Accepted"), "{:?} {:?}", found, accepted);
    }
}
