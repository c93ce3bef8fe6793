//! Handles an open connection: received frames, sent messages and pings, the closing handshake.

use super::connection::{Phase, WebSocketConnection};
use super::ending::Ending;
use super::message::Stamp;
use super::worker::Worker;
use crate::worker::Seat;
use reactor::{Peeked, Read};
use std::io::IoSlice;
use transport::Transport;
use websocket::{CloseCode, Event, Opcode, encode_close, encode_frame};

/// Bytes per read: about a hundred small messages. They take some ten microseconds, in which something may become due.
const READ_BYTES: usize = 16 * 1024;
/// Reads in a row before other connections get their turn.
const READS_MAX: usize = 16;
/// Unsent bytes of a connection; with more the target does not read, and the connection is ended.
const UNSENT_BYTES_MAX: usize = 1 << 20;
/// If the missing pong may be among unread bytes, the ping waits this long, so that they are read first.
const PUT_OFF_NS: u64 = 10_000_000;
/// How many connections are checked for one that can send a message.
const SPEAKERS_ASKED_MAX: usize = 1024;

impl Worker {
    /// Handles an event on an open or closing connection.
    pub(super) fn open(&mut self, slot: usize) {
        let Some(connection) = self.connections.get_mut(slot) else { return };
        let Some(stream) = &connection.stream else { return };
        if connection.stalled {
            let (failed, closed) = (stream.is_failed(), stream.is_peer_closed());
            if failed || closed {
                self.finish(slot, if failed { Ending::Reset } else { Ending::Fin });
            }
            return;
        }
        if self.seat.reactor.take_deadline_fired(connection.task) {
            if connection.phase == Phase::Closing {
                return self.finish(slot, Ending::Unanswered);
            }
            self.due.add(connection.due_ns, slot);
        }
        if self.flush(slot).is_err() {
            return self.finish(slot, Ending::Reset);
        }
        for _ in 0..READS_MAX {
            let Some(stream) = self.connections.get_mut(slot).and_then(|connection| connection.stream.take()) else {
                return;
            };
            let read = stream.read_with(READ_BYTES, |bytes| {
                self.seat.record.bytes_received += bytes.len() as u64;
                self.read_frames(slot, bytes)
            });
            let is_truncated = stream.is_truncated();
            if let Some(connection) = self.connections.get_mut(slot) {
                connection.stream = Some(stream);
            }
            match read {
                Ok(Read::Data(read)) => self.settle_read(slot, &read),
                Ok(Read::NotReady) => return,
                Ok(Read::Closed) if is_truncated => return self.finish(slot, Ending::Truncated),
                Ok(Read::Closed) => return self.finish(slot, self.ending_of_fin(slot)),
                Err(_) => return self.finish(slot, Ending::Reset),
            }
            self.seat.look_at_clock();
            if self.is_due() {
                break;
            }
        }
        if let Some(connection) = self.connections.get(slot) {
            self.seat.reactor.wake(connection.task);
        }
    }

    /// How a connection ends by the target's FIN. A bare TCP connection has no close frame: the FIN answers that of the load.
    fn ending_of_fin(&self, slot: usize) -> Ending {
        let is_closing = self.connections.get(slot).is_some_and(|connection| connection.phase == Phase::Closing);
        if is_closing && self.setup.options.url.bare { Ending::Done } else { Ending::Fin }
    }

    /// Parses received bytes. Returns the reply to send, and how the connection ends, if it does.
    pub(super) fn read_frames(&mut self, slot: usize, bytes: &[u8]) -> ReadFrames {
        if self.setup.options.is_http2() {
            return self.read_stream(slot, bytes);
        }
        self.read_first(slot, bytes)
    }

