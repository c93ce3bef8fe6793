//! A data-plane thread: one reactor, its connections, and the state of each of them. Nothing here blocks.

pub(crate) mod accept;
pub(crate) mod after_exchange;
pub(crate) mod begin;
pub(crate) mod certificates;
pub(crate) mod churn_watch;
pub(crate) mod client_status;
pub(crate) mod datagrams;
pub(crate) mod displacing;
pub(crate) mod drains;
pub(crate) mod handover;
pub(crate) mod handshake_view;
pub(crate) mod held_back;
pub(crate) mod housekeeping;
pub(crate) mod http2;
pub(crate) mod inspect;
pub(crate) mod proxy_header;
pub(crate) mod securing;
pub(crate) mod sessions;
pub(crate) mod shedding;
pub(crate) mod tunnels;
pub(crate) mod warm;

use crate::base::close::CloseReason;
use crate::base::counters::bump;
use crate::base::fault::Fault;
use crate::base::memory::{CONNECTION_BYTES, HeldFor, TUNNEL_BYTES};
use crate::downstream::Asker;
use crate::downstream::h1::connection::{Connection, HeadRead, Securing};
use crate::downstream::request::Request;
use crate::exchange::{Begin, Beginning, Refusal};
use crate::phases::Next;
use crate::registry::generation::{BoundListener, Generation, ListenerId, Pinned};
use crate::registry::process::{Message, Registry};
use crate::tunnel::Tunnel;
use crate::tunnel::datagrams::{DATAGRAM_SESSION_BYTES, DatagramSession};
use crate::worker::accept::Listeners;
use crate::worker::datagrams::DatagramSessions;
use crate::worker::drains::{Cause, Drains};

use crate::downstream::h1::linger::{Linger, LingerPlan};
use crate::exchange::spares::{SPARES_MAX, Spares};
use crate::thread::chores::Chore;
use crate::thread::executor::{Mailbox, Slot};
use crate::thread::job::Job;
use crate::thread::{Relief, WorkerThread};
use crate::worker::held_back::HeldBack;
use crate::worker::http2::Multiplexed;
use crate::worker::inspect::Begun;
use crate::worker::securing::{HandshakeWait, SecuringWait};
use crate::worker::sessions::Sessions;
use rustc_hash::{FxHashMap, FxHashSet};
use std::rc::Weak;

use reactor::{Millis, Peeked, Reactor, Ready, SourceId, TaskId};
use std::cell::{Cell, RefCell};
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::Poll;

/// The mailbox's number among the sources; listeners are numbered from 0 upwards.
const MAILBOX: SourceId = SourceId(u32::MAX);

/// Milliseconds until a connection that should be closed, but has just received data, is looked at again: the event for
/// the data comes with the next turn.
const LOOK_AGAIN_MS: u64 = 100;

/// The state of the task with a given index. Each variant is one thin pointer: the table has an entry for each connection.
pub(crate) enum Body {
    Free,
    /// It waits for a head.
    Idle(Box<Connection>),
    /// Its handshake or its first request waits for something else than the client. This is beside the connection: most have none.
    Securing(Box<(Box<Connection>, Box<SecuringWait>)>),
    /// A part of a head has arrived.
    Reading(Box<Connection>),
    Exchange(Slot),
    /// A session of `stream` before its tunnel.
    Session(Slot),
    Tunnel(Box<Tunnel>),
    /// A tunnel that moves nothing while another process takes it over, or hands it over.
    Frozen(Box<Tunnel>),
    /// A session of datagrams that has a peer.
    Datagrams(Box<DatagramSession>),
    Lingering(Box<Linger>),
    HeldBack(Box<HeldBack>),
    /// HTTP/2, with or without streams.
    Http2(Multiplexed),
    Job(Box<Box<dyn Job>>),
}

