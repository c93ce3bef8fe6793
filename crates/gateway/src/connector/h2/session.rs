//! An HTTP/2 connection to an upstream while requests use it: the engine, its streams, and what is known of the peer.
//! The carrier drives it; exchanges work on their streams through it, and the carrier sends their frames in its next
//! turn.

use crate::connector::h2::hub::StreamKey;
use crate::multiplex::carried::{Carried, OUT_BYTES_MAX, Unread};
use crate::multiplex::failure::{ConnectionEnd, StreamFailure};
use crate::multiplex::head::{ReceivedHead, trailers_of};
use crate::multiplex::stream::{Stream, StreamEnding};
use crate::thread::WorkerThread;
use http1::outgoing::OutgoingHead;
use http1::{FieldId, Trailers};
use http2::{
    Closed, Config, Connection as Engine, ErrorCode, Event, Fields, Head, OpenFault, Reason, RequestLine, ResetBy,
    Role, StreamId,
};
use reactor::{Millis, Read, TaskId};
use std::cell::{Cell, RefCell};
use std::io;
use std::net::SocketAddr;
use std::rc::Rc;
use transport::Transport;
use upstream::streams::{ConnectionId, Earlier, Retired};

/// Most bytes of heads that wait for an exchange, which no window bounds: the final one and some interim ones.
const HEADS_BYTES_MAX: usize = 64 * 1024;

/// The window of a stream that its exchange reads promptly: enough for 20 MB/s over a round trip of 12 ms.
const FAST_WINDOW_BYTES: u32 = 256 * 1024;

/// Bytes of a body that are framed at once: the engine cuts them into frames as long as the peer allows.
const CHUNK_BYTES: usize = OUT_BYTES_MAX;

/// Streams at once on one connection, if its peer allows as many: RFC 9113 §6.5.2 asks peers for 100 at least.
pub(super) const STREAMS_MAX: u32 = 128;

/// The window of a connection: the sum of its streams' windows, so that requests of slow clients do not stop others.
const CONNECTION_WINDOW_BYTES: u32 = STREAMS_MAX * FAST_WINDOW_BYTES;

/// The payload of a PING.
const PING: [u8; 8] = *b"are you?";

/// An HTTP/2 connection to an upstream.
pub(crate) struct UpstreamSession {
    pub(super) thread: Rc<WorkerThread>,
    /// The carrier's task; each stream has the task of its exchange.
    pub(super) task: TaskId,
    /// The number by which the book knows it at present.
    id: Cell<ConnectionId>,
    pub(super) key: StreamKey,
    pub(crate) local: Option<SocketAddr>,
    /// The carrier is working on it, and flushes everything before it returns.
    is_driven: Cell<bool>,
    /// The book has retired it.
    retired: Cell<Option<Retired>>,
    /// The book may put streams on it.
    is_opened: Cell<bool>,
    /// It came from the pool.
    was_pooled: bool,
    /// What the connection had carried before this worker got it.
    before: Earlier,
    /// Streams opened since then.
    begun: Cell<u32>,
    state: RefCell<UpstreamState>,
}

struct UpstreamState {
    carried: Carried,
    /// Whether anything was received; `heard_at` is the last time.
    has_heard: bool,
    heard_at: Millis,
    /// When the PING must have been answered.
    ping_due: Option<Millis>,
    /// Since when the socket accepts none of the waiting bytes.
    stalled_since: Option<Millis>,
}

/// What reading has revealed about the connection.
#[derive(Debug, Default, Clone, Copy)]
pub(super) struct Notices {
    /// Streams that the peer allows, if it has just said so.
    pub(super) streams_max: Option<u32>,
    /// The peer sent GOAWAY.
    pub(super) gone_away: bool,
}

/// The timeouts of a session.
#[derive(Debug, Clone, Copy)]
pub(super) struct UpstreamTimes {
    pub(super) heard_at: Millis,
    pub(super) ping_due: Option<Millis>,
    pub(super) stalled_since: Option<Millis>,
    pub(super) settings_due: Option<Millis>,
    pub(super) has_streams: bool,
}

