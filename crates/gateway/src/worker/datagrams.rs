//! Datagrams on the worker. A socket is read in batches, and each datagram is handed to the session of its client, or
//! begins one. The table of sessions is bounded by `worker_connections` and `memory_budget`: if there is no room, the
//! session that has been silent for longest gives way, so that a flood with forged addresses ends sessions, but takes no
//! memory and no connection.

use crate::base::alarm::and_more;
use crate::base::close::CloseReason;
use crate::base::counters::{DatagramLoss, bump};
use crate::base::fault::Fault;
use crate::base::logs::error::{Level, errno};
use crate::base::memory::Pressure;
use crate::registry::generation::ListenerId;
use crate::session::client::SessionClient;
use crate::tunnel::datagrams::{DatagramClient, DatagramEnd, DatagramSession, DatagramStep, Forwarded, Pieces};
use crate::worker::{Body, Worker};
use reactor::{Datagrams, Listener, Micros, PeerAddress, TaskId};
use rustc_hash::FxHashMap;
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, HashMap};
use std::io;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Batches read from a socket in a row. It is level-triggered, so the next turn continues.
const BATCHES_MAX: usize = 8;
/// Sessions that give way at once when no descriptor is left: each of the next datagrams may need one.
const FREED_MAX: usize = 32;
/// Entries of ended sessions that the queue of ages may hold before it is swept, beside as many as there are sessions.
const STALE_MAX: usize = 1024;

/// A client of one address. Its session is found by it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct SessionKey {
    listener: ListenerId,
    client: DatagramClient,
}

/// A worker's sessions of datagrams.
#[derive(Default)]
pub(crate) struct DatagramSessions {
    /// The hash is random per process: clients choose their ports, and forge addresses.
    by_client: RefCell<HashMap<SessionKey, TaskId>>,
    /// The same sessions by the index of their task, and those whose client's next datagram begins another one.
    keys: RefCell<FxHashMap<u32, SessionKey>>,
    /// One entry for each session, the most silent first: when it last moved, as far as this is known here, and a number
    /// that orders those of one moment. An entry whose session has moved since gets its new place when its turn comes.
    ages: RefCell<BTreeMap<(Micros, u64), TaskId>>,
    next_age: Cell<u64>,
    /// Room for a batch, made when the first datagram comes.
    batch: Cell<Option<Box<Datagrams>>>,
}

impl DatagramSessions {
    fn find(&self, key: &SessionKey) -> Option<TaskId> {
        self.by_client.borrow().get(key).copied()
    }

    fn add(&self, key: SessionKey, task: TaskId, now: Micros) {
        self.by_client.borrow_mut().insert(key, task);
        self.keys.borrow_mut().insert(task.index, key);
        self.note_age(task, now);
    }

    /// The session goes on, but its client's next datagram begins another one.
    fn unlist(&self, task: TaskId) {
        if let Some(key) = self.keys.borrow().get(&task.index) {
            let mut by_client = self.by_client.borrow_mut();
            if by_client.get(key) == Some(&task) {
                by_client.remove(key);
            }
        }
    }

    /// Forgets the session of a task that ends, if it has one.
    pub(crate) fn forget(&self, task: TaskId) {
        if !self.keys.borrow().is_empty() {
            self.unlist(task);
            self.keys.borrow_mut().remove(&task.index);
        }
    }

    /// Number of sessions.
    pub(crate) fn len(&self) -> usize {
        self.keys.borrow().len()
    }

    /// Adds an entry behind those that moved at the same time.
    fn note_age(&self, task: TaskId, moved_at: Micros) {
        let number = self.next_age.replace(self.next_age.get() + 1);
        self.ages.borrow_mut().insert((moved_at, number), task);
    }

    /// The next candidate for giving way, taken out.
    fn next_oldest(&self) -> Option<(TaskId, Micros)> {
        self.ages.borrow_mut().pop_first().map(|((moved_at, _), task)| (task, moved_at))
    }

    fn is_stale(&self) -> bool {
        self.ages.borrow().len() > 2 * self.len() + STALE_MAX
    }

    fn take_batch(&self) -> Box<Datagrams> {
        self.batch.take().unwrap_or_default()
    }

    fn put_batch(&self, batch: Box<Datagrams>) {
        self.batch.set(Some(batch));
    }
}

