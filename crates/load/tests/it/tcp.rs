//! Loads over TCP against the built-in origin and against servers that do not behave: echoes that are compared, connections
//! that are opened and closed, connections that are held. No test here measures speed.
#![allow(clippy::unwrap_used)] // a failed step is the end of a test

use crate::scene::{origin, run, server};
use load::{Cause, Exchange, Options, Pace, Reply, Summary, Target, Url, Version, websocket};
use origin::{CloseReason, Running};
use std::io::{Read as _, Write as _};
use std::net::SocketAddr;
use std::time::Duration;
use testkit::Refusing;

fn options(address: SocketAddr, bytes: usize, reply: Reply) -> Options {
    let exchange = Exchange { bytes, reply };
    let url = Url::parse_tcp(&format!("tcp://{address}")).unwrap();
    let target = Target { method: exchange.name().to_owned(), ..Target::new(url) };
    Options { version: Version::Tcp, exchange, duration: Some(Duration::from_secs(20)), ..Options::new(target) }
}

/// This many messages over three connections.
fn messages(address: SocketAddr, count: u64, bytes: usize, reply: Reply) -> Options {
    Options { requests: Some(count), connections: 3, ..options(address, bytes, reply) }
}

fn origin_of(behaviour: &str) -> Running {
    origin(origin::Options { tcp: Some(behaviour.parse().unwrap()), ..origin::Options::default() })
}

/// The number of complete messages, of failed ones, and of those on used connections.
fn counts(summary: &Summary) -> (u64, u64, u64) {
    let whole = summary.record.whole();
    (whole.responses, whole.failed(), whole.reused)
}

#[test]
fn echoes_come_back_byte_for_byte_on_kept_connections() {
    let origin = origin_of("echo");
    // More than a read takes, and more than a socket takes at once.
    for bytes in [1, 128, 100_000, 3_000_000] {
        let summary = run(messages(origin.address(), 30, bytes, Reply::Echo));
        assert_eq!(counts(&summary), (30, 0, 27), "{bytes}");
        let whole = summary.record.whole();
        assert_eq!((whole.bytes_sent, whole.bytes_received), (30 * bytes as u64, 30 * bytes as u64));
        assert_eq!((summary.record.opened, whole.statuses.len()), (3, 0));
    }
}

#[test]
fn messages_are_pipelined_and_sent_at_a_rate() {
    let origin = origin_of("echo");
    let deep = Options { pipeline: 8, ..messages(origin.address(), 400, 500, Reply::Echo) };
    assert_eq!(counts(&run(deep)).0, 400);
    let slow = origin_of("echo?delay=200");
    let pace = Pace::constant(50.0, Duration::from_millis(400));
    let summary = run(Options { pace, connections: 100, ..options(slow.address(), 50, Reply::Echo) });
    assert_eq!(counts(&summary).0, 20);
    // The connections are opened when they are needed, and the time counts from when the message was due.
    let whole = summary.record.whole();
    assert!(whole.latency.quantile_ns(0.01) >= 200_000_000, "{}", whole.latency.quantile_ns(0.01));
}

#[test]
fn connections_are_opened_and_closed_for_each_message() {
    let origin = origin_of("echo");
    let once = |bytes, reply| Options { keepalive: false, ..messages(origin.address(), 40, bytes, reply) };
    for (bytes, reply) in [(64, Reply::Echo), (0, Reply::None)] {
        let summary = run(once(bytes, reply));
        assert_eq!(counts(&summary), (40, 0, 0), "{bytes}");
        assert_eq!((summary.record.opened, summary.record.established), (40, 40));
        assert_eq!(summary.record.closed_by_target, 0, "the load closes first");
    }
    // At a rate, too: each connection at its own time.
    let pace = Pace::constant(100.0, Duration::from_millis(300));
    let summary = run(Options { pace, requests: None, ..once(0, Reply::None) });
    assert_eq!((counts(&summary).0, summary.record.connect.count()), (30, 30));
}

#[test]
fn sinks_and_sources_are_loaded() {
    let sink = origin_of("sink");
    let summary = run(messages(sink.address(), 60, 50_000, Reply::None));
    assert_eq!((counts(&summary), summary.record.whole().bytes_sent), ((60, 0, 57), 3_000_000));
    let source = origin_of("source/70000");
    let receive = messages(source.address(), 12, 0, Reply::Bytes(70_000));
    let summary = run(Options { keepalive: false, ..receive });
    let whole = summary.record.whole();
    assert_eq!((counts(&summary), whole.bytes_received), ((12, 0, 0), 840_000), "{:?}", whole.failures);
    // An end by time: messages without a reply follow each other without a pause.
    let brief = Options {
        requests: None,
        duration: Some(Duration::from_millis(200)),
        ..messages(sink.address(), 1, 9, Reply::None)
    };
    let summary = run(brief);
    assert!(counts(&summary).0 > 0 && summary.elapsed < Duration::from_secs(15), "{:?}", summary.elapsed);
}

