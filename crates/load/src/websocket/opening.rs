//! Opens a connection: connect, handshakes, failures and further attempts.

use super::connection::{Handshake, Phase, new_decoder};
use super::due_queue::tick_before;
use super::ending::Ending;
use super::events::EventStream;
use super::one_stream::{OneStream, StreamEnd};
use super::options::Held;
use super::worker::Worker;
use crate::cause::{Cause, of_foreign_bytes};
use http1::encode::{encode_field, encode_head_end};
use http1::{FieldId, Parse, RequestKind, ResponseKind};
use http2::RequestLine;
use reactor::{Millis, Read};
use std::time::Duration;
use transport::{HandshakeProgress, Transport};
use websocket::handshake::{Key, ResponseFault, check_response, encode_request};

/// Bytes per read of a handshake response and of the frames after it.
const READ_BYTES: usize = 16 * 1024;
/// Most interim responses (such as 103) before the final one.
const INTERIMS_MAX: usize = 16;
/// How often the pause between attempts doubles.
const DOUBLINGS_MAX: u8 = 20;

/// The result of parsing the handshake response.
enum Answer {
    NotYet,
    /// A WebSocket; the frames begin at this offset.
    Open(usize),
    Failed(Failure),
}

/// Why the handshake failed.
#[derive(Debug, Clone, Copy)]
enum Failure {
    Cause(Cause),
    Status(u16),
    BadHandshake,
}

/// Appends the request for events, after this id.
fn encode_request_of_events(target: &[u8], authority: &[u8], last_id: Option<&[u8]>, lines: &[u8], out: &mut Vec<u8>) {
    out.extend_from_slice(&[b"GET ", target, b" HTTP/1.1\r\n"].concat());
    encode_field(b"Host", authority, out);
    encode_field(b"Accept", b"text/event-stream", out);
    encode_field(b"Cache-Control", b"no-store", out);
    if let Some(last_id) = last_id {
        encode_field(b"Last-Event-ID", last_id, out);
    }
    out.extend_from_slice(lines);
    encode_head_end(out);
}

impl Worker {
    /// Begins to connect; `due_ns` is when the attempt was due.
    pub(super) fn begin(&mut self, slot: usize, due_ns: u64) {
        let number = self.number(slot);
        let Some(connection) = self.connections.get_mut(slot) else { return };
        self.seat.record.begun += 1;
        connection.due_ns = due_ns;
        let way = self.setup.way(number).cloned().unwrap_or_default();
        match self.seat.reactor.connect(&self.setup.peer, &way, connection.task) {
            Ok(stream) => {
                connection.stream = Some(self.setup.transport(stream));
                connection.phase = Phase::Connecting;
                self.wake_in(slot, self.setup.options.connect_timeout);
            }
            Err(error) => self.fail(slot, Failure::Cause(Cause::of_connect(&error))),
        }
    }

    /// Handles an event while TCP is being established.
    pub(super) fn connecting(&mut self, slot: usize) {
        let Some(connection) = self.connections.get(slot) else { return };
        let Some(stream) = &connection.stream else { return };
        if self.seat.reactor.take_deadline_fired(connection.task) {
            return self.fail(slot, Failure::Cause(Cause::ConnectTimeout));
        }
        if !stream.is_writable() {
            return;
        }
        match stream.take_error() {
            Ok(None) => {}
            Ok(Some(error)) | Err(error) => return self.fail(slot, Failure::Cause(Cause::of_connect(&error))),
        }
        self.seat.record.connect.record(self.seat.now_ns.saturating_sub(connection.due_ns));
        let Some(connection) = self.connections.get_mut(slot) else { return };
        if connection.stream.as_ref().is_some_and(Transport::is_secure) {
            connection.phase = Phase::Securing;
            // No ping was sent yet, so the field stores the start of this handshake.
            connection.pinged_ns = self.seat.now_ns;
            self.wake_in(slot, self.setup.options.connect_timeout);
            return self.securing(slot);
        }
        self.ask(slot);
    }

