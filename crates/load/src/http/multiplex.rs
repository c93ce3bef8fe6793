//! The wire of an HTTP/2 connection: the engine of the crate `http2`, and a call for each open stream. It reads and counts
//! responses, and sends bodies as far as the windows allow. `pool` and `streams` decide which requests use the connection.

use super::connection::{Connection, Flight, READS_PER_WAKE, ReadProgress, finish, read_bytes};
use super::response::{Codec, Complete};
use crate::cause::{self, Cause};
use crate::streamed::Streamed;
use crate::upload::Upload;
use crate::worker::requests::Bench;
use http2::{Config, ErrorCode, Event, Head, OpenFault, Reason, ResetBy, Role, StreamId};
use reactor::Read;
use rustc_hash::FxHashMap;
use std::collections::hash_map::Entry;
use std::sync::Arc;
use transport::tls_error;

/// Bytes of a body that a target may send before any is read: so large that the load's own window never limits it.
const STREAM_WINDOW_BYTES: u32 = 16 << 20;
/// The same for all streams of a connection together.
const CONNECTION_WINDOW_BYTES: u32 = 1 << 30;
/// Longest response head, as over HTTP/1.
const HEAD_BYTES_MAX: u32 = 64 * 1024;
/// Bytes that are encoded before they are written.
const OUT_BYTES_MAX: usize = 64 * 1024;
/// While more than this waits for room in the socket, nothing is read, because reading produces more answers.
const UNSENT_BYTES_MAX: usize = 256 * 1024;

/// A request on a stream.
#[derive(Debug)]
struct Call {
    flight: Flight,
    body: Arc<[u8]>,
    body_sent: usize,
    /// Bytes of the body that are due.
    body_due: usize,
    /// When a part of the body was sent last; timeouts count from there.
    moved_ns: u64,
    status: u16,
    body_bytes: u64,
    /// Whether the head of the response has arrived.
    is_started: bool,
    grpc_status: Option<u32>,
}

/// The HTTP/2 state of a connection besides its socket.
#[derive(Debug)]
pub(super) struct Multiplex {
    engine: http2::Connection,
    calls: FxHashMap<u32, Call>,
    /// Calls with a body that is not completely sent.
    sending: usize,
    /// Whether the target's settings have arrived.
    is_settled: bool,
    /// Whether any bytes have arrived.
    has_heard: bool,
    grpc: bool,
    /// How bodies are sent in pieces.
    upload: Option<Upload>,
    /// When the next piece of a body is due.
    piece_due_ns: Option<u64>,
    /// The time since which a body waits for a window.
    limited_since_ns: Option<u64>,
    /// The deadline that is set, for the oldest call or the next piece.
    pub(super) armed_ns: Option<u64>,
}

impl Call {
    fn new(flight: Flight, body: Arc<[u8]>) -> Self {
        Self {
            flight,
            body,
            body_sent: 0,
            body_due: 0,
            moved_ns: 0,
            status: 0,
            body_bytes: 0,
            is_started: false,
            grpc_status: None,
        }
    }

    fn is_sending(&self) -> bool {
        self.body_sent < self.body.len()
    }

    /// When the target was last given something.
    fn since_ns(&self) -> u64 {
        self.flight.sent_ns.max(self.moved_ns)
    }
}

impl Multiplex {
    /// Appends the client's connection preface to `out`.
    pub(super) fn new(grpc: bool, upload: Option<Upload>, out: &mut Vec<u8>) -> Self {
        let config = Config {
            stream_window: STREAM_WINDOW_BYTES,
            connection_window: CONNECTION_WINDOW_BYTES,
            head_bytes_max: HEAD_BYTES_MAX,
            ..Config::default()
        };
        Self {
            engine: http2::Connection::new(Role::Client, config, 0, out),
            calls: FxHashMap::default(),
            sending: 0,
            is_settled: false,
            has_heard: false,
            grpc,
            upload,
            piece_due_ns: None,
            limited_since_ns: None,
            armed_ns: None,
        }
    }

    /// Number of open streams.
    pub(super) fn calls(&self) -> usize {
        self.calls.len()
    }

    /// Whether a response has begun but is not complete.
    fn is_answering(&self) -> bool {
        self.calls.values().any(|call| call.is_started)
    }

    /// Whether the target accepts no further streams.
    pub(super) fn is_going(&self) -> bool {
        self.engine.is_going()
    }

