//! `gzip` where nginx's answer depends on timing: streamed responses, truncated ones, and log lines.
#![allow(clippy::unwrap_used)] // a failed step of a test is its end

use std::io::{Read as _, Write as _};
use testkit::{Gateway, Peer, Signal};

const GET: &str = "GET / HTTP/1.1\r\nHost: a\r\nAccept-Encoding: gzip\r\n\r\n";

fn gateway(location: &str, peer: &Peer) -> Gateway {
    let text = format!(
        "events {{}} http {{ log_format ratio $gzip_ratio; access_log access.log ratio; gzip on; gzip_types *; \
         server {{ listen {{listen}}; location / {{ {location} proxy_pass http://{{upstream:0}}; }} }} }}"
    );
    Gateway::start(&text, &[peer.address()])
}

fn unpacked(bytes: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    flate2::read::GzDecoder::new(bytes).read_to_end(&mut out).unwrap();
    out
}

#[test]
fn without_buffering_each_part_goes_out_at_once() {
    each_part_goes_out_at_once("proxy_buffering off;", "");
}

#[test]
fn unbuffered_upstream_response_is_flushed_per_part() {
    each_part_goes_out_at_once("", "X-Accel-Buffering: no\r\n");
    each_part_goes_out_at_once(
        "proxy_buffering off; proxy_ignore_headers X-Accel-Buffering;",
        "X-Accel-Buffering: yes\r\n",
    );
}

fn each_part_goes_out_at_once(location: &str, fields: &'static str) {
    let seen = Signal::new();
    let peer = Peer::script({
        let seen = seen.clone();
        move |mut talk| {
            talk.request().unwrap();
            talk.send(format!("HTTP/1.1 200 OK\r\n{fields}Transfer-Encoding: chunked\r\n\r\n5\r\nfirst\r\n"));
            talk.wait(&seen);
            talk.send("6\r\nsecond\r\n0\r\n\r\n");
        }
    });
    let gateway = gateway(location, &peer);
    let mut client = gateway.client();
    client.send(GET);
    let head = client.head().unwrap();
    assert_eq!((head.status(), head.value("Content-Encoding")), (200, Some("gzip")));
    // The decoder takes bytes as they arrive; the peer continues only when the first part was decoded.
    let mut decoder = flate2::write::GzDecoder::new(Vec::new());
    let mut chunk = |client: &mut testkit::Talk| {
        let mut size = Vec::new();
        while !size.ends_with(b"\r\n") {
            size.extend_from_slice(&client.read(1));
        }
        let size = usize::from_str_radix(std::str::from_utf8(&size).unwrap().trim(), 16).unwrap();
        let bytes = client.read(size + 2);
        decoder.write_all(&bytes[..size]).unwrap();
        decoder.flush().unwrap();
        (size, decoder.get_ref().clone())
    };
    while chunk(&mut client).1 != b"first" {}
    seen.raise();
    while chunk(&mut client).0 > 0 {}
    assert_eq!(decoder.finish().unwrap(), b"firstsecond");
}

#[test]
fn compresses_large_bodies_and_logs_the_ratio() {
    let body = b"the same line again and again\n".repeat(50_000);
    let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", body.len());
    let peer = Peer::saying([head.as_bytes(), &body].concat());
    let gateway = gateway("gzip_comp_level 6;", &peer);
    let mut client = gateway.client();
    for _ in 0..2 {
        client.send(GET);
        let response = client.response();
        assert!(unpacked(&response.body) == body);
    }
    let ratio: f64 = gateway.access_lines(2)[1].parse().unwrap();
    assert!(ratio > 50.0, "{ratio}");
}

#[test]
fn a_response_that_breaks_off_is_seen_to_be_cut() {
    let peer = Peer::script(|mut talk| {
        talk.request().unwrap();
        talk.send("HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\nnot all of it");
        talk.close();
    });
    let gateway = gateway("", &peer);
    let mut client = gateway.client();
    client.send(GET);
    let (response, _) = client.cut_response();
    assert_eq!(response.value("Content-Encoding"), Some("gzip"));
    gateway.logged("upstream prematurely closed connection");
}

#[test]
fn broken_coding_leaks_no_compressor() {
    let peer = Peer::saying("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nnonsense\r\n");
    let gateway = gateway("", &peer);
    let mut client = gateway.client();
    client.send(GET);
    let response = client.response();
    assert_eq!((response.status(), response.value("Content-Encoding")), (502, None));
    assert!(response.text().contains("502 Bad Gateway"));
}
