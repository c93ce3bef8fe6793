//! The ends of connections and streams: clients that leave, limits of a connection, timeouts, a process that ends.

use super::{connect, gateway, gateway_with};
use gateway::{CloseReason, Message};
use http2::{Config, ErrorCode};
use testkit::{Http2Talk, Peer, Signal, Talk, http2_frame, until};

/// The start of a client's connection: the preface and empty settings.
const BEGINNING: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0";

/// After a GOAWAY the connection is counted as closed once its client is gone.
fn until_closed(gateway: &testkit::Gateway, client: Http2Talk, reason: CloseReason) {
    drop(client);
    until("the end of the connection", || (gateway.shared().closed(reason) == 1).then_some(()));
}

/// A peer that signals a request, and then waits for its client's end or for the signal to answer.
fn waiting_peer(asked: &Signal, go: &Signal, noticed: &Signal) -> Peer {
    let (asked, go, noticed) = (asked.clone(), go.clone(), noticed.clone());
    Peer::script(move |mut talk: Talk| {
        let Some(request) = talk.request() else { return };
        asked.raise();
        if request.target() == "/leaves" {
            assert!(talk.request().is_none());
            noticed.raise();
        } else {
            talk.wait(&go);
            talk.send("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello");
            talk.request();
        }
    })
}

#[test]
fn h12_a_reset_is_that_streams_client_leaving() {
    let (asked, go, noticed) = (Signal::new(), Signal::new(), Signal::new());
    let peer = waiting_peer(&asked, &go, &noticed);
    let gateway =
        gateway("location / { proxy_pass http://{upstream:0}; } location /own { return 200 own; }", &[peer.address()]);
    let mut client = connect(&gateway);
    let stream = client.open("GET", "/leaves", &[], true);
    asked.wait();
    client.reset(stream);
    noticed.wait();
    assert!(gateway.access_lines(1)[0].starts_with("499 "), "{:?}", gateway.access_lines(1));
    assert_eq!(client.get("/own").text(), "own", "the connection goes on");
}

#[test]
fn h13_connection_end_ends_its_streams() {
    let (asked, go, noticed) = (Signal::new(), Signal::new(), Signal::new());
    let peer = waiting_peer(&asked, &go, &noticed);
    let gateway = gateway("location / { proxy_pass http://{upstream:0}; }", &[peer.address()]);
    let mut client = connect(&gateway);
    client.open("GET", "/leaves", &[], true);
    asked.wait();
    drop(client);
    noticed.wait();
    assert!(gateway.access_lines(1)[0].starts_with("499 HTTP/2.0"), "{:?}", gateway.access_lines(1));
    gateway.until_totals("nothing is left", |totals| totals.active == 0 && totals.writing == 0);
}

#[test]
fn h14_keepalive_requests_ends_a_connection_in_two_steps() {
    let gateway = gateway("keepalive_requests 3; return 200 $connection_requests;", &[]);
    let mut client = connect(&gateway);
    for number in ["1", "2"] {
        assert_eq!(client.get("/").text(), number);
    }
    assert_eq!(client.goaways, 0);
    assert_eq!(client.get("/").text(), "3");
    client.end();
    assert_eq!((client.goaways, client.goaway), (2, Some((5, ErrorCode::NO_ERROR))));
    until_closed(&gateway, client, CloseReason::KeepaliveLimit);
}

#[test]
fn h14_keepalive_time_ends_a_connection_with_its_next_stream() {
    let gateway = gateway("keepalive_time 300ms; return 200 $connection_requests;", &[]);
    let mut client = connect(&gateway);
    let mut number = 0;
    until("a GOAWAY", || {
        number += 1;
        assert_eq!(client.get("/").text(), number.to_string(), "no stream is lost");
        (client.goaways > 0).then_some(())
    });
    client.end();
    assert_eq!((client.goaways, client.goaway), (2, Some((2 * number - 1, ErrorCode::NO_ERROR))));
    until_closed(&gateway, client, CloseReason::KeepaliveLimit);
}

