//! The threat model: what went wrong in ingress-nginx, each as a case. Values of objects are data here, so the same input
//! gives a finding or a harmless word. The page `docs/guide/kubernetes/threat-model.md` explains them.

use crate::world::{Outcome, World, one, rule};
use ingress::Level;
use serde_json::{Value, json};

/// Directives that none of these inputs may ever give.
const FORBIDDEN: &[&str] = &[
    "alias",
    "content_by_lua_block",
    "include",
    "js_content",
    "load_module",
    "lua_package_path",
    "perl",
    "root",
    "ssl_engine",
    "init_by_lua_block",
    "autoindex",
];

/// An attacker of the namespace `other` beside an Ingress of the namespace `shop`.
fn attack(annotations: Value, spec: Value) -> Outcome {
    let mut world = World::new();
    world.certificate("shop", "cert");
    world.certificate("other", "cert");
    world.settings.allow_snippets = true;
    world.ingress("shop/victim", json!({}), one("victim.test", "/", "a"));
    world.ingress("other/attacker", annotations, spec);
    let it = world.translate();
    let victim = it.location("victim.test", "/");
    assert!(victim.contains("proxy_pass http://shop_a_80") && !victim.contains("503"), "{victim}");
    names(&it);
    // The admission webhook translates the same way, and refuses it before it is stored.
    crate::admission::agrees(&world, "other", "attacker");
    it
}

/// No directive of the tree is a forbidden one.
fn names(it: &Outcome) {
    for line in it.text.lines() {
        let name = line.trim().split([' ', ';']).next().unwrap();
        assert!(!FORBIDDEN.contains(&name), "{line}\n{}", it.text);
    }
}

fn refused(it: &Outcome) {
    assert!(!it.findings("Ingress other/attacker", Level::Warning).is_empty(), "{}", it.text);
}

fn evil() -> Value {
    one("evil.test", "/", "a")
}

#[test]
fn cve_2021_25742_snippets_read_no_secrets_of_the_controller() {
    for snippet in [
        "location /x { alias /var/run/secrets/kubernetes.io/serviceaccount/; }",
        "root /var/run/secrets;",
        "content_by_lua_block { ngx.say(io.open('/var/run/secrets/token'):read()) }",
        "include /var/run/secrets/kubernetes.io/serviceaccount/token;",
        "add_header X-Token $document_root;",
        "error_page 404 /../../etc/passwd; root /;",
    ] {
        for name in ["configuration-snippet", "server-snippet", "auth-snippet"] {
            let it = attack(json!({name: snippet, "auth-url": "http://auth.test/"}), evil());
            refused(&it);
            assert!(it.location("evil.test", "/").contains("return 503;"), "{name}: {snippet}");
        }
    }
}

#[test]
fn cve_2021_25742_snippets_are_off_by_default() {
    let mut world = World::new();
    world.ingress("front", json!({"configuration-snippet": "more_set_headers 'A: b';"}), one("shop.test", "/", "a"));
    let it = world.translate();
    assert!(it.location("shop.test", "/").contains("return 503;") && !it.text.contains("A: b"));
}

#[test]
fn cve_2021_25745_paths_do_not_become_directives() {
    for path in [
        "/a{alias /var/run/secrets/kubernetes.io/serviceaccount/;}location ~* ^/b",
        "/;} location /x { root /; } #",
        "/a\" { root /; } location \"/b",
    ] {
        attack(json!({}), one("evil.test", path, "a"));
        attack(json!({"use-regex": "true"}), one("evil.test", path, "a"));
        attack(json!({"rewrite-target": "/$1"}), one("evil.test", path, "a"));
    }
}

#[test]
fn cve_2021_25746_annotations_do_not_become_directives() {
    let values = [
        "/x; } location /y { root /; } #",
        "a\nroot /;",
        "a; include /etc/passwd;",
        "\"; root /; #",
        "on; alias /",
        "{ content_by_lua_block { } }",
        "http://a/; proxy_pass http://10.0.0.1",
    ];
    let rows = ingress::annotations::table::ROWS;
    for value in values {
        let all: serde_json::Map<_, _> = rows.iter().map(|row| (row.name.to_owned(), json!(value))).collect();
        attack(all.into(), evil());
    }
    for (row, value) in rows.iter().zip(values.iter().cycle()) {
        attack(json!({row.name: value}), evil());
    }
}

#[test]
fn cve_2021_25748_line_ends_do_not_hide_words() {
    for path in ["/a\n{ root /; }", "/a\r{ alias /; }", "/a\0b"] {
        let it = attack(json!({}), one("evil.test", path, "a"));
        refused(&it);
    }
}

