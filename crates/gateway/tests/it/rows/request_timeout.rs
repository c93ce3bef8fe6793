//! `proxy_request_timeout`: the time of a whole request. Further attempts and slow bytes do not extend it.

use crate::site::{GET, HELLO, text};
use testkit::{Gateway, Peer, Talk};

fn silence(mut talk: Talk) {
    talk.request();
    talk.sits_still();
}

/// Five bytes of a longer body, and then nothing.
fn half_a_response(mut talk: Talk) {
    talk.request();
    talk.send("HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\nhello");
    talk.sits_still();
}

#[test]
fn request_timeout_spans_all_attempts() {
    let peers = [(); 3].map(|()| Peer::script(silence));
    let location = "proxy_request_timeout 400ms; proxy_read_timeout 300ms;";
    let gateway = Gateway::start(&text(3, "", location), &peers.each_ref().map(Peer::address));
    let mut client = gateway.client();
    client.send(GET);
    assert_eq!(client.response().status(), 504);
    gateway.logged("the time of the request (proxy_request_timeout) is over");
    let asked: usize = peers.iter().map(Peer::connections).sum();
    assert!((1..3).contains(&asked), "the third attempt would come after the time: {asked}");
}

#[test]
fn request_timeout_includes_the_body_of_the_request() {
    let peer = Peer::saying(HELLO);
    let gateway = Gateway::start(&text(1, "", "proxy_request_timeout 200ms;"), &[peer.address()]);
    let mut client = gateway.client();
    client.send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhel");
    assert_eq!(client.response().status(), 504);
    assert_eq!(peer.connections(), 0);
}

#[test]
fn request_timeout_cuts_a_response_that_has_begun() {
    let peer = Peer::script(half_a_response);
    for pace in ["", "limit_rate 200;"] {
        let location = format!("proxy_request_timeout 300ms; proxy_buffering off; {pace}");
        let gateway = Gateway::start(&text(1, "", &location), &[peer.address()]);
        let mut client = gateway.client();
        client.send(GET);
        let (response, _) = client.cut_response();
        assert_eq!((response.status(), &*response.text()), (200, "hello"), "{pace}");
        gateway.logged("the time of the request (proxy_request_timeout) is over while reading upstream");
    }
}

#[test]
fn request_timeout_is_no_limit_of_quick_requests() {
    let peer = Peer::saying(HELLO);
    let gateway = Gateway::start(&text(1, "", "proxy_request_timeout 20s;"), &[peer.address()]);
    let mut client = gateway.client();
    for _ in 0..3 {
        client.send(GET);
        assert_eq!(client.response().text(), "hello");
    }
}
