//! The equipment of a worker of any protocol: its event loop, its clock, its record, the cause of its lag, and the
//! channel to the thread that merges the records.

use super::calm::Calm;
use super::timer::{Timer, monotonic_ns_at};
use super::{LOOK_PERIOD_MS, Message, NEVER, Start, thread_cpu_ns};
use crate::collect::Recorded;
use crate::crew::Place;
use crate::loan::{Home, Loan};
use crate::processors::{Spent, Waiting};
use crate::record::RECORDS;
use reactor::{Reactor, SourceId};
use std::io;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::Sender;
use std::time::{Duration, Instant};

/// The id of the timer among the reactor's sources.
const TIMER: SourceId = SourceId(0);

/// A worker's part of the run.
#[derive(Debug)]
pub(crate) struct Seat<R> {
    pub(crate) reactor: Rc<Reactor>,
    /// Nanoseconds since the start of the run, when the clock was last read.
    pub(crate) now_ns: u64,
    pub(crate) record: Box<R>,
    /// Number of this worker among all workers of all processes.
    pub(crate) index: usize,
    /// Number of all workers.
    pub(crate) workers: usize,
    /// The start of the run on the timer's clock.
    pub(crate) begun_ns: u64,
    begun: Instant,
    home: Arc<Home<R>>,
    timer: Timer,
    calm: Calm,
    interval_ns: u64,
    /// The interval that is being recorded.
    interval: u64,
    cpu_ns: u64,
    waiting: Waiting,
    messages: Sender<Message<R>>,
    stop: Arc<AtomicBool>,
}

impl<R: Recorded> Seat<R> {
    pub(super) fn new(place: &Place<R>, interval: Duration, room: impl Fn() -> Box<R>) -> io::Result<Self> {
        let reactor = Reactor::new()?;
        let timer = Timer::new()?;
        reactor.watch(timer.descriptor(), TIMER, false)?;
        let mut records: Vec<Box<R>> = std::iter::repeat_with(&room).take(RECORDS).collect();
        Ok(Self {
            reactor,
            now_ns: 0,
            record: records.pop().unwrap_or_else(&room),
            index: place.index,
            workers: place.of,
            begun_ns: 0,
            begun: Instant::now(),
            home: Home::new(records, R::clear),
            timer,
            calm: Calm::default(),
            interval_ns: u64::try_from(interval.as_nanos()).unwrap_or(NEVER).max(1),
            interval: 0,
            cpu_ns: 0,
            waiting: Waiting::new(),
            messages: place.messages.clone(),
            stop: Arc::clone(&place.together.stop),
        })
    }

    /// Begins the run at this moment. Time spent waiting for the other workers does not count.
    pub(super) fn begin(&mut self, start: Start) {
        (self.begun, self.begun_ns) = (start.at, monotonic_ns_at(start.at));
        self.interval = start.from_ns / self.interval_ns;
        self.cpu_ns = thread_cpu_ns();
        self.calm = Calm::at_begin(self.cpu_ns);
        self.waiting.lap();
        self.look_at_clock();
    }

    /// Reads the clock.
    #[inline]
    pub(crate) fn look_at_clock(&mut self) {
        self.now_ns = Instant::now().saturating_duration_since(self.begun).as_nanos() as u64;
    }

    /// Records the lag of something that was due at this time and is done now, and its cause.
    #[inline]
    pub(crate) fn note_lag(&mut self, due_ns: u64) {
        let lag_ns = self.now_ns.saturating_sub(due_ns);
        let own_ns = self.calm.own_ns(lag_ns, thread_cpu_ns);
        let times = self.record.generator_mut();
        times.lag.record(lag_ns);
        times.lag_own.record(own_ns);
    }

    /// Notes that nothing is due now.
    #[inline]
    pub(super) fn note_calm(&mut self, every_ns: u64) {
        self.calm.note(self.now_ns, every_ns, thread_cpu_ns);
    }

    pub(super) fn is_stopping(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    /// How long the loop may sleep. For what is due next it sets the timer instead.
    pub(super) fn wait_ms(&mut self, due_ns: u64, end_ns: u64) -> io::Result<u64> {
        if due_ns <= self.now_ns {
            return Ok(0);
        }
        if due_ns != NEVER {
            self.timer.set(self.begun_ns.saturating_add(due_ns))?;
        }
        // Rounded up, so that the loop does not spin. The run may then end a millisecond late, and its figures
        // include that.
        let end_ms = end_ns.saturating_sub(self.now_ns).div_ceil(1_000_000);
        Ok(LOOK_PERIOD_MS.min(end_ms.max(1)))
    }

    /// The interval that is being recorded.
    pub(super) fn interval(&self) -> u64 {
        self.interval
    }

    /// The current interval, if the recorded one is over or is the last.
    pub(super) fn interval_ended(&self, last: bool) -> Option<u64> {
        let now = self.now_ns / self.interval_ns;
        (now > self.interval || last).then_some(now)
    }

    pub(super) fn turn_to(&mut self, interval: u64) {
        self.interval = interval;
    }

    /// How the thread's time was spent since the last call.
    pub(super) fn lap(&mut self) -> Spent {
        let cpu_ns = thread_cpu_ns();
        let spent_ns = cpu_ns.saturating_sub(std::mem::replace(&mut self.cpu_ns, cpu_ns));
        Spent { cpu_ns: spent_ns, waited_ns: self.waiting.lap() }
    }

    /// An empty used record, if one has come back.
    pub(super) fn spare_record(&self) -> Option<Box<R>> {
        self.home.take()
    }

    /// Returns the current record and continues with `next`.
    pub(super) fn hand_out(&mut self, next: Box<R>) -> Loan<R> {
        Loan::from_home(std::mem::replace(&mut self.record, next), &self.home)
    }

    /// Sends the record of the interval. If the receiver is gone, it has no reader.
    pub(super) fn send_record(&self, record: Loan<R>, last: bool) {
        let (worker, interval) = (self.index, self.interval);
        let _ = self.messages.send(Message::Interval { worker, interval, record, last });
    }

    /// Reports the end of the worker.
    pub(super) fn announce_done(&self, completed_ns: Option<u64>) {
        let ended_ns = self.now_ns;
        let completed_ns = completed_ns.unwrap_or(ended_ns);
        let _ = self.messages.send(Message::Done { worker: self.index, ended_ns, completed_ns });
    }
}
