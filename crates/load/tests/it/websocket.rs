//! Loads of WebSockets against the built-in origin: connections opened, held, pinged and cut, messages sent, and all of
//! that counted. No test here measures speed.
#![allow(clippy::unwrap_used)] // a failed step is the end of a test

use crate::scene::{origin, server};
use load::Cause;
use load::websocket::{Ending, Storm, WebSocketOptions, WebSocketSummary, parse_url, start};
use origin::{CloseReason, Running};
use std::io::Write as _;
use std::net::SocketAddr;
use std::time::Duration;
use testkit::{Peer, Refusing};

fn options(address: SocketAddr, path: &str, connections: usize, hold_ms: u64) -> WebSocketOptions {
    WebSocketOptions {
        connections,
        hold: Duration::from_millis(hold_ms),
        // Longer than a busy machine needs; the run waits this long only if something is missing.
        drain: Duration::from_secs(10),
        ..WebSocketOptions::new(parse_url(&format!("ws://{address}{path}")).unwrap())
    }
}

fn run(options: WebSocketOptions) -> WebSocketSummary {
    start(options).unwrap().wait().unwrap()
}

fn of(origin: &Running, path: &str, connections: usize, hold_ms: u64) -> WebSocketOptions {
    options(origin.address(), path, connections, hold_ms)
}

#[test]
fn connections_are_opened_held_and_closed_in_due_form() {
    let origin = origin(origin::Options::default());
    let summary = run(WebSocketOptions { threads: 2, ..of(&origin, "/websocket/echo", 51, 100) });
    let record = &summary.record;
    assert_eq!((record.begun, record.established, record.failed(), record.losses()), (51, 51, 0, 0));
    assert_eq!((record.ended_by(Ending::Done), record.handshake.count(), record.connect.count()), (51, 51, 51));
    assert_eq!(summary.threads, 2);
    // RFC 6455 §7.1.1: the server closed the connection, so the load has no TIME_WAIT.
    assert_eq!(origin.counts().closed(CloseReason::WebSocketEnd), 51);
    assert_eq!(summary.memory.bytes_per_connection(), None, "too few to divide");
}

#[test]
fn room_message_reaches_every_member_and_is_timed() {
    let origin = origin(origin::Options { workers: 2, ..origin::Options::default() });
    let rooms = WebSocketOptions {
        rooms: Some(3),
        rate: 100.0,
        threads: 2,
        ramp: 10_000.0,
        ..of(&origin, "/websocket/room/{{room}}", 12, 300)
    };
    let record = run(rooms).record;
    assert_eq!((record.sent + record.unsent, record.losses()), (30, 0));
    // A connection that opens while others send misses no later message.
    assert_eq!((record.lost, record.surplus, record.foreign), (0, 0, 0));
    assert!(record.expected > 0 && record.delivered >= record.expected, "{record:?}");
    assert_eq!(record.delivery.count(), record.delivered);
}

#[test]
fn without_rooms_a_message_comes_back_to_its_sender() {
    let origin = origin(origin::Options::default());
    let record =
        run(WebSocketOptions { rate: 200.0, message_bytes: 70_000, ..of(&origin, "/websocket/echo", 3, 200) }).record;
    assert_eq!((record.lost, record.delivered), (0, record.sent));
    assert!(record.sent > 0);
}

#[test]
fn a_target_that_drops_messages_is_found_out() {
    // A server that returns only every second message.
    let address = websocket_server(|stream| {
        let mut decoder = websocket::Decoder::new(websocket::Sender::Client, 1 << 20);
        let mut count = 0;
        each_event(stream, &mut decoder, |event, out| match event {
            websocket::Event::Message { kind, payload } => {
                count += 1;
                if count % 2 == 0 {
                    websocket::encode_frame(true, kind.opcode(), None, payload, out);
                }
                true
            }
            websocket::Event::Close(..) => {
                websocket::encode_frame(true, websocket::Opcode::Close, None, b"", out);
                false
            }
            _ => true,
        });
    });
    let mut lossy = options(address, "/", 1, 300);
    (lossy.rate, lossy.drain) = (40.0, Duration::from_secs(2));
    let record = run(lossy).record;
    assert_eq!(record.lost, record.sent - record.delivered);
    assert_eq!(record.delivered, record.sent / 2);
    assert_eq!(record.ended_by(Ending::Done), 1);
}

