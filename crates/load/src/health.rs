//! Whether the generator itself was in the way. What it lags behind, what it lacks, how busy it was: measured apart from the
//! target, and judged here. Pure: a summary comes in.

use crate::cause::{Blame, Cause};
use crate::options::Pace;
use crate::processors::{Machine, Spent};
use crate::run::Summary;
use crate::tally::Latencies;
use serde::Serialize;
use std::time::Duration;

/// Lag below this never makes a run void: it is within what an idle machine does when a timer fires.
pub(crate) const LAG_NS_FREE: u64 = 1_000_000;
/// Beyond it, the generator may be late by this share of what is measured: then a tenth of a latency is the generator's own.
pub(crate) const LAG_SHARE_MAX: f64 = 0.1;
/// Where lag and latency are compared. One alone would not do: behind a p99 of five seconds of a target that stalls, a lag
/// of half a second would hide, and falsify the median.
pub(crate) const LAG_QUANTILES: [(&str, f64); 3] = [("p50", 0.5), ("p90", 0.9), ("p99", 0.99)];
/// Requests that the generator could not send for want of a port, a descriptor or memory, of all: what is lost is not the
/// target's, and above this the quantiles that people look at move.
const STARVED_SHARE_MAX: f64 = 0.001;
/// A thread that used this much of its time had no room left: in closed loop the throughput is then the generator's.
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
    /// The busiest thread had no time left.
    pub saturated: bool,
    /// What the machine had to do with the part of [`lag`](crate::HttpRecord::lag) that is not the generator's
    /// [own](crate::HttpRecord::lag_own).
    pub machine: Machine,
}

/// Of this much of a lag the generator's own work is the cause, and not the machine.
const OWN_SHARE_MOST: f64 = 0.5;

impl Summary {
    /// Judges the generator.
    pub fn health(&self) -> Health {
        let whole = self.record.whole();
        let machine = Machine::new(self.record.spent_most, self.processors, self.elapsed);
        let mut health = Health::new(self.record.spent_most, self.elapsed, machine);
        health.end(self.failure.as_deref(), &self.lost);
        self.judge_lag(&whole.latency, &mut health);
        health.starve("requests were not sent", whole.begun, |cause| whole.failed_by(cause));
        if health.saturated && !self.options.pace.is_open() {
            health.notes.push(format!(
                "the busiest thread of the generator ran {:.0} % of the time: requests/s are its limit, not the target's \
                 (more threads with -t, or more machines)",
                health.busy_share * 100.0
            ));
        }
        health
    }

    fn judge_lag(&self, latency: &Latencies, health: &mut Health) {
        for (name, quantile) in LAG_QUANTILES {
            let (lag, latency) = (self.record.lag.quantile_ns(quantile), latency.quantile_ns(quantile));
            if lag <= LAG_NS_FREE || lag as f64 <= latency as f64 * LAG_SHARE_MAX {
                continue;
            }
            let own = self.record.lag_own.quantile_ns(quantile);
            let text = format!(
                "the generator was late itself: {name} {:.1} ms, where the {name} of the latencies is {:.1} ms; {}",
                lag as f64 / 1e6,
                latency as f64 / 1e6,
                whose(lag, own, &health.machine.to_string())
            );
            // In closed loop nothing is due at a time; being late there delays the target's load, and is shown.
            match self.options.pace {
                Pace::Open { .. } => health.void.push(text),
                Pace::Closed { .. } => health.notes.push(text),
            }
            return;
        }
    }
}

impl Health {
    /// Of a run of that length, whose busiest thread spent its time like that.
    pub(crate) fn new(most: Spent, elapsed: Duration, machine: Machine) -> Self {
        let (elapsed_ns, busy_ns) = (elapsed.as_nanos() as f64, most.cpu_ns as f64);
        let busy_share = if elapsed_ns > 0.0 { (busy_ns / elapsed_ns).min(1.0) } else { 0.0 };
        let saturated = busy_share >= BUSY_SHARE;
        Self { void: Vec::new(), notes: Vec::new(), busy_share, saturated, machine }
    }

    /// What is missing, as the run ended before its time or a process of it was lost.
    pub(crate) fn end(&mut self, failure: Option<&str>, lost: &[String]) {
        let failure = failure.map(|why| format!("it ended before its time, as a worker could not go on: {why}"));
        let lost = lost.iter().map(|lost| format!("a process of the load {lost}: its figures are missing"));
        self.void.extend(failure.into_iter().chain(lost));
    }