    /// Handles an event during the TLS handshake.
    pub(super) fn securing(&mut self, slot: usize) {
        let Some(connection) = self.connections.get(slot) else { return };
        let Some(stream) = &connection.stream else { return };
        if self.seat.reactor.take_deadline_fired(connection.task) {
            return self.fail(slot, Failure::Cause(Cause::TlsStalled));
        }
        match stream.handshake() {
            Ok(HandshakeProgress::Waiting) => return,
            Ok(HandshakeProgress::Done) => {}
            Err(error) => {
                let cause = self.seat.record.tls.get_or_insert_default().fail(&error);
                return self.fail(slot, Failure::Cause(cause));
            }
        }
        self.seat.look_at_clock();
        let time_ns = self.seat.now_ns.saturating_sub(connection.pinged_ns);
        let handshakes = self.seat.record.tls.get_or_insert_default();
        stream.session(|session| handshakes.complete(session, time_ns));
        self.ask(slot);
    }

    /// Sends the WebSocket handshake; a bare TCP connection has none, so it is open now.
    fn ask(&mut self, slot: usize) {
        if self.setup.options.url.bare {
            return self.opened(slot, &[]);
        }
        let key = Key::new(self.random.u128(..).to_ne_bytes());
        let number = self.number(slot);
        let (url, setup) = (&self.setup.options.url, &self.setup);
        let target = setup.fill(&url.path, number);
        let mut request = Vec::new();
        if setup.options.is_http2() {
            return self.ask_on_stream(slot, target.as_bytes());
        }
        if setup.options.held() == Held::Events {
            let events = self.connections.get(slot).and_then(|connection| connection.events.as_ref());
            let last_id = events.map(|events| events.last_id.as_slice()).filter(|id| !id.is_empty());
            self.seat.record.resumed += u64::from(last_id.is_some());
            encode_request_of_events(target.as_bytes(), url.authority.as_bytes(), last_id, &setup.lines, &mut request);
        } else {
            encode_request(target.as_bytes(), url.authority.as_bytes(), &key, &setup.lines, &mut request);
        }
        self.send_request(slot, key, &request);
    }

    fn send_request(&mut self, slot: usize, key: Key, request: &[u8]) {
        let timeout = self.setup.options.timeout;
        let Some(connection) = self.connections.get_mut(slot) else { return };
        connection.handshake = Some(Box::new(Handshake { key, bytes: Vec::new() }));
        connection.phase = Phase::Opening;
        if self.transmit(slot, request).is_err() {
            return self.fail(slot, Failure::Cause(Cause::ResetUnanswered));
        }
        self.wake_in(slot, timeout);
    }

    /// Asks for events on a stream of HTTP/2.
    fn ask_on_stream(&mut self, slot: usize, path: &[u8]) {
        let Self { connections, setup, seat, .. } = self;
        let Some(connection) = connections.get_mut(slot) else { return };
        let session = connection.stream.as_ref().map(|stream| stream.session(|session| session.alpn() == Some(b"h2")));
        if session.flatten() == Some(false) {
            return self.fail(slot, Failure::Cause(Cause::NoHttp2));
        }
        let url = &setup.options.url;
        let line = RequestLine {
            method: b"GET",
            scheme: if url.tls { b"https" } else { b"http" },
            authority: url.authority.as_bytes(),
            path,
            protocol: b"",
        };
        let last_id = connection.events.as_ref().map(|events| events.last_id.as_slice()).filter(|id| !id.is_empty());
        seat.record.resumed += u64::from(last_id.is_some());
        let mut request = Vec::new();
        let opened = OneStream::open(&line, &mut request, |fields| {
            let own = [("accept", &b"text/event-stream"[..]), ("cache-control", b"no-store")];
            let last_id = last_id.map(|id| ("last-event-id", id));
            let given = setup.options.fields.iter().map(|(name, value)| (name.as_str(), value.as_bytes()));
            for (name, value) in own.into_iter().chain(last_id).chain(given) {
                // The options are checked; what HTTP/2 does not have is left out.
                let _ = fields.add(name.as_bytes(), value);
            }
        });
        let Ok(stream) = opened else { return self.fail(slot, Failure::BadHandshake) };
        connection.one_stream = Some(Box::new(stream));
        self.send_request(slot, Key::new([0; 16]), &request);
    }

