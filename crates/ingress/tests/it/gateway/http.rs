//! Matches of `HTTPRoute`s and `GRPCRoute`s, and servers of listeners.

use super::{World, certificate, gateway, listener, no, route, route_of, rule, service, with, yes};
use ingress::Kind;
use serde_json::{Value, json};

#[test]
fn http_route_matching() {
    let matched = |path: &str, more: Value| with(json!({ "path": { "type": "PathPrefix", "value": path } }), more);
    let to = |matches: Value| json!({ "matches": matches, "backendRefs": [{ "name": "app", "port": 8080 }] });
    let outcome = World::new()
        .add(route(
            "r",
            json!([
                to(json!([
                    matched("/", json!({})),
                    matched("/v2", json!({ "headers": [{ "name": "Version", "value": "two" }] }))
                ])),
                to(json!([matched("/v2", json!({}))])),
            ]),
        ))
        .clean();
    assert_eq!(outcome.block("location / {"), "    route_to @http.infra.r.0;\n    return 404;\n");
    let v2 = "    route_to @http.infra.r.0 header:version=two;\n    route_to @http.infra.r.1;\n    return 404;\n";
    assert_eq!(outcome.block("location = /v2 {"), v2);
    assert_eq!(outcome.block("location /v2/ {"), v2);
}

#[test]
fn http_route_exact_path_matching() {
    let exact = json!([{ "matches": [{ "path": { "type": "Exact", "value": "/one" } }], "backendRefs": [{ "name": "app", "port": 8080 }] }]);
    let outcome = World::new().add(route("r", exact)).clean();
    assert_eq!(outcome.block("location = /one {"), "    route_to @http.infra.r.0;\n    return 404;\n");
    assert_eq!(outcome.block("location / {"), "    return 404;\n");
    outcome.has_not("location /one/");
}

#[test]
fn the_precedence_is_path_method_headers_arguments_age() {
    let one = |more: Value| json!({ "matches": [with(json!({ "path": { "value": "/a" } }), more)] });
    let mut young = route("young", json!([one(json!({ "method": "GET" }))]));
    young["metadata"]["creationTimestamp"] = json!("2027-01-01T00:00:00Z");
    let outcome = World::new()
        .add(route(
            "old",
            json!([
                one(json!({ "queryParams": [{ "name": "q", "value": "1" }] })),
                one(json!({ "headers": [{ "name": "x", "value": "1" }] })),
                one(json!({ "headers": [{ "name": "x", "value": "1" }, { "name": "y", "value": "1" }] })),
                one(json!({ "method": "GET" })),
                { "matches": [{ "path": { "type": "RegularExpression", "value": "/a/[0-9]+" } }] },
                { "matches": [{ "path": { "type": "Exact", "value": "/a" } }] },
            ]),
        ))
        .add(young)
        .clean();
    let expected = "    route_to @http.infra.old.5;\n    return 404;\n";
    assert_eq!(outcome.block("location = /a {"), expected);
    let below = outcome.block("location /a/ {");
    let order: Vec<_> = below.lines().map(str::trim).collect();
    assert_eq!(
        order,
        [
            "route_to @http.infra.old.4 ~$uri=^(?:/a/[0-9]+)$;",
            "route_to @http.infra.old.3 method=GET;",
            "route_to @http.infra.young.0 method=GET;",
            "route_to @http.infra.old.2 header:x=1 header:y=1;",
            "route_to @http.infra.old.1 header:x=1;",
            "route_to @http.infra.old.0 arg:q=1;",
            "return 404;",
        ]
    );
}

#[test]
fn http_route_header_and_query_matching_take_values_as_data() {
    let rules = json!([{
        "matches": [{
            "headers": [
                { "name": "X-Color", "value": "$host; }" },
                { "name": "x-color", "value": "ignored" },
                { "name": "V", "type": "RegularExpression", "value": "v[12]" },
            ],
            "queryParams": [{ "name": "animal", "type": "RegularExpression", "value": "whale|bear" }],
        }],
        "backendRefs": [{ "name": "app", "port": 8080 }],
    }]);
    let outcome = World::new().add(route("r", rules)).clean();
    outcome.has("route_to @http.infra.r.0 header:x-color=$host; } ~header:v=^(?:v[12])$ ~arg:animal=^(?:whale|bear)$;");
}