/// A request at the start of its stream.
pub(crate) struct OpeningStream<'a> {
    pub(crate) head: &'a OutgoingHead,
    pub(crate) scheme: &'static [u8],
    /// The request has no body.
    pub(crate) end: bool,
}

impl std::fmt::Debug for UpstreamSession {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("UpstreamSession").field("task", &self.task).finish_non_exhaustive()
    }
}

impl UpstreamSession {
    /// An open connection; `slept` is the engine that it had in the pool.
    pub(super) fn new(
        thread: &Rc<WorkerThread>,
        (id, key): (ConnectionId, StreamKey),
        socket: &Transport,
        slept: Option<Box<Engine>>,
        before: Earlier,
    ) -> Rc<Self> {
        let now = thread.reactor.now();
        let mut out = thread.take_scratch();
        let was_pooled = slept.is_some();
        let engine = slept.map_or_else(|| begin(now, &mut out), |slept| *slept);
        let state = UpstreamState {
            carried: Carried::new(engine, out),
            has_heard: was_pooled,
            heard_at: now,
            ping_due: None,
            stalled_since: None,
        };
        Rc::new(Self {
            thread: Rc::clone(thread),
            task: thread.reactor.create_task(),
            id: Cell::new(id),
            key,
            local: socket.local_address().ok().flatten(),
            is_driven: Cell::new(false),
            retired: Cell::new(None),
            is_opened: Cell::new(false),
            was_pooled,
            before,
            begun: Cell::new(0),
            state: RefCell::new(state),
        })
    }

    pub(super) fn id(&self) -> ConnectionId {
        self.id.get()
    }

    pub(super) fn is_opened(&self) -> bool {
        self.is_opened.get()
    }

    pub(super) fn set_opened(&self) {
        self.is_opened.set(true);
    }

    /// The book has retired it; the carrier ends it when nothing is left to send.
    pub(super) fn retire(&self, reason: Retired) {
        self.retired.set(Some(reason));
        self.touch();
    }

    pub(super) fn retired(&self) -> Option<Retired> {
        self.retired.get()
    }

    /// The book uses it again.
    pub(super) fn come_back(&self, id: ConnectionId) {
        self.id.set(id);
        self.retired.set(None);
    }

    /// What it has carried so far.
    pub(super) fn earlier(&self) -> Earlier {
        let requests = self.before.requests.saturating_add(self.begun.get());
        let state = self.state.borrow();
        let engine = &state.carried.engine;
        let allowed = engine.knows_peer().then(|| engine.peer_settings().streams_max);
        Earlier { requests, opened: self.before.opened, allowed }
    }

    /// Whether it came from the pool.
    pub(super) fn was_pooled(&self) -> bool {
        self.was_pooled
    }

    /// Streams opened since this worker has it.
    pub(super) fn begun(&self) -> u32 {
        self.begun.get()
    }

    /// Whether a stream can be opened.
    pub(super) fn can_open(&self) -> bool {
        let state = self.state.borrow();
        let engine = &state.carried.engine;
        !engine.is_going() && engine.streams() < engine.peer_settings().streams_max as usize
    }

    /// Whether either side has sent GOAWAY.
    pub(super) fn is_going(&self) -> bool {
        self.state.borrow().carried.engine.is_going()
    }

    pub(super) fn set_driven(&self, is_driven: bool) {
        self.is_driven.set(is_driven);
    }

    /// Wakes the carrier.
    fn touch(&self) {
        if !self.is_driven.get() {
            self.thread.reactor.wake(self.task);
        }
    }

    pub(super) fn held_bytes(&self) -> usize {
        size_of::<Self>() + self.state.borrow().carried.held_bytes()
    }

    pub(super) fn times(&self) -> UpstreamTimes {
        let state = self.state.borrow();
        UpstreamTimes {
            heard_at: state.heard_at,
            ping_due: state.ping_due,
            stalled_since: state.stalled_since,
            settings_due: state.carried.engine.deadline_ms().map(Millis),
            has_streams: !state.carried.streams.is_empty(),
        }
    }

