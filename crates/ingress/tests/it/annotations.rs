//! Annotations of ingress-nginx, each by what it writes.

use crate::world::{Outcome, World, one, rule};
use ingress::Level;
use serde_json::{Value, json};

fn with(annotations: Value) -> Outcome {
    let mut world = World::new();
    world.certificate("shop", "cert");
    world.secret("shop", "users", &[("auth", "u:{PLAIN}p")]);
    world.config_map("shop", "fields", json!({"X-Team": "shop"}));
    world.keys(json!({"allow-snippet-annotations": "true", "global-allowed-response-headers": "X-Team"}));
    world.ingress("front", annotations, one("shop.test", "/", "a"));
    world.translate()
}

/// Each annotation gives these lines in the location `/`.
fn assert_lines(cases: &[(Value, &[&str])]) {
    for (annotations, lines) in cases {
        let it = with(annotations.clone());
        it.assert_quiet();
        let location = it.location("shop.test", "/").replace('"', "");
        for line in *lines {
            assert!(location.contains(line), "{annotations}: {line}\n{location}");
        }
    }
}

#[test]
fn the_way_to_the_service_becomes_lines() {
    assert_lines(&[
        (json!({"proxy-body-size": "8M"}), &["client_max_body_size 8m;"]),
        (json!({"proxy-connect-timeout": "7"}), &["proxy_connect_timeout 7s;"]),
        (json!({"proxy-read-timeout": "8"}), &["proxy_read_timeout 8s;"]),
        (json!({"proxy-send-timeout": "9s"}), &["proxy_send_timeout 9s;"]),
        (json!({"proxy-buffering": "on"}), &["proxy_buffering on;"]),
        (json!({"proxy-buffer-size": "16k"}), &["proxy_buffer_size 16k;", "proxy_buffers 4 16k;"]),
        (json!({"proxy-buffers-number": "8"}), &["proxy_buffers 8 4k;"]),
        (json!({"proxy-request-buffering": "off"}), &["proxy_request_buffering off;"]),
        (json!({"proxy-http-version": "1.0"}), &["proxy_http_version 1.0;"]),
        (json!({"proxy-next-upstream": "error http_502"}), &["proxy_next_upstream error http_502;"]),
        (json!({"proxy-next-upstream-tries": "2"}), &["proxy_next_upstream_tries 2;"]),
        (json!({"proxy-next-upstream-timeout": "3"}), &["proxy_next_upstream_timeout 3s;"]),
        (json!({"proxy-cookie-domain": "a b"}), &["proxy_cookie_domain a b;"]),
        (json!({"proxy-cookie-path": "/ /x"}), &["proxy_cookie_path / /x;"]),
        (json!({"proxy-redirect-from": "http://a/", "proxy-redirect-to": "/b/"}), &["proxy_redirect http://a/ /b/;"]),
        (json!({"client-body-buffer-size": "1m"}), &["client_body_buffer_size 1m;"]),
        (
            json!({"upstream-vhost": "inner.test"}),
            &["proxy_set_header Host inner.test;", "proxy_set_header X-Real-IP $remote_addr;"],
        ),
        (json!({"x-forwarded-prefix": "/p"}), &["proxy_set_header X-Forwarded-Prefix /p;"]),
        (json!({"connection-proxy-header": "keep-alive"}), &["proxy_set_header Connection keep-alive;"]),
        (json!({"backend-protocol": "HTTPS"}), &["proxy_pass https://shop_a_80", "proxy_ssl_verify off;"]),
        (json!({"backend-protocol": "GRPC"}), &["grpc_pass grpc://shop_a_80"]),
        (
            json!({"backend-protocol": "grpcs", "proxy-read-timeout": "5"}),
            &["grpc_pass grpcs://shop_a_80", "grpc_read_timeout 5s;"],
        ),
        (
            json!({"backend-protocol": "FCGI", "fastcgi-index": "index.php", "fastcgi-params-configmap": "fields"}),
            &["fastcgi_pass shop_a_80", "fastcgi_index index.php;", "fastcgi_param X-Team shop;"],
        ),
        (
            json!({"backend-protocol": "HTTPS", "proxy-ssl-secret": "shop/cert", "proxy-ssl-verify": "on", "proxy-ssl-name": "x.test"}),
            &[
                "proxy_ssl_certificate /kubernetes/secrets/shop/cert/tls.crt;",
                "proxy_ssl_trusted_certificate /kubernetes/secrets/shop/cert/ca.crt;",
                "proxy_ssl_verify on;",
                "proxy_ssl_name x.test;",
            ],
        ),
    ]);
}

