//! A run from start to end: its processes and threads, its intervals, its memory, and what they add up to.

use super::options::Options;
use super::record::WebSocketRecord;
use super::setup::{Known, Setup};
use super::worker::Worker;
use crate::collect::Collected;
use crate::crew::{Crew, Part, Workers};
use crate::plan::{Plan, descriptors_needed};
use crate::processes::{self, Work};
use crate::processors::Ticks;
use crate::run::{Interval, Stopper};
use crate::setup::StartError;
use crate::worker;
use std::fs;
use std::io;
use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// With fewer connections the memory of histograms and code weighs more than theirs, and a figure for each would mislead.
const MEASURED_CONNECTIONS_MIN: u64 = 1000;

/// User memory of the processes that load, as the kernel counts it (`VmRSS`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Memory {
    /// Bytes before the first connection.
    pub before_bytes: u64,
    /// The most while as many connections were open as ever.
    pub held_bytes: u64,
    /// How many those were.
    pub connections: u64,
}

impl Memory {
    /// What each connection costs, with its share of everything that came meanwhile; `None` below a thousand.
    pub fn bytes_per_connection(&self) -> Option<f64> {
        let grown = self.held_bytes.saturating_sub(self.before_bytes);
        (self.connections >= MEASURED_CONNECTIONS_MIN).then(|| grown as f64 / self.connections as f64)
    }

    fn look(&mut self, open: u64, processes: &[u32]) {
        if open == 0 || open < self.connections {
            return;
        }
        let now = resident_bytes(processes);
        self.held_bytes = if open > self.connections { now } else { self.held_bytes.max(now) };
        self.connections = open;
    }
}

/// Resident memory of these processes, or of this one if there are none; 0 where /proc does not tell.
fn resident_bytes(processes: &[u32]) -> u64 {
    let of = |process: &str| {
        let status = fs::read_to_string(format!("/proc/{process}/status")).unwrap_or_default();
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
        line.and_then(|line| line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()).unwrap_or(0) * 1024
    };
    match processes {
        [] => of("self"),
        several => several.iter().map(|process| of(&process.to_string())).sum(),
    }
}

/// What a run did.
#[derive(Debug, Clone)]
pub struct Summary {
    /// What it was asked to do.
    pub options: Options,
    /// Where the target is.
    pub address: SocketAddr,
    /// Threads that ran, of all processes.
    pub threads: usize,
    /// Processes that ran.
    pub processes: usize,
    /// What it was computed to need.
    pub plan: Plan,
    /// What is missing in the record: processes that ended without a word, each in a phrase.
    pub lost: Vec<String>,
    /// Everything that was recorded; `open` is the most that were open at a time.
    pub record: WebSocketRecord,
    /// What became of the processors from the start to the end.
    pub processors: Ticks,
    /// From start to end.
    pub elapsed: Duration,
    /// What the connections cost.
    pub memory: Memory,
    /// It was stopped by hand.
    pub stopped: bool,
    /// Why it ended before its time: an event loop that failed. Everything until then is recorded.
    pub failure: Option<String>,
}

/// A load of WebSockets that can begin. It has no socket yet.
#[derive(Debug)]
pub struct Prepared {
    setup: Arc<Setup>,
}

/// Resolves the name, and computes what the load will need. A load that cannot fit is refused, unless [`Options::plan`] says that it is
/// to be tried.
pub fn prepare(options: Options) -> Result<Prepared, StartError> {
    let setup = Setup::new(options, None)?;
    if setup.plan.processes > setup.options.connections {
        return Err(StartError::TooManyProcesses { processes: setup.plan.processes });
    }
    Ok(Prepared { setup: Arc::new(setup) })
}

/// Starts a load of WebSockets in this process.
pub fn start(options: Options) -> Result<Running, StartError> {
    prepare(options)?.start()
}

impl Prepared {
    /// What it will need, and in how many processes.
    pub fn plan(&self) -> &Plan {
        &self.setup.plan
    }

    /// Where the target is.
    pub fn address(&self) -> SocketAddr {
        self.setup.address
    }

