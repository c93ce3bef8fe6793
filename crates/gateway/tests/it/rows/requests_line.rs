//! R24–R36 and R51: the request line, and bytes that are no HTTP.

use crate::site::{HELLO, Site};
use testkit::Peer;

#[track_caller]
fn refused<L: AsRef<[u8]>>(lines: impl IntoIterator<Item = L>, status: u16, phrase: &str) {
    let site = Site::of(Peer::saying(HELLO));
    for line in lines {
        let request = [line.as_ref(), b"\r\nHost: a\r\n\r\n"].concat();
        site.refuses(request, status, phrase);
    }
    site.is_alive();
    site.peer_saw_nothing();
}

#[test]
fn r24_other_schemes() {
    refused(["GET ftp://a/ HTTP/1.1", "GET httpx://a/ HTTP/1.1"], 400, "client sent invalid request");
}

#[test]
fn r25_the_asterisk_is_for_options() {
    refused(["GET * HTTP/1.1", "GET x HTTP/1.1", "GET a:80 HTTP/1.1"], 400, "client sent invalid request");
    let site = Site::of(Peer::saying(HELLO));
    let mut client = site.client();
    client.send("OPTIONS * HTTP/1.1\r\nHost: a\r\n\r\n");
    assert_eq!(client.response().status(), 204);
    // The gateway answers it itself, and the connection continues.
    client.send("GET /first HTTP/1.1\r\nHost: a\r\n\r\n");
    assert_eq!(client.response().status(), 200);
    assert_eq!(site.peer.only_request().target(), "/first");
}

#[test]
fn r26_connect_and_trace() {
    refused(["CONNECT a:443 HTTP/1.1", "TRACE / HTTP/1.1"], 405, "client sent CONNECT or TRACE method");
}

#[test]
fn r27_lowercase_method() {
    refused(["get / HTTP/1.1", "Get / HTTP/1.1"], 400, "client sent invalid method");
}

#[test]
fn r28_unknown_method_tokens_are_forwarded() {
    let site = Site::of(Peer::saying(HELLO));
    for method in ["PURGE", "M-SEARCH", "X_1", "GETX"] {
        assert_eq!(site.ask(format!("{method} /p HTTP/1.1\r\nHost: a\r\n\r\n")).status(), 200);
        assert_eq!(site.peer.requests().last().unwrap().1.line, format!("{method} /p HTTP/1.1"));
    }
}

#[test]
fn r29_delimiters_in_a_method() {
    refused(
        ["G/T / HTTP/1.1", "G(T / HTTP/1.1", "GET: / HTTP/1.1", "G\0T / HTTP/1.1"],
        400,
        "client sent invalid method",
    );
}

#[test]
fn r30_other_versions() {
    refused(["GET / HTTP/2.0", "GET / HTTP/3.0"], 505, "client sent invalid version");
    refused(
        ["GET / HTTP/1.10", "GET / HTTP/01.1", "GET / HTTP/1", "GET / http/1.1"],
        400,
        "client sent invalid request",
    );
}

#[test]
fn r31_http09() {
    let site = Site::of(Peer::saying(HELLO));
    site.refuses("GET /\r\n", 400, "client sent invalid request: the request line has no version");
    site.refuses("GET / HTTP/0.9\r\n\r\n", 400, "client sent invalid request");
    site.is_alive();
    site.peer_saw_nothing();
}

#[test]
fn r32_exactly_one_space() {
    let lines = ["GET  / HTTP/1.1", "GET /  HTTP/1.1", "GET\t/ HTTP/1.1", "GET /\tHTTP/1.1", "GET / HTTP/1.1 "];
    refused(lines, 400, "client sent invalid ");
}

#[test]
fn r33_no_space_in_the_target() {
    refused(["GET /a b HTTP/1.1", "GET / HTTP/1.1 HTTP/1.1"], 400, "client sent invalid request");
}

#[test]
fn r34_escapes_and_ways_above_the_root() {
    refused(["GET /a%00b HTTP/1.1", "GET /%zz HTTP/1.1", "GET /%2 HTTP/1.1"], 400, "client sent invalid request");
    refused(["GET /../etc HTTP/1.1", "GET /a/%2e%2e/../b HTTP/1.1"], 400, "client sent invalid request");
}

#[test]
fn r35_bytes_that_no_target_has() {
    refused(
        [&b"GET /a#b HTTP/1.1"[..], b"GET /\x7F HTTP/1.1", b"GET /a\x01 HTTP/1.1", b"GET /a\0 HTTP/1.1"],
        400,
        "client sent invalid request",
    );
}

#[test]
fn r35_bytes_from_0x80_pass_unchanged() {
    let all: Vec<u8> = (0x80..=0xFF).collect();
    let target = [b"/a\xc3\xa9", &all[..], b"?", &all].concat();
    let request = [b"GET ", &target[..], b" HTTP/1.1\r\nHost: a\r\n\r\n"].concat();
    for pass in ["", "proxy_redirect off; proxy_pass http://peers$request_uri;"] {
        let text =
            crate::site::text(1, "", pass).replace(if pass.is_empty() { "\0" } else { "proxy_pass http://peers;" }, "");
        let peer = Peer::saying(HELLO);
        let gateway = testkit::Gateway::start(&text, &[peer.address()]);
        let mut client = gateway.client();
        client.send(&request);
        assert_eq!(client.response().status(), 200, "{pass}");
        let sent = peer.received(0);
        assert!(sent.starts_with(&[b"GET ", &target[..], b" HTTP/1.1\r\n"].concat()), "{}", sent.escape_ascii());
    }
}

#[test]
fn r36_a_long_request_line() {
    let line = format!("GET /{} HTTP/1.1", "a".repeat(20_000));
    refused([line], 414, "client sent too long URI");
}

#[test]
fn r36_a_request_line_without_end_is_refused_at_the_limit() {
    let site = Site::of(Peer::saying(HELLO));
    site.refuses(format!("GET /{}", "a".repeat(9000)), 414, "client sent too long URI");
    site.peer_saw_nothing();
}

#[test]
fn r51_tls_and_other_protocols_on_a_plain_port() {
    let site = Site::of(Peer::saying(HELLO));
    site.refuses(b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", 400, "client sent invalid method");
    site.refuses("PROXY TCP4 1.2.3.4 5.6.7.8 1 2\r\nGET / HTTP/1.1\r\n\r\n", 400, "client sent invalid request");
    site.refuses(b"\r\n\r\n\0\r\nQUIT\n!", 400, "client sent invalid method");
    site.refuses("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 400, "client sent invalid request");
    site.refuses("SSH-2.0-OpenSSH_9.6\r\n", 400, "client sent invalid ");
    site.is_alive();
    site.peer_saw_nothing();
}
