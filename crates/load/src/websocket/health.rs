//! Whether the generator itself was in the way. Pure: a summary comes in.

use super::run::Summary;
use crate::health::{Health, LAG_NS_FREE, LAG_QUANTILES, LAG_SHARE_MAX, whose};
use crate::processors::Machine;

/// Without deliveries nothing is measured that a millisecond would falsify; a loop that is late by a tenth of a second cannot
/// keep a ramp or a heartbeat.
const LAG_NS_MAX: u64 = 100_000_000;

impl Summary {
    /// Judges the generator.
    pub fn health(&self) -> Health {
        let record = &self.record;
        let machine = Machine::new(record.spent_most, self.processors, self.elapsed);
        let mut health = Health::new(record.spent_most, self.elapsed, machine);
        health.end(self.failure.as_deref(), &self.lost);
        for (name, quantile) in LAG_QUANTILES {
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
                health.late = Some(format!("{name} {lag_ms:.1} ms{beside}; {whose}"));
                break;
            }
        }
        health.starve("connections were not begun", record.begun, |cause| record.failed_by(cause));
        if health.saturated {
            let text = "the busiest thread of the generator ran all the time (more threads with -t, or more machines)";
            health.notes.push(text.to_owned());
        }
        if let Some(need) = self.plan.scarcest().filter(|need| !need.is_met()) {
            health.notes.push(format!("{} {} were needed, {} were there", need.needed, need.what, need.available));
        }
        health
    }
}
