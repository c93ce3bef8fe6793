//! Request bodies on their way to an upstream: in memory, in a temporary file, streamed, refused.

use crate::scene::Gateway;
use testkit::Response;
use testkit::{Peer, Refusing};

const PROXY: &str = "client_body_temp_path spool 1 2; client_body_buffer_size 8k; client_max_body_size 2m; \
    location / { proxy_pass http://{upstream:0}; } \
    location /stream { proxy_pass http://{upstream:0}; proxy_request_buffering off; }";

fn body(bytes: usize) -> Vec<u8> {
    (0..bytes).map(|index| b'a' + (index / 13 % 26) as u8).collect()
}

/// Answers with the length of the body and how it was framed.
fn counting() -> Peer {
    Peer::answering(|request| {
        let framing = request.value("Content-Length").unwrap_or("chunked").to_owned();
        let text = format!("{} {framing}", request.body.len());
        format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{text}", text.len()).into_bytes()
    })
}

fn post(gateway: &Gateway, target: &str, body: &[u8]) -> Response {
    let head =
        format!("POST {target} HTTP/1.1\r\nHost: a\r\nConnection: close\r\nContent-Length: {}\r\n\r\n", body.len());
    gateway.exchange([head.as_bytes(), body].concat())
}

fn post_chunked(gateway: &Gateway, target: &str, body: &[u8]) -> Response {
    let mut request =
        format!("POST {target} HTTP/1.1\r\nHost: a\r\nConnection: close\r\nTransfer-Encoding: chunked\r\n\r\n")
            .into_bytes();
    for chunk in body.chunks(3000) {
        request.extend_from_slice(format!("{:x}\r\n", chunk.len()).as_bytes());
        request.extend_from_slice(chunk);
        request.extend_from_slice(b"\r\n");
    }
    request.extend_from_slice(b"0\r\n\r\n");
    gateway.exchange(request)
}

#[test]
fn bodies_of_every_size_arrive_whole() {
    let peer = counting();
    let gateway = Gateway::start_before(PROXY, "", &[peer.address()]);
    for bytes in [0, 1, 8 * 1024, 8 * 1024 + 1, 300_000, 2 * 1024 * 1024] {
        let body = body(bytes);
        assert_eq!(post(&gateway, "/", &body).text(), format!("{bytes} {bytes}"));
        assert!(peer.requests().last().unwrap().1.body == body, "{bytes} bytes with a length");
        assert_eq!(post_chunked(&gateway, "/", &body).text(), format!("{bytes} {bytes}"));
        assert!(peer.requests().last().unwrap().1.body == body, "{bytes} bytes in chunks");
        assert_eq!(post(&gateway, "/stream", &body).text(), format!("{bytes} {bytes}"));
        // A body that has arrived completely before it is passed on has a length.
        let response = post_chunked(&gateway, "/stream", &body);
        let streamed = response.text();
        let is_small = bytes <= 8 * 1024 + 1;
        assert!(
            streamed == format!("{bytes} chunked") || (is_small && streamed == format!("{bytes} {bytes}")),
            "{streamed}"
        );
        assert!(peer.requests().last().unwrap().1.body == body, "{bytes} bytes streamed");
    }
    assert!(gateway.directory.join("spool").is_dir(), "the larger ones went through files");
    assert_eq!(gateway.files_below("spool"), 0, "whose names are gone");
}

#[test]
fn buffered_body_is_resent_to_the_next_peer() {
    let (nobody, cold) = (Refusing::new(), Peer::script(|mut talk| drop(talk.read(100_000))));
    let peer = counting();
    let upstreams = [nobody.address(), cold.address(), peer.address()];
    let http = "upstream all { server {upstream:0}; server {upstream:1}; server {upstream:2}; }";
    let server = "client_body_buffer_size 8k; location / { proxy_pass http://all; \
        proxy_next_upstream error timeout non_idempotent; }";
    let gateway = Gateway::start_before(server, http, &upstreams);
    let body = body(700_000);
    assert_eq!(post(&gateway, "/", &body).text(), "700000 700000");
    assert!(peer.only_request().body == body);
}

#[test]
fn a_kept_file_has_the_body() {
    let peer = counting();
    let server = "client_body_in_file_only on; client_body_temp_path spool; \
        location / { proxy_pass http://{upstream:0}; }";
    let gateway = Gateway::start_before(server, "", &[peer.address()]);
    assert_eq!(post(&gateway, "/", b"small").text(), "5 5");
    let entry = std::fs::read_dir(gateway.directory.join("spool")).unwrap().next().unwrap().unwrap();
    assert_eq!(std::fs::read(entry.path()).unwrap(), b"small");
}

#[test]
fn clean_keeps_the_name_until_the_response_is_sent() {
    let peer = Peer::answering(|request| {
        let body = std::fs::read_to_string(request.value("X-File").unwrap()).unwrap();
        format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{body}", body.len()).into_bytes()
    });
    let server = "client_body_in_file_only clean; client_body_temp_path spool; \
        location / { proxy_set_header X-File $request_body_file; proxy_pass http://{upstream:0}; }";
    let gateway = Gateway::start_before(server, "", &[peer.address()]);
    assert_eq!(post(&gateway, "/", b"small").text(), "small");
    assert!(peer.only_request().value("X-File").unwrap().contains("/spool/"));
    testkit::until("the file is removed", || (gateway.files_below("spool") == 0).then_some(()));
    gateway.expect_error("a client request body is buffered to a temporary file ");
}

#[test]
fn a_body_beyond_the_limit_is_413_however_it_comes() {
    let peer = counting();
    let gateway = Gateway::start_before(PROXY, "", &[peer.address()]);
    let large = body(2 * 1024 * 1024 + 1);
    assert_eq!(post(&gateway, "/", &large[..]).status(), 413);
    assert!(peer.requests().is_empty());
    gateway.expect_error("client intended to send too large body: 2097153 bytes");
    assert_eq!(post_chunked(&gateway, "/", &large).status(), 413);
    assert_eq!(post_chunked(&gateway, "/stream", &large).status(), 413);
    gateway.expect_error("client intended to send too large chunked body");
    assert!(peer.requests().is_empty(), "no upstream has seen a whole request");
}

#[test]
fn a_disk_that_takes_nothing_fails_that_request_alone() {
    let peer = counting();
    let gateway = Gateway::start_before(PROXY, "", &[peer.address()]);
    gateway.write("spool", "a file where the directory should be");
    assert_eq!(post(&gateway, "/", &body(9000)).status(), 500);
    gateway.expect_error("creating a temporary file in \"");
    assert_eq!(post(&gateway, "/", &body(8000)).text(), "8000 8000");
}

#[test]
fn a_client_that_stops_in_the_middle_gets_408() {
    let peer = counting();
    let gateway = Gateway::start_before(&format!("client_body_timeout 200ms; {PROXY}"), "", &[peer.address()]);
    let mut client = gateway.connect();
    client.send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 20000\r\n\r\n");
    client.send(body(15_000));
    assert_eq!(client.response().status(), 408);
    client.end();
    assert!(peer.requests().is_empty());
}
