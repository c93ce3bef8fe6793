//! The outcome of a load over HTTP, and the figures derived from it. Pure.

use crate::options::Options;
use crate::plan::Plan;
use crate::processors::Ticks;
use crate::record::HttpRecord;
use crate::remote::AgentFigures;
use crate::script::Finished;
use crate::tally::Latencies;
use std::net::SocketAddr;
use std::time::Duration;

/// The outcome of a load.
#[derive(Debug, Clone)]
pub struct Summary {
    /// The options of the run.
    pub options: Options,
    /// Address of each target, in the order of the options.
    pub addresses: Vec<SocketAddr>,
    /// Threads that ran, of all processes.
    pub threads: usize,
    /// Processes that ran.
    pub processes: usize,
    /// What the load was computed to need.
    pub plan: Plan,
    /// What is missing in the record: each phrase describes a process that ended without a report.
    pub lost: Vec<String>,
    /// Remarks about the run, such as that an agent took over the share of another.
    pub marks: Vec<String>,
    /// The agents that ran the load; empty without a farm.
    pub agents: Vec<AgentFigures>,
    /// Everything that was recorded.
    pub record: HttpRecord,
    /// Processor ticks from the start to the end.
    pub processors: Ticks,
    /// From the start to the last response or to the end of the duration, the later of the two.
    pub elapsed: Duration,
    /// Whether the run was stopped by hand.
    pub stopped: bool,
    /// Why the run ended early: a script or an event loop failed. The record has everything up to then.
    pub failure: Option<String>,
    /// The script's state, for its `done`.
    pub script: Option<Finished>,
}

impl Summary {
    /// The summary of an empty run, to be filled in by tests.
    #[cfg(test)]
    pub(crate) fn of_nothing(options: Options) -> Self {
        let plan = Plan { processes: 1, needs: Vec::new() };
        Self {
            record: HttpRecord::new(options.targets.len()),
            options,
            addresses: Vec::new(),
            threads: 1,
            processes: 1,
            plan,
            lost: Vec::new(),
            marks: Vec::new(),
            agents: Vec::new(),
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

    /// Mean time between two requests of a connection, in nanoseconds. The latencies of a closed loop are corrected with
    /// it.
    pub fn loop_interval_ns(&self) -> u64 {
        let ended: u64 = self.record.targets.iter().map(crate::Tally::ended).sum();
        // One of the two factors is 1.
        let each = self.options.pipeline as u128 * self.options.streams as u128;
        let users = self.options.connections as u128 * each;
        (self.elapsed.as_nanos() * users).checked_div(u128::from(ended)).unwrap_or_default() as u64
    }

    /// Closed loop: the latencies as if each connection had kept its pace while it waited. Open loop: unchanged.
    pub fn corrected(&self) -> Latencies {
        let latency = self.record.whole().latency;
        if self.options.pace.is_open() { latency } else { latency.corrected(self.loop_interval_ns()) }
    }
}
