//! A thread of a load of any protocol. Its loop does what is due before it reads anything, lets the job handle ready
//! sockets, and sends its record to `crew` once per interval. The protocol defines what is due and how to do it: a [`Job`],
//! which works at a [`Seat`]. `requests` is the job of an HTTP load; `websocket` has that of WebSockets.

mod calm;
pub(crate) mod requests;
mod seat;
pub(crate) mod timer;

pub(crate) use seat::Seat;

use crate::collect::Recorded;
use crate::crew::Place;
use crate::loan::Loan;
use crate::record::HttpRecord;
use crate::remote::AgentFigures;
use crate::script::Globals;
use reactor::{Ready, TaskId};
use std::io;
use std::ops::Range;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

/// Interval of the checks of the stop flag when nothing else happens.
const LOOK_PERIOD_MS: u64 = 50;
/// Most due items that are done in a row, so that after a stall of the generator the sockets are read as well.
const DUE_IN_A_ROW: usize = 64;
/// The same after each ready socket of a turn, so that responses do not stay unread while the worker catches up.
const DUE_BETWEEN_SOCKETS: usize = 8;
/// Where work has due times: at most this much of the worker's work before something was due may count into its lag.
pub(crate) const CALM_OPEN_NS: u64 = 20_000;
/// Interval of the probes of the worker's own lag when nothing else is due.
pub(crate) const LAG_PROBE_NS: u64 = 10_000_000;
/// Most intervals that a worker reports after it was stopped for a long time.
const SLEPT_THROUGH_MAX: u64 = 1000;
/// Nothing is due any more.
pub(crate) const NEVER: u64 = u64::MAX;

/// The work of a thread in one protocol. The thread tells it what is due and which sockets are ready; it records at its
/// seat.
pub(crate) trait Job {
    /// The record of an interval.
    type Record: Recorded;
    /// What can become due.
    type Due: Copy;

    fn seat(&mut self) -> &mut Seat<Self::Record>;
    /// Whether tasks that yield within a turn wait until the next check of the sockets, the end and the interval.
    fn yields_to_next_turn(&self) -> bool {
        true
    }
    /// Called when the run begins. What was due before `from_ns` is left out.
    fn begin(&mut self, from_ns: u64);
    /// What is due next, and when.
    fn next_due(&self) -> (u64, Self::Due);
    /// Does what was due at that time, records its lag, and reads the clock if that took time.
    fn come_due(&mut self, due_ns: u64, due: Self::Due);
    /// The largest age of the calm moment from which a lag counts as the worker's own.
    fn calm_ns(&self) -> u64 {
        CALM_OPEN_NS
    }
    /// Handles an event of a task; reads the clock afterwards if anything can be due at a fixed time.
    fn ready(&mut self, task: TaskId);
    /// Whether nothing is left to do. It also begins the end when it is time. `told` means that the run must end at once.
    fn is_over(&mut self, told: bool) -> bool;
    /// Why the job cannot continue; this ends the run.
    fn failure(&mut self) -> Option<String> {
        None
    }
    /// The latest time at which `is_over` must be called.
    fn end_ns(&self) -> u64 {
        NEVER
    }
    /// Called at the end of the run, to record what the intervals do not contain.
    fn end(&mut self);
    /// When the last response was complete; `None` means the end of the run.
    fn completed_ns(&self) -> Option<u64> {
        None
    }
    /// Prepares an empty record that follows the current one.
    fn go_on(&self, _next: &mut Self::Record) {}
    /// Completes the record of an interval before it is sent.
    fn complete(&self, _record: &mut Self::Record) {}
    /// The record of an interval in which the worker did not run.
    fn slept_through(&self) -> Option<Self::Record> {
        None
    }
}

/// When workers begin.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Start {
    /// The start of the run: latencies and schedules count from this time.
    pub(crate) at: Instant,
    /// How far the run has gone when the workers join it: what is due before that is not theirs. 0 for those that are there
    /// from the start.
    pub(crate) from_ns: u64,
}

/// Lets the threads of a run begin and end together.
#[derive(Debug)]
pub(crate) struct Together {
    /// Set when all workers are ready.
    pub(crate) begun: OnceLock<Start>,
    pub(crate) stop: Arc<AtomicBool>,
}

