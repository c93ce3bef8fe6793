//! TCP and UDP services, and TLS that is passed through.

use crate::world::{World, one};
use ingress::{Level, Name};
use serde_json::json;

#[test]
fn tcp_and_udp_services_are_forwarded() {
    let mut world = World::new();
    world.settings.tcp_services = Some(Name::new("system", "tcp"));
    world.settings.udp_services = Some(Name::new("system", "udp"));
    world.config_map(
        "system",
        "tcp",
        json!({"9000": "shop/a:80", "9001": "shop/b:web:PROXY:PROXY", "443": "shop/a:80", "x": "y"}),
    );
    world.config_map("system", "udp", json!({"53": "shop/a:80"}));
    let it = world.translate();
    for line in [
        "listen 9000;",
        "listen [::]:9001 proxy_protocol;",
        "listen 53 udp;",
        "proxy_protocol on;",
        "proxy_responses 1;",
        "proxy_timeout 600s;",
        "server a.shop.80.udp.endpoints.invalid:1 resolve max_fails=0;",
    ] {
        assert!(it.text.contains(line), "{line}\n{}", it.text);
    }
    let said = it.findings("ConfigMap system/tcp", Level::Refused);
    assert_eq!(said.len(), 2, "{said:?}");
}

#[test]
fn tls_is_passed_through_by_its_server_name() {
    let mut world = World::new();
    world.settings.ssl_passthrough = true;
    world.ingress("front", json!({"ssl-passthrough": "true"}), one("shop.test", "/", "a"));
    let it = world.translate();
    it.assert_quiet();
    let stream = it.text.split("\nstream {").nth(1).unwrap();
    assert!(
        stream.contains("shop.test shop_a_80;")
            && stream.contains("shop.test 127.0.0.1:441;")
            && stream.contains("default 127.0.0.1:442;"),
        "{stream}"
    );
    assert!(stream.contains("listen 443;") && stream.contains("ssl_preread on;"), "{stream}");
    assert!(it.text.contains("listen 127.0.0.1:442 default_server ssl;"), "{}", it.text);
    assert!(it.server("shop.test").contains("listen 127.0.0.1:442 ssl;"));
    assert!(!it.server("shop.test").contains("listen 443"));
}

#[test]
fn without_the_flag_nothing_is_passed_through() {
    let mut world = World::new();
    world.ingress("front", json!({"ssl-passthrough": "true"}), one("shop.test", "/", "a"));
    let it = world.translate();
    assert!(!it.text.contains("ssl_preread"));
    assert_eq!(it.findings("Ingress shop/front", Level::Warning).len(), 1);
}
