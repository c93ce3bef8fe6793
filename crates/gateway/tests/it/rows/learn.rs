//! P10: the gateway learns a peer's idle timeout and retires connections before it. The peer notes which side closed
//! each connection first.

use crate::site::{GET, HELLO, text};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;
use testkit::{DEADLINE, Gateway, Peer};

/// After this many rounds the timeout is learned.
const ROUNDS_MAX: usize = 12;

/// Which side closed a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum First {
    Peer,
    Gateway,
}

/// Answers, and closes connections that have been idle for this long. Reports each end.
fn patient_for(idle: Duration, answer: &'static str) -> (Peer, Receiver<First>) {
    let (ends, ended) = channel();
    let peer = Peer::script(move |mut talk| {
        loop {
            if !talk.receives_within(idle) {
                talk.close();
                let _ = ends.send(First::Peer);
                return;
            }
            if talk.request().is_none() {
                let _ = ends.send(First::Gateway);
                return;
            }
            talk.send(answer);
        }
    });
    (peer, ended)
}

/// One request, and which side closed its connection.
fn ask_and_wait(gateway: &Gateway, ended: &Receiver<First>) -> First {
    let mut client = gateway.client();
    client.send(GET);
    assert_eq!(client.response().text(), "hello");
    ended.recv_timeout(DEADLINE).unwrap()
}

/// Eventually this side closes first. (On a busy machine a timer may fire late once.)
#[track_caller]
fn becomes(wanted: First, mut ask: impl FnMut() -> First) {
    let seen: Vec<First> =
        std::iter::repeat_with(&mut ask).take(ROUNDS_MAX).take_while(|&first| first != wanted).collect();
    assert!(seen.len() < ROUNDS_MAX, "{seen:?}");
}

#[test]
fn p10_idle_limit_is_learned_from_closes() {
    let (peer, ended) = patient_for(Duration::from_millis(400), HELLO);
    let mut gateway = Gateway::start(&text(1, "", ""), &[peer.address()]);
    for _ in 0..2 {
        assert_eq!(ask_and_wait(&gateway, &ended), First::Peer, "nothing is known yet");
    }
    becomes(First::Gateway, || ask_and_wait(&gateway, &ended));
    // The learned timeout belongs to the peer, not to the configuration.
    gateway.reload(&text(1, "keepalive_requests 500;", ""));
    becomes(First::Gateway, || ask_and_wait(&gateway, &ended));
    gateway.reload(&text(1, "keepalive_learn off;", ""));
    for _ in 0..4 {
        assert_eq!(ask_and_wait(&gateway, &ended), First::Peer, "switched off");
    }
}

#[test]
fn p10_idle_limit_is_learned_from_keep_alive() {
    let says = "HTTP/1.1 200 OK\r\nKeep-Alive: timeout=1, max=1000\r\nContent-Length: 5\r\n\r\nhello";
    let (peer, ended) = patient_for(DEADLINE, says);
    let gateway = Gateway::start(&text(1, "", ""), &[peer.address()]);
    assert_eq!(ask_and_wait(&gateway, &ended), First::Gateway, "long before the 60 s of keepalive_timeout");
}

#[test]
fn p10_request_limit_is_learned_from_closes() {
    let (ends, ended) = channel();
    let peer = Peer::script(move |mut talk| {
        for _ in 0..3 {
            if talk.request().is_none() {
                let _ = ends.send(First::Gateway);
                return;
            }
            talk.send(HELLO);
        }
        // Closes without announcing it, as an impolite peer does; after a time in which even a busy gateway has closed.
        let first = if talk.receives_within(Duration::from_millis(500)) { First::Gateway } else { First::Peer };
        talk.close();
        let _ = ends.send(first);
    });
    let gateway = Gateway::start(&text(1, "", ""), &[peer.address()]);
    becomes(First::Gateway, || {
        for _ in 0..3 {
            let mut client = gateway.client();
            client.send(GET);
            assert_eq!(client.response().text(), "hello");
        }
        ended.recv_timeout(DEADLINE).unwrap()
    });
}
