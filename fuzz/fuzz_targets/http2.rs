//! A connection of HTTP/2, of either role: no panic, bounded memory and output for any bytes, and the same events for any split into
//! pieces. The first byte chooses the role, and whether what follows is frames (with a length and a type in front of each) or bytes.
#![no_main]

use http2::{Config, Connection, ErrorCode, Event, Head, RequestLine, Role, StreamId};
use libfuzzer_sys::fuzz_target;

/// Memory behind a connection: a frame under way, a block, tables, streams.
const HELD_BYTES_MAX: usize = 128 * 1024;

const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// Bytes as a client or a server begins with, and frames that are made of the input.
fn wire(input: &[u8], role: Role, framed: bool) -> Vec<u8> {
    let mut wire = if role == Role::Server { PREFACE.to_vec() } else { Vec::new() };
    wire.extend_from_slice(&[0, 0, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 4, 1, 0, 0, 0, 0]);
    let mut rest = input;
    if !framed {
        wire.extend_from_slice(input);
        return wire;
    }
    while let [len, kind, flags, stream, behind @ ..] = rest {
        let len = usize::from(*len).min(behind.len());
        // Known types, mostly.
        let kind = if kind & 0x80 == 0 { kind % 10 } else { kind & 0x1F };
        wire.extend_from_slice(&[0, 0, len as u8, kind, *flags, 0, 0, 0, stream % 16]);
        wire.extend_from_slice(&behind[..len]);
        rest = &behind[len..];
    }
    wire
}

/// One side, and all events that it reported.
fn run(role: Role, wire: &[u8], piece: usize, steer: u8) -> (String, Vec<u8>) {
    let (mut out, mut head) = (Vec::new(), Head::default());
    let config = Config { extended_connect: steer & 1 == 1, ..Config::default() };
    let mut side = Connection::new(role, config, 0, &mut out);
    if role == Role::Client {
        let line = RequestLine { method: b"GET", scheme: b"http", authority: b"a", path: b"/", protocol: b"" };
        for _ in 0..4 {
            side.open(&line, steer & 2 == 2, &mut out, |_| ()).expect("nothing forbids streams yet");
        }
    }
    let mut told = String::new();
    for mut bytes in wire.chunks(piece) {
        loop {
            let before = (out.len(), bytes.len());
            let event = match side.receive(0, &mut bytes, &mut head, &mut out) {
                Ok(Some(event)) => event,
                Ok(None) => break,
                Err(closed) => {
                    assert!(side.is_finished());
                    return (format!("{told} {closed:?}"), out);
                }
            };
            assert!(
                out.len() - before.0 <= 2 * (before.1 - bytes.len()) + 64,
                "the answer is bounded by what was read"
            );
            assert!(side.held_bytes() <= HELD_BYTES_MAX);
            match event {
                // A body may come in any pieces.
                Event::Data { stream, bytes, end } => {
                    told.extend(bytes.iter().map(|byte| format!("{stream}:{byte} ")));
                    told += if end { "end " } else { "" };
                }
                other => told += &format!("{other:?} "),
            }
            if let Event::Head { stream, .. } | Event::Trailers { stream } = event {
                told += &format!("{:?} ", head.fields);
                assert!(head.fields.iter().all(|field| is_one_line(field.value.of(&head.bytes))));
                assert!(is_one_line(head.path.of(&head.bytes)) && !head.path.of(&head.bytes).contains(&b' '));
                answer(&mut side, role, stream, steer, &mut out);
            }
        }
        assert!(bytes.is_empty());
    }
    (told, out)
}

fn is_one_line(text: &[u8]) -> bool {
    !text.iter().any(|byte| b"\r\n\0".contains(byte))
}

/// What an owner could do then; the same however the bytes come.
fn answer(side: &mut Connection, role: Role, stream: StreamId, steer: u8, out: &mut Vec<u8>) {
    if role == Role::Server {
        let _ = side.respond(stream, 200, steer & 4 == 4, out, |fields| _ = fields.add(b"Server", b"x"));
        let room = out.len() + 300;
        let _ = side.send_data(stream, &[b'y'; 400], steer & 8 == 8, out, room);
        assert!(out.len() <= room + 9);
    }
    match steer >> 4 {
        1 => side.reset(stream, ErrorCode::CANCEL, out),
        2 => side.shut_down(out),
        3 => side.grow_window(stream, 100_000, out),
        4 => drop(side.next_turn(usize::MAX)),
        5 => drop(side.send_trailers(stream, out, |_| ())),
        6 => side.trim(),
        _ => {}
    }
}

fuzz_target!(|input: &[u8]| {
    let [kind, steer, rest @ ..] = input else { return };
    let role = if kind & 1 == 0 { Role::Server } else { Role::Client };
    let wire = wire(rest, role, kind & 2 == 0);
    let whole = run(role, &wire, usize::MAX, *steer);
    assert_eq!(run(role, &wire, 1 + usize::from(kind >> 2), *steer), whole);
});
