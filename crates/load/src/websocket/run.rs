//! A load of WebSockets, from its options to its summary, and the memory its connections take. `crate::run` starts the
//! workers, in this process or in several.

use super::options::WebSocketOptions;
use super::record::WebSocketRecord;
use super::setup::{Known, WebSocketSetup};
use super::worker::Worker;
use crate::collect::Collected;
use crate::crew::{Crew, Part};
use crate::plan::{Plan, descriptors_needed};
use crate::processes::Work;
use crate::processors::Ticks;
use crate::run::{Interval, Kind, LoadKind, PreparedLoad, Ran, RunningLoad};
use crate::setup::StartError;
use crate::worker;
use std::fs;
use std::io;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

/// With fewer connections, histograms and code take more memory than the connections, and a figure per connection would
/// mislead.
const MEASURED_CONNECTIONS_MIN: u64 = 1000;

/// User memory of the processes that generate load, as the kernel reports it (`VmRSS`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Memory {
    /// Bytes before the first connection.
    pub before_bytes: u64,
    /// Most bytes while the number of open connections was at its maximum.
    pub held_bytes: u64,
    /// That maximum number of open connections.
    pub connections: u64,
}

impl Memory {
    /// Bytes per connection, including its share of all other growth; `None` below a thousand connections.
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

/// Resident memory of these processes, or of this process if the list is empty; 0 if /proc cannot be read.
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

/// The outcome of a run.
#[derive(Debug, Clone)]
pub struct WebSocketSummary {
    /// The options of the run.
    pub options: WebSocketOptions,
    /// Address of the target.
    pub address: SocketAddr,
    /// Threads that ran, of all processes.
    pub threads: usize,
    /// Processes that ran.
    pub processes: usize,
    /// What the load was computed to need.
    pub plan: Plan,
    /// What is missing in the record: each phrase describes a process that ended without a report.
    pub lost: Vec<String>,
    /// Everything that was recorded; `open` is the largest number of open connections.
    pub record: WebSocketRecord,
    /// Processor ticks from the start to the end.
    pub processors: Ticks,
    /// From start to end.
    pub elapsed: Duration,
    /// The memory of the connections.
    pub memory: Memory,
    /// Whether the run was stopped by hand.
    pub stopped: bool,
    /// Why the run ended early: an event loop failed. The record has everything up to then.
    pub failure: Option<String>,
}

/// A load of WebSockets.
#[derive(Debug)]
pub struct WebSocketLoad {
    setup: Arc<WebSocketSetup>,
    memory: Memory,
}

/// A load of WebSockets that is ready to begin. If it runs in several processes, their connections share rooms, ramp and
/// messages, so the number of processes does not change the load.
pub type PreparedWebSockets = PreparedLoad<WebSocketLoad>;
/// A running load of WebSockets. `open` of an interval is the number at its end.
pub type RunningWebSockets = RunningLoad<WebSocketLoad>;

/// Resolves the name and computes what the load will need. If the load cannot fit, it is refused, unless [`WebSocketOptions::plan`]
/// is `false`.
pub fn prepare(options: WebSocketOptions) -> Result<PreparedWebSockets, StartError> {
    let setup = Arc::new(WebSocketSetup::new(options, None)?);
    PreparedLoad::new(WebSocketLoad { setup, memory: Memory::default() })
}

/// Starts a load of WebSockets in this process.
pub fn start(options: WebSocketOptions) -> Result<RunningWebSockets, StartError> {
    prepare(options)?.start()
}

impl LoadKind for WebSocketLoad {
    type Record = WebSocketRecord;
    type Summary = WebSocketSummary;
}

impl Kind for WebSocketLoad {
    fn plan(&self) -> &Plan {
        &self.setup.plan
    }

    fn interval(&self) -> Duration {
        self.setup.options.interval
    }

    fn addresses(&self) -> Vec<SocketAddr> {
        vec![self.setup.address]
    }

    fn shares(&self) -> (usize, usize) {
        (self.setup.options.threads, self.setup.options.connections)
    }

    fn empty(&self) -> WebSocketRecord {
        WebSocketRecord::default()
    }

    fn crew(&mut self) -> Result<Crew<WebSocketRecord>, StartError> {
        crew(&self.setup, Part::WHOLE)
    }

    fn work(&mut self, _workers: usize, _stop: &Arc<AtomicBool>) -> Result<Work, StartError> {
        let WebSocketSetup { options, address, run, .. } = &*self.setup;
        let (options, counters) = (Box::new(options.clone()), self.setup.counters_path());
        Ok(Work::WebSocket { options, address: *address, run: *run, counters })
    }

    fn ready(&mut self, processes: &[u32]) {
        self.memory.before_bytes = resident_bytes(processes);
    }

    fn observe(&mut self, interval: &Interval<WebSocketRecord>, processes: &[u32]) {
        self.memory.look(interval.record.open, processes);
    }

    fn sum_up(self, ran: Ran<WebSocketRecord>) -> io::Result<WebSocketSummary> {
        let Self { setup, memory } = self;
        let Collected { mut whole, ended_ns, lost, processors, failure, .. } = ran.collected;
        whole.open = setup.open_most();
        Ok(WebSocketSummary {
            options: setup.options.clone(),
            address: setup.address,
            threads: ran.threads,
            processes: ran.processes,
            plan: setup.plan.clone(),
            lost,
            record: whole,
            processors,
            elapsed: Duration::from_nanos(ended_ns),
            memory,
            stopped: ran.is_early && failure.is_none(),
            failure,
        })
    }
}

/// The workers of a part, in this process.
fn crew(setup: &Arc<WebSocketSetup>, part: Part) -> Result<Crew<WebSocketRecord>, StartError> {
    let here = part.workers(setup.options.threads, setup.options.connections);
    Crew::start(part, here, Arc::new(AtomicBool::new(false)), |place| {
        let setup = Arc::clone(setup);
        move || {
            let interval = setup.options.interval;
            worker::run(&place, interval, WebSocketRecord::with_room, |seat| Worker::new(setup, seat));
        }
    })
}

/// The same in a process that was started for a part of the load.
pub(crate) fn crew_of_part(
    options: WebSocketOptions,
    address: SocketAddr,
    run: u32,
    counters: &Path,
    part: Part,
) -> Result<Crew<WebSocketRecord>, StartError> {
    let wanted = descriptors_needed(options.connections, options.threads, part.of);
    reactor::raise_descriptor_limit(wanted).map_err(StartError::Worker)?;
    let setup = WebSocketSetup::new(options, Some(&Known { address, run, counters }))?;
    crew(&Arc::new(setup), part)
}