#[test]
fn cve_2022_4886_log_formats_and_paths_are_data() {
    let it = attack(json!({}), one("evil.test", "/a{;} log_format x; access_log /tmp/x", "a"));
    assert!(!it.text.contains("\n    log_format x"));
    assert_eq!(it.text.lines().filter(|line| line.trim().starts_with("access_log /")).count(), 1);
}

#[test]
fn cve_2023_5043_configuration_snippets_are_confined() {
    let it = attack(
        json!({"configuration-snippet": "} } server { listen 80; server_name victim.test; location / { return 200 mine; }"}),
        evil(),
    );
    refused(&it);
    assert_eq!(it.text.matches("server_name victim.test").count(), 1);
}

#[test]
fn cve_2023_5044_permanent_redirects_are_urls() {
    for value in [
        "https://a.test/;}location /x{root /;",
        "https://a.test/\"; root /; \"",
        "$document_root",
        "https://a.test/ b",
        "javascript:alert(1)",
    ] {
        let it = attack(json!({"permanent-redirect": value}), evil());
        if !value.starts_with("https://a.test/;") {
            refused(&it);
        }
    }
}

#[test]
fn cve_2024_7646_carriage_returns_do_not_pass_the_checks() {
    for name in
        ["auth-realm", "proxy-redirect-from", "upstream-vhost", "x-forwarded-prefix", "rewrite-target", "app-root"]
    {
        let it = attack(json!({name: "/a\rroot /;", "auth-type": "basic"}), evil());
        refused(&it);
        assert!(!it.text.contains('\r'));
    }
}

#[test]
fn cve_2025_1097_names_of_client_certificates_are_expressions() {
    for value in [
        "CN=abc #(\n){}\n }}\nssl_engine ../../../../proc/1/fd/1",
        "CN=(",
        "anything",
        "CN=(*ACCEPT)",
        "CN=(?<host>.*)",
    ] {
        let it = attack(json!({"auth-tls-match-cn": value, "auth-tls-secret": "other/cert"}), evil());
        refused(&it);
        assert!(it.location("evil.test", "/").contains("return 503;"));
    }
}

#[test]
fn cve_2025_1098_targets_of_copies_are_urls() {
    for (name, value) in [
        ("mirror-target", "http://a.test/; } ssl_engine x; #"),
        ("mirror-target", "http://$host/"),
        ("mirror-target", "fake\";\n}}}\nssl_engine x;\n#"),
        ("mirror-host", "a\"; ssl_engine x;\n#"),
    ] {
        let it = attack(
            json!({name: value, "mirror-target": if name == "mirror-target" { value } else { "http://a.test" }}),
            evil(),
        );
        refused(&it);
    }
    // The identifier of the object was the way in, too: here it is hashed.
    let mut world = World::new();
    world.ingress("front", json!({"mirror-target": "http://a.test/"}), one("shop.test", "/", "a"));
    let name = ingress::Name::new("shop", "front");
    let mut object = (*world.cluster.ingresses[&name]).clone();
    object.metadata.uid = "x; } ssl_engine y; #".into();
    ingress::cluster::insert(&mut world.cluster.ingresses, object);
    assert!(!world.translate().text.contains("ssl_engine"));
}

#[test]
fn cve_2025_1974_a_translation_opens_nothing() {
    // The admission webhook ran `nginx -t` on text of the object, and `ssl_engine` loaded a library. Here an object is
    // translated and checked in memory; the tree names no file that is not a value of a named object.
    let it = attack(json!({"configuration-snippet": "ssl_engine /proc/1/fd/1;"}), evil());
    refused(&it);
    for line in it.text.lines().filter(|line| line.trim().starts_with("ssl_certificate")) {
        assert!(line.contains("/kubernetes/"), "{line}");
    }
}

#[test]
fn cve_2025_24513_names_of_secrets_are_no_paths() {
    for value in ["../../etc/passwd", "other/../../x", "shop/cert", "other/a b", "/", "other/"] {
        for name in ["auth-secret", "auth-tls-secret", "proxy-ssl-secret"] {
            let it = attack(json!({name: value, "auth-type": "basic", "backend-protocol": "HTTPS"}), evil());
            refused(&it);
            assert!(it.translation.files.is_empty(), "{name} {value} {:?}", it.translation.files);
        }
    }
}

#[test]
fn cve_2025_24514_urls_of_authentication_are_urls() {
    for value in [
        "http://a.test/#;\nroot /;",
        "http://a.test/;load_module x",
        "http://a.test{}",
        "unix:/var/run/x",
        "http://unix:/x",
        "file:///etc/passwd",
        "http://127.0.0.1:10246/",
        "http://169.254.169.254/latest",
    ] {
        let it = attack(json!({"auth-url": value}), evil());
        refused(&it);
        assert!(it.location("evil.test", "/").contains("return 503;"), "{value}");
    }
}

