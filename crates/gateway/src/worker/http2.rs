//! HTTP/2 connections: the worker reads and writes for all streams of a connection, and starts an exchange for each
//! request. `downstream::h2` has their shared state.

use crate::base::buffer::Flushed;
use crate::base::close::CloseReason;
use crate::base::counters::bump;
use crate::base::logs::error::Level;
use crate::downstream::Asker;
use crate::downstream::h1::connection::Connection;
use crate::downstream::h1::linger::LingerPlan;
use crate::downstream::h2::H2;
use crate::downstream::h2::reading::{Arrived, ReadResults, SessionRead};
use crate::downstream::h2::session::Session;
use crate::downstream::h2::state::Times;
use crate::exchange::{Begin, Beginning, Refusal};
use crate::plan::client::ClientPlan;
use crate::registry::generation::{BoundListener, Generation};
use crate::registry::tls_choice::server_named;
use crate::thread::Relief as _;
use crate::worker::displacing::Class;
use crate::worker::{Body, Worker, catch_bug};
use ::http2::{Config, ErrorCode, Reason, StreamId};
use http1::Limits;
use reactor::Millis;
use rules::captures::Captures;
use std::io;
use std::rc::Rc;
use std::time::Duration;

/// Reads before other tasks get their turn: 128 KB.
const READS_MAX: usize = 4;

/// Writes before other tasks get their turn: 512 KB.
const WRITES_MAX: usize = 8;

/// Time for a client to react to the first GOAWAY: more than any usual round trip. Streams that it opens later are
/// ignored.
const GOING_MS: u64 = 1000;

/// After the last GOAWAY the client should close; it is read from for this long, so that no sent byte is lost.
const GOODBYE: LingerPlan = LingerPlan { total: Duration::from_secs(5), silence: Duration::from_secs(1) };

/// The worker's hold on an HTTP/2 connection. Dropping it closes the connection, and its streams lose their client.
pub(crate) struct Multiplexed(Rc<Session>);

impl Drop for Multiplexed {
    fn drop(&mut self) {
        bump(&self.0.thread().counters().http2_connections, -1);
        self.0.detach();
        self.0.count_busy();
    }
}

impl Multiplexed {
    pub(crate) fn held_bytes(&self) -> usize {
        self.0.held_bytes()
    }

    pub(crate) fn look<R>(&self, look: impl FnOnce(&Connection) -> R) -> Option<R> {
        self.0.connection(look)
    }

    /// Its class as a candidate for closing; `None` while it has streams.
    pub(crate) fn displacement(&self) -> Option<(Class, Millis, u64)> {
        let times = self.0.times();
        let serial = self.look(|connection| connection.client.serial)?;
        if times.has_streams {
            return None;
        }
        Some(match times.reading_since {
            Some(since) => (Class::WithoutRequest, since, serial),
            None if !times.has_begun => (Class::WithoutRequest, times.idle_since, serial),
            None => (Class::Idle, times.idle_since, serial),
        })
    }

    /// Whether a part of a frame has arrived.
    pub(crate) fn is_partial(&self) -> bool {
        self.0.times().reading_since.is_some()
    }

    /// Takes the connection out, to be closed at once; the client gets a GOAWAY, as far as its socket accepts that.
    pub(crate) fn into_connection(self) -> Option<Box<Connection>> {
        self.0.send_goaway(ErrorCode::NO_ERROR);
        self.0.detach()
    }

    /// Whether bytes have arrived that were not read yet.
    pub(crate) fn has_arrived(&self) -> bool {
        self.0.has_arrived()
    }
}

/// Why a connection ends, for its log line and its counters.
#[derive(Clone, Copy)]
enum Http2End {
    /// A graceful end.
    Gentle(CloseReason),
    /// The client has left.
    Gone(CloseReason),
    /// A timeout has passed; the client is told.
    TimedOut(CloseReason),
    Fault(Reason),
}

impl Worker {
    /// Starts an HTTP/2 session on a connection.
    pub(crate) fn begin_http2(self: &Rc<Self>, connection: Box<Connection>, listener: &BoundListener) {
        let task = connection.task;
        self.thread.reactor.set_deadline(task, None);
        let generation = self.generation();
        let named = |session: &tls::Session| server_named(listener, session.server_name()?, &mut Captures::default());
        let server = connection.stream.session(named).flatten().unwrap_or_else(|| listener.names.default_server());
        let plan = &generation.server(server).http2;
        let config = Config {
            streams_max: plan.streams_max,
            stream_window: plan.preread_bytes,
            head_bytes_max: u32::try_from(listener.limits.head_bytes_max).unwrap_or(u32::MAX),
            fields_max: u32::try_from(listener.limits.fields_max).unwrap_or(u32::MAX),
            extended_connect: true,
            ..Config::default()
        };
        bump(&self.thread.counters().http2_connections, 1);
        let keepalive_timeout = generation.location(generation.server(server).own).client.keepalive_timeout;
        let session = Session::new(&self.thread, connection, config, keepalive_timeout);
        if self.thread.is_draining() {
            session.shut_down(CloseReason::Shutdown);
        }
        self.step_http2(Multiplexed(session));
    }

