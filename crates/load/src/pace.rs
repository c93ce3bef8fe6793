//! When requests are due in an open loop: stages of constant or changing rate, with arrivals at even distances or at
//! random. Pure: times are nanoseconds from the start of the run, and a seed supplies the randomness. `worker` asks for
//! the next time.
//!
//! All arrivals of a run form one sequence. With even spacing, worker k of n takes every n-th arrival, so the rate does
//! not depend on the number of workers. With random spacing, each worker has its own sequence at an n-th of the rate,
//! which adds up to the same process.

use serde::{Deserialize, Serialize};
use std::sync::Arc;
use std::time::Duration;

/// Nanoseconds per second.
const NS: f64 = 1e9;

/// A request this close to the end of a stage belongs to the next one: sums of rates are not exact, and between two stages
/// may lie a long pause.
const ROUNDING: f64 = 1e-6;

/// A part of a run in which the rate changes linearly from one value to another.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Stage {
    /// How long it lasts.
    pub duration: Duration,
    /// Requests per second at its start.
    pub from: f64,
    /// Requests per second at its end.
    pub to: f64,
}

impl Stage {
    /// Number of requests that are due in the stage.
    fn requests(&self) -> f64 {
        f64::midpoint(self.from, self.to) * self.duration.as_secs_f64()
    }

    /// Seconds after the start of the stage at which the n-th request is due: the inverse of `from·t + (to - from)·t² /
    /// 2·duration`, in a form that does not divide by a difference of rates.
    fn seconds_until(&self, n: f64) -> f64 {
        let slope = (self.to - self.from) / self.duration.as_secs_f64();
        let root = (self.from * self.from + 2.0 * slope * n).max(0.0).sqrt();
        if n <= 0.0 { 0.0 } else { 2.0 * n / (self.from + root) }
    }
}

/// How the arrivals of a rate are spread.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub enum Spacing {
    /// At even distances.
    #[default]
    Constant,
    /// At random and independently: exponential distances, as from many independent users.
    Poisson,
}

/// The stages of a run, in order.
///
/// ```
/// use load::{Schedule, Stage};
/// use std::time::Duration;
///
/// let ramp = Stage { duration: Duration::from_secs(10), from: 0.0, to: 100.0 };
/// let hold = Stage { duration: Duration::from_secs(5), from: 100.0, to: 100.0 };
/// let schedule = Schedule::new(vec![ramp, hold]);
/// assert_eq!(schedule.requests(), 1_000.0);
/// assert_eq!(schedule.time_ns(500.0), Some(10_000_000_000), "the first of the second stage");
/// assert_eq!(schedule.time_ns(1_000.0), None);
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct Schedule {
    stages: Vec<Stage>,
    /// For each stage: the requests that are due before its end, and the seconds before its start.
    sums: Vec<(f64, f64)>,
}

impl Schedule {
    /// Without stages no request is ever due.
    pub fn new(stages: Vec<Stage>) -> Self {
        let (mut requests, mut seconds) = (0.0, 0.0);
        let sums = stages.iter().map(|stage| {
            let start = seconds;
            requests += stage.requests();
            seconds += stage.duration.as_secs_f64();
            (requests, start)
        });
        Self { sums: sums.collect(), stages }
    }

    /// Total length of all stages.
    pub fn duration(&self) -> Duration {
        self.stages.iter().map(|stage| stage.duration).fold(Duration::ZERO, Duration::saturating_add)
    }

    /// Number of requests that are due in all stages.
    pub fn requests(&self) -> f64 {
        self.stages.iter().map(Stage::requests).sum()
    }

    /// The highest rate of all stages, in requests per second.
    pub fn rate_max(&self) -> f64 {
        self.stages.iter().fold(0.0, |most, stage| most.max(stage.from).max(stage.to))
    }

    /// The time at which the n-th request is due, counted from 0, in nanoseconds; `None` beyond the end.
    pub fn time_ns(&self, n: f64) -> Option<u64> {
        // A replay has thousands of stages, some without requests.
        let at = self.sums.partition_point(|(requests, _)| n + ROUNDING >= *requests);
        let (stage, (_, start)) = self.stages.get(at).zip(self.sums.get(at))?;
        let before = at.checked_sub(1).and_then(|at| self.sums.get(at)).map_or(0.0, |(requests, _)| *requests);
        Some(((start + stage.seconds_until(n - before)) * NS) as u64)
    }
}

/// How many connections of a closed loop are active over time, or how many users.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Ramp(pub(crate) Vec<Stage>);

impl Ramp {
    /// When connection `number`, from 0, is active next, from this time on: while more than `number` are, or as many and
    /// their number rises. `None` if it is not active again.
    pub(crate) fn next_active_ns(&self, number: u64, now_ns: u64) -> Option<u64> {
        let (number, now) = (number as f64, now_ns as f64 / NS);
        let mut start = 0.0;
        for stage in &self.0 {
            let (length, rise) = (stage.duration.as_secs_f64(), stage.to - stage.from);
            let end = start + length;
            if end > now && length > 0.0 {
                let from = now.max(start);
                let count = stage.from + rise * (from - start) / length;
                if count > number {
                    return Some((from * NS) as u64);
                }
                if rise > 0.0 && stage.to > number {
                    let crossing = start + (number - stage.from) / rise * length;
                    return Some((from.max(crossing) * NS).ceil() as u64);
                }
            }
            start = end;
        }
        None
    }
}

/// One worker's part of the arrivals.
#[derive(Debug)]
pub struct Arrivals {
    schedule: Arc<Schedule>,
    spacing: Spacing,
    /// Workers that share the schedule.
    workers: f64,
    /// Position of this worker's next arrival in the whole sequence.
    next: f64,
    random: fastrand::Rng,
}

