//! `keepalive … floor=`: connections exist before the first request, are replaced when the peer closes them, and are
//! not forced on a peer that refuses.

use crate::site::{GET, HELLO, text};
use std::sync::mpsc::channel;
use testkit::{DEADLINE, Gateway, Peer, until};

fn floor_of(count: usize) -> String {
    text(1, "", "").replace("keepalive 4;", &format!("keepalive 8 floor={count};"))
}

#[test]
fn floor_is_open_before_the_first_request() {
    let peer = Peer::saying(HELLO);
    let gateway = Gateway::start_workers(2, &floor_of(3), &[peer.address()]);
    // The peer accepts them before the gateway has them in its pool.
    until("the floor", || gateway.shared().pool_rows().iter().any(|row| row.idle == 3).then_some(()));
    let mut client = gateway.client();
    for _ in 0..4 {
        client.send(GET);
        assert_eq!(client.response().text(), "hello");
    }
    assert_eq!(peer.connections(), 3, "nothing was opened for the requests");
    assert!(gateway.access_lines(4)[0].contains("reused=1"));
}

#[test]
fn group_named_by_a_variable_has_its_floor() {
    let peer = Peer::saying(HELLO);
    let conf = floor_of(3).replace("proxy_pass http://peers", "set $group peers; proxy_pass http://$group");
    let gateway = Gateway::start_workers(2, &conf, &[peer.address()]);
    // The peer accepts them before the gateway has them in its pool.
    until("the floor", || gateway.shared().pool_rows().iter().any(|row| row.idle == 3).then_some(()));
    let mut client = gateway.client();
    client.send(GET);
    assert_eq!(client.response().text(), "hello");
    assert_eq!(peer.connections(), 3);
}

#[test]
fn a_floor_is_filled_again_when_the_peer_closes() {
    let (opened, seen) = channel();
    let peer = Peer::script(move |mut talk| {
        let _ = opened.send(talk.serial());
        // The first two are closed at once, the others are kept.
        if talk.serial() >= 2 {
            talk.request();
        }
    });
    let gateway = Gateway::start(&floor_of(2), &[peer.address()]);
    for _ in 0..4 {
        seen.recv_timeout(DEADLINE).expect("a connection in the place of one that was closed");
    }
    assert_eq!(gateway.error_log(), "");
}

#[test]
fn peer_closing_spare_connections_is_backed_off() {
    let (opened, seen) = channel();
    let peer = Peer::script(move |mut talk| {
        let _ = opened.send(std::time::Instant::now());
        talk.close();
    });
    let gateway = Gateway::start(&floor_of(1), &[peer.address()]);
    let times: Vec<_> = (0..3).map(|_| seen.recv_timeout(DEADLINE).unwrap()).collect();
    // One second, then two: lower bounds, which no load of the machine can break.
    assert!(times[1] - times[0] >= std::time::Duration::from_millis(900), "{times:?}");
    assert!(times[2] - times[1] >= std::time::Duration::from_millis(1900), "{times:?}");
    drop(gateway);
}
