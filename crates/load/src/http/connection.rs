//! One connection of the load: its socket, its requests in flight, and the unsent rest of the next one. `pool` decides what
//! to send and when.

use super::multiplex::Multiplex;
use super::response::{Codec, Complete, Reader};
use crate::cause::Cause;
use crate::tcp::Messages;
use crate::upload::{Next, Sending};
use crate::worker::requests::Bench;
use http1::RequestKind;
use reactor::{Read, SCRATCH_BYTES, TaskId};
use std::collections::VecDeque;
use std::io::{self, IoSlice};
use transport::{Transport, tls_error};

/// Bytes per read: enough for several responses, and few calls for a large body.
const READ_BYTES: usize = SCRATCH_BYTES / 4;
/// The same in an open loop, where a request may become due during the read. Parsing this many bytes of a body in tiny
/// chunks takes thirty microseconds.
const READ_BYTES_OPEN: usize = 16 * 1024;
/// Reads in a row on one connection, so that a fast and endless body does not delay the others.
pub(super) const READS_PER_WAKE: usize = 8;
/// Pieces of a body that are sent in a row on one connection.
const PIECES_PER_WAKE: usize = 16;

/// A request that has begun.
#[derive(Debug, Clone, Copy)]
pub(super) struct Flight {
    pub(super) target: u16,
    pub(super) kind: RequestKind,
    /// The time from which its latency counts.
    pub(super) due_ns: u64,
    /// When it was written; 0 if it is not written yet.
    pub(super) sent_ns: u64,
    /// The number of the message, in a load over TCP.
    pub(super) number: u32,
}

impl Flight {
    /// A request that is not written yet.
    pub(super) fn new(target: u16, kind: RequestKind, due_ns: u64) -> Self {
        Self { target, kind, due_ns, sent_ns: 0, number: 0 }
    }
}

/// The state of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum State {
    /// It has no socket.
    Closed,
    /// TCP is being established; the request that opened the connection is in flight.
    Connecting,
    /// The TLS handshake is in progress.
    Securing,
    /// No request is in flight.
    Idle,
    /// Requests are in flight.
    Busy,
    /// The last response said that the connection ends; the target should close first.
    Lingering,
    /// In a think time, or in the pause after a failure.
    Resting,
}

#[derive(Debug)]
pub(super) struct Connection {
    pub(super) task: TaskId,
    pub(super) group: u16,
    pub(super) state: State,
    pub(super) stream: Option<Transport>,
    /// Responses received on this socket.
    pub(super) served: u64,
    pub(super) opened_ns: u64,
    /// Requests in flight; over HTTP/2 the requests that wait for a stream.
    pub(super) flights: VecDeque<Flight>,
    /// Set if the socket speaks HTTP/2.
    pub(super) multiplex: Option<Box<Multiplex>>,
    /// HTTP/2 in an open loop: whether the connection is in its group's list of connections with room.
    pub(super) is_listed: bool,
    reader: Reader,
    /// Bytes of the requests in flight that the socket has not taken.
    unsent: Vec<u8>,
    unsent_from: usize,
    /// The body that follows in pieces.
    upload: Option<Box<Sending>>,
}

/// The result of a read.
#[derive(Debug, Default)]
pub(super) struct ReadProgress {
    /// Number of completed responses; over HTTP/2 also of reset streams.
    pub(super) completed: usize,
    /// Whether the connection must not be used again.
    pub(super) last: bool,
    /// Whether the target has closed.
    pub(super) closed: bool,
    pub(super) fault: Option<Cause>,
    /// Requests that the target had not processed when it closed.
    pub(super) unprocessed: Vec<Flight>,
}

impl Connection {
    pub(super) fn new(task: TaskId, group: u16) -> Self {
        Self {
            task,
            group,
            state: State::Closed,
            stream: None,
            served: 0,
            opened_ns: 0,
            flights: VecDeque::new(),
            multiplex: None,
            is_listed: true,
            reader: Reader::new(),
            unsent: Vec::new(),
            unsent_from: 0,
            upload: None,
        }
    }

    /// Assigns a new socket.
    pub(super) fn open(&mut self, stream: Transport) {
        self.stream = Some(stream);
        self.served = 0;
        self.reader.clear();
        self.unsent.clear();
        self.unsent_from = 0;
    }

    /// Closes the socket, if there is one.
    pub(super) fn close(&mut self) {
        self.stream = None;
        self.multiplex = None;
        self.upload = None;
        self.state = State::Closed;
    }

