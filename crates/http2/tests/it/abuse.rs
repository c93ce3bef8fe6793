//! Floods: each ends within 10,000 frames, with GOAWAY and its own reason; the memory behind the connection stays bounded meanwhile.

use crate::support::*;
use http2::{Config, ErrorCode, Reason, Role, StreamId};

/// Frames after which a flood must have ended.
const FRAMES_MAX: u32 = 10_000;

/// Memory that a connection may have during a flood: a frame that is under way, a block, the table, 128 streams.
const HELD_BYTES_MAX: usize = 128 * 1024;

/// Sends frames until the connection ends.
fn flood(server: &mut Side, mut frames: impl FnMut(u32) -> Vec<u8>) -> Reason {
    for round in 0..FRAMES_MAX {
        match server.feed(&frames(round)) {
            Ok(_) => {
                assert!(server.engine.held_bytes() <= HELD_BYTES_MAX);
                server.out.clear();
            }
            Err(closed) => {
                let goaway = server.sent().pop().unwrap();
                assert_eq!((goaway.kind, &goaway.payload[4..8]), (GOAWAY, &closed.0.code().0.to_be_bytes()[..]));
                assert_eq!(closed.0.code(), ErrorCode::ENHANCE_YOUR_CALM);
                assert!(closed.0.is_abuse());
                return closed.0;
            }
        }
    }
    panic!("the flood was not noticed");
}

fn stream(round: u32) -> u32 {
    2 * round + 1
}

#[test]
fn rapid_resets_end_the_connection() {
    let mut server = Side::server();
    assert_eq!(flood(&mut server, |round| [get(stream(round)), reset(stream(round))].concat()), Reason::RapidReset);
}

#[test]
fn resets_of_answered_requests_are_harmless() {
    let mut server = Side::server();
    for round in 0..FRAMES_MAX {
        let id = stream(round);
        server.feed(&post(id)).unwrap();
        server.engine.respond(StreamId(id), 200, true, &mut server.out, |_| ()).unwrap();
        server.now_ms += 10;
        server.feed(&reset(id)).unwrap();
        server.out.clear();
    }
}

#[test]
fn provoked_resets_end_the_connection() {
    for provoke in [
        |id: u32| window_update(id, 0),
        |id: u32| window_update(id, 0x7FFF_FFFF),
        |id: u32| frame(PRIORITY, 0, id, &[0; 3]),
        |id: u32| headers(id, 0, &[("late", "head")]),
    ] {
        let mut server = Side::server();
        let reason = flood(&mut server, |round| [post(stream(round)), provoke(stream(round))].concat());
        assert_eq!(reason, Reason::ProvokedReset);
    }
    let mut server = Side::server();
    let bad = |round| headers(stream(round), END_STREAM, &[(":method", "GET")]);
    assert_eq!(flood(&mut server, bad), Reason::ProvokedReset);
    let mut server = Side::server();
    let ended = |round| [get(stream(round)), frame(DATA, 0, stream(round), b"x")].concat();
    assert_eq!(flood(&mut server, ended), Reason::ProvokedReset);
}

#[test]
fn control_frames_without_end_close_the_connection() {
    let cases = [
        (frame(PING, 0, 0, &[1; 8]), Reason::PingFlood),
        (frame(PING, ACK, 0, &[1; 8]), Reason::PingFlood),
        (settings(&[]), Reason::SettingsFlood),
        (frame(PRIORITY, 0, 1, &[0; 5]), Reason::PriorityFlood),
        (frame(PRIORITY_UPDATE, 0, 0, b"\0\0\0\x01u=1"), Reason::PriorityFlood),
        (frame(0xFE, 0, 0, b"unknown"), Reason::StrayFlood),
        (window_update(0, 1), Reason::WindowFlood),
    ];
    for (frames, reason) in cases {
        assert_eq!(flood(&mut Side::server(), |_| frames.clone()), reason);
    }
    assert_eq!(Side::server().fails(&settings(&[(0xABC, 1); 100])), Reason::SettingsFlood);
}

#[test]
fn empty_frames_of_data_close_the_connection() {
    for empty in [frame(DATA, 0, 1, b""), frame(DATA, PADDED, 1, &[0])] {
        let mut server = Side::server();
        server.feed(&post(1)).unwrap();
        assert_eq!(flood(&mut server, |_| empty.clone()), Reason::EmptyFlood);
    }
}

#[test]
fn frames_on_reset_streams_eventually_close_the_connection() {
    let mut server = Side::server();
    server.feed(&post(1)).unwrap();
    server.engine.reset(StreamId(1), ErrorCode::CANCEL, &mut server.out);
    assert_eq!(flood(&mut server, |_| frame(DATA, 0, 1, b"late")), Reason::StrayFlood);
}

