//! Connections that switch protocols.
#![allow(clippy::unwrap_used)] // a failed step of a conversation is its end

use crate::talk::{Client, End, pattern, start, until};
use origin::{CloseReason, Options};

const UPGRADE: &str = "Host: o\r\nConnection: upgrade\r\nUpgrade: chat\r\n\r\n";

#[test]
fn bytes_come_back_after_101() {
    let origin = start(Options::default());
    let mut client = Client::connect(&origin);
    client.send(format!("GET /upgrade HTTP/1.1\r\n{UPGRADE}"));
    let head = client.head();
    assert_eq!((head.status, head.field("Upgrade"), head.field("Connection")), (101, Some("chat"), Some("upgrade")));
    for message in ["one", "GET / HTTP/1.1\r\n\r\n"] {
        client.send(message);
        assert_eq!(client.bytes(message.len()), message.as_bytes());
    }
    client.half_close();
    client.expect_end(End::Fin);
    until("counted", || origin.counts().closed(CloseReason::TunnelEnd) == 1);
}

#[test]
fn early_bytes_of_both_sides_arrive() {
    let origin = start(Options::default());
    let mut client = Client::connect(&origin);
    client.send(format!("GET /upgrade?early=300000 HTTP/1.1\r\n{UPGRADE}early"));
    assert_eq!(client.head().status, 101);
    assert!(client.bytes(300_000) == pattern(300_000));
    assert_eq!(client.bytes(5), b"early");
}

#[test]
fn stalled_client_loses_no_tunnel_bytes() {
    let origin = start(Options::default());
    let mut client = Client::connect(&origin);
    client.send(format!("GET /upgrade HTTP/1.1\r\n{UPGRADE}"));
    client.head();
    let sent = 20_000_000;
    let mut socket = client.talk.socket().try_clone().unwrap();
    let sender = std::thread::spawn(move || {
        std::io::Write::write_all(&mut socket, &pattern(sent)).unwrap();
        socket.shutdown(std::net::Shutdown::Write).unwrap();
    });
    let (received, end) = client.rest();
    sender.join().unwrap();
    assert!(received == pattern(sent) && end == End::Fin);
}

#[test]
fn without_an_upgrade_there_is_none() {
    let origin = start(Options::default());
    let mut client = Client::connect(&origin);
    for fields in ["", "Upgrade: chat\r\n", "Connection: upgrade\r\nUpgrade: h2c\r\n"] {
        client.send(format!("GET /upgrade HTTP/1.1\r\nHost: o\r\n{fields}\r\n"));
        assert_eq!(client.response().0.status, 426);
    }
}
