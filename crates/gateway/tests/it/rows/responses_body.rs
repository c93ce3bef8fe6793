//! S9, S10 and S15–S18: bodies that are longer or shorter than they should be.

use crate::site::{GET, HELLO, Site};
use testkit::{End, Peer, Signal};

/// From a client for which only the end of the connection ends an unframed body.
const OLD_GET: &str = "GET / HTTP/1.0\r\n\r\n";

#[test]
fn s09_bytes_behind_content_length_are_not_passed_on() {
    let more = "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhelloHTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nevil";
    let peer = Peer::answering(move |request| if request.target() == "/" { more.into() } else { HELLO.into() });
    let site = Site::of(peer);
    let mut client = site.client();
    client.send(GET);
    assert_eq!(client.response().text(), "hello");
    // The next request gets neither the excess bytes nor the connection on which they came.
    client.send("GET /next HTTP/1.1\r\nHost: a\r\n\r\n");
    assert_eq!(client.response().text(), "hello");
    assert_eq!(site.peer.requests().iter().map(|(serial, _)| *serial).collect::<Vec<_>>(), [0, 1]);
    let lines = site.gateway.access_lines(1);
    assert!(lines[0].contains("closed=protocol error"), "{lines:?}");
}

#[test]
fn s09_bytes_behind_the_last_chunk_are_not_passed_on() {
    let more = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\nevil";
    let site = Site::of(Peer::saying(more));
    let mut client = site.client();
    for _ in 0..2 {
        client.send(GET);
        assert_eq!(client.response().text(), "hello");
    }
    assert_eq!(site.peer.connections(), 2);
}

#[test]
fn s09_bytes_that_come_after_a_while() {
    let (served, sent) = (Signal::new(), Signal::new());
    let peer = Peer::script({
        let (served, sent) = (served.clone(), sent.clone());
        move |mut talk| {
            while talk.request().is_some() {
                talk.send(HELLO);
                if talk.serial() == 0 {
                    talk.wait(&served);
                    talk.send("evil");
                    sent.raise();
                    // The gateway closes a connection that it cannot reuse.
                    assert!(talk.request().is_none());
                    return;
                }
            }
        }
    });
    let site = Site::of(peer);
    assert_eq!(site.ask(GET).text(), "hello");
    served.raise();
    sent.wait();
    assert_eq!(site.ask(GET).text(), "hello");
    assert_eq!(site.peer.connections(), 2);
}

#[test]
fn s10_responses_that_have_no_body_but_bring_one() {
    for (status, asked) in [("204 No Content", "GET"), ("304 Not Modified", "GET"), ("200 OK", "HEAD")] {
        let site = Site::of(Peer::saying(format!("HTTP/1.1 {status}\r\nContent-Length: 4\r\n\r\nevil")));
        let mut client = site.client();
        for _ in 0..2 {
            client.send(format!("{asked} / HTTP/1.1\r\nHost: a\r\n\r\n"));
            let response = client.response_to_head();
            assert_eq!(response.line, format!("HTTP/1.1 {status}"));
        }
        assert_eq!(site.peer.connections(), 2, "{status}: a connection with bytes behind a response is not used again");
        let lines = site.gateway.access_lines(2);
        assert!(lines[0].contains("closed=protocol error"), "{lines:?}");
    }
}

/// The upstream's response begins correctly and continues as the closure says; the client must see that it is
/// truncated.
#[track_caller]
fn cut(request: &str, start: &str, goes_on: impl Fn(&mut testkit::Talk) + Send + Sync + 'static, phrase: &str) -> End {
    let seen = Signal::new();
    let peer = Peer::script({
        let (start, seen) = (start.to_owned(), seen.clone());
        move |mut talk| {
            if talk.request().is_some() {
                talk.send(&start);
                talk.wait(&seen);
                goes_on(&mut talk);
            }
        }
    });
    let site = Site::of(peer);
    let mut client = site.client();
    client.send(request);
    // The client has the head before the fault: no other status can be sent any more.
    assert!(client.receives_within(testkit::DEADLINE));
    seen.raise();
    let (response, end) = client.cut_response();
    assert_eq!(response.status(), 200);
    assert!(response.text().starts_with("hel"), "{response:?}");
    site.gateway.logged(phrase);
    site.is_alive();
    let lines = site.gateway.access_lines(1);
    assert!(lines[0].starts_with("200 side=upstream"), "{lines:?}");
    assert_eq!(site.peer.requests().len(), 1, "never tried again: a part of the response is with the client");
    end
}

const CHUNKED: &str = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nhel\r\n";
const LENGTH: &str = "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhel";
const UNTIL_CLOSE: &str = "HTTP/1.1 200 OK\r\n\r\nhel";

#[test]
fn s15_a_bad_chunk_behind_the_head() {
    cut(GET, CHUNKED, |talk| talk.send("zz\r\nlo\r\n0\r\n\r\n"), "upstream sent invalid chunked response");
}

