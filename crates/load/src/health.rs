//! Judges whether the generator itself distorted the run: its lag, missing resources, and how busy it was. These are
//! measured separately from the target. Pure: it takes a summary.
//!
//! In an open loop a latency counts from the moment the request is due, so it includes the generator's lag. Lag can make a
//! met threshold look missed, never the reverse. So a late run is not void as such. Each threshold is judged twice, with
//! and without the lag ([`Late`]), and counts for nothing only if the two verdicts differ.

use crate::cause::{Blame, Cause};
use crate::generator::GeneratorRecord;
use crate::options::Pace;
use crate::processors::{Machine, Ticks};
use crate::summary::Summary;
use crate::tally::Latencies;
use crate::threshold::{Point, Verdict};
use serde::Serialize;
use std::time::Duration;

/// Lag below this does not count as late: an idle machine's timers are that late, too.
const LAG_NS_FREE: u64 = 1_000_000;
/// Above `LAG_NS_FREE`, the lag may be this share of the figure it is compared with: a tenth of the latency.
pub(crate) const LAG_SHARE_MAX: f64 = 0.1;
/// Quantiles at which lag and latency are compared. p99 alone is not enough: if the target stalls and p99 is five seconds,
/// a lag of half a second would not count, but it falsifies the median.
const LAG_QUANTILES: [(&str, f64); 3] = [("p50", 0.5), ("p90", 0.9), ("p99", 0.99)];
/// Largest share of requests that the generator could not send for lack of a port, a descriptor or memory. Above this share
/// the usual quantiles change, and not because of the target.
const STARVED_SHARE_MAX: f64 = 0.001;
/// A thread that used this share of its time had no room left: in a closed loop the generator then limits the throughput.
const BUSY_SHARE: f64 = 0.95;

/// The generator's own condition.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Health {
    /// Why the run says nothing about the target; empty if it does. [`void_with`](Self::void_with) adds thresholds that
    /// count for nothing.
    pub void: Vec<String>,
    /// Set if the lag was not negligible beside the latencies: how large it was, and what caused it.
    pub late: Option<String>,
    /// Remarks for the reader of a valid run.
    pub notes: Vec<String>,
    /// Share of the time (0 to 1) that the busiest thread ran on a processor.
    pub busy_share: f64,
    /// Whether the busiest thread had no time left.
    pub saturated: bool,
    /// How the machine caused the part of [`lag`](crate::GeneratorRecord::lag) that is not the generator's
    /// [own](crate::GeneratorRecord::lag_own).
    pub machine: Machine,
}

/// From this share of a lag on, its cause is the generator's own work and not the machine.
const OWN_SHARE_MOST: f64 = 0.5;

impl Summary {
    /// Judges the generator.
    pub fn health(&self) -> Health {
        let whole = self.record.whole();
        let mut health = Health::new(&self.record.generator, self.processors, self.elapsed);
        health.end(self.failure.as_deref(), &self.lost);
        health.notes.extend(self.marks.iter().cloned());
        let late = health.lateness(&self.record.generator, |name, quantile| {
            let latency_ns = whole.latency.quantile_ns(quantile);
            (latency_ns as f64 * LAG_SHARE_MAX, format!(", where the {name} of the latencies is {}", ms(latency_ns)))
        });
        // In a closed loop no request has a due time. Lag there delays the load on the target, and is shown.
        match self.options.pace {
            Pace::Open { .. } => health.late = late,
            Pace::Closed { .. } => health.notes.extend(late.map(|text| format!("the generator was late: {text}"))),
        }
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
}

/// Formats nanoseconds as milliseconds.
pub(crate) fn ms(ns: u64) -> String {
    format!("{:.1} ms", ns as f64 / 1e6)
}

impl Health {
    /// The condition of a generator in a run of this length.
    pub(crate) fn new(generator: &GeneratorRecord, processors: Ticks, elapsed: Duration) -> Self {
        let most = generator.spent_most;
        let (elapsed_ns, busy_ns) = (elapsed.as_nanos() as f64, most.cpu_ns as f64);
        let busy_share = if elapsed_ns > 0.0 { (busy_ns / elapsed_ns).min(1.0) } else { 0.0 };
        let saturated = busy_share >= BUSY_SHARE;
        let machine = Machine::new(most, processors, elapsed);
        Self { void: Vec::new(), late: None, notes: Vec::new(), busy_share, saturated, machine }
    }