/// One worker: its thread, and its connections.
pub(crate) struct Worker {
    pub(crate) thread: Rc<WorkerThread>,
    spares: Rc<Spares>,
    generation: RefCell<Rc<Pinned>>,
    bodies: RefCell<Vec<Body>>,
    slots: RefCell<Vec<Slot>>,
    /// Running exchanges by the index of their task, for an operator's question.
    begun: RefCell<FxHashMap<u32, Begun>>,
    mailbox: Rc<Mailbox<Begin, Next>>,
    sessions: Sessions,
    datagrams: DatagramSessions,
    drains: Drains,
    listeners: RefCell<Listeners>,
    /// The cost of the pool's limits, measured periodically.
    churn: RefCell<churn_watch::ChurnWatch>,
    /// For decoding HTTP/2 heads.
    http2_head: Cell<Option<Box<::http2::Head>>>,
    /// Connections to close when their log lines are written.
    held_back: RefCell<Vec<TaskId>>,
    /// When the last of them began to wait.
    held_back_at: Cell<Millis>,
    /// When connections without a request were last closed because memory was short.
    relieved_at: Cell<Millis>,
    stopped: Cell<bool>,
    /// Tunnels that no other process takes over.
    staying: RefCell<FxHashSet<TaskId>>,
    /// Idle connections of its pool are on their way to another process.
    gives_idle: Cell<bool>,
}

/// Connections for which the tables of a worker have room from the start, if `worker_connections` allows as many. A table that
/// grows is copied, and leaves a hole in the heap: just after that, 5,000 tunnels took 25 bytes more each. Pages take memory
/// when they are first used; all tables together are 4 MB of addresses.
const ROOM_MAX: usize = 65_536;

/// Runs a worker until it is told to end. `listeners` are those that exist at its start.
pub fn run(
    index: u16,
    registry: &'static Registry,
    generation: Arc<Generation>,
    listeners: Vec<(ListenerId, Arc<reactor::Listener>)>,
) -> io::Result<()> {
    let room = generation.worker_connections.min(ROOM_MAX);
    let reactor = Reactor::with_room(room)?;
    reactor.watch(registry.workers[index as usize].mailbox.descriptor(), MAILBOX, false)?;
    let worker = Rc::new(Worker {
        thread: Rc::new(WorkerThread::new(index, registry, reactor)),
        spares: Rc::default(),
        generation: RefCell::new(Rc::new(Pinned(Arc::clone(&generation)))),
        bodies: RefCell::new(Vec::with_capacity(room)),
        slots: RefCell::default(),
        begun: RefCell::default(),
        mailbox: Rc::default(),
        sessions: Sessions::default(),
        datagrams: DatagramSessions::default(),
        drains: Drains::default(),
        listeners: RefCell::default(),
        churn: RefCell::default(),
        http2_head: Cell::default(),
        held_back: RefCell::default(),
        held_back_at: Cell::default(),
        relieved_at: Cell::default(),
        stopped: Cell::new(false),
        staying: RefCell::default(),
        gives_idle: Cell::default(),
    });
    worker.thread.memory.reserve(room);
    let relief: Weak<Worker> = Rc::downgrade(&worker);
    worker.thread.set_relief(relief);
    worker.take_on(generation);
    for (id, listener) in listeners {
        worker.listen(id, listener)?;
    }
    worker.begin_watching();
    worker.begin_returning();
    worker.begin_warming();
    worker.begin_tending();
    let ended = worker.work();
    if index == 0 {
        for zone in &worker.generation().caches {
            zone.save_snapshot();
        }
    }
    ended
}

impl Worker {
    fn work(self: &Rc<Self>) -> io::Result<()> {
        while !self.is_finished() {
            self.thread.reactor.turn(None)?;
            self.thread.clock.turn();
            // Tasks that wake themselves go to the end of the list; new events are collected before they run again.
            let mut tasks_left = self.thread.reactor.ready_len();
            while let Some(ready) = self.thread.reactor.next_ready() {
                if let Err(panic) = catch_bug(|| self.handle(ready)) {
                    self.survive(ready, &panic);
                }
                self.begin_jobs();
                self.begin_subrequests();
                if matches!(ready, Ready::Task(_)) {
                    if tasks_left <= 1 {
                        break;
                    }
                    tasks_left -= 1;
                }
            }
        }
        Ok(())
    }

