//! A data-plane thread: one reactor, the connections that live on it, and what each of them is doing. Nothing here blocks.

pub(crate) mod accept;

pub(crate) mod churn_watch;

pub(crate) mod displacing;

pub(crate) mod greeting;

pub(crate) mod held_back;

pub(crate) mod housekeeping;

pub(crate) mod linger;

pub(crate) mod shedding;

pub(crate) mod warm;

use crate::base::buffer::recycle;
use crate::base::close::CloseReason;
use crate::base::counters::bump;
use crate::base::fault::Fault;
use crate::base::memory::{CONNECTION_BYTES, HeldFor, Ledger, TUNNEL_BYTES, TUNNEL_FLOOR_BYTES};
use crate::downstream::connection::{Connection, HeadRead};
use crate::downstream::request::{Answer, Request};
use crate::exchange;
use crate::exchange::{Begin, Next, Refusal};
use crate::plan::generation::{Generation, ListenerId, Pinned};
use crate::registry::shared::{Message, Shared};
use crate::tunnel::{Step, Tunnel};
use crate::worker::accept::Listeners;

use crate::connector::opening::Opening;
use crate::phases::settle::log_tunnel;
use crate::thread::clock::Clock;
use crate::thread::executor::{Desk, Slot};
use crate::worker::held_back::HeldBack;
use crate::worker::housekeeping::{Chore, House};
use crate::worker::linger::Linger;
use linger::LingerPlan;

use reactor::{Millis, Peeked, Reactor, Ready, SourceId, TaskId};
use std::any::Any;
use std::cell::{Cell, RefCell};
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::Poll;
use upstream::WorkerId;

/// The mailbox among the sources; listeners are numbered from 0 upwards.
const MAILBOX: SourceId = SourceId(u32::MAX);
/// Recycled exchange buffers and futures kept by a worker: enough for the exchanges that are usually under way at the same
/// time; a burst beyond it allocates.
const SPARES_MAX: usize = 256;

/// What is left to be closed after its last look is looked at again after this many milliseconds: the event that brings
/// what was seen comes with the next turn.
const LOOK_AGAIN_MS: u64 = 100;

/// What the task with a given index is doing.
pub(crate) enum Body {
    Free,
    /// Idle, or reading a head. The flag: a part of the head is there.
    Waiting(Box<Connection>, bool),
    Exchange(Slot),
    Tunnel(Box<Tunnel>),
    Lingering(Box<Linger>),
    HeldBack(Box<HeldBack>),
    Opening(Box<Opening>),
}

/// One data-plane thread.
pub(crate) struct Worker {
    pub(crate) index: u16,
    pub(crate) reactor: Rc<Reactor>,
    pub(crate) shared: &'static Shared,
    pub(crate) clock: Clock,
    /// What the connections of this worker hold.
    pub(crate) memory: Ledger,
    generation: RefCell<Rc<Pinned>>,
    bodies: RefCell<Vec<Body>>,
    #[allow(clippy::vec_box)] // what is recycled is the box: an exchange owns it
    requests: RefCell<Vec<Box<Request>>>,
    #[allow(clippy::vec_box)] // as above
    answers: RefCell<Vec<Box<Answer>>>,
    /// For building heads and log lines.
    scratch: Cell<Vec<u8>>,
    slots: RefCell<Vec<Slot>>,
    desk: Rc<Desk<Begin, Next>>,
    listeners: RefCell<Listeners>,
    house: House,
    /// What the pool's limits cost, looked at by the clock.
    churn: RefCell<churn_watch::ChurnWatch>,
    /// Peers whose floor is not looked after for a while.
    pub(crate) pauses: warm::Pauses,
    /// Connections that are closed when their log lines are written.
    held_back: RefCell<Vec<TaskId>>,
    /// When the last of them began to wait.
    held_back_at: Cell<Millis>,
    /// When connections without a request last gave way because memory was short.
    relieved_at: Cell<Millis>,
    draining: Cell<bool>,
    stopped: Cell<bool>,
}

