//! `early_hints`: 103 responses before the final one. The installed nginx does not have the directive, so this tests
//! what nginx 1.29 documents.

use crate::site::{GET, HELLO, Site};
use testkit::{Peer, Signal, Talk};

const HINT: &str =
    "HTTP/1.1 103 Early Hints\r\nLink: </style.css>; rel=preload\r\nServer: inside\r\nContent-Length: 3\r\n\r\n";

/// A peer that sends a hint and waits for a signal before it answers.
fn hinting(hint: &'static str, go: &Signal) -> Peer {
    let go = go.clone();
    Peer::script(move |mut talk: Talk| {
        while talk.request().is_some() {
            talk.send(hint);
            talk.wait(&go);
            talk.send(HELLO);
        }
    })
}

#[test]
fn early_hints_precede_the_response_where_configured() {
    let go = Signal::new();
    let site = Site::with(hinting(HINT, &go), "early_hints $http_sec_fetch_mode;");
    let mut client = site.client();
    client.send("GET / HTTP/1.1\r\nHost: a\r\nSec-Fetch-Mode: navigate\r\n\r\n");
    // The response has not been sent yet: this arrives alone.
    let hint = client.head().unwrap();
    assert_eq!((hint.status(), hint.value("Link")), (103, Some("</style.css>; rel=preload")));
    assert_eq!((hint.value("Server"), hint.value("Content-Length"), hint.value("Connection")), (None, None, None));
    go.raise();
    let response = client.response();
    assert_eq!((response.status(), response.text(), response.value("Link")), (200, "hello".into(), None));
    client.send(GET);
    assert_eq!(client.response().status(), 200, "no value, no hint");
    assert_eq!(site.peer.connections(), 1);
    let lines = site.gateway.access_lines(2);
    assert!(lines.iter().all(|line| line.starts_with("200 ")), "{lines:?}");
}

#[test]
fn one_value_other_than_empty_or_zero_is_enough() {
    for (words, hints) in [
        ("early_hints '';", false),
        ("early_hints 0;", false),
        ("early_hints 0 ''; early_hints 1;", true),
        ("early_hints $arg_none$arg_neither;", false),
        ("early_hints 00;", true),
    ] {
        let go = Signal::new();
        go.raise();
        let site = Site::with(hinting(HINT, &go), words);
        let mut client = site.client();
        client.send(GET);
        let first = client.response();
        assert_eq!(first.status() == 103, hints, "{words}");
        let last = if hints { client.response() } else { first };
        assert_eq!(last.text(), "hello", "{words}");
    }
}

#[test]
fn no_hint_without_a_capable_client_or_a_field() {
    let go = Signal::new();
    go.raise();
    let site = Site::with(hinting(HINT, &go), "early_hints 1;");
    assert_eq!(site.ask("GET / HTTP/1.0\r\nHost: a\r\n\r\n").status(), 200);
    let site = Site::with(hinting(HINT, &go), "early_hints 1; proxy_hide_header Link;");
    assert_eq!(site.ask(GET).status(), 200);
    let site = Site::with(
        hinting("HTTP/1.1 103 Early Hints\r\n\r\nHTTP/1.1 102 Processing\r\nX-A: 1\r\n\r\n", &go),
        "early_hints 1;",
    );
    assert_eq!(site.ask(GET).status(), 200);
}

#[test]
fn hints_may_have_as_many_bytes_as_a_response_head() {
    const LARGE: usize = 700;
    let peer = Peer::script(|mut talk| {
        while talk.request().is_some() {
            for number in 0..3 {
                talk.send(format!(
                    "HTTP/1.1 103 Early Hints\r\nX-Number: {number}\r\nX-A: {}\r\n\r\n",
                    "a".repeat(LARGE)
                ));
            }
            talk.send(HELLO);
        }
    });
    let site = Site::with(peer, "early_hints 1; proxy_buffer_size 1k; proxy_buffers 2 1k; proxy_busy_buffers_size 1k;");
    let mut client = site.client();
    client.send(GET);
    let hint = client.response();
    assert_eq!((hint.status(), hint.value("X-Number")), (103, Some("0")));
    assert_eq!(client.response().text(), "hello");
    site.gateway.logged("upstream sent too big early hints");
}

#[test]
fn peer_failing_after_its_hint_is_followed_by_the_next() {
    let failing = Peer::script(|mut talk| {
        if talk.request().is_some() {
            talk.send(HINT);
            talk.close();
        }
    });
    let other = Peer::saying(HELLO);
    let text = crate::site::text(2, "", "early_hints 1;");
    let gateway = testkit::Gateway::start(&text, &[failing.address(), other.address()]);
    let mut client = gateway.client();
    client.send(GET);
    assert_eq!(client.response().status(), 103);
    assert_eq!(client.response().text(), "hello");
}
