//! Endpoints: they come and go without a configuration, and no request fails.

use super::scene::{Scene, wait_until};
use serde_json::json;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};
use testkit::Talk;
use testkit::kubernetes::ControlPlane;

#[test]
fn endpoints_come_and_go_under_requests_without_a_failure() {
    let Some(scene) = Scene::new_or_skip(ControlPlane::shared()) else { return };
    let replica = scene.replica(&[]);
    let _first = scene.serve("shop.test", "first");
    replica.wait_for("shop.test", 200, "first");
    let generations = replica.generations();
    let (ends, requests) = (AtomicBool::new(false), AtomicU64::new(0));
    std::thread::scope(|threads| {
        let asks = || {
            let mut talk = Talk::connect(replica.http);
            while !ends.load(Ordering::Relaxed) {
                let response = talk.ask_of("shop.test", "/", "");
                assert_eq!(response.status(), 200);
                requests.fetch_add(1, Ordering::Relaxed);
            }
        };
        let asking: Vec<_> = (0..4).map(|_| threads.spawn(asks)).collect();
        for round in 0..5 {
            let (_pod, address) = scene.pod("second");
            let name = format!("second-{round}");
            scene.slice("first", &name, address);
            wait_until("the new Pod answers", || replica.answer("shop.test").1 == "second");
            scene.remove_slice(&name);
            let before = requests.load(Ordering::Relaxed);
            // The Pod ends only when requests have passed since its endpoint is gone for the proxy.
            wait_until("only the old Pod answers", || (0..8).all(|_| replica.answer("shop.test").1 == "first"));
            wait_until("requests go on", || requests.load(Ordering::Relaxed) > before + 20);
        }
        ends.store(true, Ordering::Relaxed);
        for thread in asking {
            thread.join().expect("no request failed");
        }
    });
    assert!(requests.load(Ordering::Relaxed) > 100);
    assert_eq!(replica.generations(), generations, "endpoints make no configuration");
}

#[test]
fn a_new_pod_takes_traffic_soon_after_its_event() {
    let Some(scene) = Scene::new_or_skip(ControlPlane::shared()) else { return };
    let replica = scene.replica(&[]);
    scene.service("shop");
    scene.ingress("shop", "shop.test", "shop");
    wait_until("the route without endpoints", || replica.answer("shop.test").0 >= 500);
    let (_pod, address) = scene.pod("pod");
    // From the answer to the write, so that the time of the test's own request does not count.
    scene.slice("shop", "shop-1", address);
    let written = Instant::now();
    replica.wait_for("shop.test", 200, "pod");
    // 100 ms are promised; a loaded machine with two cores may take longer.
    assert!(written.elapsed() < Duration::from_secs(2), "{:?}", written.elapsed());
}

#[test]
fn unready_pod_gets_no_traffic_and_others_keep_connections() {
    let Some(scene) = Scene::new_or_skip(ControlPlane::shared()) else { return };
    let replica = scene.replica(&["--workers=1"]);
    let steady = scene.serve("shop.test", "steady");
    replica.wait_for("shop.test", 200, "steady");
    let connections = steady.connections();
    let (_pod, address) = scene.pod("other");
    scene.slice("steady", "other-1", address);
    wait_until("the other Pod answers", || replica.answer("shop.test").1 == "other");
    let not_ready = json!({"endpoints": [{"addresses": [address.ip().to_string()], "conditions": {"ready": false}}]});
    scene.plane.patch("discovery.k8s.io/v1/endpointslices", &scene.namespace, "other-1", &not_ready);
    wait_until("only the steady Pod answers", || (0..8).all(|_| replica.answer("shop.test").1 == "steady"));
    assert_eq!(steady.connections(), connections, "the connection to the steady Pod is used again");
}

#[test]
fn a_service_without_endpoints_is_unavailable_until_it_has_one() {
    let Some(scene) = Scene::new_or_skip(ControlPlane::shared()) else { return };
    let replica = scene.replica(&[]);
    scene.service("one");
    scene.ingress("one", "shop.test", "one");
    replica.wait_for("shop.test", 503, "");
    let (_pod, at) = scene.pod("one");
    scene.slice("one", "one-1", at);
    replica.wait_for("shop.test", 200, "one");
    scene.remove_slice("one-1");
    replica.wait_for("shop.test", 503, "");
}
