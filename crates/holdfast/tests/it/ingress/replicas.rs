//! Two replicas, and the end of one.

use super::scene::{INGRESSES, Scene, wait_until};
use nix::sys::signal::Signal;
use serde_json::json;
use testkit::kubernetes::ControlPlane;
use testkit::{Peer, Talk};

#[test]
fn one_of_two_replicas_leads_and_the_other_takes_over() {
    let Some(scene) = Scene::new_or_skip(ControlPlane::shared()) else { return };
    let mut first = scene.replica(&[]);
    wait_until("the first one leads", || first.figure("leader") == 1);
    let second = scene.start_at(&[], 1);
    second.wait_until_ready();
    let _one = scene.serve("shop.test", "one");
    first.wait_for("shop.test", 200, "one");
    second.wait_for("shop.test", 200, "one");
    let address = |ip: &str| json!([{"ip": ip}]);
    let written = |ip: &'static str| {
        scene.plane.wait_for(INGRESSES, &scene.namespace, "one", "its address", |it| {
            it["status"]["loadBalancer"]["ingress"] == address(ip)
        })
    };
    written("192.0.2.1");
    assert_eq!(second.figure("leader"), 0);
    // A leader that ends in order gives the Lease up.
    first.signal(Signal::SIGTERM);
    assert!(first.wait().success());
    wait_until("the second one leads", || second.figure("leader") == 1);
    scene.plane.wait_for("coordination.k8s.io/v1/leases", &scene.namespace, &scene.namespace, "its holder", |lease| {
        lease["spec"]["leaseTransitions"].as_u64() == Some(1)
    });
}

#[test]
fn on_sigterm_it_is_not_ready_serves_on_and_finishes_requests() {
    let Some(scene) = Scene::new_or_skip(ControlPlane::shared()) else { return };
    let mut replica = scene.replica(&["--shutdown-grace-period=5s"]);
    let asked = testkit::Signal::new();
    let answered = asked.clone();
    let go_on = testkit::Signal::new();
    let goes_on = go_on.clone();
    // Other paths are answered at once: they tell when the route is served.
    let slow = Peer::script(move |mut talk: Talk| {
        while let Some(request) = talk.request() {
            if request.line.starts_with("GET /waits ") {
                answered.raise();
                talk.wait(&goes_on);
            }
            talk.send("HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nslow");
        }
    });
    let address = scene.network.publish(slow.address());
    scene.service("slow");
    scene.slice("slow", "slow-1", address);
    let _quick = scene.serve("quick.test", "quick");
    scene.ingress("slow", "slow.test", "slow");
    replica.wait_for("quick.test", 200, "quick");
    replica.wait_for("slow.test", 200, "slow");
    let mut talk = Talk::connect(replica.http);
    talk.send_ask_of("slow.test", "/waits", "");
    asked.wait();
    replica.signal(Signal::SIGTERM);
    wait_until("it is not ready", || !replica.is_ready());
    assert_eq!(replica.answer("quick.test"), (200, "quick".to_owned()), "it serves in the grace period");
    assert!(replica.runs());
    go_on.raise();
    assert_eq!(talk.response().body, b"slow");
    assert!(replica.wait().success());
}
