//! A connection opened for waiting requests: what follows when it is open, or failed to open.

use crate::connector::h2::carrier::{Carrier, CarrierTimeouts};
use crate::connector::h2::hub::{Hub, OpenFailure, StreamKey};
use crate::connector::h2::session::UpstreamSession;
use crate::connector::leased::Leased;
use crate::connector::pending::OpenError;
use crate::registry::pool::IdleSocket;
use crate::thread::WorkerThread;
use std::io;
use std::rc::Rc;
use std::time::Duration;
use upstream::retry::Failure;
use upstream::shared::Checkout;
use upstream::streams::ConnectionId;

/// The waiting requests for which a shared connection is opened.
pub(crate) struct ForStreams {
    pub(super) hub: Rc<Hub>,
    pub(super) key: StreamKey,
    pub(super) id: ConnectionId,
    pub(super) timeouts: CarrierTimeouts,
}

impl ForStreams {
    /// The connection is open. One request starts at once; the others wait until the peer has said how many streams it
    /// allows.
    pub(crate) fn ready(self, mut up: Box<Leased>, thread: &Rc<WorkerThread>) {
        let Self { hub, key, id, timeouts } = self;
        let has_news = up.stream().is_readable();
        let (slept, earlier) = (up.take_engine(), up.earlier());
        let session = UpstreamSession::new(thread, (id, key), up.stream(), slept, earlier);
        hub.insert(&session);
        Carrier::spawn(Some(Rc::clone(&hub)), Rc::clone(&session), up, timeouts, thread);
        // What an idle connection received is read first: a GOAWAY may be among it.
        if !session.was_pooled() || !has_news {
            hub.opened(thread, &session);
        }
    }

    /// Reports that the connection could not be opened.
    pub(crate) fn fail(&self, error: &OpenError, thread: &WorkerThread) {
        let (failure, message) = match error {
            OpenError::Connect(error) if error.kind() == io::ErrorKind::TimedOut => {
                let words = "upstream timed out (110: Connection timed out) while connecting to upstream";
                (Failure::ConnectTimeout, words.to_owned())
            }
            OpenError::Connect(_) => (Failure::ConnectFailed, format!("{error} while connecting to upstream")),
            OpenError::Handshake { .. } => {
                (Failure::ConnectFailed, format!("{error} while SSL handshaking to upstream"))
            }
        };
        self.hub.open_failed(thread, self.key, self.id, OpenFailure { failure, message });
    }
}

/// An idle connection has received frames: they are read and answered, and it goes back into the pool unless they end
/// it.
pub(crate) fn read_idle(thread: &Rc<WorkerThread>, checkout: Checkout<'static, IdleSocket>) {
    // If no task can watch the socket, it is closed with its connection.
    if let Ok(up) = Leased::reuse(checkout, thread, thread.chores.task) {
        begin_idle(thread, up);
    }
}

/// Drives a connection without requests until it can go into the pool: a new one for a floor, or an idle one that
/// received frames.
pub(crate) fn begin_idle(thread: &Rc<WorkerThread>, mut up: Box<Leased>) {
    let Some(key) = up.key() else { return };
    let (slept, earlier) = (up.take_engine(), up.earlier());
    let place = (ConnectionId::NONE, StreamKey { key, own: 0 });
    let session = UpstreamSession::new(thread, place, up.stream(), slept, earlier);
    let timeouts = CarrierTimeouts { ping: None, send_timeout: IDLE_SEND_TIMEOUT };
    Carrier::spawn(None, session, up, timeouts, thread);
}

/// How long the socket of an idle connection may accept no answer.
const IDLE_SEND_TIMEOUT: Duration = Duration::from_secs(5);
