//! What a load over HTTP did, and the figures that follow from it. Pure.

use crate::options::Options;
use crate::plan::Plan;
use crate::processors::Ticks;
use crate::record::HttpRecord;
use crate::script::Finished;
use crate::tally::Latencies;
use std::net::SocketAddr;
use std::time::Duration;

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
    /// Of a load that has done nothing, to be filled in: by tests, and by callers with figures from elsewhere.
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
        // One of the two factors is 1.
        let each = self.options.pipeline as u128 * self.options.streams as u128;
        let users = self.options.connections as u128 * each;
        (self.elapsed.as_nanos() * users).checked_div(u128::from(ended)).unwrap_or_default() as u64
    }

    /// Closed loop: the latencies as they would be had each connection kept its pace while it waited. Open loop: as they are.
    pub fn corrected(&self) -> Latencies {
        let latency = self.record.whole().latency;
        if self.options.pace.is_open() { latency } else { latency.corrected(self.loop_interval_ns()) }
    }
}
