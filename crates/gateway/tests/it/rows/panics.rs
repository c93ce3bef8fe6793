//! X7: a panic in one connection.
#![cfg(debug_assertions)] // releases have no place to make one

use crate::site::{GET, HELLO, Site, text};
use gateway::{CloseReason, Fault};
use std::sync::mpsc::channel;
use testkit::{DEADLINE, Gateway, Peer, Signal};

const UPGRADE: &str = "GET /ws HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: x\r\n\r\n";
const SWITCHING: &str = "HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\n";
const PASS: &str = "proxy_set_header Upgrade $http_upgrade; proxy_set_header Connection upgrade;";

/// Answers an upgrade with 101 and then echoes; other requests get a body in two parts, the second after the signal.
fn peer(go_on: &Signal) -> Peer {
    let go_on = go_on.clone();
    Peer::script(move |mut talk| {
        while let Some(request) = talk.request() {
            if request.value("Upgrade").is_some() {
                talk.send(SWITCHING);
                while let Some(bytes) = talk.whatever_came() {
                    talk.send(bytes);
                }
                return;
            }
            talk.send("HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhello");
            talk.wait(&go_on);
            talk.send("again");
        }
    })
}

#[test]
fn x07_panic_in_a_body_ends_only_its_connection() {
    let go_on = Signal::new();
    let mut site = Site::with(peer(&go_on), PASS);
    site.gateway.expect_bugs();
    let shared = site.gateway.shared();
    // An exchange in the middle of its body, a tunnel, an idle connection.
    let (mut busy, mut tunnel, mut idle) = (site.client(), site.client(), site.client());
    busy.send(GET);
    assert_eq!(busy.head().unwrap().status(), 200);
    busy.expect("hello");
    tunnel.send(UPGRADE);
    assert_eq!(tunnel.response().status(), 101);
    idle.send("GET /alive HTTP/1.1\r\nHost: a\r\n\r\n");
    assert_eq!(idle.response().text(), "alive");
    // The fourth one panics while it holds an upstream connection.
    shared.panic_once_at(Fault::Relay);
    let mut victim = site.client();
    victim.send(GET);
    let (cut, _) = victim.rest();
    assert!(!cut.ends_with(b"again"), "{}", cut.escape_ascii());
    let line = site.gateway.logged("bug in holdfast");
    assert!(line.contains(" [alert] ") && line.contains("the fault Relay"), "{line}");
    site.gateway.until_totals("three are left", |totals| (totals.active, totals.writing, totals.waiting) == (3, 2, 1));
    assert_eq!((shared.overload().bugs, shared.closed(CloseReason::Bug)), (1, 1));
    // The other clients are not affected.
    go_on.raise();
    busy.expect("again");
    tunnel.send("ping");
    tunnel.expect("ping");
    idle.send("GET /alive HTTP/1.1\r\nHost: a\r\n\r\n");
    assert_eq!(idle.response().text(), "alive");
    assert_eq!(site.ask(GET).text(), "helloagain");
}

#[test]
fn x07_panic_in_a_tunnel_ends_only_its_sides() {
    let site_peer = peer(&Signal::new());
    let mut site = Site::with(site_peer, PASS);
    site.gateway.expect_bugs();
    let mut tunnels: Vec<_> = (0..2).map(|_| site.client()).collect();
    for tunnel in &mut tunnels {
        tunnel.send(UPGRADE);
        assert_eq!(tunnel.response().status(), 101);
        tunnel.send("ping");
        tunnel.expect("ping");
    }
    site.gateway.shared().panic_once_at(Fault::Tunnel);
    tunnels[0].send("one");
    tunnels[0].rest();
    site.gateway.logged("bug in holdfast");
    site.gateway.until_totals("one is left", |totals| (totals.active, totals.writing) == (1, 1));
    tunnels[1].send("two");
    tunnels[1].expect("two");
}

#[test]
fn x07_a_panic_while_a_head_is_read() {
    let mut site = Site::of(Peer::saying(HELLO));
    site.gateway.expect_bugs();
    let mut half = site.client();
    half.send("GET / HTTP/1.1\r\nHo");
    site.gateway.until_totals("a part of a head", |totals| totals.reading == 1);
    site.gateway.shared().panic_once_at(Fault::Head);
    half.send("st: a\r\n\r\n");
    half.rest();
    site.gateway.until_totals("no client", |totals| (totals.active, totals.reading, totals.writing) == (0, 0, 0));
    assert_eq!(site.ask(GET).text(), "hello");
}

#[test]
fn x07_panic_in_background_work_ends_only_that_work() {
    let (opened, seen) = channel();
    let close = Signal::new();
    let peer = Peer::script({
        let close = close.clone();
        move |mut talk| {
            let _ = opened.send(talk.serial());
            // Only the first connection is closed, on the signal.
            if talk.serial() == 0 {
                talk.wait(&close);
            } else if talk.request().is_some() {
                talk.send(HELLO);
            }
        }
    });
    let conf = text(1, "", "").replace("keepalive 4;", "keepalive 4 floor=1;");
    let mut gateway = Gateway::start(&conf, &[peer.address()]);
    gateway.expect_bugs();
    let next = || seen.recv_timeout(DEADLINE).expect("a connection for the floor");
    assert_eq!(next(), 0);
    let mut idle = gateway.client();
    idle.send("GET /alive HTTP/1.1\r\nHost: a\r\n\r\n");
    assert_eq!(idle.response().text(), "alive");
    gateway.shared().panic_once_at(Fault::Opening);
    close.raise();
    // The second one is opened, panics, and is closed; the third replaces it.
    assert_eq!((next(), next()), (1, 2));
    let line = gateway.logged("bug in holdfast");
    assert!(line.contains("the fault Opening") && !line.contains("connection *"), "{line}");
    let (shared, totals) = (gateway.shared(), gateway.shared().totals());
    assert_eq!((shared.overload().bugs, shared.closed(CloseReason::Bug), totals.active), (1, 0, 1));
    idle.send(GET);
    assert_eq!(idle.response().text(), "hello");
}
