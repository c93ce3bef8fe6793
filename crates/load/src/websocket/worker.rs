//! A thread of the load: opens, pings and lets speak what is due, in the order of its times and before anything is read, drives what is
//! ready, and hands out what it has counted once per interval.

use super::connection::{Connection, Phase};
use super::ending::Ending;
use super::record::Record;
use super::setup::Setup;
use super::soon::Soon;
use crate::cause::Cause;
use crate::crew::Place;
use crate::loan::{Home, Loan};
use crate::pace::{Arrivals, Schedule, Spacing, Stage};
use crate::processors::{Spent, Waiting};
use crate::record::RECORDS;
use crate::worker::own::Calm;
use crate::worker::timer::{Timer, monotonic_ns_at};
use crate::worker::{CALM_OPEN_NS, DUE_BETWEEN_SOCKETS, DUE_IN_A_ROW, Message, thread_cpu_ns};
use http1::ResponseHead;
use reactor::{Reactor, Ready, SourceId};
use std::io;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::Sender;
use std::time::Instant;

/// The timer among the reactor's sources.
const TIMER: SourceId = SourceId(0);
/// The worker's own punctuality is looked at after so long in which nothing was due.
const LAG_PROBE_NS: u64 = 10_000_000;
/// Between two looks whether everything has been delivered, at the end: a look visits all connections.
const DELIVERED_LOOK_NS: u64 = 20_000_000;
/// Between two looks at the stop flag when nothing else happens.
const LOOK_PERIOD_MS: u64 = 50;
/// Intervals that a worker which was stopped for long has still something to say of.
const SLEPT_THROUGH_MAX: u64 = 1000;
const NEVER: u64 = u64::MAX;

/// How far the run is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stretch {
    Holding,
    /// Nobody speaks any more; deliveries are waited for.
    Draining,
    /// Close frames are sent, and waited for.
    Closing,
}

/// What can be due.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Due {
    /// A connection that was not open before.
    Opening,
    Message,
    /// A ping on a connection, or its next attempt.
    OnConnection,
    Storm,
    /// A look at the worker's own punctuality.
    Probe,
}

#[derive(Debug)]
pub(super) struct Worker {
    pub(super) reactor: Rc<Reactor>,
    pub(super) setup: Arc<Setup>,
    pub(super) record: Box<Record>,
    home: Arc<Home<Record>>,
    pub(super) random: fastrand::Rng,
    /// Filled by each handshake.
    pub(super) head: ResponseHead,
    /// By index of task.
    pub(super) connections: Vec<Connection>,
    pub(super) now_ns: u64,
    pub(super) open: u64,
    /// When the storm was, and how many connections are to be open again.
    pub(super) storm: Option<(u64, u64)>,
    /// Who speaks next.
    pub(super) speaker: usize,
    /// What is due on connections within the next milliseconds.
    pub(super) soon: Soon,
    /// Messages and frames in the making.
    pub(super) text: Vec<u8>,
    pub(super) frame: Vec<u8>,
    index: usize,
    workers: usize,
    begun: Instant,
    /// The same on the timer's clock.
    pub(super) begun_ns: u64,
    timer: Timer,
    calm: Calm,
    /// Connections that this worker is to open.
    wanted: usize,
    arrivals: Arrivals,
    message_due_ns: u64,
    storm_due_ns: u64,
    probe_due_ns: u64,
    stretch: Stretch,
    give_up_ns: u64,
    look_due_ns: u64,
    interval: u64,
    cpu_ns: u64,
    waiting: Waiting,
    messages: Sender<Message<Record>>,
}

/// The times at which messages are due.
fn arrivals(setup: &Setup, index: usize, workers: usize) -> Arrivals {
    let (ramp, hold, rate) = (setup.options.ramp_time(), setup.options.hold, setup.options.rate);
    let stages = vec![Stage { duration: ramp, from: 0.0, to: 0.0 }, Stage { duration: hold, from: rate, to: rate }];
    Arrivals::new(Arc::new(Schedule::new(stages)), Spacing::Constant, index, workers, setup.options.seed)
}

impl Worker {
    pub(super) fn new(
        setup: Arc<Setup>,
        index: usize,
        workers: usize,
        messages: Sender<Message<Record>>,
    ) -> io::Result<Self> {
        let reactor = Reactor::new()?;
        let timer = Timer::new()?;
        reactor.watch(timer.descriptor(), TIMER, false)?;
        let options = &setup.options;
        let wanted = options.connections / workers + usize::from(index < options.connections % workers);
        let mut records: Vec<Box<Record>> = std::iter::repeat_with(Record::with_room).take(RECORDS).collect();
        let mut arrivals = arrivals(&setup, index, workers);
        let message_due_ns = arrivals.next().unwrap_or(NEVER);
        let storm_due_ns = options.storm.map_or(NEVER, |storm| {
            setup.hold_begins_ns.saturating_add(u64::try_from(storm.after.as_nanos()).unwrap_or(NEVER))
        });
        Ok(Self {
            reactor,
            record: records.pop().unwrap_or_default(),
            home: Home::new(records, Record::clear),
            random: fastrand::Rng::with_seed(options.seed.wrapping_add(index as u64)),
            head: ResponseHead::default(),
            connections: Vec::new(),
            now_ns: 0,
            open: 0,
            storm: None,
            speaker: 0,
            soon: Soon::default(),
            text: Vec::new(),
            frame: Vec::new(),
            index,
            workers,
            begun: Instant::now(),
            begun_ns: 0,
            timer,
            calm: Calm::default(),
            wanted,
            arrivals,
            message_due_ns,
            storm_due_ns,
            probe_due_ns: LAG_PROBE_NS,
            stretch: Stretch::Holding,
            give_up_ns: NEVER,
            look_due_ns: 0,
            interval: 0,
            cpu_ns: 0,
            waiting: Waiting::new(),
            messages,
            setup,
        })
    }

