//! What a worker has seen in an interval, and the bench that drivers work at: the loop, the clock, the recorder. No protocol.

use crate::collect::Recorded;
use crate::loan::{Home, Loan};
use crate::options::Options;
use crate::processors::Spent;
use crate::tally::{Latencies, Tally};
use crate::template::Values;
use reactor::Reactor;
use serde::{Deserialize, Serialize};
use std::borrow::Cow;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Instant;

/// Latencies that memory is there for before a run begins; others are made room for when they come.
pub(crate) const ROOM_NS: u64 = 1_000_000_000;
/// Targets whose memory is there: a hundred kilobytes and a half each, in each of the records below.
const ROOM_TARGETS_MAX: usize = 8;
/// Records of a worker: one that it fills, one that is merged, one that waits.
pub(crate) const RECORDS: usize = 3;

/// Everything that a worker counts in one interval; merged, everything that all workers have counted in all.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Record {
    /// By target, in the order of the options.
    pub targets: Vec<Tally>,
    /// Open loop: from the moment a request was written to the end of its response. What a closed loop would have shown.
    pub service: Latencies,
    /// From sending to the end of a response; only if [`Options::parts`] asks for it.
    pub processing: Latencies,
    /// From sending to the first byte of a response; likewise.
    pub first_byte: Latencies,
    /// The Server field of some response.
    pub server: Option<String>,
    /// From `connect` to an established connection.
    pub connect: Latencies,
    /// How late the generator itself was: of each request in open loop, of a timer every 10 ms in closed loop.
    pub lag: Latencies,
    /// Of the same, the part in which the worker ran, on what was ahead. For the rest it had no processor, or its timer was late.
    pub lag_own: Latencies,
    /// How long each turn of a worker's loop took: for so long at most a response lay unread.
    pub turn: Latencies,
    /// Connections opened, whether or not they came to be.
    pub opened: u64,
    /// Connections that were established.
    pub established: u64,
    /// Connections that the target closed first while nothing was in flight.
    pub closed_by_target: u64,
    /// Connections that the load closed first.
    pub closed_by_load: u64,
    /// Requests that were under way when the run was stopped by hand.
    pub cut_off: u64,
    /// Most requests that waited for a free connection at one time, in one worker.
    pub waiting_max: u64,
    /// What became of the workers' time.
    pub spent: Spent,
    /// Of the worker that ran most, and of the one that waited most: in an interval, or in the run.
    pub spent_most: Spent,
}

impl Recorded for Record {
    fn add(&mut self, other: &Self, pause: fn()) {
        self.add_with_pauses(other, pause);
    }

    fn spare(&self) -> Option<Self> {
        Some(*Self::new(self.targets.len()).make_room())
    }

    fn clear(&mut self) {
        Self::clear(self);
    }

    fn spent(&self) -> Spent {
        self.spent
    }

    fn set_spent_most(&mut self, most: Spent) {
        self.spent_most = most;
    }
}

impl Record {
    pub(crate) fn new(targets: usize) -> Self {
        Self { targets: (0..targets).map(|_| Tally::default()).collect(), ..Self::default() }
    }

    /// Adds what another worker has seen, or what was seen in another interval.
    pub fn add(&mut self, other: &Self) {
        self.add_with_pauses(other, || ());
    }

    fn add_with_pauses(&mut self, other: &Self, pause: fn()) {
        if self.targets.len() < other.targets.len() {
            self.targets.resize_with(other.targets.len(), Tally::default);
        }
        for (sum, tally) in self.targets.iter_mut().zip(&other.targets) {
            sum.add(tally);
            pause();
        }
        for (sum, more) in [
            (&mut self.service, &other.service),
            (&mut self.processing, &other.processing),
            (&mut self.first_byte, &other.first_byte),
            (&mut self.connect, &other.connect),
            (&mut self.lag, &other.lag),
            (&mut self.lag_own, &other.lag_own),
            (&mut self.turn, &other.turn),
        ] {
            sum.add(more);
            pause();
        }
        if self.server.is_none() {
            self.server.clone_from(&other.server);
        }
        self.opened += other.opened;
        self.established += other.established;
        self.closed_by_target += other.closed_by_target;
        self.closed_by_load += other.closed_by_load;
        self.cut_off += other.cut_off;
        self.waiting_max = self.waiting_max.max(other.waiting_max);
        self.spent += other.spent;
        self.spent_most = self.spent_most.most(other.spent_most);
    }

    /// Forgets everything, and keeps the memory. In place: a new record in between would be a hundred kilobytes of zeros.
    pub(crate) fn clear(&mut self) {
        let Self {
            targets,
            service,
            processing,
            first_byte,
            server,
            connect,
            lag,
            lag_own,
            turn,
            opened,
            established,
            closed_by_target,
            closed_by_load,
            cut_off,
            waiting_max,
            spent,
            spent_most,
        } = self;
        targets.iter_mut().for_each(Tally::clear);
        for latencies in [service, processing, first_byte, connect, lag, lag_own, turn] {
            latencies.clear();
        }
        *server = None;
        for count in [opened, established, closed_by_target, closed_by_load, cut_off, waiting_max] {
            *count = 0;
        }
        (*spent, *spent_most) = (Spent::default(), Spent::default());
    }

    /// Takes the memory that a usual run needs, before it begins: a page that comes with its first use costs a microsecond, and a
    /// histogram that grows asks for dozens at once.
    pub(crate) fn make_room(mut self) -> Box<Self> {
        let Self { targets, service, connect, lag, lag_own, turn, .. } = &mut self;
        let of_targets = targets.iter_mut().take(ROOM_TARGETS_MAX).map(|tally| &mut tally.latency);
        for latencies in of_targets.chain([service, connect, lag, lag_own, turn]) {
            latencies.make_room(ROOM_NS);
        }
        Box::new(self)
    }

