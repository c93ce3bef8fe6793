//! U1–U12: failures before a response has begun, and what is tried after them. The first peer of a group is chosen
//! first, so the tests make it fail.

use crate::site::{GET, HELLO, is_alive, post, text};
use std::net::SocketAddr;
use std::time::{Duration, Instant};
use testkit::{Deaf, Gateway, Peer, Refusing, Response, Talk, until};

/// The faulty behaviour of a first peer.
type Fault = fn(Talk);

/// FIN before any byte of the head.
fn fin_before_the_head(mut talk: Talk) {
    talk.request();
    talk.close();
}

/// RST before any byte of the head.
fn rst_before_the_head(mut talk: Talk) {
    talk.request();
    talk.reset();
}

/// FIN in the middle of the head.
fn fin_inside_the_head(mut talk: Talk) {
    talk.request();
    talk.send("HTTP/1.1 200 OK\r\nContent-");
    talk.close();
}

/// No answer until the gateway gives up.
fn silence(mut talk: Talk) {
    talk.request();
    assert!(talk.request().is_none());
}

fn nonsense(mut talk: Talk) {
    talk.request();
    talk.send("SSH-2.0-OpenSSH_9.6\r\n");
}

fn unavailable(mut talk: Talk) {
    while talk.request().is_some() {
        talk.send("HTTP/1.1 503 Service Unavailable\r\nContent-Length: 4\r\n\r\nbusy");
    }
}

/// Timeout for the first peer: long enough for the second one to answer on a busy machine.
const FOR_THE_SECOND: &str = "proxy_read_timeout 2s;";

fn post_body() -> String {
    post("Content-Length: 5\r\n") + "world"
}

/// One request to a group with a faulty first peer and a healthy second one.
struct Outcome {
    response: Response,
    /// Requests read by the first and the second peer.
    asked: (usize, usize),
    gateway: Gateway,
}

fn ask(fault: Fault, location: &str, request: &str) -> Outcome {
    let (first, second) = (Peer::script(fault), Peer::saying(HELLO));
    let gateway = Gateway::start(&text(2, "", location), &[first.address(), second.address()]);
    let mut client = gateway.client();
    client.send(request);
    let response = client.response();
    // The client is not affected: its connection serves the next request.
    client.send("GET /alive HTTP/1.1\r\nHost: a\r\n\r\n");
    assert_eq!(client.response().text(), "alive");
    is_alive(&gateway);
    for (_, request) in second.requests() {
        assert!(request.method() != "POST" || request.text() == "world", "sent again in part: {request:?}");
    }
    // A short timeout may pass before the first peer, which is always asked, has recorded its request.
    until("the first peer was asked", || (!first.requests().is_empty()).then_some(()));
    Outcome { response, asked: (first.requests().len(), second.requests().len()), gateway }
}

/// The first peer is unreachable in such a way that it cannot have received any byte of the request.
fn ask_unreachable(first: SocketAddr, location: &str, request: &str) -> (Response, Gateway) {
    let second = Peer::saying(HELLO);
    let gateway = Gateway::start(&text(2, "", location), &[first, second.address()]);
    let mut client = gateway.client();
    client.send(request);
    let response = client.response();
    assert_eq!(second.requests().len(), usize::from(response.status() == 200));
    (response, gateway)
}

#[track_caller]
fn next_peer(fault: Fault, location: &str, request: &str, phrase: &str) {
    let outcome = ask(fault, location, request);
    assert_eq!((outcome.response.text(), outcome.asked), ("hello".into(), (1, 1)));
    let line = outcome.gateway.logged(phrase);
    assert!(line.contains("upstream: \"http://127.0.0.1:"), "{line}");
}

#[track_caller]
fn one_attempt(fault: Fault, location: &str, request: &str, status: u16, phrase: &str) {
    let outcome = ask(fault, location, request);
    assert_eq!((outcome.response.status(), outcome.asked), (status, (1, 0)));
    outcome.gateway.logged(phrase);
}

