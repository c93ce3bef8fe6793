//! `limit_rate` and `proxy_limit_rate`: responses take at least the time that their rate implies, arrive complete, and
//! delay only slow clients. The deadline of every conversation is the only upper bound.
#![allow(clippy::unwrap_used)] // a failed step of a test is its end

use crate::scene::Gateway;
use std::time::{Duration, Instant};
use testkit::{Peer, Response, Talk};

/// The first 20,000 bytes of a response are sent at once, and the rest takes half a second.
const RATE: &str = "20000";
const BYTES: usize = 30_000;
const TAKES: Duration = Duration::from_millis(450);

fn body(count: usize) -> Vec<u8> {
    (0..count).map(|at| (at % 251) as u8).collect()
}

/// A peer that answers with these fields and the body.
fn peer(fields: &str) -> Peer {
    let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {BYTES}\r\n{fields}\r\n");
    Peer::saying([head.as_bytes(), &body(BYTES)].concat())
}

fn asks(client: &mut Talk, target: &str) -> (Response, Duration) {
    let began = Instant::now();
    client.send(format!("GET {target} HTTP/1.1\r\nHost: a\r\n\r\n"));
    let response = client.response();
    (response, began.elapsed())
}

/// A gateway with these locations in its `server {}`, `/free/`, and files of both sizes.
fn gateway(locations: &str, peer: &Peer) -> testkit::Gateway {
    let text = format!(
        "events {{}} http {{ log_format rate \"$status $limit_rate\"; access_log access.log rate; default_type a/b; \
         server {{ listen {{listen}}; location /free/ {{ return 200 free; }} {locations} }} }}"
    );
    let gateway = testkit::Gateway::start(&text, &[peer.address()]);
    std::fs::create_dir(gateway.prefix().join("html")).unwrap();
    std::fs::write(gateway.prefix().join("html/data"), body(BYTES)).unwrap();
    gateway
}

#[test]
fn each_kind_of_response_goes_at_the_rate() {
    let peer = peer("");
    let locations = format!(
        "limit_rate {RATE}; location /read/ {{ alias html/; }} location /sendfile/ {{ sendfile on; alias html/; }} \
         location /proxied/ {{ proxy_pass http://{{upstream:0}}; }} \
         location /chunked/ {{ add_trailer X-T t; alias html/; }}"
    );
    let gateway = gateway(&locations, &peer);
    std::thread::scope(|scope| {
        for target in ["/read/data", "/sendfile/data", "/proxied/", "/chunked/data"] {
            let gateway = &gateway;
            scope.spawn(move || {
                let mut client = gateway.client();
                let (response, took) = asks(&mut client, target);
                assert!(response.body == body(BYTES), "{target}: {} bytes", response.body.len());
                assert!(took >= TAKES, "{target} took {took:?}");
                // The next response on the connection starts with its own first second.
                assert_eq!(asks(&mut client, "/free/").0.text(), "free");
            });
        }
    });
    assert!(gateway.access_lines(8).iter().all(|line| line == "200 20000"));
}

#[test]
fn a_response_that_ends_before_the_limit_is_not_slowed() {
    let peer = peer("");
    // At one byte a second none of this would end in time.
    let gateway = gateway("limit_rate 1; limit_rate_after 100k; location / { root html; }", &peer);
    let mut client = gateway.client();
    assert_eq!(asks(&mut client, "/data").0.body.len(), BYTES);
}

#[test]
fn the_rate_may_depend_on_the_request() {
    let peer = peer("");
    let gateway = gateway("location / { limit_rate $arg_rate; root html; }", &peer);
    let mut client = gateway.client();
    let asked = [("/data", "200 0"), ("/data?rate=20k", "200 20480"), ("/data?rate=20x", "200 0")];
    for (at, (target, line)) in asked.into_iter().enumerate() {
        let (response, took) = asks(&mut client, target);
        assert_eq!(response.body.len(), BYTES);
        assert!(took >= TAKES || line == "200 0", "{target} took {took:?}");
        assert_eq!(gateway.access_lines(at + 1).last().unwrap(), line);
    }
    gateway.logged("invalid size \"20x\"");
}

#[test]
fn upstream_may_set_the_rate() {
    let peer = peer(&format!("X-Accel-Limit-Rate: {RATE}\r\n"));
    let locations = "limit_rate 1; location /said/ { proxy_pass http://{upstream:0}; }";
    let gateway = gateway(locations, &peer);
    let mut client = gateway.client();
    let (response, took) = asks(&mut client, "/said/");
    assert_eq!((response.body.len(), response.value("X-Accel-Limit-Rate")), (BYTES, None));
    assert!(took >= TAKES, "{took:?}");
    assert_eq!(gateway.access_lines(1), ["200 20000"]);
}

#[test]
fn an_upstream_is_read_at_its_rate() {
    let peer = peer("");
    let locations = format!(
        "proxy_limit_rate {RATE}; location / {{ proxy_pass http://{{upstream:0}}; }} \
         location /unbuffered/ {{ proxy_buffering off; proxy_limit_rate 1; proxy_pass http://{{upstream:0}}; }}"
    );
    let gateway = gateway(&locations, &peer);
    let mut client = gateway.client();
    let (response, took) = asks(&mut client, "/");
    assert!(response.body == body(BYTES) && took >= TAKES, "{} bytes in {took:?}", response.body.len());
    assert_eq!(asks(&mut client, "/unbuffered/").0.body.len(), BYTES, "it holds with buffering only");
}

#[test]
fn a_pause_is_no_time_without_progress() {
    let peer = peer("");
    // Each pause is a second, and the peer has more than half a second to answer.
    let locations = "send_timeout 100ms; proxy_read_timeout 700ms; \
        location /file/ { limit_rate 10k; alias html/; } \
        location /proxied/ { limit_rate 10k; proxy_pass http://{upstream:0}; } \
        location /read/ { proxy_limit_rate 10k; proxy_pass http://{upstream:0}; }";
    let gateway = gateway(locations, &peer);
    std::thread::scope(|scope| {
        for target in ["/file/data", "/proxied/", "/read/"] {
            let gateway = &gateway;
            scope.spawn(move || assert_eq!(asks(&mut gateway.client(), target).0.body.len(), BYTES, "{target}"));
        }
    });
}

#[test]
fn a_client_that_leaves_during_a_pause_is_noticed() {
    let peer = peer("");
    let gateway = gateway("location / { limit_rate 1000; root html; }", &peer);
    let mut client = gateway.client();
    client.send("GET /data HTTP/1.1\r\nHost: a\r\n\r\n");
    client.read(500);
    client.reset();
    gateway.until_totals("no client is left", |totals| totals.active == 0);
}

#[test]
fn other_responses_of_the_worker_do_not_wait() {
    let server = "limit_rate 1; location /slow { root html; } location /quick { limit_rate 0; return 200 quick; }";
    let gateway = Gateway::start(server, "");
    gateway.write("html/slow", body(BYTES));
    let mut slow = gateway.connect();
    slow.send("GET /slow HTTP/1.1\r\nHost: a\r\n\r\n");
    for _ in 0..20 {
        assert_eq!(gateway.get("/quick").text(), "quick");
    }
}