    /// Handles an event while the handshake response is awaited.
    pub(super) fn opening(&mut self, slot: usize) {
        let Some(connection) = self.connections.get_mut(slot) else { return };
        let (Some(stream), Some(mut handshake)) = (connection.stream.take(), connection.handshake.take()) else {
            return;
        };
        let (mut one_stream, mut reply) = (connection.one_stream.take(), Vec::new());
        let now_ms = self.seat.now_ns / 1_000_000;
        let fired = self.seat.reactor.take_deadline_fired(connection.task);
        let answer = loop {
            let read = stream.read_with(READ_BYTES, |bytes| {
                self.seat.record.bytes_received += bytes.len() as u64;
                match &mut one_stream {
                    Some(one_stream) => one_stream.take(bytes, now_ms, &mut handshake.bytes, &mut reply),
                    None => handshake.bytes.extend_from_slice(bytes),
                }
            });
            let begun = !handshake.bytes.is_empty();
            let cause = match read {
                // A FIN that came with the bytes is not reported again, so read until nothing is left.
                Ok(Read::Data(())) => {
                    let answer = if begun { self.take_answer(&handshake) } else { Answer::NotYet };
                    match (answer, one_stream.as_ref().and_then(|one_stream| one_stream.end())) {
                        (Answer::NotYet, Some(StreamEnd::Reset(cause) | StreamEnd::Fault(cause))) => cause,
                        (Answer::NotYet, Some(StreamEnd::Complete)) => Cause::BadHead,
                        (Answer::NotYet, None) => continue,
                        (decided, _) => break decided,
                    }
                }
                Ok(Read::NotReady) if fired && begun => Cause::ReadTimeout,
                Ok(Read::NotReady) if fired => Cause::Silent,
                Ok(Read::NotReady) => break Answer::NotYet,
                Ok(Read::Closed) if begun => Cause::ClosedEarly,
                Ok(Read::Closed) => Cause::ClosedUnanswered,
                Err(_) if begun => Cause::ResetEarly,
                Err(_) => Cause::ResetUnanswered,
            };
            break Answer::Failed(Failure::Cause(cause));
        };
        if let Some(connection) = self.connections.get_mut(slot) {
            (connection.stream, connection.one_stream) = (Some(stream), one_stream);
        }
        if !reply.is_empty() && self.transmit(slot, &reply).is_err() {
            return self.fail(slot, Failure::Cause(Cause::ResetUnanswered));
        }
        match answer {
            Answer::NotYet => {
                if let Some(connection) = self.connections.get_mut(slot) {
                    connection.handshake = Some(handshake);
                    if self.flush(slot).is_err() {
                        self.fail(slot, Failure::Cause(Cause::ResetUnanswered));
                    }
                }
            }
            Answer::Failed(failure) => self.fail(slot, failure),
            Answer::Open(at) => self.opened(slot, handshake.bytes.get(at..).unwrap_or_default()),
        }
    }