    /// Works on the streams; the carrier sends the resulting frames soon.
    fn work<R>(&self, work: impl FnOnce(&mut Carried) -> R) -> R {
        let mut state = self.state.borrow_mut();
        state.carried.prepare_out(&self.thread);
        let before = state.carried.out.len();
        let result = work(&mut state.carried);
        let has_more = state.carried.out.len() > before;
        drop(state);
        if has_more {
            self.touch();
        }
        result
    }

    /// Opens a stream for the exchange of this task, and returns its key.
    pub(super) fn open(&self, opening: &OpeningStream<'_>, task: TaskId) -> Result<usize, OpenFault> {
        let mut authority = &b""[..];
        for (name, value) in opening.head.fields() {
            if name.eq_ignore_ascii_case(b"host") {
                authority = value;
            }
        }
        let line = RequestLine {
            method: opening.head.method(),
            scheme: opening.scheme,
            authority,
            path: opening.head.target(),
            protocol: b"",
        };
        self.begun.set(self.begun.get().saturating_add(1));
        self.work(|carried| {
            let before = carried.out.len();
            let Carried { engine, out, .. } = carried;
            let id = engine.open(&line, opening.end, out, |fields| write_fields(opening.head, fields))?;
            let mut stream = Stream::new(id, task, false);
            stream.bytes_sent = (out.len() - before) as u64;
            if opening.end {
                stream.end = StreamEnding::Sent;
            }
            stream.chunk_bytes = CHUNK_BYTES;
            Ok(carried.insert(stream))
        })
    }

    pub(super) fn send(&self, key: usize, body: &[u8], end: bool) -> io::Result<()> {
        self.work(|carried| carried.send(key, body, end))
    }

    pub(super) fn end_with_trailers(&self, key: usize, trailers: Trailers) -> io::Result<()> {
        self.work(|carried| carried.end_with_trailers(key, trailers))
    }

    /// Looks at the state of a stream; returns the default if it is gone.
    pub(super) fn look<R: Default>(&self, key: usize, look: impl FnOnce(&Stream) -> R) -> R {
        self.state.borrow().carried.streams.get(key).map(look).unwrap_or_default()
    }

    /// Passes the next head of a response to the closure, or at most `max` bytes of its body; the final head comes with the
    /// beginning of the body. The closure learns whether they are the end.
    pub(super) fn read_with<R>(
        &self,
        key: usize,
        max: usize,
        look: impl FnOnce(Option<ReceivedHead>, &[u8], bool) -> R,
    ) -> Result<Read<R>, StreamFailure> {
        let (head, received, is_received) = {
            let mut state = self.state.borrow_mut();
            let Some(stream) = state.carried.streams.get_mut(key) else { return Ok(Read::Closed) };
            let head = stream.take_head();
            if head.is_none() && stream.received.is_empty() {
                return match &stream.failure {
                    _ if stream.is_received => Ok(Read::Closed),
                    Some(failure) => Err(failure.clone()),
                    None => Ok(Read::NotReady),
                };
            }
            if head.as_ref().is_some_and(|head| !head.is_final()) {
                (head, Vec::new(), false)
            } else {
                (head, std::mem::take(&mut stream.received), stream.is_received)
            }
        };
        let room = max.saturating_sub(head.as_ref().map_or(0, ReceivedHead::text_bytes));
        let used = received.len().min(room);
        let is_end = is_received && used == received.len();
        let looked = look(head, &received[..used], is_end);
        if !received.is_empty() {
            self.work(|carried| {
                let Some(id) = carried.streams.get(key).map(|stream| stream.id) else { return };
                carried.consume(key, received, used);
                if used > 0 && !is_received {
                    let Carried { engine, out, .. } = carried;
                    engine.grow_window(id, FAST_WINDOW_BYTES, out);
                }
            });
        }
        Ok(Read::Data(looked))
    }