impl Arrivals {
    /// The part of worker `index` of `workers`.
    pub fn new(schedule: Arc<Schedule>, spacing: Spacing, index: usize, workers: usize, seed: u64) -> Self {
        let workers = workers.max(1) as f64;
        let mut arrivals =
            Self { schedule, spacing, workers, next: index as f64, random: fastrand::Rng::with_seed(seed) };
        if spacing == Spacing::Poisson {
            arrivals.next = arrivals.random_distance();
        }
        arrivals
    }

    fn random_distance(&mut self) -> f64 {
        // 1 - f64 lies in (0, 1], where the logarithm is defined.
        -(1.0 - self.random.f64()).ln() * self.workers
    }
}

impl Iterator for Arrivals {
    type Item = u64;

    /// When the next request is due, in nanoseconds from the start; `None` after the end of the schedule.
    fn next(&mut self) -> Option<u64> {
        let time = self.schedule.time_ns(self.next)?;
        self.next += match self.spacing {
            Spacing::Constant => self.workers,
            Spacing::Poisson => self.random_distance(),
        };
        Some(time)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn stage(seconds: f64, from: f64, to: f64) -> Stage {
        Stage { duration: Duration::from_secs_f64(seconds), from, to }
    }

    fn arrivals(stages: &[Stage], spacing: Spacing, index: usize, workers: usize) -> Vec<u64> {
        Arrivals::new(Arc::new(Schedule::new(stages.to_vec())), spacing, index, workers, 7).collect()
    }

    #[test]
    fn constant_rate_is_evenly_spaced_from_zero() {
        let times = arrivals(&[stage(0.5, 10.0, 10.0)], Spacing::Constant, 0, 1);
        assert_eq!(times, [0, 100_000_000, 200_000_000, 300_000_000, 400_000_000]);
    }

    #[test]
    fn workers_share_one_sequence() {
        let stages = [stage(0.3, 100.0, 300.0), stage(0.2, 300.0, 300.0)];
        let mut shared: Vec<u64> = (0..3).flat_map(|index| arrivals(&stages, Spacing::Constant, index, 3)).collect();
        shared.sort_unstable();
        assert_eq!(shared, arrivals(&stages, Spacing::Constant, 0, 1));
    }

    #[test]
    fn a_ramp_has_the_area_under_its_line() {
        let times = arrivals(&[stage(10.0, 0.0, 100.0)], Spacing::Constant, 0, 1);
        assert_eq!(times.len(), 500);
        // A quarter of the requests is due in the first half of the time.
        let in_first_half = times.iter().filter(|&&time| time < 5_000_000_000).count();
        assert!((124..=126).contains(&in_first_half), "{in_first_half}");
        let down = arrivals(&[stage(10.0, 100.0, 0.0)], Spacing::Constant, 0, 1);
        assert_eq!(down.len(), 500);
    }

    #[test]
    fn random_arrivals_keep_the_rate_and_scatter() {
        let times = arrivals(&[stage(100.0, 100.0, 100.0)], Spacing::Poisson, 0, 1);
        // 10,000 expected with a standard deviation of 100; the seed is fixed.
        assert!((9_600..10_400).contains(&times.len()), "{}", times.len());
        let gaps: Vec<f64> = times.windows(2).map(|pair| (pair[1] - pair[0]) as f64).collect();
        let mean = gaps.iter().sum::<f64>() / gaps.len() as f64;
        let variance = gaps.iter().map(|gap| (gap - mean).powi(2)).sum::<f64>() / gaps.len() as f64;
        // An exponential distribution's standard deviation is its mean.
        assert!((0.95..1.05).contains(&(variance.sqrt() / mean)), "{}", variance.sqrt() / mean);
    }

    #[test]
    fn connections_are_active_while_the_ramp_is_above_them() {
        let ramp =
            Ramp(vec![stage(10.0, 0.0, 10.0), stage(5.0, 10.0, 10.0), stage(10.0, 10.0, 0.0), stage(5.0, 0.0, 3.0)]);
        let at = |number: u64, seconds: f64| {
            ramp.next_active_ns(number, (seconds * NS) as u64).map(|ns| (ns as f64 / NS * 1e3).round() / 1e3)
        };
        assert_eq!((at(0, 0.0), at(3, 0.0), at(9, 0.0)), (Some(0.0), Some(3.0), Some(9.0)));
        assert_eq!((at(3, 12.0), at(3, 21.5)), (Some(12.0), Some(21.5)), "it rises above 3 and has not fallen to it");
        assert_eq!((at(2, 24.0), at(3, 24.0), at(10, 0.0), at(0, 30.0)), (Some(28.333), None, None, None));
        let jump = Ramp(vec![stage(0.0, 0.0, 5.0), stage(1.0, 5.0, 5.0)]);
        assert_eq!((jump.next_active_ns(4, 0), jump.next_active_ns(5, 0)), (Some(0), None));
    }

    proptest! {
        #[test]
        fn times_are_monotonic_and_bounded(
            stages in prop::collection::vec((0.01f64..2.0, 0.0f64..500.0, 0.0f64..500.0), 0..5),
            workers in 1usize..5,
            poisson in any::<bool>(),
        ) {
            let stages: Vec<Stage> = stages.into_iter().map(|(seconds, from, to)| stage(seconds, from, to)).collect();
            let end = Schedule::new(stages.clone()).duration().as_nanos() as u64;
            let spacing = if poisson { Spacing::Poisson } else { Spacing::Constant };
            let times = arrivals(&stages, spacing, workers - 1, workers);
            prop_assert!(times.windows(2).all(|pair| pair[0] <= pair[1]));
            // Allow one microsecond for rounding.
            prop_assert!(times.last().is_none_or(|last| *last <= end + 1_000));
        }
    }
}
