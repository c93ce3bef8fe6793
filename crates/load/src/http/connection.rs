//! One connection of the load: its socket, the requests in flight on it, and what of the next one is not sent yet. What to
//! send, and when, is decided by `pool`.

use super::multiplex::Multiplex;
use super::response::{Codec, Complete, Reader};
use crate::cause::Cause;
use crate::worker::requests::Bench;
use http1::RequestKind;
use reactor::{Read, SCRATCH_BYTES, TaskId};
use std::collections::VecDeque;
use std::io::{self, IoSlice};
use transport::{Transport, tls_error};

/// Bytes read at once: enough for several responses, and for a large body in few calls.
const READ_BYTES: usize = SCRATCH_BYTES / 4;
/// The same in open loop, where a request may become due meanwhile: a body in chunks of a few bytes takes thirty microseconds for
/// this many.
const READ_BYTES_OPEN: usize = 16 * 1024;
/// Reads in a row on one connection: a fast and endless body must not keep the others waiting.
pub(super) const READS_PER_WAKE: usize = 8;

/// A request that was begun.
#[derive(Debug, Clone, Copy)]
pub(super) struct Flight {
    pub(super) target: u16,
    pub(super) kind: RequestKind,
    /// From when its latency counts.
    pub(super) due_ns: u64,
    /// When it was written; 0 while its connection is being opened.
    pub(super) sent_ns: u64,
}

/// What a connection is at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum State {
    /// It has no socket.
    Closed,
    /// The handshake is under way; the request that it is for is the only flight.
    Connecting,
    /// So is that of TLS.
    Securing,
    /// Nothing to do.
    Idle,
    /// Requests are in flight.
    Busy,
    /// The last response was announced as such; the target is to close first.
    Lingering,
    /// Thinking, or taking breath after a failure.
    Resting,
}

#[derive(Debug)]
pub(super) struct Connection {
    pub(super) task: TaskId,
    pub(super) group: u16,
    pub(super) state: State,
    pub(super) stream: Option<Transport>,
    /// Responses on this socket.
    pub(super) served: u64,
    pub(super) opened_ns: u64,
    /// Over HTTP/2 those that wait for a stream.
    pub(super) flights: VecDeque<Flight>,
    /// HTTP/2 is spoken on the socket.
    pub(super) multiplex: Option<Box<Multiplex>>,
    /// HTTP/2 in open loop: it is in the list of those that have room.
    pub(super) is_listed: bool,
    reader: Reader,
    /// What the socket has not taken of the requests in flight.
    unsent: Vec<u8>,
    unsent_from: usize,
}

/// What came of reading.
#[derive(Debug, Default)]
pub(super) struct ReadProgress {
    /// Responses that were completed; over HTTP/2 also streams that were reset.
    pub(super) completed: usize,
    /// The connection is not to be used again.
    pub(super) last: bool,
    /// The target has closed.
    pub(super) closed: bool,
    pub(super) fault: Option<Cause>,
    /// Requests that the target has not looked at before it went away.
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
        }
    }

    /// Takes a socket.
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
        self.state = State::Closed;
    }

    /// Writes requests, and keeps what the socket does not take.
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

    /// Writes what was kept.
    pub(super) fn flush(&mut self) -> io::Result<()> {
        let (Some(stream), Some(rest)) = (&self.stream, self.unsent.get(self.unsent_from..)) else { return Ok(()) };
        if !rest.is_empty() {
            self.unsent_from += stream.write(&[IoSlice::new(rest)], false)?;
        }
        Ok(())
    }

    /// Whether a part of a request waits for room.
    pub(super) fn is_sending(&self) -> bool {
        self.unsent_from < self.unsent.len()
    }

    /// How much that is.
    pub(super) fn unsent_bytes(&self) -> usize {
        self.unsent.len() - self.unsent_from.min(self.unsent.len())
    }

    /// What a request that has run out of time was waiting for.
    pub(super) fn timeout_cause(&self) -> Cause {
        match (self.state, self.reader.is_started()) {
            (State::Connecting, _) => Cause::ConnectTimeout,
            (State::Securing, _) => Cause::TlsStalled,
            (_, true) => Cause::ReadTimeout,
            (_, false) if self.is_sending() => Cause::SendTimeout,
            (_, false) => Cause::Silent,
        }
    }

    /// Reads what has come, and counts the responses that it completes.
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
                    // A response that ends a turn of a closed loop is followed by a request before anything is read again.
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
        // There may be more: the others come first.
        bench.seat.reactor.wake(self.task);
        progress
    }
}

/// Bytes read at once.
pub(super) fn read_bytes(bench: &Bench) -> usize {
    if bench.is_open { READ_BYTES_OPEN } else { READ_BYTES }
}

/// Reads responses from bytes.
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
        let taken = reader.take(&mut rest, flight.kind, codec);
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
    tally.response(complete.status, complete.body_bytes, now_ns.saturating_sub(flight.due_ns));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_connection_stays_small() {
        // The ring of flights holds four in its first allocation; the reactor adds some fifty bytes.
        let bytes = size_of::<Connection>() + 4 * size_of::<Flight>();
        assert!(bytes as u64 + 64 <= crate::CONNECTION_BYTES, "{bytes}");
    }
}
