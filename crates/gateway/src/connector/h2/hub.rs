//! The worker's shared connections: the book of their streams, the sessions, and what waiting requests were given. The
//! hub carries out the book's actions, except for opening a connection: a waiting request does that, because it has the
//! settings.

use crate::connector::h2::session::{Notices, UpstreamSession};
use crate::multiplex::failure::{ConnectionEnd, StreamFailure};
use crate::thread::WorkerThread;
use reactor::TaskId;
use rustc_hash::FxHashMap;
use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;
use upstream::Millis;
use upstream::retry::Failure;
use upstream::shared::KeyId;
use upstream::streams::{Action, ConnectionId, Counts, Grant, Limits, Retired, StreamBook, StreamLease};

/// Only requests with an equal key share a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct StreamKey {
    pub(crate) key: KeyId,
    /// 0, or a number that reserves the connection for one request.
    pub(crate) own: u64,
}

/// Why a connection could not be opened, for each request that waited for it.
#[derive(Debug)]
pub(crate) struct OpenFailure {
    pub(crate) failure: Failure,
    /// For the error log; empty if it was logged already.
    pub(crate) message: String,
}

/// What a waiting request was given.
pub(crate) enum Given {
    Stream(StreamLease),
    Failed(Rc<OpenFailure>),
}

/// The result of asking for a stream.
pub(crate) enum AskedStream {
    Stream(StreamLease),
    Waits,
    LineFull,
}

type HubBook = StreamBook<StreamKey, TaskId>;
type Actions = Vec<Action<StreamKey, TaskId>>;

/// The shared connections of a worker.
#[derive(Default)]
pub(crate) struct Hub(RefCell<HubState>);

#[derive(Default)]
struct HubState {
    book: HubBook,
    sessions: FxHashMap<ConnectionId, Rc<UpstreamSession>>,
    limits: FxHashMap<StreamKey, Limits>,
    /// Connections that a waiting request is to open.
    to_open: Vec<(StreamKey, ConnectionId)>,
    given: FxHashMap<TaskId, Given>,
    /// Sessions without streams on their way into the pool.
    parting: Vec<Rc<UpstreamSession>>,
    owns: u64,
}

impl Hub {
    /// A key for a connection that no other request may use.
    pub(crate) fn own_key(&self, key: KeyId) -> StreamKey {
        let mut state = self.0.borrow_mut();
        state.owns += 1;
        StreamKey { key, own: state.owns }
    }

    /// Asks for a stream for a request.
    pub(crate) fn ask(&self, thread: &WorkerThread, key: StreamKey, task: TaskId, limits: Limits) -> AskedStream {
        self.0.borrow_mut().limits.insert(key, limits);
        let grant = self.act(thread, key, |book, now, limits, actions| book.lease(key, task, now, limits, actions));
        match grant {
            Grant::Lease(lease) => AskedStream::Stream(lease),
            Grant::Waits => AskedStream::Waits,
            Grant::LineFull => AskedStream::LineFull,
        }
    }

    /// Takes what a waiting request was given.
    pub(crate) fn collect(&self, task: TaskId) -> Option<Given> {
        self.0.borrow_mut().given.remove(&task)
    }

    /// Whether a waiting request was given something.
    pub(crate) fn is_served(&self, task: TaskId) -> bool {
        self.0.borrow().given.contains_key(&task)
    }

    /// Removes a request from the line; a stream that it was given goes to the next request.
    pub(crate) fn leave(&self, thread: &WorkerThread, key: StreamKey, task: TaskId) {
        let given = {
            let mut state = self.0.borrow_mut();
            state.book.cancel(key, &task);
            state.given.remove(&task)
        };
        if let Some(Given::Stream(lease)) = given {
            self.release(thread, key, lease);
        }
        if self.waiting(key) == 0 {
            // No request needs the connections that the line was to open.
            while let Some(id) = self.take_opening(key) {
                self.give_up(thread, key, id);
            }
        }
        self.forget_limits(key);
    }

    /// A connection that the caller is to open for its line.
    pub(crate) fn take_opening(&self, key: StreamKey) -> Option<ConnectionId> {
        let mut state = self.0.borrow_mut();
        let at = state.to_open.iter().position(|(known, _)| *known == key)?;
        Some(state.to_open.swap_remove(at).1)
    }

    /// The request does not open its connection; another waiting request does, if there is one.
    pub(crate) fn give_up(&self, thread: &WorkerThread, key: StreamKey, id: ConnectionId) {
        self.act(thread, key, |book, now, limits, actions| book.closed(id, now, limits, actions));
    }

    /// Reports that a connection could not be opened.
    pub(crate) fn open_failed(&self, thread: &WorkerThread, key: StreamKey, id: ConnectionId, failure: OpenFailure) {
        let failure = Rc::new(failure);
        self.act_with(thread, key, Some(&failure), |book, _, limits, actions| book.open_failed(id, limits, actions));
    }

    /// How many requests wait for a connection to the peer.
    fn waiting(&self, key: StreamKey) -> usize {
        self.0.borrow().book.waiting(key).count()
    }

    /// Adds a session with a connection. The book learns of the connection by [`Self::opened`].
    pub(crate) fn insert(&self, session: &Rc<UpstreamSession>) {
        self.0.borrow_mut().sessions.insert(session.id(), Rc::clone(session));
    }

    pub(crate) fn session(&self, id: ConnectionId) -> Option<Rc<UpstreamSession>> {
        self.0.borrow().sessions.get(&id).cloned()
    }

