//! Reading on an HTTP/2 connection: bytes of the client become requests, parts of bodies, and ends of streams.

use crate::downstream::client::ClientFacts;
use crate::downstream::h2::session::Session;
use crate::downstream::h2::state::SessionState;
use crate::downstream::request::Request;
use crate::multiplex::head::trailers_of;
use crate::multiplex::stream::Stream;
use crate::thread::WorkerThread;
use http1::{Limits, RequestError};
use http2::{Closed, Event, Head, Reason, ResetBy, StreamId};
use reactor::Read;
use std::hash::{BuildHasher as _, RandomState};
use std::rc::Rc;
use websocket::handshake::Key;

/// Bytes of one read: two frames of the usual greatest size. The engine answers each read with less than twice as much.
const READ_BYTES: usize = 32 * 1024;

/// A request that has arrived.
pub(crate) struct Arrived {
    pub(crate) key: usize,
    pub(crate) stream: StreamId,
    /// Its number on the connection.
    pub(crate) requests: u32,
    /// Bytes of its header block.
    pub(crate) head_bytes: u32,
    /// An extended CONNECT: the client wants a tunnel.
    pub(crate) is_connect: bool,
    pub(crate) request: Box<Request>,
    /// What is wrong with the request, if anything.
    pub(crate) fault: Option<RequestError>,
}

/// What reads have found for the worker.
#[derive(Default)]
pub(crate) struct ReadResults {
    /// Complete requests.
    pub(crate) arrived: Vec<Arrived>,
    /// Streams that were reset because of a fault of the client.
    pub(crate) faults: Vec<(StreamId, Reason)>,
}

/// The result of a read.
#[derive(Debug)]
pub(crate) enum SessionRead {
    /// Something was read.
    Some,
    /// No bytes are there to read.
    NotReady,
    /// The client has closed the connection.
    Closed,
    /// The connection broke.
    Failed,
    /// The client broke a rule or reached a limit: a GOAWAY is queued.
    Over(Reason),
}

impl Session {
    /// Reads once. Adds complete requests and faults to `found`; `request` returns buffers for one.
    pub(crate) fn read(
        &self,
        head: &mut Head,
        limits: &Limits,
        request: &mut dyn FnMut() -> Box<Request>,
        found: &mut ReadResults,
    ) -> SessionRead {
        let mut state = self.state.borrow_mut();
        let state = &mut *state;
        let Some(mut connection) = state.connection.take() else { return SessionRead::Failed };
        let pending = std::mem::take(&mut connection.pending);
        let mut work = Reading { thread: &self.thread, limits, request, found, client: &mut connection.client };
        let outcome = if pending.is_empty() {
            match connection.stream.read_with(READ_BYTES, |bytes| work.take(state, bytes, head)) {
                Ok(Read::Data(outcome)) => outcome,
                Ok(Read::NotReady) => SessionRead::NotReady,
                Ok(Read::Closed) => SessionRead::Closed,
                Err(_) => SessionRead::Failed,
            }
        } else {
            work.take(state, &pending, head)
        };
        state.connection = Some(connection);
        let now = self.thread.reactor.now();
        state.times.reading_since =
            if state.carried.engine.is_reading() { state.times.reading_since.or(Some(now)) } else { None };
        outcome
    }
}

/// What a read needs besides the connection's state.
struct Reading<'a> {
    thread: &'a Rc<WorkerThread>,
    limits: &'a Limits,
    request: &'a mut dyn FnMut() -> Box<Request>,
    found: &'a mut ReadResults,
    client: &'a mut ClientFacts,
}

impl Reading<'_> {
    /// Processes bytes of the client.
    fn take(&mut self, state: &mut SessionState, mut bytes: &[u8], head: &mut Head) -> SessionRead {
        state.carried.prepare_out(self.thread);
        let now = self.thread.reactor.now();
        loop {
            match state.carried.engine.receive(now.0, &mut bytes, head, &mut state.carried.out) {
                Ok(Some(event)) => self.take_event(state, event, head),
                Ok(None) => return SessionRead::Some,
                Err(Closed(reason)) => return SessionRead::Over(reason),
            }
        }
    }

    fn take_event(&mut self, state: &mut SessionState, event: Event<'_>, head: &mut Head) {
        match event {
            Event::Head { stream, end } => self.take_head(state, stream, end, head),
            Event::Data { stream, bytes, end } => {
                if let Some(known) = state.carried.stream_of(stream) {
                    known.received.extend_from_slice(bytes);
                    known.is_received |= end;
                    self.thread.reactor.wake(known.task);
                }
            }
            Event::Trailers { stream } => {
                if let Some(known) = state.carried.stream_of(stream) {
                    known.trailers = trailers_of(head);
                    known.is_received = true;
                    self.thread.reactor.wake(known.task);
                }
            }
            Event::Reset { stream, by } => {
                if let ResetBy::Us(reason) = by {
                    self.thread.counters().http2_stream_faults.count(reason);
                    self.found.faults.push((stream, reason));
                }
                if let Some(known) = state.carried.ended_stream_of(stream) {
                    known.is_gone = true;
                    self.thread.reactor.wake(known.task);
                }
            }
            Event::GoAway { .. } | Event::SettingsAcked | Event::PeerSettings | Event::Pong(_) => {}
        }
    }

    fn take_head(&mut self, state: &mut SessionState, id: StreamId, end: bool, head: &mut Head) {
        let mut request = (self.request)();
        let is_connect = head.protocol.is_some();
        let fault = if head.is_too_large {
            request.head.clear();
            Some(RequestError::HeadTooLarge)
        } else if is_connect {
            head.to_upgrade(websocket_key(id).as_bytes(), self.limits, &mut request.head).err()
        } else {
            head.to_request(end, self.limits, &mut request.head).err()
        };
        // The spans of the head point into these bytes.
        std::mem::swap(&mut request.bytes, &mut head.bytes);
        let task = self.thread.reactor.create_task();
        self.thread.memory.name(task, self.client.serial);
        let key = state.carried.insert(Stream::new(id, task, end));
        state.times.has_begun = true;
        self.client.requests = self.client.requests.saturating_add(1);
        let requests = self.client.requests;
        self.found.arrived.push(Arrived {
            key,
            stream: id,
            requests,
            head_bytes: head.block_bytes,
            is_connect,
            request,
            fault,
        });
    }
}

/// The key of a WebSocket handshake with an upstream. It proves that the upstream speaks WebSocket and is no secret, so
/// the random hash keys of the standard library are enough.
fn websocket_key(stream: StreamId) -> Key {
    let half = || RandomState::new().hash_one(stream).to_ne_bytes();
    let mut nonce = [0; 16];
    nonce[..8].copy_from_slice(&half());
    nonce[8..].copy_from_slice(&half());
    Key::new(nonce)
}
