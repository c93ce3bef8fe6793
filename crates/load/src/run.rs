//! A load from start to end: threads, intervals, what they add up to. The API of this crate.

use crate::http::Http;
use crate::options::Options;
use crate::record::Record;
use crate::script::{self, Finished};
use crate::setup::{Setup, StartError};
use crate::tally::Latencies;
use crate::worker::{self, Message, Together};
use std::collections::BTreeMap;
use std::io;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, OnceLock};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// What all workers recorded in one interval.
#[derive(Debug, Clone)]
pub struct Interval {
    /// Its number, from 0.
    pub number: u64,
    /// When it began, from the start of the run.
    pub begun: Duration,
    /// How long it lasted: the last one ends with the run.
    pub length: Duration,
    /// What was recorded.
    pub record: Record,
}

/// What a load did.
#[derive(Debug, Clone)]
pub struct Summary {
    /// What it was asked to do.
    pub options: Options,
    /// Address of each target, in the order of the options.
    pub addresses: Vec<SocketAddr>,
    /// Threads that ran.
    pub threads: usize,
    /// Everything that was recorded.
    pub record: Record,
    /// From the start to the last response, or to the end of the duration, whichever came later.
    pub elapsed: Duration,
    /// It was stopped by hand.
    pub stopped: bool,
    /// The script's state, for its `done`.
    pub script: Option<Finished>,
}

impl Summary {
    /// Complete responses per second.
    pub fn rate(&self) -> f64 {
        let seconds = self.elapsed.as_secs_f64();
        let responses: u64 = self.record.targets.iter().map(|tally| tally.responses).sum();
        if seconds > 0.0 { responses as f64 / seconds } else { 0.0 }
    }

    /// Mean time between two requests of a connection, in nanoseconds: what a closed loop's latencies are corrected with.
    pub fn loop_interval_ns(&self) -> u64 {
        let ended: u64 = self.record.targets.iter().map(crate::Tally::ended).sum();
        let users = self.options.connections as u128 * self.options.pipeline as u128;
        (self.elapsed.as_nanos() * users).checked_div(u128::from(ended)).unwrap_or_default() as u64
    }

    /// Closed loop: the latencies as they would be had each connection kept its pace while it waited. Open loop: as they are.
    pub fn corrected(&self) -> Latencies {
        let latency = self.record.whole().latency;
        if self.options.pace.is_open() { latency } else { latency.corrected(self.loop_interval_ns()) }
    }
}

/// Ends a run from another thread. Clones are equal.
#[derive(Debug, Clone)]
pub struct Stopper(Arc<AtomicBool>);

