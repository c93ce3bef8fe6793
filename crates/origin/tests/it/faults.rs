//! Misbehaviour on request: closes, resets, cuts, silence; and requests that are refused.
#![allow(clippy::unwrap_used)] // a failed step of a conversation is its end

use crate::talk::{Client, End, pattern, start, until};
use origin::{CloseReason, Closing, ClosingStyle, Options};
use reactor::PeerAddress;
use serde_json::json;
use std::time::{Duration, Instant};
use testkit::Talk;

/// The origin's answer to an administrative request, on a separate connection.
fn ask(origin: &origin::Running, method: &str, target: &str) -> serde_json::Value {
    let mut client = Client::connect(origin);
    client.send(format!("{method} {target} HTTP/1.1\r\nHost: o\r\n\r\n"));
    serde_json::from_slice(&client.response().1).unwrap()
}

#[test]
fn announces_its_close_after_n_requests() {
    let closing = Closing { after_requests: Some(2), ..Closing::default() };
    let origin = start(Options { closing, ..Options::default() });
    let mut client = Client::connect(&origin);
    for connection in ["keep-alive", "close"] {
        client.get("/");
        assert_eq!(client.response().0.field("Connection"), Some(connection));
    }
    client.expect_end(End::Fin);
    assert_eq!(origin.counts().closed(CloseReason::RequestLimit), 1);
}

#[test]
fn closes_after_n_requests_without_a_word() {
    for (style, end) in [(ClosingStyle::Fin, End::Fin), (ClosingStyle::Reset, End::Reset)] {
        let closing = Closing { after_requests: Some(1), unannounced: true, style, ..Closing::default() };
        let origin = start(Options { closing, ..Options::default() });
        let mut client = Client::connect(&origin);
        client.get("/bytes/5");
        let (head, body) = client.response();
        assert_eq!((head.field("Connection"), body), (Some("keep-alive"), pattern(5)));
        client.expect_end(end);
    }
}

#[test]
fn closes_when_idle() {
    let closing = Closing { after_idle: Some(Duration::from_millis(400)), ..Closing::default() };
    let origin = start(Options { closing, keep_alive_timeout_s: Some(7), ..Options::default() });
    let mut client = Client::connect(&origin);
    let begun = Instant::now();
    client.get("/delay/500");
    let (head, _) = client.response();
    assert_eq!(head.field("Keep-Alive"), Some("timeout=7"), "what is announced need not be true");
    client.expect_end(End::Fin);
    // The loop's clock has milliseconds, so each wait may be one short.
    assert!(begun.elapsed() >= Duration::from_millis(898), "closed after {:?}", begun.elapsed());
    assert_eq!(origin.counts().closed(CloseReason::Idle), 1);
    // A connection without any request is idle, too.
    Client::connect(&origin).expect_end(End::Fin);
}

#[test]
fn a_half_closed_connection_takes_a_request_and_never_answers() {
    let origin = start(Options::default());
    let mut client = Client::connect(&origin);
    client.get("/close-after?requests=1&style=half-close&unannounced");
    client.response();
    client.get("/");
    assert_eq!(client.response().0.field("Connection"), Some("keep-alive"));
    client.expect_end(End::Fin);
    client.get("/");
    client.send(pattern(100_000));
    client.expect_end(End::Fin);
    assert_eq!((origin.counts().requests, origin.counts().connections_open), (2, 1));
    client.half_close();
    until("the connection is over", || origin.counts().closed(CloseReason::RequestLimit) == 1);
}

#[test]
fn close_after_affects_only_its_connection() {
    let origin = start(Options::default());
    let (mut client, mut other) = (Client::connect(&origin), Client::connect(&origin));
    client.get("/close-after?idle=30&style=reset");
    client.response();
    client.expect_end(End::Reset);
    other.get("/");
    other.response();
    other.get("/close-after?style=loudly");
    assert_eq!(other.response().0.status, 400);
}

#[test]
fn always_close_option_closes_every_connection() {
    let origin = start(Options { always_close: true, ..Options::default() });
    let mut client = Client::connect(&origin);
    client.get("/");
    assert_eq!(client.response().0.field("Connection"), Some("close"));
    client.expect_end(End::Fin);
    assert_eq!(origin.counts().closed(CloseReason::OriginAlwaysCloses), 1);
}

#[test]
fn a_client_that_asks_for_close_gets_it() {
    let origin = start(Options::default());
    let mut client = Client::connect(&origin);
    client.send("GET / HTTP/1.1\r\nHost: o\r\nConnection: close\r\n\r\n");
    assert_eq!(client.response().0.field("Connection"), Some("close"));
    client.expect_end(End::Fin);
    assert_eq!(origin.counts().closed(CloseReason::ClientAskedClose), 1);
}