    /// Handles an event of a connection: it can be read or written, a stream has something to send, or a timeout has
    /// passed.
    pub(super) fn step_http2(self: &Rc<Self>, multiplexed: Multiplexed) {
        let session = Rc::clone(&multiplexed.0);
        self.thread.reactor.take_deadline_fired(session.task);
        session.set_driven(true);
        let end = self.drive_http2(&session);
        session.set_driven(false);
        session.count_busy();
        match end {
            Some(end) => self.end_http2(multiplexed, end),
            None => self.put(session.task, Body::Http2(multiplexed)),
        }
    }

    /// Reads, starts exchanges and writes until there is nothing to do; returns why the connection ends, if it does.
    fn drive_http2(self: &Rc<Self>, session: &Rc<Session>) -> Option<Http2End> {
        let generation = self.generation();
        let listener = session.connection_mut(|connection| {
            let local = || connection.stream.local_address().ok().flatten().map(|address| address.ip());
            connection.client.listener = generation.listener_behind(connection.socket, local);
            connection.client.listener
        });
        let listener = listener.and_then(|id| generation.listener(id));
        if listener.is_none() {
            session.shut_down(CloseReason::Unlistened);
        }
        let limits = listener.map_or_else(Limits::default, |listener| listener.limits);
        let mut found = ReadResults::default();
        for _ in 0..READS_MAX {
            if self.write_http2(session).is_err() {
                return Some(Http2End::Gone(CloseReason::ClientAborted));
            }
            if !session.has_room() {
                return self.wait_http2(session, listener, &generation);
            }
            let mut head = self.http2_head.take().unwrap_or_default();
            let mut request = || self.spares.request(&self.thread.memory);
            let read = session.read(&mut head, &limits, &mut request, &mut found);
            self.http2_head.set(Some(head));
            for (stream, fault) in found.faults.drain(..) {
                self.log_stream_fault(session, stream, fault);
            }
            for arrived in found.arrived.drain(..) {
                if listener.is_some() && !self.refuses_streams() {
                    self.begin_stream(session, arrived);
                } else {
                    session.refuse(arrived.key);
                }
            }
            match read {
                SessionRead::Some => {}
                SessionRead::NotReady => {
                    if self.write_http2(session).is_err() {
                        return Some(Http2End::Gone(CloseReason::ClientAborted));
                    }
                    return self.wait_http2(session, listener, &generation);
                }
                SessionRead::Closed => return Some(Http2End::Gone(CloseReason::ClientClosed)),
                SessionRead::Failed => return Some(Http2End::Gone(CloseReason::ClientAborted)),
                SessionRead::Over(reason) => return Some(Http2End::Fault(reason)),
            }
        }
        // More bytes may be there, and no event will report them.
        self.thread.reactor.wake(session.task);
        None
    }

    /// Frames and writes until nothing is left or the socket accepts no more.
    fn write_http2(&self, session: &Session) -> io::Result<()> {
        for _ in 0..WRITES_MAX {
            let has_more = session.pump();
            if session.flush()? == Flushed::Waiting || !has_more {
                return Ok(());
            }
        }
        // No event will report that there is room.
        self.thread.reactor.wake(session.task);
        Ok(())
    }

    /// Sets the deadline for the next wait; returns the end if it has passed already.
    fn wait_http2(
        &self,
        session: &Session,
        listener: Option<&BoundListener>,
        generation: &Generation,
    ) -> Option<Http2End> {
        let now = self.thread.reactor.now();
        session.end_lingering();
        if session.has_unsent() && session.flush().is_err() {
            return Some(Http2End::Gone(CloseReason::ClientAborted));
        }
        let mut times = session.times();
        if times.going_since.is_some_and(|since| now.since(since) >= GOING_MS) {
            session.shut_down_at_last();
            if session.flush().is_err() {
                return Some(Http2End::Gone(CloseReason::ClientAborted));
            }
            times = session.times();
        }
        if let Some(reason) = session.finished().filter(|_| !session.has_unsent()) {
            return Some(Http2End::Gentle(reason));
        }
        if times.settings_deadline.is_some_and(|deadline| deadline <= now)
            && let Some(reason) = session.tick()
        {
            return Some(Http2End::Fault(reason));
        }
        if !times.has_streams {
            session.trim();
        }
        let plan = client_plan_of(listener, generation);
        let header_timeout = listener.map_or(Duration::from_mins(1), |listener| listener.header_timeout);
        let (deadline, end) = due(&times, plan, header_timeout);
        if deadline <= now {
            return Some(end);
        }
        let going_until = times.going_since.map(|since| Millis(since.0 + GOING_MS));
        let others = [going_until, times.settings_deadline, times.lingering_until];
        let deadline = others.into_iter().flatten().fold(deadline, Millis::min);
        self.thread.reactor.set_deadline(session.task, (deadline.0 < u64::MAX).then_some(deadline));
        None
    }

