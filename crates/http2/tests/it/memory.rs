//! What a connection that waits takes: bounds that the gateway's account relies on.

use crate::support::*;
use http2::{Connection, StreamId};

/// Bytes of a connection without streams and with empty tables.
const IDLE_BYTES_MAX: usize = 1024;

/// Bytes that a stream adds.
const STREAM_BYTES_MAX: usize = 128;

fn size(server: &Side) -> usize {
    size_of::<Connection>() + server.engine.held_bytes()
}

#[test]
fn an_idle_connection_is_small() {
    let server = Side::server();
    assert!(size(&server) <= IDLE_BYTES_MAX, "{} bytes", size(&server));
}

#[test]
fn a_connection_is_small_again_after_its_work() {
    let mut server = Side::server();
    for round in 0..100 {
        let ids: Vec<u32> = (0..100).map(|at| 2 * (100 * round + at) + 1).collect();
        for &id in &ids {
            // In two pieces, so that a frame must be kept.
            let request = get(id);
            server.feed(&request[..20]).unwrap();
            server.feed(&request[20..]).unwrap();
        }
        for &id in &ids {
            let fill = |head: &mut http2::Fields<'_>| head.add(b"server", b"holdfast").unwrap();
            server.engine.respond(StreamId(id), 200, true, &mut server.out, fill).unwrap();
        }
        server.out.clear();
    }
    server.engine.trim();
    assert!(size(&server) <= IDLE_BYTES_MAX, "{} bytes", size(&server));
}

#[test]
fn a_stream_is_small() {
    let mut server = Side::server();
    let before = size(&server);
    for id in 0..64 {
        server.feed(&post(2 * id + 1)).unwrap();
    }
    let each = (size(&server) - before) / 64;
    assert!(each <= STREAM_BYTES_MAX, "{each} bytes");
}