/// Runs a worker until it is told to end. `listeners` are those that exist when it starts.
pub fn run(
    index: u16,
    shared: &'static Shared,
    generation: Arc<Generation>,
    listeners: Vec<(ListenerId, Arc<reactor::Listener>)>,
) -> io::Result<()> {
    let reactor = Reactor::new()?;
    let link = &shared.workers[index as usize];
    reactor.watch(link.mailbox.descriptor(), MAILBOX, false)?;
    let worker = Rc::new(Worker {
        index,
        shared,
        clock: Clock::new(shared.error_log.utc_offset_minutes()),
        memory: Ledger::new(&shared.memory, &link.counters.held),
        generation: RefCell::new(Rc::new(Pinned(Arc::clone(&generation)))),
        bodies: RefCell::default(),
        requests: RefCell::default(),
        answers: RefCell::default(),
        scratch: Cell::default(),
        slots: RefCell::default(),
        desk: Rc::default(),
        listeners: RefCell::default(),
        house: House::new(reactor.create_task()),
        churn: RefCell::default(),
        pauses: warm::Pauses::default(),
        held_back: RefCell::default(),
        held_back_at: Cell::default(),
        relieved_at: Cell::default(),
        draining: Cell::new(false),
        stopped: Cell::new(false),
        reactor,
    });
    worker.take_on(generation);
    for (id, listener) in listeners {
        worker.listen(id, listener)?;
    }
    worker.begin_watching();
    worker.begin_returning();
    worker.begin_warming();
    worker.work()
}