    /// Switches to a new configuration.
    fn take_on(&self, generation: Arc<Generation>) {
        self.thread.registry.memory.limit(generation.memory_budget, self.thread.registry.workers());
        self.thread.registry.checks.apply(generation.number, &generation.checks);
        self.thread.registry.acme.apply(generation.number, &generation.acme_orders);
        self.thread.registry.spans.apply(generation.number, generation.otel_exporter.as_ref());
        if generation.memory_budget.is_some() {
            self.thread.chores.plan(Chore::LookAtMemory, self.thread.reactor.now());
        }
        *self.generation.borrow_mut() = Rc::new(Pinned(generation));
    }

    fn handle(self: &Rc<Self>, ready: Ready) {
        match ready {
            Ready::Task(task) => self.run_task(task),
            Ready::Parked(label) => self.discard_parked(label),
            Ready::Source(MAILBOX) => self.read_mailbox(),
            Ready::Source(SourceId(listener)) => self.accept(ListenerId(listener)),
        }
    }

    /// X7: a panic is a bug of ours and ends only the connection that caused it.
    fn survive(&self, ready: Ready, panic: &str) {
        let mut end = String::new();
        if let Ready::Task(task) = ready
            && task != self.thread.chores.task
        {
            let serial = self.thread.memory.serial(task);
            if self.thread.reactor.is_live(task) {
                end = format!("; connection *{serial} is closed");
                self.forget_connection(task, CloseReason::Bug);
            } else {
                // Unwinding ends the task of a subrequest.
                end = format!("; a subrequest of connection *{serial} has ended");
            }
        }
        self.report_bug(panic, &end);
        self.count_again();
    }

    fn report_bug(&self, panic: &str, end: &str) {
        bump(&self.thread.counters().bugs, 1);
        self.thread.registry.error_log.bug(&format!("a panic ({panic}) in worker {}{end}", self.thread.index));
    }

    /// Recounts the gauges: the panic has left them as they were.
    fn count_again(&self) {
        let (mut reading, mut exchanges, mut sessions, mut tunnels, mut leaving) = (0, 0, 0, 0, 0);
        for body in self.bodies.borrow().iter() {
            match body {
                Body::Reading(_) => reading += 1,
                Body::Exchange(_) => exchanges += 1,
                Body::Session(_) => sessions += 1,
                Body::Tunnel(tunnel) => {
                    tunnels += 1;
                    leaving += u64::from(tunnel.is_leaving());
                }
                Body::Frozen(_) | Body::Datagrams(_) => tunnels += 1,
                Body::Free
                | Body::Idle(_)
                | Body::Securing(_)
                | Body::Lingering(_)
                | Body::HeldBack(_)
                | Body::Http2(_)
                | Body::Job(_) => {}
            }
        }
        self.recount_drains(leaving);
        let counters = self.thread.counters();
        for (gauge, count) in [
            (&counters.reading, reading),
            (&counters.exchanges, exchanges),
            (&counters.sessions, sessions),
            (&counters.tunnels, tunnels),
        ] {
            gauge.store(count, Ordering::Relaxed);
        }
    }

    /// A draining worker ends with its last connection; from then on it accepts none from others.
    fn is_finished(&self) -> bool {
        self.stopped.get()
            || (self.thread.draining.get()
                && self.thread.subrequests.get() == 0
                // Only then the pool is looked at.
                && self.connections() == 0
                && !self.owes_idle()
                && self.thread.registry.workers[self.thread.index as usize].end_without_connections())
    }

    /// The present configuration.
    pub(crate) fn generation(&self) -> Rc<Pinned> {
        Rc::clone(&self.generation.borrow())
    }

