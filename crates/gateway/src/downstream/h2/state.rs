//! What a session knows, behind its cell: the socket, and the streams that it carries.

use crate::base::close::CloseReason;
use crate::downstream::client::ClientCopy;
use crate::downstream::h1::connection::Connection;
use crate::downstream::h2::lingering::Lingering;
use crate::multiplex::carried::Carried;
use crate::thread::WorkerThread;
use reactor::Millis;
use std::rc::Rc;

/// What a session knows.
pub(super) struct SessionState {
    /// `None` once it is closed.
    pub(super) connection: Option<Box<Connection>>,
    /// What exchanges that go on may still ask about it then.
    pub(super) copy: Option<Rc<ClientCopy>>,
    pub(super) carried: Carried,
    pub(super) lingering: Lingering,
    pub(super) times: Times,
    /// Why it goes away.
    pub(super) going: Option<CloseReason>,
}

/// Since when what is the case.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Times {
    /// The last stream has ended, or the connection has begun.
    pub(crate) idle_since: Millis,
    /// A part of a frame or of the preface is there, and the rest is not.
    pub(crate) reading_since: Option<Millis>,
    /// The socket takes nothing of what waits for it.
    pub(crate) stalled_since: Option<Millis>,
    /// The first GOAWAY was sent.
    pub(crate) going_since: Option<Millis>,
    /// When our settings must be acknowledged.
    pub(crate) settings_deadline: Option<Millis>,
    /// When the first of the streams whose rest is dropped is to be looked at.
    pub(crate) lingering_until: Option<Millis>,
    /// What the location of the last response says of idle connections.
    pub(crate) keepalive_ms: u64,
    pub(crate) has_streams: bool,
    /// A stream was opened at all.
    pub(crate) has_begun: bool,
}

impl SessionState {
    pub(super) fn go_away(&mut self, thread: &WorkerThread) {
        self.prepare_out(thread);
        let Carried { engine, out, .. } = &mut self.carried;
        engine.shut_down(out);
    }

    /// Makes sure that there is a buffer to write into, as long as there is a socket to write to.
    pub(super) fn prepare_out(&mut self, thread: &WorkerThread) {
        if self.connection.is_some() {
            self.carried.prepare_out(thread);
        }
    }
}
