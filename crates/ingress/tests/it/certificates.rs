//! Which certificates Ingresses ask the controller for.

use crate::world::{World, rule};
use ingress::Level;
use serde_json::{Value, json};

fn world() -> World {
    let mut world = World::new();
    world.settings.acme = true;
    world
}

fn asks() -> Value {
    json!({"holdfast.dev/acme": "true"})
}

/// A rule for each host, and an entry of `tls` for all of them.
fn spec(secret: &str, hosts: &[&str]) -> Value {
    let rules: Vec<Value> = hosts.iter().map(|host| rule(host, "/", "a")).collect();
    json!({"rules": rules, "tls": [{"secretName": secret, "hosts": hosts}]})
}

/// Each wish as a line: Secret, hosts, Ingresses.
fn wishes(world: &World) -> Vec<String> {
    let found = world.translate().translation.certificates;
    let line = |wish: ingress::CertificateWish| {
        let hosts: Vec<String> = wish.hosts.into_iter().collect();
        let objects: Vec<String> = wish.objects.iter().map(|object| object.name.to_string()).collect();
        format!("{} for {} by {}", wish.secret, hosts.join(" "), objects.join(" "))
    };
    found.into_iter().map(line).collect()
}

fn findings(world: &World, object: &str) -> Vec<String> {
    // A Secret that does not exist yet is a finding, too.
    let all = world.translate().findings(&format!("Ingress {object}"), Level::Warning);
    all.into_iter().filter(|text| !text.starts_with("NoCertificate")).collect()
}

#[test]
fn annotations_ask_and_entries_with_one_secret_join() {
    let mut world = world();
    world.ingress("one", asks(), spec("front", &["B.test", "a.test"]));
    world.ingress("two", json!({"kubernetes.io/tls-acme": "true"}), spec("front", &["c.test"]));
    world.ingress("none", json!({}), spec("other", &["d.test"]));
    world.ingress(
        "off",
        json!({"kubernetes.io/tls-acme": "true", "holdfast.dev/acme": "false"}),
        spec("off", &["e.test"]),
    );
    assert_eq!(wishes(&world), ["shop/front for a.test b.test c.test by shop/one shop/two"]);
    assert!(findings(&world, "shop/one").is_empty() && findings(&world, "shop/off").is_empty());
}

#[test]
fn orders_nothing_without_an_authority_or_its_annotation() {
    let mut world = World::new();
    world.ingress("own", asks(), spec("own", &["a.test"]));
    world.ingress("shared", json!({"kubernetes.io/tls-acme": "true"}), spec("shared", &["b.test"]));
    assert!(wishes(&world).is_empty() && findings(&world, "shop/shared").is_empty());
    assert!(findings(&world, "shop/own")[0].starts_with("NoAuthority"));
}

#[test]
fn cert_manager_s_ingresses_are_left_to_it() {
    for annotation in ["cert-manager.io/issuer", "cert-manager.io/cluster-issuer"] {
        let mut world = world();
        let annotations = json!({"holdfast.dev/acme": "true", "kubernetes.io/tls-acme": "true", annotation: "ca"});
        world.ingress("one", annotations, spec("front", &["a.test"]));
        assert!(wishes(&world).is_empty() && findings(&world, "shop/one").is_empty(), "{annotation}");
    }
}

#[test]
fn a_host_of_another_namespace_gets_no_certificate() {
    let mut world = world();
    world.ingress("other/bank", json!({}), json!({"rules": [rule("bank.test", "/", "a")]}));
    world.ingress("thief", asks(), spec("front", &["bank.test"]));
    assert!(wishes(&world).is_empty());
    let found = findings(&world, "shop/thief");
    assert!(
        found.iter().any(|text| text.contains("Ingress other/bank of another namespace has this host")),
        "{found:?}"
    );
    // The namespace that has the host gets one, by any of its Ingresses.
    world.ingress(
        "other/later",
        asks(),
        json!({"rules": [rule("bank.test", "/later", "a")],
        "tls": [{"secretName": "bank", "hosts": ["bank.test"]}]}),
    );
    assert_eq!(wishes(&world), ["other/bank for bank.test by other/later"]);
}

#[test]
fn what_http_01_cannot_do_is_refused_with_a_reason() {
    for (tls, wanted) in [
        (json!([{"secretName": "front", "hosts": ["*.a.test"]}]), "needs a DNS challenge"),
        (json!([{"secretName": "front", "hosts": ["a.test", "unknown.test"]}]), "no rule of an Ingress"),
        (json!([{"secretName": "front"}]), "names no hosts"),
        (json!([{"hosts": ["a.test"]}]), "no valid \"secretName\""),
        (json!([{"secretName": "../x", "hosts": ["a.test"]}]), "no valid \"secretName\""),
    ] {
        let mut world = world();
        let rules = json!([rule("a.test", "/", "a"), rule("*.a.test", "/", "a")]);
        world.ingress("one", asks(), json!({"rules": rules, "tls": tls}));
        assert!(wishes(&world).is_empty());
        let found = findings(&world, "shop/one");
        assert!(found.len() == 1 && found[0].contains(wanted), "{found:?}");
    }
    let mut world = world();
    world.ingress("one", json!({"holdfast.dev/acme": "please"}), spec("front", &["a.test"]));
    assert!(wishes(&world).is_empty() && findings(&world, "shop/one")[0].contains("not \"true\" or \"false\""));
}

#[test]
fn certificates_and_their_names_have_limits() {
    let mut world = world();
    let names: Vec<String> = (0..101).map(|number| format!("h{number}.test")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    world.ingress("fits", asks(), spec("front", &names[..100]));
    world.ingress("more", asks(), spec("front", &names[100..]));
    assert_eq!(world.translate().translation.certificates[0].hosts.len(), 100);
    assert!(findings(&world, "shop/more")[0].contains("more than 100 hosts"));
    let mut many = spec("s", &["many.test"]);
    let entries = (0..1001).map(|number| json!({"secretName": format!("s{number}"), "hosts": ["many.test"]}));
    many["tls"] = entries.collect();
    world.ingress("other/many", asks(), many);
    assert_eq!(world.translate().translation.certificates.len(), 1001, "1000 and that of the other namespace");
    assert!(findings(&world, "other/many")[0].contains("more than 1000 certificates"));
}