    /// The number of a connection among those of all workers.
    pub(super) fn number(&self, slot: usize) -> usize {
        slot * self.workers + self.index
    }

    /// Whether nothing begins any more.
    pub(super) fn is_ending(&self) -> bool {
        self.stretch != Stretch::Holding
    }

    /// From the start to the end.
    pub(super) fn run(mut self, begun: Instant, stop: &AtomicBool) -> io::Result<()> {
        (self.begun, self.begun_ns) = (begun, monotonic_ns_at(begun));
        self.cpu_ns = thread_cpu_ns();
        // What it waited for the others to begin is no part of the run.
        self.waiting.lap();
        self.calm = Calm::at_begin(self.cpu_ns);
        let mut woke_ns = None;
        loop {
            self.look_at_clock();
            if let Some(woke_ns) = woke_ns {
                self.record.turn.record(self.now_ns - woke_ns);
            }
            self.dispatch(DUE_IN_A_ROW);
            if self.is_over(stop) {
                break;
            }
            self.turn_interval(false);
            let wait_ms = self.wait_ms()?;
            self.reactor.turn(Some(wait_ms))?;
            self.look_at_clock();
            woke_ns = Some(self.now_ns);
            // The turn may have ended for this; whatever else is ready comes behind.
            self.dispatch(DUE_IN_A_ROW);
            let mut ready = self.reactor.ready_len().max(1);
            while ready > 0 {
                match self.reactor.next_ready() {
                    Some(Ready::Task(task)) => {
                        ready -= 1;
                        self.drive(task.index as usize);
                    }
                    Some(_) => {}
                    None => break,
                }
                self.look_at_clock();
                self.dispatch(DUE_BETWEEN_SOCKETS);
            }
        }
        self.record.unrecovered = u64::from(self.storm.is_some());
        self.turn_interval(true);
        Ok(())
    }

    pub(super) fn look_at_clock(&mut self) {
        self.now_ns = Instant::now().saturating_duration_since(self.begun).as_nanos() as u64;
    }

    fn drive(&mut self, slot: usize) {
        match self.connections.get(slot).map(|connection| connection.phase) {
            Some(Phase::Waiting) => self.waiting(slot),
            Some(Phase::Connecting) => self.connecting(slot),
            Some(Phase::Opening) => self.opening(slot),
            Some(Phase::Open | Phase::Closing) => self.open(slot),
            Some(Phase::Gone) | None => {}
        }
    }

    /// When the next connection is to be opened.
    fn open_due_ns(&self) -> u64 {
        if self.connections.len() >= self.wanted || self.is_ending() {
            return NEVER;
        }
        (self.number(self.connections.len()) as f64 / self.setup.options.ramp * 1e9) as u64
    }

    /// What is due first, and when.
    fn next_due(&self) -> (u64, Due) {
        let unless_ending = |due_ns: u64| if self.is_ending() { NEVER } else { due_ns };
        let all = [
            (self.open_due_ns(), Due::Opening),
            (unless_ending(self.message_due_ns), Due::Message),
            (self.soon.next_ns(), Due::OnConnection),
            (unless_ending(self.storm_due_ns), Due::Storm),
        ];
        all.into_iter()
            .fold((self.probe_due_ns, Due::Probe), |first, other| if other.0 < first.0 { other } else { first })
    }

    /// Whether something is due, before which nothing else should be done.
    pub(super) fn is_due(&self) -> bool {
        self.next_due().0 <= self.now_ns
    }

    /// Does what is due, at most so much, and notes how late that is and by whose doing.
    fn dispatch(&mut self, at_most: usize) {
        for _ in 0..at_most {
            let (due_ns, due) = self.next_due();
            if due_ns > self.now_ns {
                return self.calm.note(self.now_ns, CALM_OPEN_NS, thread_cpu_ns);
            }
            match due {
                Due::Opening => {
                    self.note_lag(due_ns);
                    self.add_connection(due_ns);
                }
                Due::Message => {
                    self.note_lag(due_ns);
                    self.speak(due_ns);
                    self.message_due_ns = self.arrivals.next().unwrap_or(NEVER);
                }
                Due::OnConnection => {
                    if let Some((due_ns, slot)) = self.soon.take(self.now_ns) {
                        self.come_due(slot, due_ns);
                    }
                }
                Due::Storm => {
                    self.storm_due_ns = NEVER;
                    self.cut();
                }
                Due::Probe => self.note_lag(due_ns),
            }
            self.look_at_clock();
        }
    }