#[test]
fn u01_refused_goes_to_the_next_peer_whatever_the_method() {
    for request in [GET, &post_body()] {
        let refusing = Refusing::new();
        let (response, gateway) = ask_unreachable(refusing.address(), "", request);
        assert_eq!(response.text(), "hello");
        gateway.logged("connect() failed (111: Connection refused) while connecting to upstream");
        let lines = gateway.access_lines(1);
        assert!(lines[0].contains("tries=502, 200"), "{lines:?}");
    }
}

#[test]
fn u01_refused_by_the_only_peer_is_502() {
    let refusing = Refusing::new();
    let gateway = Gateway::start(&text(1, "", ""), &[refusing.address()]);
    for _ in 0..3 {
        let mut client = gateway.client();
        client.send(GET);
        assert_eq!(client.response().status(), 502);
    }
    gateway.logged("connect() failed (111: Connection refused) while connecting to upstream");
    assert!(!gateway.error_log().contains("no live upstreams"), "a group of one is never disabled");
}

#[test]
fn u02_connect_timeout_tries_the_next_peer_for_any_method() {
    for request in [GET, &post_body()] {
        let deaf = Deaf::new();
        let (response, gateway) = ask_unreachable(deaf.address(), "proxy_connect_timeout 100ms;", request);
        assert_eq!(response.text(), "hello");
        gateway.logged("upstream timed out (110: Connection timed out) while connecting to upstream");
    }
}

#[test]
fn u02_connect_timeout_of_the_only_peer_is_504() {
    let deaf = Deaf::new();
    let gateway = Gateway::start(&text(1, "", "proxy_connect_timeout 100ms;"), &[deaf.address()]);
    let mut client = gateway.client();
    client.send(GET);
    assert_eq!(client.response().status(), 504);
}

#[test]
fn u03_fin_before_the_head() {
    let phrase = "upstream prematurely closed connection while reading response header from upstream";
    next_peer(fin_before_the_head, "", GET, phrase);
    one_attempt(fin_before_the_head, "", &post_body(), 502, phrase);
}

#[test]
fn u03_rst_before_the_head() {
    let phrase = "(104: Connection reset by peer) while reading response header from upstream";
    next_peer(rst_before_the_head, "", GET, phrase);
    one_attempt(rst_before_the_head, "", &post_body(), 502, phrase);
}

#[test]
fn u03_methods_that_are_not_idempotent() {
    for method in ["POST", "PATCH", "LOCK", "UNHEARD-OF"] {
        let request = format!("{method} / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nworld");
        one_attempt(fin_before_the_head, "", &request, 502, "upstream prematurely closed connection");
    }
    for method in ["PUT", "DELETE", "PROPFIND"] {
        let request = format!("{method} / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nworld");
        next_peer(fin_before_the_head, "", &request, "upstream prematurely closed connection");
    }
}

#[test]
fn u04_fin_inside_the_head() {
    let phrase = "upstream prematurely closed connection while reading response header from upstream";
    next_peer(fin_inside_the_head, "", GET, phrase);
    one_attempt(fin_inside_the_head, "", &post_body(), 502, phrase);
}

#[test]
fn u05_read_timeout() {
    let phrase = "upstream timed out (110: Connection timed out) while reading response header from upstream";
    next_peer(silence, FOR_THE_SECOND, GET, phrase);
    one_attempt(silence, "proxy_read_timeout 100ms;", &post_body(), 504, phrase);
}

#[test]
fn u06_invalid_header_only_if_listed() {
    let phrase = "upstream sent no valid HTTP/1.0 header";
    one_attempt(nonsense, "", GET, 502, phrase);
    next_peer(nonsense, "proxy_next_upstream invalid_header;", GET, phrase);
    one_attempt(nonsense, "proxy_next_upstream invalid_header;", &post_body(), 502, phrase);
    next_peer(nonsense, "proxy_next_upstream invalid_header non_idempotent;", &post_body(), phrase);
}