    /// How many of the wanted streams may be open. The target's limit is known once its settings arrive; until then only
    /// one is opened, since the target would refuse any above its limit.
    pub(super) fn limit(&self, wanted: usize) -> usize {
        let allowed = if self.is_settled { self.engine.peer_settings().streams_max as usize } else { 1 };
        if self.is_going() { 0 } else { wanted.min(allowed) }
    }

    /// Opens a stream for a request. Returns the number of bytes of its head; bodies are counted as they are sent.
    pub(super) fn open(
        &mut self,
        flight: Flight,
        request: &Streamed,
        bench: &mut Bench,
        codec: &mut Codec,
        out: &mut Vec<u8>,
    ) -> Result<u64, OpenFault> {
        let before = out.len();
        let (stream, body) = request.open(&mut self.engine, &mut bench.values, &mut codec.room, out)?;
        let bytes = (out.len() - before) as u64;
        let call = Call::new(flight, body);
        let has_body = call.is_sending();
        self.calls.insert(stream.0, call);
        if has_body {
            self.sending += 1;
            self.release(stream, bench);
            self.send_body(stream, bench, out);
        }
        let record = bench.seat.record.streams.get_or_insert_default();
        record.opened += 1;
        record.most = record.most.max(self.calls.len() as u64);
        Ok(bytes)
    }

    /// Sends as much of the bodies as windows and buffer allow, and notes whether a window is the limit.
    pub(super) fn pump(&mut self, bench: &mut Bench, out: &mut Vec<u8>) {
        self.send_due_pieces(bench, out);
        if self.sending > 0 {
            while let Some(stream) = self.engine.next_turn(OUT_BYTES_MAX.saturating_sub(out.len())) {
                self.send_body(stream, bench, out);
            }
        }
        if self.sending == 0 && self.limited_since_ns.is_none() {
            return;
        }
        let Self { engine, calls, .. } = self;
        let waits = |(id, call): (&u32, &Call)| {
            call.body_sent < call.body_due && engine.sendable_bytes(StreamId(*id)) == Some(0)
        };
        let is_limited = calls.iter().any(waits);
        self.note_window(is_limited, bench);
    }

    /// Whether more of a body could be sent, and no event will report that the socket takes it.
    pub(super) fn has_more(&self) -> bool {
        self.sending > 0 && self.engine.has_turn()
    }

    /// Sends the pieces of bodies that have become due.
    fn send_due_pieces(&mut self, bench: &mut Bench, out: &mut Vec<u8>) {
        let Some(due_ns) = self.piece_due_ns else { return };
        bench.seat.look_at_clock();
        if bench.seat.now_ns < due_ns {
            return;
        }
        self.piece_due_ns = None;
        let sending: Vec<u32> = self.calls.iter().filter(|(_, call)| call.is_sending()).map(|(id, _)| *id).collect();
        for id in sending {
            self.release(StreamId(id), bench);
            self.send_body(StreamId(id), bench, out);
        }
    }

    /// Notes what is due of a body, and when the next piece is.
    fn release(&mut self, stream: StreamId, bench: &Bench) {
        let Some(call) = self.calls.get_mut(&stream.0) else { return };
        let began_ns = call.flight.sent_ns;
        let elapsed_ns = bench.seat.now_ns.saturating_sub(began_ns);
        let due = self.upload.map(|upload| upload.due(elapsed_ns, call.body.len()));
        let (bytes, next_ns) = due.unwrap_or((call.body.len(), None));
        call.body_due = bytes;
        if let Some(next_ns) = next_ns {
            let at_ns = began_ns.saturating_add(next_ns);
            self.piece_due_ns = Some(self.piece_due_ns.map_or(at_ns, |known| known.min(at_ns)));
        }
    }

    /// Sends what is due of a body, as far as windows and buffer allow.
    fn send_body(&mut self, stream: StreamId, bench: &mut Bench, out: &mut Vec<u8>) {
        let Self { engine, calls, sending, upload, .. } = self;
        let Some(call) = calls.get_mut(&stream.0) else { return };
        let piece_bytes = upload.map_or(usize::MAX, |upload| upload.piece_bytes);
        while call.body_sent < call.body_due {
            let rest = call.body.get(call.body_sent..call.body_due).unwrap_or_default();
            let piece = rest.get(..piece_bytes.min(rest.len())).unwrap_or_default();
            let is_last = call.body_sent + piece.len() == call.body.len();
            // An event reports that a stream is over.
            let Ok(sent) = engine.send_data(stream, piece, is_last, out, OUT_BYTES_MAX) else { return };
            call.body_sent += sent;
            if sent > 0 && upload.is_some() {
                call.moved_ns = bench.seat.now_ns;
            }
            *sending -= usize::from(!call.is_sending());
            let is_short = sent < piece.len();
            bench.tally(call.flight.target).bytes_sent += sent as u64;
            if is_short {
                return;
            }
        }
    }