    /// The trailers of a completed response.
    pub(super) fn take_trailers(&self, key: usize) -> Trailers {
        let mut state = self.state.borrow_mut();
        state.carried.streams.get_mut(key).map(|stream| std::mem::take(&mut stream.trailers)).unwrap_or_default()
    }

    /// Why a stream failed; `None` if it did not.
    pub(super) fn failure(&self, key: usize) -> Option<StreamFailure> {
        self.look(key, |stream| stream.failure.clone().filter(|_| !stream.is_received))
    }

    /// Removes the stream of a finished exchange; if it is not complete, it is reset.
    pub(super) fn remove(&self, key: usize, code: ErrorCode) {
        self.work(|carried| carried.remove(key, code, Unread::Reset(code)));
    }

    /// Writes the waiting bytes of all streams.
    pub(super) fn write(&self, socket: &Transport) -> io::Result<bool> {
        let mut state = self.state.borrow_mut();
        let UpstreamState { carried, stalled_since, .. } = &mut *state;
        let has_more = carried.pump(&self.thread);
        let sent = carried.flush(socket, &self.thread)?;
        if carried.out.is_empty() {
            *stalled_since = None;
            return Ok(has_more);
        }
        if sent > 0 || stalled_since.is_none() {
            *stalled_since = Some(self.thread.reactor.now());
        }
        Ok(false)
    }

    /// Drops all waiting bytes: nothing can be written any more.
    pub(super) fn drop_unsent(&self) {
        let mut state = self.state.borrow_mut();
        state.carried.out = Vec::new();
        state.stalled_since = None;
    }

    /// Whether more may be read: there is room for the answers.
    pub(super) fn has_room(&self) -> bool {
        self.state.borrow().carried.out.len() < OUT_BYTES_MAX
    }

    pub(super) fn has_unsent(&self) -> bool {
        !self.state.borrow().carried.out.is_empty()
    }

    /// Sends a PING that must be answered by `due`.
    pub(super) fn ping(&self, due: Millis) {
        self.state.borrow_mut().ping_due = Some(due);
        self.work(|carried| carried.engine.ping(PING, &mut carried.out));
    }

    /// Handles the engine's own deadline.
    pub(super) fn tick(&self) -> Option<Reason> {
        let now = self.thread.reactor.now();
        self.work(|carried| carried.engine.tick(now.0, &mut carried.out).err().map(|Closed(reason)| reason))
    }

    /// Sends GOAWAY if the connection is not to be used any more.
    pub(super) fn send_goaway(&self, socket: &Transport) {
        let mut state = self.state.borrow_mut();
        let UpstreamState { carried, .. } = &mut *state;
        carried.prepare_out(&self.thread);
        carried.engine.close(ErrorCode::NO_ERROR, &mut carried.out);
        let _ = carried.flush(socket, &self.thread);
    }

    /// Fails all streams: their connection is lost.
    pub(super) fn fail(&self, end: &ConnectionEnd) {
        let mut state = self.state.borrow_mut();
        for (_, stream) in &mut state.carried.streams {
            end_stream(stream, StreamFailure::Lost(end.clone()), &self.thread);
        }
        state.carried.engine.close(ErrorCode::NO_ERROR, &mut Vec::new());
        state.carried.out = Vec::new();
    }

    /// Returns the engine for the pool: the state that the connection needs when it is used again.
    pub(super) fn sleep(&self) -> Box<Engine> {
        let mut state = self.state.borrow_mut();
        state.carried.trim();
        Box::new(std::mem::replace(&mut state.carried.engine, Engine::over(Role::Client)))
    }