#[test]
fn silent_origin_accepts_without_answers() {
    let origin = start(Options { silent: true, ..Options::default() });
    let mut client = Client::connect(&origin);
    client.get("/");
    until("accepted", || origin.counts().connections_open == 1);
    assert!(!client.talk.receives_within(Duration::from_millis(100)));
    drop(client);
    until("closed", || origin.counts().connections_open == 0);
    assert_eq!(origin.counts().requests, 0);
}

/// The RST may arrive before `connect` has returned.
fn expect_reset_at_accept(origin: &origin::Running) {
    match std::net::TcpStream::connect(origin.address()) {
        Err(error) => assert_eq!(error.kind(), std::io::ErrorKind::ConnectionReset),
        Ok(socket) => assert_eq!(Talk::of(socket).end(), End::Reset),
    }
}

#[test]
fn resets_at_accept() {
    let origin = start(Options::default());
    let mut client = Client::connect(&origin);
    client.get("/reset/at?point=accept&count=2");
    client.response();
    for _ in 0..2 {
        expect_reset_at_accept(&origin);
    }
    let mut third = Client::connect(&origin);
    third.get("/");
    third.response();
    let always = start(Options { reset_at_accept: true, ..Options::default() });
    expect_reset_at_accept(&always);
    assert_eq!(origin.counts().closed(CloseReason::FaultReset), 2);
}

#[test]
fn resets_after_request_in_head_and_in_body() {
    let origin = start(Options::default());
    let mut client = Client::connect(&origin);
    client.get("/reset/at?point=request&id=r");
    client.expect_end(End::Reset);
    assert_eq!((origin.counts().requests, origin.counts().executed, origin.executed("r")), (1, 0, 0));

    let mut client = Client::connect(&origin);
    client.get("/reset/at?point=head");
    let (part, end) = client.rest();
    assert!(part.starts_with(b"HTTP/1.1 200 OK\r\n") && !part.ends_with(b"\r\n\r\n") && end == End::Reset);

    let mut client = Client::connect(&origin);
    client.get("/reset/at?point=body&size=100&sent=30");
    assert_eq!(client.head().length(), 100);
    assert_eq!(client.rest(), (pattern(30), End::Reset));

    let mut client = Client::connect(&origin);
    client.get("/reset/at?point=lunch");
    assert_eq!(client.response().0.status, 400);
}

#[test]
fn request_is_reset_before_its_body_is_read() {
    let origin = start(Options::default());
    let mut client = Client::connect(&origin);
    client.send("POST /reset/at?point=request HTTP/1.1\r\nHost: o\r\nContent-Length: 1000\r\n\r\n");
    client.expect_end(End::Reset);
}

#[test]
fn executes_and_then_resets_and_the_count_is_known() {
    let origin = start(Options::default());
    for executed in 1..=2 {
        let mut client = Client::connect(&origin);
        client.send("POST /execute-then-reset?id=a%20b HTTP/1.1\r\nHost: o\r\nContent-Length: 3\r\n\r\nabc");
        client.expect_end(End::Reset);
        assert_eq!(origin.executed("a b"), executed);
    }
    assert_eq!(ask(&origin, "GET", "/executed?id=a%20b"), json!({"id": "a b", "executed": 2}));
    assert_eq!(ask(&origin, "GET", "/executed?id=c"), json!({"id": "c", "executed": 0}));
    ask(&origin, "GET", "/executed?id=c");
    let mut client = Client::connect(&origin);
    client.get("/page?id=c");
    client.response();
    assert_eq!(ask(&origin, "GET", "/executed"), json!({"ids": 2, "executions": 3, "ids_repeated": 1}));
    assert_eq!(ask(&origin, "DELETE", "/executed"), json!({"ids": 0, "executions": 0, "ids_repeated": 0}));
}

#[test]
fn request_without_its_body_is_not_executed() {
    let origin = start(Options::default());
    let mut client = Client::connect(&origin);
    client.send("POST /execute-then-reset?id=a HTTP/1.1\r\nHost: o\r\nContent-Length: 3\r\n\r\nab");
    client.half_close();
    client.expect_end(End::Fin);
    assert_eq!((origin.executed("a"), origin.counts().closed(CloseReason::ClientClosedEarly)), (0, 1));
}

#[test]
fn executes_and_resets_only_the_nth_request_of_a_connection() {
    let origin = start(Options::default());
    let mut client = Client::connect(&origin);
    client.get("/execute-then-reset?id=one&every=2");
    assert_eq!(client.response().0.status, 200);
    client.get("/execute-then-reset?id=two&every=2");
    client.expect_end(End::Reset);
    assert_eq!((origin.executed("one"), origin.executed("two")), (1, 1));
}

