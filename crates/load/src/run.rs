//! A load of any protocol that can begin, and one that runs: in this process or in several, with its intervals and its end. What
//! differs between kinds is a [`Kind`]: `prepare` has that of HTTP, `websocket` that of WebSockets.

use crate::collect::{Collected, Recorded};
use crate::crew::{Crew, Part, Workers};
use crate::plan::Plan;
use crate::processes::{self, Work};
use crate::processors::Ticks;
use crate::record::HttpRecord;
use crate::setup::StartError;
use serde::de::DeserializeOwned;
use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// What all workers recorded in one interval.
#[derive(Debug, Clone)]
pub struct Interval<R = HttpRecord> {
    /// Its number, from 0.
    pub number: u64,
    /// When it began, from the start of the run.
    pub begun: Duration,
    /// How long it lasted: the last one ends with the run.
    pub length: Duration,
    /// What became of the processors meanwhile. An interval that is handed out together with the one before has none.
    pub processors: Ticks,
    /// What was recorded.
    pub record: R,
}

impl<R> Interval<R> {
    /// Its length in seconds, never 0: what counts are divided by.
    pub(crate) fn seconds(&self) -> f64 {
        self.length.as_secs_f64().max(f64::MIN_POSITIVE)
    }

    /// From the start of the run to its end.
    pub(crate) fn ended(&self) -> Duration {
        self.begun + self.length
    }
}

/// Ends a run from another thread. Clones are equal.
#[derive(Debug, Clone)]
pub struct Stopper(pub(crate) Arc<AtomicBool>);

impl Stopper {
    /// The run ends within some 50 ms; what is under way counts as cut off.
    pub fn stop(&self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// A kind of load: [`HttpLoad`](crate::HttpLoad) or [`WebSocketLoad`](crate::websocket::WebSocketLoad).
pub trait LoadKind {
    /// What its workers record.
    type Record;
    /// What is known in the end.
    type Summary;
}

/// What a kind of load adds to workers that begin, record and end together.
pub(crate) trait Kind: LoadKind<Record: Recorded + DeserializeOwned + Send + 'static> + Sized {
    /// What it will need, and in how many processes.
    fn plan(&self) -> &Plan;
    /// Length of an interval.
    fn interval(&self) -> Duration;
    /// The address of each target.
    fn addresses(&self) -> Vec<SocketAddr>;
    /// Threads in all, and the connections that they share at least.
    fn shares(&self) -> (usize, usize);
    /// What nothing was added to yet, with the memory that a usual run needs.
    fn empty(&self) -> Self::Record;
    /// Its workers in this process, ready to begin.
    fn crew(&mut self) -> Result<Crew<Self::Record>, StartError>;
    /// What other processes are told, for this many workers in all. A script that asks for the end of the run sets `stop`.
    fn work(&mut self, workers: usize, stop: &Arc<AtomicBool>) -> Result<Work, StartError>;
    /// All workers wait for the begin, in these processes; none is this one.
    fn ready(&mut self, _processes: &[u32]) {}
    /// An interval is over.
    fn observe(&mut self, _interval: &Interval<Self::Record>, _processes: &[u32]) {}
    /// What it did.
    fn sum_up(self, ran: Ran<Self::Record>) -> io::Result<Self::Summary>;
}

/// A run that is over.
pub(crate) struct Ran<R> {
    pub(crate) collected: Collected<R>,
    pub(crate) threads: usize,
    pub(crate) processes: usize,
    /// It was told to stop, or ended before its time.
    pub(crate) is_early: bool,
}

/// A load that can begin. It has no socket yet.
#[derive(Debug)]
pub struct PreparedLoad<K>(K);

#[expect(private_bounds, reason = "the kinds of load are this crate's")]
impl<K: Kind> PreparedLoad<K> {
    /// Refused where some process would have no connection.
    pub(crate) fn new(kind: K) -> Result<Self, StartError> {
        let processes = kind.plan().processes;
        let (_, connections) = kind.shares();
        if processes > connections { Err(StartError::TooManyProcesses { processes }) } else { Ok(Self(kind)) }
    }

    /// What it will need, and in how many processes.
    pub fn plan(&self) -> &Plan {
        self.0.plan()
    }

    /// The address of each target.
    pub fn addresses(&self) -> Vec<SocketAddr> {
        self.0.addresses()
    }

    /// Starts it in this process; refused where the plan says several.
    pub fn start(self) -> Result<RunningLoad<K>, StartError> {
        let Self(mut kind) = self;
        if kind.plan().processes > 1 {
            return Err(StartError::Process("cannot be started: this program loads from one alone".to_owned()));
        }
        let crew = kind.crew()?;
        kind.ready(&[]);
        let collected = Collected::new(crew.count(), kind.empty());
        Ok(RunningLoad { workers: crew.begin(collected), kind })
    }

    /// Starts it in as many processes as the plan says. Each is made by a command of `command`'s that calls [`crate::serve_part`]
    /// with its standard input and output; what it says on its standard error is the user's to see. One process alone is
    /// this one.
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
        let collected = Collected::new(count * each, kind.empty());
        let workers = processes::start(&work, count, each, command, collected, |processes| kind.ready(processes))?;
        workers.stop.fetch_or(stopped.load(Ordering::Relaxed), Ordering::Relaxed);
        Ok(RunningLoad { kind, workers })
    }
}

/// A load that runs. Dropping it stops it and waits for its threads and processes.
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
    /// For ending it early.
    pub fn stopper(&self) -> Stopper {
        Stopper(Arc::clone(&self.workers.stop))
    }

    /// When it began: schedules, ramps and intervals count from here.
    pub fn begun(&self) -> Instant {
        self.workers.begun
    }

    /// The address of each target, in the order of the options.
    pub fn addresses(&self) -> Vec<SocketAddr> {
        self.kind.addresses()
    }

    /// Threads that load, of all processes.
    pub fn threads(&self) -> usize {
        self.workers.count
    }

    /// Processes that load.
    pub fn processes(&self) -> usize {
        self.workers.process_count()
    }

    /// What it was computed to need.
    pub fn plan(&self) -> &Plan {
        self.kind.plan()
    }

    /// Waits for the end.
    pub fn wait(self) -> io::Result<K::Summary> {
        self.watch(|_| ())
    }

    /// Waits for the end, and shows each interval when all workers have finished it.
    pub fn watch(mut self, mut show: impl FnMut(&Interval<K::Record>)) -> io::Result<K::Summary> {
        let (threads, length) = (self.threads(), self.kind.interval());
        let processes = self.workers.processes.clone();
        let mut observe = |interval: &Interval<K::Record>| {
            self.kind.observe(interval, &processes);
            show(interval);
        };
        let collected = self.workers.watch(length, &mut observe)?;
        let is_early = self.workers.stop.load(Ordering::Relaxed);
        self.kind.sum_up(Ran { collected, threads, processes: processes.len().max(1), is_early })
    }
}