    /// Writes requests and keeps the bytes that the socket does not take.
    pub(super) fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        let Some(stream) = &self.stream else { return Ok(()) };
        let behind_others = self.unsent_from < self.unsent.len();
        let sent = if behind_others { 0 } else { stream.write(&[IoSlice::new(bytes)], false)? };
        if sent < bytes.len() {
            if !behind_others {
                self.unsent.clear();
                self.unsent_from = 0;
            }
            self.unsent.extend_from_slice(bytes.get(sent..).unwrap_or_default());
        }
        Ok(())
    }

    /// Writes the kept bytes.
    pub(super) fn flush(&mut self) -> io::Result<()> {
        let (Some(stream), Some(rest)) = (&self.stream, self.unsent.get(self.unsent_from..)) else { return Ok(()) };
        if !rest.is_empty() {
            self.unsent_from += stream.write(&[IoSlice::new(rest)], false)?;
        }
        Ok(())
    }

    /// Begins to send a body in pieces.
    pub(super) fn begin_upload(&mut self, upload: Option<Sending>) {
        self.upload = upload.map(Box::new);
    }

    /// When the target was last given something: timeouts count from here.
    pub(super) fn moved_ns(&self, flight: &Flight) -> u64 {
        self.upload.as_ref().map_or(flight.sent_ns, |upload| upload.moved_ns().max(flight.sent_ns))
    }

    /// Forgets the body; returns whether part of it was not sent.
    pub(super) fn end_upload(&mut self) -> bool {
        self.upload.take().is_some_and(|upload| !upload.is_ended() || self.is_sending())
    }

    /// Writes the pieces of a body that are due, as long as the socket takes them. Returns the number of bytes, and when the
    /// next piece is due, if no event reports that.
    pub(super) fn send_pieces(&mut self, now_ns: u64, piece: &mut Vec<u8>) -> (u64, Option<u64>) {
        let mut bytes = 0;
        for _ in 0..PIECES_PER_WAKE {
            if self.is_sending() {
                return (bytes, None);
            }
            piece.clear();
            match self.upload.as_mut().map_or(Next::Ended, |upload| upload.take(now_ns, piece)) {
                Next::Ended => return (bytes, None),
                Next::At(due_ns) => return (bytes, Some(due_ns)),
                Next::Piece => {
                    bytes += piece.len() as u64;
                    if self.write(piece).is_err() {
                        // Data that the target sent before its reset tells more; the next read returns it, or the reset.
                        return (bytes, None);
                    }
                }
            }
        }
        (bytes, Some(now_ns))
    }

    /// Counts messages without a reply, which are complete once the socket has taken them; returns their number.
    pub(super) fn complete_unanswered(&mut self, messages: Option<&Messages>, bench: &mut Bench) -> usize {
        let Some(messages) = messages.filter(|messages| messages.are_unanswered() && !self.is_sending()) else {
            return 0;
        };
        bench.seat.look_at_clock();
        let complete = Complete { status: 0, keepalive: messages.keep_connections(), body_bytes: 0 };
        let count = self.flights.len();
        for flight in self.flights.drain(..) {
            finish(flight, complete, self.served > 0, bench);
            self.served += 1;
        }
        count
    }

    /// A target that speaks first may have done so with the event that said that the connection is open: none follows.
    pub(super) fn look_for_greeting(&self, bench: &Bench) {
        if self.stream.as_ref().is_some_and(Transport::is_readable) {
            bench.seat.reactor.wake(self.task);
        }
    }

    /// Whether part of a request waits for room in the socket.
    pub(super) fn is_sending(&self) -> bool {
        self.unsent_from < self.unsent.len()
    }

    /// Number of bytes that wait.
    pub(super) fn unsent_bytes(&self) -> usize {
        self.unsent.len() - self.unsent_from.min(self.unsent.len())
    }

    /// The cause of a timeout: the step that the oldest request was waiting for.
    pub(super) fn timeout_cause(&self) -> Cause {
        match (self.state, self.reader.is_started()) {
            (State::Connecting, _) => Cause::ConnectTimeout,
            (State::Securing, _) => Cause::TlsStalled,
            (_, true) => Cause::ReadTimeout,
            (_, false) if self.is_sending() => Cause::SendTimeout,
            (_, false) => Cause::Silent,
        }
    }

    /// Reads from the socket and counts the responses that are complete.
    pub(super) fn read(&mut self, codec: &mut Codec, bench: &mut Bench) -> ReadProgress {
        if self.multiplex.is_some() {
            return self.read_streams(codec, bench);
        }
        let mut progress = ReadProgress::default();
        let Self { stream: Some(stream), reader, flights, served, .. } = self else { return progress };
        let most = read_bytes(bench);
        for _ in 0..READS_PER_WAKE {
            let took = stream.read_with(most, |bytes| take(bytes, reader, flights, served, codec, bench));
            match took {
                Ok(Read::Data(more)) => {
                    progress.completed += more.completed;
                    progress.last |= more.last;
                    progress.fault = more.fault;
                    // After the last response of a turn in a closed loop, the next request goes out before anything else is
                    // read.
                    if progress.fault.is_some() || progress.last || flights.is_empty() {
                        return progress;
                    }
                    bench.seat.look_at_clock();
                    if bench.is_due() {
                        break;
                    }
                }
                Ok(Read::NotReady) => return progress,
                Ok(Read::Closed) => {
                    progress.closed = true;
                    let truncated = stream.is_truncated();
                    if truncated && flights.is_empty() {
                        bench.seat.record.tls.get_or_insert_default().truncated += 1;
                    }
                    if let Some(flight) = flights.front().copied() {
                        bench.seat.look_at_clock();
                        let begun = reader.is_started();
                        match reader.end_of_stream(*served > 0, codec) {
                            _ if truncated && begun => progress.fault = Some(Cause::TlsTruncated),
                            Ok(complete) => {
                                flights.pop_front();
                                finish(flight, complete, *served > 0, bench);
                                progress.completed += 1;
                            }
                            Err(cause) => progress.fault = Some(cause),
                        }
                    }
                    return progress;
                }
                Err(error) if tls_error(&error).is_some() => {
                    progress.fault = Some(bench.seat.record.tls.get_or_insert_default().fail(&error));
                    return progress;
                }
                Err(_) => {
                    progress.fault = Some(match (reader.is_started(), *served) {
                        (true, _) => Cause::ResetEarly,
                        (false, 0) => Cause::ResetUnanswered,
                        (false, _) => Cause::KeepaliveRace,
                    });
                    return progress;
                }
            }
        }
        // There may be more to read, but the other connections come first.
        bench.seat.reactor.wake(self.task);
        progress
    }
}

