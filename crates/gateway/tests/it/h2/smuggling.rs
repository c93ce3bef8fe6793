//! Requests that HTTP/1 would read differently are refused on their stream, and never reach an upstream.

use super::{connect, gateway};
use http2::ErrorCode;
use testkit::{Gateway, Http2Talk, Peer, Talk, http2_block, http2_frame};

const BEGINNING: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0";
const PSEUDO: [(&[u8], &[u8]); 4] =
    [(b":method", b"POST"), (b":scheme", b"http"), (b":authority", b"a.example"), (b":path", b"/")];

fn proxied() -> (Peer, Gateway) {
    let peer = Peer::saying("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
    let server = "location / { proxy_pass http://{upstream:0}; } location /own { return 200 own; } \
                  location /status { status_page; }";
    let gateway = gateway(server, &[peer.address()]);
    (peer, gateway)
}

/// The first frame received on a stream: its type and payload.
fn reply(client: &mut Talk, stream: u32) -> (u8, Vec<u8>) {
    loop {
        let header = client.read(9);
        let length = u32::from_be_bytes([0, header[0], header[1], header[2]]) as usize;
        let payload = client.read(length);
        // WINDOW_UPDATE is no answer.
        if header[3] != 8 && u32::from_be_bytes([header[5], header[6], header[7], header[8]]) == stream {
            return (header[3], payload);
        }
    }
}

/// Streams that ended for a fault with this reason.
fn counted(status: &str, reason: &str) -> u64 {
    let name = format!("holdfast_http2_stream_faults_total{{reason=\"{reason}\"}} ");
    status.lines().find_map(|line| line.strip_prefix(&name)?.parse().ok()).unwrap()
}

fn is_refused(fields: &[(&[u8], &[u8])]) {
    let (peer, gateway) = proxied();
    let mut client = Talk::connect(gateway.address());
    client.send(BEGINNING);
    client.send(http2_frame(1, 5, 1, &http2_block(fields)));
    let (kind, payload) = reply(&mut client, 1);
    assert_eq!((kind, &payload[..]), (3, &[0, 0, 0, 1][..]), "RST_STREAM with PROTOCOL_ERROR for {fields:?}");
    assert_eq!(peer.connections(), 0, "{fields:?}");
    let line = gateway.logged("HTTP/2 stream 1 was reset, because of its client: ");
    assert!(line.contains(" [info] ") && line.contains("client: 127.0.0.1"), "{line}");
    let status = gateway.client().get("/status?format=prometheus", "").text();
    let faults: u64 = ["head", "body_length"].iter().map(|reason| counted(&status, reason)).sum();
    assert_eq!(faults, 1, "{fields:?}");
    // The connection continues, and its header table stays valid.
    let own = [(&b":method"[..], &b"GET"[..]), (b":scheme", b"http"), (b":authority", b"a"), (b":path", b"/own")];
    client.send(http2_frame(1, 5, 3, &http2_block(&own)));
    assert_eq!(reply(&mut client, 3).0, 1, "HEADERS");
}

fn with(further: &[(&'static [u8], &'static [u8])]) -> Vec<(&'static [u8], &'static [u8])> {
    PSEUDO.iter().chain(further).copied().collect()
}

#[test]
fn h24_line_ends_nul_and_spaces_reach_no_upstream() {
    for field in [
        (&b"x-a"[..], &b"1\r\nX-B: 2"[..]),
        (b"x-a", b"1\nX-B: 2"),
        (b"x-a", b"1\0"),
        (b"x-a\r\nx-b", b"1"),
        (b"x a", b"1"),
        (b"x-a:", b"1"),
        (b"X-A", b"1"),
        (b"", b"1"),
        (b"x-a", b" 1"),
    ] {
        is_refused(&with(&[field]));
    }
}

#[test]
fn h25_refuses_heads_that_change_meaning_in_http1() {
    for (place, value) in [
        (0, &b"GET / HTTP/1.1\r\nHost: b\r\n\r\nGET"[..]),
        (0, b""),
        (2, b"a.example\r\nX-B: 1"),
        (2, b"user@a.example"),
        (3, b"/ HTTP/1.1\r\nHost: b\r\n\r\n"),
        (3, b"/a b"),
        (3, b""),
        (3, b"http://b.example/"),
        (3, b"*"),
    ] {
        let mut fields = with(&[]);
        fields[place].1 = value;
        is_refused(&fields);
    }
}

#[test]
fn h26_fields_of_one_connection_are_refused() {
    for field in [
        (&b"connection"[..], &b"close"[..]),
        (b"connection", b"x-a"),
        (b"keep-alive", b"1"),
        (b"proxy-connection", b"close"),
        (b"transfer-encoding", b"chunked"),
        (b"upgrade", b"websocket"),
        (b"te", b"gzip"),
        (b"te", b"trailers, chunked"),
    ] {
        is_refused(&with(&[field]));
    }
}

#[test]
fn h27_two_hosts_or_lengths_are_refused() {
    is_refused(&with(&[(b"host", b"b.example")]));
    is_refused(&with(&[(b"host", b"a.example"), (b"host", b"a.example")]));
    is_refused(&with(&[(b"content-length", b"0"), (b"content-length", b"1")]));
    is_refused(&with(&[(b"content-length", b"+1")]));
    is_refused(&with(&[(b":path", b"/b")]));
    is_refused(
        &[PSEUDO[0], PSEUDO[1], PSEUDO[3]].into_iter().chain([(&b"host"[..], &b"a\r\nb"[..])]).collect::<Vec<_>>(),
    );
}

#[test]
fn h28_wrong_body_length_is_refused() {
    let (peer, gateway) = proxied();
    for (length, body) in [("5", &b"abc"[..]), ("2", b"abc")] {
        let mut raw = Talk::connect(gateway.address());
        raw.send(BEGINNING);
        let mut fields = with(&[]);
        fields.push((b"content-length", if length == "5" { b"5" } else { b"2" }));
        raw.send(http2_frame(1, 4, 1, &http2_block(&fields)));
        raw.send(http2_frame(0, 1, 1, body));
        let (kind, payload) = reply(&mut raw, 1);
        assert_eq!((kind, &payload[..]), (3, &[0, 0, 0, 1][..]), "{length}");
    }
    assert!(peer.requests().is_empty(), "{:?}", peer.requests());
}

#[test]
fn h29_trailers_change_nothing_that_the_head_has_decided() {
    let peer = Peer::saying("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
    let gateway =
        gateway("location / { proxy_request_buffering off; proxy_pass http://{upstream:0}; }", &[peer.address()]);
    let mut client: Http2Talk = connect(&gateway);
    let stream = client.open("POST", "/", &[], false);
    client.send(stream, b"body", false);
    client.send_trailers(stream, &[("host", "b.example"), ("content-length", "3"), ("authorization", "x")]);
    assert_eq!(client.answer(stream).status, 200);
    let request = peer.only_request();
    assert_eq!(request.value("Authorization"), None);
    assert_ne!(request.value("Content-Length"), Some("3"));
    assert_ne!(request.value("Host"), Some("b.example"));
}

#[test]
fn h30_a_head_that_is_too_large_is_answered() {
    let gateway = gateway("large_client_header_buffers 2 1k; return 200 x;", &[]);
    let mut client = connect(&gateway);
    let long = "x".repeat(2000);
    let stream = client.open("GET", "/", &[("x-a", &long), ("x-b", &long)], true);
    let answer = client.answer(stream);
    assert_eq!(answer.status, 400, "{answer:?}");
    assert_ne!(answer.reset, Some(ErrorCode::PROTOCOL_ERROR));
    assert_eq!(client.get("/").status, 200);
    // One field of all that there is room for is too long as well.
    let stream = client.open("GET", "/", &[("x-a", &long[..1500])], true);
    assert_eq!(client.answer(stream).status, 400);
    assert_eq!(client.get("/").status, 200);
}
