//! Histograms of durations on the request path: each worker writes its own part, a snapshot sums them up. Every duration is in two
//! kinds of buckets: those with fixed bounds, which all readers know, and finer ones for Prometheus' native histograms.

use crate::base::counters::bump;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{LazyLock, OnceLock};

/// Upper bounds of the buckets of every duration, in microseconds. The last bound is nginx's default timeout. A worker reads its
/// clock once per turn, so a duration is as precise as a turn is short.
pub(crate) const BOUNDS_US: [u64; 18] = [
    100, 250, 500, 1000, 2000, 5000, 10_000, 25_000, 50_000, 100_000, 250_000, 500_000, 1_000_000, 2_500_000,
    5_000_000, 10_000_000, 30_000_000, 60_000_000,
];

/// How fine the native buckets are: four for each doubling.
pub(crate) const SCHEMA: i8 = 2;
/// The exponent of the shortest time that has a bucket: 2^-14 s, 61 µs; shorter ones are counted together.
const ZERO_EXPONENT: i32 = -14;
/// The exponent of the longest time: 2^17 s, 36 hours; longer ones are counted in the last bucket.
const LAST_EXPONENT: i32 = 17;
/// The index of the first bucket, as Prometheus counts them.
const FIRST_INDEX: i32 = ZERO_EXPONENT * PER_DOUBLING + 1;
const PER_DOUBLING: i32 = 1 << SCHEMA;
const NATIVE_BUCKETS: usize = ((LAST_EXPONENT - ZERO_EXPONENT) * PER_DOUBLING) as usize;

/// The upper bound of the values that have no native bucket, in seconds.
pub(crate) fn zero_threshold() -> f64 {
    f64::from(ZERO_EXPONENT).exp2()
}

/// Upper bounds of what is below the first native bucket, and of the buckets, in whole microseconds.
static NATIVE_BOUNDS_US: LazyLock<[u64; NATIVE_BUCKETS + 1]> = LazyLock::new(|| {
    std::array::from_fn(|place| {
        let index = FIRST_INDEX - 1 + place as i32;
        ((f64::from(index) / f64::from(PER_DOUBLING)).exp2() * 1e6) as u64
    })
});

/// One worker's part of a histogram.
#[derive(Debug, Default)]
pub(crate) struct HistogramCell {
    /// The last bucket counts durations above all bounds.
    buckets: [AtomicU64; BOUNDS_US.len() + 1],
    sum_us: AtomicU64,
    /// Made with the first duration: most peers and locations have none on most workers.
    native: OnceLock<Box<NativeCell>>,
}

/// The first counts what is below all buckets.
#[derive(Debug)]
struct NativeCell([AtomicU64; NATIVE_BUCKETS + 1]);

impl Default for NativeCell {
    fn default() -> Self {
        Self([const { AtomicU64::new(0) }; NATIVE_BUCKETS + 1])
    }
}

impl HistogramCell {
    pub(crate) fn record(&self, microseconds: u64) {
        bump(&self.buckets[BOUNDS_US.partition_point(|&bound| bound < microseconds)], 1);
        bump(&self.sum_us, i64::try_from(microseconds).unwrap_or(i64::MAX));
        let place = NATIVE_BOUNDS_US.partition_point(|&bound| bound < microseconds).min(NATIVE_BUCKETS);
        bump(&self.native.get_or_init(Box::default).0[place], 1);
    }
}

/// A histogram, summed over all workers.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Durations {
    /// Observations of each bucket, not cumulative, in the order of [`BOUNDS_US`], then those above all bounds.
    pub(crate) buckets: [u64; BOUNDS_US.len() + 1],
    /// Sum of all observations, in microseconds.
    pub(crate) sum_us: u64,
    /// Below all native buckets, and of each; empty without observations.
    native: Vec<u64>,
}

impl Durations {
    pub(crate) fn add(&mut self, cell: &HistogramCell) {
        for (sum, bucket) in self.buckets.iter_mut().zip(&cell.buckets) {
            *sum += bucket.load(Ordering::Relaxed);
        }
        self.sum_us += cell.sum_us.load(Ordering::Relaxed);
        if let Some(native) = cell.native.get() {
            self.native.resize(NATIVE_BUCKETS + 1, 0);
            for (sum, bucket) in self.native.iter_mut().zip(&native.0) {
                *sum += bucket.load(Ordering::Relaxed);
            }
        }
    }

