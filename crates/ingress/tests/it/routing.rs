//! Hosts, paths, classes, certificates, default backends.

use crate::world::{World, one, rule, typed_rule};
use ingress::{EndpointSource, Level, Name};
use serde_json::json;

#[test]
fn a_path_leads_to_the_endpoints_of_its_service() {
    let mut world = World::new();
    world.ingress("front", json!({}), one("shop.test", "/", "a"));
    let it = world.translate();
    it.assert_quiet();
    assert!(it.location("shop.test", "/").contains("proxy_pass http://shop_a_80"));
    assert!(it.text.contains("server a.shop.80.tcp.endpoints.invalid:1 resolve max_fails=0;"), "{}", it.text);
    let source = EndpointSource { service: Name::new("shop", "a"), port: 80, udp: false };
    assert_eq!(it.translation.endpoints.get("a.shop.80.tcp.endpoints.invalid"), Some(&source));
    let server = it.server("shop.test");
    for line in ["listen 80;", "listen [::]:80;", "listen 443 ssl;", "listen [::]:443 ssl;"] {
        assert!(server.contains(line), "{server}");
    }
}

#[test]
fn hosts_without_an_ingress_get_404() {
    let it = World::new().translate();
    assert!(it.server("").contains("listen 80 default_server;"));
    assert!(it.server("").contains("return 404;"));
    assert!(it.text.contains("ssl_certificate /kubernetes/default/tls.crt;"));
}

#[test]
fn prefixes_match_whole_elements() {
    let mut world = World::new();
    let rules = json!({"rules": [
        rule("shop.test", "/api", "a"), typed_rule("shop.test", "/login", "Exact", "b"),
        typed_rule("shop.test", "/old", "ImplementationSpecific", "b"), rule("shop.test", "/dir/", "b"),
    ]});
    world.ingress("front", json!({}), rules);
    let it = world.translate();
    for (matcher, upstream) in [
        ("/api/", "shop_a_80"),
        ("= /api", "shop_a_80"),
        ("= /login", "shop_b_80"),
        ("/old", "shop_b_80"),
        ("/dir/", "shop_b_80"),
        ("= /dir", "shop_b_80"),
    ] {
        assert!(it.location("shop.test", matcher).contains(upstream), "{matcher}");
    }
    assert!(!it.has_location("shop.test", "/api") && !it.has_location("shop.test", "= /old"));
    assert!(it.location("shop.test", "/").contains("return 404"));
}

#[test]
fn an_exact_path_wins_over_the_exact_form_of_a_prefix() {
    let mut world = World::new();
    let rules = json!({"rules": [rule("shop.test", "/api", "a"), typed_rule("shop.test", "/api", "Exact", "b")]});
    world.ingress("front", json!({}), rules);
    let it = world.translate();
    it.assert_quiet();
    assert!(it.location("shop.test", "= /api").contains("shop_b_80"));
    assert!(it.location("shop.test", "/api/").contains("shop_a_80"));
}

#[test]
fn the_oldest_ingress_has_a_path() {
    let mut world = World::new();
    world.ingress("first", json!({}), one("shop.test", "/", "a"));
    world.ingress(
        "other/second",
        json!({}),
        json!({"rules": [rule("shop.test", "/", "b"), rule("shop.test", "/x", "b")]}),
    );
    let it = world.translate();
    assert!(it.location("shop.test", "/").contains("shop_a_80"));
    assert!(it.location("shop.test", "/x/").contains("other_b_80"));
    let said = it.findings("Ingress other/second", Level::Refused);
    assert_eq!(said, ["Conflict: Ingress shop/first already has the path \"/\" of host \"shop.test\""]);
}

#[test]
fn classes_select() {
    let mut world = World::new();
    world.settings.watch_ingress_without_class = false;
    let class = |name: &str, controller: &str| json!({"metadata": {"name": name}, "spec": {"controller": controller}});
    for (name, controller) in [("holdfast", "holdfast.dev/ingress"), ("nginx", "k8s.io/ingress-nginx")] {
        let class = serde_json::from_value(class(name, controller)).unwrap();
        ingress::cluster::insert(&mut world.cluster.ingress_classes, class);
    }
    for (host, class) in [("ours.test", "holdfast"), ("theirs.test", "nginx"), ("missing.test", "gone")] {
        let mut spec = one(host, "/", "a");
        spec["ingressClassName"] = json!(class);
        world.ingress(host, json!({}), spec);
    }
    world.ingress("none", json!({}), one("none.test", "/", "a"));
    world.ingress("old", json!({"kubernetes.io/ingress.class": "holdfast"}), one("old.test", "/", "a"));
    let it = world.translate();
    let served: Vec<bool> = ["ours", "theirs", "missing", "none", "old"]
        .iter()
        .map(|name| it.text.contains(&format!("server_name {name}.test;")))
        .collect();
    assert_eq!(served, [true, false, false, false, true]);
}

