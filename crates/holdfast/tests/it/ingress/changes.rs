//! Objects that come, change and go.

use super::scene::{INGRESSES, Scene, wait_until};
use serde_json::json;
use std::net::TcpListener;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use testkit::kubernetes::ControlPlane;
use testkit::{Peer, Talk};

#[test]
fn a_cluster_without_objects_is_served_with_404() {
    let Some(scene) = Scene::new_or_skip(ControlPlane::shared()) else { return };
    let replica = scene.replica(&[]);
    assert_eq!(replica.answer("nowhere.test").0, 404);
    assert_eq!((replica.generations(), replica.figure("complete")), (1, 1));
}

#[test]
fn an_ingress_serves_changes_and_goes() {
    let Some(scene) = Scene::new_or_skip(ControlPlane::shared()) else { return };
    let replica = scene.replica(&[]);
    let _one = scene.serve("shop.test", "one");
    replica.wait_for("shop.test", 200, "one");
    let _two = scene.serve("blog.test", "two");
    replica.wait_for("blog.test", 200, "two");
    let rule = json!([{"host": "store.test", "http": {"paths": [{"path": "/", "pathType": "Prefix",
        "backend": {"service": {"name": "one", "port": {"number": 80}}}}]}}]);
    scene.plane.patch(INGRESSES, &scene.namespace, "one", &json!({"spec": {"rules": rule}}));
    replica.wait_for("store.test", 200, "one");
    assert_eq!(replica.answer("shop.test").0, 404, "the old host");
    scene.plane.delete(INGRESSES, &scene.namespace, "one");
    replica.wait_for("store.test", 404, "");
    assert_eq!(replica.answer("blog.test"), (200, "two".to_owned()));
}

#[test]
fn ingress_gets_the_published_address_without_a_reload() {
    let Some(scene) = Scene::new_or_skip(ControlPlane::shared()) else { return };
    let replica = scene.replica(&[]);
    let _pod = scene.serve("shop.test", "one");
    replica.wait_for("shop.test", 200, "one");
    let generations = replica.generations();
    scene.plane.wait_for(INGRESSES, &scene.namespace, "one", "its address", |ingress| {
        ingress["status"]["loadBalancer"]["ingress"] == json!([{"ip": "192.0.2.1"}])
    });
    // The next object is a generation; the status before it was none.
    scene.service("other");
    scene.ingress("other", "other.test", "other");
    wait_until("another generation", || replica.generations() > generations);
    assert_eq!(replica.answer("shop.test").0, 200);
}

#[test]
fn a_bad_object_is_refused_alone_with_an_event() {
    let Some(scene) = Scene::new_or_skip(ControlPlane::shared()) else { return };
    let replica = scene.replica(&[]);
    let _good = scene.serve("good.test", "good");
    replica.wait_for("good.test", 200, "good");
    scene.service("bad");
    let broken = json!({"nginx.ingress.kubernetes.io/use-regex": "true"});
    scene.ingress_with("bad", "bad.test", "bad", &broken, &json!([]));
    let path = json!([{"path": "/(", "pathType": "ImplementationSpecific", "backend": {"service": {"name": "bad", "port": {"number": 80}}}}]);
    scene.plane.patch(
        INGRESSES,
        &scene.namespace,
        "bad",
        &json!({"spec": {"rules": [{"host": "bad.test", "http": {"paths": path}}]}}),
    );
    wait_until("an Event", || scene.plane.events(&scene.namespace, "bad").iter().any(|event| event.kind == "Warning"));
    assert_eq!(replica.answer("good.test"), (200, "good".to_owned()));
    assert_ne!(replica.answer("bad.test").0, 200);
}

#[test]
fn answers_of_an_authentication_service_are_cached() {
    let Some(scene) = Scene::new_or_skip(ControlPlane::shared()) else { return };
    let asked = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&asked);
    let service = Peer::answering(move |request| {
        count.fetch_add(1, Ordering::SeqCst);
        let is_known = request.value("authorization") == Some("Bearer known");
        let status = if is_known { "200 OK" } else { "401 Unauthorized" };
        format!("HTTP/1.1 {status}\r\nContent-Length: 0\r\n\r\n").into()
    });
    let at = scene.network.publish(service.address());
    let _pod = scene.pod_behind_service("pod");
    let annotations = json!({
        "nginx.ingress.kubernetes.io/auth-url": format!("http://{at}/check"),
        "nginx.ingress.kubernetes.io/auth-cache-key": "$http_authorization",
        "nginx.ingress.kubernetes.io/auth-cache-duration": "200 401 10m",
    });
    let replica = scene.replica(&[]);
    scene.ingress_with("guarded", "guarded.test", "pod", &annotations, &json!([]));
    replica.wait_for("guarded.test", 401, "");
    let ask = |fields: &str| Talk::connect(replica.http).ask_of("guarded.test", "/", fields).status();
    assert_eq!(ask("Authorization: Bearer known\r\n"), 200);
    let before = asked.load(Ordering::SeqCst);
    for _ in 0..5 {
        assert_eq!(ask("Authorization: Bearer known\r\n"), 200);
        assert_eq!(ask(""), 401);
    }
    assert_eq!(asked.load(Ordering::SeqCst), before, "the answers come from the cache");
    assert_eq!(ask("Authorization: Bearer other\r\n"), 401);
    assert_eq!(asked.load(Ordering::SeqCst), before + 1, "another key is asked for");
}

#[test]
fn the_older_of_two_conflicting_objects_wins() {
    let Some(scene) = Scene::new_or_skip(ControlPlane::shared()) else { return };
    let _first = scene.serve("shop.test", "first");
    let replica = scene.replica(&[]);
    replica.wait_for("shop.test", 200, "first");
    let _second = scene.serve("shop.test", "second");
    wait_until("an Event", || !scene.plane.events(&scene.namespace, "second").is_empty());
    assert_eq!(replica.answer("shop.test"), (200, "first".to_owned()));
    scene.plane.delete(INGRESSES, &scene.namespace, "first");
    replica.wait_for("shop.test", 200, "second");
}

#[test]
fn a_deleted_namespace_takes_its_routes_along() {
    let Some(scene) = Scene::new_or_skip(ControlPlane::shared()) else { return };
    let replica = scene.replica(&[]);
    let _pod = scene.serve("shop.test", "one");
    replica.wait_for("shop.test", 200, "one");
    scene.plane.delete("v1/namespaces", "", &scene.namespace);
    replica.wait_for("shop.test", 404, "");
    assert!(replica.is_ready());
}

#[test]
fn a_port_in_use_costs_no_process_and_is_taken_when_it_is_free() {
    let Some(scene) = Scene::new_or_skip(ControlPlane::shared()) else { return };
    let taken = scene.network.run(|| TcpListener::bind("10.244.0.1:8080")).expect("a free port");
    let replica = scene.start(&["--http-port=8080"]);
    wait_until("it has a configuration", || replica.generations() > 0);
    assert!(replica.runs());
    drop(taken);
    replica.wait_until_ready();
    replica.wait_for("nowhere.test", 404, "");
}