#[test]
fn cve_2025_15566_headers_of_authentication_requests_are_data() {
    let mut world = World::new();
    world.config_map("shop", "bad", json!({"X; root /; #": "a", "X-A": "b\"; root /;\n#", "X-B": "$document_root"}));
    world.ingress(
        "front",
        json!({"auth-url": "http://a.test/", "auth-proxy-set-headers": "bad"}),
        one("shop.test", "/", "a"),
    );
    let it = world.translate();
    names(&it);
    assert!(it.location("shop.test", "/").contains("return 503;"));
    // A ConfigMap of another namespace is not read.
    let it = attack(json!({"auth-url": "http://a.test/", "auth-proxy-set-headers": "shop/bad"}), evil());
    refused(&it);
}

#[test]
fn cve_2026_1580_methods_of_authentication_requests_are_words() {
    let it = attack(json!({"auth-url": "http://a.test/", "auth-method": "GET; root /;"}), evil());
    refused(&it);
    assert!(it.location("evil.test", "/").contains("return 503;"));
}

#[test]
fn cve_2026_24512_paths_of_every_type_are_data() {
    for kind in ["Exact", "Prefix", "ImplementationSpecific"] {
        for path in ["/a\" { } root /; #", "/a;}\troot /;", "/a'{root /;}"] {
            let spec = json!({"rules": [crate::world::typed_rule("evil.test", path, kind, "a")]});
            attack(json!({}), spec.clone());
            attack(json!({"rewrite-target": "/x", "use-regex": "true"}), spec);
        }
    }
}

#[test]
fn cve_2026_24513_custom_errors_do_not_pass_by_authentication() {
    let it =
        attack(json!({"auth-url": "http://a.test/", "custom-http-errors": "401,403", "default-backend": "b"}), evil());
    let location = it.location("evil.test", "/");
    assert!(location.contains("auth_request /_external-auth"), "{location}");
    // Pages come from the backend for errors, never from the service that is guarded.
    let server = it.server("evil.test");
    let page = server.split("location @custom_").nth(1).unwrap();
    let page = &page[..page.find("\n}").unwrap()];
    assert!(page.contains("proxy_pass http://other_b_80") && !page.contains("other_a_80"), "{page}");
}

#[test]
fn cve_2026_24514_sizes_are_bounded() {
    let big = "a".repeat(200_000);
    let it = attack(json!({"configuration-snippet": big.clone(), "server-alias": big.clone()}), evil());
    refused(&it);
    let rules: Vec<Value> = (0..6000).map(|index| rule("evil.test", &format!("/{index}"), "a")).collect();
    let it = attack(json!({}), json!({"rules": rules}));
    refused(&it);
    let it = attack(json!({"use-regex": "true"}), one("evil.test", &format!("/{}", "(a*)*".repeat(2000)), "a"));
    refused(&it);
}

#[test]
fn cve_2026_4342_comments_join_nothing() {
    let it = attack(
        json!({"rewrite-target": "/x #", "configuration-snippet": "# } \n"}),
        one("evil.test", "/a#\n} root /; #", "a"),
    );
    refused(&it);
}

#[test]
fn objects_of_other_namespaces_are_out_of_reach() {
    for annotations in [
        json!({"auth-type": "basic", "auth-secret": "shop/cert"}),
        json!({"auth-tls-secret": "shop/cert"}),
        json!({"default-backend": "shop/a", "custom-http-errors": "404"}),
        json!({"backend-protocol": "FCGI", "fastcgi-params-configmap": "shop/x"}),
        json!({"custom-headers": "shop/x"}),
    ] {
        let it = attack(annotations, evil());
        refused(&it);
        assert!(!it.text.contains("/shop/"), "{}", it.text);
    }
    let mut spec = evil();
    spec["tls"] = json!([{"hosts": ["evil.test"], "secretName": "../shop/cert"}]);
    let it = attack(json!({}), spec);
    assert!(it.translation.files.is_empty());
}

#[test]
fn a_host_of_another_ingress_keeps_its_paths_and_names() {
    let it = attack(
        json!({"server-alias": "victim.test", "from-to-www-redirect": "true", "server-snippet": "return 200 mine;"}),
        json!({"rules": [rule("evil.test", "/", "a"), rule("victim.test", "/new", "b"), rule("victim.test", "/", "b")]}),
    );
    refused(&it);
    // The snippet is confined to the paths of its own Ingress.
    assert!(it.location("victim.test", "/new/").contains("return 200 mine;"));
    assert!(!it.location("victim.test", "/").contains("mine"));
    assert!(!it.server("evil.test").contains("server_name evil.test victim.test"));
}

#[test]
fn inner_locations_are_out_of_reach() {
    let it = attack(json!({}), one("victim.test", "/_external-auth-x", "a"));
    refused(&it);
    let it = attack(json!({"configuration-snippet": "rewrite ^ /_external-auth-x last;"}), evil());
    refused(&it);
}
