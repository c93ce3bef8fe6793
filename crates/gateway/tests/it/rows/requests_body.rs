//! R38–R46: chunked bodies, trailers, unexpected bodies, expectations.

use crate::site::{HELLO, Site, post};
use testkit::{End, Peer};

const CHUNKED: &str = "Transfer-Encoding: chunked\r\n";

/// These bodies are refused, both collected and streamed.
#[track_caller]
fn chunks_refused<'a>(bodies: impl IntoIterator<Item = &'a str>) {
    let site = Site::of(Peer::saying(HELLO));
    let bodies: Vec<&str> = bodies.into_iter().collect();
    for body in &bodies {
        site.refuses(post(CHUNKED) + body, 400, "client sent invalid chunked body");
    }
    site.is_alive();
    site.peer_saw_nothing();

    for body in bodies {
        let site = Site::with(Peer::saying(HELLO), "proxy_request_buffering off;");
        site.refuses(post(CHUNKED) + body, 400, "client sent invalid chunked body");
        site.is_alive();
        // A started request must not look complete to the upstream.
        assert_eq!(site.peer.requests(), [], "{body:?}");
    }
}

#[test]
fn r38_a_chunk_extension_is_stripped() {
    for buffering in ["on", "off"] {
        let site = Site::with(Peer::saying(HELLO), &format!("proxy_request_buffering {buffering};"));
        let body = "5;ext=\"a b\"\r\nhello\r\n1 ; x\r\n!\r\n0;last\r\n\r\n";
        assert_eq!(site.ask(post(CHUNKED) + body).status(), 200);
        assert_eq!(site.peer.only_request().text(), "hello!");
        assert!(!site.peer.received(0).contains(&b';'), "{}", site.peer.received(0).escape_ascii());
    }
}

#[test]
fn r39_a_long_chunk_extension() {
    let body = format!("5;{}\r\nhello\r\n0\r\n\r\n", "e".repeat(100_000));
    chunks_refused([&*body]);
}

#[test]
fn r40_bare_lf_in_a_chunk_line() {
    chunks_refused(["5\nhello\r\n0\r\n\r\n", "5\r\nhello\n0\r\n\r\n", "5\r\nhello\r\n0\n\r\n"]);
}

#[test]
fn r41_chunk_sizes() {
    chunks_refused([
        "0x5\r\nhello\r\n0\r\n\r\n",
        "-5\r\nhello\r\n0\r\n\r\n",
        "\r\nhello\r\n0\r\n\r\n",
        " 5\r\nhello\r\n0\r\n\r\n",
        "FFFFFFFFFFFFFFFFFF\r\nhello",
        "8000000000000000\r\nhello",
        "g\r\nhello\r\n0\r\n\r\n",
    ]);
}

#[test]
fn r42_chunk_data_without_its_line_end() {
    chunks_refused(["5\r\nhello0\r\n\r\n", "5\r\nhello!\r\n0\r\n\r\n"]);
}

#[test]
fn r43_trailers_that_would_frame_or_route_are_dropped() {
    for buffering in ["on", "off"] {
        let site = Site::with(Peer::saying(HELLO), &format!("proxy_request_buffering {buffering};"));
        let mut client = site.client();
        let trailers = "Host: evil\r\nContent-Length: 100\r\nX-Sum: 1\r\n";
        client.send(post(CHUNKED) + "5\r\nhello\r\n0\r\n" + trailers + "\r\n");
        assert_eq!(client.response().status(), 200);
        let request = site.peer.only_request();
        assert_eq!((request.text(), request.value("X-Sum")), ("hello".into(), None), "merged: {request:?}");
        let received = site.peer.received(0);
        assert!(!received.windows(4).any(|window| window == b"evil"), "{}", received.escape_ascii());
        // The next request begins after the trailers.
        client.send("GET /next HTTP/1.1\r\nHost: a\r\n\r\n");
        assert_eq!(client.response().status(), 200);
        assert_eq!(site.peer.requests()[1].1.target(), "/next");
    }
}

#[test]
fn r44_malformed_trailers() {
    chunks_refused([
        "5\r\nhello\r\n0\r\nno colon\r\n\r\n",
        "5\r\nhello\r\n0\r\nX : y\r\n\r\n",
        "5\r\nhello\r\n0\r\nX: a\rb\r\n\r\n",
        "5\r\nhello\r\n0\r\nX: a\r\n b\r\n\r\n",
    ]);
}

#[test]
fn r45_get_with_a_body_is_framed_and_forwarded() {
    let site = Site::of(Peer::saying(HELLO));
    let mut client = site.client();
    client.send("GET /a HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nworldGET /b HTTP/1.1\r\nHost: a\r\n\r\n");
    assert_eq!(client.response().text(), "hello");
    assert_eq!(client.response().text(), "hello");
    let requests = site.peer.requests();
    assert_eq!((requests[0].1.target(), requests[0].1.text()), ("/a", "world".into()));
    assert_eq!((requests[1].1.target(), requests[1].1.text()), ("/b", String::new()));
}

#[test]
fn r46_client_expecting_100_gets_it_then_the_response() {
    for buffering in ["on", "off"] {
        let site = Site::with(Peer::saying(HELLO), &format!("proxy_request_buffering {buffering};"));
        let mut client = site.client();
        client.send(post("Expect: 100-continue\r\nContent-Length: 5\r\n"));
        assert_eq!(client.response().line, "HTTP/1.1 100 Continue");
        client.send("world");
        assert_eq!(client.response().text(), "hello");
        let request = site.peer.only_request();
        assert_eq!((request.text(), request.value("Expect")), ("world".into(), None));
        client.send("GET /next HTTP/1.1\r\nHost: a\r\n\r\n");
        assert_eq!(client.response().text(), "hello");
    }
}

#[test]
fn r46_no_100_if_the_body_came_or_is_refused() {
    let site = Site::with(Peer::saying(HELLO), "client_max_body_size 10;");
    let request = post("Expect: 100-continue\r\nContent-Length: 5\r\n");
    assert_eq!(site.ask(request + "world").status(), 200);
    let request = post("Expect: 100-continue\r\nContent-Length: 11\r\n");
    let mut client = site.client();
    client.send(request);
    let response = client.response();
    assert_eq!(response.status(), 413);
    site.gateway.logged("client intended to send too large body: 11 bytes");
}

#[test]
fn r46_an_unknown_expectation() {
    let site = Site::of(Peer::saying(HELLO));
    site.refuses(post("Expect: tea\r\nContent-Length: 1\r\n"), 417, "client sent unknown \"Expect\"");
    site.peer_saw_nothing();
}

#[test]
fn r46_http10_never_gets_100_continue() {
    let site = Site::of(Peer::saying(HELLO));
    let mut client = site.client();
    client.send("POST / HTTP/1.0\r\nExpect: 100-continue\r\nContent-Length: 1\r\n\r\n");
    client.send("x");
    assert_eq!(client.response().status(), 200);
    assert_eq!(client.end(), End::Fin);
}
