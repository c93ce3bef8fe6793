//! The job of a worker in a load of WebSockets: it opens connections and sends pings and messages when they are due, in
//! order of time, and handles ready sockets.

use super::connection::{Phase, WebSocketConnection};
use super::due_queue::DueQueue;
use super::ending::Ending;
use super::record::WebSocketRecord;
use super::setup::WebSocketSetup;
use crate::cause::Cause;
use crate::pace::{Arrivals, Schedule, Spacing, Stage};
use crate::worker::{Job, LAG_PROBE_NS, NEVER, Seat};
use http1::ResponseHead;
use reactor::TaskId;
use std::sync::Arc;

/// Interval of the checks at the end whether all deliveries have arrived; each check visits all connections.
const DELIVERED_LOOK_NS: u64 = 20_000_000;
/// The part of the run that the worker is in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stretch {
    Holding,
    /// No connection sends any more; missing deliveries are awaited.
    Draining,
    /// Close frames were sent, and their replies are awaited.
    Closing,
}

/// What can become due.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Due {
    /// The first opening of a connection.
    Opening,
    Message,
    /// A ping or a further attempt on an existing connection.
    OnConnection,
    Storm,
    /// A probe of the worker's own lag.
    Probe,
}

#[derive(Debug)]
pub(super) struct Worker {
    pub(super) seat: Seat<WebSocketRecord>,
    pub(super) setup: Arc<WebSocketSetup>,
    pub(super) random: fastrand::Rng,
    /// Reused for each handshake.
    pub(super) head: ResponseHead,
    /// Indexed by task.
    pub(super) connections: Vec<WebSocketConnection>,
    pub(super) open: u64,
    /// Time of the storm, and the number of connections that must be open again.
    pub(super) storm: Option<(u64, u64)>,
    /// The connection that sends the next message.
    pub(super) speaker: usize,
    /// What is due on connections in the next milliseconds.
    pub(super) due: DueQueue,
    /// Buffers for messages and frames.
    pub(super) text: Vec<u8>,
    pub(super) frame: Vec<u8>,
    /// Number of connections that this worker opens.
    wanted: usize,
    arrivals: Arrivals,
    message_due_ns: u64,
    storm_due_ns: u64,
    probe_due_ns: u64,
    stretch: Stretch,
    give_up_ns: u64,
    look_due_ns: u64,
}

/// The times at which messages are due.
fn arrivals(setup: &WebSocketSetup, index: usize, workers: usize) -> Arrivals {
    let (ramp, hold, rate) = (setup.options.ramp_time(), setup.options.hold, setup.options.rate);
    let stages = vec![Stage { duration: ramp, from: 0.0, to: 0.0 }, Stage { duration: hold, from: rate, to: rate }];
    Arrivals::new(Arc::new(Schedule::new(stages)), Spacing::Constant, index, workers, setup.options.seed)
}

impl Worker {
    pub(super) fn new(setup: Arc<WebSocketSetup>, seat: Seat<WebSocketRecord>) -> Self {
        let (index, workers) = (seat.index, seat.workers);
        let options = &setup.options;
        let wanted = options.connections / workers + usize::from(index < options.connections % workers);
        let mut arrivals = arrivals(&setup, index, workers);
        let message_due_ns = arrivals.next().unwrap_or(NEVER);
        let storm_due_ns = options.storm.map_or(NEVER, |storm| {
            setup.hold_begins_ns.saturating_add(u64::try_from(storm.after.as_nanos()).unwrap_or(NEVER))
        });
        Self {
            seat,
            random: fastrand::Rng::with_seed(options.seed.wrapping_add(index as u64)),
            head: ResponseHead::default(),
            connections: Vec::new(),
            open: 0,
            storm: None,
            speaker: 0,
            due: DueQueue::default(),
            text: Vec::new(),
            frame: Vec::new(),
            wanted,
            arrivals,
            message_due_ns,
            storm_due_ns,
            probe_due_ns: LAG_PROBE_NS,
            stretch: Stretch::Holding,
            give_up_ns: NEVER,
            look_due_ns: 0,
            setup,
        }
    }