    fn take_answer(&mut self, handshake: &Handshake) -> Answer {
        let mut at = 0;
        for _ in 0..INTERIMS_MAX {
            let rest = handshake.bytes.get(at..).unwrap_or_default();
            match http1::response::parse(rest, &self.setup.limits, RequestKind::Other, &mut self.head) {
                Ok(Parse::Partial) => return Answer::NotYet,
                Ok(Parse::Complete { len }) if self.head.kind == ResponseKind::Interim => at += len,
                Ok(Parse::Complete { len }) if self.setup.options.held() == Held::Events => {
                    let content = self.head.value(FieldId::ContentType, rest).unwrap_or_default();
                    let essence = content.split(|byte| *byte == b';').next().unwrap_or_default().trim_ascii();
                    return match self.head.status {
                        200 if essence.eq_ignore_ascii_case(b"text/event-stream") => Answer::Open(at + len),
                        200 => Answer::Failed(Failure::BadHandshake),
                        status => Answer::Failed(Failure::Status(status)),
                    };
                }
                Ok(Parse::Complete { len }) => {
                    let offered: Vec<&[u8]> = self.setup.protocols.iter().map(Vec::as_slice).collect();
                    return match check_response(&self.head, rest, &handshake.key, &offered) {
                        Ok(_) => Answer::Open(at + len),
                        Err(ResponseFault::Status(status)) => Answer::Failed(Failure::Status(status)),
                        Err(_) => Answer::Failed(Failure::BadHandshake),
                    };
                }
                Err(_) if rest.starts_with(b"HTTP/1.") => return Answer::Failed(Failure::Cause(Cause::BadHead)),
                Err(_) => return Answer::Failed(Failure::Cause(of_foreign_bytes(rest))),
            }
        }
        Answer::Failed(Failure::Cause(Cause::BadHead))
    }

    /// Handles the 101 and any frames after it; without a handshake, the established connection.
    fn opened(&mut self, slot: usize, frames: &[u8]) {
        let setup = std::sync::Arc::clone(&self.setup);
        let number = self.number(slot);
        let Some(connection) = self.connections.get_mut(slot) else { return };
        self.seat.record.handshake.record(self.seat.now_ns.saturating_sub(connection.due_ns));
        self.seat.record.established += 1;
        self.seat.record.stalled += u64::from(connection.stalled);
        self.open += 1;
        setup.opened();
        connection.phase = Phase::Open;
        connection.failures = 0;
        connection.awaits_pong = false;
        connection.decoder = new_decoder();
        if setup.options.held() == Held::Events {
            // The head that was parsed last is that of this connection.
            let events = connection.events.get_or_insert_with(|| Box::new(EventStream::new()));
            events.begin(self.head.framing);
        }
        (connection.joined, connection.received) = (connection.sent_here(&setup), 0);
        let (task, stalled) = (connection.task, connection.stalled);
        self.seat.reactor.set_deadline(task, None);
        if let Some(every) = setup.options.heartbeat.filter(|_| !stalled) {
            // The first ping comes at a random time, so that the connections do not all ping together.
            let first = every.mul_f64(self.random.f64());
            connection.due_ns = self.seat.now_ns.saturating_add(first.as_nanos() as u64);
            self.wake_when_due(slot);
        }
        if let Some((since_ns, wanted)) = self.storm
            && self.open >= wanted
        {
            self.seat.record.recovered_ns =
                self.seat.record.recovered_ns.max(self.seat.now_ns.saturating_sub(since_ns));
            self.storm = None;
        }
        if let Some(join) = &setup.options.join
            && let Err(ending) = self.send_text(slot, setup.fill(join, number).as_bytes())
        {
            return self.finish(slot, ending);
        }
        if !stalled {
            let read = self.read_first(slot, frames);
            self.settle_read(slot, &read);
            // Bytes that arrived meanwhile were reported before the response was read.
            self.seat.reactor.wake(task);
        }
    }

    fn fail(&mut self, slot: usize, failure: Failure) {
        match failure {
            Failure::Cause(cause) => self.seat.record.fail(cause),
            Failure::Status(status) => *self.seat.record.statuses.entry(status).or_default() += 1,
            Failure::BadHandshake => self.seat.record.bad_handshakes += 1,
        }
        let Some(connection) = self.connections.get_mut(slot) else { return };
        (connection.stream, connection.handshake, connection.unsent) = (None, None, Vec::new());
        connection.one_stream = None;
        connection.failures = connection.failures.saturating_add(1);
        // Clients of events do not come back after a 204.
        let is_told_to_stop = matches!(failure, Failure::Status(204)) && self.setup.options.events.is_some();
        self.begin_again(slot, is_told_to_stop);
    }