impl Together {
    /// Lets all workers begin; latencies and schedules count from this time.
    pub(crate) fn begin(&self, at: Instant) {
        self.join(Start { at, from_ns: 0 });
    }

    /// Lets all workers join a run.
    pub(crate) fn join(&self, start: Start) {
        // If the start is already set, the workers have begun.
        let _ = self.begun.set(start);
    }
}

/// A message from a worker to the run. Workers are numbered across all processes.
#[derive(Debug)]
pub(crate) enum Message<R = HttpRecord> {
    /// The worker is built, or failed to be built, and waits for the start.
    Ready,
    /// The record of an interval. The worker sends nothing more for this interval or an earlier one. After the last one
    /// comes `Done`.
    Interval { worker: usize, interval: u64, record: Loan<R>, last: bool },
    /// The worker has ended, this many nanoseconds after the start; the second time is that of its last complete response.
    Done { worker: usize, ended_ns: u64, completed_ns: u64 },
    /// The worker cannot continue; this ends the run.
    Failed(io::Error),
    /// The script of a worker in another process has asked to end the run.
    Stopped,
    /// The final globals of the script of a worker in another process.
    Script { worker: usize, globals: Globals },
    /// The process of these workers ended without a report; `text` says how.
    Lost { workers: Range<usize>, text: String },
    /// A remark about the run, for its report.
    Mark(String),
    /// The agents of the run, at its end.
    Agents(Vec<AgentFigures>),
}

/// Builds a worker in its own thread and runs it to its end. `room` creates empty records with the memory of a usual run;
/// `build` creates the job.
pub(crate) fn run<J: Job>(
    place: &Place<J::Record>,
    interval: Duration,
    room: impl Fn() -> Box<J::Record>,
    build: impl FnOnce(Seat<J::Record>) -> J,
) {
    let built = Seat::new(place, interval, room).map(build);
    // A worker that failed to be built reports Ready, too, because all workers are awaited.
    let _ = place.messages.send(Message::Ready);
    let begun = *place.together.begun.wait();
    if let Err(error) = built.and_then(|mut job| run_to_end(&mut job, begun)) {
        // If the receiver is gone, the error has no reader.
        let _ = place.messages.send(Message::Failed(error));
    }
}

fn run_to_end<J: Job>(job: &mut J, start: Start) -> io::Result<()> {
    job.seat().begin(start);
    job.begin(start.from_ns);
    let (mut woke_ns, mut failure) = (None, None);
    loop {
        let seat = job.seat();
        seat.look_at_clock();
        if let Some(woke_ns) = woke_ns {
            let turn_ns = seat.now_ns - woke_ns;
            seat.record.generator_mut().turn.record(turn_ns);
        }
        dispatch(job, DUE_IN_A_ROW);
        let told = job.seat().is_stopping();
        if job.is_over(told) {
            break;
        }
        failure = job.failure().map(io::Error::other);
        if failure.is_some() {
            break;
        }
        turn_interval(job, false);
        let (due_ns, _) = job.next_due();
        let end_ns = job.end_ns();
        let seat = job.seat();
        let wait_ms = seat.wait_ms(due_ns, end_ns)?;
        seat.reactor.turn(Some(wait_ms))?;
        seat.look_at_clock();
        woke_ns = Some(seat.now_ns);
        // The wait may have ended because something became due; ready sockets come after it.
        dispatch(job, DUE_IN_A_ROW);
        drive_ready(job);
    }
    job.end();
    turn_interval(job, true);
    let completed_ns = job.completed_ns();
    job.seat().announce_done(completed_ns);
    failure.map_or(Ok(()), Err)
}

/// Handles all ready sockets, and does what is due between them.
fn drive_ready<J: Job>(job: &mut J) {
    let batch = job.seat().reactor.ready_len().max(1);
    let mut left = if job.yields_to_next_turn() { batch } else { usize::MAX };
    while left > 0 {
        let Some(ready) = job.seat().reactor.next_ready() else { break };
        if let Ready::Task(task) = ready {
            left -= 1;
            job.ready(task);
            dispatch(job, DUE_BETWEEN_SOCKETS);
        }
    }
}