    /// The generator's lag and its cause, at the first quantile where the lag matters. For a quantile, given as name and
    /// share, `beside` returns the smallest lag in nanoseconds that matters, and a text for what it is compared with.
    pub(crate) fn lateness(
        &self,
        generator: &GeneratorRecord,
        beside: impl Fn(&str, f64) -> (f64, String),
    ) -> Option<String> {
        LAG_QUANTILES.iter().find_map(|(name, quantile)| {
            let (lag, own) = (generator.lag.quantile_ns(*quantile), generator.lag_own.quantile_ns(*quantile));
            let (free_ns, compared) = beside(name, *quantile);
            let matters = lag > LAG_NS_FREE && lag as f64 > free_ns;
            matters.then(|| format!("{name} {}{compared}; {}", ms(lag), whose(lag, own, &self.machine.to_string())))
        })
    }

    /// Why the run or one of its thresholds counts for nothing.
    pub fn void_with(&self, verdicts: &[Verdict]) -> Vec<String> {
        let undecided = verdicts.iter().filter_map(|verdict| {
            let why = verdict.undecided.as_ref()?;
            Some(format!("{}: measured {}; {why}", verdict.expected, verdict.measured))
        });
        self.void.iter().cloned().chain(undecided).collect()
    }

    /// What the lag means for this run, in a sentence; `None` if the generator was on time.
    pub fn of_lateness(&self, verdicts: &[Verdict]) -> Option<&'static str> {
        self.late.as_ref()?;
        Some(if verdicts.is_empty() {
            "the latencies include this lag: those of the target alone are no longer, and shorter by up to the lag"
        } else if verdicts.iter().any(|verdict| verdict.undecided.is_some()) {
            "it decides a threshold, which counts for nothing"
        } else {
            "it does not matter here: every threshold comes out the same without the lag"
        })
    }

    /// Reports missing figures: the run ended early, or a process of it was lost.
    pub(crate) fn end(&mut self, failure: Option<&str>, lost: &[String]) {
        let failure = failure.map(|why| format!("it ended before its time, as a worker could not go on: {why}"));
        let lost = lost.iter().map(|lost| format!("{lost}: its figures are missing"));
        self.void.extend(failure.into_iter().chain(lost));
    }

    /// Reports requests that could not begin because the generator lacked a resource. `what` says in words what happened to
    /// them.
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

/// Estimates latencies without the lag that they include.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Late<'a> {
    pub(crate) lag: &'a Latencies,
    /// The same requests measured from sending, if available: removing the lag makes no latency shorter than this.
    pub(crate) service: Option<&'a Latencies>,
}

impl Late<'_> {
    /// The smallest value in nanoseconds that a figure of `latencies` can have without the lag.
    ///
    /// The lag of each single request is not kept, so this is a bound. Let L be the latencies and G the lags. At most 1 - p
    /// of all requests have an L - G above its quantile p, and at most 1 - r have a G above its quantile r. So at most (1 -
    /// p) + (1 - r) have an L above the sum of both quantiles. The quantile s of L with 1 - s = (1 - p) + (1 - r) is
    /// therefore no larger than that sum.
    pub(crate) fn least_ns(&self, latencies: &Latencies, point: Point) -> f64 {
        let less = |latency_ns: f64, lag_ns: f64| (latency_ns - lag_ns).max(0.0);
        let bound = match point {
            Point::Mean => less(latencies.mean_ns(), self.lag.mean_ns()),
            Point::Min => less(latencies.min_ns() as f64, self.lag.max_ns() as f64),
            Point::Max => less(latencies.max_ns() as f64, self.lag.max_ns() as f64),
            Point::Quantile(p) => {
                let beyond = 1.0 - p;
                let of = |rest: f64| {
                    let (s, r) = ((p - rest).max(0.0), 1.0 - rest);
                    less(latencies.quantile_ns(s) as f64, self.lag.quantile_ns(r) as f64)
                };
                // Any split of the rest between latency and lag gives a valid bound, so take the best of a few.
                [0.0, 0.01, 0.1, 0.5, 1.0].map(|share| of(beyond * share)).into_iter().fold(0.0, f64::max)
            }
        };
        let sent = self.service.filter(|service| service.count() > 0).map_or(0.0, |service| point.of(service));
        bound.max(sent).min(point.of(latencies))
    }
}