impl Worker {
    /// Reads a socket of datagrams.
    pub(super) fn receive(self: &Rc<Self>, id: ListenerId, listener: &Arc<Listener>) {
        for _ in 0..BATCHES_MAX {
            let mut batch = self.datagrams.take_batch();
            let received = listener.receive_datagrams(&mut batch);
            match received {
                Ok(()) => self.distribute(id, listener, &batch),
                Err(error) => self.receive_failed(&error),
            }
            let may_be_more = batch.is_full();
            self.datagrams.put_batch(batch);
            if !may_be_more {
                break;
            }
        }
        if self.datagrams.is_stale() {
            let mut ages = self.datagrams.ages.borrow_mut();
            ages.retain(|_, task| self.thread.reactor.is_live(*task));
        }
    }

    fn receive_failed(&self, error: &io::Error) {
        self.thread.registry.error_log.log(Level::Alert, &format!("recvmsg() failed ({})", errno(error)));
    }

    /// Hands the datagrams of a batch to their sessions. Those of one client in a row go out together.
    fn distribute(self: &Rc<Self>, id: ListenerId, listener: &Arc<Listener>, batch: &Datagrams) {
        let mut run: Pieces<'_> = Pieces::new();
        let mut of: Option<DatagramClient> = None;
        for datagram in batch.datagrams() {
            let Some(address) = datagram.from.filter(|_| !datagram.truncated) else {
                self.lose(DatagramLoss::Unusable, 1);
                continue;
            };
            let client = DatagramClient { address, local: datagram.local };
            if of != Some(client) {
                self.pass(id, listener, of, &run);
                run.clear();
                of = Some(client);
            }
            run.push(datagram.bytes);
        }
        self.pass(id, listener, of, &run);
    }

    /// Passes the datagrams of one client on.
    fn pass(
        self: &Rc<Self>,
        id: ListenerId,
        listener: &Arc<Listener>,
        client: Option<DatagramClient>,
        mut run: &[&[u8]],
    ) {
        let Some(client) = client else { return };
        let key = SessionKey { listener: id, client };
        while let Some((first, rest)) = run.split_first() {
            let Some(task) = self.datagrams.find(&key) else {
                self.begin_datagrams(key, listener, first);
                run = rest;
                continue;
            };
            let taken = self.forward(task, run);
            run = run.get(taken.max(1)..).unwrap_or_default();
        }
    }

    /// Gives datagrams to a session; returns how many it has taken.
    fn forward(&self, task: TaskId, run: &[&[u8]]) -> usize {
        let Some(mut session) = self.take_datagrams(task) else {
            // It has no peer yet: the name is being looked up, or it waits in line.
            self.lose(DatagramLoss::NoPeerYet, run.len());
            return run.len();
        };
        let Forwarded { taken, dropped_by_rate, dropped_by_buffer, end } =
            session.forward(run, self.thread.reactor.now_us());
        self.lose(DatagramLoss::Rate, dropped_by_rate);
        self.lose(DatagramLoss::Buffer, dropped_by_buffer);
        self.keep_or_end(session, end);
        taken
    }

    fn take_datagrams(&self, task: TaskId) -> Option<Box<DatagramSession>> {
        let mut bodies = self.bodies.borrow_mut();
        let body = bodies.get_mut(task.index as usize)?;
        match std::mem::replace(body, Body::Free) {
            Body::Datagrams(session) => Some(session),
            other => {
                *body = other;
                None
            }
        }
    }

    /// Begins a session with its first datagram, if there is room.
    fn begin_datagrams(self: &Rc<Self>, key: SessionKey, listener: &Arc<Listener>, first: &[u8]) {
        let generation = self.generation();
        if !self.make_room_for_datagrams(generation.worker_connections) {
            return self.lose(DatagramLoss::NoRoom, 1);
        }
        let counters = self.thread.counters();
        bump(&counters.accepted, 1);
        bump(&counters.handled, 1);
        self.thread.registry.workers[self.thread.index as usize].connections.fetch_add(1, Ordering::Relaxed);
        let task = self.thread.reactor.create_task();
        self.thread.memory.name(task, self.thread.registry.next_serial());
        self.datagrams.add(key, task, self.thread.reactor.now_us());
        let SessionKey { listener: id, client } = key;
        let bound = || match listener.local_address().ok().flatten()? {
            PeerAddress::Ip(bound) => Some(bound.ip()),
            PeerAddress::Unix(_) => None,
        };
        let id = generation.listener_behind(id, || client.local.or_else(bound));
        let side = SessionClient::Datagrams(Arc::clone(listener), client);
        self.begin_session(generation, side, first.to_vec(), task, id, PeerAddress::Ip(client.address));
    }

