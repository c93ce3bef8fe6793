//! The API server is away, or has forgotten what was.

use super::scene::{Scene, state_in, wait_until};
use testkit::kubernetes::ControlPlane;

#[test]
fn traffic_survives_an_api_server_outage() {
    let plane = ControlPlane::start();
    let Some(scene) = Scene::new_or_skip(&plane) else { return };
    let replica = scene.replica(&[]);
    let _one = scene.serve("shop.test", "one");
    replica.wait_for("shop.test", 200, "one");
    plane.stop_api_server();
    wait_until("it notices", || replica.figure("watch_failures_total") > 0);
    assert!(replica.is_ready());
    assert_eq!(replica.answer("shop.test"), (200, "one".to_owned()));
    plane.start_api_server();
    let _two = scene.serve("blog.test", "two");
    replica.wait_for("blog.test", 200, "two");
}

#[test]
fn restart_without_api_server_serves_the_last_state() {
    let plane = ControlPlane::start();
    let Some(scene) = Scene::new_or_skip(&plane) else { return };
    let folder = tempfile::tempdir().expect("a folder");
    let state = state_in(folder.path());
    let mut replica = scene.replica(&[&state]);
    let _one = scene.serve("shop.test", "one");
    replica.wait_for("shop.test", 200, "one");
    wait_until("the state is written", || {
        std::fs::read_to_string(folder.path().join("state.json"))
            .is_ok_and(|text| text.contains("shop.test") && text.contains("one-1"))
    });
    plane.stop_api_server();
    replica.signal(nix::sys::signal::Signal::SIGKILL);
    replica.wait();
    drop(replica);
    let replica = scene.replica(&[&state]);
    assert_eq!(replica.figure("complete"), 0);
    replica.wait_for("shop.test", 200, "one");
    plane.start_api_server();
    wait_until("all kinds are listed", || replica.figure("complete") == 1);
    let _two = scene.serve("blog.test", "two");
    replica.wait_for("blog.test", 200, "two");
    assert_eq!(replica.answer("shop.test"), (200, "one".to_owned()));
}

#[test]
fn without_a_state_it_waits_and_is_not_ready() {
    let plane = ControlPlane::start();
    let Some(scene) = Scene::new_or_skip(&plane) else { return };
    plane.stop_api_server();
    let replica = scene.start(&[]);
    wait_until("it tries", || replica.figure("watch_failures_total") > 0);
    assert!(replica.runs() && !replica.is_ready());
    plane.start_api_server();
    replica.wait_until_ready();
}

#[test]
fn an_expired_watch_is_followed_by_a_list() {
    let plane = ControlPlane::start();
    let Some(scene) = Scene::new_or_skip(&plane) else { return };
    let replica = scene.replica(&[]);
    let _one = scene.serve("shop.test", "one");
    replica.wait_for("shop.test", 200, "one");
    plane.stop_api_server();
    plane.start_api_server();
    // Other objects make the versions of the watches old; after the compaction they are gone.
    for _ in 0..20 {
        plane.create_namespace("other");
    }
    plane.compact_etcd();
    plane.stop_api_server();
    plane.start_api_server();
    wait_until("a watch has expired", || replica.figure("relists_total") > 0);
    let _two = scene.serve("blog.test", "two");
    replica.wait_for("blog.test", 200, "two");
    assert_eq!(replica.answer("shop.test"), (200, "one".to_owned()));
}