#[test]
fn heartbeats_are_answered_or_the_connection_is_given_up() {
    let origin = origin(origin::Options::default());
    let heartbeat = Some(Duration::from_millis(50));
    let path = "/websocket/echo?ping=50";
    let record = run(WebSocketOptions { heartbeat, ..of(&origin, path, 4, 400) }).record;
    assert!(record.pongs > 0 && record.pong.count() == record.pongs && record.pings_received > 0, "{record:?}");
    let record = run(WebSocketOptions { heartbeat, ..of(&origin, "/websocket/echo?read=never", 4, 1_500) }).record;
    assert_eq!((record.pongs, record.ended_by(Ending::NoPong)), (0, 4));
}

#[test]
fn own_lag_never_exceeds_lag() {
    let origin = origin(origin::Options::default());
    let heartbeat = Some(Duration::from_millis(50));
    let talking = WebSocketOptions { heartbeat, rate: 200.0, ..of(&origin, "/websocket/echo", 10, 500) };
    let mut ticks = 0;
    let running = start(WebSocketOptions { interval: Duration::from_millis(100), ..talking }).unwrap();
    let summary = running.watch(|interval| ticks += interval.processors.all).unwrap();
    let record = &summary.record;
    // Each opening, message and ping, and each probe while nothing was due.
    let due = record.begun + record.sent + record.unsent + record.pings;
    assert!(record.pings > 0 && record.generator.lag.count() >= due, "{} of {due}", record.generator.lag.count());
    assert_eq!(record.generator.lag.count(), record.generator.lag_own.count());
    for quantile in [0.5, 0.9, 0.99, 1.0] {
        let (lag, own) = (record.generator.lag.quantile_ns(quantile), record.generator.lag_own.quantile_ns(quantile));
        assert!(own <= lag, "p{quantile}: {own} of {lag}");
    }
    assert!(record.generator.turn.count() > 0 && record.generator.turn.max_ns() <= summary.elapsed.as_nanos() as u64);
    assert!(
        record.generator.spent.cpu_ns > 0 && record.generator.spent == record.generator.spent_most,
        "{:?}",
        record.generator.spent
    );
    assert_eq!(summary.processors.all, ticks);
    let lag: load::websocket::WebSocketExpectation = "own_lag_p99.9<60m".parse().unwrap();
    let verdict = lag.judge(&summary, &summary.health());
    assert!(verdict.met, "{verdict:?}");
}

#[test]
fn close_codes_are_counted_and_lost_connections_come_back() {
    let origin = origin(origin::Options::default());
    let record = run(of(&origin, "/websocket/echo?close=4001", 5, 200)).record;
    assert_eq!((record.codes.get(&4001), record.ended_by(Ending::CloseFrame), record.again), (Some(&5), 5, 0));
    let reconnect = Some((Duration::from_millis(5), Duration::from_millis(20)));
    let record = run(WebSocketOptions { reconnect, ..of(&origin, "/websocket/echo?close=1013", 2, 1_500) }).record;
    assert!(record.again > 2 && record.established > 4, "{record:?}");
    assert_eq!(record.codes.get(&1013), Some(&record.ended_by(Ending::CloseFrame)));
}

#[test]
fn a_storm_cuts_a_share_and_all_come_back() {
    let origin = origin(origin::Options::default());
    // After all connections are open, and long before the end.
    let storm = Some(Storm { after: Duration::from_millis(1_500), share: 0.5 });
    let reconnect = Some((Duration::from_millis(10), Duration::from_millis(50)));
    let summary = run(WebSocketOptions { storm, reconnect, ..of(&origin, "/websocket/echo", 20, 4_000) });
    let record = &summary.record;
    assert_eq!((record.ended_by(Ending::Storm), record.again, record.established), (10, 10, 30));
    assert_eq!((record.unrecovered, record.losses()), (0, 0));
    assert!(record.recovered_ns > 0);
}

#[test]
fn members_that_never_read_do_not_slow_others() {
    let origin = origin(origin::Options::default());
    let record = run(WebSocketOptions {
        stall: 0.25,
        rooms: Some(1),
        rate: 100.0,
        message_bytes: 1_000,
        ..of(&origin, "/websocket/room/{{room}}?queue=10000", 8, 300)
    })
    .record;
    assert_eq!((record.stalled, record.ended_by(Ending::Stalled), record.lost), (2, 2, 0));
    assert!(record.delivered > 0);
}

