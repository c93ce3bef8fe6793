//! `proxy_next_upstream_again` and `proxy_next_upstream_pause`: attempts that do not depend on the number of peers, and the
//! pause before each.

use crate::site::{GET, HELLO, post, text};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};
use testkit::{Gateway, Peer, Refusing, until};

const FAILURE: &str = "HTTP/1.1 503 Service Unavailable\r\nContent-Length: 4\r\n\r\nbusy";
const AGAIN: &str = "proxy_next_upstream_again on; proxy_next_upstream error timeout http_503 non_idempotent;";

/// A peer that fails this many times and then answers.
fn recovers_after(failures: usize) -> Peer {
    let asked = AtomicUsize::new(0);
    Peer::answering(move |_| {
        let text = if asked.fetch_add(1, Ordering::SeqCst) < failures { FAILURE } else { HELLO };
        text.as_bytes().to_vec()
    })
}

fn serve(peers: &[&Peer], location: &str) -> Gateway {
    let addresses: Vec<_> = peers.iter().map(|peer| peer.address()).collect();
    Gateway::start(&text(peers.len(), "", &format!("{AGAIN} {location}")), &addresses)
}

/// Status and body of the response to one request.
fn ask(gateway: &Gateway, request: &str) -> (u16, String) {
    let mut client = gateway.client();
    client.send(request);
    let response = client.response();
    (response.status(), response.text())
}

#[test]
fn the_only_peer_is_asked_until_it_recovers() {
    for request in [GET, &(post("Content-Length: 5\r\n") + "world")] {
        let peer = recovers_after(2);
        let gateway = serve(&[&peer], "proxy_next_upstream_tries 4;");
        assert_eq!(ask(&gateway, request), (200, "hello".into()));
        assert_eq!(peer.requests().len(), 3);
        assert!(gateway.access_lines(1)[0].contains("tries=503, 503, 200"), "{:?}", gateway.access_lines(1));
        assert!(peer.requests().iter().all(|(_, request)| matches!(&*request.text(), "" | "world")));
    }
}

#[test]
fn all_peers_are_asked_again_unless_max_fails_takes_them_out() {
    let limit = format!("{AGAIN} proxy_next_upstream_tries 4;");
    let counting = text(2, "", &limit);
    let patient = counting
        .replace("{upstream:0}", "{upstream:0} max_fails=0")
        .replace("{upstream:1}", "{upstream:1} max_fails=0");
    for (text, asked) in [(patient, [2, 2]), (counting, [1, 1])] {
        let peers = [recovers_after(9), recovers_after(9)];
        let gateway = Gateway::start(&text, &peers.each_ref().map(Peer::address));
        assert_eq!(ask(&gateway, GET), (503, "busy".into()), "the last response is served");
        assert_eq!(peers.each_ref().map(|peer| peer.requests().len()), asked);
    }
}

#[test]
fn without_a_limit_of_tries_each_peer_is_asked_once() {
    let peers = [recovers_after(9), recovers_after(9)];
    let gateway = serve(&[&peers[0], &peers[1]], "");
    assert_eq!(ask(&gateway, GET).0, 503);
    assert_eq!(peers.each_ref().map(|peer| peer.requests().len()), [1, 1]);
}

#[test]
fn a_refused_connection_is_tried_again() {
    let refusing = Refusing::new();
    let location = format!("{AGAIN} proxy_next_upstream_tries 3;");
    let gateway = Gateway::start(&text(1, "", &location), &[refusing.address()]);
    assert_eq!(ask(&gateway, GET).0, 502);
    assert!(gateway.access_lines(1)[0].contains("tries=502, 502, 502"), "{:?}", gateway.access_lines(1));
}

#[test]
fn each_further_attempt_comes_after_the_pause() {
    let peer = recovers_after(2);
    let gateway = serve(&[&peer], "proxy_next_upstream_tries 3; proxy_next_upstream_pause 150ms;");
    let began = Instant::now();
    assert_eq!(ask(&gateway, GET), (200, "hello".into()));
    assert!(began.elapsed() >= Duration::from_millis(300), "{:?}", began.elapsed());
}

#[test]
fn the_response_is_served_if_the_pause_takes_the_time() {
    let peer = recovers_after(1);
    let limits = "proxy_next_upstream_tries 3; proxy_next_upstream_pause 60s; proxy_next_upstream_timeout 50s;";
    let gateway = serve(&[&peer], limits);
    assert_eq!(ask(&gateway, GET), (503, "busy".into()));
    assert_eq!(peer.requests().len(), 1);
}

#[test]
fn the_time_of_the_request_ends_a_pause() {
    let peer = recovers_after(1);
    let limits = "proxy_next_upstream_tries 3; proxy_next_upstream_pause 60s; proxy_request_timeout 300ms;";
    let gateway = serve(&[&peer], limits);
    assert_eq!(ask(&gateway, GET).0, 504);
    assert_eq!(peer.requests().len(), 1);
}

#[test]
fn a_client_that_leaves_ends_the_pause() {
    let peer = recovers_after(1);
    let gateway = serve(&[&peer], "proxy_next_upstream_tries 3; proxy_next_upstream_pause 60s;");
    let mut client = gateway.client();
    client.send(GET);
    until("the peer has failed", || (!peer.requests().is_empty()).then_some(()));
    client.close();
    assert!(gateway.access_lines(1)[0].starts_with("499 "), "{:?}", gateway.access_lines(1));
    assert_eq!(peer.requests().len(), 1);
}
