//! Certificates from Secrets.

use super::scene::{Scene, wait_until};
use serde_json::{Value, json};
use testkit::kubernetes::ControlPlane;
use testkit::{Authority, Talk};

const SECRETS: &str = "v1/secrets";

fn secret(authority: &Authority, name: &str) -> Value {
    let issued = authority.issue(&["shop.test"]);
    json!({"metadata": {"name": name}, "type": "kubernetes.io/tls", "stringData": {"tls.crt": issued.chain, "tls.key": issued.key}})
}

/// Whether a client that trusts an authority accepts the certificate of `shop.test`.
fn accepts(authority: &Authority, scene_https: std::net::SocketAddr) -> bool {
    Talk::connect_secure(scene_https, &authority.client(), "shop.test").is_ok()
}

#[test]
fn certificate_is_renewed_without_a_reload_and_may_vanish() {
    let Some(scene) = Scene::new_or_skip(ControlPlane::shared()) else { return };
    let (old, new) = (Authority::new("old"), Authority::new("new"));
    scene.plane.create(SECRETS, &scene.namespace, &secret(&old, "front"));
    let replica = scene.replica(&[]);
    let (_pod, address) = scene.pod("pod");
    scene.service("shop");
    scene.slice("shop", "shop-1", address);
    scene.ingress_with(
        "shop",
        "shop.test",
        "shop",
        &json!({}),
        &json!([{"hosts": ["shop.test"], "secretName": "front"}]),
    );
    wait_until("the certificate of the Secret", || accepts(&old, replica.https));
    let mut talk = Talk::connect_secure(replica.https, &old.client(), "shop.test").expect("trusted");
    assert_eq!(talk.ask_of("shop.test", "/", "").status(), 200);
    let generations = replica.generations();
    let renewed = secret(&new, "front");
    scene.plane.patch(SECRETS, &scene.namespace, "front", &json!({"stringData": renewed["stringData"]}));
    wait_until("the new certificate", || accepts(&new, replica.https));
    assert_eq!(replica.generations(), generations, "a certificate makes no configuration");
    assert_eq!(talk.ask_of("shop.test", "/", "").status(), 200, "the connection stays");
    scene.plane.delete(SECRETS, &scene.namespace, "front");
    wait_until("the Secret's certificate is not used any more", || !accepts(&new, replica.https));
    assert!(replica.is_ready());
    scene.plane.create(SECRETS, &scene.namespace, &secret(&old, "front"));
    wait_until("the certificate is back", || accepts(&old, replica.https));
}

#[test]
fn a_broken_certificate_costs_its_host_alone() {
    let Some(scene) = Scene::new_or_skip(ControlPlane::shared()) else { return };
    let replica = scene.replica(&[]);
    let _good = scene.serve("good.test", "good");
    replica.wait_for("good.test", 200, "good");
    let text = "-----BEGIN CERTIFICATE-----\nbm8=\n-----END CERTIFICATE-----\n";
    let broken = json!({"metadata": {"name": "front"}, "type": "kubernetes.io/tls", "stringData": {"tls.crt": text, "tls.key": text}});
    scene.plane.create(SECRETS, &scene.namespace, &broken);
    scene.service("bad");
    scene.ingress_with("bad", "bad.test", "bad", &json!({}), &json!([{"hosts": ["bad.test"], "secretName": "front"}]));
    wait_until("an Event", || !scene.plane.events(&scene.namespace, "bad").is_empty());
    assert_eq!(replica.answer("good.test"), (200, "good".to_owned()));
}
