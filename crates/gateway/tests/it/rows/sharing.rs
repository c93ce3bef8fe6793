//! One pool for the whole process: with as many connections as clients, all connections are reused, regardless of which
//! worker has the client. And contradictory limits are found at start.

use crate::site::{GET, HELLO, text};
use std::sync::Barrier;
use testkit::{Gateway, Peer};

/// Number of clients; each sends its next request when it has the answer to the last.
const CLIENTS: usize = 64;
/// Number of counted requests of each.
const COUNTED: usize = 40;

/// Connections that the peer has accepted when there were as many as clients, and at the end.
fn closed_loop(workers: u16) -> (usize, usize) {
    let together = Barrier::new(CLIENTS);
    let peer = Peer::script(move |mut talk| {
        while let Some(request) = talk.request() {
            if request.target() == "/together" {
                together.wait();
            }
            talk.send(HELLO);
        }
    });
    // `keepalive` counts per worker: 64 altogether.
    let keepalive = format!("keepalive {};", CLIENTS / usize::from(workers));
    let conf = text(1, "", "").replace("keepalive 4;", &keepalive).replace("connections 64;", "connections 512;");
    let gateway = Gateway::start_workers(workers, &conf, &[peer.address()]);
    let warm = Barrier::new(CLIENTS + 1);
    let connections = std::thread::scope(|scope| {
        for _ in 0..CLIENTS {
            scope.spawn(|| {
                let mut client = gateway.client();
                let mut ask = |request: &str| {
                    client.send(request);
                    assert_eq!(client.response().text(), "hello");
                };
                ask("GET /together HTTP/1.1\r\nHost: a\r\n\r\n");
                warm.wait();
                warm.wait();
                (0..COUNTED).for_each(|_| ask(GET));
            });
        }
        warm.wait();
        let connections = peer.connections();
        warm.wait();
        connections
    });
    (connections, peer.connections())
}

#[test]
fn p00_pool_of_64_serves_64_clients_with_any_worker_count() {
    for workers in [2, 8, 32] {
        let (warm, all) = closed_loop(workers);
        assert_eq!(warm, CLIENTS, "{workers} workers");
        // 99.9 % of the requests use an existing connection.
        let allowed = CLIENTS * COUNTED / 1000;
        assert!(all - warm <= allowed, "{} of {} not reused, {workers} workers", all - warm, CLIENTS * COUNTED);
    }
}

/// The output of `-t` for a group with these directives.
fn group(words: &str) {
    let conf = text(1, words, "").replace("keepalive 4;", "");
    drop(Gateway::start(&conf, &[([127, 0, 0, 1], 9).into()]));
}

#[test]
#[should_panic(expected = "per_peer=200 is above the group's 100 idle connections and has no effect")]
fn an_idle_limit_per_peer_above_that_of_the_group_is_refused() {
    group("keepalive 100 per_peer=200;");
}

#[test]
#[should_panic(expected = "connecting=60 is above max_connections 50 and has no effect")]
fn more_connects_than_connections_are_refused() {
    group("keepalive 50; max_connections 50 connecting=60;");
}

#[test]
fn limits_that_fit_are_not_spoken_of() {
    group("keepalive 50 per_peer=50; max_connections 50 connecting=50 queue=10 timeout=1s;");
}

/// The warnings about a group's directives, with two workers.
fn warned(words: &str) -> Vec<String> {
    let conf = text(1, words, "").replace("keepalive 4;", "");
    Gateway::start_workers(2, &conf, &[([127, 0, 0, 1], 9).into()]).warnings()
}

#[test]
fn pool_beyond_its_limit_is_warned_with_numbers() {
    for (words, expected) in [
        (
            "keepalive 50; max_connections 60;",
            &["upstream \"peers\": keepalive permits 100 idle connections, max_connections only 60 altogether"][..],
        ),
        (
            "keepalive 16; max_connections 60;",
            &[
                "upstream \"peers\": keepalive keeps 32 of up to 60 connections: under load the others are closed after each \
               exchange",
            ],
        ),
        (
            "keepalive 16 local; max_connections 60;",
            &[
                "upstream \"peers\": keepalive keeps 32 of up to 60 connections: under load the others are closed after each \
               exchange",
            ],
        ),
        ("keepalive 30; max_connections 60;", &[]),
        // The default was not written, so there is no warning about it.
        ("max_connections 10;", &[]),
        ("keepalive 0; max_connections 10;", &[]),
    ] {
        assert_eq!(warned(words), expected, "{words}");
    }
}

#[test]
fn floor_beyond_the_pool_is_warned_with_numbers() {
    let conf = text(3, "", "").replace("keepalive 4;", "keepalive 2 floor=2;");
    let peers = [([127, 0, 0, 1], 7).into(), ([127, 0, 0, 1], 8).into(), ([127, 0, 0, 1], 9).into()];
    assert_eq!(
        Gateway::start_workers(2, &conf, &peers).warnings(),
        ["upstream \"peers\": floor=2 for 3 peers is 6 connections, and keepalive keeps 4"]
    );
    assert_eq!(warned("keepalive 2 floor=2;"), Vec::<String>::new());
}
