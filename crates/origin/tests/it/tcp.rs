//! `--tcp`: connections without HTTP.
#![allow(clippy::unwrap_used)] // a failed step of a conversation is its end

use crate::talk::{pattern, start};
use origin::{CloseReason, Options, Running};
use std::time::{Duration, Instant};
use testkit::{End, Talk};

fn tcp(behaviour: &str) -> Running {
    start(Options { tcp: Some(behaviour.parse().unwrap()), ..Options::default() })
}

fn client(origin: &Running) -> Talk {
    Talk::connect(origin.address())
}

#[test]
fn an_echo_sends_everything_back() {
    let origin = tcp("echo");
    let mut client = client(&origin);
    let sent = pattern(300_000);
    for piece in sent.chunks(50_000) {
        client.send(piece);
        assert_eq!(client.read(piece.len()), piece);
    }
    client.half_close();
    assert_eq!(client.rest(), (Vec::new(), End::Fin));
    crate::talk::until("the end is counted", || origin.counts().closed(CloseReason::TcpEnd) == 1);
}

#[test]
fn an_echo_can_be_late() {
    let origin = tcp("echo?delay=200");
    let mut client = client(&origin);
    let begun = Instant::now();
    client.send("x");
    client.expect("x");
    assert!(begun.elapsed() >= Duration::from_millis(198), "echoed after {:?}", begun.elapsed());
}

#[test]
fn a_connection_ends_after_some_bytes_in_each_style() {
    for (style, end) in [("fin", End::Fin), ("half-close", End::Fin), ("reset", End::Reset)] {
        let origin = tcp(&format!("echo?after=5&by={style}"));
        let mut client = client(&origin);
        client.send("hello");
        client.expect("hello");
        assert_eq!(client.end(), end, "{style}");
        if style == "half-close" {
            assert_eq!(origin.counts().closed(CloseReason::TcpEnd), 0, "it still reads");
            client.send("more");
            client.close();
        }
        crate::talk::until("the end is counted", || origin.counts().closed(CloseReason::TcpEnd) == 1);
    }
}

#[test]
fn a_source_sends_its_bytes_and_ends() {
    let origin = tcp("source/200000");
    assert_eq!(client(&origin).rest(), (pattern(200_000), End::Fin));
    let origin = tcp("source/5?step=1&every=20&delay=50&by=reset");
    let begun = Instant::now();
    let mut client = client(&origin);
    assert_eq!(client.read(5), pattern(5));
    assert!(begun.elapsed() >= Duration::from_millis(128), "sent after {:?}", begun.elapsed());
    assert_eq!(client.end(), End::Reset);
}

#[test]
fn a_sink_reads_at_its_pace() {
    let origin = tcp("sink?step=1000&every=1");
    let mut client = client(&origin);
    client.send(vec![b'x'; 100_000]);
    client.half_close();
    assert_eq!(client.rest(), (Vec::new(), End::Fin));
}
