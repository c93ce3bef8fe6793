//! One thread with its event loop: accepts connections, hands them to the least loaded worker, and drives its own.
//! `connection` has the protocol.

use crate::action::{Action, to_json};
use crate::connection::{Connection, EndBy, Ended};
use crate::counters::{CloseReason, Counts, Executions, WorkerCounters};
use crate::options::{Options, Tls};
use crate::reply::{Page, Reply, SharedFields};
use crate::websocket::{Broadcast, Rooms};
use http1::{Limits, RequestHead};
use reactor::{Accepted, Listener, Mailbox, Millis, Reactor, Ready, SourceId, TaskId};
use serde::Serialize;
use std::io;
use std::path::PathBuf;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use tls::Session;
use transport::Transport;

/// The id of the mailbox; listeners are numbered from 0.
const MAILBOX: SourceId = SourceId(u32::MAX);
/// Connections accepted in a row before the existing ones are served.
const ACCEPTS_PER_TURN: usize = 64;
/// How long accepting pauses when no descriptor is left, because the listener stays readable and the loop would spin.
const ACCEPT_PAUSE_MS: u64 = 50;
/// How long a Date is used: its resolution is a second.
const DATE_MS: u64 = 1000;
/// Buffer lines for a request head. A proxy under test may add much to a head, and the origin should not be the one
/// that rejects it.
pub(crate) const HEAD_LINES: usize = 8;
/// Bytes of each line.
pub(crate) const HEAD_LINE_BYTES: usize = 32 * 1024;
/// Most fields of a head, as nginx's default.
pub(crate) const HEAD_FIELDS_MAX: usize = 1000;

/// A message to a worker from another thread.
#[derive(Debug)]
pub(crate) enum Message {
    /// A connection that another worker accepted, with its serial number; it is already counted as open here.
    Take(Accepted, u64),
    /// A message for the members of a room, from a member at another worker.
    Broadcast(Broadcast),
    Stop,
}

/// The part of a worker that other threads can use.
#[derive(Debug)]
pub(crate) struct WorkerPort {
    pub(crate) counters: WorkerCounters,
    pub(crate) mailbox: Mailbox<Message>,
}

/// The listening sockets. Dropped with the last worker, or with an origin that was never started.
#[derive(Debug)]
pub(crate) struct Doors {
    pub(crate) listeners: Vec<Listener>,
    /// Paths of Unix sockets. The kernel leaves these files, and a later origin could not bind them.
    pub(crate) paths: Vec<PathBuf>,
}

impl Drop for Doors {
    fn drop(&mut self) {
        for path in &self.paths {
            // Another process may have removed it already.
            let _ = std::fs::remove_file(path);
        }
    }
}

/// The data that all workers share.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) options: Options,
    pub(crate) workers: Vec<WorkerPort>,
    pub(crate) executions: Executions,
    /// The number of the next connection.
    connections: AtomicU64,
    resets_at_accept: AtomicU64,
}

impl Shared {
    pub(crate) fn new(options: Options) -> io::Result<Self> {
        let workers = (0..options.workers.max(1))
            .map(|_| Ok(WorkerPort { counters: WorkerCounters::default(), mailbox: Mailbox::new()? }))
            .collect::<io::Result<_>>()?;
        Ok(Self {
            connections: AtomicU64::new(options.first_connection),
            options,
            workers,
            executions: Executions::default(),
            resets_at_accept: AtomicU64::new(0),
        })
    }

    pub(crate) fn counts(&self) -> Counts {
        Counts::sum(self.workers.iter().map(|worker| &worker.counters))
    }

    pub(crate) fn stop(&self) {
        self.workers.iter().for_each(|worker| worker.mailbox.send(Message::Stop));
    }

    /// Performs an action that concerns the whole origin.
    pub(crate) fn administer(&self, action: Action) -> Reply {
        #[derive(Serialize)]
        struct Executed {
            id: String,
            executed: u32,
        }
        match action {
            Action::ArmResets(count) => {
                self.resets_at_accept.store(count, Ordering::Relaxed);
                Reply::text(200, format!("the next {count} connections are reset"))
            }
            Action::Executed(Some(id)) => {
                let executed = self.executions.of(&id);
                Reply::json(to_json(&Executed { id, executed }))
            }
            Action::Executed(None) => Reply::json(to_json(&self.executions.summary())),
            Action::ForgetExecuted => {
                self.executions.clear();
                Reply::json(to_json(&self.executions.summary()))
            }
            _ => Reply::json(to_json(&self.counts())),
        }
    }

    fn is_reset_at_accept(&self) -> bool {
        let take_one = |armed: u64| armed.checked_sub(1);
        self.options.reset_at_accept
            || self.resets_at_accept.load(Ordering::Relaxed) > 0
                && self.resets_at_accept.fetch_update(Ordering::Relaxed, Ordering::Relaxed, take_one).is_ok()
    }
}