    /// Something is done now that was due at this time.
    fn note_lag(&mut self, due_ns: u64) {
        let lag_ns = self.now_ns.saturating_sub(due_ns);
        self.record.lag.record(lag_ns);
        self.record.lag_own.record(self.calm.own_ns(lag_ns, thread_cpu_ns));
        self.probe_due_ns = self.now_ns + LAG_PROBE_NS;
    }

    /// The next ping of a connection is due, or its next attempt; unless it has ended since that was known.
    fn come_due(&mut self, slot: usize, due_ns: u64) {
        let connection = self.connections.get(slot).filter(|connection| connection.due_ns == due_ns);
        match connection.map(|connection| connection.phase) {
            Some(Phase::Open) => {
                self.note_lag(due_ns);
                self.ping(slot);
            }
            Some(Phase::Waiting) if !self.is_ending() => {
                self.note_lag(due_ns);
                self.record.again += 1;
                self.begin(slot, due_ns);
            }
            _ => {}
        }
    }

    fn add_connection(&mut self, due_ns: u64) {
        let slot = self.connections.len();
        let number = self.number(slot);
        let stall = self.setup.options.stall;
        // Evenly among the connections, so that every room has its share.
        let stalled = ((number + 1) as f64 * stall).floor() > (number as f64 * stall).floor();
        let task = self.reactor.create_task();
        debug_assert_eq!(task.index as usize, slot, "tasks are made here only, and never end");
        self.connections.push(Connection::new(task, self.setup.room(number), stalled));
        self.begin(slot, due_ns);
    }

    /// The storm: a share of the open connections is gone at once.
    fn cut(&mut self) {
        let share = self.setup.options.storm.map_or(0.0, |storm| storm.share);
        self.storm = Some((self.now_ns, self.open));
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

    fn is_over(&mut self, stop: &AtomicBool) -> bool {
        if stop.load(Ordering::Relaxed) {
            self.stop_speaking();
            self.end_all(Ending::CutOff, None);
            return true;
        }
        let now_ns = self.now_ns;
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

    fn stop_speaking(&mut self) {
        if self.stretch == Stretch::Holding {
            self.setup.falls_silent();
        }
    }

    /// Whether nobody speaks any more and everybody has heard everything.
    fn is_all_delivered(&mut self) -> bool {
        if self.setup.options.rate <= 0.0 {
            return true;
        }
        if self.now_ns < self.look_due_ns || !self.setup.are_silent(self.workers) {
            return false;
        }
        self.look_due_ns = self.now_ns + DELIVERED_LOOK_NS;
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

    /// How long the loop may sleep without the timer, which is set for what is due next.
    fn wait_ms(&mut self) -> io::Result<u64> {
        let (due_ns, _) = self.next_due();
        if due_ns <= self.now_ns {
            return Ok(0);
        }
        self.timer.set(self.begun_ns.saturating_add(due_ns))?;
        Ok(LOOK_PERIOD_MS)
    }

    fn turn_interval(&mut self, last: bool) {
        let interval_ns = u64::try_from(self.setup.options.interval.as_nanos()).unwrap_or(NEVER).max(1);
        let now = self.now_ns / interval_ns;
        if now <= self.interval && !last {
            return;
        }
        let cpu_ns = thread_cpu_ns();
        let spent_ns = cpu_ns.saturating_sub(std::mem::replace(&mut self.cpu_ns, cpu_ns));
        let fresh = self.home.take().unwrap_or_default();
        let mut record = Loan::from_home(std::mem::replace(&mut self.record, fresh), &self.home);
        record.spent = Spent { cpu_ns: spent_ns, waited_ns: self.waiting.lap() };
        (record.spent_most, record.open) = (record.spent, self.open);
        self.tell(record, last);
        // Whoever slept through intervals had its connections open meanwhile.
        let first = now.saturating_sub(SLEPT_THROUGH_MAX).max(self.interval + 1);
        for slept in first..now {
            self.interval = slept;
            self.tell(Loan::of(Record { open: self.open, ..Record::default() }), false);
        }
        self.interval = now;
        if last {
            let (ended_ns, worker) = (self.now_ns, self.index);
            let _ = self.messages.send(Message::Done { worker, ended_ns, completed_ns: ended_ns });
        }
    }

    fn tell(&self, record: Loan<Record>, last: bool) {
        let (worker, interval) = (self.index, self.interval);
        // Without a receiver there is nobody to tell.
        let _ = self.messages.send(Message::Interval { worker, interval, record, last });
    }
}

/// Builds a worker in its own thread and runs it to its end.
pub(super) fn run(setup: Arc<Setup>, place: &Place<Record>) {
    let Place { index, of, together, messages } = place;
    let built = Worker::new(setup, *index, *of, messages.clone());
    // One that failed is waited for as well.
    let _ = messages.send(Message::Ready);
    let begun = *together.begun.wait();
    if let Err(error) = built.and_then(|worker| worker.run(begun, &together.stop)) {
        let _ = messages.send(Message::Failed(error));
    }
}