    fn note_window(&mut self, is_limited: bool, bench: &mut Bench) {
        let now_ns = bench.seat.now_ns;
        match self.limited_since_ns {
            None if is_limited => self.limited_since_ns = Some(now_ns),
            Some(since_ns) if !is_limited => {
                self.limited_since_ns = None;
                let record = bench.seat.record.streams.get_or_insert_default();
                record.window_limited_ns += now_ns.saturating_sub(since_ns);
            }
            _ => {}
        }
    }

    /// Ends the connection and all its streams.
    pub(super) fn drain(&mut self, bench: &mut Bench) -> Vec<Flight> {
        self.note_window(false, bench);
        let mut flights: Vec<Flight> = self.calls.drain().map(|(_, call)| call.flight).collect();
        flights.sort_unstable_by_key(|flight| flight.sent_ns);
        flights
    }

    /// When the target was last given something of the call for which that is longest ago.
    pub(super) fn oldest_ns(&self) -> Option<u64> {
        self.calls.values().map(Call::since_ns).min()
    }

    /// When the next piece of a body is due.
    pub(super) fn piece_due_ns(&self) -> Option<u64> {
        self.piece_due_ns
    }

    /// Cancels calls that have waited since before this time. Returns each with the cause of its timeout.
    pub(super) fn expire(&mut self, before_ns: u64, out: &mut Vec<u8>) -> Vec<(Flight, Cause)> {
        let is_late = |call: &Call| call.since_ns() <= before_ns;
        let late: Vec<u32> = self.calls.iter().filter(|(_, call)| is_late(call)).map(|(id, _)| *id).collect();
        let mut expired = Vec::new();
        for id in late {
            let Some(call) = self.calls.remove(&id) else { continue };
            self.engine.reset(StreamId(id), ErrorCode::CANCEL, out);
            let is_sending = call.is_sending();
            self.sending -= usize::from(is_sending);
            let cause = match (call.is_started, is_sending) {
                (true, _) => Cause::ReadTimeout,
                (false, true) => Cause::SendTimeout,
                (false, false) => Cause::Silent,
            };
            expired.push((call.flight, cause));
        }
        expired
    }

    /// Parses received bytes.
    fn take(
        &mut self,
        bytes: &[u8],
        served: &mut u64,
        codec: &mut Codec,
        bench: &mut Bench,
        out: &mut Vec<u8>,
        progress: &mut ReadProgress,
    ) {
        bench.seat.look_at_clock();
        if !std::mem::replace(&mut self.has_heard, true)
            && let Some(cause) = foreign(bytes)
        {
            progress.fault = Some(cause);
            return;
        }
        let now_ms = bench.seat.now_ns / 1_000_000;
        let mut rest = bytes;
        let mut head = std::mem::take(&mut codec.streams_head);
        loop {
            let before = rest.len();
            let event = match self.engine.receive(now_ms, &mut rest, &mut head, out) {
                Ok(Some(event)) => event,
                Ok(None) => break,
                Err(closed) => {
                    note_failure(bench, &closed);
                    progress.fault = Some(Cause::Http2Broken);
                    break;
                }
            };
            let taken = (before - rest.len()) as u64;
            self.count_received(&event, taken, bench);
            if let Some(stream) = self.take_event(event, &head, codec, bench, out, progress) {
                self.complete(stream, served, bench, out, progress);
            }
        }
        codec.streams_head = head;
    }

    /// Counts received bytes for the target of their stream; bytes of the connection itself belong to no target.
    fn count_received(&self, event: &Event<'_>, bytes: u64, bench: &mut Bench) {
        let (Event::Head { stream, .. } | Event::Data { stream, .. } | Event::Trailers { stream }) = event else {
            return;
        };
        if let Some(call) = self.calls.get(&stream.0) {
            bench.tally(call.flight.target).bytes_received += bytes;
        }
    }