#[test]
fn guards_become_lines() {
    assert_lines(&[
        (
            json!({"whitelist-source-range": "10.0.0.0/8,192.0.2.1"}),
            &["allow 10.0.0.0/8;", "allow 192.0.2.1;", "deny all;"],
        ),
        (json!({"denylist-source-range": "10.0.0.0/8"}), &["deny 10.0.0.0/8;"]),
        (json!({"allowlist-source-range": "10.0.0.0/8"}), &["allow 10.0.0.0/8;"]),
        (json!({"satisfy": "any"}), &["satisfy any;"]),
        (
            json!({"auth-type": "basic", "auth-secret": "users", "auth-realm": "who?"}),
            &["auth_basic who?;", "auth_basic_user_file /kubernetes/secrets/shop/users/auth;"],
        ),
        (
            json!({"auth-type": "basic", "auth-secret": "users", "auth-secret-type": "auth-map"}),
            &["auth_basic_user_file /kubernetes/passwords/shop/users;"],
        ),
        (json!({"limit-rps": "10"}), &["limit_req zone=limit_", "_rps burst=50 nodelay;"]),
        (
            json!({"limit-rpm": "10", "limit-burst-multiplier": "2", "limit-whitelist": "10.0.0.0/8"}),
            &["_rpm burst=20 nodelay;"],
        ),
        (json!({"limit-connections": "3"}), &["limit_conn limit_"]),
        (json!({"limit-rate": "100", "limit-rate-after": "1m"}), &["limit_rate 100;", "limit_rate_after 1m;"]),
    ]);
}

#[test]
fn answers_become_lines() {
    assert_lines(&[
        (json!({"permanent-redirect": "https://new.test/x"}), &["return 301 https://new.test/x;"]),
        (
            json!({"permanent-redirect": "https://new.test$request_uri", "permanent-redirect-code": "308"}),
            &["return 308 https://new.test${request_uri};"],
        ),
        (json!({"temporal-redirect": "/elsewhere"}), &["return 302 /elsewhere;"]),
        (json!({"force-ssl-redirect": "true"}), &["return 308 https://$host$request_uri;"]),
        (json!({"app-root": "/app"}), &["if ($uri = /) {", "return 302 $pass_access_scheme://$http_host/app;"]),
        (json!({"enable-access-log": "false"}), &["access_log off;"]),
        (json!({"enable-rewrite-log": "true"}), &["rewrite_log on;"]),
        (json!({"relative-redirects": "true"}), &["absolute_redirect off;"]),
        (
            json!({"mirror-target": "https://copy.test$request_uri", "mirror-request-body": "off"}),
            &["mirror /_mirror-", "mirror_request_body off;"],
        ),
        (json!({"custom-headers": "fields"}), &["more_set_headers X-Team: shop;"]),
        (
            json!({"enable-cors": "true"}),
            &[
                "add_header Access-Control-Allow-Origin * always;",
                "return 204;",
                "add_header Access-Control-Max-Age 1728000 always;",
            ],
        ),
        (
            json!({"configuration-snippet": "more_set_headers 'X-A: b'; if ($arg_x = 1) { return 403; }"}),
            &["more_set_headers X-A: b;", "if ($arg_x = 1) {"],
        ),
        (json!({"server-snippet": "set $seen $host; add_header X-Seen $seen;"}), &["add_header X-Seen $hf_s"]),
    ]);
}

