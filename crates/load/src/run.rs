//! A load that runs: its intervals, and what they add up to. `prepare` starts it, in this process or in several.

use crate::collect::Collected;
use crate::crew::Workers;
use crate::options::Options;
use crate::plan::Plan;
use crate::processors::Ticks;
use crate::record::HttpRecord;
use crate::script::Finished;
use crate::setup::Setup;
use crate::tally::Latencies;
use std::io;
use std::net::SocketAddr;
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

/// What a load did.
#[derive(Debug, Clone)]
pub struct Summary {
    /// What it was asked to do.
    pub options: Options,
    /// Address of each target, in the order of the options.
    pub addresses: Vec<SocketAddr>,
    /// Threads that ran, of all processes.
    pub threads: usize,
    /// Processes that ran.
    pub processes: usize,
    /// What it was known to need.
    pub plan: Plan,
    /// What is missing in the record: processes that ended without a word, each in a phrase.
    pub lost: Vec<String>,
    /// Everything that was recorded.
    pub record: HttpRecord,
    /// What became of the processors from the start to the end.
    pub processors: Ticks,
    /// From the start to the last response, or to the end of the duration, whichever came later.
    pub elapsed: Duration,
    /// It was stopped by hand.
    pub stopped: bool,
    /// Why it ended before its time: a script that failed, or an event loop that did. Everything until then is recorded.
    pub failure: Option<String>,
    /// The script's state, for its `done`.
    pub script: Option<Finished>,
}

impl Summary {
    /// Of a load that has done nothing, to be filled in: by tests, and by whoever has figures from elsewhere.
    pub fn of_nothing(options: Options) -> Self {
        let plan = Plan { processes: 1, needs: Vec::new() };
        Self {
            record: HttpRecord::new(options.targets.len()),
            options,
            addresses: Vec::new(),
            threads: 1,
            processes: 1,
            plan,
            lost: Vec::new(),
            processors: Ticks::default(),
            elapsed: Duration::ZERO,
            stopped: false,
            failure: None,
            script: None,
        }
    }

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
pub struct Stopper(pub(crate) Arc<AtomicBool>);

impl Stopper {
    /// The run ends within some 50 ms; what is under way counts as cut off.
    pub fn stop(&self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// A load that runs. Dropping it stops it and waits for its threads and processes.
#[derive(Debug)]
pub struct Running {
    pub(crate) options: Options,
    pub(crate) setup: Arc<Setup>,
    pub(crate) workers: Workers<HttpRecord>,
    pub(crate) script: Option<Finished>,
}

impl Running {
    /// For ending it early.
    pub fn stopper(&self) -> Stopper {
        Stopper(Arc::clone(&self.workers.stop))
    }

    /// When it began: schedules and intervals count from here.
    pub fn begun(&self) -> Instant {
        self.workers.begun
    }

    /// The address of each target, in the order of the options.
    pub fn addresses(&self) -> Vec<SocketAddr> {
        self.setup.addresses()
    }

    /// Threads that load, of all processes.
    pub fn threads(&self) -> usize {
        self.workers.count
    }

    /// Processes that load.
    pub fn processes(&self) -> usize {
        self.workers.process_count()
    }

    /// Waits for the end.
    pub fn wait(self) -> io::Result<Summary> {
        self.watch(|_| ())
    }

    /// Waits for the end, and shows each interval when all workers have finished it.
    pub fn watch(mut self, mut show: impl FnMut(&Interval)) -> io::Result<Summary> {
        let mut collected = self.workers.watch(self.options.interval, &mut show)?;
        if let Some(Finished(host)) = &self.script {
            for (worker, globals) in std::mem::take(&mut collected.scripts) {
                host.restore(worker, &globals).map_err(io::Error::other)?;
            }
        }
        let is_early = self.workers.stop.load(Ordering::Relaxed);
        Ok(self.summary(collected, is_early))
    }

    fn summary(&self, collected: Collected<HttpRecord>, is_early: bool) -> Summary {
        let planned = match &self.options.pace {
            crate::Pace::Open { .. } if self.options.requests.is_some() => None,
            crate::Pace::Open { stages, .. } => Some(crate::Schedule::new(stages.clone()).duration()),
            crate::Pace::Closed { .. } => self.options.duration,
        };
        let completed = Duration::from_nanos(collected.completed_ns);
        let ended = Duration::from_nanos(collected.ended_ns);
        let elapsed = match planned {
            _ if is_early => ended,
            _ if completed.is_zero() => ended.max(planned.unwrap_or_default()),
            // An open loop ends with its schedule, also when its last request is answered before that.
            Some(planned) if self.options.pace.is_open() || planned <= ended => completed.max(planned),
            // By number of requests: to the last response.
            _ => completed,
        };
        Summary {
            options: self.options.clone(),
            addresses: self.setup.addresses(),
            threads: self.threads(),
            processes: self.processes(),
            plan: self.setup.plan.clone(),
            lost: collected.lost,
            record: collected.whole,
            processors: collected.processors,
            elapsed,
            stopped: is_early && collected.failure.is_none(),
            failure: collected.failure,
            script: self.script.clone(),
        }
    }
}