    /// The number of a connection among those of all workers.
    pub(super) fn number(&self, slot: usize) -> usize {
        slot * self.seat.workers + self.seat.index
    }

    /// Whether nothing new begins any more.
    pub(super) fn is_ending(&self) -> bool {
        self.stretch != Stretch::Holding
    }

    /// When the next connection is due to be opened.
    fn open_due_ns(&self) -> u64 {
        if self.connections.len() >= self.wanted || self.is_ending() {
            return NEVER;
        }
        (self.number(self.connections.len()) as f64 / self.setup.options.ramp * 1e9) as u64
    }

    /// Whether something is due that must be done first.
    pub(super) fn is_due(&self) -> bool {
        self.next_due().0 <= self.seat.now_ns
    }

    /// Records the lag of something that was due at this time and is done now.
    fn note_lag(&mut self, due_ns: u64) {
        self.seat.note_lag(due_ns);
        self.probe_due_ns = self.seat.now_ns + LAG_PROBE_NS;
    }

    /// Sends the ping or begins the attempt that is due on a connection, unless the connection has ended since.
    fn come_due_on(&mut self, slot: usize, due_ns: u64) {
        let connection = self.connections.get(slot).filter(|connection| connection.due_ns == due_ns);
        match connection.map(|connection| connection.phase) {
            Some(Phase::Open) => {
                self.note_lag(due_ns);
                self.ping(slot);
            }
            Some(Phase::Waiting) if !self.is_ending() => {
                self.note_lag(due_ns);
                self.seat.record.again += 1;
                self.begin(slot, due_ns);
            }
            _ => {}
        }
    }

    fn add_connection(&mut self, due_ns: u64) {
        let slot = self.connections.len();
        let number = self.number(slot);
        let stall = self.setup.options.stall;
        // Spread evenly over the connections, so that every room has its share.
        let stalled = ((number + 1) as f64 * stall).floor() > (number as f64 * stall).floor();
        let task = self.seat.reactor.create_task();
        debug_assert_eq!(task.index as usize, slot, "tasks are made here only, and never end");
        self.connections.push(WebSocketConnection::new(task, self.setup.room(number), stalled));
        self.begin(slot, due_ns);
    }

    /// The storm: cuts a share of the open connections at once.
    fn cut(&mut self) {
        let share = self.setup.options.storm.map_or(0.0, |storm| storm.share);
        self.storm = Some((self.seat.now_ns, self.open));
        let mut seen = 0u64;
        for slot in 0..self.connections.len() {
            let is_open = self.connections.get(slot).is_some_and(|connection| connection.phase == Phase::Open);
            let is_cut = ((seen + 1) as f64 * share).floor() > (seen as f64 * share).floor();
            seen += u64::from(is_open);
            if is_open && is_cut {
                self.finish(slot, Ending::Storm);
            }
        }
    }

    fn stop_speaking(&mut self) {
        if self.stretch == Stretch::Holding {
            self.setup.falls_silent();
        }
    }

    /// Whether no connection sends any more and all deliveries have arrived.
    fn is_all_delivered(&mut self) -> bool {
        if self.setup.options.rate <= 0.0 {
            return true;
        }
        if self.seat.now_ns < self.look_due_ns || !self.setup.are_silent(self.seat.workers) {
            return false;
        }
        self.look_due_ns = self.seat.now_ns + DELIVERED_LOOK_NS;
        self.connections.iter().all(|connection| {
            connection.phase != Phase::Open
                || connection.stalled
                || connection.received >= connection.expected(&self.setup)
        })
    }

    fn end_all(&mut self, ending: Ending, cause: Option<Cause>) {
        self.stretch = Stretch::Closing;
        for slot in 0..self.connections.len() {
            match self.connections.get(slot).map(|connection| connection.phase) {
                Some(Phase::Open | Phase::Closing) => self.finish(slot, ending),
                Some(Phase::Gone) | None => {}
                Some(_) => self.give_up(slot, cause),
            }
        }
    }
}

