//! An HTTP/2 connection: its socket, the engine, the bytes to send, and its streams. The worker drives it; exchanges
//! work on their streams through it, and the worker sends their frames when it next drives the session.

use crate::base::buffer::Flushed;
use crate::base::close::CloseReason;
use crate::base::counters::bump;
use crate::base::memory::CONNECTION_BYTES;
use crate::downstream::client::{ClientCopy, ClientFacts};
use crate::downstream::h1::connection::Connection;
use crate::downstream::h2::head::write_fields;
use crate::downstream::h2::lingering::Lingering;
use crate::downstream::h2::state::{SessionState, Times};
use crate::downstream::reply_head::HeadView;
use crate::multiplex::carried::{Carried, OUT_BYTES_MAX, Unread};
use crate::multiplex::stream::StreamEnding;
use crate::thread::WorkerThread;
use http1::Trailers;
use http2::{Closed, Connection as Engine, ErrorCode, Reason, Role, StreamId};
use reactor::{Millis, Peeked, TaskId};
use std::cell::{Cell, RefCell};
use std::io;
use std::rc::Rc;
use std::time::Duration;
use transport::Transport;

/// An HTTP/2 connection.
pub(crate) struct Session {
    pub(super) thread: Rc<WorkerThread>,
    /// It is counted among the connections with streams.
    is_busy: Cell<bool>,
    /// The connection's own task; each stream has another one.
    pub(crate) task: TaskId,
    /// The worker is driving it, and sends everything before it stops.
    is_driven: Cell<bool>,
    pub(super) state: RefCell<SessionState>,
}

impl std::fmt::Debug for Session {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("Session").field("task", &self.task).finish_non_exhaustive()
    }
}

impl Session {
    /// A connection that turned out to speak HTTP/2. Only the pending bytes have been read.
    pub(crate) fn new(
        thread: &Rc<WorkerThread>,
        mut connection: Box<Connection>,
        config: http2::Config,
        keepalive_timeout: Duration,
    ) -> Rc<Self> {
        let now = thread.reactor.now();
        let mut out = thread.take_scratch();
        connection.client.is_http2 = true;
        let times = Times {
            idle_since: now,
            reading_since: Some(now),
            stalled_since: None,
            going_since: None,
            settings_deadline: None,
            lingering_until: None,
            keepalive_ms: millis_of(keepalive_timeout),
            has_streams: false,
            has_begun: false,
        };
        let engine = Engine::new(Role::Server, config, now.0, &mut out);
        let state = SessionState {
            carried: Carried::new(engine, out),
            lingering: Lingering::default(),
            copy: None,
            times,
            going: None,
            connection: None,
        };
        let task = connection.task;
        let session = Self {
            thread: Rc::clone(thread),
            task,
            is_busy: Cell::new(false),
            is_driven: Cell::new(false),
            state: RefCell::new(state),
        };
        session.state.borrow_mut().connection = Some(connection);
        Rc::new(session)
    }

    pub(crate) fn thread(&self) -> &WorkerThread {
        &self.thread
    }

    /// Updates the count of connections with streams.
    pub(crate) fn count_busy(&self) {
        let is_busy =
            self.state.try_borrow().is_ok_and(|state| state.connection.is_some() && !state.carried.streams.is_empty());
        let was_busy = self.is_busy.replace(is_busy);
        if is_busy != was_busy {
            bump(&self.thread.counters().http2_busy, if is_busy { 1 } else { -1 });
        }
    }

    /// The worker begins or ends driving it.
    pub(crate) fn set_driven(&self, is_driven: bool) {
        self.is_driven.set(is_driven);
    }

    /// Wakes the worker's task for it.
    fn touch(&self) {
        if !self.is_driven.get() {
            self.thread.reactor.wake(self.task);
        }
    }

    /// Passes the connection to the closure, if it is not closed.
    pub(crate) fn connection<R>(&self, look: impl FnOnce(&Connection) -> R) -> Option<R> {
        self.state.borrow().connection.as_deref().map(look)
    }

    /// The same, mutable.
    pub(crate) fn connection_mut<R>(&self, change: impl FnOnce(&mut Connection) -> R) -> Option<R> {
        self.state.borrow_mut().connection.as_deref_mut().map(change)
    }

    /// Passes the socket to the closure.
    pub(in crate::downstream) fn transport<R>(&self, look: impl FnOnce(&Transport) -> R) -> Option<R> {
        self.connection(|connection| look(&connection.stream))
    }

    /// What is kept of a connection that is closed.
    pub(in crate::downstream) fn copy(&self) -> Option<Rc<ClientCopy>> {
        self.state.borrow().copy.clone()
    }

    /// Task and client facts of a new stream.
    pub(super) fn facts_of(&self, key: usize) -> Option<(TaskId, ClientFacts)> {
        let state = self.state.borrow();
        let facts = state.connection.as_ref()?.client.clone();
        Some((state.carried.streams.get(key)?.task, facts))
    }