    /// Handles an event. Returns the stream if its response is complete.
    fn take_event(
        &mut self,
        event: Event<'_>,
        head: &Head,
        codec: &mut Codec,
        bench: &mut Bench,
        out: &mut Vec<u8>,
        progress: &mut ReadProgress,
    ) -> Option<StreamId> {
        match event {
            Event::Head { stream, end } => {
                self.take_head(stream, head, codec);
                return end.then_some(stream);
            }
            Event::Data { stream, bytes, end } => {
                if let Some(call) = self.calls.get_mut(&stream.0) {
                    call.body_bytes += bytes.len() as u64;
                }
                self.engine.consume(stream, bytes.len(), out);
                return end.then_some(stream);
            }
            Event::Trailers { stream } => {
                if let Some(call) = self.calls.get_mut(&stream.0) {
                    call.grpc_status = grpc_status(head).or(call.grpc_status);
                }
                return Some(stream);
            }
            Event::Reset { stream, by } => self.take_reset(stream, by, bench, progress),
            Event::GoAway { code, .. } => {
                let record = bench.seat.record.streams.get_or_insert_default();
                *record.goaways.entry(code.to_string()).or_default() += 1;
            }
            Event::PeerSettings => {
                self.is_settled = true;
                let allowed = self.engine.peer_settings().streams_max;
                let record = bench.seat.record.streams.get_or_insert_default();
                let known = record.allowed.unwrap_or(u32::MAX);
                record.allowed = Some(known.min(allowed)).filter(|allowed| *allowed < u32::MAX);
            }
            Event::SettingsAcked | Event::Pong(_) => {}
        }
        None
    }

    fn take_head(&mut self, stream: StreamId, head: &Head, codec: &mut Codec) {
        let Some(call) = self.calls.get_mut(&stream.0) else { return };
        call.is_started = true;
        if head.is_interim() {
            return;
        }
        call.status = head.status;
        if self.grpc {
            call.grpc_status = grpc_status(head);
        }
        if codec.server.is_none()
            && let Some(server) = head.value(http1::FieldId::Server)
        {
            codec.server = Some(String::from_utf8_lossy(server).into_owned());
        }
    }

    /// Counts a complete response.
    fn complete(
        &mut self,
        stream: StreamId,
        served: &mut u64,
        bench: &mut Bench,
        out: &mut Vec<u8>,
        progress: &mut ReadProgress,
    ) {
        let Some(call) = self.calls.remove(&stream.0) else { return };
        if call.is_sending() {
            // The response was complete before the request body was.
            self.sending -= 1;
            self.engine.reset(stream, ErrorCode::NO_ERROR, out);
        }
        progress.completed += 1;
        let failure = if self.grpc { grpc_failure(&call, bench) } else { None };
        if let Some(cause) = failure {
            let latency_ns = bench.seat.now_ns.saturating_sub(call.flight.due_ns);
            bench.tally(call.flight.target).failure(cause, latency_ns);
        } else {
            let complete = Complete { status: call.status, keepalive: true, body_bytes: call.body_bytes };
            finish(call.flight, complete, *served > 0, bench);
        }
        *served += 1;
    }

    fn take_reset(&mut self, stream: StreamId, by: ResetBy, bench: &mut Bench, progress: &mut ReadProgress) {
        // A reset after a complete response is no failure.
        let Entry::Occupied(call) = self.calls.entry(stream.0) else { return };
        let call = call.remove();
        self.sending -= usize::from(call.is_sending());
        let record = bench.seat.record.streams.get_or_insert_default();
        let cause = match by {
            ResetBy::Us(Reason::Unprocessed) => {
                record.unprocessed += 1;
                progress.unprocessed.push(call.flight);
                return;
            }
            ResetBy::Us(reason) => {
                record.failure.get_or_insert_with(|| reason.to_string());
                match reason {
                    Reason::Head(_) => Cause::BadHead,
                    Reason::BodyLength => Cause::BadBody,
                    _ => Cause::Http2Broken,
                }
            }
            ResetBy::Peer(code) => {
                *record.resets.entry(code.to_string()).or_default() += 1;
                if code == ErrorCode::REFUSED_STREAM { Cause::RefusedStream } else { Cause::StreamReset }
            }
        };
        progress.completed += 1;
        let latency_ns = bench.seat.now_ns.saturating_sub(call.flight.due_ns);
        bench.tally(call.flight.target).failure(cause, latency_ns);
    }
}

fn grpc_failure(call: &Call, bench: &mut Bench) -> Option<Cause> {
    let Some(status) = call.grpc_status.filter(|_| call.status == 200) else { return Some(Cause::GrpcNone) };
    *bench.seat.record.streams.get_or_insert_default().grpc.entry(status).or_default() += 1;
    (status != 0).then_some(Cause::GrpcStatus)
}

