//! A thread of the load: the loop that asks the pacer when a request is due, gives it to the driver of a protocol, and hands
//! what was recorded to `crew` once per interval. It knows no protocol: a [`Driver`] does.

pub(crate) mod own;
pub(crate) mod timer;

use crate::loan::Loan;
use crate::options::{Options, Pace};
use crate::pace::{Arrivals, Schedule};
use crate::processors::{Spent, Waiting};
use crate::record::{Bench, Record};
use crate::script::Globals;
use own::Calm;
use reactor::{Reactor, Ready, SourceId, TaskId};
use rustix::time::{ClockId, clock_gettime};
use std::io;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::Sender;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};
use timer::{Timer, monotonic_ns_at};

/// The timer among the reactor's sources.
const TIMER: SourceId = SourceId(0);
/// In closed loop the worker's own punctuality is looked at so often.
const LAG_PROBE_NS: u64 = 10_000_000;
/// Between two looks at the stop flag when nothing else happens.
const LOOK_PERIOD_MS: u64 = 50;
/// Requests that are sent in a row because they are due: after a stall of the generator the sockets want to be read as well.
pub(crate) const DUE_IN_A_ROW: usize = 64;
/// The same between two of a turn's sockets: while it catches up, the answers are not to lie unread behind all that is overdue.
pub(crate) const DUE_BETWEEN_SOCKETS: usize = 8;
/// In open loop, of the worker's own work before a request was due at most so much may be counted into its lag.
pub(crate) const CALM_OPEN_NS: u64 = 20_000;
/// The same in closed loop, where a look every 10 ms at the worker's punctuality is all that can be late.
const CALM_CLOSED_NS: u64 = 1_000_000;
/// "Nothing is due any more."
const NEVER: u64 = u64::MAX;

/// A protocol of the load. It is told what is due and what the sockets report, and records on the bench.
pub(crate) trait Driver {
    /// The run begins. A closed loop sends its first requests.
    fn begin(&mut self, bench: &mut Bench);
    /// Open loop: a request is due, or was at this time.
    fn arrive(&mut self, bench: &mut Bench, due_ns: u64);
    /// Something happened for one of the driver's tasks.
    fn ready(&mut self, bench: &mut Bench, task: TaskId);
    /// Requests that were begun and have not ended, those in line included.
    fn under_way(&self) -> usize;
    /// The run is at its end: what the driver knows beyond the records of intervals is to be added.
    fn end(&mut self, bench: &mut Bench);
    /// The run is over: what is under way counts as failed by this cause, or as cut off without one.
    fn abandon(&mut self, bench: &mut Bench, cause: Option<crate::Cause>);
}

/// How the threads of a run begin and end together.
#[derive(Debug)]
pub(crate) struct Together {
    /// Set when all workers are ready; latencies and schedules count from here.
    pub(crate) begun: OnceLock<Instant>,
    pub(crate) stop: Arc<AtomicBool>,
}

impl Together {
    /// All begin; latencies and schedules count from this moment.
    pub(crate) fn begin(&self, at: Instant) {
        // Whoever comes second begins with the first.
        let _ = self.begun.set(at);
    }
}

/// What a worker tells the run. Workers are numbered through over all processes.
#[derive(Debug)]
pub(crate) enum Message<R = Record> {
    /// It is built, or has failed to be, and waits for the start.
    Ready,
    /// What it recorded in an interval; it will send nothing more for this interval or an earlier one. After the last one
    /// comes `Done`.
    Interval { worker: usize, interval: u64, record: Loan<R>, last: bool },
    /// It has ended, so many nanoseconds after the start; the last response was complete at the second time.
    Done { worker: usize, ended_ns: u64, completed_ns: u64 },
    /// It cannot go on, which ends the run.
    Failed(io::Error),
    /// Its script has asked for the end of the run, in another process.
    Stopped,
    /// The globals of its script when all was over, from another process.
    Script { worker: usize, globals: Globals },
    /// The process of these workers has ended without a word: how.
    Lost { workers: Range<usize>, text: String },
}