/// Each annotation gives these lines somewhere.
#[test]
fn annotations_become_upstreams_and_servers() {
    let cases: &[(Value, &[&str])] = &[
        (json!({"load-balance": "ewma"}), &["least_time header;"]),
        (json!({"load-balance": "least_conn"}), &["least_conn;"]),
        (json!({"load-balance": "ip_hash"}), &["ip_hash;"]),
        (json!({"upstream-hash-by": "$request_uri$host"}), &["hash ${request_uri}${host} consistent;"]),
        (json!({"service-upstream": "true"}), &["server 10.0.0.9:80 max_fails=0;"]),
        (json!({"affinity": "cookie"}), &["sticky cookie INGRESSCOOKIE path=/ httponly;"]),
        (
            json!({"affinity": "cookie", "session-cookie-name": "route", "session-cookie-samesite": "Lax", "session-cookie-max-age": "60", "session-cookie-secure": "true", "session-cookie-path": "/x", "session-cookie-domain": "shop.test"}),
            &["sticky cookie route path=/x httponly domain=shop.test samesite=lax expires=60s secure;"],
        ),
        (
            json!({"auth-tls-secret": "shop/cert", "auth-tls-verify-depth": "2", "auth-tls-match-cn": "CN=(a|b)", "auth-tls-pass-certificate-to-upstream": "true"}),
            &[
                "ssl_client_certificate /kubernetes/secrets/shop/cert/ca.crt;",
                "ssl_verify_client on;",
                "ssl_verify_depth 2;",
                "proxy_set_header ssl-client-cert $ssl_client_escaped_cert;",
            ],
        ),
        (
            json!({"auth-tls-secret": "cert", "auth-tls-error-page": "https://shop.test/no"}),
            &["error_page 495 496 =302 https://shop.test/no;"],
        ),
        (
            json!({"ssl-ciphers": "HIGH:!aNULL", "ssl-prefer-server-ciphers": "true"}),
            &["ssl_ciphers HIGH:!aNULL;", "ssl_prefer_server_ciphers on;"],
        ),
        (json!({"server-alias": "other.test, *.more.test"}), &["server_name shop.test other.test *.more.test;"]),
        (
            json!({"from-to-www-redirect": "true"}),
            &["server_name www.shop.test;", "return 308 $pass_access_scheme://shop.test$request_uri;"],
        ),
        (
            json!({"custom-http-errors": "404,503", "default-backend": "b"}),
            &[
                "error_page 404 = @custom_",
                "proxy_set_header X-Code 503;",
                "proxy_set_header X-Service-Name a;",
                "proxy_pass http://shop_b_80;",
            ],
        ),
        (
            json!({"limit-rps": "10", "limit-whitelist": "10.0.0.0/8"}),
            &["rate=10r/s;", "10.0.0.0/8 1;", "limit_req_zone $hf_"],
        ),
        (
            json!({"enable-cors": "true", "cors-allow-origin": "https://*.shop.test, http://a.test:8080"}),
            &["~*^https://[A-Za-z0-9-]+\\.shop\\.test$", "~*^http://a\\.test:8080$"],
        ),
        (
            json!({"mirror-target": "https://copy.test/x"}),
            &["server copy.test:443 resolve max_fails=0;", "proxy_set_header Host copy.test;"],
        ),
    ];
    for (annotations, lines) in cases {
        let it = with(annotations.clone());
        it.assert_quiet();
        let plain = it.text.replace("\\\\", "\\").replace('"', "");
        for line in *lines {
            assert!(plain.contains(line), "{annotations}: {line}\n{plain}");
        }
    }
}

