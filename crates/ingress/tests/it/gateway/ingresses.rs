//! Ingresses beside Gateways that have the same ports: the oldest object that names a host has it.

use super::*;

const OLD: &str = "2025-01-01T00:00:00Z";
const SAME: &str = "2026-01-02T00:00:00Z";
const YOUNG: &str = "2027-01-01T00:00:00Z";

/// An Ingress `web/shop` for a host, with a Service of its own.
fn ingress(host: &str, created: &str) -> Value {
    let backend = json!({ "service": { "name": "shop", "port": { "number": 80 } } });
    let path = json!({ "path": "/", "pathType": "Prefix", "backend": backend });
    json!({
        "kind": "Ingress",
        "metadata": { "name": "shop", "namespace": "web", "creationTimestamp": created },
        "spec": { "rules": [{ "host": host, "http": { "paths": [path] } }] },
    })
}

/// A Gateway with one listener, for all hosts at port 80, and Services.
fn world() -> World {
    let mut world = World::new();
    world.settings.watch_ingress_without_class = true;
    let mut shop = service("shop");
    shop["metadata"]["namespace"] = json!("web");
    shop["spec"]["ports"] = json!([{ "name": "http", "port": 80 }]);
    world.add(shop);
    world
}

fn named(hosts: Value) -> Value {
    route_of("HTTPRoute", "r", json!({ "hostnames": hosts, "rules": [rule("/")] }))
}

/// `object: message` of conflicts.
fn conflicts(outcome: &Outcome) -> Vec<String> {
    let found = outcome.translation.findings.iter().filter(|finding| finding.reason == "Conflict");
    found.map(|finding| format!("{}: {}", finding.object, finding.message)).collect()
}

/// For each server of a host the ports and `Ingress` or `Gateway`.
fn servers(outcome: &Outcome, host: &str) -> Vec<String> {
    let name = format!("server_name {};", if host.is_empty() { "_" } else { host });
    let blocks = outcome.text.split("\n    server {\n").skip(1);
    let mut found: Vec<String> = blocks
        .filter(|block| block.lines().any(|line| line.trim() == name))
        .map(|block| {
            let listens = |port: &&str| {
                let words = |line: &str| line.trim().trim_end_matches(';').split(' ').take(2).eq(["listen", port]);
                block.lines().any(words)
            };
            let ports = ["80", "443"].into_iter().filter(listens);
            let who = if block.contains("web_shop_80") { "Ingress" } else { "Gateway" };
            format!("{} {who}", ports.collect::<Vec<_>>().join(","))
        })
        .collect();
    found.sort();
    found
}

#[test]
fn an_older_ingress_has_the_host_of_a_route() {
    for created in [OLD, SAME] {
        let outcome = world().add(ingress("a.test", created)).add(named(json!(["a.test", "b.test"]))).run();
        assert_eq!(servers(&outcome, "a.test"), ["80,443 Ingress"], "{created}");
        assert_eq!(servers(&outcome, "b.test"), ["80 Gateway"]);
        assert_eq!(conflicts(&outcome), ["HTTPRoute infra/r: Ingress web/shop already has host \"a.test\""]);
        assert_eq!(outcome.listener("infra/gw", "http", "Accepted"), yes("Accepted"));
    }
}

#[test]
fn a_younger_ingress_takes_no_host_from_a_route() {
    let outcome = world().add(ingress("a.test", YOUNG)).add(named(json!(["a.test"]))).run();
    assert_eq!(servers(&outcome, "a.test"), ["443 Ingress", "80 Gateway"], "the Gateway has no listener at 443");
    assert_eq!(conflicts(&outcome), ["Ingress web/shop: HTTPRoute infra/r already has host \"a.test\" at port 80"]);
}

