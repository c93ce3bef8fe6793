//! `limit_req` and `limit_conn` where a comparison with nginx is impossible: delays, tunnels, workers, reloads, full
//! zones, log lines.
#![allow(clippy::unwrap_used)] // a failed step of a test is its end

use crate::scene::Gateway;
use std::time::{Duration, Instant};
use testkit::{Peer, Signal};

const SWITCHING: &str = "HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n";
const UPGRADE: &str = "GET /ws/ HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n";

/// A `server {}` of a gateway with several workers.
fn several_workers(http: &str, server: &str, peer: &Peer) -> testkit::Gateway {
    let text = text(http, server);
    testkit::Gateway::start_workers(3, &text, &[peer.address()])
}

fn text(http: &str, server: &str) -> String {
    format!("events {{}} http {{ access_log off; {http} server {{ listen {{listen}}; {server} }} }}")
}

fn get(gateway: &testkit::Gateway, target: &str) -> u16 {
    let mut client = gateway.client();
    client.send(format!("GET {target} HTTP/1.1\r\nHost: a\r\n\r\n"));
    client.response().status()
}

#[test]
fn a_request_above_the_rate_waits_for_its_turn() {
    let gateway = Gateway::start(
        "location / { limit_req zone=all burst=5; limit_req_log_level warn; root html; }",
        "limit_req_zone $server_port zone=all:1m rate=5r/s;",
    );
    gateway.write("html/x", "x");
    let began = Instant::now();
    let statuses: Vec<u16> = (0..3).map(|_| gateway.get("/x").status()).collect();
    assert_eq!(statuses, [200; 3]);
    assert!(began.elapsed() >= Duration::from_millis(380), "two delays of 200 ms, one after the other");
    gateway.expect_error("[notice]");
    gateway.expect_error("delaying request, excess: ");
    assert!(gateway.errors().contains(", by zone \"all\", client: 127.0.0.1, server: , request: \"GET /x HTTP/1.1\""));
}

#[test]
fn client_leaving_during_a_delay_is_dropped() {
    let http = "log_format status $status/$limit_req_status; limit_req_zone $server_port zone=all:1m rate=1r/m;";
    let server = "location / { access_log access.log status; limit_req zone=all burst=5; root html; }";
    let gateway = testkit::Gateway::start(&text(http, server), &[]);
    assert_eq!(get(&gateway, "/x"), 404);
    let mut client = gateway.client();
    client.send("GET /x HTTP/1.1\r\nHost: a\r\n\r\n");
    gateway.logged("delaying request");
    client.reset();
    assert_eq!(gateway.access_lines(2)[1], "499/DELAYED");
    gateway.until_totals("no client is left", |totals| totals.active == 0);
}

#[test]
fn logs_refusals_in_the_words_of_nginx() {
    let gateway = Gateway::start(
        "location /r { limit_req zone=all; limit_req_log_level info; root html; } \
         location /dry { limit_req zone=all; limit_req_dry_run on; root html; }",
        "error_log e.log info; limit_req_zone $server_port zone=all:1m rate=1r/m;",
    );
    assert_eq!((gateway.get("/r").status(), gateway.get("/r").status(), gateway.get("/dry").status()), (404, 503, 404));
    gateway.expect_error("limiting requests, dry run, excess: ");
    let errors = gateway.errors();
    let line = errors.lines().find(|line| line.contains("limiting requests, excess: ")).unwrap();
    assert!(line.contains("[info]") && line.contains(" by zone \"all\", client: 127.0.0.1"), "{line}");
}

