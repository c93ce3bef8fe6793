//! The end of a connection: gracefully in two steps (RFC 9113 §6.8), at once, or for a fault. And the protocol's only
//! deadline of its own.

use super::Connection;
use super::receive::Reading;
use crate::code::ErrorCode;
use crate::event::{Closed, StreamId};
use crate::frame;
use crate::reason::Reason;
use crate::settings::Role;
use crate::streams::{Over, Phase, Streams, UNKNOWN_LENGTH};

/// The state of our own GOAWAY.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Going {
    /// None was sent.
    No,
    /// The first was sent; streams that the peer opened before it knew are still accepted, until it answers a PING.
    Announced,
    /// Streams above this one are ignored.
    Final(u32),
}

/// The number in the first GOAWAY: all streams are still accepted.
const LAST_OF_ALL: u32 = 0x7FFF_FFFF;

/// The PING after the first GOAWAY.
const GOING_PING: [u8; 8] = *b"goaway!\n";

/// Numbers that a client may have used already when it learns that no more are available.
const NUMBERS_IN_RESERVE: u32 = 2 * 1024;

impl Connection {
    /// Ends the connection gracefully: the peer is told to open no more streams; those that it opens before it knows
    /// are served. A second call does not wait for that. Afterwards [`Self::is_finished`] tells when the last stream
    /// has ended.
    pub fn shut_down(&mut self, out: &mut Vec<u8>) {
        match self.going {
            Going::No if self.role == Role::Server && self.reading != Reading::Closed => {
                self.going = Going::Announced;
                frame::encode_goaway(LAST_OF_ALL, ErrorCode::NO_ERROR, out);
                frame::encode_ping(0, GOING_PING, out);
            }
            Going::No | Going::Announced => self.go(out),
            Going::Final(_) => {}
        }
    }

    fn go(&mut self, out: &mut Vec<u8>) {
        if self.reading == Reading::Closed {
            return;
        }
        let last = self.last_looked_at();
        self.going = Going::Final(last);
        frame::encode_goaway(last, ErrorCode::NO_ERROR, out);
    }

    /// The peer's last stream that was not ignored. A server opens none.
    fn last_looked_at(&self) -> u32 {
        match (self.role, self.going) {
            (Role::Client, _) => 0,
            (Role::Server, Going::Final(last)) => last,
            (Role::Server, _) => self.last_opened,
        }
    }

    /// Whether this PING answer is the one that starts the second step.
    pub(super) fn take_pong(&mut self, payload: [u8; 8], out: &mut Vec<u8>) -> bool {
        let is_ours = payload == GOING_PING && self.going == Going::Announced;
        if is_ours {
            self.go(out);
        }
        is_ours
    }

    /// Whether a new stream of the peer comes too late to be processed.
    pub(super) fn is_too_late(&self, stream: u32) -> bool {
        matches!(self.going, Going::Final(last) if stream > last)
    }

    /// Whether either side has sent GOAWAY, or the connection is over: no stream can be opened.
    pub fn is_going(&self) -> bool {
        self.going != Going::No || self.peer_last.is_some() || self.reading == Reading::Closed
    }

    /// Sends GOAWAY before the stream numbers are used up.
    pub(super) fn watch_numbers(&mut self, out: &mut Vec<u8>) {
        if self.going == Going::No && self.last_opened > LAST_OF_ALL - NUMBERS_IN_RESERVE {
            self.shut_down(out);
        }
    }

    /// Whether either side has sent GOAWAY and no stream is left: the connection can be closed.
    pub fn is_finished(&self) -> bool {
        self.reading == Reading::Closed
            || (self.streams.len() == 0 && (matches!(self.going, Going::Final(_)) || self.peer_last.is_some()))
    }

    /// Ends the connection at once, with its streams.
    pub fn close(&mut self, code: ErrorCode, out: &mut Vec<u8>) {
        if self.reading == Reading::Closed {
            return;
        }
        frame::encode_goaway(self.last_looked_at(), code, out);
        self.reading = Reading::Closed;
        self.streams = Streams::default();
        self.partial = Vec::new();
        self.block = None;
        self.settings_deadline_ms = None;
    }

    /// Ends the connection for a fault.
    #[cold]
    pub(super) fn fail(&mut self, reason: Reason, out: &mut Vec<u8>) -> Closed {
        self.close(reason.code(), out);
        Closed(reason)
    }

    /// Resets a stream that its owner gives up. Does nothing if the stream is over.
    pub fn reset(&mut self, stream: StreamId, code: ErrorCode, out: &mut Vec<u8>) {
        if self.is_open(stream) {
            frame::encode_reset(stream.0, code, out);
            self.has_reset = true;
            self.remove(stream.0, Over::ByUs, out);
        }
    }

    /// Drops what the peer still sends on a stream of which everything was sent: an answer came before the end of its request, and some
    /// clients lose it where a reset follows at once. The window that the peer has is not filled up again. The stream ends with the peer's
    /// end, or by a reset with `NO_ERROR` (RFC 9113 §8.1): here or with the last bytes of that window, or when the caller asks for one.
    /// It counts as open until then. Whether it goes on.
    pub fn discard_rest(&mut self, stream: StreamId, out: &mut Vec<u8>) -> bool {
        let Some(known) = self.streams.get(stream.0) else { return false };
        debug_assert_eq!(known.sends, Phase::Ended, "what was not sent would not be missed");
        known.discards = true;
        (known.token, known.body_left) = (0, UNKNOWN_LENGTH);
        let unconsumed = std::mem::take(&mut known.unconsumed);
        self.credit_connection(unconsumed, out);
        self.reset_if_stuck(stream.0, out);
        self.is_open(stream)
    }

    /// Resets a stream whose rest is dropped, and that can bring no more: the peer would wait for a window in vain.
    pub(super) fn reset_if_stuck(&mut self, id: u32, out: &mut Vec<u8>) {
        if self.streams.look(id).is_some_and(|stream| stream.discards && stream.receive_window <= 0) {
            self.reset(StreamId(id), ErrorCode::NO_ERROR, out);
        }
    }

    /// Sends a PING; the answer is [`crate::Event::Pong`] with the same bytes.
    pub fn ping(&mut self, payload: [u8; 8], out: &mut Vec<u8>) {
        if self.reading != Reading::Closed {
            frame::encode_ping(0, payload, out);
        }
    }

    /// When [`Self::tick`] must be called; `None` for never.
    pub fn deadline_ms(&self) -> Option<u64> {
        self.settings_deadline_ms
    }

    /// Checks the deadline.
    pub fn tick(&mut self, now_ms: u64, out: &mut Vec<u8>) -> Result<(), Closed> {
        match self.settings_deadline_ms {
            Some(deadline) if now_ms >= deadline => Err(self.fail(Reason::SettingsTimeout, out)),
            _ => Ok(()),
        }
    }
}