#[test]
fn failed_websocket_openings_name_their_cause() {
    let origin = origin(origin::Options::default());
    let record = run(of(&origin, "/page", 3, 1_000)).record;
    assert_eq!((record.statuses.get(&200), record.failed(), record.established), (Some(&3), 3, 0));
    let record = run(of(&origin, "/upgrade", 3, 1_000)).record;
    assert_eq!(record.bad_handshakes, 3, "101 without Sec-WebSocket-Accept");
    let refusing = Refusing::new();
    let refused = refusing.address();
    assert_eq!(run(options(refused, "/", 2, 50)).record.failed_by(Cause::Refused), 2);
    let garbage = Peer::saying_once("SSH-2.0-OpenSSH\r\n\r\n");
    assert_eq!(run(options(garbage.address(), "/", 2, 500)).record.failed_by(Cause::NotHttp), 2);
    let silent = Peer::script(|mut talk| while talk.request().is_some() {});
    let impatient =
        WebSocketOptions { timeout: Duration::from_millis(400), ..options(silent.address(), "/", 2, 2_000) };
    assert_eq!(run(impatient).record.failed_by(Cause::Silent), 2);
}

#[test]
fn a_target_that_breaks_the_protocol_or_resets_is_named() {
    let broken = websocket_server(|stream| {
        let _ = stream.write_all(b"\xc1\x00");
        let _ = stream.set_read_timeout(Some(Duration::from_secs(20)));
        let _ = std::io::Read::read(stream, &mut [0; 64]);
    });
    assert_eq!(run(options(broken, "/", 2, 500)).record.ended_by(Ending::BadFrame), 2);
    let resetting = websocket_server(|stream| {
        let _ = socket2::SockRef::from(&*stream).set_linger(Some(Duration::ZERO));
    });
    let record = run(options(resetting, "/", 2, 500)).record;
    assert_eq!((record.ended_by(Ending::Reset) + record.failed(), record.established + record.failed()), (2, 2));
}

#[test]
fn it_can_be_stopped_at_any_time() {
    let origin = origin(origin::Options::default());
    let running = start(of(&origin, "/websocket/echo", 10, 600_000)).unwrap();
    let stopper = running.stopper();
    let summary = running.watch(|interval| {
        if interval.record.open == 10 {
            stopper.stop();
        }
    });
    let summary = summary.unwrap();
    assert!(summary.stopped);
    assert_eq!(summary.record.ended_by(Ending::CutOff), 10);
}

/// A WebSocket server that handles each connection with the given function.
fn websocket_server(treat: impl Fn(&mut std::net::TcpStream) + Send + Sync + 'static) -> SocketAddr {
    server(move |mut stream| {
        let mut head = Vec::new();
        let mut byte = [0; 1];
        while !head.ends_with(b"\r\n\r\n") {
            if !matches!(std::io::Read::read(&mut stream, &mut byte), Ok(1)) {
                return;
            }
            head.push(byte[0]);
        }
        let mut parsed = http1::RequestHead::default();
        http1::request::parse(&head, &http1::Limits::default(), &mut parsed).unwrap();
        let asked = websocket::handshake::check_request(&parsed, &head).unwrap();
        let mut answer = b"HTTP/1.1 101 Switching Protocols\r\n".to_vec();
        websocket::handshake::encode_response_fields(&asked.key, None, &mut answer);
        answer.extend_from_slice(b"\r\n");
        if stream.write_all(&answer).is_ok() {
            treat(&mut stream);
        }
    })
}

/// Decodes events until the function returns that it is done.
fn each_event(
    stream: &mut std::net::TcpStream,
    decoder: &mut websocket::Decoder,
    mut treat: impl FnMut(websocket::Event<'_>, &mut Vec<u8>) -> bool,
) {
    let mut piece = [0; 4096];
    loop {
        let Ok(count @ 1..) = std::io::Read::read(stream, &mut piece) else { return };
        let mut bytes = &piece[..count];
        let mut out = Vec::new();
        let mut goes_on = true;
        loop {
            let decoded = decoder.decode(bytes).unwrap();
            bytes = &bytes[decoded.consumed..];
            match decoded.event {
                Some(event) => goes_on &= treat(event, &mut out),
                None => break,
            }
        }
        if stream.write_all(&out).is_err() || !goes_on {
            return;
        }
    }
}