    /// Whether a session may begin. If there are too many, or memory is short, the most silent one ends for it; if no
    /// session of datagrams can, the datagram is dropped: connections do not end for it.
    fn make_room_for_datagrams(&self, most: usize) -> bool {
        if self.thread.short_of_descriptors.take() {
            for _ in 0..FREED_MAX {
                if !self.displace_datagrams(CloseReason::Displaced) {
                    break;
                }
            }
        }
        if self.connections() >= most {
            if let Some(kept_back) = self.thread.registry.shortages.datagrams.ring(self.thread.reactor.now()) {
                let more = and_more(kept_back);
                let message = format!(
                    "{most} worker_connections are not enough; the most silent sessions of datagrams are ended{more}"
                );
                self.thread.registry.error_log.log(Level::Warn, &message);
            }
            return self.displace_datagrams(CloseReason::Displaced);
        }
        self.thread.memory.pressure() < Pressure::Requests || self.displace_datagrams(CloseReason::MemoryBudget)
    }

    /// Ends the session of datagrams that has been silent for longest; `false` if there is none.
    pub(crate) fn displace_datagrams(&self, reason: CloseReason) -> bool {
        let mut looks = self.datagrams.ages.borrow().len();
        while looks > 0
            && let Some((task, since)) = self.datagrams.next_oldest()
        {
            looks -= 1;
            if !self.thread.reactor.is_live(task) {
                continue;
            }
            if let Some(session) = self.take_datagrams(task) {
                if session.moved_at() > since {
                    self.datagrams.note_age(task, session.moved_at());
                    self.put(task, Body::Datagrams(session));
                    // A second look would find it in the order of the others.
                    looks += usize::from(looks == 0);
                    continue;
                }
                self.end_datagrams(session, &DatagramEnd::Closed(reason));
                return true;
            }
            if self.drop_session(task, reason) {
                return true;
            }
            // It runs at this moment.
            self.datagrams.note_age(task, since);
        }
        false
    }

    /// The same if they take more than half of the places: connections need the others.
    pub(super) fn displace_surplus_datagrams(&self, most: usize) -> bool {
        self.datagrams.len() > most / 2 && self.displace_datagrams(CloseReason::Displaced)
    }

    /// A session has found its peer.
    pub(super) fn join_datagrams(&self, session: Box<DatagramSession>, end: Option<DatagramEnd>) {
        bump(&self.thread.counters().tunnels, 1);
        self.drain_if_outdated(session.task, session.plan(), session.peer());
        self.keep_or_end(session, end);
    }

    /// Ends a session, or puts it back until its next datagram or its deadline.
    fn keep_or_end(&self, session: Box<DatagramSession>, end: Option<DatagramEnd>) {
        let task = session.task;
        if session.is_full() {
            self.datagrams.unlist(task);
        }
        if let Some(end) = end {
            self.end_datagrams(session, &end);
        } else {
            let due = session.due(self.thread.reactor.now());
            self.thread.reactor.set_deadline(task, Some(due));
            self.put(task, Body::Datagrams(session));
        }
    }

    /// Passes answers on.
    pub(super) fn step_datagrams(&self, mut session: Box<DatagramSession>) {
        self.thread.registry.faults.pass(Fault::Tunnel);
        let task = session.task;
        let fired = self.thread.reactor.take_deadline_fired(task);
        let mut batch = self.datagrams.take_batch();
        let (step, dropped) = session.step(&self.thread, &mut batch, fired);
        self.datagrams.put_batch(batch);
        self.lose(DatagramLoss::Buffer, dropped);
        match step {
            DatagramStep::Wait(deadline) => {
                self.thread.reactor.set_deadline(task, Some(deadline));
                self.put(task, Body::Datagrams(session));
            }
            DatagramStep::Yield => {
                self.thread.reactor.wake(task);
                self.put(task, Body::Datagrams(session));
            }
            DatagramStep::End(end) => self.end_datagrams(session, &end),
        }
    }

    pub(super) fn end_datagrams(&self, session: Box<DatagramSession>, end: &DatagramEnd) {
        let task = session.task;
        bump(&self.thread.counters().tunnels, -1);
        let reason = session.end(&self.thread, end);
        self.note_drain_end(false, reason);
        self.forget_connection(task, reason);
    }

    fn lose(&self, why: DatagramLoss, count: usize) {
        if count > 0 {
            bump(&self.thread.counters().datagrams_lost[why as usize], count as i64);
        }
    }
}