impl Stopper {
    /// The run ends within some 50 ms; what is under way counts as cut off.
    pub fn stop(&self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// A load that runs. Dropping it stops it and waits for its threads.
#[derive(Debug)]
pub struct Running {
    options: Options,
    setup: Arc<Setup>,
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
    messages: Receiver<Message>,
    script: Option<Finished>,
}

/// Starts a load.
pub fn start(options: Options) -> Result<Running, StartError> {
    let setup = Arc::new(Setup::new(&options)?);
    // A thread without a connection to an address could not keep its share of the rate.
    let least = setup.groups.iter().map(|group| group.connections).min().unwrap_or(1);
    let workers = options.threads.min(least).max(1);
    let stop = Arc::new(AtomicBool::new(false));
    let together = Arc::new(Together { begun: OnceLock::new(), stop: Arc::clone(&stop) });
    let (sender, messages) = channel();
    let mut script = None;
    let mut scripts = Vec::new();
    if let Some(given) = &options.script {
        let addresses: Vec<SocketAddr> = setup.groups.iter().map(|group| group.address).collect();
        let (host, prepared) = script::prepare(given, &options, &addresses, workers, &stop)?;
        (script, scripts) = (Some(Finished(host)), prepared);
    }
    let mut scripts = scripts.into_iter();
    let mut running = Running { options, setup, stop, threads: Vec::new(), messages, script };
    let mut failure = None;
    for index in 0..workers {
        let (setup, together, sender) = (Arc::clone(&running.setup), Arc::clone(&together), sender.clone());
        let (options, script) = (running.options.clone(), scripts.next());
        let work = move || {
            worker::run(&options, index, workers, &together, &sender, |bench| {
                Http::new(setup, &options, script, index, workers, bench)
            });
        };
        match std::thread::Builder::new().name(format!("load-{index}")).spawn(work) {
            Ok(thread) => running.threads.push(thread),
            Err(error) => failure = failure.or(Some(error)),
        }
    }
    for _ in 0..running.threads.len() {
        // Each worker says so once; the channel cannot end before, as a sender is held here.
        let _ = running.messages.recv();
    }
    drop(sender);
    if failure.is_some() {
        running.stop.store(true, Ordering::Relaxed);
    }
    // From here on the workers run, if only to see that they are to stop.
    let _ = together.begun.set(Instant::now());
    failure.map_or(Ok(running), |error| Err(StartError::Worker(error)))
}

impl Running {
    /// For ending it early.
    pub fn stopper(&self) -> Stopper {
        Stopper(Arc::clone(&self.stop))
    }

    /// Threads that run.
    pub fn threads(&self) -> usize {
        self.threads.len()
    }

    /// Waits for the end.
    pub fn wait(self) -> io::Result<Summary> {
        self.watch(|_| ())
    }

    /// Waits for the end, and shows each interval when all workers have finished it.
    pub fn watch(mut self, mut show: impl FnMut(&Interval)) -> io::Result<Summary> {
        let mut collected = Collected::new(self.threads.len(), self.options.targets.len());
        let mut failure = None;
        while let Ok(message) = self.messages.recv() {
            if let Message::Failed(error) = message {
                self.stop.store(true, Ordering::Relaxed);
                failure = failure.or(Some(error));
                continue;
            }
            collected.take(message);
            while let Some((number, record)) = collected.finished() {
                let full = self.options.interval;
                let begun = full.saturating_mul(u32::try_from(number).unwrap_or(u32::MAX));
                let ended = Duration::from_nanos(collected.ended_ns);
                let is_cut = collected.is_over() && ended < begun + full;
                let length = if is_cut { ended.saturating_sub(begun) } else { full };
                show(&Interval { number, begun, length, record });
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
        let stopped = self.stop.load(Ordering::Relaxed);
        Ok(self.summary(collected, stopped))
    }

    fn summary(&self, collected: Collected, stopped: bool) -> Summary {
        let planned = match &self.options.pace {
            crate::Pace::Open { .. } if self.options.requests.is_some() => None,
            crate::Pace::Open { stages, .. } => Some(crate::Schedule::new(stages.clone()).duration()),
            crate::Pace::Closed { .. } => self.options.duration,
        };
        let completed = Duration::from_nanos(collected.completed_ns);
        let ended = Duration::from_nanos(collected.ended_ns);
        let elapsed = match planned {
            _ if stopped => ended,
            _ if completed.is_zero() => ended.max(planned.unwrap_or_default()),
            // An open loop ends with its schedule, also when its last request is answered before that.
            Some(planned) if self.options.pace.is_open() || planned <= ended => completed.max(planned),
            // By number of requests: to the last response.
            _ => completed,
        };
        let addresses = (0..self.options.targets.len())
            .filter_map(|target| self.setup.groups.get(self.setup.group_of(target as u16)))
            .map(|group| group.address)
            .collect();
        Summary {
            options: self.options.clone(),
            addresses,
            threads: collected.progress.len(),
            record: collected.whole,
            elapsed,
            stopped,
            script: self.script.clone(),
        }
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

/// Records as they come from the workers, whose intervals end at slightly different times.
#[derive(Debug)]
struct Collected {
    whole: Record,
    /// Intervals that some worker has not finished.
    open: BTreeMap<u64, Record>,
    /// By worker: the first interval that it has not finished.
    progress: Vec<u64>,
    ended_ns: u64,
    completed_ns: u64,
}

impl Collected {
    fn new(workers: usize, targets: usize) -> Self {
        Self {
            whole: Record::new(targets),
            open: BTreeMap::new(),
            progress: vec![0; workers],
            ended_ns: 0,
            completed_ns: 0,
        }
    }

    fn take(&mut self, message: Message) {
        match message {
            Message::Interval { worker, interval, record, last } => {
                self.whole.add(&record);
                self.open.entry(interval).or_default().add(&record);
                // The last interval is shown when it is known how long it was.
                if !last {
                    self.move_on(worker, interval + 1);
                }
            }
            Message::Done { worker, ended_ns, completed_ns } => {
                self.ended_ns = self.ended_ns.max(ended_ns);
                self.completed_ns = self.completed_ns.max(completed_ns);
                self.move_on(worker, u64::MAX);
            }
            Message::Ready | Message::Failed(_) => {}
        }
    }

    /// Whether all workers have ended.
    fn is_over(&self) -> bool {
        self.progress.iter().all(|progress| *progress == u64::MAX)
    }

    fn move_on(&mut self, worker: usize, interval: u64) {
        if let Some(progress) = self.progress.get_mut(worker) {
            *progress = interval;
        }
    }

    /// The next interval that all workers have finished.
    fn finished(&mut self) -> Option<(u64, Record)> {
        let entry = self.open.first_entry()?;
        let all = self.progress.iter().min()?;
        (entry.key() < all).then(|| entry.remove_entry())
    }
}