/// Does what is due, at most `at_most` items.
fn dispatch<J: Job>(job: &mut J, at_most: usize) {
    for _ in 0..at_most {
        let (due_ns, due) = job.next_due();
        let calm_ns = job.calm_ns();
        let seat = job.seat();
        if due_ns > seat.now_ns {
            return seat.note_calm(calm_ns);
        }
        job.come_due(due_ns, due);
    }
}

/// Sends the record when an interval is over.
fn turn_interval<J: Job>(job: &mut J, last: bool) {
    let seat = job.seat();
    let Some(now) = seat.interval_ended(last) else { return };
    let spent = seat.lap();
    let mut next = seat.spare_record().unwrap_or_default();
    job.go_on(&mut next);
    let mut record = job.seat().hand_out(next);
    let generator = record.generator_mut();
    (generator.spent, generator.spent_most) = (spent, spent);
    job.complete(&mut record);
    job.seat().send_record(record, last);
    let first = now.saturating_sub(SLEPT_THROUGH_MAX).max(job.seat().interval() + 1);
    for slept in first..now {
        let Some(record) = job.slept_through() else { break };
        job.seat().turn_to(slept);
        job.seat().send_record(Loan::of(record), false);
    }
    job.seat().turn_to(now);
}

/// Processor time of the calling thread.
pub(crate) fn thread_cpu_ns() -> u64 {
    reactor::thread_cpu().as_nanos() as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::channel;

    /// A job with a few due times at regular distances and nothing to read.
    struct Beats {
        seat: Seat<HttpRecord>,
        left: u64,
        every_ns: u64,
        due_ns: u64,
    }

    impl Job for Beats {
        type Record = HttpRecord;
        type Due = ();

        fn seat(&mut self) -> &mut Seat<HttpRecord> {
            &mut self.seat
        }

        fn begin(&mut self, _from_ns: u64) {
            self.due_ns = self.every_ns;
        }

        fn next_due(&self) -> (u64, ()) {
            (if self.left == 0 { NEVER } else { self.due_ns }, ())
        }

        fn come_due(&mut self, due_ns: u64, (): ()) {
            self.seat.note_lag(due_ns);
            (self.left, self.due_ns) = (self.left - 1, due_ns + self.every_ns);
        }

        fn ready(&mut self, _task: TaskId) {}

        fn is_over(&mut self, told: bool) -> bool {
            told || self.left == 0
        }

        fn end(&mut self) {
            self.seat.record.cut_off = self.left;
        }
    }

    /// The messages of a worker with five due times: its merged record, and whether its last messages came in order.
    fn merged_records(every_ns: u64, stop: bool) -> (HttpRecord, bool) {
        let (messages, heard) = channel();
        let together = Arc::new(Together { begun: OnceLock::new(), stop: Arc::new(AtomicBool::new(stop)) });
        together.begin(Instant::now());
        let place = Place { index: 0, of: 1, together, messages };
        run(&place, Duration::from_millis(1), Box::default, |seat| Beats { seat, left: 5, every_ns, due_ns: NEVER });
        drop(place);
        let said: Vec<_> = heard.iter().collect();
        let in_order = matches!(
            said.as_slice(),
            [Message::Ready, .., Message::Interval { last: true, .. }, Message::Done { worker: 0, .. }]
        );
        let mut whole = HttpRecord::default();
        for message in &said {
            if let Message::Interval { record, .. } = message {
                whole.add(record);
            }
        }
        (whole, in_order)
    }

    #[test]
    fn due_work_is_done_and_reported_per_interval() {
        let (whole, in_order) = merged_records(2_000_000, false);
        assert!(in_order);
        assert_eq!((whole.generator.lag.count(), whole.generator.lag_own.count(), whole.cut_off), (5, 5, 0));
    }

    #[test]
    fn stopped_worker_reports_unfinished_requests() {
        let (whole, in_order) = merged_records(3_600_000_000_000, true);
        assert!(in_order);
        assert_eq!((whole.generator.lag.count(), whole.cut_off), (0, 5));
    }
}