/// Whether the generator or this machine caused a lag, in words.
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
    use crate::{Expectation, HttpRecord, Options, Target, Ticks};

    fn summary(lag_ns: u64, latency_ns: u64, open: bool) -> Summary {
        let mut options = Options::new(Target::new("http://127.0.0.1/".parse().unwrap()));
        if open {
            options.pace = Pace::constant(100.0, Duration::from_secs(1));
        }
        let mut record = HttpRecord::new(1);
        for _ in 0..100 {
            record.generator.lag.record(lag_ns);
            record.generator.lag_own.record(lag_ns);
            record.targets[0].begun += 1;
            record.targets[0].response(200, 1, latency_ns);
        }
        let elapsed = Duration::from_secs(1);
        Summary { record, elapsed, ..Summary::of_nothing(options) }
    }

    #[test]
    fn lag_is_late_if_large_beside_latencies() {
        assert_eq!(summary(900_000, 100_000, true).health().late, None, "within what a timer does");
        assert_eq!(summary(5_000_000, 500_000_000, true).health().late, None, "a hundredth of what was measured");
        let health = summary(5_000_000, 20_000_000, true).health();
        let late = "p50 5.0 ms, where the p50 of the latencies is 20.0 ms; ";
        let whose = "it had too much to do itself (more threads with -t, or more machines)";
        assert_eq!((health.late, health.void.len()), (Some(format!("{late}{whose}")), 0));
        // A target that stalls for half of the run: p99 is seconds, but the generator's lag falsifies the median.
        let mut stalled = summary(5_000_000, 200_000, true);
        (0..90).for_each(|_| stalled.record.targets[0].response(200, 1, 5_000_000_000));
        assert!(stalled.health().late.is_some());
        let closed = summary(5_000_000, 20_000_000, false).health();
        assert_eq!((closed.late, closed.notes.len()), (None, 1));
    }

    #[test]
    fn lag_names_its_cause() {
        let mut summary = summary(5_000_000, 20_000_000, true);
        summary.record.generator.lag_own.clear();
        (0..100).for_each(|_| summary.record.generator.lag_own.record(40_000));
        let rest = |summary: &Summary| summary.health().late.unwrap().split_once("; ").unwrap().1.to_owned();
        assert_eq!(rest(&summary), "its own work was 0.0 ms of it, and for the rest it was not run");
        summary.record.generator.spent_most.waited_ns = Some(125_000_000);
        summary.processors = Ticks { all: 200, stolen: 9 };
        let known = "its own work was 0.0 ms of it, and for the rest it was not run: the generator's threads waited for a \
                     processor 12.50 % of the time at most; the host took 4.50 % of the processors' time away (steal)";
        assert_eq!(rest(&summary), known);
    }

    /// The outcome of each threshold in an open loop: met, missed, or undecided.
    fn judged(summary: &Summary, thresholds: &[&str]) -> Vec<&'static str> {
        let health = summary.health();
        let judge = |text: &&str| text.parse::<Expectation>().unwrap().judge(summary, &health);
        let verdicts: Vec<Verdict> = thresholds.iter().map(judge).collect();
        let undecided = verdicts.iter().filter(|verdict| verdict.undecided.is_some()).count();
        assert_eq!(health.void_with(&verdicts).len(), health.void.len() + undecided);
        let word = |verdict: &Verdict| match (&verdict.undecided, verdict.met) {
            (Some(_), _) => "undecided",
            (None, true) => "met",
            (None, false) => "missed",
        };
        verdicts.iter().map(word).collect()
    }

    #[test]
    fn lateness_voids_only_the_threshold_that_it_decides() {
        // Latencies of 20 ms, of which 5 ms are lag.
        let late = summary(5_000_000, 20_000_000, true);
        assert_eq!(judged(&late, &["p99<100ms", "p99<10ms", "p99<18ms"]), ["met", "missed", "undecided"]);
        assert_eq!(judged(&late, &["mean<18ms", "max<14ms", "p50>18ms"]), ["undecided", "missed", "undecided"]);
        assert_eq!(judged(&late, &["errors=0", "5xx>0", "lag_p99<1ms"]), ["met", "missed", "missed"]);
        let said = "p99<18ms".parse::<Expectation>().unwrap().judge(&late, &late.health());
        let expected =
            "without the generator's own lag it would be 15.0 ms to 20.0 ms, which the threshold lies between";
        assert_eq!(said.undecided.as_deref(), Some(expected));
        let in_time = summary(100_000, 20_000_000, true);
        assert_eq!(judged(&in_time, &["p99<18ms"]), ["missed"], "nothing but the target");
        // Measured from sending the requests took 19 ms, so without the lag they take no less.
        let mut slow = summary(5_000_000, 20_000_000, true);
        (0..100).for_each(|_| slow.record.service.record(19_000_000));
        assert_eq!(judged(&slow, &["p99<18ms"]), ["missed"]);
    }

    #[test]
    fn figures_missed_by_a_late_generator_are_undecided() {
        let mut late = summary(250_000_000, 300_000_000, true);
        assert_eq!(judged(&late, &["rate>=90", "rate>=120", "rate>=200"]), ["met", "undecided", "missed"]);
        late.record.targets[0].failure(Cause::Refused, 0);
        assert_eq!(judged(&late, &["failed=0", "refused=0"]), ["missed", "missed"], "the target refused");
        let mut silent = summary(250_000_000, 300_000_000, true);
        silent.record.targets[0].failure(Cause::Silent, 0);
        assert_eq!(judged(&silent, &["failed=0", "errors<0.1%"]), ["undecided", "undecided"]);
        assert_eq!(judged(&summary(1, 1, true), &["rate>=120"]), ["missed"], "it was in time");
    }

    #[test]
    fn busy_generator_decides_closed_loops_only() {
        let mut busy = summary(1, 20_000_000, false);
        busy.record.generator.spent_most = crate::Spent { cpu_ns: 990_000_000, waited_ns: None };
        assert_eq!(judged(&busy, &["p99<10ms", "p99<30ms", "rate>1000"]), ["undecided", "met", "undecided"]);
        busy.record.targets[0].response(503, 1, 1);
        assert_eq!(judged(&busy, &["5xx=0"]), ["missed"], "a status is the target's own");
    }

    #[test]
    fn lags_bound_a_quantile() {
        let (mut latencies, mut lag) = (Latencies::default(), Latencies::default());
        // One request in a hundred took 90 ms, of which 80 ms are lag; the others took 50 ms.
        (0..990).for_each(|_| latencies.record(50_000_000));
        (0..10).for_each(|_| latencies.record(90_000_000));
        (0..990).for_each(|_| lag.record(1_000));
        (0..10).for_each(|_| lag.record(80_000_000));
        let least_ms = |point| (Late { lag: &lag, service: None }.least_ns(&latencies, point) / 1e6).round() as u64;
        assert_eq!(least_ms(Point::Quantile(0.5)), 50);
        assert_eq!((least_ms(Point::Quantile(0.999)), least_ms(Point::Max)), (10, 10));
        assert_eq!(least_ms(Point::Mean), 50);
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
    fn busy_thread_is_the_bottleneck_of_a_closed_loop() {
        let mut busy = summary(1, 1, false);
        busy.record.generator.spent_most = crate::Spent { cpu_ns: 990_000_000, waited_ns: None };
        let health = busy.health();
        assert!(health.saturated && health.void.is_empty() && health.notes[0].contains("99 % of the time"));
    }
}
