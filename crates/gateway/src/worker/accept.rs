//! Accepting: which worker serves a new connection, and what happens when there is no room for it.

use crate::base::alarm::and_more;
use crate::base::close::CloseReason;
use crate::base::counters::bump;
use crate::base::logs::error::{Level, errno};
use crate::downstream::h1::connection::Connection;
use crate::plan::listener::Serves;
use crate::registry::generation::ListenerId;
use crate::registry::process::Message;
use crate::session::client::SessionClient;
use crate::thread::chores::Chore;
use crate::worker::{Body, Worker};
use reactor::{Accepted, Listener, SourceId};
use std::io;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;
use transport::Transport;

/// Most connections accepted in a row: enough to empty a burst quickly, few enough not to delay requests of connected
/// clients. The listener is level-triggered, so the next turn continues.
const ACCEPTS_MAX: usize = 64;
/// A worker hands a new connection over if it has this many more than the least loaded one, plus a sixteenth of its
/// own: with long-lived connections an imbalance would last for ever, and a hand-over costs a wake-up.
const IMBALANCE_MAX: usize = 4;
/// Without a free descriptor, accepting is tried again after this time at the latest, as in nginx: other workers, the
/// pool and files also free descriptors, and this thread does not see that.
const PAUSE: Duration = Duration::from_millis(500);

/// The listeners that a worker accepts from.
#[derive(Debug, Default)]
pub(crate) struct Listeners {
    all: Vec<(ListenerId, Arc<Listener>)>,
    /// Not watched now: no descriptor was left.
    paused: bool,
    /// Not watched now: memory is short.
    paused_for_memory: bool,
}

impl Listeners {
    fn is_watched(&self) -> bool {
        !self.paused && !self.paused_for_memory
    }
}

impl Worker {
    /// Starts to accept from a listener.
    pub(crate) fn listen(&self, id: ListenerId, listener: Arc<Listener>) -> io::Result<()> {
        self.thread.registry.status.listens(&listener);
        let mut listeners = self.listeners.borrow_mut();
        if listeners.is_watched() {
            // Several workers may watch the same socket: one of them is woken for a connection.
            self.thread.reactor.watch(listener.descriptor(), SourceId(id.0), true)?;
        }
        listeners.all.push((id, listener));
        Ok(())
    }

    /// Stops accepting from a listener.
    pub(crate) fn unlisten(&self, id: ListenerId) {
        let mut listeners = self.listeners.borrow_mut();
        let watched = listeners.is_watched();
        listeners.all.retain(|(present, listener)| {
            if *present == id && watched {
                let _ = self.thread.reactor.unwatch(listener.descriptor());
            }
            *present != id
        });
    }

    pub(crate) fn unlisten_all(&self) {
        let ids: Vec<ListenerId> = self.listeners.borrow().all.iter().map(|(id, _)| *id).collect();
        for id in ids {
            self.unlisten(id);
        }
    }

    /// Accepts from all listeners, unless it has paused.
    pub(crate) fn accept_all(self: &Rc<Self>) {
        let listeners = self.listeners.borrow();
        let watched = listeners.is_watched();
        let mut ids: Vec<ListenerId> = listeners.all.iter().map(|(id, _)| *id).filter(|_| watched).collect();
        drop(listeners);
        ids.dedup();
        for id in ids {
            self.accept(id);
        }
    }

    pub(crate) fn accept(self: &Rc<Self>, id: ListenerId) {
        // With `reuseport` a worker may have several sockets for one address.
        for at in 0.. {
            let listener = match self.listeners.borrow().all.get(at) {
                Some((present, listener)) if *present == id => Arc::clone(listener),
                Some(_) => continue,
                None => return,
            };
            if listener.is_datagrams() {
                self.receive(id, &listener);
                continue;
            }
            if let Err(error) = self.accept_from(&listener, id) {
                return self.accept_failed(&error);
            }
        }
    }

    fn accept_from(self: &Rc<Self>, listener: &Listener, id: ListenerId) -> io::Result<()> {
        for _ in 0..ACCEPTS_MAX {
            // The memory chore would notice a burst too late.
            if self.refuses_connections() {
                break;
            }
            let Some(accepted) = listener.accept()? else { break };
            bump(&self.thread.counters().accepted, 1);
            if let Some(accepted) = self.leave_to_neighbour(accepted, listener) {
                self.place(accepted, id);
            }
        }
        Ok(())
    }

    /// Handles EMFILE, ENFILE, ENOBUFS: accepting again at once would spin. Other processes accept what waits, if there are
    /// some. Otherwise it closes connections that wait for a request;
    /// if there are none, accepting resumes when a connection closes or the pause ends.
    fn accept_failed(&self, error: &io::Error) {
        if let Some(kept_back) = self.thread.registry.shortages.accept.ring(self.thread.reactor.now()) {
            self.thread.registry.error_log.crit(&format!(
                "accept4() failed ({}); accepting pauses until a descriptor is free{}",
                errno(error),
                and_more(kept_back)
            ));
        }
        let helped = self.thread.registry.neighbours.get().is_some_and(|neighbours| neighbours.request_accepts());
        self.pause_accept();
        self.thread.chores.plan(Chore::AcceptAgain, self.thread.reactor.now().after(PAUSE));
        if !helped && !self.displace() {
            self.displace_datagrams(CloseReason::Displaced);
        }
    }

