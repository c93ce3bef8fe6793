//! S1–S8, S11–S14 and S19: invalid response heads of an upstream, and interim responses.

use crate::site::{GET, HELLO, Site};
use testkit::{Peer, Signal};

/// Each of these responses becomes a 502 with the same log phrase, and another client is served.
#[track_caller]
fn refused<R: AsRef<[u8]>>(responses: impl IntoIterator<Item = R>, phrase: &str) {
    for response in responses {
        let response = response.as_ref().to_vec();
        let shown = response.escape_ascii().to_string();
        let site = Site::of(Peer::saying_once(response));
        let mut client = site.client();
        client.send(GET);
        let answer = client.response();
        assert_eq!(answer.status(), 502, "{shown}");
        let line = site.gateway.logged(phrase);
        assert!(line.contains(" while reading response header from upstream"), "{line}");
        assert!(line.contains(&format!("upstream: \"http://{}/\"", site.peer.address())), "{line}");
        // The fault was the upstream's: the client's connection continues.
        client.send("GET /alive HTTP/1.1\r\nHost: a\r\n\r\n");
        assert_eq!(client.response().text(), "alive");
        assert_eq!(site.peer.connections(), 1, "not listed in proxy_next_upstream: one attempt");
    }
}

fn with_lines(lines: &str) -> String {
    format!("HTTP/1.1 200 OK\r\n{lines}\r\nhello")
}

#[test]
fn s01_no_status_line() {
    let lines: [&[u8]; 9] = [
        b"HTTP/1.1 2000 OK\r\n\r\n",
        b"HTTP/1.1 20 OK\r\n\r\n",
        b"HTTP/1.1 abc OK\r\n\r\n",
        b"HTTP/2 200 OK\r\n\r\n",
        b"HTTP/1.1  200 OK\r\n\r\n",
        b"SSH-2.0-OpenSSH_9.6p1 Debian-3\r\n",
        b"\x16\x03\x03\x00\x02\x02\x28",
        b"hello",
        b"\0\x01\x02\x03\x04\x05\x06\x07\x08\x09\x0a\x0b\x0c\x0d\x0e\x0f",
    ];
    refused(lines, "upstream sent no valid HTTP/1.0 header");
}

#[test]
fn s02_status_below_100() {
    refused(["HTTP/1.1 099 Low\r\n\r\n", "HTTP/1.1 000 Zero\r\n\r\n"], "upstream sent no valid HTTP/1.0 header");
}

#[test]
fn s03_content_length_and_transfer_encoding() {
    refused(
        [with_lines("Content-Length: 5\r\nTransfer-Encoding: chunked\r\n")],
        "upstream sent \"Content-Length\" and \"Transfer-Encoding\" headers at the same time",
    );
}

#[test]
fn s04_two_or_bad_content_lengths() {
    let twice = ["5", "6"].map(|second| with_lines(&format!("Content-Length: 5\r\nContent-Length: {second}\r\n")));
    refused(twice, "upstream sent duplicate header line");
    let bad = ["+5", "-5", "0x5", "5, 5", "", "18446744073709551616"]
        .map(|value| with_lines(&format!("Content-Length: {value}\r\n")));
    refused(bad, "upstream sent invalid \"Content-Length\" header");
}

#[test]
fn s05_codings_that_are_not_chunked_alone() {
    let unknown = ["gzip", "gzip, chunked"].map(|value| with_lines(&format!("Transfer-Encoding: {value}\r\n")));
    refused(unknown, "upstream sent unknown \"Transfer-Encoding\"");
    refused([with_lines("Transfer-Encoding: chunked, chunked\r\n")], "upstream sent invalid \"Transfer-Encoding\"");
    let twice = "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n";
    refused([with_lines(twice)], "upstream sent duplicate header line");
}

