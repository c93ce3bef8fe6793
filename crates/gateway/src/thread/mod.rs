//! What a worker's thread has for everything that runs on it: its reactor, its clock, the memory account, and the chores. It
//! knows no connection; those are the worker's.

pub(crate) mod chores;
pub(crate) mod clock;
pub(crate) mod executor;
pub(crate) mod job;
pub(crate) mod open_files;
pub(crate) mod pauses;

use crate::base::buffer::recycle;
use crate::base::counters::Counters;
use crate::base::memory::{Ledger, Pressure};
use crate::registry::process::Registry;
use crate::thread::chores::Chores;
use crate::thread::clock::Clock;
use crate::thread::job::Job;
use crate::thread::open_files::OpenFiles;
use crate::thread::pauses::Pauses;
use reactor::{Millis, Reactor};
use rules::user_id::Counter;
use std::cell::{Cell, OnceCell, RefCell};
use std::rc::{Rc, Weak};
use std::time::Duration;
use upstream::WorkerId;

/// What a worker does about memory that is short, at the cost of its own connections.
pub(crate) trait Relief {
    /// Closes connections that wait for a request, if that helps. Whether new requests are refused all the same.
    fn refuses_requests(&self) -> bool;
}

/// A worker's thread.
pub(crate) struct WorkerThread {
    /// The worker's number.
    pub(crate) index: u16,
    pub(crate) reactor: Rc<Reactor>,
    pub(crate) shared: &'static Registry,
    pub(crate) clock: Clock,
    /// What the connections of this worker hold.
    pub(crate) memory: Ledger,
    pub(crate) chores: Chores,
    /// Peers for which no connection is opened ahead of demand for a while.
    pub(crate) pauses: Pauses,
    pub(crate) draining: Cell<bool>,
    /// Exchanges that other exchanges have started.
    pub(crate) subrequests: Cell<u32>,
    /// Numbers of `userid`.
    pub(crate) user_ids: Cell<Counter>,
    /// `open_file_cache`
    pub(crate) open_files: RefCell<OpenFiles>,
    /// For building heads and log lines.
    scratch: Cell<Vec<u8>>,
    /// Jobs that were not taken yet.
    jobs: RefCell<Vec<Box<dyn Job>>>,
    relief: OnceCell<Weak<dyn Relief>>,
}

/// Where a worker begins to count: another place in each run, and for each worker.
fn first_user_id(index: u16, now: Duration) -> Counter {
    let worker = (std::process::id() as u16).wrapping_add(index);
    Counter::new((now.subsec_micros() / 20) << 16 | u32::from(worker))
}

impl WorkerThread {
    pub(crate) fn new(index: u16, shared: &'static Registry, reactor: Rc<Reactor>) -> Self {
        let clock = Clock::new(shared.error_log.utc_offset_minutes());
        Self {
            index,
            shared,
            user_ids: Cell::new(first_user_id(index, clock.now())),
            clock,
            memory: Ledger::new(&shared.memory, &shared.workers[index as usize].counters.held),
            chores: Chores::new(Rc::clone(&reactor)),
            pauses: Pauses::default(),
            draining: Cell::new(false),
            subrequests: Cell::new(0),
            open_files: RefCell::default(),
            scratch: Cell::default(),
            jobs: RefCell::default(),
            relief: OnceCell::new(),
            reactor,
        }
    }

    /// Who is asked where memory is short. Set once, by the worker.
    pub(crate) fn set_relief(&self, relief: Weak<dyn Relief>) {
        // A second worker on one thread would be a bug; the first one goes on.
        let _ = self.relief.set(relief);
    }

    pub(crate) fn id(&self) -> WorkerId {
        WorkerId(self.index)
    }

    /// The time, as the pool counts it.
    pub(crate) fn pool_now(&self) -> Millis {
        Millis(self.reactor.now().0)
    }

    pub(crate) fn counters(&self) -> &'static Counters {
        &self.shared.workers[self.index as usize].counters
    }

    pub(crate) fn is_draining(&self) -> bool {
        self.draining.get()
    }

    /// An empty buffer for a head or a log line that is given away before the exchange waits.
    pub(crate) fn take_scratch(&self) -> Vec<u8> {
        self.scratch.take()
    }

    /// Gives it back, with whatever is in it.
    pub(crate) fn put_scratch(&self, mut scratch: Vec<u8>) {
        recycle(&mut scratch);
        self.scratch.set(scratch);
    }

    /// Makes sure that idle upstream connections are looked through at this time at the latest.
    pub(crate) fn expire_pool_by(&self, at: Millis) {
        self.chores.plan(chores::Chore::ExpirePool, Millis(at.0));
    }

    /// Whether not even the rest of a head is waited for.
    pub(crate) fn refuses_growth(&self) -> bool {
        self.memory.pressure() == Pressure::Accepts
            && self.relief.get().and_then(Weak::upgrade).is_some_and(|relief| relief.refuses_requests())
    }

    /// Whether connections are closed rather than kept for another request.
    pub(crate) fn sheds_keepalive(&self) -> bool {
        self.memory.pressure() >= Pressure::Keepalive && !self.shared.memory.spares_keepalive()
    }

    /// Leaves a job to the worker. It is stepped for the first time before the worker waits for events.
    pub(crate) fn spawn(&self, job: Box<dyn Job>) {
        self.jobs.borrow_mut().push(job);
    }

    /// A job that was spawned.
    pub(crate) fn next_job(&self) -> Option<Box<dyn Job>> {
        self.jobs.borrow_mut().pop()
    }
}