#[test]
fn h15_goaway_after_keepalive_timeout() {
    let gateway = gateway("keepalive_timeout 100ms; return 200 x;", &[]);
    let mut client = connect(&gateway);
    assert_eq!(client.get("/").status, 200);
    client.end();
    assert_eq!(client.goaway, Some((1, ErrorCode::NO_ERROR)));
    until_closed(&gateway, client, CloseReason::KeepaliveTimeout);
}

#[test]
fn h16_a_process_that_ends_finishes_its_streams() {
    let (asked, go, noticed) = (Signal::new(), Signal::new(), Signal::new());
    let peer = waiting_peer(&asked, &go, &noticed);
    let gateway = gateway("location / { proxy_pass http://{upstream:0}; }", &[peer.address()]);
    let (mut busy, mut idle) = (connect(&gateway), connect(&gateway));
    let stream = busy.open("GET", "/", &[], true);
    asked.wait();
    idle.until("settings", |_| true);
    gateway.until_totals("two connections", |totals| totals.active == 2);
    gateway.shared().send(0, Message::Drain);
    busy.until("the first GOAWAY", |talk| talk.goaway.is_some());
    assert_eq!(busy.goaway, Some((0x7FFF_FFFF, ErrorCode::NO_ERROR)), "no stream is too late yet");
    idle.end();
    go.raise();
    assert_eq!(busy.answer(stream).text(), "hello");
    busy.end();
    assert_eq!(busy.goaway, Some((1, ErrorCode::NO_ERROR)));
}

#[test]
fn h17_reload_applies_to_the_next_stream() {
    let (asked, go, noticed) = (Signal::new(), Signal::new(), Signal::new());
    let peer = waiting_peer(&asked, &go, &noticed);
    let text = |body: &str| {
        format!(
            "events {{}} http {{ access_log off; server {{ listen {{listen}}; http2 on; location / {{ return 200 {body}; }} \
             location /slow {{ add_header X-Old {body}; proxy_pass http://{{upstream:0}}; }} }} }}"
        )
    };
    let mut gateway = testkit::Gateway::start(&text("old"), &[peer.address()]);
    let mut client = connect(&gateway);
    assert_eq!(client.get("/").text(), "old");
    let slow = client.open("GET", "/slow", &[], true);
    asked.wait();
    gateway.reload(&text("new"));
    until("the new configuration", || (client.get("/").text() == "new").then_some(()));
    go.raise();
    let answer = client.answer(slow);
    assert_eq!((answer.text(), answer.value("x-old")), ("hello".into(), Some("old")));
}

#[test]
fn h18_silent_or_half_sent_heads_time_out() {
    let gateway = gateway_with("client_header_timeout 200ms;", "return 200 x;", &[]);
    let mut silent = Talk::connect(gateway.address());
    silent.send(BEGINNING);
    silent.rest();
    let mut slow = Talk::connect(gateway.address());
    slow.send(BEGINNING);
    // HEADERS announces ten bytes, of which only two are sent.
    slow.send(&http2_frame(1, 4, 1, &[0; 10])[..11]);
    slow.rest();
    let mut preface = Talk::connect(gateway.address());
    preface.send("PRI * HTTP/2.0\r\n\r\nS");
    preface.rest();
    gateway.until_totals("all are closed", |totals| totals.active == 0);
}