#[test]
fn u07_a_status_only_if_listed_and_served_otherwise() {
    for (location, request) in [
        ("", GET),
        ("proxy_next_upstream http_500;", GET),
        ("proxy_next_upstream http_503;", &post_body()),
        ("proxy_next_upstream http_503; proxy_next_upstream_tries 1;", GET),
    ] {
        let outcome = ask(unavailable, location, request);
        assert_eq!((outcome.response.status(), outcome.response.text()), (503, "busy".into()), "{location}");
        assert_eq!(outcome.asked, (1, 0));
    }
    for (location, request) in
        [("proxy_next_upstream http_503;", GET), ("proxy_next_upstream http_503 non_idempotent;", &post_body())]
    {
        let outcome = ask(unavailable, location, request);
        assert_eq!((outcome.response.text(), outcome.asked), ("hello".into(), (1, 1)), "{location}");
        let lines = outcome.gateway.access_lines(1);
        assert!(lines[0].contains("tries=503, 200"), "{lines:?}");
    }
}

#[test]
fn u08_a_response_that_began_is_never_tried_again() {
    let everything = "proxy_next_upstream error timeout invalid_header http_500 http_502 http_503 non_idempotent;";
    let (first, second) = (
        Peer::script(|mut talk| {
            talk.request();
            talk.send("HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhello");
        }),
        Peer::saying(HELLO),
    );
    let gateway = Gateway::start(&text(2, "", everything), &[first.address(), second.address()]);
    let mut client = gateway.client();
    client.send(GET);
    assert_eq!(client.cut_response().0.text(), "hello");
    gateway.logged("upstream prematurely closed connection while reading upstream");
    assert_eq!(second.connections(), 0);
}

#[test]
fn u09_non_idempotent_is_honoured() {
    let location = "proxy_next_upstream error timeout non_idempotent;";
    next_peer(fin_before_the_head, location, &post_body(), "upstream prematurely closed connection");
    next_peer(silence, &format!("{location} {FOR_THE_SECOND}"), &post_body(), "upstream timed out");
}

#[test]
fn u10_the_number_of_tries_is_honoured() {
    let phrase = "upstream prematurely closed connection";
    one_attempt(fin_before_the_head, "proxy_next_upstream_tries 1;", GET, 502, phrase);
    next_peer(fin_before_the_head, "proxy_next_upstream_tries 2;", GET, phrase);
    one_attempt(fin_before_the_head, "proxy_next_upstream off;", GET, 502, phrase);
}

#[test]
fn u10_the_time_for_tries_is_honoured() {
    let location = "proxy_read_timeout 150ms; proxy_next_upstream_timeout 100ms;";
    one_attempt(silence, location, GET, 504, "upstream timed out");
}

#[test]
fn u10_a_body_that_has_begun_to_arrive_is_not_sent_twice() {
    // Bytes that were passed on are not kept: the next peer would get half of a request.
    let (first, second) = (Peer::script(|mut talk| drop(talk.read(40))), Peer::saying(HELLO));
    let text = text(2, "", "proxy_request_buffering off;");
    let gateway = Gateway::start(&text, &[first.address(), second.address()]);
    let mut client = gateway.client();
    client.send("PUT / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nwor");
    assert_eq!(client.response().status(), 502);
    assert_eq!((first.connections(), second.connections()), (1, 0));
    is_alive(&gateway);
}

#[test]
fn u10_complete_body_is_resent_despite_streaming() {
    let location = "proxy_request_buffering off;";
    for body in ["Content-Length: 5\r\n\r\nworld", "Transfer-Encoding: chunked\r\n\r\n5\r\nworld\r\n0\r\n\r\n"] {
        let request = format!("PUT / HTTP/1.1\r\nHost: a\r\n{body}");
        next_peer(fin_before_the_head, location, &request, "upstream prematurely closed connection");
    }
}

#[test]
fn u07_passes_on_the_last_answer_when_no_peer_is_left() {
    // The second server is down, draining, or was ejected by the first request.
    for (second, before) in [("down", 0), ("drain", 0), ("max_fails=1 fail_timeout=1000s", 1)] {
        let (first, other) = (Peer::script(unavailable), Refusing::new());
        let conf = text(2, "", "proxy_next_upstream error http_503;")
            .replace("{upstream:0};", "{upstream:0} max_fails=0;")
            .replace("{upstream:1};", &format!("{{upstream:1}} {second};"));
        let gateway = Gateway::start(&conf, &[first.address(), other.address()]);
        for _ in 0..before {
            let mut client = gateway.client();
            client.send(GET);
            client.response();
        }
        let mut client = gateway.client();
        client.send(GET);
        let response = client.response();
        assert_eq!((response.status(), response.text().as_str()), (503, "busy"), "{second}");
    }
}

