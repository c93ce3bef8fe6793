//! What a worker has seen in an interval, and the bench that drivers work at: the loop, the clock, the recorder. No protocol.

use crate::collect::Recorded;
use crate::options::Options;
use crate::tally::{Latencies, Tally};
use crate::template::Values;
use reactor::Reactor;
use serde::{Deserialize, Serialize};
use std::rc::Rc;
use std::time::Instant;

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
    /// CPU time of the workers in nanoseconds.
    pub cpu_ns: u64,
    /// CPU time of the busiest worker in nanoseconds.
    pub cpu_ns_max: u64,
}

impl Recorded for Record {
    fn add(&mut self, other: &Self) {
        Self::add(self, other);
    }
}

impl Record {
    pub(crate) fn new(targets: usize) -> Self {
        Self { targets: (0..targets).map(|_| Tally::default()).collect(), ..Self::default() }
    }

    /// Adds what another worker has seen, or what was seen in another interval.
    pub fn add(&mut self, other: &Self) {
        if self.targets.len() < other.targets.len() {
            self.targets.resize_with(other.targets.len(), Tally::default);
        }
        for (sum, tally) in self.targets.iter_mut().zip(&other.targets) {
            sum.add(tally);
        }
        self.service.add(&other.service);
        self.processing.add(&other.processing);
        self.first_byte.add(&other.first_byte);
        if self.server.is_none() {
            self.server.clone_from(&other.server);
        }
        self.connect.add(&other.connect);
        self.lag.add(&other.lag);
        self.opened += other.opened;
        self.established += other.established;
        self.closed_by_target += other.closed_by_target;
        self.closed_by_load += other.closed_by_load;
        self.cut_off += other.cut_off;
        self.waiting_max = self.waiting_max.max(other.waiting_max);
        self.cpu_ns += other.cpu_ns;
        self.cpu_ns_max += other.cpu_ns_max;
    }

    /// All targets together.
    pub fn whole(&self) -> Tally {
        let mut whole = Tally::default();
        for tally in &self.targets {
            whole.add(tally);
        }
        // Lengths are compared within a target.
        whole.lengths_other = self.targets.iter().map(|tally| tally.lengths_other).sum();
        whole
    }
}

/// Where a driver works: the loop's reactor, the time, what is counted, and how many requests may still begin.
#[derive(Debug)]
pub(crate) struct Bench {
    pub(crate) reactor: Rc<Reactor>,
    /// Nanoseconds since the start of the run, as of the latest look.
    pub(crate) now_ns: u64,
    pub(crate) record: Record,
    /// Values of templates.
    pub(crate) values: Values,
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
        let index = index as u64;
        let share = |requests: u64| requests / workers as u64 + u64::from(index < requests % workers as u64);
        Self {
            reactor,
            now_ns: 0,
            record: Record::new(options.targets.len()),
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