    /// The same for bytes without frames of HTTP/2, as they come behind a head.
    pub(super) fn read_first(&mut self, slot: usize, mut bytes: &[u8]) -> ReadFrames {
        if self.setup.options.events.is_some() {
            return self.read_events(slot, bytes);
        }
        let Self { connections, seat, setup, random, .. } = self;
        let Seat { record, now_ns, .. } = seat;
        let mut read = ReadFrames::default();
        let Some(connection) = connections.get_mut(slot) else { return read };
        if setup.options.url.bare {
            // Nothing was sent, so nothing is expected; the bytes are counted.
            return read;
        }
        let WebSocketConnection { decoder, pinged_ns, awaits_pong, room, joined, received, .. } = connection;
        loop {
            let Ok(decoded) = decoder.decode(bytes) else {
                read.ending = Some(Ending::BadFrame);
                return read;
            };
            bytes = bytes.get(decoded.consumed..).unwrap_or_default();
            match decoded.event {
                None => return read,
                Some(Event::Ping(payload)) => {
                    record.pings_received += 1;
                    encode_frame(true, Opcode::Pong, Some(random.u32(..).to_ne_bytes()), payload, &mut read.reply);
                }
                Some(Event::Pong(payload)) => {
                    if *awaits_pong && payload == pinged_ns.to_be_bytes() {
                        *awaits_pong = false;
                        record.pongs += 1;
                        record.pong.record(now_ns.saturating_sub(*pinged_ns));
                    }
                }
                Some(Event::Close(code, _)) => {
                    read.close = Some(code.unwrap_or(CloseCode::NONE));
                    read.ending = Some(Ending::CloseFrame);
                }
                Some(Event::Message { payload, .. }) => match Stamp::find(payload) {
                    Some(stamp) if stamp.run == setup.run && stamp.room == *room => {
                        record.delivered += 1;
                        record.delivery.record(now_ns.saturating_sub(stamp.due_ns));
                        // A connection that joins by message is a member from the first message that it receives.
                        if setup.options.join.is_some() && *received == 0 {
                            *joined = stamp.number.wrapping_sub(1);
                        }
                        *received += u32::from(stamp.number > *joined);
                    }
                    _ => record.foreign += 1,
                },
            }
        }
    }

    /// Sends the reply, and ends the connection if it has ended.
    pub(super) fn settle_read(&mut self, slot: usize, read: &ReadFrames) {
        if !read.reply.is_empty()
            && let Err(ending) = self.transmit(slot, &read.reply)
        {
            return self.finish(slot, ending);
        }
        let Some(ending) = read.ending else { return };
        let Some(code) = read.close else { return self.finish(slot, ending) };
        let Some(connection) = self.connections.get_mut(slot) else { return };
        if connection.phase == Phase::Closing {
            // This is the reply to our close frame. The target closes TCP first, as RFC 6455 §7.1.1 requires, so
            // TIME_WAIT stays on its side.
            connection.ending.get_or_insert(Ending::Done);
            return;
        }
        *self.seat.record.codes.entry(code.0).or_default() += 1;
        connection.phase = Phase::Closing;
        connection.ending = Some(ending);
        let drain = self.setup.options.drain;
        if self.send_close(slot, code).is_err() {
            return self.finish(slot, ending);
        }
        self.wake_in(slot, drain);
    }

    /// Sends the ping that is due on an open connection.
    pub(super) fn ping(&mut self, slot: usize) {
        let Some(every) = self.setup.options.heartbeat else { return };
        let Some(connection) = self.connections.get_mut(slot) else { return };
        if connection.awaits_pong {
            let unread = connection.stream.as_ref().is_some_and(|stream| stream.peek() == Peeked::Data);
            if !unread || connection.put_off {
                return self.finish(slot, Ending::NoPong);
            }
            // A delayed worker may not have read the pong yet.
            connection.put_off = true;
            connection.due_ns = self.seat.now_ns.saturating_add(PUT_OFF_NS);
            return self.wake_when_due(slot);
        }
        let (due_ns, every_ns) = (connection.due_ns, every.as_nanos() as u64);
        connection.pinged_ns = due_ns;
        let next_ns = due_ns.saturating_add(every_ns);
        // Pings that a delayed worker missed are skipped, so that each pong has its full time.
        connection.due_ns =
            if next_ns > self.seat.now_ns { next_ns } else { self.seat.now_ns.saturating_add(every_ns) };
        (connection.awaits_pong, connection.put_off) = (true, false);
        self.seat.record.pings += 1;
        let mut frame = std::mem::take(&mut self.frame);
        frame.clear();
        let key = self.random.u32(..).to_ne_bytes();
        encode_frame(true, Opcode::Ping, Some(key), &due_ns.to_be_bytes(), &mut frame);
        let sent = self.transmit(slot, &frame);
        self.frame = frame;
        match sent {
            Ok(()) => self.wake_when_due(slot),
            Err(ending) => self.finish(slot, ending),
        }
    }