impl Worker {
    fn work(self: &Rc<Self>) -> io::Result<()> {
        while !self.is_finished() {
            self.reactor.turn(None)?;
            self.clock.turn();
            // Tasks that wake themselves go to the end of the list; new events are collected before they run again.
            let mut tasks_left = self.reactor.ready_len();
            while let Some(ready) = self.reactor.next_ready() {
                // What unwinds drops the task's connection, exchange or tunnel, and with it the sockets.
                if let Err(panic) = catch_unwind(AssertUnwindSafe(|| self.handle(ready))) {
                    self.survive(ready, panic.as_ref());
                }
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

    /// From now on this configuration holds.
    fn take_on(&self, generation: Arc<Generation>) {
        self.shared.memory.limit(generation.memory_budget, self.shared.workers());
        self.shared.checks.apply(generation.number, &generation.checks);
        if generation.memory_budget.is_some() {
            self.plan_chore(Chore::LookAtMemory, self.reactor.now());
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

    /// X7: a panic is a bug of ours and ends the one connection that met it.
    fn survive(&self, ready: Ready, panic: &(dyn Any + Send)) {
        let message = panic.downcast_ref::<&str>().copied();
        let message = message.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("no message");
        bump(&self.counters().bugs, 1);
        let mut end = String::new();
        if let Ready::Task(task) = ready
            && task != self.house.task
        {
            end = format!("; connection *{} is closed", self.memory.serial(task));
            if self.reactor.is_live(task) {
                self.forget_connection(task, CloseReason::Bug);
            }
        }
        self.shared.error_log.bug(&format!("a panic ({message}) in worker {}{end}", self.index));
        self.count_again();
    }

    /// Sets the gauges to what is there: the one that panicked has left them as they were.
    fn count_again(&self) {
        let (mut reading, mut exchanges, mut tunnels) = (0, 0, 0);
        for body in self.bodies.borrow().iter() {
            match body {
                Body::Waiting(_, true) => reading += 1,
                Body::Exchange(_) => exchanges += 1,
                Body::Tunnel(_) => tunnels += 1,
                Body::Free | Body::Waiting(_, false) | Body::Lingering(_) | Body::HeldBack(_) | Body::Opening(_) => {}
            }
        }
        let counters = self.counters();
        for (gauge, count) in
            [(&counters.reading, reading), (&counters.exchanges, exchanges), (&counters.tunnels, tunnels)]
        {
            gauge.store(count, Ordering::Relaxed);
        }
    }

    /// A worker that drains ends with its last connection, and from then on takes none from others.
    fn is_finished(&self) -> bool {
        self.stopped.get()
            || (self.draining.get() && self.shared.workers[self.index as usize].end_without_connections())
    }

    /// The configuration that holds now.
    pub(crate) fn generation(&self) -> Rc<Pinned> {
        Rc::clone(&self.generation.borrow())
    }

    pub(crate) fn is_draining(&self) -> bool {
        self.draining.get()
    }

    pub(crate) fn id(&self) -> WorkerId {
        WorkerId(self.index)
    }

    /// The time, as the pool counts it.
    pub(crate) fn pool_now(&self) -> upstream::Millis {
        upstream::Millis(self.reactor.now().0)
    }

    fn run_task(self: &Rc<Self>, task: TaskId) {
        let body = match self.bodies.borrow_mut().get_mut(task.index as usize) {
            Some(body) => std::mem::replace(body, Body::Free),
            None => Body::Free,
        };
        match body {
            Body::Free if task == self.house.task => self.keep_house(),
            Body::Free => {}
            Body::Waiting(connection, reading) => self.read_head(connection, reading),
            Body::Exchange(slot) => self.poll_exchange(task, slot),
            Body::Tunnel(tunnel) => self.step_tunnel(tunnel),
            Body::Lingering(linger) => self.step_linger(linger),
            Body::HeldBack(held) => self.step_held_back(held),
            Body::Opening(opening) => self.step_opening(opening),
        }
    }

    pub(crate) fn put(&self, task: TaskId, body: Body) {
        match &body {
            Body::Waiting(connection, _) => {
                self.memory.hold(task, HeldFor::Connection, CONNECTION_BYTES + connection.pending.capacity());
            }
            Body::Tunnel(tunnel) => {
                self.memory.hold(task, HeldFor::Tunnel, TUNNEL_BYTES + tunnel.held_bytes());
            }
            Body::Lingering(_) | Body::HeldBack(_) => self.memory.hold(task, HeldFor::Connection, CONNECTION_BYTES),
            // An exchange has said what it holds when it began to wait; a connection that is being opened holds nothing.
            Body::Exchange(_) | Body::Opening(_) | Body::Free => {}
        }
        let mut bodies = self.bodies.borrow_mut();
        let index = task.index as usize;
        if index >= bodies.len() {
            bodies.resize_with(index + 1, || Body::Free);
        }
        bodies[index] = body;
    }

    /// A connection waits for a head, or for the rest of it.
    fn read_head(self: &Rc<Self>, mut connection: Box<Connection>, was_reading: bool) {
        self.shared.faults.pass(Fault::Head);
        let generation = self.generation();
        let task = connection.task;
        let mut fired = self.reactor.take_deadline_fired(task);
        let local = || connection.stream.local_address().ok().flatten().map(|address| address.ip());
        connection.listener = generation.listener_behind(connection.socket, local);
        let Some(listener) = generation.listener(connection.listener) else {
            return self.close(connection, CloseReason::Unlistened);
        };
        if listener.proxy_protocol && connection.proxy_header.is_none() && connection.requests == 0 {
            let Some(greeted) = self.greet(connection, listener, fired) else { return };
            connection = greeted;
            fired = false;
        }
        let mut request = self.take_request();
        let read = connection.read_head(&listener.limits, &mut request, self.reactor.now());
        let reading = matches!(read, HeadRead::Waiting(true));
        if reading != was_reading {
            bump(&self.counters().reading, if reading { 1 } else { -1 });
        }
        match read {
            HeadRead::Complete if self.refuses_requests() => {
                self.begin(connection, request, Some(Refusal::OutOfMemory));
            }
            HeadRead::Complete => self.begin(connection, request, None),
            HeadRead::Refused(error) => self.begin(connection, request, Some(Refusal::Malformed(error))),
            HeadRead::Waiting(true) if fired => {
                bump(&self.counters().reading, -1);
                request.keep_partial(&connection.pending, &listener.limits);
                self.begin(connection, request, Some(Refusal::HeadTimeout));
            }
            HeadRead::Waiting(true) if self.refuses_growth() => {
                bump(&self.counters().reading, -1);
                request.keep_partial(&connection.pending, &listener.limits);
                self.begin(connection, request, Some(Refusal::OutOfMemory));
            }
            HeadRead::Waiting(false) if fired => {
                self.recycle(request);
                self.close_unless_asked(connection, CloseReason::KeepaliveTimeout);
            }
            HeadRead::Waiting(partial) => {
                self.recycle(request);
                if partial && !was_reading {
                    let deadline = connection.head_since.after(listener.header_timeout);
                    self.reactor.set_deadline(task, Some(deadline));
                }
                self.put(task, Body::Waiting(connection, partial));
            }
            // As in nginx a request that broke off is logged.
            HeadRead::Closed(true) | HeadRead::Failed if !connection.pending.is_empty() => {
                request.keep_partial(&connection.pending, &listener.limits);
                self.begin(connection, request, Some(Refusal::ClientLeft));
            }
            HeadRead::Closed(_) => {
                self.recycle(request);
                self.close(connection, CloseReason::ClientClosed);
            }
            HeadRead::Failed => {
                self.recycle(request);
                self.close(connection, CloseReason::ClientAborted);
            }
        }
    }

    fn begin(self: &Rc<Self>, connection: Box<Connection>, request: Box<Request>, refusal: Option<Refusal>) {
        let task = connection.task;
        connection.line_waits.set(false);
        self.reactor.set_deadline(task, None);
        bump(&self.counters().requests, 1);
        bump(&self.counters().exchanges, 1);
        let spare = self.slots.borrow_mut().pop();
        let slot = spare.unwrap_or_else(|| Slot::new(exchange::run(Rc::clone(&self.desk))));
        let generation = self.generation();
        self.desk.put_arguments(Begin { worker: Rc::clone(self), generation, connection, request, refusal });
        self.poll_exchange(task, slot);
    }

    fn poll_exchange(self: &Rc<Self>, task: TaskId, mut slot: Slot) {
        let Poll::Ready(next) = self.desk.poll(&mut slot) else { return self.put(task, Body::Exchange(slot)) };
        bump(&self.counters().exchanges, -1);
        let mut slots = self.slots.borrow_mut();
        if slots.len() < SPARES_MAX {
            slots.push(slot);
        }
        drop(slots);
        self.go_on(next);
    }

    fn go_on(self: &Rc<Self>, next: Next) {
        match next {
            Next::KeepAlive(mut connection, timeout) => {
                connection.is_pipelined = !connection.pending.is_empty();
                let task = connection.task;
                let now = self.reactor.now();
                if self.is_draining() && connection.kept_until <= now && connection.pending.is_empty() {
                    return self.close_unless_asked(connection, CloseReason::Shutdown);
                }
                let deadline = if self.is_draining() { connection.kept_until } else { now.after(timeout) };
                self.reactor.set_deadline(task, Some(deadline));
                if !connection.pending.is_empty() || connection.stream.is_readable() {
                    // The next request may be there already; others get their turn first.
                    self.reactor.wake(task);
                }
                self.put(task, Body::Waiting(connection, false));
            }
            Next::Tunnel(tunnel) => {
                bump(&self.counters().tunnels, 1);
                self.step_tunnel(tunnel);
            }
            Next::Linger { connection, reason, plan } => self.close_after_lines(connection, reason, Some(plan)),
            Next::Gone(task, reason) => self.forget_connection(task, reason),
            Next::Close(connection, reason) => self.close_after_lines(connection, reason, None),
        }
    }

    fn close_or_linger(self: &Rc<Self>, connection: Box<Connection>, reason: CloseReason, linger: Option<LingerPlan>) {
        match linger {
            Some(plan) => self.step_linger(Box::new(Linger::new(connection, reason, plan, self.reactor.now()))),
            None => self.close(connection, reason),
        }
    }

    fn step_tunnel(self: &Rc<Self>, mut tunnel: Box<Tunnel>) {
        self.shared.faults.pass(Fault::Tunnel);
        let task = tunnel.task;
        let fired = self.reactor.take_deadline_fired(task);
        let bound = self.memory.room(tunnel.buffer_bytes(), TUNNEL_FLOOR_BYTES);
        match tunnel.step(self.reactor.now(), fired, bound) {
            Step::Wait(deadline) => {
                self.reactor.set_deadline(task, Some(deadline));
                self.put(task, Body::Tunnel(tunnel));
            }
            Step::Yield => {
                self.reactor.wake(task);
                self.put(task, Body::Tunnel(tunnel));
            }
            Step::End(reason) => {
                bump(&self.counters().tunnels, -1);
                log_tunnel(self, &tunnel, reason);
                tunnel.close();
                self.forget_connection(task, reason);
            }
        }
    }

    fn step_linger(self: &Rc<Self>, mut linger: Box<Linger>) {
        let task = linger.task();
        if let Some(deadline) = linger.step(self.reactor.now()) {
            self.reactor.set_deadline(task, Some(deadline));
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

    fn forget_connection(&self, task: TaskId, reason: CloseReason) {
        bump(&self.counters().closed[reason as usize], 1);
        self.memory.hold(task, HeldFor::Connection, 0);
        self.reactor.end_task(task);
        self.shared.workers[self.index as usize].connections.fetch_sub(1, Ordering::Relaxed);
        self.resume_accept();
    }

    /// An empty buffer for a head or a log line that is given away before the exchange waits.
    pub(crate) fn take_scratch(&self) -> Vec<u8> {
        self.scratch.take()
    }

    /// Gives it back, with whatever is in it.
    pub(crate) fn put_scratch(&self, mut scratch: Vec<u8>) {
        recycle(&mut scratch);
        self.scratch.set(scratch);
    }

    pub(crate) fn counters(&self) -> &'static crate::base::counters::Counters {
        &self.shared.workers[self.index as usize].counters
    }

    fn connections(&self) -> usize {
        self.shared.workers[self.index as usize].connections.load(Ordering::Relaxed)
    }

    /// Something happened on a pooled connection: it has ended, or the peer sent what nobody asked for.
    fn discard_parked(&self, label: u64) {
        use upstream::DiscardReason::{DataOnIdle, PeerClosedIdle};
        use upstream::shared::Inspection;
        let removed =
            self.shared.pool.inspect(self.id(), crate::registry::pool::token(label), |idle| match idle.look() {
                crate::registry::pool::Look::Silent => Inspection::Keep,
                crate::registry::pool::Look::Ended => Inspection::Remove(PeerClosedIdle),
                crate::registry::pool::Look::Data => Inspection::Remove(DataOnIdle),
            });
        if let Some(removed) = removed {
            crate::registry::pool::close_ended(removed, self);
        }
    }

    fn read_mailbox(self: &Rc<Self>) {
        let mut messages = Vec::new();
        self.shared.workers[self.index as usize].mailbox.take(&mut messages);
        for message in messages {
            match message {
                Message::Wake(task) => self.reactor.wake(task),
                Message::Adopt(accepted, listener) => self.adopt(accepted, listener),
                Message::Listen(id, listener) => {
                    if let Err(error) = self.listen(id, listener) {
                        self.shared.error_log.alert(&format!("cannot watch a listener: {error}"));
                    }
                }
                Message::Unlisten(id) => self.unlisten(id),
                Message::Reload(generation) => {
                    self.take_on(generation);
                    self.begin_warming();
                }
                Message::Drain => self.drain(),
                Message::LinesWritten => self.lines_are_written(),
                Message::Stop => self.stopped.set(true),
            }
        }
    }

    /// Closes a connection that waits for a request, unless one has arrived that no event has told of yet.
    fn close_unless_asked(&self, connection: Box<Connection>, reason: CloseReason) {
        if connection.stream.peek() != Peeked::Data {
            return self.close(connection, reason);
        }
        let task = connection.task;
        self.reactor.set_deadline(task, Some(Millis(self.reactor.now().0 + LOOK_AGAIN_MS)));
        self.reactor.wake(task);
        self.put(task, Body::Waiting(connection, false));
    }

    /// Stops accepting, lets idle connections go at their time (`keepalive_min_timeout`), and lets the others finish.
    fn drain(self: &Rc<Self>) {
        self.draining.set(true);
        self.unlisten_all();
        let idle: Vec<Box<Connection>> = self
            .bodies
            .borrow_mut()
            .iter_mut()
            .filter_map(|body| match std::mem::replace(body, Body::Free) {
                // Who has just connected has not been served yet, and no other process can do it.
                Body::Waiting(connection, false) if connection.requests > 0 => Some(connection),
                other => {
                    *body = other;
                    None
                }
            })
            .collect();
        for connection in idle {
            if connection.kept_until <= self.reactor.now() {
                self.close_unless_asked(connection, CloseReason::Shutdown);
            } else {
                let task = connection.task;
                self.reactor.set_deadline(task, Some(connection.kept_until));
                self.put(task, Body::Waiting(connection, false));
            }
        }
        let mut removed = Vec::new();
        self.shared.pool.drain(self.id(), upstream::DiscardReason::Drain, &mut removed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_waits_is_small() {
        assert!(size_of::<Body>() <= 24, "{}", size_of::<Body>());
        assert!(size_of::<Tunnel>() <= 216, "{}", size_of::<Tunnel>());
    }
}
