//! Filters of rules and of backends.

use super::{World, no, route, rule, with, yes};
use ingress::Kind;
use serde_json::{Value, json};

const HTTP: Kind = Kind::HttpRoute;

fn filtered(filter: Value) -> World {
    let mut world = World::new();
    world.add(route("r", json!([with(rule("/p"), json!({ "filters": [filter] }))])));
    world
}

#[test]
fn http_route_request_header_modifier() {
    let outcome = filtered(json!({ "type": "RequestHeaderModifier", "requestHeaderModifier": {
        "set": [{ "name": "X-Set", "value": "a $host" }, { "name": "Host", "value": "inner.test" }],
        "add": [{ "name": "X-Add", "value": "b" }, { "name": "X-Set", "value": "c" }],
        "remove": ["X-Remove", "X-Real-IP"],
    } }))
    .clean();
    let location = outcome.text.lines().filter(|line| line.contains("_headers") || line.contains("_header "));
    let lines: Vec<_> = location.map(|line| line.trim().to_owned()).collect();
    assert!(
        lines
            .iter()
            .any(|line| line.starts_with("more_set_input_headers X-Set: a ${hf_") && line.ends_with("}host,c;")),
        "{lines:?}"
    );
    assert!(
        lines.iter().any(|line| line.starts_with("more_set_input_headers X-Add: ${hf_") && line.ends_with("}b;")),
        "{lines:?}"
    );
    outcome.has("more_clear_input_headers X-Remove;");
    outcome.has("proxy_set_header Host inner.test;");
    outcome.has("proxy_set_header X-Real-IP \"\";");
    outcome.has("default $http_x_add,;");
}

#[test]
fn http_route_response_header_modifier() {
    let outcome = filtered(json!({ "type": "ResponseHeaderModifier", "responseHeaderModifier": {
        "set": [{ "name": "X-Set", "value": "a" }], "add": [{ "name": "X-Add", "value": "b" }], "remove": ["X-Remove"],
    } }))
    .clean();
    outcome.has("more_set_headers X-Set: a;");
    outcome.has("more_set_headers -a X-Add: b;");
    outcome.has("more_clear_headers X-Remove;");
}

#[test]
fn fields_that_frame_messages_cannot_be_changed() {
    for name in ["Content-Length", "transfer-encoding", "Connection", "X-*", "-t", "a b", ""] {
        let filter = json!({ "type": "RequestHeaderModifier", "requestHeaderModifier": { "remove": [name] } });
        let outcome = filtered(filter).clean();
        assert_eq!(outcome.route(HTTP, "infra/r", "Accepted"), no("UnsupportedValue"), "{name}");
        assert_eq!(outcome.block("location @http.infra.r.0 {"), "    return 500;\n", "{name}");
    }
    let filter = json!({ "type": "ResponseHeaderModifier", "responseHeaderModifier": { "set": [{ "name": "X", "value": "a\r\nY: b" }] } });
    assert_eq!(filtered(filter).clean().route(HTTP, "infra/r", "Accepted"), no("UnsupportedValue"));
}

#[test]
fn http_route_redirects() {
    let redirect = |more: Value| {
        let filter = json!({ "type": "RequestRedirect", "requestRedirect": more });
        let outcome = filtered(filter).clean();
        let name = outcome
            .text
            .lines()
            .find(|line| line.trim_start().starts_with("location @http.infra.r.0"))
            .expect("it")
            .trim();
        (outcome.block(name), outcome)
    };
    let (lines, _) = redirect(json!({ "hostname": "example.org" }));
    assert!(lines.starts_with("    return 302 $scheme://example.org${hf_"), "{lines}");
    let (lines, _) = redirect(json!({ "scheme": "https", "hostname": "example.org", "statusCode": 301 }));
    assert_eq!(lines, "    return 301 https://example.org$request_uri;\n");
    let (lines, _) = redirect(json!({ "scheme": "http", "port": 80 }));
    assert_eq!(lines, "    return 302 http://$host$request_uri;\n");
    let (lines, _) = redirect(json!({ "scheme": "https", "port": 8443, "statusCode": 308 }));
    assert_eq!(lines, "    return 308 https://$host:8443$request_uri;\n");
    let full = json!({ "scheme": "https", "path": { "type": "ReplaceFullPath", "replaceFullPath": "/full" }, "statusCode": 307 });
    let (lines, _) = redirect(full);
    assert_eq!(lines, "    return 307 https://$host/full$is_args$args;\n");
    let prefix = json!({ "scheme": "https", "path": { "type": "ReplacePrefixMatch", "replacePrefixMatch": "/new" }, "statusCode": 303 });
    let (lines, _) = redirect(prefix);
    assert!(lines.contains("if ($request_uri ~ ^\\/p/([^?]*) ) {"), "{lines}");
    assert!(lines.contains("return 303 https://$host/new/$1$is_args$args;"), "{lines}");
    assert!(lines.ends_with("    return 303 https://$host/new$is_args$args;\n"), "{lines}");
    let bad = json!({ "type": "RequestRedirect", "requestRedirect": { "hostname": "a\"b" } });
    assert_eq!(filtered(bad).clean().route(HTTP, "infra/r", "Accepted"), no("UnsupportedValue"));
}

