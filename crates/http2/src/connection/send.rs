//! Sending: heads at once, bodies as far as windows, the caller's room and the other streams permit. A stream that
//! could not send everything gets its turn later: [`Connection::next_turn`] names it.

use super::{Connection, Fields};
use crate::abuse::Cost;
use crate::check;
use crate::event::StreamId;
use crate::frame::{HEADER_BYTES, Header, flag, kind};
use crate::head::Head;
use crate::hpack::{Encoder, Indexing};
use crate::reason::HeadFault;
use crate::settings::{FRAME_BYTES_DEFAULT, Role};
use crate::streams::{Over, Phase, Stream, Waiting};
use thiserror::Error;

/// Bytes that a stream sends before another has its turn: one frame of the usual size.
const QUANTUM_BYTES: usize = FRAME_BYTES_DEFAULT as usize;

/// For lack of room in the caller's buffer, a frame is not cut to less than this.
const PIECE_BYTES_MIN: usize = 1024;

/// A window below this makes frames that cost us more than the peer: the updates that open it count as abuse
/// (CVE-2019-9511, "data dribble"). The default window is 512 times as large.
const WINDOW_BYTES_USEFUL: usize = 128;

/// Room in the caller's buffer below which no stream gets its turn: it would send nothing, and be named again.
const TURN_ROOM_BYTES: usize = HEADER_BYTES + PIECE_BYTES_MIN;

/// Why nothing was sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum SendFault {
    /// The stream is over: it was reset, or has ended.
    #[error("the stream is over")]
    Over,
    /// A body before its head, a second head, or anything after the end.
    #[error("a part of a message in the wrong place")]
    Order,
}

/// Why no stream can be opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum OpenFault {
    /// As many streams are open as the peer allows.
    #[error("the peer allows no more streams at once")]
    TooMany,
    /// Either side has sent GOAWAY, or all stream numbers are used.
    #[error("the connection takes no more streams")]
    Going,
    /// The request line cannot be sent.
    #[error("{0}")]
    Head(HeadFault),
}

/// The pseudo-header fields of a request.
#[derive(Debug, Clone, Copy, Default)]
pub struct RequestLine<'a> {
    /// The method.
    pub method: &'a [u8],
    /// The scheme; empty for an ordinary CONNECT.
    pub scheme: &'a [u8],
    /// Host and port; empty where there is none.
    pub authority: &'a [u8],
    /// Path and query; empty for an ordinary CONNECT.
    pub path: &'a [u8],
    /// The protocol of an extended CONNECT; empty otherwise.
    pub protocol: &'a [u8],
}