#[test]
fn h19_a_body_that_does_not_come_is_answered_408() {
    let peer = Peer::saying("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
    let gateway =
        gateway("client_body_timeout 150ms; location / { proxy_pass http://{upstream:0}; }", &[peer.address()]);
    let mut client = connect(&gateway);
    let stream = client.open("POST", "/", &[("content-length", "10")], false);
    client.send(stream, b"half", false);
    assert_eq!(client.answer(stream).status, 408);
    assert_eq!(client.get("/").status, 200, "the connection goes on");
}

#[test]
fn h20_closed_window_ends_the_stream_after_send_timeout() {
    let gateway = gateway("send_timeout 200ms; location / { root .; } location /own { return 200 own; }", &[]);
    std::fs::write(gateway.prefix().join("large"), vec![b'x'; 500_000]).unwrap();
    let mut client = Http2Talk::connect_with(gateway.address(), Config { stream_window: 1000, ..Config::default() });
    client.holds_windows = true;
    let stream = client.open("GET", "/large", &[], true);
    let answer = client.answer(stream);
    assert_eq!((answer.body.len(), answer.reset), (1000, Some(ErrorCode::CANCEL)));
    client.holds_windows = false;
    assert_eq!(client.get("/own").text(), "own", "the connection goes on");
}

#[test]
fn h108_stream_memory_is_counted_and_freed() {
    const STREAMS: u64 = 20;
    let body = "x".repeat(20_000);
    let peer = Peer::saying(format!("HTTP/1.1 200 OK\r\nContent-Length: 20000\r\n\r\n{body}"));
    let server = "send_timeout 30s; location / { proxy_pass http://{upstream:0}; }";
    let gateway = gateway(server, &[peer.address()]);
    let mut client = Http2Talk::connect_with(gateway.address(), Config { stream_window: 1000, ..Config::default() });
    client.holds_windows = true;
    let streams: Vec<u32> = (0..STREAMS).map(|_| client.open("GET", "/", &[], true)).collect();
    for &stream in &streams {
        client.until("a window's worth", |talk| talk.so_far(stream).body.len() == 1000);
    }
    let held = || gateway.shared().memory().held_by_exchanges;
    until("memory of all streams", || (held() >= STREAMS * 19_000).then_some(()));
    for stream in streams {
        client.reset(stream);
    }
    until("nothing is held", || (held() == 0).then_some(()));
}

/// Opens a stream, sends a part of its body, and gets the answer that does not wait for the rest.
#[track_caller]
fn early_answer(client: &mut Http2Talk, path: &str) -> u32 {
    let stream = client.open("POST", path, &[], false);
    client.send(stream, b"some", false);
    client.until("the answer", |talk| talk.so_far(stream).is_whole);
    assert_eq!((client.so_far(stream).status, client.so_far(stream).text()), (200, "early".into()));
    stream
}

/// Waits for the reset that says that nothing is wrong.
#[track_caller]
fn until_no_error(client: &mut Http2Talk, stream: u32) {
    client.until("the reset", |talk| talk.so_far(stream).reset.is_some());
    assert_eq!(client.so_far(stream).reset, Some(ErrorCode::NO_ERROR));
    assert_eq!(client.get("/").text(), "early", "the connection goes on");
}

#[test]
fn h21_body_after_an_early_answer_is_dropped() {
    let gateway = gateway("return 200 early;", &[]);
    let mut client = connect(&gateway);
    let stream = early_answer(&mut client, "/");
    client.send(stream, &vec![b'x'; 30_000], false);
    client.ping();
    client.send(stream, b"end", true);
    client.ping();
    assert_eq!(client.so_far(stream).reset, None, "the client has ended it itself");
    assert_eq!(client.get("/").text(), "early");
    let line = &gateway.access_lines(2)[0];
    assert!(line.starts_with("200 HTTP/2.0 \"POST / "), "{line}");
}

#[test]
fn h21_sending_beyond_the_window_resets_without_error() {
    let gateway = gateway("return 200 early;", &[]);
    let mut client = connect(&gateway);
    for _ in 0..20 {
        // More than the connection's window in all: what is dropped is given back to it.
        let stream = early_answer(&mut client, "/");
        client.send(stream, &vec![b'x'; 200_000], false);
        until_no_error(&mut client, stream);
    }
}

#[test]
fn h21_stalled_client_is_reset_after_lingering_timeout() {
    let gateway = gateway("lingering_timeout 200ms; return 200 early;", &[]);
    let mut client = connect(&gateway);
    let streams = [early_answer(&mut client, "/"), early_answer(&mut client, "/")];
    for stream in streams {
        until_no_error(&mut client, stream);
    }
    gateway.until_totals("one connection at rest", |totals| totals.active == 1 && totals.waiting == 1);
}

#[test]
fn h21_lingering_close_off_resets_at_once() {
    let server = "lingering_timeout 1h; lingering_time 1h; location / { lingering_close off; return 200 early; } \
                  location /on { return 200 early; }";
    let gateway = gateway(server, &[]);
    let mut client = connect(&gateway);
    let lingering = early_answer(&mut client, "/on");
    let stream = early_answer(&mut client, "/");
    until_no_error(&mut client, stream);
    assert_eq!(client.so_far(lingering).reset, None);
    // A process that ends waits for it, as for any other stream.
    gateway.shared().send(0, Message::Drain);
    client.until("GOAWAY", |talk| talk.goaway.is_some());
    client.send(lingering, b"", true);
    client.end();
}

#[test]
fn h22_return_444_resets_the_stream_alone() {
    let gateway = gateway("location / { return 444; } location /own { return 200 own; }", &[]);
    let mut client = connect(&gateway);
    let answer = client.get("/");
    assert_eq!((answer.status, answer.reset.is_some()), (0, true));
    assert_eq!(client.get("/own").text(), "own");
    assert!(gateway.access_lines(2)[0].starts_with("444 "));
}

#[test]
fn h23_idle_connections_give_way_when_places_are_short() {
    let text =
        "events { worker_connections 2; } http { access_log off; server { listen {listen}; http2 on; return 200 x; } }";
    let gateway = testkit::Gateway::start(text, &[]);
    let (mut first, mut second) = (connect(&gateway), connect(&gateway));
    assert_eq!((first.get("/").status, second.get("/").status), (200, 200));
    // A connection with unread bytes is not closed for another: they may be a request.
    first.ping();
    second.ping();
    let mut third = connect(&gateway);
    assert_eq!(third.get("/").status, 200);
    first.end();
    assert_eq!(gateway.shared().closed(CloseReason::Displaced), 1);
    assert_eq!(second.get("/").status, 200);
}

#[test]
fn h41_an_idle_connection_owns_no_buffers() {
    const CONNECTIONS: u64 = 50;
    let gateway = gateway("location / { root .; }", &[]);
    std::fs::write(gateway.prefix().join("large"), vec![b'x'; 300_000]).unwrap();
    let idle: Vec<Http2Talk> = (0..CONNECTIONS)
        .map(|_| {
            let mut client = connect(&gateway);
            let upload = client.open("POST", "/large", &[], false);
            client.send(upload, &[b'u'; 10_000], true);
            assert_eq!((client.answer(upload).status, client.get("/large").body.len()), (405, 300_000));
            client
        })
        .collect();
    let held = || gateway.shared().memory().held_by_connections / CONNECTIONS;
    until("connections without buffers", || (held() <= 2048).then_some(()));
    assert!(held() > 512, "they are counted");
    drop(idle);
}

#[test]
fn h42_exchange_outlives_its_connection_with_ignore_abort() {
    let (asked, go, noticed) = (Signal::new(), Signal::new(), Signal::new());
    let peer = waiting_peer(&asked, &go, &noticed);
    let server = "location / { proxy_ignore_client_abort on; proxy_pass http://{upstream:0}; }";
    let gateway = gateway(server, &[peer.address()]);
    let mut client = connect(&gateway);
    client.open("GET", "/", &[], true);
    asked.wait();
    drop(client);
    gateway.until_totals("the connection is gone", |totals| totals.active == 0);
    go.raise();
    let line = gateway.access_lines(1).remove(0);
    assert!(line.starts_with("200 HTTP/2.0 \"GET / HTTP/2.0\" h2c 1 "), "{line}");
}
