//! One WebSocket: echoes or broadcasts messages, sends pings, and ends with the closing handshake. `connection` drives it.
//! An idle connection costs this struct.

use super::outbox::Outbox;
use super::{MESSAGE_BYTES_MAX, Opening, Overflow, Reading, Terms};
use crate::counters::CloseReason;
use crate::options::ClosingStyle;
use crate::websocket::Broadcast;
use crate::worker::Site;
use reactor::{Millis, Read, TaskId};
use std::io;
use std::sync::Arc;
use transport::Transport;
use websocket::{CloseCode, Decoder, Event, Opcode, Sender, encode_close, encode_frame};

/// Bytes per read, as for other connections.
const READ_BYTES: usize = 64 * 1024;
/// With more unsent bytes than this, nothing is read, so that a client that does not read is slowed down.
const UNSENT_BYTES_MAX: usize = 64 * 1024;
/// How long to wait for the client's answer to a close frame.
const CLOSE_MS: u64 = 5_000;

/// What a session needs next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Step {
    Again,
    Wait,
    End(CloseReason, ClosingStyle),
}

/// An open WebSocket.
#[derive(Debug)]
pub(crate) struct Session {
    decoder: Decoder,
    outbox: Outbox,
    terms: Terms,
    room: Option<Arc<str>>,
    messages: u32,
    heard: Millis,
    ping_due: Option<Millis>,
    read_due: Option<Millis>,
    /// After the origin's close frame: the reason, and until when to wait for the client's close frame.
    closing: Option<(CloseReason, Millis)>,
    /// Whether the client's close frame has arrived.
    heard_close: bool,
    /// Whether a frame was invalid; the bytes after it are ignored.
    faulty: bool,
}

impl Session {
    /// Opens the session and joins its room. `head` is the 101.
    pub(crate) fn open(
        opening: Opening,
        head: &[u8],
        stream: &Transport,
        task: TaskId,
        site: &mut Site,
    ) -> io::Result<Self> {
        let now = site.reactor.now();
        if let Some(room) = &opening.room {
            site.rooms.enter(room, task.index);
        }
        let later = |ms: u32| Millis(now.0 + u64::from(ms));
        let mut session = Self {
            decoder: Decoder::new(Sender::Client, MESSAGE_BYTES_MAX),
            outbox: Outbox::default(),
            terms: opening.terms,
            room: opening.room,
            messages: 0,
            heard: now,
            ping_due: opening.terms.ping_ms.map(later),
            read_due: None,
            closing: None,
            heard_close: false,
            faulty: false,
        };
        session.outbox.send(stream, head)?;
        if let Some((code, 0)) = session.terms.close {
            session.close(code, CloseReason::WebSocketEnd, stream, now)?;
        }
        Ok(session)
    }

    /// Whether the origin has sent a close frame.
    pub(crate) fn is_closing(&self) -> bool {
        self.closing.is_some()
    }

    /// When it must be driven again, even if nothing happens.
    pub(crate) fn due(&self) -> Option<Millis> {
        let idle = self.terms.idle_ms.map(|ms| Millis(self.heard.0 + u64::from(ms)));
        match self.closing {
            Some((_, until)) => Some(until),
            None => [idle, self.ping_due, self.read_due].into_iter().flatten().min(),
        }
    }

    /// Does all work that is possible now.
    pub(crate) fn step(&mut self, stream: &Transport, site: &mut Site) -> Step {
        match self.try_step(stream, site) {
            Ok(step) => step,
            Err(_) => Step::End(CloseReason::ClientReset, ClosingStyle::Fin),
        }
    }

    fn try_step(&mut self, stream: &Transport, site: &mut Site) -> io::Result<Step> {
        let now = site.reactor.now();
        if stream.is_failed() {
            return Ok(Step::End(CloseReason::ClientReset, ClosingStyle::Fin));
        }
        self.keep_time(stream, now)?;
        let is_flushed = self.outbox.flush(stream)?;
        if let Some((reason, until)) = self.closing {
            if is_flushed && self.heard_close {
                return Ok(Step::End(reason, ClosingStyle::Fin));
            }
            if is_flushed && self.faulty {
                // The client may still be sending. Closing with unread bytes would send RST, which can destroy the close
                // frame at the client.
                return Ok(Step::End(reason, ClosingStyle::HalfClose));
            }
            if now >= until {
                return Ok(Step::End(reason, ClosingStyle::Fin));
            }
        }
        let max = match self.terms.reading {
            _ if self.outbox.len() > UNSENT_BYTES_MAX => return Ok(Step::Wait),
            Reading::Never => return Ok(Step::Wait),
            Reading::Slow(..) if self.read_due.is_some() => return Ok(Step::Wait),
            Reading::Slow(bytes, every_ms) => {
                if stream.is_readable() {
                    self.read_due = Some(Millis(now.0 + u64::from(every_ms)));
                }
                bytes as usize
            }
            Reading::AtOnce => READ_BYTES,
        };
        match stream.read_with(max, |bytes| self.read_frames(stream, site, bytes))? {
            Read::Data(heard) => heard.map(|()| Step::Again),
            Read::NotReady => Ok(Step::Wait),
            Read::Closed => {
                let reason = self.closing.map_or(CloseReason::WebSocketLost, |(reason, _)| reason);
                Ok(Step::End(reason, ClosingStyle::Fin))
            }
        }
    }

