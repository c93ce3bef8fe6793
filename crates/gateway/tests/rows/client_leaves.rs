//! U13 and U14: a client that leaves, and a client that has only said everything it wanted to say.

use crate::site::{GET, HELLO, Site, post};
use testkit::{End, Peer, Signal, Talk};

/// A peer that says nothing until the signal; then it answers, or has noticed that nobody listens.
fn slow_peer(asked: &Signal, go: &Signal, noticed: &Signal) -> Peer {
    let (asked, go, noticed) = (asked.clone(), go.clone(), noticed.clone());
    Peer::script(move |mut talk| {
        let Some(request) = talk.request() else { return };
        asked.raise();
        if request.target() == "/leaves" {
            assert!(talk.request().is_none());
            noticed.raise();
        } else {
            talk.wait(&go);
            talk.send(HELLO);
            talk.request();
        }
    })
}

fn site(location: &str) -> (Site, Signal, Signal, Signal) {
    let (asked, go, noticed) = (Signal::new(), Signal::new(), Signal::new());
    (Site::with(slow_peer(&asked, &go, &noticed), location), asked, go, noticed)
}

#[test]
fn u13_a_client_that_leaves_is_logged_as_499_and_the_upstream_is_closed() {
    for request in [
        "GET /leaves HTTP/1.1\r\nHost: a\r\n\r\n",
        "POST /leaves HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nworld",
    ] {
        let (site, asked, _go, noticed) = site("");
        let mut client = site.client();
        client.send(request);
        asked.wait();
        client.reset();
        noticed.wait();
        let lines = site.gateway.access_lines(1);
        assert!(lines[0].starts_with("499 side=client"), "{lines:?}");
        assert_eq!(site.peer.connections(), 1, "not tried again for nobody");
        site.gateway.until_totals("the client's connection is gone", |totals| totals.active == 0);
        site.is_alive();
    }
}

#[test]
fn u13_with_ignore_client_abort_the_upstream_works_on() {
    let (site, asked, go, _noticed) = site("proxy_ignore_client_abort on;");
    let mut client = site.client();
    client.send(GET);
    asked.wait();
    client.reset();
    site.is_alive();
    go.raise();
    let lines = site.gateway.access_lines(2);
    assert!(lines.iter().any(|line| line.contains("tries=200 ")), "{lines:?}");
    assert_eq!(site.peer.connections(), 1);
}

#[test]
fn u13_a_client_that_leaves_in_the_middle_of_its_body() {
    for buffering in ["on", "off"] {
        let peer = Peer::script(|mut talk| {
            // Whatever comes is no whole request.
            assert!(talk.request().is_none());
        });
        let site = Site::with(peer, &format!("proxy_request_buffering {buffering};"));
        let mut client = site.client();
        client.send(post("Content-Length: 10\r\n") + "half");
        site.gateway.until_totals("the exchange", |totals| totals.writing == 1);
        client.close();
        site.gateway.logged("client prematurely closed connection");
        site.gateway.until_totals("the client's connection is gone", |totals| totals.active == 0);
        site.is_alive();
    }
}

#[test]
fn u13_a_client_that_leaves_during_the_response() {
    let (begun, noticed) = (Signal::new(), Signal::new());
    let peer = Peer::script({
        let (begun, noticed) = (begun.clone(), noticed.clone());
        move |mut talk: Talk| {
            talk.request();
            talk.send("HTTP/1.1 200 OK\r\nContent-Length: 100000000\r\n\r\nhello");
            begun.raise();
            let (_, _) = talk.rest();
            noticed.raise();
        }
    });
    let site = Site::of(peer);
    let mut client = site.client();
    client.send(GET);
    begun.wait();
    assert!(client.hears_within(testkit::DEADLINE));
    client.reset();
    noticed.wait();
    let lines = site.gateway.access_lines(1);
    assert!(lines[0].starts_with("200 side=client"), "{lines:?}");
    site.is_alive();
}

#[test]
fn u14_a_client_that_half_closes_after_a_whole_request_is_answered() {
    for request in [GET.to_owned(), post("Content-Length: 5\r\n") + "world"] {
        let (site, asked, go, _noticed) = site("");
        let mut client = site.client();
        client.send(request);
        client.half_close();
        asked.wait();
        // The gateway has seen the FIN by the time it has served somebody else.
        site.is_alive();
        go.raise();
        assert_eq!(client.response().text(), "hello");
        assert_eq!(client.end(), End::Fin);
    }
}

#[test]
fn u14_pipelined_requests_before_a_half_close_are_answered() {
    let site = Site::of(Peer::saying(HELLO));
    let mut client = site.client();
    client.send(GET.repeat(3));
    client.half_close();
    for _ in 0..3 {
        assert_eq!(client.response().text(), "hello");
    }
    assert_eq!(client.end(), End::Fin);
}

#[test]
fn u14_a_long_response_to_a_client_that_half_closed() {
    let body = "x".repeat(3_000_000);
    let site = Site::of(Peer::saying(format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{body}", body.len())));
    let mut client = site.client();
    client.send(GET);
    client.half_close();
    assert_eq!(client.response().body.len(), body.len());
    assert_eq!(client.end(), End::Fin);
}

#[test]
fn u13_a_client_that_leaves_while_the_upstream_is_connected_to() {
    let deaf = testkit::Deaf::new();
    let conf = crate::site::text(1, "", "proxy_connect_timeout 20s;");
    let gateway = testkit::Gateway::start(&conf, &[deaf.address()]);
    let mut client = gateway.client();
    client.send(GET);
    gateway.until_totals("the exchange", |totals| totals.writing == 1);
    client.reset();
    let lines = gateway.access_lines(1);
    assert!(lines[0].starts_with("499 side=client"), "{lines:?}");
    gateway.until_totals("nobody", |totals| totals.active == 0);
}
