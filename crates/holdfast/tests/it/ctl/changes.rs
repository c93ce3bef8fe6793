//! Weights, connections closed together, errors, and the live view.

use super::Scene;
use crate::support::{fetch, until};
use serde_json::Value;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use testkit::{Running, free_port};

#[test]
fn tunnels_of_a_location_are_closed_together() {
    let mut scene = Scene::new("worker_processes 2;");
    scene.instance.start();
    let tunnels: Vec<TcpStream> = (0..6).map(|_| scene.tunnel()).collect();
    let routes = scene.json(&["tunnels"]);
    assert!(routes["rows"].as_array().unwrap().iter().all(|row| row["route"] == "_ /websocket/"), "{routes}");
    assert_eq!(scene.json(&["tunnels", "--route", "/other/"])["matching"], 0);
    let refused = scene.refused(&["tunnels", "close-all"]);
    assert!(refused.contains("close-all needs --client, --state, --upstream or --route"), "{refused}");
    let upstream = scene.origins[0].address.to_string();
    assert_eq!(scene.text(&["tunnels", "--upstream", &upstream, "close-all"]), "3 connections closed\n");
    assert_eq!(scene.text(&["tunnels", "--route", "_ /websocket/", "close-all"]), "3 connections closed\n");
    for mut tunnel in tunnels {
        assert_eq!(tunnel.read(&mut [0; 100]).unwrap_or_default(), 0);
    }
    until("none is left", || scene.json(&["tunnels"])["matching"] == 0);
    let uid = nix::unistd::getuid();
    scene.instance.wait_for_line(&format!("ctl: tunnels --route _ /websocket/ close-all, asked by uid {uid}, pid "));
}

#[test]
fn tunnels_of_a_drained_peer_are_closed_one_by_one() {
    let mut scene = Scene::new("drain_rate 5;");
    scene.instance.start();
    let name = scene.origins[0].address.to_string();
    let mut tunnels: Vec<TcpStream> = (0..6).map(|_| scene.tunnel()).collect();
    scene.text(&["peers", "drain", "app", &name]);
    // The origins are in turn; a client that does not answer keeps its tunnel until `drain_timeout`.
    let mut leaving: Vec<TcpStream> = (0..3).map(|place| tunnels.remove(place)).collect();
    for tunnel in &mut leaving {
        let mut frame = [0; 4];
        tunnel.read_exact(&mut frame).unwrap();
        assert_eq!(frame, *b"\x88\x02\x03\xf4");
    }
    assert_eq!(scene.json(&["tunnels", "--state", "draining", "--upstream", &name])["matching"], 3);
    let status = scene.text(&["status"]);
    assert!(status.contains("6 tunnels (3 draining)"), "{status}");
    for tunnel in &mut leaving {
        tunnel.write_all(b"\x88\x82\0\0\0\0\x03\xf4").unwrap();
        assert_eq!(tunnel.read(&mut [0; 16]).unwrap(), 0);
    }
    until("three are left", || scene.json(&["tunnels"])["matching"] == 3);
    let connections = scene.json(&["status"])["serving"]["connections"].clone();
    assert_eq!((&connections["draining"], &connections["drained"]["drained_peer"]), (&0.into(), &3.into()));
    drop(tunnels);
}

#[test]
fn a_peer_gets_another_weight_until_it_is_given_back() {
    let mut scene = Scene::new("");
    scene.instance.start();
    let name = scene.origins[0].address.to_string();
    let ask = |count: u64| {
        let before = [scene.attempts(0), scene.attempts(1)];
        (0..count).for_each(|_| assert!(scene.fetch("/").starts_with("HTTP/1.1 200")));
        [scene.attempts(0) - before[0], scene.attempts(1) - before[1]]
    };
    assert_eq!(ask(6), [3, 3]);
    scene.text(&["peers", "weight", "app", &name, "3"]);
    assert_eq!(scene.peer(0)["weight"], 3);
    // The weight grows by one with each request.
    ask(4);
    assert_eq!(ask(12), [9, 3]);
    scene.text(&["peers", "weight", "app", &name, "default"]);
    ask(2);
    assert_eq!((ask(6), &scene.peer(0)["weight"]), ([3, 3], &Value::Null));
    assert_eq!(scene.command(&["peers", "weight", "app", &name, "0"]).output().unwrap().status.code(), Some(2));
    assert!(scene.refused(&["peers", "weight", "app", "127.0.0.1:1", "2"]).contains("no peer"));
}

#[test]
fn errors_are_shown_with_their_cause_and_followed() {
    let mut scene = Scene::new("");
    let dead = free_port();
    let port = free_port();
    scene.configure(
        "",
        &format!("server {{ listen 127.0.0.1:{port}; location / {{ proxy_pass http://127.0.0.1:{dead}; }} }}"),
    );
    scene.instance.start();
    assert!(fetch(port, "/first").unwrap().starts_with("HTTP/1.1 502"));
    until("the line is there", || scene.text(&["errors"]).contains("GET /first"));
    let shown = scene.text(&["errors", "-n", "1"]);
    assert!(shown.contains("connect() failed (111: Connection refused)") && shown.contains("\n    cause: "), "{shown}");
    let following = Running::start(&mut scene.command(&["errors", "--follow"]));
    assert!(following.wait_for_output("request: ").contains("GET /first"));
    assert!(fetch(port, "/second").unwrap().starts_with("HTTP/1.1 502"));
    assert!(following.wait_for_output("request: ").contains("GET /second"), "each line comes once");
    drop(following);
    // Without a terminal, `top` prints one screen after the other.
    let screens = scene.text(&["top", "-n", "2", "--interval", "100ms"]);
    assert_eq!(screens.matches("holdfast 0.").count(), 2, "{screens}");
    assert!(screens.contains("requests/s        0.0") && screens.contains("last errors\n"), "{screens}");
}