impl Job for Worker {
    type Record = WebSocketRecord;
    type Due = Due;

    fn seat(&mut self) -> &mut Seat<WebSocketRecord> {
        &mut self.seat
    }

    fn begin(&mut self, _from_ns: u64) {}

    fn next_due(&self) -> (u64, Due) {
        let unless_ending = |due_ns: u64| if self.is_ending() { NEVER } else { due_ns };
        let all = [
            (self.open_due_ns(), Due::Opening),
            (unless_ending(self.message_due_ns), Due::Message),
            (self.due.next_ns(), Due::OnConnection),
            (unless_ending(self.storm_due_ns), Due::Storm),
        ];
        all.into_iter()
            .fold((self.probe_due_ns, Due::Probe), |first, other| if other.0 < first.0 { other } else { first })
    }

    fn come_due(&mut self, due_ns: u64, due: Due) {
        match due {
            Due::Opening => {
                self.note_lag(due_ns);
                self.add_connection(due_ns);
            }
            Due::Message => {
                self.note_lag(due_ns);
                self.send_due(due_ns);
                self.message_due_ns = self.arrivals.next().unwrap_or(NEVER);
            }
            Due::OnConnection => {
                if let Some((due_ns, slot)) = self.due.take(self.seat.now_ns) {
                    self.come_due_on(slot, due_ns);
                }
            }
            Due::Storm => {
                self.storm_due_ns = NEVER;
                self.cut();
            }
            Due::Probe => self.note_lag(due_ns),
        }
        self.seat.look_at_clock();
    }

    fn ready(&mut self, task: TaskId) {
        let slot = task.index as usize;
        match self.connections.get(slot).map(|connection| connection.phase) {
            Some(Phase::Waiting) => self.waiting(slot),
            Some(Phase::Connecting) => self.connecting(slot),
            Some(Phase::Securing) => self.securing(slot),
            Some(Phase::Opening) => self.opening(slot),
            Some(Phase::Open | Phase::Closing) => self.open(slot),
            Some(Phase::Gone) | None => {}
        }
        self.seat.look_at_clock();
    }

    fn is_over(&mut self, told: bool) -> bool {
        if told {
            self.stop_speaking();
            self.end_all(Ending::CutOff, None);
            return true;
        }
        let now_ns = self.seat.now_ns;
        let drain_ns = u64::try_from(self.setup.options.drain.as_nanos()).unwrap_or(NEVER);
        let stretch = self.stretch;
        match stretch {
            Stretch::Holding if now_ns >= self.setup.hold_ends_ns => {
                self.stop_speaking();
                self.stretch = Stretch::Draining;
                self.give_up_ns = now_ns.saturating_add(drain_ns);
            }
            Stretch::Draining if now_ns >= self.give_up_ns || self.is_all_delivered() => {
                self.stretch = Stretch::Closing;
                self.give_up_ns = now_ns.saturating_add(drain_ns);
                for slot in 0..self.connections.len() {
                    match self.connections.get(slot).map(|connection| connection.phase) {
                        Some(Phase::Open) => self.close(slot),
                        Some(Phase::Closing | Phase::Gone) | None => {}
                        Some(_) => self.give_up(slot, Some(Cause::Unanswered)),
                    }
                }
            }
            Stretch::Closing if self.open == 0 => return true,
            Stretch::Closing if now_ns >= self.give_up_ns => {
                self.end_all(Ending::Unanswered, None);
                return true;
            }
            _ => {}
        }
        false
    }

    fn end(&mut self) {
        self.seat.record.unrecovered = u64::from(self.storm.is_some());
    }

    fn complete(&self, record: &mut WebSocketRecord) {
        record.open = self.open;
    }

    /// Its connections stayed open meanwhile.
    fn slept_through(&self) -> Option<WebSocketRecord> {
        Some(WebSocketRecord { open: self.open, ..WebSocketRecord::default() })
    }
}
