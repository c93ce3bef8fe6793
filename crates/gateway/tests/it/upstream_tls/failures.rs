//! Handshakes that fail, stall or are slow.

use crate::upstream_tls::peer::{Authority, SecurePeer};
use crate::upstream_tls::site::{ask, fails, site, text};
use testkit::{Gateway, Peer};

#[test]
fn s20_an_upstream_that_speaks_plain_http() {
    let peer = Peer::script(|mut talk| {
        // It takes our first message for an HTTP request.
        talk.send("HTTP/1.1 400 Bad Request\r\nContent-Length: 3\r\nConnection: close\r\n\r\nbad");
        talk.rest();
    });
    let gateway = site(peer.address(), "");
    let phrase = "SSL_do_handshake() failed (SSL: error:0A00010B:SSL routines::wrong version number)";
    fails(&gateway, 502, &format!("{phrase} while SSL handshaking to upstream"));
}

#[test]
fn an_upstream_that_never_answers_the_handshake() {
    let peer = Peer::script(|mut talk| {
        talk.rest();
    });
    let gateway = site(peer.address(), "proxy_connect_timeout 200ms;");
    fails(&gateway, 504, "upstream timed out (110: Connection timed out) while SSL handshaking to upstream");
}

#[test]
fn failed_handshakes_are_counted_by_their_reason() {
    let plain = Peer::script(|mut talk| {
        talk.send("HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n");
        talk.rest();
    });
    let silent = Peer::script(|mut talk| {
        talk.rest();
    });
    let conf = "events {} http { access_log off; proxy_connect_timeout 200ms; server { listen {listen}; \
        location /plain { proxy_pass https://{upstream:0}; } location /silent { proxy_pass https://{upstream:1}; } \
        location /status { status_page; } } }";
    let gateway = Gateway::start(conf, &[plain.address(), silent.address()]);
    assert_eq!([ask(&gateway, "/plain").status(), ask(&gateway, "/silent").status()], [502, 504]);
    let metrics = ask(&gateway, "/status?format=prometheus").text();
    for reason in ["not_tls", "timed_out"] {
        let line = format!("holdfast_upstream_tls_handshakes_failed_total{{reason=\"{reason}\"}} 1\n");
        assert!(metrics.contains(&line), "{metrics}");
    }
}

#[test]
fn an_upstream_that_closes_or_resets_inside_the_handshake() {
    let peer = Peer::script(|mut talk| {
        talk.read(5);
        talk.close();
    });
    let gateway = site(peer.address(), "");
    fails(&gateway, 502, "peer closed connection in SSL handshake");
    let peer = Peer::script(|mut talk| {
        talk.read(5);
        talk.reset();
    });
    let gateway = site(peer.address(), "");
    let phrase = "peer closed connection in SSL handshake (104: Connection reset by peer)";
    fails(&gateway, 502, &format!("{phrase} while SSL handshaking to upstream"));
}

#[test]
fn a_handshake_in_small_pieces_is_completed() {
    for piece in [1, 7, 100] {
        let side = Authority::new("Authority").usual().side();
        let peer = SecurePeer::in_pieces(side, piece, |mut secure| {
            while secure.request().is_some() {
                secure.send("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok");
            }
        });
        let gateway = site(peer.address(), "");
        assert_eq!(ask(&gateway, "/").text(), "ok", "pieces of {piece}");
    }
}

#[test]
fn a_failed_handshake_leads_to_the_next_peer() {
    let plain = Peer::script(|mut talk| {
        talk.read(5);
        talk.send("HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n");
        talk.rest();
    });
    let good = SecurePeer::counting(Authority::new("Authority").usual().side());
    let gateway = Gateway::start(&text(2, "", ""), &[plain.address(), good.address()]);
    let mut client = gateway.client();
    // No byte of the request was sent, so every method is retried.
    client.send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\n\r\nx");
    assert_eq!(client.response().text(), "1");
    let line = gateway.access_lines(1).remove(0);
    assert!(line.starts_with("200 tries=502, 200 "), "{line}");
    gateway.logged("while SSL handshaking to upstream");
    let off = text(2, "", "proxy_next_upstream off;");
    let gateway = Gateway::start(&off, &[plain.address(), good.address()]);
    assert_eq!(ask(&gateway, "/").status(), 502);
}

#[test]
fn client_leaving_during_the_handshake_closes_the_upstream() {
    let peer = Peer::script(|mut talk| {
        talk.rest();
    });
    let gateway = site(peer.address(), "");
    let mut client = gateway.client();
    client.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    testkit::until("the handshake has begun", || (!peer.received(0).is_empty()).then_some(()));
    client.close();
    gateway.logged("client prematurely closed connection");
    gateway.until_totals("no client is left", |totals| totals.active == 0);
}