/// The data that the connections of a worker share.
#[derive(Debug)]
pub(crate) struct Site {
    pub(crate) reactor: Rc<Reactor>,
    pub(crate) shared: Arc<Shared>,
    index: usize,
    pub(crate) page: Page,
    /// Reused for each request.
    pub(crate) head: RequestHead,
    pub(crate) limits: Limits,
    /// Reused for each HTTP/2 head.
    pub(crate) http2_head: http2::Head,
    pub(crate) rooms: Rooms,
    /// Buffer for outgoing frames.
    pub(crate) frames: Vec<u8>,
}

impl Site {
    pub(crate) fn options(&self) -> &Options {
        &self.shared.options
    }

    fn port(&self) -> &WorkerPort {
        self.shared.workers.get(self.index).expect("workers are made with the indices of this list")
    }

    pub(crate) fn counters(&self) -> &WorkerCounters {
        &self.port().counters
    }
}

/// The state of a worker thread.
#[derive(Debug)]
pub(crate) struct Worker {
    site: Site,
    /// Not part of `Shared`: when the last worker ends, nothing must listen any more, even if counters are still read.
    doors: Arc<Doors>,
    /// Indexed by task.
    connections: Vec<Option<Connection>>,
    /// When accepting continues.
    paused_until: Option<Millis>,
    date_until: Millis,
    inbox: Vec<Message>,
}

impl Worker {
    /// The worker with this index; called in its own thread.
    pub(crate) fn new(shared: Arc<Shared>, doors: Arc<Doors>, index: usize) -> io::Result<Self> {
        let reactor = Reactor::new()?;
        let common = SharedFields::new(&shared.options.server, shared.options.keep_alive_timeout_s);
        let page = Page::new(common, shared.options.page_bytes);
        let limits = Limits::from_buffers(0, HEAD_LINES, HEAD_LINE_BYTES, HEAD_FIELDS_MAX);
        let limits = Limits { underscores_in_headers: true, ignore_invalid_headers: false, ..limits };
        let (head, rooms) = (RequestHead::default(), Rooms::default());
        let http2_head = http2::Head::default();
        let site = Site { reactor, shared, index, page, head, limits, http2_head, rooms, frames: Vec::new() };
        let worker = Self {
            site,
            doors,
            connections: Vec::new(),
            paused_until: None,
            date_until: Millis::default(),
            inbox: Vec::new(),
        };
        worker.site.reactor.watch(worker.site.port().mailbox.descriptor(), MAILBOX, false)?;
        worker.watch_listeners()?;
        Ok(worker)
    }

    fn watch_listeners(&self) -> io::Result<()> {
        let exclusive = self.site.shared.workers.len() > 1;
        for (id, listener) in (0..).zip(&self.doors.listeners) {
            self.site.reactor.watch(listener.descriptor(), SourceId(id), exclusive)?;
        }
        Ok(())
    }

    /// Serves until it is stopped.
    pub(crate) fn run(mut self) -> io::Result<()> {
        let mut stopped = false;
        while !stopped {
            self.site.reactor.turn(self.paused_until.map(|_| ACCEPT_PAUSE_MS))?;
            self.keep_time()?;
            // Tasks that yield go to the end of the list, so they run in the next turn.
            let ready = self.site.reactor.ready_len().max(1);
            let mut tasks = 0;
            while tasks < ready {
                match self.site.reactor.next_ready() {
                    Some(Ready::Task(task)) => {
                        tasks += 1;
                        self.drive(task);
                    }
                    Some(Ready::Source(MAILBOX)) => stopped |= self.empty_mailbox(),
                    Some(Ready::Source(SourceId(id))) => self.accept(id)?,
                    Some(Ready::Parked(_)) => {}
                    None => break,
                }
            }
        }
        // Connections that another worker has handed over meanwhile are counted as open, too.
        self.empty_mailbox();
        for connection in self.connections.drain(..).flatten() {
            self.site.counters().close(CloseReason::Stopped);
            drop(connection);
        }
        Ok(())
    }

    fn keep_time(&mut self) -> io::Result<()> {
        let now = self.site.reactor.now();
        if now >= self.date_until {
            self.site.page.set_date();
            self.date_until = Millis(now.0 + DATE_MS);
        }
        if self.paused_until.is_some_and(|until| now >= until) {
            self.paused_until = None;
            self.watch_listeners()?;
        }
        Ok(())
    }

    fn accept(&mut self, id: u32) -> io::Result<()> {
        for _ in 0..ACCEPTS_PER_TURN {
            let Some(listener) = self.doors.listeners.get(id as usize) else { break };
            match listener.accept() {
                Ok(Some(accepted)) => self.place(accepted),
                Ok(None) => break,
                // No descriptors or memory are left; connections wait in the backlog meanwhile.
                Err(_) => return self.pause(),
            }
        }
        Ok(())
    }

