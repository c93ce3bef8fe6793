//! A run from start to end: threads, intervals, memory, what they add up to.

use super::options::Options;
use super::record::Record;
use super::setup::Setup;
use super::worker::{self, Message};
use crate::plan::Plan;
use crate::setup::StartError;
use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, OnceLock};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// With fewer connections the memory of histograms and code weighs more than theirs, and a figure for each would mislead.
const MEASURED_CONNECTIONS_MIN: u64 = 1000;

/// User memory of this process, as the kernel counts it (`VmRSS`).
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

    fn look(&mut self, open: u64) {
        if open == 0 || open < self.connections {
            return;
        }
        let now = resident_bytes();
        self.held_bytes = if open > self.connections { now } else { self.held_bytes.max(now) };
        self.connections = open;
    }
}

/// Resident memory of this process; 0 where /proc does not tell.
fn resident_bytes() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    line.and_then(|line| line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()).unwrap_or(0) * 1024
}

/// What all workers recorded in one interval.
#[derive(Debug, Clone)]
pub struct Interval {
    /// Its number, from 0.
    pub number: u64,
    /// When it began, from the start of the run.
    pub begun: Duration,
    /// What was recorded; `open` is the number at its end.
    pub record: Record,
}

/// What a run did.
#[derive(Debug, Clone)]
pub struct Summary {
    /// What it was asked to do.
    pub options: Options,
    /// Where the target is.
    pub address: SocketAddr,
    /// Threads that ran.
    pub threads: usize,
    /// What it was computed to need.
    pub plan: Plan,
    /// Everything that was recorded; `open` is the most that were open at a time.
    pub record: Record,
    /// From start to end.
    pub elapsed: Duration,
    /// What the connections cost.
    pub memory: Memory,
    /// It was stopped by hand.
    pub stopped: bool,
}

/// Ends a run from another thread. Clones are equal.
#[derive(Debug, Clone)]
pub struct Stopper(Arc<AtomicBool>);

impl Stopper {
    /// The run ends within some 50 ms; what is open is cut off.
    pub fn stop(&self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// A load that runs. Dropping it stops it and waits for its threads.
#[derive(Debug)]
pub struct Running {
    setup: Arc<Setup>,
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
    messages: Receiver<Message>,
    memory: Memory,
}

/// Starts a load of WebSockets.
pub fn start(options: Options) -> Result<Running, StartError> {
    let workers = options.threads.min(options.connections).max(1);
    let setup = Arc::new(Setup::new(options, workers)?);
    let (stop, begun) = (Arc::new(AtomicBool::new(false)), Arc::new(OnceLock::new()));
    let (sender, messages) = channel();
    let mut running = Running { setup, stop, threads: Vec::new(), messages, memory: Memory::default() };
    let mut failure = None;
    for index in 0..workers {
        let (setup, stop) = (Arc::clone(&running.setup), Arc::clone(&running.stop));
        let (begun, sender) = (Arc::clone(&begun), sender.clone());
        let work = move || worker::run(setup, (index, workers), &begun, &stop, &sender);
        match std::thread::Builder::new().name(format!("load-{index}")).spawn(work) {
            Ok(thread) => running.threads.push(thread),
            Err(error) => failure = failure.or(Some(error)),
        }
    }
    for _ in 0..running.threads.len() {
        // Each says so once; the channel cannot end before, as a sender is held here.
        let _ = running.messages.recv();
    }
    if failure.is_some() {
        running.stop.store(true, Ordering::Relaxed);
    }
    running.memory.before_bytes = resident_bytes();
    let _ = begun.set(Instant::now());
    failure.map_or(Ok(running), |error| Err(StartError::Worker(error)))
}

impl Running {
    /// For ending it early.
    pub fn stopper(&self) -> Stopper {
        Stopper(Arc::clone(&self.stop))
    }

    /// What it was computed to need.
    pub fn plan(&self) -> &Plan {
        &self.setup.plan
    }

    /// Waits for the end.
    pub fn wait(self) -> io::Result<Summary> {
        self.watch(|_| ())
    }

    /// Waits for the end, and shows each interval when all workers have finished it.
    pub fn watch(mut self, mut show: impl FnMut(&Interval)) -> io::Result<Summary> {
        let threads = self.threads.len();
        let mut progress = vec![0u64; threads];
        let mut unfinished: BTreeMap<u64, Record> = BTreeMap::new();
        let (mut whole, mut elapsed, mut failure) = (Record::default(), Duration::ZERO, None);
        while progress.iter().any(|progress| *progress < u64::MAX) {
            match self.messages.recv() {
                Ok(Message::Interval { worker, interval, record, ended_ns }) => {
                    whole.add(&record);
                    let entry = unfinished.entry(interval).or_default();
                    entry.add(&record);
                    entry.open += record.open;
                    if let Some(place) = progress.get_mut(worker) {
                        *place = if ended_ns.is_some() { u64::MAX } else { interval + 1 };
                    }
                    elapsed = elapsed.max(Duration::from_nanos(ended_ns.unwrap_or(0)));
                }
                Ok(Message::Failed(error)) => {
                    self.stop.store(true, Ordering::Relaxed);
                    failure = Some(error);
                    break;
                }
                Ok(Message::Ready) => {}
                Err(_) => break,
            }
            let least = progress.iter().min().copied().unwrap_or(u64::MAX);
            while let Some(entry) = unfinished.first_entry().filter(|entry| *entry.key() < least) {
                let (number, record) = entry.remove_entry();
                self.memory.look(record.open);
                let begun = self.setup.options.interval.saturating_mul(u32::try_from(number).unwrap_or(u32::MAX));
                show(&Interval { number, begun, record });
            }
        }
        for thread in self.threads.drain(..) {
            if thread.join().is_err() {
                failure = failure.or_else(|| Some(io::Error::other("a worker of the load panicked")));
            }
        }
        if let Some(error) = failure {
            return Err(error);
        }
        whole.open = self.setup.open_most();
        Ok(Summary {
            options: self.setup.options.clone(),
            address: self.setup.address,
            threads,
            plan: self.setup.plan.clone(),
            record: whole,
            elapsed,
            memory: self.memory,
            stopped: self.stop.load(Ordering::Relaxed),
        })
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            // Nobody is left to be told.
            let _ = thread.join();
        }
    }
}