#[test]
fn an_authentication_service_is_asked() {
    let it = with(json!({
        "auth-url": "https://auth.test/check?x=1", "auth-method": "GET", "auth-response-headers": "X-User, X-Mail",
        "auth-signin": "https://auth.test/start", "auth-proxy-set-headers": "fields",
        "auth-snippet": "proxy_set_header X-Extra $remote_addr;",
    }));
    it.assert_quiet();
    let location = it.location("shop.test", "/");
    for line in [
        "auth_request /_external-auth-auth_",
        "auth_request_set $hf_auth_x_user $upstream_http_x_user;",
        "proxy_set_header X-Mail $hf_auth_x_mail;",
        "error_page 401 = @signin_",
    ] {
        assert!(location.contains(line), "{line}\n{location}");
    }
    let server = it.server("shop.test");
    for line in [
        "proxy_pass_request_body off;",
        "proxy_set_header X-Original-URL $scheme://$http_host$request_uri;",
        "proxy_set_header X-Team shop;",
        "proxy_set_header X-Extra $remote_addr;",
        "proxy_method GET;",
        "return 302 https://auth.test/start?rd=$pass_access_scheme://$http_host$escaped_request_uri;",
    ] {
        assert!(server.contains(line), "{line}\n{server}");
    }
    assert!(it.text.contains("server auth.test:443 resolve max_fails=0;"));
}

#[test]
fn answers_of_an_authentication_service_are_cached_by_a_key() {
    let it = with(json!({"auth-url": "http://auth.test/", "auth-cache-key": "$remote_user$http_authorization"}));
    it.assert_quiet();
    assert!(it.text.contains("proxy_cache_path auth_cache levels=1:2 keys_zone=auth_cache:10m"), "{}", it.text);
    let server = it.server("shop.test");
    for line in [
        "proxy_cache auth_cache;",
        "${remote_user}${http_authorization}\";",
        "proxy_cache_key_digest on;",
        "proxy_cache_valid 200 202 401 5m;",
    ] {
        assert!(server.contains(line), "{line}\n{server}");
    }
    let places: std::collections::BTreeSet<String> = {
        let mut world = World::new();
        let annotations = json!({"auth-url": "http://auth.test/", "auth-cache-key": "x"});
        world.ingress(
            "front",
            annotations,
            json!({"rules": [rule("shop.test", "/a", "a"), rule("shop.test", "/b", "b")]}),
        );
        let server = world.translate().server("shop.test");
        server
            .lines()
            .filter(|line| line.contains("set $hf_cached_place "))
            .map(|line| line.trim().to_owned())
            .collect()
    };
    assert_eq!(places.len(), 2, "each path has its own answers: {places:?}");
    let key = |url: &str| {
        let it =
            with(json!({"auth-url": url, "auth-cache-key": "x", "auth-cache-duration": "200 202 10m, 401 30, any 1s"}));
        it.assert_quiet();
        let server = it.server("shop.test");
        for line in ["proxy_cache_valid 200 202 10m;", "proxy_cache_valid 401 30s;", "proxy_cache_valid any 1s;"] {
            assert!(server.contains(line), "{line}\n{server}");
        }
        server.lines().find(|line| line.contains("proxy_cache_key ")).expect("a key").to_owned()
    };
    assert_ne!(key("http://auth.test/a"), key("http://auth.test/b"), "another service");
    for (name, value) in [
        ("auth-cache-key", "$no_such"),
        ("auth-cache-duration", "200 soon"),
        ("auth-cache-duration", "200 5m,"),
        ("auth-cache-duration", "99 5m"),
        ("auth-cache-duration", "200 5m; proxy_pass"),
    ] {
        let mut annotations = json!({"auth-url": "http://auth.test/", "auth-cache-key": "x"});
        annotations[name] = json!(value);
        let it = with(annotations);
        assert_eq!(it.findings("Ingress shop/front", Level::Warning).len(), 1, "{name}: {value}");
        assert!(!it.text.contains("proxy_cache") && it.location("shop.test", "/").contains("auth_request"), "{value}");
    }
    assert!(!with(json!({"auth-url": "http://auth.test/"})).text.contains("proxy_cache"));
}

