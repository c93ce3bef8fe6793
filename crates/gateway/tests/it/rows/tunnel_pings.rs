//! `tunnel_ping`: the gateway's own pings in silent WebSockets, and in no other tunnels (W6, W7, W9).

use crate::site::Site;
use std::time::{Duration, Instant};
use testkit::{End, Peer, Talk};

const UPGRADE: &str = "GET /ws HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n";
const PASS: &str = "proxy_set_header Upgrade $http_upgrade; proxy_set_header Connection upgrade;";
const PING: &[u8] = b"\x89\x08holdfast";
/// A client's answer: a pong with the same payload, masked with zeros.
const CLIENT_PONG: &[u8] = b"\x8a\x88\0\0\0\0holdfast";
const SERVER_PONG: &[u8] = b"\x8a\x08holdfast";

fn switching(fields: &'static str, location: &str, script: impl Fn(Talk) + Send + Sync + 'static) -> Site {
    let peer = Peer::script(move |mut talk| {
        if talk.request().is_some() {
            talk.send(format!("HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\n{fields}\r\n"));
            script(talk);
        }
    });
    Site::with(peer, &format!("{PASS} {location}"))
}

const WEBSOCKET: &str = "Upgrade: WebSocket\r\n";

fn tunnelled(site: &Site) -> Talk {
    tunnelled_to(site, "websocket")
}

fn tunnelled_to(site: &Site, protocol: &str) -> Talk {
    let mut client = site.client();
    client.send(UPGRADE.replace("websocket", protocol));
    assert_eq!(client.response().status(), 101);
    client
}

/// A masked ping from the gateway, without its mask.
fn unmasked(bytes: &[u8]) -> Vec<u8> {
    let (head, rest) = bytes.split_at(2);
    let (key, payload) = rest.split_at(4);
    assert_eq!(head, b"\x89\x88");
    payload.iter().zip(key.iter().cycle()).map(|(byte, key)| byte ^ key).collect()
}

#[test]
fn pings_both_ends_of_a_silent_websocket() {
    const IDLE: Duration = Duration::from_millis(1500);
    let site = switching(WEBSOCKET, "tunnel_timeout 1500ms; tunnel_ping 300ms;", |mut talk| {
        let mut heard = Vec::new();
        while let Some(bytes) = talk.whatever_came() {
            heard.extend_from_slice(&bytes);
            // Each ping is answered; the client's pongs have the same length and arrive as well.
            while heard.len() >= CLIENT_PONG.len() {
                let frame: Vec<u8> = heard.drain(..CLIENT_PONG.len()).collect();
                if frame != CLIENT_PONG {
                    assert_eq!(unmasked(&frame), b"holdfast");
                    talk.send(SERVER_PONG);
                }
            }
        }
    });
    let mut client = tunnelled(&site);
    let began = Instant::now();
    let mut pings = 0;
    // Much longer than the idle timeout of a tunnel.
    while began.elapsed() < 2 * IDLE {
        let frame = client.read(10);
        if frame == PING {
            pings += 1;
            client.send(CLIENT_PONG);
        } else {
            assert_eq!(frame, SERVER_PONG, "the upstream's answer goes on to the client");
        }
    }
    assert!(pings >= 2, "{pings}");
}

#[test]
fn unanswered_ping_closes_the_tunnel() {
    let site = switching(WEBSOCKET, "tunnel_timeout 1s; tunnel_ping 200ms;", |mut talk| {
        while let Some(bytes) = talk.whatever_came() {
            if bytes.starts_with(b"\x89") {
                talk.send(SERVER_PONG);
            }
        }
    });
    let mut client = tunnelled(&site);
    // It receives pings, and sends nothing.
    let (heard, end) = client.rest();
    assert_eq!(end, End::Fin);
    assert!(heard.starts_with(PING) || heard.starts_with(SERVER_PONG), "{}", heard.escape_ascii());
    let line = site.gateway.logged("while proxying upgraded connection");
    assert!(line.contains("no answer to pings from the client"), "{line}");
}

#[test]
fn no_ping_comes_inside_of_a_frame_or_behind_a_close() {
    for begun in [&b"\x82\x05he"[..], b"\x88\x02\x03\xe8"] {
        let site = switching(WEBSOCKET, "tunnel_timeout 1200ms; tunnel_ping 100ms;", move |mut talk| {
            talk.send(begun);
            // The gateway pings this end, and gives up on it.
            talk.rest();
        });
        let mut client = tunnelled(&site);
        let (heard, end) = client.rest();
        assert_eq!((&heard[..], end), (begun, End::Fin));
    }
}

#[test]
fn pings_only_plain_websockets() {
    for (fields, location) in [
        ("Upgrade: other\r\n", "tunnel_timeout 1s; tunnel_ping 100ms;"),
        ("Upgrade: websocket\r\nSec-WebSocket-Extensions: x-own\r\n", "tunnel_timeout 1s; tunnel_ping 100ms;"),
        (WEBSOCKET, "tunnel_timeout 500ms; tunnel_ping off;"),
        (WEBSOCKET, "tunnel_timeout 500ms;"),
    ] {
        let site = switching(fields, location, |mut talk| {
            assert_eq!(talk.rest().0, b"", "no bytes here");
        });
        let protocol = if fields.contains("other") { "other" } else { "websocket" };
        let mut client = tunnelled_to(&site, protocol);
        assert_eq!(client.rest(), (Vec::new(), End::Fin), "{fields} {location}");
    }
}

#[test]
fn a_compressed_websocket_is_pinged_too() {
    let fields = "Upgrade: websocket\r\nSec-WebSocket-Extensions: permessage-deflate; server_no_context_takeover\r\n";
    let site = switching(fields, "tunnel_timeout 30s; tunnel_ping 100ms;", |mut talk| {
        // A frame of the extension comes first.
        talk.send(b"\xc1\x02hi");
        talk.rest();
    });
    let mut client = tunnelled(&site);
    client.expect(b"\xc1\x02hi");
    client.expect(PING);
    // A ping that would never be sent causes a warning.
    let site = switching(WEBSOCKET, "proxy_read_timeout 10s; tunnel_ping 10s;", |_| {});
    let warnings = site.gateway.warnings();
    assert!(warnings.iter().any(|warning| warning.contains("\"tunnel_ping\" of 10s is not shorter")), "{warnings:?}");
}