    /// Ends an open connection.
    pub(super) fn finish(&mut self, slot: usize, ending: Ending) {
        let setup = std::sync::Arc::clone(&self.setup);
        let Some(connection) = self.connections.get_mut(slot) else { return };
        if !matches!(connection.phase, Phase::Open | Phase::Closing) {
            return;
        }
        let ending = connection.ending.take().unwrap_or(ending);
        (connection.stream, connection.one_stream, connection.unsent) = (None, None, Vec::new());
        self.open = self.open.saturating_sub(1);
        setup.ended();
        self.seat.record.end(ending);
        if matches!(ending, Ending::Fin | Ending::Truncated | Ending::Reset) && setup.options.held() == Held::WebSocket
        {
            *self.seat.record.codes.entry(1006).or_default() += 1;
        }
        if connection.stalled {
            self.seat.record.stalled_ended += u64::from(ending.is_loss());
        } else {
            let (expected, received) = (u64::from(connection.expected(&setup)), u64::from(connection.received));
            self.seat.record.expected += expected;
            self.seat.record.lost += expected.saturating_sub(received);
            self.seat.record.surplus += received.saturating_sub(expected);
        }
        self.begin_again(slot, false);
    }

    /// After a loss or a failure: schedules another attempt, or ends the connection for good.
    fn begin_again(&mut self, slot: usize, is_last: bool) {
        let is_ending = self.is_ending() || is_last;
        let Some(connection) = self.connections.get_mut(slot) else { return };
        self.seat.reactor.set_deadline(connection.task, None);
        let Some((first, most)) = self.setup.options.reconnect.filter(|_| !is_ending) else {
            connection.phase = Phase::Gone;
            return;
        };
        connection.phase = Phase::Waiting;
        let doubled = first.saturating_mul(1 << connection.failures.min(DOUBLINGS_MAX));
        // The pause starts at zero, so that connections that were cut together do not come back together.
        let retry_ms = connection.events.as_ref().and_then(|events| events.retry_ms).unwrap_or(0);
        let pause = doubled.min(most).mul_f64(self.random.f64()) + Duration::from_millis(retry_ms);
        connection.due_ns = self.seat.now_ns.saturating_add(pause.as_nanos() as u64);
        self.wake_when_due(slot);
    }

    /// Handles the deadline of a pause: the next attempt is due soon.
    pub(super) fn waiting(&mut self, slot: usize) {
        let Some(connection) = self.connections.get(slot) else { return };
        if self.seat.reactor.take_deadline_fired(connection.task) {
            self.due.add(connection.due_ns, slot);
        }
    }

    /// Ends an attempt that is in progress when the run ends.
    pub(super) fn give_up(&mut self, slot: usize, cause: Option<Cause>) {
        let Some(connection) = self.connections.get_mut(slot) else { return };
        if matches!(connection.phase, Phase::Connecting | Phase::Securing | Phase::Opening)
            && let Some(cause) = cause
        {
            self.seat.record.fail(cause);
        }
        connection.stream = None;
        connection.phase = Phase::Gone;
        self.seat.reactor.set_deadline(connection.task, None);
    }

    /// Schedules what is due on a connection. The deadline fires a little early, and `due_queue` handles the rest to
    /// the nanosecond.
    pub(super) fn wake_when_due(&mut self, slot: usize) {
        let Some(connection) = self.connections.get(slot) else { return };
        let tick = Millis(tick_before(self.seat.begun_ns.saturating_add(connection.due_ns)));
        if tick <= self.seat.reactor.now() {
            self.due.add(connection.due_ns, slot);
        } else {
            self.seat.reactor.set_deadline(connection.task, Some(tick));
        }
    }

    /// Sets the connection's deadline, rounded up to the loop's milliseconds.
    pub(super) fn wake_in(&self, slot: usize, time: Duration) {
        if let Some(connection) = self.connections.get(slot) {
            let ms = time.as_nanos().div_ceil(1_000_000) as u64;
            let now = reactor::monotonic_millis();
            self.seat.reactor.set_deadline(connection.task, Some(Millis(now.0.saturating_add(ms))));
        }
    }
}
