//! A load of any protocol before and during its run, in this process or in several, with its intervals and its end. A
//! [`Kind`] has what differs between protocols: `prepare` implements it for HTTP, `websocket` for WebSockets.

use crate::collect::{Collected, Recorded};
use crate::crew::{Crew, Part, Workers};
use crate::plan::Plan;
use crate::processes::{self, Work};
use crate::processors::Ticks;
use crate::record::HttpRecord;
use crate::remote::{self, Courier};
use crate::setup::StartError;
use serde::de::DeserializeOwned;
use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// The merged records of all workers for one interval.
#[derive(Debug, Clone)]
pub struct Interval<R = HttpRecord> {
    /// Its number, from 0.
    pub number: u64,
    /// Start of the interval, from the start of the run.
    pub begun: Duration,
    /// Length of the interval; the last one may be shorter.
    pub length: Duration,
    /// Processor ticks during the interval. If it is shown together with the one before, it has none.
    pub processors: Ticks,
    /// The merged record.
    pub record: R,
}

impl<R> Interval<R> {
    /// Length in seconds, never 0, so that counts can be divided by it.
    pub(crate) fn seconds(&self) -> f64 {
        self.length.as_secs_f64().max(f64::MIN_POSITIVE)
    }

    /// End of the interval, from the start of the run.
    pub(crate) fn ended(&self) -> Duration {
        self.begun + self.length
    }
}

/// Stops a run from another thread. Clones stop the same run.
#[derive(Debug, Clone)]
pub struct Stopper(pub(crate) Arc<AtomicBool>);

impl Stopper {
    /// Ends the run within some 50 ms; requests in flight count as cut off.
    pub fn stop(&self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// A kind of load: [`HttpLoad`](crate::HttpLoad) or [`WebSocketLoad`](crate::websocket::WebSocketLoad).
pub trait LoadKind {
    /// The record of its workers.
    type Record;
    /// The summary of its run.
    type Summary;
}

/// The parts of a load that differ between protocols. Workers of all protocols begin, record and end together.
pub(crate) trait Kind: LoadKind<Record: Recorded + DeserializeOwned + Send + 'static> + Sized {
    /// What the load will need, and its number of processes.
    fn plan(&self) -> &Plan;
    /// Length of an interval.
    fn interval(&self) -> Duration;
    /// The first intervals, which results do not contain.
    fn warm_up_intervals(&self) -> u64 {
        0
    }
    /// The address of each target.
    fn addresses(&self) -> Vec<SocketAddr>;
    /// Number of all threads, and of the connections that each address has at least.
    fn shares(&self) -> (usize, usize);
    /// An empty record with the memory that a usual run needs.
    fn empty(&self) -> Self::Record;
    /// Its workers in this process, ready to begin.
    fn crew(&mut self) -> Result<Crew<Self::Record>, StartError>;
    /// The orders for other processes, for this many workers in all. A script that ends the run sets `stop`.
    fn work(&mut self, workers: usize, stop: &Arc<AtomicBool>) -> Result<Work, StartError>;
    /// Called when all workers wait, before they begin. `_processes` is empty if they are in this process.
    fn ready(&mut self, _processes: &[u32]) {}
    /// Called after each interval.
    fn observe(&mut self, _interval: &Interval<Self::Record>, _processes: &[u32]) {}
    /// The summary of the finished run.
    fn sum_up(self, ran: Ran<Self::Record>) -> io::Result<Self::Summary>;
}

/// A finished run.
pub(crate) struct Ran<R> {
    pub(crate) collected: Collected<R>,
    pub(crate) threads: usize,
    pub(crate) processes: usize,
    /// Whether it was stopped, or ended early.
    pub(crate) is_early: bool,
}

/// A load that is ready to begin. It has no socket yet.
#[derive(Debug)]
pub struct PreparedLoad<K>(K);

#[expect(private_bounds, reason = "the kinds of load are this crate's")]
impl<K: Kind> PreparedLoad<K> {
    /// Refuses a load in which some process would have no connection.
    pub(crate) fn new(kind: K) -> Result<Self, StartError> {
        let processes = kind.plan().processes;
        let (_, connections) = kind.shares();
        if processes > connections { Err(StartError::TooManyProcesses { processes }) } else { Ok(Self(kind)) }
    }

    /// What the load will need, and its number of processes.
    pub fn plan(&self) -> &Plan {
        self.0.plan()
    }

    /// The address of each target.
    pub fn addresses(&self) -> Vec<SocketAddr> {
        self.0.addresses()
    }