#[test]
fn s06_malformed_lines() {
    let lines =
        ["X : y\r\n", "X: a\0b\r\n", "X: a\rb\r\n", "X: a\r\n b\r\n", ": y\r\n", "X\x01Y: z\r\n"].map(with_lines);
    refused(lines, "upstream sent invalid header");
}

#[test]
fn s06_passes_unambiguous_heads() {
    for line in ["X[1]: v", "X/Y: v", "X: a\x1b[0mb", "X: \x7f"] {
        let site = Site::of(Peer::saying_once(with_lines(&format!("{line}\r\nContent-Length: 5\r\n"))));
        let response = site.ask(GET);
        let (name, value) = line.split_once(": ").unwrap();
        assert_eq!((response.status(), response.text(), response.value(name)), (200, "hello".into(), Some(value)));
    }
    let twice = "HTTP/1.1 200 OK\r\nContent-Type: a/b\r\nContent-Type: c/d\r\nContent-Length: 5\r\n";
    let site = Site::of(Peer::saying_once(with_lines(twice)));
    let response = site.ask(GET);
    assert_eq!((response.text(), response.values("Content-Type")), ("hello".into(), vec!["a/b"]));
}

#[test]
fn s14_chunks_that_old_servers_send() {
    for (version, body) in [
        ("1.0", "5\r\nhello\r\n0\r\n\r\n"),
        ("1.1", "5   \r\nhello\r\n0 \r\n\r\n"),
        ("1.1", "5\r\nhello\r\n0\r\nno trailer\r\n\r\n"),
    ] {
        let text =
            format!("HTTP/{version} 200 OK\r\nConnection: keep-alive\r\nTransfer-Encoding: chunked\r\n\r\n{body}");
        let site = Site::of(Peer::saying(text));
        for _ in 0..2 {
            let response = site.ask(GET);
            assert_eq!((response.status(), response.text()), (200, "hello".into()), "{version} {body:?}");
        }
        assert_eq!(site.peer.connections(), if version == "1.0" { 2 } else { 1 }, "{version} {body:?}");
    }
}

#[test]
fn s07_a_line_without_colon() {
    refused([with_lines("nocolon\r\n")], "upstream sent invalid header: the line has no colon");
}

#[test]
fn s08_a_head_larger_than_its_buffer() {
    let long = with_lines(&format!("X: {}\r\n", "a".repeat(64 * 1024)));
    refused([long, with_lines(&"X: y\r\n".repeat(10_000))], "upstream sent too big header");
}

#[test]
fn s11_an_unasked_100_is_skipped() {
    for head in ["HTTP/1.1 100 Continue\r\n\r\n", "HTTP/1.1 102 Processing\r\nX: y\r\n\r\n"] {
        let site = Site::of(Peer::saying(format!("{head}{HELLO}")));
        assert_eq!(site.ask(GET).text(), "hello");
        assert_eq!(site.ask(GET).text(), "hello");
        assert_eq!(site.peer.connections(), 1, "the connection is good after that");
    }
}

#[test]
fn s11_interim_response_in_a_separate_segment() {
    let (asked, go) = (Signal::new(), Signal::new());
    let peer = Peer::script({
        let (asked, go) = (asked.clone(), go.clone());
        move |mut talk| {
            talk.request().unwrap();
            talk.send("HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early");
            asked.raise();
            talk.wait(&go);
            talk.send_bytewise(" Hints\r\nLink: </a>\r\n\r\nHTTP/1.1 100 Again\r\n\r\n");
            talk.send(HELLO);
        }
    });
    let site = Site::of(peer);
    let mut client = site.client();
    client.send(GET);
    asked.wait();
    go.raise();
    let mut response = client.response();
    if response.status() == 103 {
        response = client.response();
    }
    assert_eq!((response.status(), response.text()), (200, "hello".into()));
}

#[test]
fn s12_interim_responses_are_bounded() {
    let early = "HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n";
    refused([early.repeat(200) + HELLO], "upstream sent more than 16 interim responses");
}

