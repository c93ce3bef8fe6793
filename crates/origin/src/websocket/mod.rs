//! The origin's WebSocket. This file evaluates requests to `/websocket/…`; `session` is one connection, `outbox` its unsent
//! data, `rooms` the members of rooms. The crate `websocket` has frames and handshakes.

mod outbox;
mod rooms;
mod session;

pub(crate) use rooms::{Broadcast, OnTheWay, Rooms};
pub(crate) use session::{Session, Step};

use crate::action::Action;
use crate::query::{Complaint, Query};
use crate::reply::Reply;
use http1::RequestHead;
use std::sync::Arc;
use websocket::CloseCode;
use websocket::handshake::{self, Key};

/// Longest message: 16 MB is the usual limit of servers, and enough for tests of huge frames.
const MESSAGE_BYTES_MAX: usize = 16 << 20;
/// Longest ping interval or idle time that a request can set: longer than every timeout under test.
const WAIT_MS_MAX: u64 = 3_600_000;
/// Default limit of the bytes that may wait for a room member that does not read.
const QUEUE_BYTES_DEFAULT: u64 = 1 << 20;
/// Largest such limit that a request can set. A thousand members that do not read then hold a quarter of a gigabyte of
/// references to frames that exist once.
const QUEUE_BYTES_MAX: u64 = 64 << 20;
/// Pause between two reads of a slow reader.
const READ_EVERY_MS_DEFAULT: u64 = 100;
/// Longest name of a room.
const ROOM_BYTES_MAX: usize = 128;

/// What happens when a member's queue is full.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Overflow {
    /// The message is not delivered to that member, and is counted.
    Drop,
    /// That member is closed with 1013 (try again later).
    Close,
}

/// How the origin reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reading {
    AtOnce,
    Never,
    /// Reads this many bytes at a time, this many milliseconds apart.
    Slow(u32, u32),
}

/// The settings of a connection from its request.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Terms {
    ping_ms: Option<u32>,
    idle_ms: Option<u32>,
    /// Closes with this code after this many messages.
    close: Option<(CloseCode, u32)>,
    queue_bytes: u32,
    overflow: Overflow,
    reading: Reading,
}

/// A WebSocket that is about to open.
#[derive(Debug)]
pub(crate) struct Opening {
    pub(crate) key: Key,
    pub(crate) protocol: Option<Vec<u8>>,
    terms: Terms,
    pub(crate) room: Option<Arc<str>>,
}

/// The action for a request to `/websocket/…`.
pub(crate) fn choose(head: &RequestHead, bytes: &[u8], argument: &str, query: Query<'_>) -> Result<Action, Complaint> {
    let room = match argument.split_once('/') {
        Some(("room", name)) if !name.is_empty() && name.len() <= ROOM_BYTES_MAX => Some(Arc::from(name)),
        None if argument == "echo" => None,
        _ => {
            return Err(Complaint(format!(
                "expected /websocket/echo or /websocket/room/NAME ({ROOM_BYTES_MAX} bytes)"
            )));
        }
    };
    let asked = match handshake::check_request(head, bytes) {
        Ok(asked) => asked,
        Err(fault) => {
            let mut reply = Reply::text(fault.status(), fault.to_string());
            fault.encode_fields(&mut reply.fields);
            return Ok(Action::Reply(reply));
        }
    };
    let milliseconds = |name| query.number(name, 1, WAIT_MS_MAX).map(|ms| ms.map(|ms| ms as u32));
    let close = match query.number("close", 1000, 4999)?.map(|code| CloseCode(code as u16)) {
        Some(code) if !code.is_sendable() => return Err(Complaint(format!("close: {} may not be sent", code.0))),
        Some(code) => Some((code, query.number("after", 0, u64::from(u32::MAX))?.unwrap_or(0) as u32)),
        None => None,
    };
    let terms = Terms {
        ping_ms: milliseconds("ping")?,
        idle_ms: milliseconds("idle")?,
        close,
        queue_bytes: query.number("queue", 0, QUEUE_BYTES_MAX)?.unwrap_or(QUEUE_BYTES_DEFAULT) as u32,
        overflow: overflow(query)?,
        reading: reading(query)?,
    };
    // The client's first choice, because the origin treats all subprotocols alike.
    let protocol = handshake::protocols(head, bytes).next().map(<[u8]>::to_vec);
    Ok(Action::WebSocket(Box::new(Opening { key: asked.key, protocol, terms, room })))
}

fn overflow(query: Query<'_>) -> Result<Overflow, Complaint> {
    match query.text("overflow").as_deref() {
        None | Some("drop") => Ok(Overflow::Drop),
        Some("close") => Ok(Overflow::Close),
        Some(_) => Err(Complaint("overflow: expected drop or close".to_owned())),
    }
}

fn reading(query: Query<'_>) -> Result<Reading, Complaint> {
    match query.text("read").as_deref() {
        None => Ok(Reading::AtOnce),
        Some("never") => Ok(Reading::Never),
        Some(_) => {
            let bytes = query.number("read", 1, u64::from(u16::MAX))?.unwrap_or(1);
            let every_ms = query.number("every", 1, WAIT_MS_MAX)?.unwrap_or(READ_EVERY_MS_DEFAULT);
            Ok(Reading::Slow(bytes as u32, every_ms as u32))
        }
    }
}