    /// All targets together.
    pub fn whole(&self) -> Tally {
        self.together().into_owned()
    }

    /// The same; where there is one target, without a copy of its histogram.
    pub fn together(&self) -> Cow<'_, Tally> {
        if let [only] = self.targets.as_slice() {
            return Cow::Borrowed(only);
        }
        let mut whole = Tally::default();
        for tally in &self.targets {
            whole.add(tally);
        }
        // Lengths are compared within a target.
        whole.lengths_other = self.targets.iter().map(|tally| tally.lengths_other).sum();
        Cow::Owned(whole)
    }
}

/// Where a driver works: the loop's reactor, the time, what is counted, and how many requests may still begin.
#[derive(Debug)]
pub(crate) struct Bench {
    pub(crate) reactor: Rc<Reactor>,
    /// Nanoseconds since the start of the run, as of the latest look.
    pub(crate) now_ns: u64,
    pub(crate) record: Box<Record>,
    /// Values of templates.
    pub(crate) values: Values,
    /// When the next request is due, or in closed loop the next look at the worker's punctuality.
    pub(crate) due_ns: u64,
    home: Arc<Home<Record>>,
    /// Why the driver cannot go on; ends the run.
    pub(crate) failure: Option<String>,
    /// No request begins any more.
    pub(crate) ending: bool,
    pub(crate) is_open: bool,
    /// [`Options::parts`].
    pub(crate) parts: bool,
    /// When the last response was complete.
    pub(crate) completed_ns: u64,
    begun: Instant,
    left: Option<u64>,
    /// Workers of the run, which share the numbers of the counter among them.
    workers: u64,
    /// For a tally that does not exist, which would be a mistake of a driver.
    nowhere: Tally,
}

impl Bench {
    pub(crate) fn new(reactor: Rc<Reactor>, options: &Options, index: usize, workers: usize) -> Self {
        let room = || Record::new(options.targets.len()).make_room();
        let mut records: Vec<Box<Record>> = std::iter::repeat_with(room).take(RECORDS).collect();
        let record = records.pop().unwrap_or_else(room);
        let index = index as u64;
        let share = |requests: u64| requests / workers as u64 + u64::from(index < requests % workers as u64);
        Self {
            reactor,
            now_ns: 0,
            record,
            due_ns: 0,
            home: Home::new(records, Record::clear),
            values: Values {
                counter: index,
                worker: index,
                random: fastrand::Rng::with_seed(options.seed.wrapping_add(index)),
            },
            failure: None,
            ending: false,
            is_open: options.pace.is_open(),
            parts: options.parts,
            completed_ns: 0,
            begun: Instant::now(),
            left: options.requests.map(share),
            workers: workers as u64,
            nowhere: Tally::default(),
        }
    }

    /// Hands out what was recorded so far, and goes on with nothing.
    pub(crate) fn hand_out(&mut self) -> Loan<Record> {
        let targets = self.record.targets.len();
        let mut fresh = self.home.take().unwrap_or_else(|| Box::new(Record::new(targets)));
        for (fresh, old) in fresh.targets.iter_mut().zip(&self.record.targets) {
            fresh.length_first = old.length_first;
        }
        Loan::from_home(std::mem::replace(&mut self.record, fresh), &self.home)
    }

    /// The run begins at this moment.
    pub(crate) fn begin(&mut self, begun: Instant) {
        self.begun = begun;
        self.look_at_clock();
    }

    /// Reads the clock.
    #[inline]
    pub(crate) fn look_at_clock(&mut self) {
        self.now_ns = Instant::now().saturating_duration_since(self.begun).as_nanos() as u64;
    }

    /// Open loop: whether a request is due, before which nothing else should be done.
    #[inline]
    pub(crate) fn is_due(&self) -> bool {
        self.is_open && self.now_ns >= self.due_ns
    }

    /// The counts of a target.
    #[inline]
    pub(crate) fn tally(&mut self, target: u16) -> &mut Tally {
        self.record.targets.get_mut(usize::from(target)).unwrap_or(&mut self.nowhere)
    }

    /// Asks for leave to begin a request.
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

    /// Whether `may_begin` would grant it.
    pub(crate) fn is_exhausted(&self) -> bool {
        self.ending || self.left == Some(0)
    }

    /// A request that was begun, and then was not sent after all.
    pub(crate) fn take_back(&mut self, target: u16) {
        if let Some(left) = &mut self.left {
            *left += 1;
        }
        let tally = self.tally(target);
        tally.begun = tally.begun.saturating_sub(1);
    }

    /// Moves the counter of templates on.
    #[inline]
    pub(crate) fn count_up(&mut self) {
        self.values.counter = self.values.counter.wrapping_add(self.workers);
    }

    /// A response was complete, so long after its request was written.
    #[inline]
    pub(crate) fn completed(&mut self, service_ns: u64) {
        self.completed_ns = self.now_ns;
        if self.is_open {
            self.record.service.record(service_ns);
        }
        if self.parts {
            self.record.processing.record(service_ns);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_cleared_is_as_new() {
        let text = |record: &Record| serde_json::to_string(record).unwrap();
        let mut record = Record::new(2).make_room();
        assert_eq!(text(&record), text(&Record::new(2)), "room is no content");
        record.targets[1].response(200, 5, 10);
        record.lag.record(5);
        record.lag_own.record(5);
        record.turn.record(5);
        record.processing.record(5);
        record.server = Some("x".to_owned());
        record.spent = Spent { cpu_ns: 1, waited_ns: Some(1) };
        record.clear();
        assert_eq!(text(&record), text(&Record::new(2)));
    }
}