#[test]
fn http_route_rewrites() {
    let rewrite = |more: Value| filtered(json!({ "type": "URLRewrite", "urlRewrite": more })).clean();
    let outcome = rewrite(json!({ "hostname": "one.example.org" }));
    outcome.has("proxy_set_header Host one.example.org;");
    let outcome = rewrite(json!({ "path": { "type": "ReplaceFullPath", "replaceFullPath": "/one" } }));
    outcome.has("rewrite ^ /one break;");
    let outcome = rewrite(json!({ "path": { "type": "ReplacePrefixMatch", "replacePrefixMatch": "/" } }));
    outcome.has("rewrite (?s)^\\/p/(.*)$ /$1 break;");
    outcome.has("rewrite ^\\/p$ / break;");
    let outcome = rewrite(json!({ "path": { "type": "ReplaceFullPath", "replaceFullPath": "/a?b" } }));
    assert_eq!(outcome.route(HTTP, "infra/r", "Accepted"), no("UnsupportedValue"));
}

#[test]
fn http_route_request_mirror() {
    let mirror = |more: Value| json!({ "type": "RequestMirror", "requestMirror": with(json!({ "backendRef": { "name": "app2", "port": 8080 } }), more) });
    let outcome = filtered(mirror(json!({}))).clean();
    outcome.has("mirror /.holdfast/mirror/http.infra.r.0/0;");
    let copy = outcome.block("location = /.holdfast/mirror/http.infra.r.0/0 {");
    assert_eq!(copy, "    internal;\n    route_to @http.infra.r.0.m0;\n    return 204;\n");
    assert!(outcome.block("location @http.infra.r.0.m0 {").contains("proxy_pass http://infra_app2_8080$request_uri;"));
    let outcome = filtered(mirror(json!({ "percent": 20 }))).clean();
    outcome.has("20.00% 1;");
    let outcome = filtered(mirror(json!({ "fraction": { "numerator": 1, "denominator": 3 } }))).clean();
    outcome.has("33.33% 1;");
    let outcome =
        filtered(json!({ "type": "RequestMirror", "requestMirror": { "backendRef": { "name": "nope", "port": 1 } } }))
            .clean();
    assert_eq!(outcome.route(HTTP, "infra/r", "ResolvedRefs"), no("BackendNotFound"));
    assert!(outcome.block("location @http.infra.r.0 {").contains("proxy_pass"), "the request itself is served");
}

#[test]
fn http_route_cors() {
    let outcome = filtered(json!({ "type": "CORS", "cors": {
        "allowOrigins": ["https://www.foo.com", "https://*.bar.com"], "allowMethods": ["GET", "OPTIONS"],
        "allowHeaders": ["x-1"], "exposeHeaders": ["x-3"], "allowCredentials": true, "maxAge": 3600,
    } }))
    .clean();
    outcome.has("~^https\\:\\/\\/www\\.foo\\.com$ $http_origin;");
    outcome.has("~^https\\:\\/\\/[^/:]+\\.bar\\.com$ $http_origin;");
    outcome.has(
        "route_to @http.infra.r.0.preflight method=OPTIONS ~header:origin=. ~header:access-control-request-method=.;",
    );
    let preflight = outcome.block("location @http.infra.r.0.preflight {");
    assert!(preflight.contains("Access-Control-Max-Age"), "{preflight}");
    assert!(preflight.ends_with("    return 204;\n"), "{preflight}");
    outcome.has("default GET, OPTIONS;");
    outcome.has("default 3600;");
}

#[test]
fn http_route_extension_ref_is_never_skipped() {
    let filter =
        json!({ "type": "ExtensionRef", "extensionRef": { "group": "x.example", "kind": "Waf", "name": "w" } });
    let outcome = filtered(filter).clean();
    assert_eq!(outcome.route(HTTP, "infra/r", "Accepted"), no("UnsupportedValue"));
    assert_eq!(outcome.route(HTTP, "infra/r", "ResolvedRefs"), no("InvalidKind"));
    assert_eq!(outcome.block("location @http.infra.r.0 {"), "    return 500;\n");
}

#[test]
fn a_wrong_rule_leaves_the_others() {
    let wrong = with(rule("/bad"), json!({ "filters": [{ "type": "ExternalAuth" }] }));
    let outcome = World::new().add(route("r", json!([wrong, rule("/good")]))).clean();
    assert_eq!(outcome.route(HTTP, "infra/r", "Accepted"), yes("Accepted"));
    assert_eq!(outcome.route(HTTP, "infra/r", "PartiallyInvalid"), yes("UnsupportedValue"));
    assert!(outcome.block("location @http.infra.r.1 {").contains("proxy_pass"));
}

#[test]
fn http_route_backend_filters() {
    let add = |value: &str| json!([{ "type": "RequestHeaderModifier", "requestHeaderModifier": { "set": [{ "name": "X-B", "value": value }] } }]);
    let outcome = World::new()
        .add(route("r", json!([{ "backendRefs": [
            { "name": "app", "port": 8080, "filters": add("one") }, { "name": "app2", "port": 8080, "filters": add("two") },
        ] }])))
        .clean();
    assert!(outcome.block("location @http.infra.r.0.b0 {").contains("more_set_input_headers X-B: one;"));
    assert!(outcome.block("location @http.infra.r.0.b1 {").contains("more_set_input_headers X-B: two;"));
}