    /// Adds observations in cumulative buckets: each bucket includes the smaller ones. Native buckets stay as they are.
    pub(crate) fn add_cumulative(&mut self, counts: impl Iterator<Item = u64>, sum_us: u64) {
        let mut below = 0;
        for (sum, count) in self.buckets.iter_mut().zip(counts) {
            *sum += count.saturating_sub(below);
            below = count;
        }
        self.sum_us += sum_us;
    }

    /// The observations that an earlier sum does not have; without native buckets.
    pub(crate) fn since(&self, earlier: &Self) -> Self {
        let mut since = Self { sum_us: self.sum_us.saturating_sub(earlier.sum_us), ..Self::default() };
        for (place, count) in since.buckets.iter_mut().enumerate() {
            *count = self.buckets[place].saturating_sub(earlier.buckets[place]);
        }
        since
    }

    /// The upper bound of the bucket that contains a percentile, in microseconds; `None` if that has none, or without
    /// observations.
    pub(crate) fn quantile_us(&self, percent: u64) -> Option<u64> {
        let wanted = (self.count() * percent).div_ceil(100).max(1);
        let mut below = 0;
        let place = self.buckets.iter().position(|count| {
            below += count;
            below >= wanted
        })?;
        BOUNDS_US.get(place).copied()
    }

    /// How many observations.
    pub(crate) fn count(&self) -> u64 {
        self.buckets.iter().sum()
    }

    /// How many are below all native buckets.
    pub(crate) fn zero_count(&self) -> u64 {
        self.native.first().copied().unwrap_or_default()
    }

    /// The native buckets with observations: index and count.
    pub(crate) fn native_buckets(&self) -> impl Iterator<Item = (i32, u64)> {
        (FIRST_INDEX..).zip(self.native.iter().skip(1).copied()).filter(|(_, count)| *count > 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn recorded(microseconds: &[u64]) -> Durations {
        let cell = HistogramCell::default();
        for &value in microseconds {
            cell.record(value);
        }
        let mut sums = Durations::default();
        sums.add(&cell);
        sums
    }

    #[test]
    fn a_duration_falls_into_the_first_bucket_that_holds_it() {
        let sums = recorded(&[0, 100, 101, 60_000_000, 60_000_001]);
        assert_eq!((sums.buckets[0], sums.buckets[1], sums.buckets[2]), (2, 1, 0));
        assert_eq!((sums.buckets[BOUNDS_US.len() - 1], sums.buckets[BOUNDS_US.len()]), (1, 1));
        assert_eq!((sums.count(), sums.sum_us), (5, 120_000_202));
    }

    #[test]
    fn native_buckets_match_prometheus() {
        let indices = |microseconds: &[u64]| recorded(microseconds).native_buckets().collect::<Vec<_>>();
        // 2^-14 s is 61.03 µs; one second is the upper bound of bucket 0, two of bucket 4.
        assert_eq!(recorded(&[0, 61, 62]).zero_count(), 2);
        assert_eq!(indices(&[62]), [(-55, 1)]);
        assert_eq!(indices(&[1_000_000, 1_000_001, 2_000_000]), [(0, 1), (1, 1), (4, 1)]);
        assert_eq!(indices(&[u64::from(u32::MAX) * 1_000_000]), [(68, 1)], "the last one has no upper bound");
    }

    #[test]
    fn difference_contains_only_later_records() {
        let (before, mut after) = (recorded(&[100]), recorded(&[100, 100, 3000]));
        let between = after.since(&before);
        assert_eq!((between.count(), between.sum_us), (2, 3100));
        assert_eq!((between.quantile_us(50), between.quantile_us(99)), (Some(100), Some(5000)));
        after.add_cumulative([1, 1, 1].into_iter(), 100);
        assert_eq!((after.count(), after.sum_us, after.buckets[0]), (4, 3300, 3));
        assert_eq!((recorded(&[]).quantile_us(50), recorded(&[60_000_001]).quantile_us(50)), (None, None));
    }

    #[test]
    fn without_observations_there_are_no_native_buckets() {
        assert_eq!((recorded(&[]).zero_count(), recorded(&[]).native_buckets().count()), (0, 0));
    }
}