#[test]
fn s15_a_bad_chunk_where_the_client_has_no_framing() {
    // An HTTP/1.0 client takes the end of the connection for the end of the body, unless the connection ends with a
    // reset.
    let end = cut(OLD_GET, CHUNKED, |talk| talk.send("zz\r\n"), "upstream sent invalid chunked response");
    assert_eq!(end, End::Reset);
}

#[test]
fn s16_a_short_body_and_fin() {
    cut(GET, LENGTH, testkit::Talk::close, "upstream prematurely closed connection while reading upstream");
}

#[test]
fn s16_a_short_body_and_rst() {
    cut(GET, LENGTH, testkit::Talk::reset, "while reading upstream");
}

#[test]
fn s17_chunked_without_its_end_and_fin() {
    cut(GET, CHUNKED, testkit::Talk::close, "upstream prematurely closed connection while reading upstream");
    let end =
        cut(OLD_GET, CHUNKED, testkit::Talk::close, "upstream prematurely closed connection while reading upstream");
    assert_eq!(end, End::Reset);
}

#[test]
fn s18_until_close_and_rst() {
    cut(GET, UNTIL_CLOSE, testkit::Talk::reset, "while reading upstream");
    let end = cut(OLD_GET, UNTIL_CLOSE, testkit::Talk::reset, "while reading upstream");
    assert_eq!(end, End::Reset);
}

#[test]
fn s18_until_close_and_fin_is_a_whole_response() {
    let site = Site::of(Peer::saying_once("HTTP/1.1 200 OK\r\n\r\nhello"));
    let mut client = site.client();
    client.send(GET);
    let response = client.response();
    assert_eq!((response.text(), response.value("Transfer-Encoding")), ("hello".into(), Some("chunked")));
    client.send(OLD_GET);
    let response = client.response();
    assert_eq!((response.text(), response.value("Transfer-Encoding")), ("hello".into(), None));
    assert_eq!(client.end(), End::Fin);
}

#[test]
fn s00_bodies_of_every_framing_arrive_whole() {
    let body = (0..50_000).map(|number| format!("{number:06} ")).collect::<Vec<_>>().concat();
    let chunked = body
        .as_bytes()
        .chunks(7000)
        .map(|piece| format!("{:x}\r\n{}\r\n", piece.len(), String::from_utf8_lossy(piece)))
        .collect::<Vec<_>>()
        .concat();
    for response in [
        format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{body}", body.len()),
        format!("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n{chunked}0\r\n\r\n"),
        format!("HTTP/1.1 200 OK\r\n\r\n{body}"),
    ] {
        for buffering in ["on", "off"] {
            let peer = Peer::saying_once(response.clone());
            let site = Site::with(peer, &format!("proxy_buffering {buffering};"));
            for request in [GET, OLD_GET] {
                assert_eq!(site.ask(request).text(), body);
            }
        }
    }
}

#[test]
fn s16_an_upstream_that_stops_in_the_middle_of_a_body() {
    let over = Signal::new();
    let peer = Peer::script({
        let over = over.clone();
        move |mut talk| {
            talk.request();
            talk.send(LENGTH);
            talk.rest();
            over.raise();
        }
    });
    let site = Site::with(peer, "proxy_read_timeout 1s;");
    let mut client = site.client();
    client.send(GET);
    let (response, _) = client.cut_response();
    assert_eq!(response.text(), "hel");
    over.wait();
    site.gateway.logged("upstream timed out (110: Connection timed out) while reading upstream");
}

#[test]
fn s00_early_refusal_arrives_during_the_upload() {
    // A typical upstream: it answers 413 and closes with most of the body unread, which the kernel turns into a reset.
    let refusal = "HTTP/1.1 413 Too Large\r\nConnection: close\r\nContent-Length: 3\r\n\r\nno!";
    // A body that is collected first must arrive completely; for a streamed one, a part is enough.
    for (buffering, sent) in [("on", 20_000_000), ("off", 1_000_000)] {
        let peer = Peer::script(move |mut talk| {
            talk.head();
            talk.send(refusal);
        });
        let location = format!("proxy_request_buffering {buffering}; client_body_buffer_size 64k;");
        let site = Site::with(peer, &location);
        let mut client = site.client();
        client.send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 20000000\r\n\r\n");
        client.send("x".repeat(sent));
        let response = client.response();
        assert_eq!((response.status(), response.text()), (413, "no!".into()));
        site.is_alive();
    }
}

#[test]
fn s00_keepalive_of_an_http10_client() {
    let peer = Peer::answering(|request| {
        let body = "5\r\nhello\r\n0\r\n\r\n";
        if request.target() == "/chunked" {
            format!("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n{body}").into_bytes()
        } else {
            HELLO.into()
        }
    });
    let site = Site::of(peer);
    let mut client = site.client();
    for _ in 0..3 {
        client.send("GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n");
        let response = client.response();
        assert_eq!((response.text(), response.value("Connection")), ("hello".into(), Some("keep-alive")));
    }
    // Without a length, only the end of the connection ends the body.
    client.send("GET /chunked HTTP/1.0\r\nConnection: keep-alive\r\n\r\n");
    let response = client.response();
    assert_eq!((response.text(), response.announces_close()), ("hello".into(), true));
    assert_eq!(client.end(), End::Fin);
}