    /// Sends the message that was due at this time, on the next connection that can send.
    pub(super) fn send_due(&mut self, due_ns: u64) {
        let count = self.connections.len();
        let found = (0..count.min(SPEAKERS_ASKED_MAX)).find_map(|step| {
            let slot = (self.speaker + step) % count;
            self.connections.get(slot).filter(|connection| connection.can_speak()).map(|_| slot)
        });
        self.speaker = found.map_or(self.speaker.wrapping_add(SPEAKERS_ASKED_MAX), |slot| slot + 1) % count.max(1);
        let Some(slot) = found else {
            self.seat.record.unsent += 1;
            return;
        };
        let Some(connection) = self.connections.get_mut(slot) else { return };
        connection.spoken = connection.spoken.wrapping_add(1);
        let number = self.setup.next_number(connection.room).unwrap_or(connection.spoken);
        let stamp = Stamp { run: self.setup.run, room: connection.room, number, due_ns };
        let mut text = std::mem::take(&mut self.text);
        stamp.encode(self.setup.options.message_bytes, &mut text);
        let said = self.send_text(slot, &text);
        self.text = text;
        self.seat.record.sent += 1;
        if let Err(ending) = said {
            self.finish(slot, ending);
        }
    }

    /// Sends a text message.
    pub(super) fn send_text(&mut self, slot: usize, text: &[u8]) -> Result<(), Ending> {
        let mut frame = std::mem::take(&mut self.frame);
        frame.clear();
        // Masks protect intermediaries from scripts in browsers; for a load any random number is fine.
        encode_frame(true, Opcode::Text, Some(self.random.u32(..).to_ne_bytes()), text, &mut frame);
        let sent = self.transmit(slot, &frame);
        self.frame = frame;
        sent
    }

    /// Begins the closing handshake, at the end of the run.
    pub(super) fn close(&mut self, slot: usize) {
        let Some(connection) = self.connections.get_mut(slot) else { return };
        if connection.phase != Phase::Open {
            return;
        }
        if connection.stalled {
            return self.finish(slot, Ending::Stalled);
        }
        if self.setup.options.events.is_some() {
            // A client of events closes; nothing answers that.
            return self.finish(slot, Ending::Done);
        }
        connection.phase = Phase::Closing;
        let task = connection.task;
        self.seat.reactor.set_deadline(task, None);
        if self.setup.options.url.bare {
            if connection.stream.as_ref().is_none_or(|stream| stream.shutdown_write().is_err()) {
                self.finish(slot, Ending::Reset);
            }
            return;
        }
        if let Err(ending) = self.send_close(slot, CloseCode::NORMAL) {
            self.finish(slot, ending);
        }
    }

    fn send_close(&mut self, slot: usize, code: CloseCode) -> Result<(), Ending> {
        let mut frame = Vec::new();
        encode_close(code, "", Some(self.random.u32(..).to_ne_bytes()), &mut frame);
        self.transmit(slot, &frame)
    }

    /// Sends bytes, and keeps those that the socket does not take.
    pub(super) fn transmit(&mut self, slot: usize, bytes: &[u8]) -> Result<(), Ending> {
        self.seat.record.bytes_sent += bytes.len() as u64;
        let Some(connection) = self.connections.get_mut(slot) else { return Ok(()) };
        let Some(stream) = &connection.stream else { return Ok(()) };
        let sent = if connection.unsent.is_empty() { write(stream, bytes)? } else { 0 };
        let rest = bytes.get(sent..).unwrap_or_default();
        if connection.unsent.len() + rest.len() > UNSENT_BYTES_MAX + self.setup.options.message_bytes {
            return Err(Ending::NotRead);
        }
        if !rest.is_empty() {
            connection.unsent.extend_from_slice(rest);
        }
        Ok(())
    }

    /// Sends the kept bytes.
    pub(super) fn flush(&mut self, slot: usize) -> Result<(), Ending> {
        let Some(connection) = self.connections.get_mut(slot) else { return Ok(()) };
        let Some(stream) = &connection.stream else { return Ok(()) };
        if connection.unsent.is_empty() {
            return Ok(());
        }
        let sent = write(stream, &connection.unsent)?;
        connection.unsent.drain(..sent.min(connection.unsent.len()));
        if connection.unsent.is_empty() {
            connection.unsent = Vec::new();
        }
        Ok(())
    }
}

/// The result of parsing received bytes.
#[derive(Debug, Default)]
pub(super) struct ReadFrames {
    pub(super) reply: Vec<u8>,
    close: Option<CloseCode>,
    pub(super) ending: Option<Ending>,
}

impl ReadFrames {
    /// Without a reply.
    pub(super) fn ended(ending: Option<Ending>) -> Self {
        Self { ending, ..Self::default() }
    }
}

fn write(stream: &Transport, bytes: &[u8]) -> Result<usize, Ending> {
    stream.write(&[IoSlice::new(bytes)], false).map_err(|_| Ending::Reset)
}
