//! The state of a session inside its cell: the socket, and the streams that it carries.

use crate::base::buffer::Flushed;
use crate::base::close::CloseReason;
use crate::downstream::client::ClientCopy;
use crate::downstream::h1::connection::Connection;
use crate::downstream::h2::lingering::Lingering;
use crate::multiplex::carried::Carried;
use crate::thread::WorkerThread;
use reactor::Millis;
use std::io;
use std::rc::Rc;

/// Writes for a part of a body before other tasks run: together with frames of other streams, as much as a relay reads.
const TURN_WRITES_MAX: usize = 4;

/// The state of a session.
pub(super) struct SessionState {
    /// `None` once it is closed.
    pub(super) connection: Option<Box<Connection>>,
    /// What exchanges that go on may still ask about the closed connection.
    pub(super) copy: Option<Rc<ClientCopy>>,
    pub(super) carried: Carried,
    pub(super) lingering: Lingering,
    pub(super) times: Times,
    /// Why it is shutting down.
    pub(super) going: Option<CloseReason>,
}

/// When states of the connection began, and its timeouts.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Times {
    /// When the last stream ended, or the connection began.
    pub(crate) idle_since: Millis,
    /// When a frame or the preface began that is still incomplete.
    pub(crate) reading_since: Option<Millis>,
    /// Since when the socket accepts no waiting bytes.
    pub(crate) stalled_since: Option<Millis>,
    /// When the first GOAWAY was sent.
    pub(crate) going_since: Option<Millis>,
    /// When our settings must be acknowledged.
    pub(crate) settings_deadline: Option<Millis>,
    /// When to look at the first of the streams that drop the rest of their request.
    pub(crate) lingering_until: Option<Millis>,
    /// The keepalive timeout of the last response's location.
    pub(crate) keepalive_ms: u64,
    pub(crate) has_streams: bool,
    /// At least one stream was opened.
    pub(crate) has_begun: bool,
}

impl SessionState {
    pub(super) fn go_away(&mut self, thread: &WorkerThread) {
        self.prepare_out(thread);
        let Carried { engine, out, .. } = &mut self.carried;
        engine.shut_down(out);
    }

    /// Writes the waiting bytes, as far as the socket accepts them.
    pub(super) fn flush(&mut self, thread: &WorkerThread) -> io::Result<Flushed> {
        let Self { connection, carried, times, .. } = self;
        let Some(connection) = connection else { return Err(io::ErrorKind::NotConnected.into()) };
        let sent = carried.flush(&connection.stream, thread)?;
        if carried.out.is_empty() {
            times.stalled_since = None;
            return Ok(Flushed::All);
        }
        if sent > 0 || times.stalled_since.is_none() {
            times.stalled_since = Some(thread.reactor.now());
        }
        Ok(Flushed::Waiting)
    }

    /// Lets the waiting streams send, each in its turn, until it is this stream's turn; writes where room is missing.
    /// `false`: a window is missing, the socket accepts no more now, or other tasks should run first.
    pub(super) fn await_turn(&mut self, key: usize, thread: &WorkerThread) -> io::Result<bool> {
        let id = self.carried.live(key)?.2.id;
        for _ in 0..TURN_WRITES_MAX {
            if self.carried.pump_until(id, thread) {
                return Ok(true);
            }
            if !self.carried.engine.has_turn() || self.flush(thread)? == Flushed::Waiting {
                return Ok(false);
            }
            self.prepare_out(thread);
        }
        Ok(false)
    }

    /// Makes sure that there is a buffer to write into, unless the connection is closed.
    pub(super) fn prepare_out(&mut self, thread: &WorkerThread) {
        if self.connection.is_some() {
            self.carried.prepare_out(thread);
        }
    }
}
