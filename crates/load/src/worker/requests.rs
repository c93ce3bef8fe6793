//! The job of a worker in a load over HTTP: the pacer says when a request is due, the driver sends it, and the end waits
//! for requests in flight. The protocol is in the [`Driver`].

use super::{CALM_OPEN_NS, Job, LAG_PROBE_NS, NEVER, Seat};
use crate::options::{Options, Pace};
use crate::pace::{Arrivals, Schedule};
use crate::record::HttpRecord;
use crate::tally::Tally;
use crate::template::Values;
use reactor::TaskId;
use std::sync::Arc;
use std::time::Duration;

/// As [`CALM_OPEN_NS`], for a closed loop. There only the probe every 10 ms can be late.
const CALM_CLOSED_NS: u64 = 1_000_000;

/// A protocol of the load. It is told what is due and which sockets are ready, and records on the bench.
pub(crate) trait Driver {
    /// Whether its tasks may wake themselves without end: then they wait for the next turn.
    fn yields_to_next_turn(&self) -> bool;
    /// Called when the run begins. A closed loop sends its first requests.
    fn begin(&mut self, bench: &mut Bench);
    /// Open loop: a request was due at this time.
    fn arrive(&mut self, bench: &mut Bench, due_ns: u64);
    /// Handles an event of one of the driver's tasks.
    fn ready(&mut self, bench: &mut Bench, task: TaskId);
    /// Number of requests that have begun and not ended, including those in line.
    fn under_way(&self) -> usize;
    /// Called at the end of the run, to add what the intervals' records do not contain.
    fn end(&mut self, bench: &mut Bench);
    /// When a virtual user of the driver continues after its think time.
    fn next_user_ns(&self) -> u64 {
        NEVER
    }
    /// A virtual user was due to continue.
    fn continue_user(&mut self, _bench: &mut Bench) {}
    /// Called once when no more requests begin.
    fn wind_up(&mut self, _bench: &mut Bench) {}
    /// Called when the run is over: requests in flight fail with this cause, or without one count as cut off.
    fn abandon(&mut self, bench: &mut Bench, cause: Option<crate::Cause>);
}

/// What is due.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum DueWork {
    /// A request; in a closed loop a probe of the worker's lag.
    Arrival,
    /// A virtual user continues.
    User,
}

/// A worker's requests, with their driver.
#[derive(Debug)]
pub(crate) struct Requests<D> {
    bench: Bench,
    driver: D,
    arrivals: Option<Arrivals>,
    end_ns: u64,
    drain_ns: u64,
    /// When requests in flight are given up; set when no more requests begin.
    give_up_ns: u64,
}

impl<D: Driver> Requests<D> {
    /// `build` creates the driver.
    pub(crate) fn new(seat: Seat<HttpRecord>, options: &Options, build: impl FnOnce(&Bench) -> D) -> Self {
        let ns = |duration: Duration| u64::try_from(duration.as_nanos()).unwrap_or(NEVER);
        let arrivals = match &options.pace {
            Pace::Closed { .. } => None,
            Pace::Open { stages, spacing } => {
                let schedule = Arc::new(Schedule::new(stages.clone()));
                let seed = options.seed.wrapping_add(seat.index as u64);
                Some(Arrivals::new(schedule, *spacing, seat.index, seat.workers, seed))
            }
        };
        let bench = Bench::new(seat, options);
        Self {
            driver: build(&bench),
            bench,
            arrivals,
            end_ns: options.duration.map_or(NEVER, ns),
            drain_ns: ns(options.drain),
            give_up_ns: NEVER,
        }
    }

    /// Computes the next due time.
    fn advance(&mut self) {
        self.bench.due_ns = match &mut self.arrivals {
            Some(_) if self.bench.is_exhausted() => NEVER,
            Some(arrivals) => arrivals.next().unwrap_or(NEVER),
            None => self.bench.due_ns.max(self.bench.seat.now_ns).saturating_add(LAG_PROBE_NS),
        };
    }
}

impl<D: Driver> Job for Requests<D> {
    type Record = HttpRecord;
    type Due = DueWork;

    fn seat(&mut self) -> &mut Seat<HttpRecord> {
        &mut self.bench.seat
    }

    fn yields_to_next_turn(&self) -> bool {
        self.driver.yields_to_next_turn()
    }

    fn begin(&mut self, from_ns: u64) {
        self.advance();
        while self.arrivals.is_some() && self.bench.due_ns < from_ns {
            self.advance();
        }
        self.bench.seat.look_at_clock();
        self.driver.begin(&mut self.bench);
    }

    #[inline]
    fn next_due(&self) -> (u64, DueWork) {
        let user_ns = self.driver.next_user_ns();
        if user_ns < self.bench.due_ns { (user_ns, DueWork::User) } else { (self.bench.due_ns, DueWork::Arrival) }
    }

    fn come_due(&mut self, due_ns: u64, due: DueWork) {
        self.bench.seat.note_lag(due_ns);
        if due == DueWork::User {
            self.driver.continue_user(&mut self.bench);
            return self.bench.seat.look_at_clock();
        }
        if self.arrivals.is_some() && self.bench.may_begin() {
            self.driver.arrive(&mut self.bench, due_ns);
            self.bench.seat.look_at_clock();
        }
        self.advance();
    }

    fn calm_ns(&self) -> u64 {
        if self.bench.is_open || self.bench.has_users { CALM_OPEN_NS } else { CALM_CLOSED_NS }
    }