#[test]
fn bodies_that_end_too_early() {
    let origin = start(Options::default());
    for (target, rest) in [
        ("/bytes/10?cut=4&by=fin", (pattern(4), End::Fin)),
        ("/bytes/200000?cut=150000&by=fin", (pattern(150_000), End::Fin)),
        ("/bytes/10?cut=0&by=reset", (Vec::new(), End::Reset)),
        ("/close-delimited/10?cut=4&by=reset", (pattern(4), End::Reset)),
        ("/chunked/10?cut=4", ([b"4\r\n", &pattern(4)[..], b"\r\n"].concat(), End::Fin)),
        ("/chunked/10?cut=4&by=bad-chunk", ([b"4\r\n", &pattern(4)[..], b"\r\nno size\r\n"].concat(), End::Fin)),
        ("/slow/10?step=2&every=1&cut=4&by=reset", (pattern(4), End::Reset)),
    ] {
        let mut client = Client::connect(&origin);
        client.get(target);
        assert_eq!(client.head().status, 200);
        assert!(client.rest() == rest, "{target}");
    }
}

#[test]
fn malformed_requests_are_refused_and_the_answer_arrives() {
    let origin = start(Options { body_bytes_max: 1000, ..Options::default() });
    let long_line = format!("GET / HTTP/1.1\r\nHost: o\r\nX: {}\r\n\r\n", "x".repeat(40_000));
    for (request, status) in [
        ("GET / HTTP/1.1\r\n\r\n", 400),
        ("GET / HTTP/1.1\r\nHost: o\r\nX : y\r\n\r\n", 400),
        ("GET / HTTP/3.0\r\nHost: o\r\n\r\n", 505),
        ("POST / HTTP/1.1\r\nHost: o\r\nContent-Length: 1001\r\n\r\n", 413),
        ("POST / HTTP/1.1\r\nHost: o\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n", 400),
        (&long_line, 400),
        ("GET /bytes/ HTTP/1.1\r\nHost: o\r\nConnection: close\r\n\r\n", 400),
        ("GET /bytes/12x HTTP/1.1\r\nHost: o\r\nConnection: close\r\n\r\n", 400),
    ] {
        let mut client = Client::connect(&origin);
        client.send(request);
        let (head, _) = client.response();
        assert_eq!((head.status, head.field("Connection")), (status, Some("close")), "{request:.40}");
        client.half_close();
        client.expect_end(End::Fin);
    }
}

#[test]
fn too_long_body_is_refused_during_the_upload() {
    let origin = start(Options { body_bytes_max: 100_000, ..Options::default() });
    let mut client = Client::connect(&origin);
    client.send("POST /echo HTTP/1.1\r\nHost: o\r\nTransfer-Encoding: chunked\r\n\r\n");
    let chunk = [b"10000\r\n", &pattern(0x10000)[..], b"\r\n"].concat();
    for _ in 0..20 {
        client.send(&chunk);
    }
    assert_eq!(client.response().0.status, 413);
    assert_eq!(origin.counts().executed, 0);
}

#[test]
fn a_client_that_resets_is_noticed_while_its_answer_waits() {
    let origin = start(Options::default());
    for target in ["/delay/600000", "/slow/1000?every=600000"] {
        let mut client = Client::connect(&origin);
        client.get(target);
        until("the request is there", || origin.counts().requests > origin.counts().closed(CloseReason::ClientReset));
        client.talk.reset();
        until("the reset is noticed", || origin.counts().connections_open == 0);
    }
    assert_eq!(origin.counts().closed(CloseReason::ClientReset), 2);
}

#[test]
fn no_listener_after_the_stop() {
    // No other test listens at this address, so the port does not matter.
    let own = PeerAddress::Ip(([127, 0, 0, 78], 0).into());
    let origin = start(Options { listen: vec![own], ..Options::default() });
    let (address, handle) = (origin.address(), origin.handle());
    drop(origin);
    // A program that another test starts has a copy of the socket until it executes.
    let refused = std::io::ErrorKind::ConnectionRefused;
    until("nothing listens", || std::net::TcpStream::connect(address).is_err_and(|error| error.kind() == refused));
    assert_eq!(handle.counts().connections_open, 0);
}

#[test]
fn options_that_make_no_sense_are_refused() {
    for options in [
        Options { listen: Vec::new(), ..Options::default() },
        Options { workers: 5000, ..Options::default() },
        Options { server: "a\r\nb".to_owned(), ..Options::default() },
    ] {
        assert_eq!(origin::Origin::bind(options).unwrap_err().kind(), std::io::ErrorKind::InvalidInput);
    }
}
