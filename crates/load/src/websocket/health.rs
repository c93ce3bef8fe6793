//! Whether the generator itself was in the way. Pure: a summary comes in.

use super::run::Summary;
use crate::cause::{Blame, Cause};
use crate::health::{ended_early, whose};
use crate::processors::Machine;
use serde::Serialize;

/// Lag below this is within what an idle machine does when a timer fires.
const LAG_NS_FREE: u64 = 1_000_000;
/// Beyond it, the generator may be late by this share of the delivery times: then a tenth of them is its own.
const LAG_SHARE_MAX: f64 = 0.1;
/// Without deliveries nothing is measured that a millisecond would falsify; a loop that is late by a tenth of a second cannot
/// keep a ramp or a heartbeat.
const LAG_NS_MAX: u64 = 100_000_000;
/// Connections that were not begun for want of a port, a descriptor or memory, of all.
const STARVED_SHARE_MAX: f64 = 0.001;
/// A thread that used this much of its time had no room left.
const BUSY_SHARE: f64 = 0.95;

/// The generator's own condition.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Health {
    /// Why the run says nothing about the target; empty if it does.
    pub void: Vec<String>,
    /// What a reader should know although the run stands.
    pub notes: Vec<String>,
    /// Share of the time (0 to 1) that the busiest thread ran on a core.
    pub busy_share: f64,
    /// What the machine had to do with its lag.
    pub machine: Machine,
}

impl Summary {
    /// Judges the generator.
    pub fn health(&self) -> Health {
        let record = &self.record;
        let elapsed_ns = self.elapsed.as_nanos() as f64;
        let busy_ns = record.spent_most.cpu_ns as f64;
        let busy_share = if elapsed_ns > 0.0 { (busy_ns / elapsed_ns).min(1.0) } else { 0.0 };
        let lost = self.lost.iter().map(|lost| format!("a process of the load {lost}: its figures are missing"));
        let machine = Machine::new(record.spent_most, self.processors, self.elapsed);
        let failure = self.failure.iter().map(|failure| ended_early(failure));
        let mut health = Health { void: failure.chain(lost).collect(), notes: Vec::new(), busy_share, machine };
        for (name, quantile) in [("p50", 0.5), ("p90", 0.9), ("p99", 0.99)] {
            let (lag, delivery) = (record.lag.quantile_ns(quantile), record.delivery.quantile_ns(quantile));
            let most = if record.delivered > 0 { (delivery as f64 * LAG_SHARE_MAX) as u64 } else { LAG_NS_MAX };
            if lag > LAG_NS_FREE.max(most) {
                let own = record.lag_own.quantile_ns(quantile);
                let beside = if record.delivered > 0 {
                    format!(", where the {name} of the deliveries is {:.1} ms", delivery as f64 / 1e6)
                } else {
                    String::new()
                };
                let whose = whose(lag, own, &health.machine.to_string());
                let lag_ms = lag as f64 / 1e6;
                health.void.push(format!("the generator was late itself: {name} {lag_ms:.1} ms{beside}; {whose}"));
                break;
            }
        }
        for cause in Cause::ALL.iter().filter(|cause| cause.blame() == Blame::Generator) {
            let count = record.failed_by(*cause);
            let text = format!("{count} of {} connections were not begun: {}", record.begun, cause.text());
            if count as f64 > record.begun as f64 * STARVED_SHARE_MAX {
                health.void.push(text);
            } else if count > 0 {
                health.notes.push(text);
            }
        }
        if busy_share >= BUSY_SHARE {
            let text = "the busiest thread of the generator ran all the time (more threads with -t, or more machines)";
            health.notes.push(text.to_owned());
        }
        if let Some(need) = self.plan.scarcest().filter(|need| !need.is_met()) {
            health.notes.push(format!("{} {} were needed, {} were there", need.needed, need.what, need.available));
        }
        health
    }
}