    /// The connection accepts streams from now on.
    pub(super) fn opened(&self, thread: &WorkerThread, session: &UpstreamSession) {
        session.set_opened();
        let (id, earlier) = (session.id(), session.earlier());
        self.act(thread, session.key, |book, now, limits, actions| {
            book.opened_before(id, earlier, now, limits, actions);
        });
    }

    /// Handles what reading on a session has reported.
    pub(super) fn note(
        &self,
        thread: &WorkerThread,
        session: &UpstreamSession,
        notices: Notices,
    ) -> Option<ConnectionEnd> {
        let (id, key) = (session.id(), session.key);
        if let Some(allowed) = notices.streams_max {
            if allowed == 0 && !session.is_opened() {
                return Some(ConnectionEnd::NoStreams);
            }
            if !session.is_opened() && !session.was_pooled() {
                self.opened(thread, session);
            }
            self.act(thread, key, |book, now, limits, actions| book.settings(id, allowed, now, limits, actions));
        }
        if notices.gone_away {
            self.act(thread, key, |book, now, limits, actions| book.go_away(id, now, limits, actions));
        }
        None
    }

    /// Handles the loss of a connection.
    pub(crate) fn lost(&self, thread: &WorkerThread, session: &UpstreamSession, end: &ConnectionEnd) {
        let (id, key) = (session.id(), session.key);
        {
            let mut state = self.0.borrow_mut();
            state.sessions.remove(&id);
            state.parting.retain(|other| other.id() != id);
        }
        if session.is_opened() || session.was_pooled() {
            // If a pooled connection ended before a request used it, another one is opened.
            self.act(thread, key, |book, now, limits, actions| book.closed(id, now, limits, actions));
        } else {
            let lost = StreamFailure::Lost(end.clone());
            let message = format!("{} while connecting to upstream", lost.phrase());
            self.open_failed(thread, key, id, OpenFailure { failure: Failure::ConnectFailed, message });
        }
    }

    /// Forgets a session that was on its way into the pool.
    pub(crate) fn parted(&self, session: &UpstreamSession) {
        self.0.borrow_mut().parting.retain(|other| other.id() != session.id());
    }

    /// Returns the lease of a finished stream.
    pub(crate) fn release(&self, thread: &WorkerThread, key: StreamKey, lease: StreamLease) {
        self.act(thread, key, |book, now, limits, actions| book.release(lease, now, limits, actions));
    }

    fn act<R>(
        &self,
        thread: &WorkerThread,
        key: StreamKey,
        change: impl FnOnce(&mut HubBook, Millis, &Limits, &mut Actions) -> R,
    ) -> R {
        self.act_with(thread, key, None, change)
    }

    /// Changes the book, and carries out the actions that it asks for.
    fn act_with<R>(
        &self,
        thread: &WorkerThread,
        key: StreamKey,
        failure: Option<&Rc<OpenFailure>>,
        change: impl FnOnce(&mut HubBook, Millis, &Limits, &mut Actions) -> R,
    ) -> R {
        let now = thread.pool_now();
        let mut state = self.0.borrow_mut();
        let state = &mut *state;
        let limits = state.limits.get(&key).copied().unwrap_or(NO_LIMITS);
        let mut actions = Vec::new();
        let result = change(&mut state.book, now, &limits, &mut actions);
        let mut actions = VecDeque::from(actions);
        while let Some(action) = actions.pop_front() {
            match action {
                Action::Serve(task, lease) => state.give(thread, task, Given::Stream(lease)),
                Action::Fail(task) => {
                    let failure = failure.cloned().unwrap_or_else(|| {
                        Rc::new(OpenFailure { failure: Failure::ConnectFailed, message: String::new() })
                    });
                    state.give(thread, task, Given::Failed(failure));
                }
                Action::Open(key, id) => {
                    let mut more = Vec::new();
                    if !state.come_back(key, id, now, &limits, &mut more) {
                        state.to_open.push((key, id));
                        state.book.waiting(key).for_each(|task| thread.reactor.wake(*task));
                    }
                    actions.extend(more);
                }
                Action::Close(id, reason) => {
                    state.to_open.retain(|(_, known)| *known != id);
                    if let Some(session) = state.sessions.remove(&id) {
                        session.retire(reason);
                        if reason == Retired::IdleFull {
                            state.parting.push(session);
                        }
                    }
                }
            }
        }
        if state.book.counts(key) == Counts::default() {
            state.limits.remove(&key);
        }
        result
    }

    fn forget_limits(&self, key: StreamKey) {
        let mut state = self.0.borrow_mut();
        if state.book.counts(key) == Counts::default() {
            state.limits.remove(&key);
        }
    }
}

/// For a key that the book does not know any more.
const NO_LIMITS: Limits = Limits {
    connections_max: 0,
    streams_max: 0,
    line_max: 0,
    requests_max: 0,
    age_ms_max: 0,
    idle_ms_max: 0,
    idle_max: 0,
};

impl HubState {
    fn give(&mut self, thread: &WorkerThread, task: TaskId, given: Given) {
        self.given.insert(task, given);
        thread.reactor.wake(task);
    }

    /// A session on its way into the pool is used again instead of opening a connection.
    fn come_back(
        &mut self,
        key: StreamKey,
        id: ConnectionId,
        now: Millis,
        limits: &Limits,
        actions: &mut Actions,
    ) -> bool {
        let Some(at) = self.parting.iter().position(|session| session.key == key && session.can_open()) else {
            return false;
        };
        let session = self.parting.swap_remove(at);
        session.come_back(id);
        let earlier = session.earlier();
        self.sessions.insert(id, session);
        self.book.opened_before(id, earlier, now, limits, actions);
        true
    }
}
