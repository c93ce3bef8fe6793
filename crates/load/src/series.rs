//! A run over time, in bounded memory: one row per interval; when there are too many rows, neighbours are merged. Also the
//! sparse form of histograms, which rows and files use. Pure.

use crate::cause::Cause;
use crate::processors::{Spent, Ticks};
use crate::record::HttpRecord;
use crate::run::Interval;
use crate::tally::Latencies;
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// Most rows: a quarter of an hour at one a second, and enough for a chart of any run. Even, because rows are merged in
/// pairs.
const ROWS_MAX: usize = 1024;

/// A histogram as its recorded values, ascending, with their counts. For latencies each value is the upper end of its
/// bucket in nanoseconds. Nothing is lost: recording a value again puts it into the same bucket.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Sparse(pub Vec<(u64, u64)>);

impl From<&Latencies> for Sparse {
    fn from(latencies: &Latencies) -> Self {
        Self(latencies.recorded().collect())
    }
}

impl Sparse {
    /// Number of recorded values.
    pub fn count(&self) -> u64 {
        self.0.iter().map(|(_, count)| count).sum()
    }

    /// Adds another histogram.
    pub fn add(&mut self, other: &Self) {
        self.0.extend_from_slice(&other.0);
        self.0.sort_unstable();
        self.0.dedup_by(|later, earlier| {
            let same = later.0 == earlier.0;
            if same {
                earlier.1 += later.1;
            }
            same
        });
    }

    /// The value that this share (0 to 1) of the values does not exceed; 0 if there are none.
    pub fn quantile(&self, quantile: f64) -> u64 {
        let wanted = (quantile.clamp(0.0, 1.0) * self.count() as f64).ceil().max(1.0) as u64;
        let mut passed = 0;
        let found = self.0.iter().find(|(_, count)| {
            passed += count;
            passed >= wanted
        });
        found.or(self.0.last()).map_or(0, |(value, _)| *value)
    }
}

/// The figures of one interval, or of several that were merged into one row.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Row {
    /// Start of the row, from the start of the run.
    pub begun: Duration,
    /// Length of the row.
    pub length: Duration,
    /// Requests begun.
    pub begun_requests: u64,
    /// Complete responses.
    pub responses: u64,
    /// Failures, and responses with a status from 400.
    pub errors: u64,
    /// Failures by [`Cause`] as index.
    pub failures: Vec<u64>,
    /// Bytes received.
    pub bytes_received: u64,
    /// Connections opened.
    pub opened: u64,
    /// Most requests in line at one time, in one thread.
    pub waiting_max: u64,
    /// How the generator's time was spent, all threads together.
    pub spent: Spent,
    /// Processor ticks during the row.
    pub processors: Ticks,
    /// How late the generator itself was, in nanoseconds.
    pub lag: Sparse,
    /// The part of the lag in which the generator ran earlier work.
    pub lag_own: Sparse,
    /// Latencies in nanoseconds.
    pub latency: Sparse,
}

impl Row {
    fn new(interval: &Interval) -> Self {
        let whole = interval.record.together();
        Self {
            begun: interval.begun,
            length: interval.length,
            begun_requests: whole.begun,
            responses: whole.responses,
            errors: whole.errors(),
            failures: whole.failures.to_vec(),
            bytes_received: whole.bytes_received,
            opened: interval.record.opened,
            waiting_max: interval.record.waiting_max,
            spent: interval.record.generator.spent,
            processors: interval.processors,
            lag: Sparse::from(&interval.record.generator.lag),
            lag_own: Sparse::from(&interval.record.generator.lag_own),
            latency: Sparse::from(&whole.latency),
        }
    }

    /// Number of failures by this cause.
    pub fn failed_by(&self, cause: Cause) -> u64 {
        self.failures.get(cause as usize).copied().unwrap_or_default()
    }

    /// Complete responses per second.
    pub fn rate(&self) -> f64 {
        self.responses as f64 / self.length.as_secs_f64().max(f64::MIN_POSITIVE)
    }

    /// The rate of each row. The last row is left out if it is shorter than half the first: a run that ends just after an
    /// interval leaves a tiny row, whose rate means nothing.
    pub fn rates(rows: &[Self]) -> impl Iterator<Item = f64> + '_ {
        let least = rows.first().map_or(Duration::ZERO, |first| first.length / 2);
        let last = rows.len().saturating_sub(1);
        rows.iter().enumerate().filter(move |(at, row)| *at != last || row.length >= least).map(|(_, row)| row.rate())
    }

    fn add(&mut self, other: &Self) {
        self.begun_requests += other.begun_requests;
        self.responses += other.responses;
        self.errors += other.errors;
        for (sum, count) in self.failures.iter_mut().zip(&other.failures) {
            *sum += count;
        }
        self.bytes_received += other.bytes_received;
        self.opened += other.opened;
        self.waiting_max = self.waiting_max.max(other.waiting_max);
        self.spent += other.spent;
        self.processors += other.processors;
        self.lag.add(&other.lag);
        self.lag_own.add(&other.lag_own);
        self.latency.add(&other.latency);
    }
}