    /// What could not be begun for want of something that the generator needs; `what` became of it, in words.
    pub(crate) fn starve(&mut self, what: &str, begun: u64, failed_by: impl Fn(Cause) -> u64) {
        for cause in Cause::ALL.iter().filter(|cause| cause.blame() == Blame::Generator) {
            let count = failed_by(*cause);
            let text = format!("{count} of {begun} {what}: {}", cause.text());
            if count as f64 > begun as f64 * STARVED_SHARE_MAX {
                self.void.push(text);
            } else if count > 0 {
                self.notes.push(text);
            }
        }
    }
}

/// Whether a lag is the generator's own, or this machine's.
pub(crate) fn whose(lag_ns: u64, own_ns: u64, machine: &str) -> String {
    if own_ns as f64 >= lag_ns as f64 * OWN_SHARE_MOST {
        return "it had too much to do itself (more threads with -t, or more machines)".to_owned();
    }
    let own_ms = own_ns as f64 / 1e6;
    let known = if machine.is_empty() { String::new() } else { format!(": {machine}") };
    format!("its own work was {own_ms:.1} ms of it, and for the rest it was not run{known}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{HttpRecord, Options, Target, Ticks};

    fn summary(lag_ns: u64, latency_ns: u64, open: bool) -> Summary {
        let mut options = Options::new(Target::new("http://127.0.0.1/".parse().unwrap()));
        if open {
            options.pace = Pace::constant(100.0, Duration::from_secs(1));
        }
        let mut record = HttpRecord::new(1);
        for _ in 0..100 {
            record.lag.record(lag_ns);
            record.lag_own.record(lag_ns);
            record.targets[0].begun += 1;
            record.targets[0].response(200, 1, latency_ns);
        }
        let elapsed = Duration::from_secs(1);
        Summary { record, elapsed, ..Summary::of_nothing(options) }
    }

    #[test]
    fn lag_makes_void_only_where_it_matters() {
        assert!(summary(900_000, 100_000, true).health().void.is_empty(), "within what a timer does");
        assert!(summary(5_000_000, 500_000_000, true).health().void.is_empty(), "a hundredth of what was measured");
        let void = summary(5_000_000, 20_000_000, true).health().void;
        let late = "the generator was late itself: p50 5.0 ms, where the p50 of the latencies is 20.0 ms; ";
        assert_eq!(void, [format!("{late}it had too much to do itself (more threads with -t, or more machines)")]);
        // A target that stalls for half of the run: the p99 is seconds, the median is the generator's.
        let mut stalled = summary(5_000_000, 200_000, true);
        (0..90).for_each(|_| stalled.record.targets[0].response(200, 1, 5_000_000_000));
        assert_eq!(stalled.health().void.len(), 1);
        let closed = summary(5_000_000, 20_000_000, false).health();
        assert_eq!((closed.void.len(), closed.notes.len()), (0, 1));
    }

    #[test]
    fn it_says_whose_a_lag_is() {
        let mut summary = summary(5_000_000, 20_000_000, true);
        summary.record.lag_own.clear();
        (0..100).for_each(|_| summary.record.lag_own.record(40_000));
        let rest = |summary: &Summary| summary.health().void[0].split_once("; ").unwrap().1.to_owned();
        assert_eq!(rest(&summary), "its own work was 0.0 ms of it, and for the rest it was not run");
        summary.record.spent_most.waited_ns = Some(125_000_000);
        summary.processors = Ticks { all: 200, stolen: 9 };
        let known = "its own work was 0.0 ms of it, and for the rest it was not run: the generator's threads waited for a \
                     processor 12.50 % of the time at most; the host took 4.50 % of the processors' time away (steal)";
        assert_eq!(rest(&summary), known);
    }

    #[test]
    fn want_of_ports_and_descriptors_is_the_generators_fault() {
        let mut starved = summary(1, 1, false);
        starved.record.targets[0].failure(Cause::NoPorts, 0);
        let health = starved.health();
        assert!(
            health.void.len() == 1 && health.void[0].starts_with("1 of 100 requests were not sent: no free local port")
        );
        let mut refused = summary(1, 1, false);
        refused.record.targets[0].failure(Cause::Refused, 0);
        assert!(refused.health().void.is_empty());
    }

    #[test]
    fn a_thread_without_rest_is_the_bottleneck_of_a_closed_loop() {
        let mut busy = summary(1, 1, false);
        busy.record.spent_most = Spent { cpu_ns: 990_000_000, waited_ns: None };
        let health = busy.health();
        assert!(health.saturated && health.void.is_empty() && health.notes[0].contains("99 % of the time"));
    }
}
