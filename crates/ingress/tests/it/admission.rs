//! What the admission webhook says: the findings of the translation, without contents of Secrets, and conflicts both ways.

use crate::world::{PREFIX, World, one, rule};
use ingress::admission::{Judgement, advice, asks_the_same, judge};
use ingress::objects::networking::Ingress;
use ingress::{Finding, Level, Name};
use serde_json::{Value, json};
use std::collections::BTreeSet;

/// The judgement about an Ingress of a world, which has the others already.
fn judged(world: &World, name: &str) -> Judgement {
    let mut cluster = world.cluster.clone();
    let name = Name::new("shop", name);
    let ingress = cluster.ingresses.remove(&name).expect("it is in the world");
    judge(&cluster, &world.settings, Ingress::clone(&ingress).into())
}

/// The judgement about a single Ingress.
fn of(annotations: Value, spec: Value) -> Judgement {
    let mut world = World::new();
    world.ingress("front", annotations, spec);
    judged(&world, "front")
}

fn reasons(findings: &[Finding]) -> Vec<&str> {
    findings.iter().map(|finding| finding.reason).collect()
}

/// What the translation refuses about an Ingress, the webhook refuses with the same words; `but` what Secrets and
/// `ConfigMap`s decide.
pub(crate) fn agrees(world: &World, namespace: &str, name: &str) {
    let translation = ingress::translate(&world.cluster, &world.settings);
    let mut cluster = world.cluster.clone();
    let ingress = cluster.ingresses.remove(&Name::new(namespace, name)).expect("it is in the world");
    let said = judge(&cluster, &world.settings, Ingress::clone(&ingress).into());
    let said: BTreeSet<&str> = said.refused.iter().map(|finding| finding.message.as_str()).collect();
    let of_contents = |message: &str| {
        ["there is no Secret", "there is no ConfigMap", "has no key"].iter().any(|it| message.contains(it))
    };
    let own = format!("Ingress {namespace}/{name}");
    for finding in translation.findings.iter().filter(|it| it.level == Level::Refused && it.object.to_string() == own) {
        let is_said = said.contains(finding.message.as_str());
        assert!(is_said || of_contents(&finding.message), "{} is not in {said:?}", finding.message);
    }
}

#[test]
fn a_good_ingress_is_accepted_without_a_word() {
    assert_eq!(of(json!({"proxy-body-size": "8m"}), one("shop.test", "/", "a")), Judgement::default());
}

#[test]
fn unsupported_objects_are_refused_with_advice() {
    for (annotations, spec, reason, words, mend) in [
        (
            json!({"auth-url": "http://127.0.0.1/"}),
            one("a.test", "/", "a"),
            "WrongAnnotation",
            "\"auth-url\"",
            "correct the value",
        ),
        (
            json!({"enable-modsecurity": "true"}),
            one("a.test", "/", "a"),
            "RefusedAnnotation",
            "firewall",
            "remove the annotation",
        ),
        (
            json!({"configuration-snippet": "a b;"}),
            one("a.test", "/", "a"),
            "WrongAnnotation",
            "--allow-snippet-annotations",
            "remove it",
        ),
        (json!({}), one("a test", "/", "a"), "WrongHost", "\"a test\" is no host", "www.example.com"),
        (json!({}), one("a.test", "a", "a"), "WrongPath", "does not begin with /", "begins with /"),
    ] {
        let found = of(annotations, spec);
        assert_eq!(reasons(&found.refused), [reason], "{found:?}");
        assert!(found.refused[0].message.contains(words), "{found:?}");
        assert!(advice(&found.refused[0]).contains(mend), "{found:?}");
    }
}

#[test]
fn annotations_without_effect_are_warnings() {
    let found =
        of(json!({"auth-keepalive": "8", "no-such": "1", "proxy-body-size": "x"}), one("a.test", "/", "nothing"));
    assert!(found.refused.is_empty());
    let mut said = reasons(&found.warnings);
    said.sort_unstable();
    assert_eq!(said, ["IgnoredAnnotation", "NoService", "UnknownAnnotation", "WrongAnnotation"]);
    assert_eq!(found.warnings[3].reason, "IgnoredAnnotation", "notes come last");
}