    /// Bytes of memory that it holds, without those of exchanges.
    pub(crate) fn held_bytes(&self) -> usize {
        let state = self.state.borrow();
        let socket = state.connection.as_ref().map_or(0, |connection| connection.stream.held_bytes());
        CONNECTION_BYTES + size_of::<Self>() + state.carried.held_bytes() + state.lingering.held_bytes() + socket
    }

    pub(crate) fn times(&self) -> Times {
        let state = self.state.borrow();
        Times {
            settings_deadline: state.carried.engine.deadline_ms().map(Millis),
            lingering_until: state.lingering.until(),
            has_streams: !state.carried.streams.is_empty(),
            ..state.times
        }
    }

    /// Frames the streams' waiting bytes, as far as windows, room and priorities permit. Returns whether lack of room
    /// stopped it.
    pub(crate) fn pump(&self) -> bool {
        let mut state = self.state.borrow_mut();
        state.connection.is_some() && state.carried.pump(&self.thread)
    }

    /// Writes the waiting bytes, as far as the socket accepts them.
    pub(crate) fn flush(&self) -> io::Result<Flushed> {
        self.state.borrow_mut().flush(&self.thread)
    }

    /// Whether more may be read: there is room for the answers.
    pub(crate) fn has_room(&self) -> bool {
        self.state.borrow().carried.out.len() < OUT_BYTES_MAX
    }

    /// Whether bytes wait for the socket.
    pub(crate) fn has_unsent(&self) -> bool {
        !self.state.borrow().carried.out.is_empty()
    }

    /// Ends the connection gracefully: the client is told to open no more streams, and existing streams are finished.
    pub(crate) fn shut_down(&self, reason: CloseReason) {
        let mut state = self.state.borrow_mut();
        if state.going.is_some() {
            return;
        }
        state.going = Some(reason);
        state.times.going_since = Some(self.thread.reactor.now());
        state.go_away(&self.thread);
        drop(state);
        self.touch();
    }

    /// The client has had time to see the first GOAWAY: streams that it opens from now on are ignored.
    pub(crate) fn shut_down_at_last(&self) {
        let mut state = self.state.borrow_mut();
        state.times.going_since = None;
        state.go_away(&self.thread);
    }

    /// Why the connection can be closed: both sides are done; `None` if they are not.
    pub(crate) fn finished(&self) -> Option<CloseReason> {
        let state = self.state.borrow();
        (state.carried.engine.is_finished() && state.carried.streams.is_empty())
            .then(|| state.going.unwrap_or(CloseReason::ClientClosed))
    }

    /// Sends GOAWAY, as far as the socket accepts it.
    pub(crate) fn send_goaway(&self, code: ErrorCode) {
        let mut state = self.state.borrow_mut();
        state.prepare_out(&self.thread);
        let Carried { engine, out, .. } = &mut state.carried;
        engine.close(code, out);
        drop(state);
        let _ = self.flush();
    }

    /// Handles the engine's own deadline.
    pub(crate) fn tick(&self) -> Option<Reason> {
        let mut state = self.state.borrow_mut();
        state.prepare_out(&self.thread);
        let Carried { engine, out, .. } = &mut state.carried;
        engine.tick(self.thread.reactor.now().0, out).err().map(|Closed(reason)| reason)
    }

    /// Takes the connection out; the remaining streams see that their client has left.
    pub(crate) fn detach(&self) -> Option<Box<Connection>> {
        let mut state = self.state.borrow_mut();
        let connection = state.connection.take()?;
        if !state.carried.streams.is_empty() {
            state.copy = Some(ClientCopy::of(&connection));
        }
        state.carried.out = Vec::new();
        let mut tasks = Vec::new();
        for (_, stream) in &mut state.carried.streams {
            stream.is_gone = true;
            tasks.push(stream.task);
        }
        state.carried.engine.close(ErrorCode::NO_ERROR, &mut Vec::new());
        drop(state);
        for task in tasks {
            self.thread.reactor.wake(task);
        }
        Some(connection)
    }

    /// Whether the client has sent something that was not read.
    pub(crate) fn has_arrived(&self) -> bool {
        self.transport(|stream| stream.peek() == Peeked::Data).unwrap_or_default()
    }

    /// Refuses a stream that was not processed.
    pub(crate) fn refuse(&self, key: usize) {
        let mut state = self.state.borrow_mut();
        state.prepare_out(&self.thread);
        let Some(stream) = state.carried.streams.try_remove(key) else { return };
        self.thread.reactor.end_task(stream.task);
        let Carried { engine, out, .. } = &mut state.carried;
        engine.reset(stream.id, ErrorCode::REFUSED_STREAM, out);
    }

    /// Resets streams whose clients have had time enough to send the rest of their requests.
    pub(crate) fn end_lingering(&self) {
        let mut state = self.state.borrow_mut();
        if state.lingering.until().is_none() {
            return;
        }
        state.prepare_out(&self.thread);
        let now = self.thread.reactor.now();
        let SessionState { carried: Carried { engine, out, .. }, lingering, .. } = &mut *state;
        while let Some(id) = lingering.next_over(now, engine) {
            engine.reset(id, ErrorCode::NO_ERROR, out);
        }
    }

