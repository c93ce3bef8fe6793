//! Keys of the controller's `ConfigMap`.

use crate::world::{World, one};
use ingress::Level;
use serde_json::json;

#[test]
fn defaults_are_those_of_ingress_nginx() {
    let it = World::new().translate();
    for line in [
        "client_max_body_size 1m;",
        "proxy_connect_timeout 5s;",
        "proxy_read_timeout 60s;",
        "server_tokens off;",
        "keepalive_timeout 75s;",
        "proxy_next_upstream error timeout;",
        "ssl_protocols TLSv1.2 TLSv1.3;",
        "proxy_set_header X-Forwarded-For $remote_addr;",
        "proxy_set_header X-Request-ID $req_id;",
        "proxy_set_header X-Scheme $pass_access_scheme;",
    ] {
        assert!(it.text.contains(line), "{line}\n{}", it.text);
    }
    assert!(!it.text.contains("gzip on"));
}

#[test]
fn keys_change_them() {
    let mut world = World::new();
    world.keys(json!({
        "proxy-body-size": "20m", "use-gzip": "true", "keep-alive": "10", "use-forwarded-headers": "true",
        "proxy-real-ip-cidr": "10.0.0.0/8,192.168.0.0/16", "limit-req-status-code": "429", "hsts": "false",
        "http-redirect-code": "301", "ssl-protocols": "TLSv1.3", "block-cidrs": "192.0.2.0/24",
        "block-user-agents": "evil,~*bot", "custom-http-errors": "404,503", "log-format-upstream": "$host $req_id",
        "worker-processes": "3", "upstream-keepalive-connections": "10", "whitelist-source-range": "10.0.0.0/8",
    }));
    let mut spec = one("shop.test", "/", "a");
    spec["tls"] = json!([{"hosts": ["shop.test"]}]);
    world.ingress("front", json!({}), spec);
    let it = world.translate();
    for line in [
        "client_max_body_size 20m;",
        "gzip on;",
        "keepalive_timeout 10s;",
        "set_real_ip_from 10.0.0.0/8;",
        "real_ip_header X-Forwarded-For;",
        "limit_req_status 429;",
        "return 301 https://$host$request_uri;",
        "ssl_protocols TLSv1.3;",
        "192.0.2.0/24 1;",
        "\"\\\\evil\" 1;",
        "~*bot 1;",
        "log_format upstreaminfo escape=default \"$host $req_id\";",
        "worker_processes 3;",
        "keepalive 10;",
        "allow 10.0.0.0/8;",
        "proxy_intercept_errors on;",
    ] {
        assert!(it.text.contains(line), "{line}\n{}", it.text);
    }
    assert!(!it.text.contains("Strict-Transport-Security"));
}

#[test]
fn reports_wrong_keys_and_changes_nothing() {
    let mut world = World::new();
    world.keys(json!({
        "proxy-body-size": "20m; include x", "nonsense": "1", "main-snippet": "load_module x;", "ssl-dh-param": "x/y",
        "log-format-upstream": "$document_root_of_x", "block-user-agents": "~(", "worker-processes": "many",
    }));
    let it = world.translate();
    assert!(it.text.contains("client_max_body_size 1m;") && !it.text.contains("load_module"));
    let said = it.findings("ConfigMap system/controller", Level::Note);
    assert_eq!(said.len(), 7, "{said:#?}");
}