    /// Leaves a connection to another process if that has clearly fewer, by the same rule as between workers: a wake-up of
    /// the kernel decides where a connection arrives, and a tunnel stays there for days. Returns it if it stays here.
    fn leave_to_neighbour(&self, accepted: Accepted, listener: &Listener) -> Option<Accepted> {
        let registry = self.thread.registry;
        let Some(neighbours) = registry.neighbours.get() else { return Some(accepted) };
        let own = registry.open_connections() + 1;
        match neighbours.compare(own) {
            Some((other, load)) if own > load + IMBALANCE_MAX + own / 16 => {
                neighbours.leave_to(other, accepted, listener).err()
            }
            _ => Some(accepted),
        }
    }

    /// Hands a connection to the least loaded worker.
    fn place(self: &Rc<Self>, accepted: Accepted, id: ListenerId) {
        let links = &self.thread.registry.workers;
        let own = self.connections();
        let least = links.iter().map(|link| link.connections.load(Ordering::Relaxed)).enumerate().min_by_key(|it| it.1);
        match least {
            // Counted here, so that the next hand-over sees it before the other worker has woken up, and a draining
            // worker does not end before it arrives.
            Some((worker, load)) if own > load + IMBALANCE_MAX + own / 16 && links[worker].expects_one_more() => {
                links[worker].mailbox.send(Message::Adopt(accepted, id));
            }
            _ => {
                links[self.thread.index as usize].connections.fetch_add(1, Ordering::Relaxed);
                self.adopt(accepted, id);
            }
        }
    }

    /// Takes over a new connection, which is already counted.
    pub(crate) fn adopt(self: &Rc<Self>, accepted: Accepted, id: ListenerId) {
        let task = self.thread.reactor.create_task();
        let now = self.thread.reactor.now();
        let generation = self.generation();
        let serial = self.thread.registry.next_serial();
        self.thread.memory.name(task, serial);
        if !self.has_room(generation.worker_connections) {
            if let Some(kept_back) = self.thread.registry.shortages.room.ring(now) {
                let (limit, more) = (generation.worker_connections, and_more(kept_back));
                self.thread
                    .registry
                    .error_log
                    .alert(&format!("{limit} worker_connections are not enough; a new connection is closed{more}"));
            }
            return self.forget_connection(task, CloseReason::NoRoom);
        }
        let stream = match self.thread.reactor.register(accepted.socket, task) {
            Ok(stream) => stream,
            Err(error) => {
                self.thread.registry.error_log.alert(&format!("epoll_ctl() failed ({})", errno(&error)));
                return self.forget_connection(task, CloseReason::Unwatched);
            }
        };
        bump(&self.thread.counters().handled, 1);
        let local = || stream.local_address().ok().flatten().map(|address| address.ip());
        let listener = generation.listener_behind(id, local);
        if generation.listener(listener).is_some_and(|listener| listener.serves == Serves::Stream) {
            let side = SessionClient::Stream(Transport::plain(stream));
            return self.begin_session(generation, side, Vec::new(), task, listener, accepted.from);
        }
        if let Some(listener) = generation.listener(id) {
            self.thread.reactor.set_deadline(task, Some(now.after(listener.header_timeout)));
        }
        let connection = Connection::accepted(Transport::plain(stream), task, id, accepted.from, serial, now);
        self.put(task, Body::Idle(Box::new(connection)));
    }

    /// Whether a new connection, already counted, may stay. If there are too many, closes others for it.
    fn has_room(&self, most: usize) -> bool {
        if self.connections() <= most {
            return true;
        }
        let displaced =
            self.displace_surplus_datagrams(most) || self.displace() || self.displace_datagrams(CloseReason::Displaced);
        if displaced && let Some(kept_back) = self.thread.registry.shortages.displaced.ring(self.thread.reactor.now()) {
            let more = and_more(kept_back);
            let message =
                format!("{most} worker_connections are not enough; connections without a request are closed{more}");
            self.thread.registry.error_log.log(Level::Warn, &message);
        }
        displaced
    }

    fn pause_accept(&self) {
        self.watch_listeners_with(|listeners| listeners.paused = true);
    }

    /// A descriptor has become free: watches the listeners again, if paused.
    pub(crate) fn resume_accept(&self) {
        if self.listeners.borrow().paused {
            self.watch_listeners_with(|listeners| listeners.paused = false);
        }
    }

    /// Pauses accepting; `false` if it was paused already.
    pub(crate) fn pause_accept_for_memory(&self) -> bool {
        let before = self.listeners.borrow().paused_for_memory;
        self.watch_listeners_with(|listeners| listeners.paused_for_memory = true);
        !before
    }

    pub(crate) fn resume_accept_after_memory(&self) {
        self.watch_listeners_with(|listeners| listeners.paused_for_memory = false);
    }

    /// Applies a change, and then watches or unwatches the listeners as needed.
    fn watch_listeners_with(&self, change: impl FnOnce(&mut Listeners)) {
        let mut listeners = self.listeners.borrow_mut();
        let before = listeners.is_watched();
        change(&mut listeners);
        let after = listeners.is_watched();
        if before == after {
            return;
        }
        for (id, listener) in &listeners.all {
            // An error means that it is already in the wanted state.
            let _ = if after {
                self.thread.reactor.watch(listener.descriptor(), SourceId(id.0), true)
            } else {
                self.thread.reactor.unwatch(listener.descriptor())
            };
        }
    }
}