/// Bytes per read.
pub(super) fn read_bytes(bench: &Bench) -> usize {
    if bench.is_open { READ_BYTES_OPEN } else { READ_BYTES }
}

/// Parses responses from bytes.
fn take(
    bytes: &[u8],
    reader: &mut Reader,
    flights: &mut VecDeque<Flight>,
    served: &mut u64,
    codec: &mut Codec,
    bench: &mut Bench,
) -> ReadProgress {
    bench.seat.look_at_clock();
    let mut progress = ReadProgress::default();
    let mut rest = bytes;
    if bench.parts
        && !reader.is_started()
        && let Some(flight) = flights.front()
    {
        bench.seat.record.first_byte.record(bench.seat.now_ns.saturating_sub(flight.sent_ns));
    }
    while !rest.is_empty() {
        let Some(flight) = flights.front().copied() else {
            progress.fault = Some(Cause::Unasked);
            return progress;
        };
        let before = rest.len();
        let taken = match &codec.messages {
            Some(messages) => reader.take_reply(&mut rest, flight.number, messages),
            None => reader.take(&mut rest, flight.kind, codec),
        };
        bench.tally(flight.target).bytes_received += (before - rest.len()) as u64;
        match taken {
            Ok(None) => {}
            Ok(Some(complete)) => {
                flights.pop_front();
                finish(flight, complete, *served > 0, bench);
                *served += 1;
                progress.completed += 1;
                if !complete.keepalive {
                    progress.last = true;
                    return progress;
                }
            }
            Err(cause) => {
                progress.fault = Some(cause);
                return progress;
            }
        }
    }
    progress
}

/// Counts a complete response.
pub(super) fn finish(flight: Flight, complete: Complete, reused: bool, bench: &mut Bench) {
    let now_ns = bench.seat.now_ns;
    bench.completed(now_ns.saturating_sub(flight.sent_ns));
    let tally = bench.tally(flight.target);
    tally.reused += u64::from(reused);
    let latency_ns = now_ns.saturating_sub(flight.due_ns);
    match complete.status {
        0 => tally.message(complete.body_bytes, latency_ns),
        status => tally.response(status, complete.body_bytes, latency_ns),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_connection_stays_small() {
        // The queue of flights holds four in its first allocation; the reactor adds some fifty bytes.
        let bytes = size_of::<Connection>() + 4 * size_of::<Flight>();
        assert!(bytes as u64 + 64 <= crate::CONNECTION_BYTES, "{bytes}");
    }
}