#[test]
fn s13_an_unasked_101() {
    refused(
        ["HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\nframes"],
        "upstream sent 101 (Switching Protocols) although no upgrade was asked for",
    );
}

#[test]
fn s13_unconfigured_101_is_refused() {
    let peer = Peer::saying_once("HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\n");
    let site = Site::of(peer);
    let mut client = site.client();
    client.send("GET / HTTP/1.1\r\nHost: a\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\n");
    // The request as sent has no Upgrade, so nothing may be switched.
    assert_eq!(client.response().status(), 502);
    assert_eq!(site.peer.only_request().value("Upgrade"), None);
}

#[test]
fn s13_a_101_to_another_protocol_or_as_http_1_0() {
    let set = "proxy_set_header Upgrade $http_upgrade; proxy_set_header Connection upgrade;";
    let fixed = "proxy_set_header Upgrade websocket; proxy_set_header Connection upgrade;";
    let other = "which was not asked for while reading response header from upstream";
    for (location, version, protocol, phrase) in [
        (set, "1.1", "other", "upstream sent 101 (Switching Protocols) to \"other\", "),
        (set, "1.1", "websocket, other", other),
        (set, "1.1", "websocket\r\nUpgrade: other", other),
        (set, "1.0", "websocket", "upstream sent 101 (Switching Protocols) as HTTP/1.0"),
        (fixed, "1.1", "x", other),
    ] {
        let head =
            format!("HTTP/{version} 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: {protocol}\r\n\r\n");
        let site = Site::with(Peer::saying_once(head), location);
        let asked = if location == fixed { "x" } else { "websocket" };
        let request = format!("GET / HTTP/1.1\r\nHost: a\r\nConnection: upgrade\r\nUpgrade: {asked}\r\n\r\n");
        assert_eq!(site.ask(request).status(), 502, "{version} {protocol}");
        site.gateway.logged(phrase);
    }
    let head = "HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: WebSocket\r\n\r\n";
    let site = Site::with(Peer::saying_once(head), set);
    let request = "GET / HTTP/1.1\r\nHost: a\r\nConnection: upgrade\r\nUpgrade: x\r\nUpgrade: y, websocket\r\n\r\n";
    assert_eq!(site.ask(request).status(), 101);
}

#[test]
fn an_upgrade_that_a_server_offers_is_passed_on() {
    for status in [200, 426] {
        let head = format!(
            "HTTP/1.1 {status} X\r\nConnection: Upgrade\r\nUpgrade: websocket, x/2\r\nContent-Length: 0\r\n\r\n"
        );
        let site = Site::of(Peer::saying(head));
        for _ in 0..2 {
            let response = site.ask(GET);
            assert_eq!((response.status(), response.value("Upgrade")), (status, Some("websocket, x/2")));
            assert_eq!(response.value("Connection"), Some("keep-alive"));
        }
        assert_eq!(site.peer.connections(), 1);
    }
}

#[test]
fn s14_a_bad_chunk_with_the_head() {
    let body = "Transfer-Encoding: chunked\r\n";
    for bad in ["zz\r\n", "5\nhello\r\n0\r\n\r\n", "5\r\nhello!\r\n", "0x5\r\n", "-1\r\n", "FFFFFFFFFFFFFFFFFF\r\n"] {
        refused([format!("HTTP/1.1 200 OK\r\n{body}\r\n{bad}")], "upstream sent invalid chunked response");
    }
}

#[test]
fn s19_a_head_in_one_byte_writes() {
    let peer = Peer::script(|mut talk| {
        while talk.request().is_some() {
            talk.send_bytewise("HTTP/1.1 200 OK\r\nContent-Length: 5\r\nX-Y: z\r\n\r\nhello");
        }
    });
    let site = Site::of(peer);
    for _ in 0..3 {
        let response = site.ask(GET);
        assert_eq!((response.text(), response.value("X-Y")), ("hello".into(), Some("z")));
    }
    assert_eq!(site.peer.connections(), 1);
}