    /// Starts it in this process; refused where the plan says several.
    pub fn start(self) -> Result<Running, StartError> {
        if self.setup.plan.processes > 1 {
            return Err(StartError::Process("cannot be started: this program loads from one alone".to_owned()));
        }
        let crew = crew(&self.setup, Part::WHOLE)?;
        let memory = Memory { before_bytes: resident_bytes(&[]), ..Memory::default() };
        let collected = Collected::new(crew.count(), WebSocketRecord::default());
        Ok(Running { setup: self.setup, workers: crew.begin(collected), memory })
    }

    /// Starts it in as many processes as the plan says, as [`crate::Prepared::start_with`] does. The connections are one load's: they
    /// share rooms, ramp and messages, however they are divided.
    pub fn start_with(self, command: impl FnMut() -> Command) -> Result<Running, StartError> {
        let count = self.setup.plan.processes;
        if count <= 1 {
            return self.start();
        }
        let setup = self.setup;
        let options = Box::new(setup.options.clone());
        let each = Part { index: 0, of: count }.workers(options.threads, options.connections);
        let (address, run, counters) = (setup.address, setup.run, setup.counters_path());
        let work = Work::WebSocket { options, address, run, counters };
        let mut memory = Memory::default();
        let before = |processes: &[u32]| memory.before_bytes = resident_bytes(processes);
        let collected = Collected::new(count * each, WebSocketRecord::default());
        let workers = processes::start(&work, count, each, command, collected, before)?;
        Ok(Running { setup, workers, memory })
    }
}

/// The workers of a part, in this process.
fn crew(setup: &Arc<Setup>, part: Part) -> Result<Crew<WebSocketRecord>, StartError> {
    let here = part.workers(setup.options.threads, setup.options.connections);
    Crew::start(part, here, Arc::new(AtomicBool::new(false)), |place| {
        let setup = Arc::clone(setup);
        move || {
            let interval = setup.options.interval;
            worker::run(&place, interval, WebSocketRecord::with_room, |seat| Worker::new(setup, seat));
        }
    })
}

/// The same in a process that another one has started for it.
pub(crate) fn crew_of_part(
    options: Options,
    address: SocketAddr,
    run: u32,
    counters: &Path,
    part: Part,
) -> Result<Crew<WebSocketRecord>, StartError> {
    let wanted = descriptors_needed(options.connections, options.threads, part.of);
    reactor::raise_descriptor_limit(wanted).map_err(StartError::Worker)?;
    let setup = Setup::new(options, Some(&Known { address, run, counters }))?;
    crew(&Arc::new(setup), part)
}

/// A load that runs. Dropping it stops it and waits for its threads and processes.
#[derive(Debug)]
pub struct Running {
    setup: Arc<Setup>,
    workers: Workers<WebSocketRecord>,
    memory: Memory,
}

impl Running {
    /// For ending it early; what is open is cut off then.
    pub fn stopper(&self) -> Stopper {
        Stopper(Arc::clone(&self.workers.stop))
    }

    /// When it began: the ramp and the intervals count from here.
    pub fn begun(&self) -> Instant {
        self.workers.begun
    }

    /// Where the target is.
    pub fn address(&self) -> SocketAddr {
        self.setup.address
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
        &self.setup.plan
    }

    /// Waits for the end.
    pub fn wait(self) -> io::Result<Summary> {
        self.watch(|_| ())
    }

    /// Waits for the end, and shows each interval when all workers have finished it; its `open` is the number at its end.
    pub fn watch(mut self, mut show: impl FnMut(&Interval<WebSocketRecord>)) -> io::Result<Summary> {
        let processes = self.workers.processes.clone();
        let mut memory = self.memory;
        let mut look = |interval: &Interval<WebSocketRecord>| {
            memory.look(interval.record.open, &processes);
            show(interval);
        };
        let collected = self.workers.watch(self.setup.options.interval, &mut look)?;
        let Collected { mut whole, ended_ns, lost, processors, failure, .. } = collected;
        whole.open = self.setup.open_most();
        Ok(Summary {
            options: self.setup.options.clone(),
            address: self.setup.address,
            threads: self.threads(),
            processes: self.processes(),
            plan: self.setup.plan.clone(),
            lost,
            record: whole,
            processors,
            elapsed: Duration::from_nanos(ended_ns),
            memory,
            stopped: self.workers.stop.load(Ordering::Relaxed) && failure.is_none(),
            failure,
        })
    }
}