#[test]
fn a_path_of_an_older_ingress_is_a_conflict() {
    let mut world = World::new();
    world.ingress("shop/first", json!({}), one("shop.test", "/a", "a"));
    world.ingress("front", json!({}), json!({"rules": [rule("SHOP.test", "/a", "a"), rule("shop.test", "/b", "a")]}));
    let found = judged(&world, "front");
    assert_eq!(reasons(&found.refused), ["Conflict"]);
    assert!(found.refused[0].message.contains("Ingress shop/first already has the path \"/a\""), "{found:?}");
    world.ingress("front", json!({"canary": "true", "canary-weight": "10"}), one("shop.test", "/a", "a"));
    assert!(judged(&world, "front").refused.is_empty(), "a canary shares it");
}

#[test]
fn an_older_ingress_takes_no_path_from_a_younger_one() {
    let mut world = World::new();
    world.ingress("front", json!({}), one("shop.test", "/old", "a"));
    world.ingress("other/young", json!({}), one("shop.test", "/a", "a"));
    let mut changed = Ingress::clone(&world.cluster.ingresses[&Name::new("shop", "front")]);
    changed.spec.rules = serde_json::from_value(json!([rule("shop.test", "/a", "b")])).unwrap();
    let found = judge(&world.cluster, &world.settings, changed.clone().into());
    assert_eq!(reasons(&found.refused), ["Conflict"]);
    assert!(found.refused[0].message.starts_with("Ingress other/young would lose a path"), "{found:?}");
    // It has the path already: another change of it is no new conflict.
    ingress::cluster::insert(&mut world.cluster.ingresses, changed.clone());
    changed.metadata.annotations.insert(format!("{PREFIX}/proxy-body-size"), "8m".into());
    assert!(judge(&world.cluster, &world.settings, changed.into()).refused.is_empty());
}

#[test]
fn contents_of_secrets_and_config_maps_are_not_asked_for() {
    let annotations = json!({"auth-type": "basic", "auth-secret": "people", "auth-tls-secret": "shop/ca",
        "custom-headers": "shop/fields", "proxy-ssl-secret": "shop/own"});
    let spec =
        json!({"tls": [{"hosts": ["shop.test"], "secretName": "later"}], "rules": [rule("shop.test", "/", "a")]});
    let mut world = World::new();
    world.ingress("front", annotations, spec);
    let without = judged(&world, "front");
    assert_eq!(without, Judgement::default());
    for name in ["people", "ca", "own", "later"] {
        world.secret("shop", name, &[("other", "a secret value")]);
    }
    world.config_map("shop", "fields", json!({"not a header": "a secret value"}));
    assert_eq!(judged(&world, "front"), without, "the answer depends on what is in them");
    for value in ["other/people", "../x"] {
        let found = of(json!({"auth-type": "basic", "auth-secret": value}), one("shop.test", "/", "a"));
        assert_eq!(
            found.refused.iter().filter(|it| it.message.contains("\"auth-secret\"")).count(),
            found.refused.len()
        );
        assert!(!found.refused.is_empty(), "{value}");
    }
}

#[test]
fn other_classes_and_objects_that_end_are_not_judged() {
    let mut world = World::new();
    let bad = json!({"enable-modsecurity": "true", "kubernetes.io/ingress.class": "another"});
    world.ingress("front", bad, one("shop.test", "/", "a"));
    assert_eq!(judged(&world, "front"), Judgement::default());
    world.ingress("front", json!({"enable-modsecurity": "true"}), one("shop.test", "/", "a"));
    let mut ending = Ingress::clone(&world.cluster.ingresses[&Name::new("shop", "front")]);
    assert!(!judge(&world.cluster, &world.settings, ending.clone().into()).refused.is_empty());
    ending.metadata.deletion_timestamp = Some("2026-01-02T00:00:00Z".into());
    assert_eq!(judge(&world.cluster, &world.settings, ending.into()), Judgement::default());
}

#[test]
fn labels_and_foreign_annotations_ask_for_nothing() {
    let mut world = World::new();
    world.ingress("front", json!({}), one("shop.test", "/", "a"));
    let old = Ingress::clone(&world.cluster.ingresses[&Name::new("shop", "front")]);
    let mut new = old.clone();
    new.metadata.annotations.insert("example.com/owner".into(), "x".into());
    new.metadata.labels.insert("a".into(), "b".into());
    assert!(asks_the_same(&world.settings, &old.clone().into(), &new.clone().into()));
    new.metadata.annotations.insert(format!("{PREFIX}/app-root"), "/x".into());
    assert!(!asks_the_same(&world.settings, &old.into(), &new.into()));
}