#[test]
fn rewrites_make_all_paths_of_the_host_expressions() {
    let mut world = World::new();
    let rules = json!({"rules": [rule("shop.test", "/api(/|$)(.*)", "a"), rule("shop.test", "/a", "a")]});
    world.ingress("front", json!({"rewrite-target": "/$2"}), rules);
    world.ingress("plain", json!({}), one("shop.test", "/longer/path/than/that", "b"));
    let it = world.translate();
    it.assert_quiet();
    let server = it.server("shop.test");
    assert!(server.contains("location ~* ^/api(/|$)(.*) {"), "{server}");
    assert!(server.contains("rewrite (?i)/api(/|$)(.*) /$2 break;"), "{server}");
    let at = |text: &str| server.find(text).unwrap();
    assert!(at("~* ^/longer") < at("~* ^/api") && at("~* ^/api") < at("~* ^/a {"), "{server}");
}

#[test]
fn a_canary_takes_its_share() {
    let mut world = World::new();
    world.ingress("front", json!({}), one("shop.test", "/", "a"));
    let canary =
        json!({"canary": "true", "canary-weight": "25", "canary-by-header": "X-Canary", "canary-by-cookie": "canary"});
    world.ingress("next", canary, one("shop.test", "/", "b"));
    let it = world.translate();
    it.assert_quiet();
    for line in [
        "25.00% shop_b_80",
        "* shop_a_80",
        "map $http_x_canary $hf_",
        "map $cookie_canary $hf_",
        "always shop_b_80",
        "never shop_a_80",
    ] {
        assert!(it.text.contains(line), "{line}\n{}", it.text);
    }
    assert!(it.location("shop.test", "/").contains("proxy_pass http://$hf_"));
}

#[test]
fn a_canary_by_value_or_pattern() {
    for (more, line) in
        [("canary-by-header-value", "\\beta|x shop_b_80"), ("canary-by-header-pattern", "~beta|x shop_b_80")]
    {
        let mut world = World::new();
        world.ingress("front", json!({}), one("shop.test", "/", "a"));
        world.ingress(
            "next",
            json!({"canary": "true", "canary-by-header": "X", more: "beta|x"}),
            one("shop.test", "/", "b"),
        );
        let it = world.translate();
        let plain = it.text.replace("\\\\", "\\").replace('"', "");
        assert!(plain.contains(line), "{line}\n{plain}");
    }
}

#[test]
fn canary_without_a_partner_gets_no_traffic() {
    let mut world = World::new();
    world.ingress("front", json!({}), one("shop.test", "/", "a"));
    world.ingress("other/next", json!({"canary": "true", "canary-weight": "50"}), one("shop.test", "/", "b"));
    world.ingress("alone", json!({"canary": "true"}), one("alone.test", "/", "b"));
    let it = world.translate();
    assert!(it.location("shop.test", "/").contains("proxy_pass http://shop_a_80"));
    assert_eq!(it.findings("Ingress other/next", Level::Refused).len(), 1);
    assert_eq!(it.findings("Ingress shop/alone", Level::Warning).len(), 1);
}

#[test]
fn reports_ignored_and_unknown_annotations() {
    let it = with(json!({"http2-push-preload": "true", "proxy-reed-timeout": "3"}));
    let said = it.findings("Ingress shop/front", Level::Note);
    assert!(said.iter().any(|it| it.starts_with("IgnoredAnnotation: \"http2-push-preload\"")), "{said:?}");
    assert!(said.iter().any(|it| it.starts_with("UnknownAnnotation: \"proxy-reed-timeout\"")), "{said:?}");
    assert!(it.location("shop.test", "/").contains("proxy_pass"));
}