    /// Sets the keepalive timeout, from the location of a response.
    pub(in crate::downstream) fn set_keepalive(&self, timeout: Duration) {
        self.state.borrow_mut().times.keepalive_ms = millis_of(timeout);
    }

    /// Frees memory that an idle connection does not need.
    pub(crate) fn trim(&self) {
        let mut state = self.state.borrow_mut();
        if state.carried.streams.is_empty() {
            state.carried.trim();
        }
    }

    /// Sends a head.
    pub(super) fn respond(
        &self,
        key: usize,
        view: HeadView<'_>,
        status: u16,
        end: bool,
        length: Option<u64>,
    ) -> io::Result<()> {
        let mut state = self.state.borrow_mut();
        state.prepare_out(&self.thread);
        let (engine, out, stream) = state.carried.live(key)?;
        let before = out.len();
        let mut priority = None;
        let sent = engine.respond(stream.id, status, end, out, |fields| priority = write_fields(view, length, fields));
        sent.map_err(|_| io::ErrorKind::BrokenPipe)?;
        stream.bytes_sent += (out.len() - before) as u64;
        if end {
            stream.end = StreamEnding::Sent;
        } else if let Some(priority) = priority {
            engine.set_priority(stream.id, priority);
        }
        drop(state);
        self.touch();
        Ok(())
    }

    /// Sends a part of a body after the waiting bytes; `end`: it is the last part.
    pub(super) fn send(&self, key: usize, body: &[u8], end: bool) -> io::Result<()> {
        let mut state = self.state.borrow_mut();
        state.prepare_out(&self.thread);
        let mut rest = body;
        // What the socket takes at once need not be copied aside.
        while let Some(sent) = state.carried.frame_now(key, rest, end)? {
            rest = &rest[sent..];
            if rest.is_empty() || !state.await_turn(key, &self.thread)? {
                break;
            }
        }
        state.carried.keep_rest(key, rest, end)?;
        drop(state);
        self.touch();
        Ok(())
    }

    /// Ends a body with trailers, after its waiting bytes.
    pub(super) fn end_with_trailers(&self, key: usize, trailers: Trailers) -> io::Result<()> {
        let mut state = self.state.borrow_mut();
        state.prepare_out(&self.thread);
        state.carried.end_with_trailers(key, trailers)?;
        drop(state);
        self.touch();
        Ok(())
    }

    /// Releases at most `most` bytes that were held back.
    pub(super) fn release(&self, key: usize, most: usize) {
        let mut state = self.state.borrow_mut();
        let Some(stream) = state.carried.streams.get_mut(key) else { return };
        if !stream.is_held_back || stream.waiting_bytes() == 0 {
            return;
        }
        stream.released = stream.waiting_bytes().min(most);
        state.prepare_out(&self.thread);
        state.carried.push(key);
        drop(state);
        self.touch();
    }

    /// Enlarges the window of a stream.
    pub(super) fn grow_window(&self, id: StreamId, bytes: u32) {
        let mut state = self.state.borrow_mut();
        state.prepare_out(&self.thread);
        let Carried { engine, out, .. } = &mut state.carried;
        engine.grow_window(id, bytes, out);
        drop(state);
        self.touch();
    }

    /// Takes the received bytes of a request's body; [`Self::consume`] returns the unused ones.
    pub(super) fn take_received(&self, key: usize) -> Option<Vec<u8>> {
        self.state.borrow_mut().carried.streams.get_mut(key).map(|stream| std::mem::take(&mut stream.received))
    }

    /// Reports that `count` of these bytes were used. Returns the trailers if that was the end of the body.
    pub(super) fn consume(&self, key: usize, received: Vec<u8>, count: usize) -> Option<Trailers> {
        let mut state = self.state.borrow_mut();
        state.prepare_out(&self.thread);
        let before = state.carried.out.len();
        state.carried.consume(key, received, count);
        let has_answer = state.carried.out.len() > before;
        let stream = state.carried.streams.get_mut(key)?;
        let is_end = stream.received.is_empty() && stream.is_received;
        let trailers = is_end.then(|| std::mem::take(&mut stream.trailers));
        drop(state);
        if has_answer {
            self.touch();
        }
        trailers
    }

    /// Removes the stream of a finished exchange; if it is not complete, it is reset. A response need not wait for the whole
    /// request (RFC 9113 §8.1): for the time `linger` the rest of it is dropped; without one the stream is reset at once.
    pub(super) fn remove(&self, key: usize, code: ErrorCode, linger: Option<Duration>) {
        let mut state = self.state.borrow_mut();
        state.prepare_out(&self.thread);
        let unread = if linger.is_some() { Unread::Discard } else { Unread::Reset(ErrorCode::NO_ERROR) };
        let SessionState { carried, lingering, .. } = &mut *state;
        if let (Some(id), Some(time)) = (carried.remove(key, code, unread), linger) {
            lingering.push(id, self.thread.reactor.now().after(time), &carried.engine);
        }
        if state.carried.streams.is_empty() {
            state.times.idle_since = self.thread.reactor.now();
        }
        drop(state);
        self.touch();
    }
}

fn millis_of(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}