    fn pause(&mut self) -> io::Result<()> {
        if self.paused_until.is_none() {
            self.paused_until = Some(Millis(self.site.reactor.now().0 + ACCEPT_PAUSE_MS));
            for listener in &self.doors.listeners {
                self.site.reactor.unwatch(listener.descriptor())?;
            }
        }
        Ok(())
    }

    /// Chooses the worker for a connection: this one, unless another one clearly has fewer. EPOLLEXCLUSIVE alone would
    /// give nearly all connections to one idle worker.
    fn place(&mut self, accepted: Accepted) {
        let shared = Arc::clone(&self.site.shared);
        let serial = shared.connections.fetch_add(1, Ordering::Relaxed);
        self.site.counters().accepted.fetch_add(1, Ordering::Relaxed);
        let open = |port: &WorkerPort| port.counters.open.load(Ordering::Relaxed);
        let own = open(self.site.port());
        let least = shared.workers.iter().min_by_key(|port| open(port));
        if let Some(other) = least.filter(|&other| own > open(other) + open(other) / 8) {
            other.counters.open.fetch_add(1, Ordering::Relaxed);
            other.mailbox.send(Message::Take(accepted, serial));
        } else {
            self.site.counters().open.fetch_add(1, Ordering::Relaxed);
            self.begin(accepted, serial);
        }
    }

    fn begin(&mut self, accepted: Accepted, serial: u64) {
        let reactor = &self.site.reactor;
        let task = reactor.create_task();
        let Ok(stream) = reactor.register(accepted.socket, task) else {
            reactor.end_task(task);
            return self.site.counters().close(CloseReason::NoResources);
        };
        if self.site.shared.is_reset_at_accept() {
            self.site.counters().close(CloseReason::FaultReset);
            stream.reset();
            return reactor.end_task(task);
        }
        let stream = match &self.site.options().tls {
            Some(Tls(side)) => Transport::secure(stream, Session::server(side.clone())),
            None => Transport::plain(stream),
        };
        let connection = Connection::new(stream, task, serial, accepted.from, &self.site);
        let index = task.index as usize;
        if index >= self.connections.len() {
            self.connections.resize_with(index + 1, || None);
        }
        if let Some(place) = self.connections.get_mut(index) {
            *place = Some(connection);
        }
    }

    fn empty_mailbox(&mut self) -> bool {
        let mut inbox = std::mem::take(&mut self.inbox);
        self.site.port().mailbox.take(&mut inbox);
        let mut stop = false;
        for message in inbox.drain(..) {
            match message {
                Message::Take(accepted, serial) => self.begin(accepted, serial),
                Message::Broadcast(broadcast) => {
                    self.site.counters().on_the_way.end(&broadcast);
                    self.deliver(&broadcast);
                }
                Message::Stop => stop = true,
            }
        }
        self.inbox = inbox;
        stop
    }

    fn drive(&mut self, task: TaskId) {
        let Some(place) = self.connections.get_mut(task.index as usize) else { return };
        let Some(connection) = place.as_mut().filter(|connection| connection.task() == task) else { return };
        let ended = connection.drive(&mut self.site);
        if !self.site.rooms.pending.is_empty() {
            self.broadcast();
        }
        let Some(ended) = ended else { return };
        self.end(task, ended);
    }

    fn end(&mut self, task: TaskId, ended: Ended) {
        let Some(place) = self.connections.get_mut(task.index as usize) else { return };
        // Counted before the socket is closed, so that a client that sees the end finds it in the counters.
        self.site.counters().close(ended.reason);
        if let Some(connection) = place.take() {
            if let Some(room) = connection.room() {
                self.site.rooms.leave(room, task.index);
            }
            if ended.by == EndBy::Reset {
                connection.stream.reset();
            }
        }
        self.site.reactor.end_task(task);
    }

    /// Delivers pending messages to the members of their rooms, here and at the other workers.
    fn broadcast(&mut self) {
        for broadcast in std::mem::take(&mut self.site.rooms.pending) {
            for (index, other) in self.site.shared.workers.iter().enumerate() {
                if index == self.site.index {
                    continue;
                }
                if other.counters.on_the_way.begin(&broadcast) {
                    other.mailbox.send(Message::Broadcast(broadcast.clone()));
                } else {
                    self.site.counters().websocket_drop();
                }
            }
            self.deliver(&broadcast);
        }
    }

    fn deliver(&mut self, broadcast: &Broadcast) {
        let members = self.site.rooms.take(&broadcast.room);
        for &index in &members {
            if let Some(Some(connection)) = self.connections.get_mut(index as usize) {
                connection.deliver(broadcast, &self.site);
            }
        }
        self.site.rooms.put_back(&broadcast.room, members);
    }
}