#[test]
fn u11_no_live_peer() {
    let (first, second) = (Refusing::new(), Refusing::new());
    let gateway = Gateway::start(&text(2, "", ""), &[first.address(), second.address()]);
    for round in 0..2 {
        for request in [GET, &post_body()] {
            let mut client = gateway.client();
            client.send(request);
            assert_eq!(client.response().status(), 502, "round {round}");
        }
    }
    gateway.logged("upstream server temporarily disabled");
    gateway.logged("no live upstreams while connecting to upstream");
    is_alive(&gateway);
}

#[test]
fn u11_peers_that_are_down_from_the_start() {
    let peer = Peer::saying(HELLO);
    let conf = text(1, "", "").replace("{upstream:0};", "{upstream:0} down;");
    let gateway = Gateway::start(&conf, &[peer.address()]);
    let mut client = gateway.client();
    client.send(GET);
    assert_eq!(client.response().status(), 502);
    gateway.logged("no live upstreams while connecting to upstream");
    assert_eq!(peer.connections(), 0);
}

#[test]
fn u11_a_peer_that_failed_is_asked_again_after_its_time() {
    let (first, second) = (
        Peer::script(|mut talk| {
            while talk.request().is_some() {
                if talk.serial() == 0 {
                    return;
                }
                talk.send("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nfirst");
            }
        }),
        Peer::saying(HELLO),
    );
    let conf = text(2, "", "").replace("{upstream:0};", "{upstream:0} fail_timeout=1s;");
    let gateway = Gateway::start(&conf, &[first.address(), second.address()]);
    until("the first peer answers again", || {
        let mut client = gateway.client();
        client.send(GET);
        let response = client.response();
        assert_eq!(response.status(), 200, "somebody always answers");
        (response.text() == "first").then_some(())
    });
    gateway.logged("upstream server temporarily disabled");
}

#[test]
#[should_panic(expected = "host not found")]
fn u12_a_name_without_an_address_is_a_configuration_error() {
    let conf = text(1, "", "").replace("{upstream:0}", "no-such-host.example");
    Gateway::start(&conf, &[]);
}

#[test]
fn u05_an_upstream_that_does_not_take_the_request() {
    // proxy_send_timeout applies between two successful writes.
    let peer = Peer::script(|talk| talk.sits_still());
    let location = "proxy_send_timeout 300ms; client_body_buffer_size 64m;";
    let gateway = Gateway::start(&text(1, "", location), &[peer.address()]);
    let mut client = gateway.client();
    client.send(post("Content-Length: 33554432\r\n"));
    client.send(vec![b'x'; 32 << 20]);
    assert_eq!(client.response().status(), 504);
    gateway.logged("upstream timed out (110: Connection timed out) while sending request to upstream");
    is_alive(&gateway);
}

/// A client that keeps sending while it waits: bytes of a next request whenever nothing arrives for a moment.
fn keeps_talking(client: &mut Talk, at_most: Duration) {
    let begun = Instant::now();
    while !client.receives_within(Duration::from_millis(30)) {
        assert!(begun.elapsed() < at_most, "still waiting after {at_most:?}, because the client talks");
        client.send("G");
    }
}

#[test]
fn u05_client_bytes_do_not_prolong_the_read_timeout() {
    let peer = Peer::script(silence);
    let gateway = Gateway::start(&text(1, "", "proxy_read_timeout 300ms;"), &[peer.address()]);
    let mut client = gateway.client();
    client.send(GET);
    keeps_talking(&mut client, Duration::from_secs(10));
    assert_eq!(client.response().status(), 504);
}

#[test]
fn u02_a_client_that_talks_does_not_prolong_connecting() {
    let deaf = Deaf::new();
    let gateway = Gateway::start(&text(1, "", "proxy_connect_timeout 300ms;"), &[deaf.address()]);
    let mut client = gateway.client();
    client.send(GET);
    keeps_talking(&mut client, Duration::from_secs(10));
    assert_eq!(client.response().status(), 504);
}