    /// Handles received bytes.
    pub(crate) fn read_frames(&mut self, stream: &Transport, site: &mut Site, mut bytes: &[u8]) -> io::Result<()> {
        let now = site.reactor.now();
        self.heard = now;
        let mut out = std::mem::take(&mut site.frames);
        out.clear();
        let mut ending = None;
        loop {
            match self.decoder.decode(bytes) {
                Ok(decoded) => {
                    bytes = bytes.get(decoded.consumed..).unwrap_or_default();
                    let Some(event) = decoded.event else { break };
                    match event {
                        Event::Ping(payload) => encode_frame(true, Opcode::Pong, None, payload, &mut out),
                        Event::Pong(_) => {}
                        Event::Close(code, _) => {
                            self.heard_close = true;
                            ending = Some((code.unwrap_or(CloseCode::NONE), CloseReason::WebSocketEnd));
                        }
                        Event::Message { kind, payload } => {
                            self.messages = self.messages.saturating_add(1);
                            site.counters().websocket_message();
                            match &self.room {
                                None => encode_frame(true, kind.opcode(), None, payload, &mut out),
                                Some(room) => {
                                    let mut frame = Vec::new();
                                    encode_frame(true, kind.opcode(), None, payload, &mut frame);
                                    site.rooms.pending.push(Broadcast { room: Arc::clone(room), frame: frame.into() });
                                }
                            }
                            if let Some((code, after)) = self.terms.close
                                && self.messages >= after
                            {
                                ending = Some((code, CloseReason::WebSocketEnd));
                                break;
                            }
                        }
                    }
                }
                Err(fault) => {
                    self.faulty = true;
                    ending = Some((fault.close_code(), CloseReason::WebSocketFault));
                    break;
                }
            }
        }
        let sent = if out.is_empty() { Ok(()) } else { self.outbox.send(stream, &out) };
        site.frames = out;
        sent?;
        match ending {
            Some((code, reason)) => self.close(code, reason, stream, now),
            None => Ok(()),
        }
    }

    /// Sends a frame of the room.
    pub(crate) fn deliver(&mut self, frame: &Arc<[u8]>, stream: &Transport, site: &Site) -> io::Result<()> {
        if self.closing.is_some() {
            return Ok(());
        }
        // An empty outbox takes a frame of any length; the limit is for frames that wait.
        if self.outbox.len() > 0 && self.outbox.len() + frame.len() > self.terms.queue_bytes as usize {
            site.counters().websocket_drop();
            return match self.terms.overflow {
                Overflow::Drop => Ok(()),
                Overflow::Close => {
                    self.close(CloseCode::TRY_AGAIN, CloseReason::WebSocketOverflow, stream, site.reactor.now())
                }
            };
        }
        site.counters().websocket_delivery();
        self.outbox.send_shared(stream, frame)
    }

    fn keep_time(&mut self, stream: &Transport, now: Millis) -> io::Result<()> {
        let has_come = |due: Option<Millis>| due.is_some_and(|due| due <= now);
        if self.closing.is_some() {
            return Ok(());
        }
        if has_come(self.read_due) {
            self.read_due = None;
        }
        if self.terms.idle_ms.is_some_and(|ms| now.since(self.heard) >= u64::from(ms)) {
            return self.close(CloseCode::GOING_AWAY, CloseReason::WebSocketIdle, stream, now);
        }
        if has_come(self.ping_due) {
            self.ping_due = self.terms.ping_ms.map(|ms| Millis(now.0 + u64::from(ms)));
            // If an earlier ping still waits, another one is not needed.
            if self.outbox.len() == 0 {
                let mut frame = Vec::new();
                encode_frame(true, Opcode::Ping, None, b"", &mut frame);
                return self.outbox.send(stream, &frame);
            }
        }
        Ok(())
    }

    /// Sends a close frame, unless one was sent already.
    fn close(&mut self, code: CloseCode, reason: CloseReason, stream: &Transport, now: Millis) -> io::Result<()> {
        if self.closing.is_some() {
            return Ok(());
        }
        self.closing = Some((reason, Millis(now.0 + CLOSE_MS)));
        let mut frame = Vec::new();
        encode_close(code, "", None, &mut frame);
        self.outbox.send(stream, &frame)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A hundred thousand idle sessions should take only some tens of megabytes.
    #[test]
    fn an_idle_session_is_small() {
        assert!(size_of::<Session>() <= 320, "{}", size_of::<Session>());
    }
}
