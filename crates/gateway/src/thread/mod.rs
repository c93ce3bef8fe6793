//! What a worker's thread provides to everything that runs on it: reactor, clock, memory account, chores. It knows no
//! connections; the worker has those.

pub(crate) mod chores;
pub(crate) mod clock;
pub(crate) mod executor;
pub(crate) mod hot_responses;
pub(crate) mod job;
pub(crate) mod open_files;
pub(crate) mod pauses;

use crate::base::buffer::recycle;
use crate::base::counters::Counters;
use crate::base::memory::{Ledger, Pressure};
use crate::registry::process::Registry;
use crate::thread::chores::Chores;
use crate::thread::clock::Clock;
use crate::thread::hot_responses::HotResponses;
use crate::thread::job::Job;
use crate::thread::open_files::OpenFiles;
use crate::thread::pauses::Pauses;
use reactor::{Millis, Reactor};
use rules::user_id::Counter;
use std::cell::{Cell, OnceCell, RefCell};
use std::rc::{Rc, Weak};
use std::time::Duration;
use upstream::WorkerId;

/// What a worker can do about a shortage of memory, at the cost of its own connections.
pub(crate) trait Relief {
    /// Closes connections that wait for a request, if that helps. Returns whether new requests must still be refused.
    fn refuses_requests(&self) -> bool;
}

/// A worker's thread.
pub(crate) struct WorkerThread {
    /// The worker's number.
    pub(crate) index: u16,
    pub(crate) reactor: Rc<Reactor>,
    pub(crate) registry: &'static Registry,
    pub(crate) clock: Clock,
    /// The memory of this worker's connections.
    pub(crate) memory: Ledger,
    pub(crate) chores: Chores,
    /// Peers to which no connection is opened ahead of demand for a while.
    pub(crate) pauses: Pauses,
    pub(crate) draining: Cell<bool>,
    /// A socket for datagrams found no descriptor: sessions of datagrams must give way.
    pub(crate) short_of_descriptors: Cell<bool>,
    /// Number of running subrequests and HTTP/2 streams.
    pub(crate) subrequests: Cell<u32>,
    /// The counter for `userid`.
    pub(crate) user_ids: Cell<Counter>,
    /// `open_file_cache`
    pub(crate) open_files: RefCell<OpenFiles>,
    /// Cached responses with open files.
    pub(crate) hot_responses: RefCell<HotResponses>,
    /// Buffer for heads and log lines.
    scratch: Cell<Vec<u8>>,
    /// Jobs that have not started yet.
    jobs: RefCell<Vec<Box<dyn Job>>>,
    relief: OnceCell<Weak<dyn Relief>>,
}

/// The start value of a worker's counter: different in each run, and for each worker.
fn first_user_id(index: u16, now: Duration) -> Counter {
    let worker = (std::process::id() as u16).wrapping_add(index);
    Counter::new((now.subsec_micros() / 20) << 16 | u32::from(worker))
}

impl WorkerThread {
    pub(crate) fn new(index: u16, registry: &'static Registry, reactor: Rc<Reactor>) -> Self {
        let clock = Clock::new(registry.error_log.utc_offset_minutes());
        Self {
            index,
            registry,
            user_ids: Cell::new(first_user_id(index, clock.now())),
            clock,
            memory: Ledger::new(&registry.memory, &registry.workers[index as usize].counters.held),
            chores: Chores::new(Rc::clone(&reactor)),
            pauses: Pauses::default(),
            draining: Cell::new(false),
            short_of_descriptors: Cell::new(false),
            subrequests: Cell::new(0),
            open_files: RefCell::default(),
            hot_responses: RefCell::default(),
            scratch: Cell::default(),
            jobs: RefCell::default(),
            relief: OnceCell::new(),
            reactor,
        }
    }

    /// Sets what to ask when memory is short. The worker calls it once.
    pub(crate) fn set_relief(&self, relief: Weak<dyn Relief>) {
        // A second worker on one thread would be a bug; the first one stays.
        let _ = self.relief.set(relief);
    }

    pub(crate) fn id(&self) -> WorkerId {
        WorkerId(self.index)
    }

    /// The time on the pool's clock.
    pub(crate) fn pool_now(&self) -> Millis {
        Millis(self.reactor.now().0)
    }

    pub(crate) fn counters(&self) -> &'static Counters {
        &self.registry.workers[self.index as usize].counters
    }

    pub(crate) fn is_draining(&self) -> bool {
        self.draining.get()
    }

    /// An empty buffer for a head or a log line; it is returned before the exchange waits.
    pub(crate) fn take_scratch(&self) -> Vec<u8> {
        self.scratch.take()
    }

    /// Returns the buffer with its content.
    pub(crate) fn put_scratch(&self, mut scratch: Vec<u8>) {
        recycle(&mut scratch);
        self.scratch.set(scratch);
    }

    /// Makes sure that idle upstream connections are checked by this time at the latest.
    pub(crate) fn expire_pool_by(&self, at: Millis) {
        self.chores.plan(chores::Chore::ExpirePool, Millis(at.0));
    }

    /// Whether memory is too short to wait for the rest of a head.
    pub(crate) fn refuses_growth(&self) -> bool {
        self.memory.pressure() == Pressure::Accepts
            && self.relief.get().and_then(Weak::upgrade).is_some_and(|relief| relief.refuses_requests())
    }

    /// Whether connections are closed instead of kept for another request.
    pub(crate) fn sheds_keepalive(&self) -> bool {
        self.memory.pressure() >= Pressure::Keepalive && !self.registry.memory.spares_keepalive()
    }

    /// Queues a job. The worker steps it for the first time before it waits for events.
    pub(crate) fn spawn(&self, job: Box<dyn Job>) {
        self.jobs.borrow_mut().push(job);
    }

    /// The next queued job.
    pub(crate) fn next_job(&self) -> Option<Box<dyn Job>> {
        self.jobs.borrow_mut().pop()
    }
}