/// A row of a series: the figures of one interval, or of several merged ones.
pub trait SeriesRow {
    /// The record of an interval.
    type Record;

    /// The row of one interval.
    fn of(interval: &Interval<Self::Record>) -> Self;
    /// Start of the row, from the start of the run, and its length.
    fn place(&mut self) -> (&mut Duration, &mut Duration);
    /// Adds the row that follows.
    fn add(&mut self, later: &Self);
}

impl SeriesRow for Row {
    type Record = HttpRecord;

    fn of(interval: &Interval) -> Self {
        Self::new(interval)
    }

    fn place(&mut self) -> (&mut Duration, &mut Duration) {
        (&mut self.begun, &mut self.length)
    }

    fn add(&mut self, later: &Self) {
        Self::add(self, later);
    }
}

/// All rows so far.
#[derive(Debug, Clone, PartialEq)]
pub struct Series<R = Row> {
    rows: Vec<R>,
    /// Length of a row; doubles when there are too many rows.
    length: Duration,
}

impl<R: SeriesRow> Series<R> {
    /// An empty series for intervals of this length.
    pub fn new(interval: Duration) -> Self {
        Self { rows: Vec::new(), length: interval }
    }

    /// The rows in order. Intervals without a record have no row.
    pub fn rows(&self) -> &[R] {
        &self.rows
    }

    /// Adds an interval; intervals come in order.
    pub fn add(&mut self, interval: &Interval<R::Record>) {
        let mut row = R::of(interval);
        let (begun, length) = row.place();
        (*begun, *length) = (self.slot(interval.begun), interval.length.min(self.length));
        self.put(row);
        if self.rows.len() > ROWS_MAX {
            self.length *= 2;
            for mut row in std::mem::take(&mut self.rows) {
                let (begun, length) = row.place();
                (*begun, *length) = (self.slot(*begun), self.length);
                self.put(row);
            }
        }
    }

    fn put(&mut self, mut row: R) {
        let begun = *row.place().0;
        if let Some(last) = self.rows.last_mut()
            && *last.place().0 == begun
        {
            last.add(&row);
            *last.place().1 = self.length;
            return;
        }
        self.rows.push(row);
    }

    /// The start of the row that contains this moment.
    fn slot(&self, at: Duration) -> Duration {
        let length = self.length.as_nanos().max(1);
        Duration::from_nanos(u64::try_from(at.as_nanos() / length * length).unwrap_or(u64::MAX))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sparse_histogram_equals_the_full_one_and_adds() {
        let (mut one, mut other) = (Latencies::default(), Latencies::default());
        for value in 1..3000u64 {
            if value % 2 == 0 { &mut one } else { &mut other }.record(value * value * 1_000);
        }
        let mut sum = Sparse::from(&one);
        sum.add(&Sparse::from(&other));
        one.add(&other);
        assert_eq!(sum, Sparse::from(&one));
        for quantile in [0.0, 0.1, 0.5, 0.9, 0.99, 0.999, 1.0] {
            assert_eq!(sum.quantile(quantile), one.quantile_ns(quantile), "{quantile}");
        }
        let mut again = Latencies::default();
        for (value, count) in &sum.0 {
            (0..*count).for_each(|_| again.record(*value));
        }
        assert_eq!(again.histogram(), one.histogram());
        assert_eq!(Sparse::default().quantile(0.5), 0);
    }

    #[test]
    fn a_row_of_nearly_nothing_has_no_rate() {
        let mut series = Series::<Row>::new(Duration::from_secs(1));
        for (number, ms) in [(0, 1_000), (1, 1_000), (2, 3)] {
            let mut record = HttpRecord::new(1);
            (0..ms / 10).for_each(|_| record.targets[0].response(200, 1, 1));
            let (begun, length) = (Duration::from_secs(number), Duration::from_millis(ms));
            series.add(&Interval { number, begun, length, processors: Ticks { all: 100, stolen: 1 }, record });
        }
        assert_eq!(Row::rates(series.rows()).map(f64::round).collect::<Vec<_>>(), [100.0, 100.0]);
        assert_eq!(Row::rates(&series.rows()[2..]).count(), 1, "alone it is all that there is");
    }

    #[test]
    fn a_long_run_keeps_its_sums_in_few_rows() {
        let mut series = Series::<Row>::new(Duration::from_secs(1));
        for number in 0..2_100u64 {
            let mut record = HttpRecord::new(1);
            record.targets[0].response(200, 1, 1_000_000);
            record.opened = 1;
            let (begun, length) = (Duration::from_secs(number), Duration::from_secs(1));
            series.add(&Interval { number, begun, length, processors: Ticks { all: 100, stolen: 1 }, record });
        }
        let rows = series.rows();
        assert!(rows.len() <= ROWS_MAX, "{}", rows.len());
        assert_eq!(rows.iter().map(|row| row.responses).sum::<u64>(), 2_100);
        assert_eq!(rows.iter().map(|row| row.processors.stolen).sum::<u64>(), 2_100);
        assert_eq!(rows.iter().map(|row| row.latency.count()).sum::<u64>(), 2_100);
        assert!(rows.windows(2).all(|pair| pair[0].begun + pair[0].length == pair[1].begun));
    }
}