#[test]
fn refused_annotations_and_wrong_guards_close_the_paths() {
    for annotations in [
        json!({"enable-modsecurity": "true"}),
        json!({"whitelist-source-range": "10.0.0.0/99"}),
        json!({"auth-type": "digest", "auth-secret": "users"}),
        json!({"auth-type": "basic", "auth-secret": "gone"}),
        json!({"auth-url": "http://$host/"}),
        json!({"auth-tls-secret": "gone"}),
        json!({"limit-rps": "many"}),
        json!({"configuration-snippet": "include x;"}),
    ] {
        let it = with(annotations.clone());
        let location = it.location("shop.test", "/");
        assert!(location.contains("return 503;") && !location.contains("proxy_pass"), "{annotations}\n{location}");
        assert!(!it.findings("Ingress shop/front", Level::Refused).is_empty(), "{annotations}");
    }
    for annotations in [json!({"enable-modsecurity": "false"}), json!({"proxy-body-size": "x"})] {
        assert!(with(annotations).location("shop.test", "/").contains("proxy_pass"));
    }
}

#[test]
fn a_global_authentication_service_spares_the_challenges() {
    let mut world = World::new();
    world.keys(json!({"global-auth-url": "http://auth.test/"}));
    let rules = json!({"rules": [rule("shop.test", "/", "a"), rule("shop.test", "/.well-known/acme-challenge", "b")]});
    world.ingress("front", json!({}), rules);
    world.ingress("open", json!({"enable-global-auth": "false"}), one("open.test", "/", "a"));
    let it = world.translate();
    it.assert_quiet();
    assert!(it.location("shop.test", "/").contains("auth_request /_external-auth"));
    assert!(!it.location("shop.test", "/.well-known/acme-challenge/").contains("auth_request /"));
    assert!(!it.location("open.test", "/").contains("auth_request"));
}

/// Much of it together is one configuration without findings.
#[test]
fn annotations_go_together() {
    let mut world = World::new();
    world.settings.allow_snippets = true;
    world.settings.ssl_passthrough = true;
    world.settings.http_port = 8080;
    world.settings.https_port = 8443;
    world.settings.listen_addresses = vec!["127.0.0.1".parse().unwrap()];
    world.settings.tcp_services = Some(ingress::Name::new("system", "tcp"));
    world.config_map("system", "tcp", json!({"9000": "shop/a:80"}));
    world.keys(json!({"use-forwarded-headers": "true", "enable-opentelemetry": "true", "otlp-collector-host": "127.0.0.1", "custom-http-errors": "404", "block-user-agents": "evil,~*bot"}));
    world.ingress("front", json!({"auth-url": "https://auth.test/check?x=1", "auth-response-headers": "X-User", "auth-signin": "https://auth.test/start", "limit-rps": "10", "limit-connections": "3", "limit-whitelist": "10.0.0.0/8", "enable-cors": "true", "cors-allow-origin": "https://*.shop.test", "mirror-target": "https://copy.test$request_uri", "app-root": "/app", "affinity": "cookie", "default-backend": "b", "whitelist-source-range": "10.0.0.0/8", "upstream-hash-by": "$request_uri"}), json!({"rules":[rule("shop.test", "/", "a"), rule("shop.test", "/b", "b")]}));
    world.ingress(
        "canary",
        json!({"canary": "true", "canary-weight": "30", "canary-by-header": "X-C", "canary-by-cookie": "c"}),
        one("shop.test", "/", "b"),
    );
    world.ingress("rw", json!({"rewrite-target": "/$2", "configuration-snippet": "set $x \"a$host\"; if ($http_user_agent ~* \"bad|(worse)$\") { return 403; } add_header X-X $x always; proxy_set_header X-Y $x;", "auth-realm": "a$b", "backend-protocol": "HTTPS", "proxy-ssl-verify": "on", "custom-http-errors": "404"}), one("rw.test", "/a(/|$)(.*)", "a"));
    world.ingress("grpc", json!({"backend-protocol": "GRPC"}), one("grpc.test", "/", "a"));
    world.ingress("fcgi", json!({"backend-protocol": "FCGI"}), one("fcgi.test", "/", "a"));
    world.ingress("pass", json!({"ssl-passthrough": "true"}), one("pass.test", "/", "a"));
    let it = world.translate();
    it.assert_quiet();
}
