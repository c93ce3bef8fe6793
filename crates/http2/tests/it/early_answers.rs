//! Answers that come before the end of their request: what still comes of it is dropped, and the stream ends with it.

use crate::support::*;
use http2::{Config, ErrorCode, Reason, ResetBy, Role, StreamId};

const FIRST: StreamId = StreamId(1);

/// Answers the first stream completely, and drops what still comes of its request.
fn answer_early(server: &mut Side) -> bool {
    server.engine.respond(FIRST, 413, true, &mut server.out, |_| ()).unwrap();
    server.engine.discard_rest(FIRST, &mut server.out)
}

/// A server that has answered a request of which more may come.
fn answered() -> Side {
    let mut server = Side::server();
    server.feed(&[post(1), frame(DATA, 0, 1, b"begun")].concat()).unwrap();
    assert!(answer_early(&mut server));
    let sent = server.sent();
    assert_eq!((sent.len(), sent[0].kind, sent[0].flags & END_STREAM), (1, HEADERS, END_STREAM));
    server
}

#[test]
fn the_end_of_the_request_ends_the_stream_without_a_reset() {
    let mut server = answered();
    let rest = [frame(DATA, 0, 1, &[b'x'; 10_000]), frame(DATA, END_STREAM, 1, b"end")].concat();
    assert_eq!(server.feed(&rest), Ok(vec![]), "the caller hears nothing of it");
    assert_eq!((server.sent(), server.engine.streams()), (vec![], 0));
    assert_eq!(server.fails(&frame(DATA, 0, 1, b"more")), Reason::StreamOver);
}

#[test]
fn trailers_end_it_as_well() {
    let mut server = Side::server();
    let with_length: Vec<_> = POST.into_iter().chain([("content-length", "4")]).collect();
    server.feed(&headers(1, 0, &with_length)).unwrap();
    assert!(answer_early(&mut server));
    let rest = [frame(DATA, 0, 1, b"body"), headers(1, END_STREAM, &[("x-sum", "7")])].concat();
    assert_eq!(server.feed(&rest), Ok(vec![]));
    assert_eq!(server.engine.streams(), 0);
}

#[test]
fn window_stays_closed_and_a_reset_follows_the_last_byte() {
    let mut server = answered();
    let full = frame(DATA, 0, 1, &[b'x'; 16_000]);
    let mut sent = Vec::new();
    for _ in 0..4 {
        server.feed(&full).unwrap();
        sent.extend(server.sent());
    }
    assert!(sent.is_empty() && server.engine.is_open(FIRST), "{sent:?}");
    // Padding is no content, and counts against the window all the same.
    let padded = [&[29][..], &[b'x'; 1500], &[0; 29]].concat();
    server.feed(&frame(DATA, PADDED, 1, &padded)).unwrap();
    assert_eq!(server.sent(), frames(&frame(RST_STREAM, 0, 1, &ErrorCode::NO_ERROR.0.to_be_bytes())));
    assert!(!server.engine.is_open(FIRST));
    // What was under way then is no fault.
    assert_eq!(server.feed(&full), Ok(vec![]));
}

#[test]
fn a_stream_without_a_window_is_reset_at_once() {
    let mut server = Side::new(Role::Server, Config { stream_window: 0, ..Config::default() });
    server.greet();
    server.feed(&post(1)).unwrap();
    assert!(!answer_early(&mut server));
    assert_eq!(server.sent()[1], frames(&frame(RST_STREAM, 0, 1, &[0; 4]))[0]);

    // The same where the peer learns only later that it has none.
    let mut server = Side::new(Role::Server, Config { stream_window: 0, ..Config::default() });
    server.feed(&[PREFACE, &settings(&[]), &post(1)].concat()).unwrap();
    assert!(answer_early(&mut server));
    server.sent();
    server.feed(&frame(SETTINGS, ACK, 0, &[])).unwrap();
    assert_eq!(server.sent(), frames(&frame(RST_STREAM, 0, 1, &[0; 4])));
}

/// The connection's window is for all streams: what one drops comes back to it.
#[test]
fn dropped_bytes_come_back_to_the_connection() {
    let config = Config { stream_window: 1 << 20, connection_window: 65_535, ..Config::default() };
    let mut server = Side::new(Role::Server, config);
    server.greet();
    server.feed(&[post(1), frame(DATA, 0, 1, &[b'x'; 16_000]), frame(DATA, 0, 1, &[b'x'; 16_000])].concat()).unwrap();
    answer_early(&mut server);
    server.sent();
    server.feed(&frame(DATA, 0, 1, &[b'x'; 1000])).unwrap();
    assert_eq!(server.sent(), frames(&window_update(0, 33_000)), "what had come before is dropped, too");
}

#[test]
fn such_streams_count_as_open() {
    let mut server = Side::new(Role::Server, Config { streams_max: 1, ..Config::default() });
    server.greet();
    server.feed(&post(1)).unwrap();
    assert!(answer_early(&mut server));
    assert_eq!(server.resets(&get(3)), (3, Reason::TooManyStreams));
    server.engine.shut_down(&mut server.out);
    server.engine.shut_down(&mut server.out);
    assert!(!server.engine.is_finished());
    server.engine.reset(FIRST, ErrorCode::NO_ERROR, &mut server.out);
    assert!(server.engine.is_finished());

    let mut server = answered();
    let cancelled = Seen::Reset { stream: 1, by: ResetBy::Peer(ErrorCode::CANCEL) };
    assert_eq!(server.feed(&reset(1)), Ok(vec![cancelled]));
    assert_eq!(server.engine.streams(), 0);
}