fn note_failure(bench: &mut Bench, failure: &dyn std::fmt::Display) {
    let record = bench.seat.record.streams.get_or_insert_default();
    record.failure.get_or_insert_with(|| failure.to_string());
}

/// The cause if the first bytes of a target are not HTTP/2.
fn foreign(bytes: &[u8]) -> Option<Cause> {
    match bytes {
        [b'H', b'T', b'T', b'P', ..] => Some(Cause::NoHttp2),
        _ => Some(cause::of_foreign_bytes(bytes)).filter(|cause| *cause == Cause::SpeaksTls),
    }
}

fn grpc_status(head: &Head) -> Option<u32> {
    let field = head.fields.iter().find(|field| field.name.of(&head.bytes) == b"grpc-status")?;
    std::str::from_utf8(field.value.of(&head.bytes)).ok()?.parse().ok()
}

impl Connection {
    /// Reads from the socket, counts complete responses, and sends the answers that HTTP/2 requires.
    pub(super) fn read_streams(&mut self, codec: &mut Codec, bench: &mut Bench) -> ReadProgress {
        let mut progress = ReadProgress::default();
        let unsent = self.unsent_bytes();
        let task = self.task;
        let Self { stream: Some(stream), multiplex: Some(multiplex), served, .. } = self else { return progress };
        let mut out = std::mem::take(&mut codec.out);
        out.clear();
        let mut reads = 0;
        while unsent + out.len() <= UNSENT_BYTES_MAX {
            let most = read_bytes(bench);
            let took = stream.read_with(most, |bytes| {
                multiplex.take(bytes, served, codec, bench, &mut out, &mut progress);
            });
            match took {
                Ok(Read::Data(())) => {}
                Ok(Read::NotReady) => break,
                Ok(Read::Closed) => {
                    progress.closed = true;
                    bench.seat.look_at_clock();
                    if !multiplex.calls.is_empty() {
                        progress.fault = Some(match (multiplex.is_answering(), *served) {
                            (true, _) if stream.is_truncated() => Cause::TlsTruncated,
                            (true, _) => Cause::ClosedEarly,
                            (false, 0) => Cause::ClosedUnanswered,
                            (false, _) => Cause::KeepaliveRace,
                        });
                    }
                    break;
                }
                Err(error) if tls_error(&error).is_some() => {
                    progress.fault = Some(bench.seat.record.tls.get_or_insert_default().fail(&error));
                    break;
                }
                Err(_) => {
                    progress.fault = Some(match (multiplex.is_answering(), *served) {
                        (true, _) => Cause::ResetEarly,
                        (false, 0) => Cause::ResetUnanswered,
                        (false, _) => Cause::KeepaliveRace,
                    });
                    break;
                }
            }
            reads += 1;
            let has_turn = reads >= READS_PER_WAKE || progress.completed > 0 || bench.is_due();
            if progress.fault.is_some() || has_turn {
                if stream.is_readable() {
                    bench.seat.reactor.wake(task);
                }
                break;
            }
        }
        multiplex.pump(bench, &mut out);
        progress.last = multiplex.engine.is_finished();
        if multiplex.has_more() {
            bench.seat.reactor.wake(task);
        }
        // Bytes that the target sent before its reset tell more than a failed write. The next wake reads them.
        let _ = self.write(&out);
        codec.out = out;
        progress
    }

    /// Removes all requests in flight and waiting, when the connection ends.
    pub(super) fn drain_flights(&mut self, bench: &mut Bench) -> Vec<Flight> {
        let mut flights = self.multiplex.as_mut().map_or_else(Vec::new, |multiplex| multiplex.drain(bench));
        flights.extend(self.flights.drain(..));
        flights
    }

    /// Open streams, and requests that wait for a stream.
    pub(super) fn in_flight(&self) -> usize {
        self.flights.len() + self.multiplex.as_ref().map_or(0, |multiplex| multiplex.calls())
    }

    /// How many more requests fit.
    pub(super) fn room(&self, wanted: usize) -> usize {
        let limit = self.multiplex.as_ref().map_or(wanted, |multiplex| multiplex.limit(wanted));
        limit.saturating_sub(self.in_flight())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stream_stays_within_its_planned_size() {
        // Beside the engine's 128 bytes, in a table that is half full.
        assert!(2 * (size_of::<Call>() + 16) + 128 <= 512, "{}", size_of::<Call>());
        assert!(size_of::<Multiplex>() <= 2048, "{}", size_of::<Multiplex>());
    }
}