/// One worker, with its driver.
#[derive(Debug)]
pub(crate) struct Worker<D> {
    bench: Bench,
    driver: D,
    timer: Timer,
    arrivals: Option<Arrivals>,
    /// The beginning on the timer's clock.
    begun_ns: u64,
    calm: Calm,
    end_ns: u64,
    drain_ns: u64,
    /// When what is still under way is given up; set when nothing more begins.
    give_up_ns: u64,
    interval_ns: u64,
    /// The interval that is recorded at the moment.
    interval: u64,
    cpu_ns: u64,
    waiting: Waiting,
    index: usize,
    messages: Sender<Message>,
    stop: Arc<AtomicBool>,
}

/// Builds a worker in its own thread and runs it to its end. `build` makes the driver.
pub(crate) fn run<D: Driver>(
    options: &Options,
    index: usize,
    workers: usize,
    together: &Together,
    messages: &Sender<Message>,
    build: impl FnOnce(&Bench) -> D,
) {
    let built = Reactor::new().and_then(|reactor| {
        let timer = Timer::new()?;
        reactor.watch(timer.descriptor(), TIMER, false)?;
        let bench = Bench::new(reactor, options, index, workers);
        let driver = build(&bench);
        Ok(Worker::new(options, index, workers, bench, driver, timer, messages.clone(), &together.stop))
    });
    // A worker that failed is waited for as well.
    let _ = messages.send(Message::Ready);
    let begun = *together.begun.wait();
    let result = built.and_then(|worker| worker.run(begun));
    if let Err(error) = result {
        // Without a receiver there is nobody to tell.
        let _ = messages.send(Message::Failed(error));
    }
}

impl<D: Driver> Worker<D> {
    #[allow(clippy::too_many_arguments, reason = "called once, by `run`, which has each of them in a variable")]
    fn new(
        options: &Options,
        index: usize,
        workers: usize,
        bench: Bench,
        driver: D,
        timer: Timer,
        messages: Sender<Message>,
        stop: &Arc<AtomicBool>,
    ) -> Self {
        let ns = |duration: Duration| u64::try_from(duration.as_nanos()).unwrap_or(NEVER);
        let arrivals = match &options.pace {
            Pace::Closed { .. } => None,
            Pace::Open { stages, spacing } => {
                let schedule = Arc::new(Schedule::new(stages.clone()));
                Some(Arrivals::new(schedule, *spacing, index, workers, options.seed.wrapping_add(index as u64)))
            }
        };
        Self {
            bench,
            driver,
            timer,
            arrivals,
            begun_ns: 0,
            calm: Calm::default(),
            end_ns: options.duration.map_or(NEVER, ns),
            drain_ns: ns(options.drain),
            give_up_ns: NEVER,
            interval_ns: ns(options.interval).max(1),
            interval: 0,
            cpu_ns: 0,
            waiting: Waiting::new(),
            index,
            messages,
            stop: Arc::clone(stop),
        }
    }

    fn run(mut self, begun: Instant) -> io::Result<()> {
        self.bench.begin(begun);
        self.begun_ns = monotonic_ns_at(begun);
        self.cpu_ns = thread_cpu_ns();
        self.calm = Calm::at_begin(self.cpu_ns);
        // What it waited for the others to begin is no part of the run.
        self.waiting.lap();
        self.bench.due_ns = self.next_due();
        self.bench.look_at_clock();
        self.driver.begin(&mut self.bench);
        let (mut woke_ns, mut failure) = (None, None);
        loop {
            self.bench.look_at_clock();
            if let Some(woke_ns) = woke_ns {
                self.bench.record.turn.record(self.bench.now_ns - woke_ns);
            }
            self.dispatch(DUE_IN_A_ROW);
            if self.is_over() {
                break;
            }
            if let Some(text) = self.bench.failure.take() {
                // What was recorded until then stays.
                self.driver.abandon(&mut self.bench, None);
                failure = Some(io::Error::other(text));
                break;
            }
            self.turn_interval(false);
            let wait_ms = self.wait_ms()?;
            self.bench.reactor.turn(Some(wait_ms))?;
            self.bench.look_at_clock();
            woke_ns = Some(self.bench.now_ns);
            // The turn may have ended for this; whatever else is ready comes behind.
            self.dispatch(DUE_IN_A_ROW);
            while let Some(ready) = self.bench.reactor.next_ready() {
                if let Ready::Task(task) = ready {
                    self.driver.ready(&mut self.bench, task);
                    if self.bench.is_open {
                        self.bench.look_at_clock();
                    }
                    self.dispatch(DUE_BETWEEN_SOCKETS);
                }
            }
        }
        self.driver.end(&mut self.bench);
        self.turn_interval(true);
        let (ended_ns, completed_ns) = (self.bench.now_ns, self.bench.completed_ns);
        let _ = self.messages.send(Message::Done { worker: self.index, ended_ns, completed_ns });
        failure.map_or(Ok(()), Err)
    }