#[test]
fn a_block_in_many_continuations_closes_the_connection() {
    let mut server = Side::server();
    server.feed(&frame(HEADERS, END_STREAM, 1, &block(&GET))).unwrap();
    assert_eq!(flood(&mut server, |_| frame(CONTINUATION, 0, 1, b"")), Reason::ContinuationFlood);

    let mut server = Side::server();
    server.feed(&frame(HEADERS, END_STREAM, 1, &block(&GET))).unwrap();
    assert_eq!(flood(&mut server, |_| frame(CONTINUATION, 0, 1, &[0; 16_000])), Reason::BlockTooLarge);
}

#[test]
fn a_head_that_unpacks_to_megabytes_closes_the_connection() {
    // One field of 4,000 bytes in the table, then 16,000 references to it.
    let mut block = vec![0x40, 1, b'a', 0x7F, 0xA1, 0x1E];
    block.extend([b'x'; 4000]);
    block.extend([0xBE; 12_000]);
    let mut server = Side::server();
    assert_eq!(flood(&mut server, |_| frame(HEADERS, END_HEADERS | END_STREAM, 1, &block)), Reason::HeaderBomb);
    assert!(server.head.held_bytes() < 128 * 1024, "{} bytes", server.head.held_bytes());
}

#[test]
fn repeated_oversized_heads_close_the_connection() {
    let long = "x".repeat(12_000);
    let fields: Vec<_> = GET.into_iter().chain([("a", long.as_str()); 1]).collect();
    let mut server = Side::new(Role::Server, Config { head_bytes_max: 8000, ..Config::default() });
    server.greet();
    let reason = flood(&mut server, |round| {
        let id = stream(round);
        [headers(id, END_STREAM, &fields), if round > 0 { reset(id - 2) } else { Vec::new() }].concat()
    });
    assert_eq!(reason, Reason::ProvokedReset);
}

#[test]
fn streams_beyond_the_limit_close_the_connection_in_the_end() {
    let mut server = Side::server();
    assert_eq!(flood(&mut server, |round| get(stream(round))), Reason::ProvokedReset);
    assert_eq!(server.engine.streams(), 0);
}

#[test]
fn a_client_that_answers_data_with_window_updates_is_welcome() {
    let mut server = Side::server();
    server.feed(&[get(1), window_update(0, 1 << 30), window_update(1, 1 << 30)].concat()).unwrap();
    server.engine.respond(StreamId(1), 200, false, &mut server.out, |_| ()).unwrap();
    for _ in 0..FRAMES_MAX {
        assert_eq!(server.engine.send_data(StreamId(1), &[b'x'; 100], false, &mut server.out, 1 << 20), Ok(100));
        server.out.clear();
        server.feed(&[window_update(0, 100), window_update(1, 100), frame(PING, 0, 0, &[0; 8])].concat()).unwrap();
    }
}

/// Sends a body through windows of this size, one after the other; returns the reason if the connection ends.
fn through_windows_of(bytes: u32) -> Option<Reason> {
    let mut server = Side::server();
    server.feed(&[settings(&[(4, 0)]), window_update(0, 1 << 30), get(1)].concat()).unwrap();
    server.engine.respond(StreamId(1), 200, false, &mut server.out, |_| ()).unwrap();
    let body = vec![b'x'; bytes as usize + 1];
    for _ in 0..FRAMES_MAX {
        if let Err(closed) = server.feed(&window_update(1, bytes)) {
            return Some(closed.0);
        }
        server.engine.next_turn(1 << 20);
        let sent = server.engine.send_data(StreamId(1), &body, false, &mut server.out, 1 << 20);
        assert_eq!(sent, Ok(bytes as usize), "the window is used");
        server.out.clear();
    }
    None
}

#[test]
fn windows_of_one_byte_close_the_connection() {
    assert_eq!(through_windows_of(1), Some(Reason::WindowFlood));
    assert_eq!(through_windows_of(127), Some(Reason::WindowFlood));
    assert_eq!(through_windows_of(128), None);
}

#[test]
fn numbers_of_streams_end_gently() {
    let mut server = Side::server();
    let last = 0x7FFF_FFFF - 1000;
    let seen = server.feed(&get(last)).unwrap();
    assert!(matches!(seen[..], [Seen::Head { .. }]));
    let kinds: Vec<u8> = server.sent().iter().map(|frame| frame.kind).collect();
    assert_eq!(kinds, [GOAWAY, PING], "it goes away while there are numbers left");
    assert!(!server.engine.is_finished());
    server.feed(&frame(PING, ACK, 0, b"goaway!\n")).unwrap();
    server.engine.respond(StreamId(last), 200, true, &mut server.out, |_| ()).unwrap();
    assert!(server.engine.is_finished());
    assert_eq!(server.feed(&get(0x7FFF_FFFF)), Ok(Vec::new()), "it came too late");
}