    fn run_task(self: &Rc<Self>, task: TaskId) {
        let body = match self.bodies.borrow_mut().get_mut(task.index as usize) {
            Some(body) => std::mem::replace(body, Body::Free),
            None => Body::Free,
        };
        if body.is_left() && !self.thread.reactor.may_end(task) {
            return self.put(task, body);
        }
        match body {
            Body::Free if task == self.thread.chores.task => self.keep_house(),
            Body::Free => {}
            Body::Idle(connection) => self.read_head(connection, None, false),
            Body::Securing(waiting) => {
                let (connection, awaited) = *waiting;
                self.read_head(connection, Some(awaited), false);
            }
            Body::Reading(connection) => self.read_head(connection, None, true),
            Body::Exchange(slot) => self.poll_exchange(task, slot),
            Body::Session(slot) => self.poll_session(task, slot),
            Body::Tunnel(tunnel) => self.step_tunnel(tunnel),
            Body::Frozen(tunnel) => self.put(task, Body::Frozen(tunnel)),
            Body::Datagrams(session) => self.step_datagrams(session),
            Body::Lingering(linger) => self.step_linger(linger),
            Body::HeldBack(held) => self.step_held_back(held),
            Body::Http2(multiplexed) => self.step_http2(multiplexed),
            Body::Job(job) => self.step_job(*job),
        }
    }

    pub(crate) fn put(&self, task: TaskId, body: Body) {
        match &body {
            Body::Idle(connection) | Body::Reading(connection) => {
                self.thread.memory.hold(task, HeldFor::Connection, connection.held_bytes());
            }
            Body::Securing(waiting) => {
                self.thread.memory.hold(task, HeldFor::Connection, waiting.0.held_bytes());
            }
            Body::Tunnel(tunnel) | Body::Frozen(tunnel) => {
                self.thread.memory.hold(task, HeldFor::Tunnel, TUNNEL_BYTES + tunnel.held_bytes());
            }
            Body::Datagrams(_) => self.thread.memory.hold(task, HeldFor::Tunnel, DATAGRAM_SESSION_BYTES),
            Body::Lingering(_) | Body::HeldBack(_) => {
                self.thread.memory.hold(task, HeldFor::Connection, CONNECTION_BYTES);
            }
            Body::Http2(multiplexed) => {
                self.thread.memory.hold(task, HeldFor::Connection, multiplexed.held_bytes());
            }
            // An exchange reported its memory when it began to wait; a connection being opened holds none.
            Body::Exchange(_) | Body::Session(_) | Body::Job(_) | Body::Free => {}
        }
        let mut bodies = self.bodies.borrow_mut();
        let index = task.index as usize;
        if index >= bodies.len() {
            bodies.resize_with(index + 1, || Body::Free);
        }
        bodies[index] = body;
    }

    /// Reads the head, or the rest of it, of a connection that waits for one. `awaited`: what it waited for besides.
    fn read_head(self: &Rc<Self>, mut connection: Box<Connection>, awaited: HandshakeWait, was_reading: bool) {
        self.thread.registry.faults.pass(Fault::Head);
        let generation = self.generation();
        let task = connection.task;
        let mut fired = self.thread.reactor.take_deadline_fired(task);
        let local = || connection.stream.local_address().ok().flatten().map(|address| address.ip());
        connection.client.listener = generation.listener_behind(connection.socket, local);
        let Some(listener) = generation.listener(connection.client.listener) else {
            return self.close(connection, CloseReason::Unlistened);
        };
        if connection.securing < Securing::Done {
            let Some(prepared) = self.prepare(connection, awaited, listener, fired) else { return };
            (connection, fired) = prepared;
        }
        let mut request = self.spares.request(&self.thread.memory);
        let read = connection.read_head(&listener.limits, &mut request, self.thread.reactor.now());
        let reading = matches!(read, HeadRead::Partial);
        if reading != was_reading {
            bump(&self.thread.counters().reading, if reading { 1 } else { -1 });
        }
        match read {
            HeadRead::Complete if self.refuses_requests() => {
                self.begin(connection, request, Some(Refusal::OutOfMemory));
            }
            HeadRead::Complete => self.begin(connection, request, None),
            HeadRead::Refused(error) => self.begin(connection, request, Some(Refusal::Malformed(error))),
            HeadRead::Partial if fired => {
                bump(&self.thread.counters().reading, -1);
                request.keep_partial(&connection.pending, &listener.limits);
                self.begin(connection, request, Some(Refusal::HeadTimeout));
            }
            HeadRead::Partial if self.thread.refuses_growth() => {
                bump(&self.thread.counters().reading, -1);
                request.keep_partial(&connection.pending, &listener.limits);
                self.begin(connection, request, Some(Refusal::OutOfMemory));
            }
            HeadRead::Nothing if fired => {
                self.spares.recycle(request, &self.thread.memory);
                self.close_unless_asked(connection, CloseReason::KeepaliveTimeout);
            }
            HeadRead::Nothing => {
                self.spares.recycle(request, &self.thread.memory);
                self.put(task, Body::Idle(connection));
            }
            HeadRead::Partial => {
                self.spares.recycle(request, &self.thread.memory);
                if !was_reading {
                    let deadline = connection.since.after(listener.header_timeout);
                    self.thread.reactor.set_deadline(task, Some(deadline));
                }
                self.put(task, Body::Reading(connection));
            }
            // As in nginx, a request that broke off is logged.
            HeadRead::ClosedInside | HeadRead::Failed if !connection.pending.is_empty() => {
                request.keep_partial(&connection.pending, &listener.limits);
                self.begin(connection, request, Some(Refusal::ClientLeft));
            }
            HeadRead::ClosedBefore | HeadRead::ClosedInside => {
                self.spares.recycle(request, &self.thread.memory);
                self.close(connection, CloseReason::ClientClosed);
            }
            HeadRead::Failed => {
                self.spares.recycle(request, &self.thread.memory);
                self.close(connection, CloseReason::ClientAborted);
            }
        }
    }

