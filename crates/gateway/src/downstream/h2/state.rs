//! The state of a session inside its cell: the socket, and the streams that it carries.

use crate::base::close::CloseReason;
use crate::downstream::client::ClientCopy;
use crate::downstream::h1::connection::Connection;
use crate::downstream::h2::lingering::Lingering;
use crate::multiplex::carried::Carried;
use crate::thread::WorkerThread;
use reactor::Millis;
use std::rc::Rc;

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

    /// Makes sure that there is a buffer to write into, unless the connection is closed.
    pub(super) fn prepare_out(&mut self, thread: &WorkerThread) {
        if self.connection.is_some() {
            self.carried.prepare_out(thread);
        }
    }
}