#[test]
fn a_tunnel_counts_as_long_as_it_lasts() {
    let ended = Signal::new();
    let peer = Peer::script({
        let ended = ended.clone();
        move |mut talk| {
            if talk.request().is_some() {
                talk.send(SWITCHING);
                talk.end();
                ended.raise();
            }
        }
    });
    let http = "log_format status $status/$limit_conn_status; limit_conn_zone $server_port zone=all:1m;";
    let server = "location /ws/ { access_log access.log status; limit_conn all 1; limit_conn_status 429; proxy_pass http://{upstream:0}; \
        proxy_set_header Upgrade $http_upgrade; proxy_set_header Connection upgrade; } \
        location / { limit_conn all 1; limit_conn_log_level warn; root html; }";
    let gateway = several_workers(http, server, &peer);
    let mut client = gateway.client();
    client.send(UPGRADE);
    assert_eq!(client.response().status(), 101);
    assert_eq!((get(&gateway, "/ws/"), get(&gateway, "/")), (429, 503), "whichever worker is asked");
    for level in ["[error]", "[warn]"] {
        let said = |line: &str| {
            line.contains(level) && line.contains("limiting connections by zone \"all\", client: 127.0.0.1")
        };
        testkit::until(level, || gateway.error_log().lines().any(said).then_some(()));
    }
    client.close();
    ended.wait();
    // Each worker has its own buffer of lines.
    let mut lines = gateway.access_lines(2);
    lines.sort();
    assert_eq!(lines, ["101/PASSED", "429/REJECTED"]);
    testkit::until("the place is free", || (get(&gateway, "/") != 503).then_some(()));
}

#[test]
fn zone_is_shared_by_workers_and_survives_a_reload() {
    let peer = Peer::saying("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok");
    let zone = |rate: &str| format!("limit_req_zone $server_port zone=all:4m rate={rate};");
    let server = "location / { limit_req zone=all burst=3 nodelay; proxy_pass http://{upstream:0}; }";
    let mut gateway = several_workers(&zone("1r/m"), server, &peer);
    let clients: Vec<_> = (0..6).map(|_| gateway.client()).collect();
    let mut statuses: Vec<u16> = Vec::new();
    for mut client in clients {
        client.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
        statuses.push(client.response().status());
    }
    assert_eq!(statuses, [200, 200, 200, 200, 503, 503]);
    gateway.reload(&text(&zone("2r/m"), server));
    assert_eq!(get(&gateway, "/"), 503, "what was counted is kept");
    gateway.reload(&text(&zone("1000000r/s"), server));
    testkit::until("the new rate holds", || (get(&gateway, "/") == 200).then_some(()));
}

#[test]
#[should_panic(expected = "uses the \"$host\" key while previously it used the \"$server_port\" key")]
fn a_zone_keeps_its_key() {
    let server = "location / { limit_req zone=all; root html; }";
    let mut gateway = testkit::Gateway::start(&text("limit_req_zone $server_port zone=all:1m rate=1r/s;", server), &[]);
    gateway.reload(&text("limit_req_zone $host zone=all:1m rate=1r/s;", server));
}

#[test]
fn a_full_zone_refuses_connections_and_forgets_old_requests() {
    let (arrived, release) = (Signal::new(), Signal::new());
    let peer = Peer::script({
        let (arrived, release) = (arrived.clone(), release.clone());
        move |mut talk| {
            while talk.request().is_some() {
                arrived.raise();
                talk.wait(&release);
                talk.send("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
            }
        }
    });
    // 32 KB hold a few hundred keys of 100 bytes.
    let http = "limit_conn_zone $arg_k zone=conn:32k; limit_req_zone $arg_k zone=req:32k rate=1r/m;";
    let server = "location /c { limit_conn conn 1; proxy_pass http://{upstream:0}; } \
        location /r { limit_req zone=req; root html; }";
    let gateway = testkit::Gateway::start(&text(http, server), &[peer.address()]);
    let ask = |place: &str, key: usize| format!("GET {place}?k={key:0100} HTTP/1.1\r\nHost: a\r\n\r\n");
    let mut waiting = Vec::new();
    let refused = (0..400).find(|key| {
        let mut client = gateway.client();
        client.send(ask("/c", *key));
        // A refusal comes at once; an accepted request reaches the peer, which delays its answer.
        let refused = testkit::until("refused or let in", || {
            let came = gateway.error_log().contains("limit_conn_zone \"conn\": it is exhausted");
            (came || peer.requests().len() > *key).then_some(came)
        });
        waiting.push(client);
        refused
    });
    assert!(refused.is_some_and(|at| at > 100), "{refused:?}");
    assert_eq!(waiting.pop().unwrap().response().status(), 503);
    release.raise();
    for client in &mut waiting {
        assert_eq!(client.response().status(), 200);
    }
    let mut client = gateway.client();
    let mut status = |key: usize| {
        client.send(ask("/r", key));
        client.response().status()
    };
    assert!((0..400).all(|key| status(key) == 404), "each key is new, and the oldest make room");
    assert_eq!((status(399), status(0)), (503, 404));
}