    /// Starts the exchange of a request.
    fn begin_stream(self: &Rc<Self>, session: &Rc<Session>, arrived: Arrived) {
        let Some(stream) = H2::new(session, &arrived) else { return };
        bump(&self.thread.counters().requests, 1);
        let refusal = match arrived.fault {
            Some(error) => Some(Refusal::Malformed(error)),
            None => self.refuses_requests().then_some(Refusal::OutOfMemory),
        };
        let begin = Begin {
            thread: Rc::clone(&self.thread),
            spares: Rc::clone(&self.spares),
            generation: self.generation(),
            asker: Asker::Stream(stream),
            request: arrived.request,
            beginning: refusal.map_or(Beginning::Head, Beginning::Refused),
        };
        if let Err(panic) = catch_bug(|| self.run_exchange(begin)) {
            // Unwinding has reset its stream; the others continue.
            self.report_bug(&panic, "");
            self.count_again();
        }
    }

    fn end_http2(self: &Rc<Self>, multiplexed: Multiplexed, end: Http2End) {
        let session = Rc::clone(&multiplexed.0);
        let (reason, linger) = match end {
            Http2End::Gone(reason) => (reason, None),
            Http2End::Gentle(reason) => (reason, Some(GOODBYE)),
            Http2End::TimedOut(reason) => {
                session.send_goaway(ErrorCode::NO_ERROR);
                (reason, Some(GOODBYE))
            }
            Http2End::Fault(fault) => {
                // A GOAWAY is queued already.
                let _ = session.flush();
                self.thread.counters().http2_faults.count(fault);
                self.log_http2(&session, fault);
                let reason = if fault.is_abuse() { CloseReason::Http2Abuse } else { CloseReason::Http2Fault };
                (reason, Some(GOODBYE))
            }
        };
        let connection = session.detach();
        drop(multiplexed);
        if let Some(connection) = connection {
            let linger = linger.filter(|_| !connection.stream.is_failed());
            self.close_after_lines(connection, reason, linger);
        }
    }

    fn log_http2(&self, session: &Session, fault: Reason) {
        let level = if fault.is_abuse() { Level::Warn } else { Level::Info };
        let message = format!("client broke off HTTP/2: {fault}");
        session.connection(|connection| self.log_of_connection(connection, level, &message));
    }

    /// The engine's budgets bound the number of these lines.
    fn log_stream_fault(&self, session: &Session, stream: StreamId, fault: Reason) {
        let message = format!("HTTP/2 stream {} was reset, because of its client: {fault}", stream.0);
        session.connection(|connection| self.log_of_connection(connection, Level::Info, &message));
    }

    /// Tells all HTTP/2 clients to open no more streams.
    pub(super) fn drain_http2(&self) {
        for body in self.bodies.borrow().iter() {
            if let Body::Http2(multiplexed) = body {
                multiplexed.0.shut_down(CloseReason::Shutdown);
            }
        }
    }
}

/// The client settings of an address's default server.
fn client_plan_of<'g>(listener: Option<&BoundListener>, generation: &'g Generation) -> Option<&'g ClientPlan> {
    let server = generation.server(listener?.names.default_server());
    Some(&generation.location(server.own).client)
}

/// When the present state of a connection times out, and how the connection then ends.
fn due(times: &Times, plan: Option<&ClientPlan>, header_timeout: Duration) -> (Millis, Http2End) {
    let send_timeout = plan.map_or(Duration::from_mins(1), |plan| plan.send_timeout);
    let mut first = (Millis(u64::MAX), Http2End::Gone(CloseReason::SendTimeout));
    let mut add = |at: Millis, end: Http2End| {
        if at < first.0 {
            first = (at, end);
        }
    };
    if let Some(since) = times.stalled_since {
        add(since.after(send_timeout), Http2End::Gone(CloseReason::SendTimeout));
    }
    if let Some(since) = times.reading_since {
        add(since.after(header_timeout), Http2End::TimedOut(CloseReason::HeadTimeout));
    }
    if !times.has_streams {
        if times.has_begun {
            let at = Millis(times.idle_since.0.saturating_add(times.keepalive_ms));
            add(at, Http2End::TimedOut(CloseReason::KeepaliveTimeout));
        } else {
            add(times.idle_since.after(header_timeout), Http2End::TimedOut(CloseReason::HeadTimeout));
        }
    }
    first
}