    /// Handles what precedes a connection's first request, if the address requires it: a PROXY protocol header, then a
    /// handshake. Also returns whether the time for the request has passed. `None`: the connection waits, or is closed.
    fn prepare(
        self: &Rc<Self>,
        mut connection: Box<Connection>,
        awaited: HandshakeWait,
        listener: &BoundListener,
        mut fired: bool,
    ) -> Option<(Box<Connection>, bool)> {
        if listener.proxy_protocol && connection.client.proxy_header.is_none() {
            connection = self.await_proxy_header(connection, listener, fired)?;
            fired = false;
        }
        self.secure(connection, awaited, listener, fired)
    }

    fn begin(self: &Rc<Self>, connection: Box<Connection>, request: Box<Request>, refusal: Option<Refusal>) {
        let task = connection.task;
        connection.line_waits.set(false);
        self.thread.reactor.set_deadline(task, None);
        bump(&self.thread.counters().requests, 1);
        self.begun.borrow_mut().insert(task.index, Begun::of(&connection, self.thread.reactor.now()));
        let (thread, spares, generation) = (Rc::clone(&self.thread), Rc::clone(&self.spares), self.generation());
        let beginning = refusal.map_or(Beginning::Head, Beginning::Refused);
        let asker = Asker::Client(connection);
        self.run_exchange(Begin { thread, spares, generation, asker, request, beginning });
    }

    fn poll_exchange(self: &Rc<Self>, task: TaskId, mut slot: Slot) {
        let Poll::Ready(next) = self.mailbox.poll(&mut slot) else { return self.put(task, Body::Exchange(slot)) };
        bump(&self.thread.counters().exchanges, -1);
        self.begun.borrow_mut().remove(&task.index);
        let mut slots = self.slots.borrow_mut();
        if slots.len() < SPARES_MAX {
            slots.push(slot);
        }
        drop(slots);
        self.go_on(next);
    }

    fn close_or_linger(self: &Rc<Self>, connection: Box<Connection>, reason: CloseReason, linger: Option<LingerPlan>) {
        match linger {
            Some(plan) => self.step_linger(Box::new(Linger::new(connection, reason, plan, self.thread.reactor.now()))),
            None => self.close(connection, reason),
        }
    }

    fn step_linger(self: &Rc<Self>, mut linger: Box<Linger>) {
        let task = linger.task();
        if let Some(deadline) = linger.step(self.thread.reactor.now()) {
            self.thread.reactor.set_deadline(task, Some(deadline));
            self.put(task, Body::Lingering(linger));
        } else {
            let (connection, reason) = linger.into_parts();
            self.close(connection, reason);
        }
    }