    fn ready(&mut self, task: TaskId) {
        self.driver.ready(&mut self.bench, task);
        if self.bench.is_open || self.bench.has_users {
            self.bench.seat.look_at_clock();
        }
    }

    fn is_over(&mut self, told: bool) -> bool {
        if told {
            self.driver.abandon(&mut self.bench, None);
            return true;
        }
        let now_ns = self.bench.seat.now_ns;
        let no_more = match self.arrivals {
            Some(_) => self.bench.due_ns == NEVER,
            None => now_ns >= self.end_ns,
        };
        if self.give_up_ns == NEVER && no_more {
            self.bench.ending = true;
            self.give_up_ns = now_ns.saturating_add(self.drain_ns);
            self.driver.wind_up(&mut self.bench);
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

    fn failure(&mut self) -> Option<String> {
        let failure = self.bench.failure.take()?;
        // The record up to then is kept.
        self.driver.abandon(&mut self.bench, None);
        Some(failure)
    }

    fn end_ns(&self) -> u64 {
        if self.give_up_ns == NEVER { self.end_ns } else { self.give_up_ns }
    }

    fn end(&mut self) {
        self.driver.end(&mut self.bench);
    }

    fn completed_ns(&self) -> Option<u64> {
        Some(self.bench.completed_ns)
    }

    /// Lengths are compared with the first response of the run, also across intervals.
    fn go_on(&self, next: &mut HttpRecord) {
        let old = &self.bench.seat.record.targets;
        next.targets.resize_with(old.len(), Tally::default);
        for (next, old) in next.targets.iter_mut().zip(old) {
            next.length_first = old.length_first;
        }
    }
}

/// What a driver works with: its worker's seat, and the number of requests that may still begin.
#[derive(Debug)]
pub(crate) struct Bench {
    pub(crate) seat: Seat<HttpRecord>,
    /// The values of templates.
    pub(crate) values: Values,
    /// When the next request is due; in a closed loop the next probe of the worker's lag.
    pub(crate) due_ns: u64,
    /// Why the driver cannot continue; this ends the run.
    pub(crate) failure: Option<String>,
    /// Whether no more requests begin.
    pub(crate) ending: bool,
    pub(crate) is_open: bool,
    /// Whether virtual users play a scenario. Then the pacer counts iterations instead of requests.
    pub(crate) has_users: bool,
    /// [`Options::parts`].
    pub(crate) parts: bool,
    /// When the last response was complete.
    pub(crate) completed_ns: u64,
    left: Option<u64>,
    /// For an unknown target, which would be a bug of the driver.
    nowhere: Tally,
}

impl Bench {
    fn new(seat: Seat<HttpRecord>, options: &Options) -> Self {
        let (index, workers) = (seat.index as u64, seat.workers as u64);
        let share = |requests: u64| requests / workers + u64::from(index < requests % workers);
        Self {
            values: Values::new(index, options.seed.wrapping_add(index)),
            due_ns: 0,
            failure: None,
            ending: false,
            is_open: options.pace.is_open(),
            has_users: options.scenario.is_some(),
            parts: options.parts,
            completed_ns: 0,
            left: options.requests.map(share),
            nowhere: Tally::default(),
            seat,
        }
    }

    /// Open loop: whether a request is due, which must be sent before anything else is done.
    #[inline]
    pub(crate) fn is_due(&self) -> bool {
        self.is_open && self.seat.now_ns >= self.due_ns
    }

    /// The counts of a target.
    #[inline]
    pub(crate) fn tally(&mut self, target: u16) -> &mut Tally {
        self.seat.record.targets.get_mut(usize::from(target)).unwrap_or(&mut self.nowhere)
    }

    /// Whether another request may begin; if so, counts it as begun.
    #[inline]
    pub(crate) fn may_begin(&mut self) -> bool {
        match &mut self.left {
            _ if self.ending => false,
            None => true,
            Some(0) => false,
            Some(left) => {
                *left -= 1;
                true
            }
        }
    }

    /// Lets no more requests begin, because the rows of a data file are used.
    pub(crate) fn run_out(&mut self) {
        self.left = Some(0);
    }

    /// Whether `may_begin` would refuse another request.
    pub(crate) fn is_exhausted(&self) -> bool {
        self.ending || self.left == Some(0)
    }

    /// Undoes a request that was begun but not sent.
    pub(crate) fn take_back(&mut self, target: u16) {
        self.give_back();
        self.unsend(target);
    }

    /// Lets another request begin in place of one that was not sent.
    pub(crate) fn give_back(&mut self) {
        if let Some(left) = &mut self.left {
            *left += 1;
        }
    }

    /// Undoes the count of a request that the target did not process; it is sent again.
    pub(crate) fn unsend(&mut self, target: u16) {
        let tally = self.tally(target);
        tally.begun = tally.begun.saturating_sub(1);
    }

    /// Advances the counter of templates.
    #[inline]
    pub(crate) fn count_up(&mut self) {
        self.values.counter = self.values.counter.wrapping_add(self.seat.workers as u64);
    }

    /// Records a complete response, this long after its request was written.
    #[inline]
    pub(crate) fn completed(&mut self, service_ns: u64) {
        self.completed_ns = self.seat.now_ns;
        if self.is_open {
            self.seat.record.service.record(service_ns);
        }
        if self.parts {
            self.seat.record.processing.record(service_ns);
        }
    }
}