impl Connection {
    /// Opens a stream with a request. `end`: it has no body. For clients.
    pub fn open(
        &mut self,
        request: &RequestLine<'_>,
        end: bool,
        out: &mut Vec<u8>,
        fill: impl FnOnce(&mut Fields<'_>),
    ) -> Result<StreamId, OpenFault> {
        debug_assert_eq!(self.role, Role::Client, "only clients open streams");
        let id = if self.last_opened == 0 { 1 } else { self.last_opened + 2 };
        if self.is_going() || id > 0x7FFF_FFFF {
            return Err(OpenFault::Going);
        }
        if self.streams.len() >= self.peer.streams_max as usize {
            return Err(OpenFault::TooMany);
        }
        let pseudo: [(&[u8], &[u8], Indexing); 5] = [
            (b":method", request.method, Indexing::Keep),
            (b":scheme", request.scheme, Indexing::Keep),
            (b":authority", request.authority, Indexing::Keep),
            (b":path", request.path, Indexing::Without),
            (b":protocol", request.protocol, Indexing::Keep),
        ];
        for (name, value, _) in pseudo {
            check::value(value).map_err(|fault| OpenFault::Head(fault.into()))?;
            // They may become parts of an HTTP/1 request line.
            if value.contains(&b' ') {
                return Err(OpenFault::Head(if name == b":path" { HeadFault::Path } else { HeadFault::Authority }));
            }
        }
        self.last_opened = id;
        let mut stream = Stream::new(id, self.peer.stream_window, self.initial_window());
        stream.sends = if end { Phase::Ended } else { Phase::Body };
        stream.no_body = request.method == b"HEAD";
        self.streams.insert(stream);
        self.write_block(id, end, out, |fields| {
            for (name, value, indexing) in pseudo.into_iter().filter(|(_, value, _)| !value.is_empty()) {
                fields.encoder.field(name, value, indexing, fields.out);
            }
            fill(fields);
        });
        Ok(StreamId(id))
    }

    /// Sends the head of a response, or of an interim one (status below 200, `end` false). For servers.
    pub fn respond(
        &mut self,
        stream: StreamId,
        status: u16,
        end: bool,
        out: &mut Vec<u8>,
        fill: impl FnOnce(&mut Fields<'_>),
    ) -> Result<(), SendFault> {
        debug_assert!(status >= 200 || !end, "an interim response ends nothing");
        let known = self.streams.get(stream.0).ok_or(SendFault::Over)?;
        if known.sends != Phase::Head {
            return Err(SendFault::Order);
        }
        if status >= 200 {
            known.sends = Phase::Body;
        }
        self.write_block(stream.0, end, out, |fields| {
            Encoder::status(status, fields.out);
            fill(fields);
        });
        if end {
            self.end_sending(stream.0, out);
        }
        Ok(())
    }

    /// Sends trailers, which end the message.
    pub fn send_trailers(
        &mut self,
        stream: StreamId,
        out: &mut Vec<u8>,
        fill: impl FnOnce(&mut Fields<'_>),
    ) -> Result<(), SendFault> {
        let known = self.streams.look(stream.0).ok_or(SendFault::Over)?;
        if known.sends != Phase::Body {
            return Err(SendFault::Order);
        }
        self.write_block(stream.0, true, out, fill);
        self.end_sending(stream.0, out);
        Ok(())
    }

    /// Sends as much of a body as possible now, and returns how much. `end`: nothing follows these bytes. `out` does
    /// not grow above `out_bytes_max`. If not everything was sent, `next_turn` tells when to continue with the rest.
    pub fn send_data(
        &mut self,
        stream: StreamId,
        bytes: &[u8],
        end: bool,
        out: &mut Vec<u8>,
        out_bytes_max: usize,
    ) -> Result<usize, SendFault> {
        let id = stream.0;
        let known = self.streams.look(id).ok_or(SendFault::Over)?;
        if known.sends != Phase::Body {
            return Err(SendFault::Order);
        }
        let urgency = known.priority.urgency;
        // The end alone needs no window.
        let has_turn = self.chosen == id || bytes.is_empty() || !self.streams.has_waiting(urgency);
        let mut sent = 0;
        if has_turn {
            let is_alone = !self.streams.has_waiting(urgency);
            let quantum = if is_alone { usize::MAX } else { QUANTUM_BYTES };
            sent = self.write_data(id, bytes, end, out, out_bytes_max, quantum);
        }
        self.settle(id, sent == bytes.len(), end, out);
        Ok(sent)
    }

    /// Appends DATA frames, as far as windows and room permit.
    fn write_data(
        &mut self,
        id: u32,
        bytes: &[u8],
        end: bool,
        out: &mut Vec<u8>,
        out_bytes_max: usize,
        quantum: usize,
    ) -> usize {
        let frame_max = (self.peer.frame_bytes_max as usize).min(QUANTUM_BYTES);
        let Some(stream) = self.streams.get(id) else { return 0 };
        let mut sent = 0;
        loop {
            let left = bytes.len() - sent;
            let window = stream.send_window.min(self.send_window).max(0) as usize;
            let room = out_bytes_max.saturating_sub(out.len() + HEADER_BYTES);
            let len = left.min(window).min(frame_max);
            let is_last = len == left;
            if len == 0 && !(is_last && end && sent == 0) {
                break;
            }
            if sent >= quantum || (room < len && room < PIECE_BYTES_MIN) {
                break;
            }
            let len = len.min(room);
            let flags = if end && len == left { flag::END_STREAM } else { 0 };
            let header = Header { len: len as u32, kind: kind::DATA, flags, stream: id };
            out.extend_from_slice(&header.encode());
            out.extend_from_slice(&bytes[sent..sent + len]);
            stream.send_window -= len as i32;
            self.send_window -= len as i32;
            sent += len;
            let is_dribble = len == window && len < left && len < WINDOW_BYTES_USEFUL;
            if !is_dribble {
                // Refills what the peer answers data with.
                self.budgets.refund(Cost::WindowUpdate, 2);
                self.budgets.refund(Cost::Ping, 1);
            }
            if sent == bytes.len() {
                break;
            }
        }
        sent
    }

    /// Sets what a stream waits for after it has sent as much as it could.
    fn settle(&mut self, id: u32, is_all: bool, end: bool, out: &mut Vec<u8>) {
        let was_chosen = std::mem::take(&mut self.chosen) == id;
        let Some(stream) = self.streams.look(id) else { return };
        if is_all {
            self.streams.set_waiting(id, Waiting::No);
            if end {
                self.end_sending(id, out);
            }
        } else if stream.send_window <= 0 {
            self.streams.set_waiting(id, Waiting::Window);
        } else if was_chosen || stream.waiting != Waiting::Turn {
            // One response after the other, unless they are useful in parts.
            let is_first = was_chosen && !stream.priority.incremental;
            self.streams.queue(id, is_first);
        }
    }

    /// The stream that may send next; the caller calls `send_data` for it before it asks again. `room`: bytes by which
    /// `out` may grow. `None`: no stream waits, or the connection's window or the room is used up; [`Self::has_turn`]
    /// tells whether it was the room.
    pub fn next_turn(&mut self, room: usize) -> Option<StreamId> {
        if self.send_window <= 0 || room < TURN_ROOM_BYTES {
            return None;
        }
        loop {
            let id = self.streams.first_waiting()?;
            let has_window = self.streams.look(id).is_some_and(|stream| stream.send_window > 0);
            if has_window {
                self.streams.set_waiting(id, Waiting::No);
                self.chosen = id;
                return Some(StreamId(id));
            }
            self.streams.set_waiting(id, Waiting::Window);
        }
    }

    /// Whether a stream waits for its turn and the connection's window permits sending.
    pub fn has_turn(&self) -> bool {
        self.send_window > 0 && self.streams.first_waiting().is_some()
    }

    /// Bytes of a body that the windows permit now; `None` if the stream is over.
    pub fn sendable_bytes(&self, stream: StreamId) -> Option<usize> {
        let known = self.streams.look(stream.0)?;
        Some(known.send_window.min(self.send_window).max(0) as usize)
    }

    /// We have sent everything of a stream.
    fn end_sending(&mut self, id: u32, out: &mut Vec<u8>) {
        let Some(stream) = self.streams.get(id) else { return };
        stream.sends = Phase::Ended;
        let is_over = stream.receives == Phase::Ended;
        self.budgets.refund(Cost::Reset, 1);
        if is_over {
            self.remove(id, Over::ByPeer, out);
        }
    }
}

impl Head {
    /// Whether a response with this head is an interim one.
    pub fn is_interim(&self) -> bool {
        self.kind == crate::HeadKind::Response && self.status < 200
    }
}
