//! Judges whether the generator itself distorted the run. Pure: it takes a summary.

use super::run::WebSocketSummary;
use crate::health::{Health, LAG_SHARE_MAX, ms};

/// Without deliveries a lag of a millisecond falsifies no figure. But a loop that is a tenth of a second late cannot keep a
/// ramp or a heartbeat.
const LAG_NS_MAX: f64 = 100e6;

impl WebSocketSummary {
    /// Judges the generator.
    pub fn health(&self) -> Health {
        let record = &self.record;
        let mut health = Health::new(&record.generator, self.processors, self.elapsed);
        health.end(self.failure.as_deref(), &self.lost);
        health.late = health.lateness(&record.generator, |name, quantile| {
            if record.delivered == 0 {
                return (LAG_NS_MAX, String::new());
            }
            let delivery_ns = record.delivery.quantile_ns(quantile);
            (delivery_ns as f64 * LAG_SHARE_MAX, format!(", where the {name} of the deliveries is {}", ms(delivery_ns)))
        });
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