    /// Processes bytes of the peer.
    pub(super) fn take(&self, mut bytes: &[u8], head: &mut Head) -> Result<Notices, ConnectionEnd> {
        let mut state = self.state.borrow_mut();
        let state = &mut *state;
        let now = self.thread.reactor.now();
        if !std::mem::replace(&mut state.has_heard, true) && bytes.starts_with(b"HTTP/1.") {
            return Err(ConnectionEnd::SpeaksHttp1);
        }
        (state.heard_at, state.ping_due) = (now, None);
        state.carried.prepare_out(&self.thread);
        let mut notices = Notices::default();
        loop {
            let Carried { engine, out, .. } = &mut state.carried;
            match engine.receive(now.0, &mut bytes, head, out) {
                Ok(Some(event)) => self.take_event(&mut state.carried, event, head, &mut notices),
                Ok(None) => return Ok(notices),
                Err(Closed(reason)) => {
                    self.thread.counters().upstream_http2_faults.count(reason);
                    return Err(ConnectionEnd::Fault(reason));
                }
            }
        }
    }

    fn take_event(&self, carried: &mut Carried, event: Event<'_>, head: &Head, notices: &mut Notices) {
        match event {
            Event::Head { stream, end } => take_head(carried, stream, end, head, &self.thread),
            Event::Data { stream, bytes, end } => with_stream(carried, stream, &self.thread, |known| {
                known.received.extend_from_slice(bytes);
                known.is_received |= end;
            }),
            Event::Trailers { stream } => with_stream(carried, stream, &self.thread, |known| {
                known.trailers = trailers_of(head);
                known.is_received = true;
            }),
            Event::Reset { stream, by } => {
                let failure = match by {
                    ResetBy::Us(Reason::Unprocessed) => StreamFailure::GoneAway,
                    ResetBy::Us(reason) => {
                        self.thread.counters().upstream_http2_stream_faults.count(reason);
                        StreamFailure::Fault(reason)
                    }
                    ResetBy::Peer(ErrorCode::REFUSED_STREAM) => StreamFailure::Refused,
                    ResetBy::Peer(code) => StreamFailure::Reset(code),
                };
                if let Some(known) = carried.ended_stream_of(stream) {
                    end_stream(known, failure, &self.thread);
                }
            }
            Event::PeerSettings => notices.streams_max = Some(carried.engine.peer_settings().streams_max),
            Event::GoAway { .. } => notices.gone_away = true,
            Event::SettingsAcked | Event::Pong(_) => {}
        }
    }
}

/// Changes a stream and wakes its exchange.
fn with_stream(carried: &mut Carried, id: StreamId, thread: &WorkerThread, take: impl FnOnce(&mut Stream)) {
    if let Some(known) = carried.stream_of(id) {
        take(known);
        thread.reactor.wake(known.task);
    }
}

fn end_stream(stream: &mut Stream, failure: StreamFailure, thread: &WorkerThread) {
    stream.is_gone = true;
    stream.failure.get_or_insert(failure);
    thread.reactor.wake(stream.task);
}

/// Keeps the head of a response until its exchange reads it.
fn take_head(carried: &mut Carried, id: StreamId, end: bool, head: &Head, thread: &WorkerThread) {
    let mut is_too_large = head.is_too_large;
    with_stream(carried, id, thread, |known| {
        is_too_large |= known.head_bytes() > HEADS_BYTES_MAX;
        if !is_too_large {
            known.keep_head(ReceivedHead::of(head));
            known.is_received |= end;
        }
    });
    if is_too_large {
        let Carried { engine, out, .. } = carried;
        engine.reset(id, ErrorCode::CANCEL, out);
        if let Some(known) = carried.ended_stream_of(id) {
            end_stream(known, StreamFailure::HeadTooLarge, thread);
        }
    }
}

/// The fields of a request. Its Host becomes `:authority`, and fields that HTTP/2 does not have are left out.
fn write_fields(head: &OutgoingHead, out: &mut Fields<'_>) {
    for (name, value) in head.fields() {
        let id = FieldId::of_name(name);
        if id != FieldId::Host {
            let _ = out.add_known(id, name, value);
        }
    }
}

/// An engine for a connection to an upstream.
fn begin(now: Millis, out: &mut Vec<u8>) -> Engine {
    let config = Config { connection_window: CONNECTION_WINDOW_BYTES, ..Config::default() };
    Engine::new(Role::Client, config, now.0, out)
}