/// The failures of four messages.
fn failures(address: SocketAddr, cause: Cause) -> u64 {
    let options = Options { response_timeout: Duration::from_millis(500), ..messages(address, 4, 1000, Reply::Echo) };
    run(options).record.whole().failed_by(cause)
}

#[test]
fn replies_that_do_not_come_or_differ_are_named() {
    let refusing = Refusing::new();
    let closed = refusing.address();
    assert_eq!(failures(closed, Cause::Refused), 4);
    assert_eq!(failures(origin_of("sink").address(), Cause::Silent), 4);
    let half = server(|mut stream| {
        let mut message = [0; 1000];
        if stream.read_exact(&mut message).is_ok() {
            let _ = stream.write_all(&message[..500]);
        }
    });
    assert_eq!(failures(half, Cause::Short), 4);
    let changed = server(|mut stream| {
        let mut message = [0; 1000];
        while stream.read_exact(&mut message).is_ok() {
            message[999] ^= 1;
            if stream.write_all(&message).is_err() {
                return;
            }
        }
    });
    assert_eq!(failures(changed, Cause::Mismatch), 4);
    let twice = server(|mut stream| {
        let mut message = [0; 1000];
        if stream.read_exact(&mut message).is_ok() {
            let _ = stream.write_all(&[message, message].concat());
            let _ = stream.read(&mut message);
        }
    });
    assert!(failures(twice, Cause::Unasked) > 0);
    let mute = server(|mut stream| drop(stream.read_exact(&mut [0; 1000])));
    assert_eq!(failures(mute, Cause::ClosedUnanswered), 4);
    let resets = origin_of("echo?after=1&by=reset");
    let record = run(messages(resets.address(), 4, 1000, Reply::Echo)).record.whole();
    assert_eq!(record.failed(), 4, "{record:?}");
}

fn held(address: SocketAddr, connections: usize, hold_ms: u64) -> websocket::WebSocketOptions {
    websocket::WebSocketOptions {
        connections,
        hold: Duration::from_millis(hold_ms),
        drain: Duration::from_secs(10),
        ..websocket::WebSocketOptions::new(Url::parse_tcp(&format!("tcp://{address}")).unwrap())
    }
}

fn hold(options: websocket::WebSocketOptions) -> websocket::WebSocketRecord {
    websocket::start(options).unwrap().wait().unwrap().record
}

#[test]
fn connections_are_held_and_closed_by_the_load() {
    let origin = origin_of("echo");
    let record = hold(websocket::WebSocketOptions { threads: 2, ..held(origin.address(), 51, 100) });
    assert_eq!((record.begun, record.established, record.open, record.failed(), record.losses()), (51, 51, 51, 0, 0));
    assert_eq!((record.ended_by(websocket::Ending::Done), record.codes.len()), (51, 0));
    assert_eq!(origin.counts().closed(CloseReason::TcpEnd), 51);
}

#[test]
fn held_connections_that_end_are_counted_and_come_back() {
    let closing = server(drop);
    let running = websocket::start(held(closing, 5, 600_000)).unwrap();
    let stopper = running.stopper();
    let mut losses = 0;
    let summary = running.watch(|interval| {
        losses += interval.record.losses();
        if losses == 5 {
            stopper.stop();
        }
    });
    let record = summary.unwrap().record;
    let ended = record.ended_by(websocket::Ending::Fin) + record.ended_by(websocket::Ending::Reset);
    assert_eq!((record.established, ended, record.losses()), (5, 5, 5));
    // The storm cuts half of them, and all come back.
    let origin = origin_of("sink");
    let storm = Some(websocket::Storm { after: Duration::from_millis(1_500), share: 0.5 });
    let reconnect = Some((Duration::from_millis(10), Duration::from_millis(50)));
    let record = hold(websocket::WebSocketOptions { storm, reconnect, ..held(origin.address(), 20, 4_000) });
    assert_eq!((record.ended_by(websocket::Ending::Storm), record.again, record.established), (10, 10, 30));
    assert_eq!((record.unrecovered, record.losses()), (0, 0));
}