    /// Closes a client connection and ends its task.
    pub(crate) fn close(&self, connection: Box<Connection>, reason: CloseReason) {
        let task = connection.task;
        drop(connection);
        self.forget_connection(task, reason);
    }

    pub(super) fn forget_connection(&self, task: TaskId, reason: CloseReason) {
        bump(&self.thread.counters().closed[reason], 1);
        self.forget_task(task);
    }

    fn connections(&self) -> usize {
        self.thread.registry.workers[self.thread.index as usize].connections.load(Ordering::Relaxed)
    }

    fn read_mailbox(self: &Rc<Self>) {
        let mut messages = Vec::new();
        self.thread.registry.workers[self.thread.index as usize].mailbox.take(&mut messages);
        for message in messages {
            match message {
                Message::Wake(task) => self.thread.reactor.wake(task),
                Message::Adopt(accepted, listener) => self.adopt(accepted, listener),
                Message::Listen(id, listener) => {
                    if let Err(error) = self.listen(id, listener) {
                        self.thread.registry.error_log.alert(&format!("cannot watch a listener: {error}"));
                    }
                }
                Message::Unlisten(id) => self.unlisten(id),
                Message::AcceptNow => self.accept_all(),
                Message::Reload(generation) => {
                    self.take_on(generation);
                    self.drain_changed();
                    self.begin_warming();
                    self.begin_tending();
                }
                Message::DrainPeer(peer) => self.look_for_drained(Cause::Operator(peer)),
                Message::Inspect(inspection) => self.inspect(inspection),
                Message::Handover(order) => self.hand_over(*order),
                Message::TunnelsStay => self.stay(),
                Message::Drain => self.drain(),
                Message::LinesWritten => self.lines_are_written(),
                Message::Stop => self.stopped.set(true),
            }
        }
    }

    /// Closes a connection that waits for a request, unless one has arrived that no event has reported yet.
    fn close_unless_asked(&self, connection: Box<Connection>, reason: CloseReason) {
        if connection.stream.peek() != Peeked::Data {
            return self.close(connection, reason);
        }
        let task = connection.task;
        self.thread.reactor.set_deadline(task, Some(Millis(self.thread.reactor.now().0 + LOOK_AGAIN_MS)));
        self.thread.reactor.wake(task);
        self.put(task, Body::Idle(connection));
    }

    /// Stops accepting, closes idle connections at their time (`keepalive_min_timeout`), and lets the others finish.
    fn drain(self: &Rc<Self>) {
        self.thread.draining.set(true);
        self.unlisten_all();
        let idle: Vec<Box<Connection>> = self
            .bodies
            .borrow_mut()
            .iter_mut()
            .filter_map(|body| match std::mem::replace(body, Body::Free) {
                // A connection that was just accepted has not been served yet, and no other process can serve it.
                Body::Idle(connection) if connection.client.requests > 0 => Some(connection),
                other => {
                    *body = other;
                    None
                }
            })
            .collect();
        for connection in idle {
            if connection.kept_until() <= self.thread.reactor.now() {
                self.close_unless_asked(connection, CloseReason::Shutdown);
            } else {
                let task = connection.task;
                self.thread.reactor.set_deadline(task, Some(connection.kept_until()));
                self.put(task, Body::Idle(connection));
            }
        }
        self.drain_http2();
        self.stay();
    }
}

/// Runs the closure; a panic becomes its message. Unwinding drops what the closure owned, and with it the sockets.
fn catch_bug<R>(run: impl FnOnce() -> R) -> Result<R, String> {
    catch_unwind(AssertUnwindSafe(run)).map_err(|panic| {
        let message = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
        message.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_else(|| "no message".to_owned())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waiting_connection_is_small() {
        // Most connections wait. What only a few have is elsewhere: in a box, or in another kind of `Body`.
        assert_eq!(size_of::<Connection>(), 152);
        assert_eq!(size_of::<Body>(), 16);
        // glibc adds eight bytes and rounds up to a multiple of 16.
        assert!(size_of::<Tunnel>() <= 136, "{}", size_of::<Tunnel>());
    }
}