#[test]
fn tls_adds_certificate_redirect_and_hsts() {
    let mut world = World::new();
    world.certificate("shop", "cert");
    let mut spec =
        json!({"rules": [rule("shop.test", "/", "a"), rule("plain.test", "/", "a"), rule("x.wild.test", "/", "a")]});
    spec["tls"] = json!([{"hosts": ["shop.test", "*.wild.test"], "secretName": "cert"}]);
    world.ingress("front", json!({}), spec);
    let it = world.translate();
    it.assert_quiet();
    for host in ["shop.test", "x.wild.test"] {
        assert!(it.server(host).contains("ssl_certificate /kubernetes/secrets/shop/cert/tls.crt;"));
        assert!(it.server(host).contains("add_header Strict-Transport-Security $hf_hsts always;"));
        let location = it.location(host, "/");
        assert!(location.contains("if ($pass_access_scheme = http) {"), "{location}");
        assert!(location.contains("return 308 https://$host$request_uri;"), "{location}");
    }
    assert!(!it.location("plain.test", "/").contains("308"));
    assert!(it.server("plain.test").contains("ssl_certificate /kubernetes/default/tls.crt;"));
    assert_eq!(it.translation.files.len(), 2);
}

#[test]
fn reports_a_missing_certificate() {
    let mut world = World::new();
    let mut spec = one("shop.test", "/", "a");
    spec["tls"] = json!([{"hosts": ["shop.test"], "secretName": "gone"}]);
    world.ingress("front", json!({}), spec);
    let it = world.translate();
    assert!(it.server("shop.test").contains("ssl_certificate /kubernetes/default/tls.crt;"));
    assert!(it.findings("Ingress shop/front", Level::Warning)[0].starts_with("NoCertificate"));
}

#[test]
fn a_default_backend_serves_the_rest() {
    let mut world = World::new();
    let backend = json!({"service": {"name": "b", "port": {"name": "web"}}});
    let mut spec = one("shop.test", "/x", "a");
    spec["defaultBackend"] = backend.clone();
    world.ingress("rest", json!({}), spec);
    world.ingress("all", json!({}), json!({"defaultBackend": backend}));
    let it = world.translate();
    it.assert_quiet();
    assert!(it.location("shop.test", "/").contains("shop_b_80"));
    assert!(it.location("", "/").contains("shop_b_80"));
}

#[test]
fn the_controllers_default_backend_serves_unknown_hosts() {
    let mut world = World::new();
    world.settings.default_backend = Some(Name::new("shop", "b"));
    let it = world.translate();
    assert!(it.location("", "/").contains("proxy_pass http://shop_b_80;"));
}

#[test]
fn a_missing_service_gets_503_and_nothing_else() {
    let mut world = World::new();
    world.ingress("front", json!({}), json!({"rules": [rule("shop.test", "/", "gone"), rule("shop.test", "/a", "a")]}));
    let it = world.translate();
    assert!(it.location("shop.test", "/").contains("return 503;"));
    assert!(it.location("shop.test", "/a/").contains("shop_a_80"));
    assert!(it.findings("Ingress shop/front", Level::Warning)[0].contains("there is no Service \"shop/gone\""));
}

#[test]
fn wrong_hosts_and_paths_are_refused_alone() {
    let mut world = World::new();
    let rules = json!({"rules": [
        rule("bad host;", "/", "a"), rule("shop.test", "no-slash", "a"), rule("shop.test", "/a\nb", "a"), rule("shop.test", "/ok", "a"),
    ]});
    world.ingress("front", json!({}), rules);
    let it = world.translate();
    assert!(it.location("shop.test", "/ok/").contains("shop_a_80"));
    assert_eq!(it.findings("Ingress shop/front", Level::Refused).len(), 3);
    assert!(!it.text.contains("bad host"));
}

#[test]
fn external_names_are_resolved_by_the_dns() {
    let mut world = World::new();
    world.service(
        "shop",
        "far",
        json!({"type": "ExternalName", "externalName": "far.example.com", "ports": [{"port": 80}]}),
    );
    world.ingress("front", json!({}), one("shop.test", "/", "far"));
    let it = world.translate();
    assert!(it.text.contains("server far.example.com:80 resolve max_fails=0;"), "{}", it.text);
    for wrong in ["127.0.0.1", "localhost", "a.shop.80.tcp.endpoints.invalid", "a b"] {
        world.service("shop", "far", json!({"type": "ExternalName", "externalName": wrong, "ports": [{"port": 80}]}));
        assert!(world.translate().location("shop.test", "/").contains("return 503;"), "{wrong}");
    }
}