    /// Starts the load in this process; refuses it if the plan needs several processes.
    pub fn start(self) -> Result<RunningLoad<K>, StartError> {
        let Self(mut kind) = self;
        if kind.plan().processes > 1 {
            return Err(StartError::Process("cannot be started: this program loads from one alone".to_owned()));
        }
        let crew = kind.crew()?;
        kind.ready(&[]);
        let mut collected = Collected::new(crew.count(), kind.empty());
        collected.skipped = kind.warm_up_intervals();
        Ok(RunningLoad { workers: crew.begin(collected), kind })
    }

    /// Starts the load in parts on other machines, as many as the plan has processes. `courier` takes the messages to them.
    pub fn start_on(self, courier: Box<dyn Courier>) -> Result<RunningLoad<K>, StartError> {
        let Self(mut kind) = self;
        let count = kind.plan().processes;
        let (threads, connections) = kind.shares();
        let each = Part { index: 0, of: count }.workers(threads, connections);
        let work = kind.work(count * each, &Arc::new(AtomicBool::new(false)))?;
        let mut collected = Collected::new(count * each, kind.empty());
        collected.skipped = kind.warm_up_intervals();
        let workers = remote::start(&work, count, each, courier, collected)?;
        Ok(RunningLoad { kind, workers })
    }

    /// Starts the load in as many processes as the plan says. `command` creates the command of each; that program calls
    /// [`crate::serve_part`] with its standard input and output, and shares the user's standard error. If the plan says one
    /// process, it is this one.
    pub fn start_with(self, command: impl FnMut() -> Command) -> Result<RunningLoad<K>, StartError> {
        let count = self.0.plan().processes;
        if count <= 1 {
            return self.start();
        }
        let Self(mut kind) = self;
        let (threads, connections) = kind.shares();
        let each = Part { index: 0, of: count }.workers(threads, connections);
        let stopped = Arc::new(AtomicBool::new(false));
        let work = kind.work(count * each, &stopped)?;
        let mut collected = Collected::new(count * each, kind.empty());
        collected.skipped = kind.warm_up_intervals();
        let workers = processes::start(&work, count, each, command, collected, |processes| kind.ready(processes))?;
        workers.stop.fetch_or(stopped.load(Ordering::Relaxed), Ordering::Relaxed);
        Ok(RunningLoad { kind, workers })
    }
}

/// A running load. Dropping it stops the run and waits for its threads and processes.
pub struct RunningLoad<K: LoadKind> {
    kind: K,
    workers: Workers<K::Record>,
}

impl<K: LoadKind + fmt::Debug> fmt::Debug for RunningLoad<K> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("RunningLoad").field("kind", &self.kind).finish_non_exhaustive()
    }
}

#[expect(private_bounds, reason = "the kinds of load are this crate's")]
impl<K: Kind> RunningLoad<K> {
    /// A handle to stop the run early.
    pub fn stopper(&self) -> Stopper {
        Stopper(Arc::clone(&self.workers.stop))
    }

    /// When the run began: schedules, ramps and intervals count from here.
    pub fn begun(&self) -> Instant {
        self.workers.begun
    }

    /// The address of each target, in the order of the options.
    pub fn addresses(&self) -> Vec<SocketAddr> {
        self.kind.addresses()
    }

    /// Number of threads that generate load, in all processes.
    pub fn threads(&self) -> usize {
        self.workers.count
    }

    /// Number of processes that generate load.
    pub fn processes(&self) -> usize {
        self.workers.process_count()
    }

    /// What the load was computed to need.
    pub fn plan(&self) -> &Plan {
        self.kind.plan()
    }

    /// Waits for the end.
    pub fn wait(self) -> io::Result<K::Summary> {
        self.watch(|_| ())
    }

    /// Waits for the end, and shows each interval once all workers have finished it.
    pub fn watch(mut self, mut show: impl FnMut(&Interval<K::Record>)) -> io::Result<K::Summary> {
        let (threads, length) = (self.threads(), self.kind.interval());
        let (processes, count) = (self.workers.processes.clone(), self.workers.process_count());
        let mut observe = |interval: &Interval<K::Record>| {
            self.kind.observe(interval, &processes);
            show(interval);
        };
        let collected = self.workers.watch(length, &mut observe)?;
        let is_early = self.workers.stop.load(Ordering::Relaxed);
        self.kind.sum_up(Ran { collected, threads, processes: count, is_early })
    }
}