    /// The next time something is due after the last one.
    fn next_due(&mut self) -> u64 {
        match &mut self.arrivals {
            Some(_) if self.bench.is_exhausted() => NEVER,
            Some(arrivals) => arrivals.next().unwrap_or(NEVER),
            None => self.bench.due_ns.max(self.bench.now_ns).saturating_add(LAG_PROBE_NS),
        }
    }

    /// Sends what is due, at most so many, and notes how late that is and by whose doing.
    fn dispatch(&mut self, at_most: usize) {
        for _ in 0..at_most {
            let (now_ns, due_ns) = (self.bench.now_ns, self.bench.due_ns);
            if now_ns < due_ns {
                let every_ns = if self.bench.is_open { CALM_OPEN_NS } else { CALM_CLOSED_NS };
                return self.calm.note(now_ns, every_ns, thread_cpu_ns);
            }
            let lag_ns = now_ns - due_ns;
            self.bench.record.lag.record(lag_ns);
            self.bench.record.lag_own.record(self.calm.own_ns(lag_ns, thread_cpu_ns));
            if self.arrivals.is_some() && self.bench.may_begin() {
                self.driver.arrive(&mut self.bench, due_ns);
                self.bench.look_at_clock();
            }
            self.bench.due_ns = self.next_due();
        }
    }

    /// Whether there is nothing left to do; begins the end when it is time.
    fn is_over(&mut self) -> bool {
        if self.stop.load(Ordering::Relaxed) {
            self.driver.abandon(&mut self.bench, None);
            return true;
        }
        let now_ns = self.bench.now_ns;
        let no_more = match self.arrivals {
            Some(_) => self.bench.due_ns == NEVER,
            None => now_ns >= self.end_ns,
        };
        if self.give_up_ns == NEVER && no_more {
            self.bench.ending = true;
            self.give_up_ns = now_ns.saturating_add(self.drain_ns);
        }
        if !self.bench.is_exhausted() {
            return false;
        }
        if self.driver.under_way() == 0 {
            return true;
        }
        if now_ns >= self.give_up_ns {
            self.driver.abandon(&mut self.bench, Some(crate::Cause::Unanswered));
            return true;
        }
        false
    }

    /// How long the loop may sleep without the timer, which is set for the next request.
    fn wait_ms(&mut self) -> io::Result<u64> {
        let (now_ns, due_ns) = (self.bench.now_ns, self.bench.due_ns);
        if due_ns <= now_ns {
            return Ok(0);
        }
        if due_ns != NEVER {
            self.timer.set(self.begun_ns.saturating_add(due_ns))?;
        }
        // Rounded up: the end may be a millisecond late, which the figures know, but must not be spun for.
        let until = |at_ns: u64| at_ns.saturating_sub(now_ns).div_ceil(1_000_000);
        let end_ms = if self.give_up_ns == NEVER { until(self.end_ns) } else { until(self.give_up_ns) };
        Ok(LOOK_PERIOD_MS.min(end_ms.max(1)))
    }

    /// Hands out what was recorded when an interval is over.
    fn turn_interval(&mut self, last: bool) {
        let now = self.bench.now_ns / self.interval_ns;
        if now <= self.interval && !last {
            return;
        }
        let cpu_ns = thread_cpu_ns();
        let spent_ns = cpu_ns.saturating_sub(std::mem::replace(&mut self.cpu_ns, cpu_ns));
        let mut record = self.bench.hand_out();
        record.spent = Spent { cpu_ns: spent_ns, waited_ns: self.waiting.lap() };
        record.spent_most = record.spent;
        let _ = self.messages.send(Message::Interval { worker: self.index, interval: self.interval, record, last });
        self.interval = now;
    }
}

/// CPU time of the calling thread.
pub(crate) fn thread_cpu_ns() -> u64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}