#[test]
fn a_younger_ingress_takes_no_host_from_a_listener() {
    let mut world = world();
    let tls = json!({ "certificateRefs": [{ "name": "cert" }] });
    let host = json!({ "hostname": "a.test" });
    let listeners = json!([
        with(listener("http", "HTTP", 80), host.clone()),
        with(with(listener("https", "HTTPS", 443), host), json!({ "tls": tls })),
    ]);
    world.add(gateway("gw", listeners)).add(certificate("infra", "cert"));
    let outcome = world.add(ingress("a.test", YOUNG)).run();
    assert_eq!(servers(&outcome, "a.test"), ["443 Gateway", "80 Gateway"]);
    let told = |port: u16| format!("Ingress web/shop: Gateway infra/gw already has host \"a.test\" at port {port}");
    assert_eq!(conflicts(&outcome), [told(80), told(443)]);
    // An older one has both.
    let outcome = world.add(ingress("a.test", OLD)).run();
    assert_eq!(servers(&outcome, "a.test"), ["80,443 Ingress"]);
    for name in ["http", "https"] {
        assert_eq!(outcome.listener("infra/gw", name, "Conflicted"), yes("HostnameConflict"), "{name}");
    }
    let told = "Gateway infra/gw: Ingress web/shop already has host \"a.test\"";
    assert_eq!(conflicts(&outcome), [told, told]);
}

#[test]
fn hosts_that_only_one_of_them_names_are_no_conflict() {
    // A listener for all hosts takes none that an Ingress names.
    let outcome = world().add(ingress("a.test", YOUNG)).add(named(json!(["b.test", "*.test"]))).clean();
    assert_eq!(servers(&outcome, "a.test"), ["80,443 Ingress"]);
    assert_eq!(servers(&outcome, "b.test"), ["80 Gateway"]);
    assert_eq!(servers(&outcome, "*.test"), ["80 Gateway"]);
    assert!(conflicts(&outcome).is_empty());
}

#[test]
fn of_two_objects_for_all_hosts_the_older_one_has_them() {
    let outcome = world().add(ingress("", YOUNG)).add(route("r", json!([rule("/")]))).run();
    assert_eq!(servers(&outcome, ""), ["443 Ingress", "80 Gateway"]);
    let outcome = world().add(ingress("", OLD)).add(route("r", json!([rule("/")]))).run();
    assert_eq!(servers(&outcome, ""), ["80,443 Ingress"]);
    assert_eq!(outcome.listener("infra/gw", "http", "Conflicted"), yes("HostnameConflict"));
}

#[test]
fn the_default_backend_takes_no_host_from_a_gateway() {
    let mut world = world();
    world.settings.default_backend = Some(ingress::Name::new("web", "shop"));
    let outcome = world.add(route("r", json!([rule("/")]))).clean();
    assert_eq!(servers(&outcome, ""), ["443 Ingress", "80 Gateway"]);
    assert_eq!(outcome.listener("infra/gw", "http", "Accepted"), yes("Accepted"));
}

#[test]
fn an_alias_takes_no_host_from_a_gateway() {
    let mut old = ingress("a.test", OLD);
    old["metadata"]["annotations"] = json!({
        "nginx.ingress.kubernetes.io/server-alias": "b.test",
        "nginx.ingress.kubernetes.io/from-to-www-redirect": "true",
    });
    let outcome = world().add(old).add(named(json!(["b.test", "www.a.test"]))).run();
    assert_eq!(servers(&outcome, "b.test"), ["80 Gateway"]);
    assert_eq!(servers(&outcome, "www.a.test"), ["80 Gateway"]);
    let told = "Ingress web/shop: \"server-alias\": a Gateway or a route already has host \"b.test\"";
    assert_eq!(conflicts(&outcome), [told]);
}

#[test]
fn addresses_of_gateways_have_no_hosts_of_ingresses() {
    let mut world = world();
    world.pool(&["10.0.0.1"]).settings.listen_addresses = vec!["10.0.0.9".parse().expect("an address")];
    let outcome = world.add(ingress("a.test", YOUNG)).add(named(json!(["a.test"]))).clean();
    assert!(conflicts(&outcome).is_empty());
    outcome.has("listen 10.0.0.1:80;");
    outcome.has("listen 10.0.0.9:80;");
}
