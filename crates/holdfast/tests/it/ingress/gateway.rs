//! A Gateway with an `HTTPRoute`, from the API server to the Pods.

use super::scene::{Replica, Scene, wait_until};
use serde_json::{Value, json};
use testkit::kubernetes::ControlPlane;
use testkit::{Peer, Talk};

const GATEWAY_API: &str = "gateway.networking.k8s.io/v1";
pub(super) const HTTP_ROUTES: &str = "gateway.networking.k8s.io/v1/httproutes";
/// Requests for which shares of 3 and 1 are looked at.
const REQUESTS: usize = 400;

/// A class of this scene and a Gateway at the port of a replica, with the replica's flag for them.
pub(super) fn gateway(scene: &Scene<'_>) -> String {
    let controller = format!("holdfast.test/{}", scene.namespace);
    let class = json!({"apiVersion": GATEWAY_API, "kind": "GatewayClass", "metadata": {"name": scene.namespace}, "spec": {"controllerName": controller}});
    scene.plane.create(&format!("{GATEWAY_API}/gatewayclasses"), "", &class);
    let listeners = json!([{"name": "http", "protocol": "HTTP", "port": 8080}]);
    let gateway = json!({
        "apiVersion": GATEWAY_API,
        "kind": "Gateway",
        "metadata": {"name": "front"},
        "spec": {"gatewayClassName": scene.namespace, "listeners": listeners},
    });
    scene.plane.create(&format!("{GATEWAY_API}/gateways"), &scene.namespace, &gateway);
    format!("--gateway-controller-name={controller}")
}

/// The same, and the replica.
fn replica(scene: &Scene<'_>) -> Replica {
    scene.replica(&[&gateway(scene)])
}

/// A route of the Gateway for a host, as a manifest.
pub(super) fn manifest(scene: &Scene<'_>, kind: &str, host: &str, rules: &Value) -> Value {
    json!({
        "apiVersion": GATEWAY_API,
        "kind": kind,
        "metadata": {"name": host, "namespace": scene.namespace},
        "spec": {"parentRefs": [{"name": "front"}], "hostnames": [host], "rules": rules},
    })
}

/// A stored route of the Gateway for a host.
pub(super) fn route(scene: &Scene<'_>, host: &str, rules: &Value) {
    let route = manifest(scene, "HTTPRoute", host, rules);
    scene.plane.create(HTTP_ROUTES, &scene.namespace, &route);
}

/// A Service with one Pod that answers with its name and a field of the request.
fn echo(scene: &Scene<'_>, name: &'static str) -> Peer {
    let peer = Peer::answering(move |request| {
        let tag = request.value("x-tag").unwrap_or_default().to_owned();
        let body = format!("{name} {tag}");
        format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{body}", body.len()).into()
    });
    scene.service(name);
    scene.slice(name, &format!("{name}-1"), scene.network.publish(peer.address()));
    peer
}

#[test]
fn a_route_shares_matches_and_changes_requests() {
    let Some(scene) = Scene::new_or_skip(ControlPlane::shared()) else { return };
    let replica = replica(&scene);
    let _pods = [echo(&scene, "one"), echo(&scene, "two")];
    let tag =
        json!({"type": "RequestHeaderModifier", "requestHeaderModifier": {"set": [{"name": "x-tag", "value": "set"}]}});
    let mark = json!({"type": "ResponseHeaderModifier", "responseHeaderModifier": {"add": [{"name": "x-mark", "value": "m"}]}});
    route(
        &scene,
        "shop.test",
        &json!([
            {
                "matches": [{"headers": [{"name": "x-beta", "value": "yes"}]}],
                "filters": [tag, mark],
                "backendRefs": [{"name": "two", "port": 80}],
            },
            {"backendRefs": [{"name": "one", "port": 80, "weight": 3}, {"name": "two", "port": 80, "weight": 1}]},
        ]),
    );
    replica.wait_for("shop.test", 200, "");

    let beta = Talk::connect(replica.http).ask_of("shop.test", "/", "X-Beta: yes\r\nX-Tag: mine\r\n");
    assert_eq!((beta.status(), &*beta.body), (200, &b"two set"[..]));
    assert_eq!(beta.value("x-mark"), Some("m"));
    let mut talk = Talk::connect(replica.http);
    let answers: Vec<_> = (0..REQUESTS).map(|_| talk.ask_of("shop.test", "/", "").body).collect();
    let of_two = answers.iter().filter(|body| body.starts_with(b"two")).count();
    assert!(answers.iter().all(|body| body.starts_with(b"two") || body.starts_with(b"one")));
    // A quarter, and five standard deviations.
    assert!((56..=144).contains(&of_two), "{of_two} of {REQUESTS}");
    scene.plane.wait_for(HTTP_ROUTES, &scene.namespace, "shop.test", "accepted", |route| {
        let conditions = route["status"]["parents"][0]["conditions"].as_array();
        conditions.into_iter().flatten().filter(|it| it["status"] == "True").count() == 2
    });
}

#[test]
fn a_backend_that_is_not_there_gets_500() {
    let Some(scene) = Scene::new_or_skip(ControlPlane::shared()) else { return };
    let replica = replica(&scene);
    let _pod = echo(&scene, "one");
    let to = |name: &str| json!([{"backendRefs": [{"name": name, "port": 80}]}]);
    route(&scene, "good.test", &to("one"));
    route(&scene, "missing.test", &to("missing"));
    replica.wait_for("good.test", 200, "one ");
    wait_until("the other route", || replica.answer("missing.test").0 != 404);
    assert_eq!(replica.answer("missing.test").0, 500);
}