#[test]
fn gateway_http_listener_isolation() {
    let named = |name: &str, hostname: &str| with(listener(name, "HTTP", 80), json!({ "hostname": hostname }));
    let at = |name: &str, section: &str, hostnames: Value| {
        let mut route = route(name, json!([rule("/")]));
        route["spec"]["parentRefs"][0]["sectionName"] = json!(section);
        route["spec"]["hostnames"] = hostnames;
        route
    };
    let outcome = World::empty()
        .add(gateway(
            "gw",
            json!([listener("all", "HTTP", 80), named("wild", "*.example.com"), named("foo", "foo.example.com")]),
        ))
        .add(at("all", "all", json!(["foo.example.com", "bar.example.com", "other.net"])))
        .add(at("wild", "wild", json!([])))
        .clean();
    // foo.example.com belongs to its own listener, which has no route; bar.example.com to the wildcard.
    let servers: Vec<_> = outcome.text.split("    server {\n").collect();
    let server = |name: &str| {
        let line = format!("server_name {name};");
        servers.iter().find(|text| text.contains(&line)).unwrap_or_else(|| panic!("no {line}"))
    };
    assert!(!server("foo.example.com").contains("route_to"));
    assert!(server("*.example.com").contains("route_to @http.infra.wild.0"));
    assert!(server("other.net").contains("route_to @http.infra.all.0"));
    outcome.has_not("server_name bar.example.com;");
}

#[test]
fn a_more_exact_hostname_goes_first_and_others_follow() {
    let mut exact = route("exact", json!([{ "matches": [{ "headers": [{ "name": "x", "value": "1" }] }] }]));
    exact["spec"]["hostnames"] = json!(["a.example.com"]);
    let mut wild = route("wild", json!([rule("/")]));
    wild["spec"]["hostnames"] = json!(["*.example.com"]);
    let outcome = World::new().add(wild).add(exact).clean();
    let servers: Vec<_> =
        outcome.text.split("    server {\n").filter(|text| text.contains("server_name a.example.com;")).collect();
    let [server] = servers.as_slice() else { panic!("{}", outcome.text) };
    let first = server.find("route_to @http.infra.exact.0 header:x=1;").expect("the exact one");
    let second = server.find("route_to @http.infra.wild.0;").expect("the wildcard");
    assert!(first < second);
}

#[test]
fn http_route_weight() {
    let outcome = World::new()
        .add(route(
            "r",
            json!([{ "backendRefs": [
            { "name": "app", "port": 8080, "weight": 70 },
            { "name": "app2", "port": 8080, "weight": 30 },
            { "name": "nope", "port": 8080, "weight": 0 },
        ] }]),
        ))
        .clean();
    let split = outcome.text.lines().position(|line| line.trim_start().starts_with("split_clients")).expect("a split");
    let lines: Vec<_> = outcome.text.lines().skip(split + 1).take(2).map(str::trim).collect();
    assert_eq!(lines, ["70.00% @http.infra.r.0.b0;", "* @http.infra.r.0.b1;"]);
    let location = outcome.block("location @http.infra.r.0 {");
    assert!(location.starts_with("    route_to @http.infra.r.0.b0 $hf_"), "{location}");
    assert!(outcome.block("location @http.infra.r.0.b1 {").contains("proxy_pass http://infra_app2_8080;"));
}

#[test]
fn an_invalid_backend_fails_its_share_only() {
    let outcome = World::new()
        .add(route(
            "r",
            json!([{ "backendRefs": [{ "name": "app", "port": 8080 }, { "name": "nope", "port": 8080 }] }]),
        ))
        .clean();
    assert!(outcome.block("location @http.infra.r.0.b0 {").contains("proxy_pass"));
    assert_eq!(outcome.block("location @http.infra.r.0.b1 {"), "    return 500;\n");
    let zero = json!([{ "backendRefs": [{ "name": "app", "port": 8080, "weight": 0 }] }]);
    let outcome = World::new().add(route("r", zero)).clean();
    assert_eq!(outcome.block("location @http.infra.r.0 {"), "    return 500;\n");
}

#[test]
fn http_route_omitted_backend_refs() {
    let outcome = World::new().add(route("r", json!([{ "matches": [] }]))).clean();
    assert_eq!(outcome.block("location @http.infra.r.0 {"), "    return 500;\n");
    assert_eq!(outcome.route(Kind::HttpRoute, "infra/r", "ResolvedRefs"), yes("ResolvedRefs"));
}

#[test]
fn http_route_backend_protocol_h2c() {
    let mut h2c = service("app");
    h2c["spec"]["ports"][0]["appProtocol"] = json!("kubernetes.io/h2c");
    let outcome = World::new().add(h2c).add(route("r", json!([rule("/")]))).clean();
    outcome.has("proxy_http_version 2;");
    assert!(!outcome.block("location @http.infra.r.0 {").contains("proxy_set_header Connection"));
    let outcome = World::new().add(route("r", json!([rule("/")]))).clean();
    outcome.has("proxy_set_header Upgrade $http_upgrade;");
    outcome.has_not("proxy_http_version 2;");
}

#[test]
fn http_route_timeouts_and_retries() {
    let timed = |more: Value| json!([with(rule("/"), more)]);
    let outcome = World::new()
        .add(route("r", timed(json!({ "timeouts": { "request": "10s", "backendRequest": "500ms" } }))))
        .clean();
    outcome.has("proxy_read_timeout 500ms;");
    outcome.has("proxy_next_upstream_timeout 10000ms;");
    outcome.has("proxy_request_timeout 10000ms;");
    outcome.has("proxy_next_upstream error;");
    let outcome = World::new().add(route("r", timed(json!({ "timeouts": { "request": "0s" } })))).clean();
    outcome.has("proxy_read_timeout 86400000ms;");
    outcome.has_not("proxy_request_timeout");
    let outcome = World::new().add(route("r", timed(json!({ "timeouts": { "backendRequest": "2s" } })))).clean();
    outcome.has("proxy_read_timeout 2000ms;");
    outcome.has_not("proxy_request_timeout");
    let retry = json!({ "retry": { "codes": [500, 503], "attempts": 3 } });
    let outcome = World::new().add(route("r", timed(retry))).clean();
    outcome.has("proxy_next_upstream error timeout non_idempotent http_500 http_503;");
    outcome.has("proxy_next_upstream_tries 4;");
    outcome.has("proxy_next_upstream_again on;");
    outcome.has_not("proxy_next_upstream_pause");
    let retry = json!({ "retry": { "attempts": 2, "backoff": "1s500ms" } });
    let outcome = World::new().add(route("r", timed(retry))).clean();
    outcome.has("proxy_next_upstream_tries 3;");
    outcome.has("proxy_next_upstream_pause 1500ms;");
    let outcome = World::new().add(route("r", timed(json!({ "retry": { "backoff": "0s" } })))).clean();
    outcome.has_not("proxy_next_upstream_pause");
    let outcome = World::new().add(route("r", timed(json!({ "retry": { "backoff": "soon" } })))).clean();
    assert_eq!(outcome.route(Kind::HttpRoute, "infra/r", "Accepted"), no("UnsupportedValue"));
    let outcome = World::new().add(route("r", timed(json!({ "retry": { "codes": [418] } })))).clean();
    assert_eq!(outcome.route(Kind::HttpRoute, "infra/r", "Accepted"), no("UnsupportedValue"));
}

#[test]
fn http_route_session_persistence() {
    let sticky = json!([with(rule("/"), json!({ "sessionPersistence": { "sessionName": "sid" } }))]);
    let outcome = World::new().add(route("r", sticky)).clean();
    outcome.has("sticky cookie sid path=/ httponly;");
    let header = json!([with(rule("/"), json!({ "sessionPersistence": { "type": "Header" } }))]);
    let outcome = World::new().add(route("r", header)).clean();
    assert_eq!(outcome.route(Kind::HttpRoute, "infra/r", "Accepted"), no("UnsupportedValue"));
}

#[test]
fn grpc_route_methods_and_headers() {
    let to = |matches: Value| json!({ "matches": matches, "backendRefs": [{ "name": "app", "port": 8080 }] });
    let outcome = World::new()
        .add(route_of(
            "GRPCRoute",
            "r",
            json!({ "rules": [
                to(json!([{ "method": { "service": "pkg.Echo", "method": "Say" } }])),
                to(json!([{ "method": { "service": "pkg.Echo" }, "headers": [{ "name": "v", "value": "2" }] }])),
                to(json!([{ "method": { "method": "Say" } }])),
                to(json!([{ "method": { "type": "RegularExpression", "service": "pkg\\..*" } }])),
            ] }),
        ))
        .clean();
    assert_eq!(outcome.route(Kind::GrpcRoute, "infra/r", "Accepted"), yes("Accepted"));
    assert_eq!(outcome.block("location = /pkg.Echo/Say {"), "    route_to @grpc.infra.r.0;\n    return 404;\n");
    let service = outcome.block("location /pkg.Echo/ {");
    assert!(service.contains("route_to @grpc.infra.r.2 ~$uri=^/[^/]+/Say$;"), "{service}");
    assert!(service.contains("route_to @grpc.infra.r.3 ~$uri=^/(?:pkg\\..*)/(?:[^/]+)$;"), "{service}");
    assert!(service.contains("route_to @grpc.infra.r.1 header:v=2;"), "{service}");
    outcome.has("grpc_pass grpc://infra_app_8080;");
    outcome.has("http2 on;");
}

#[test]
fn an_https_listener_refuses_misdirected_requests() {
    let secure = |name: &str, hostname: &str| {
        let tls = json!({ "certificateRefs": [{ "name": "cert" }] });
        with(listener(name, "HTTPS", 443), json!({ "hostname": hostname, "tls": tls }))
    };
    let outcome = World::empty()
        .add(certificate("infra", "cert"))
        .add(gateway("gw", json!([secure("one", "one.example"), secure("wild", "*.wild.example")])))
        .add(route("r", json!([rule("/")])))
        .clean();
    outcome.has("ssl_certificate /kubernetes/secrets/infra/cert/tls.crt;");
    outcome.has("one.example 1;");
    outcome.has("*.wild.example 2;");
    assert!(outcome.text.contains("!~ ^1?$ ) {"), "{}", outcome.text);
    outcome.has("return 421;");
}
