//! Durations in nanoseconds with three significant digits: recorded, merged, corrected for what a closed loop did not ask,
//! and written without loss. Used by the load generator for each URL and interval, and by the lab for each round.
//!
//! It is `hdrhistogram` with one fixed shape, so that any two can be merged and no file can ask for another size.

use hdrhistogram::serialization::{Deserializer, Serializer as _, V2Serializer};

/// Longer durations count as this one. An hour is longer than any timeout that a load run waits for.
pub const DURATION_NS_MAX: u64 = 3_600_000_000_000;
/// Three digits separate 1.00 ms from 1.01 ms; each further digit costs ten times the memory.
const DIGITS: u8 = 3;
/// The V2 encoding begins with cookie, payload length, offset, digits (4 bytes each), low, high and ratio (8 bytes each).
const HEADER_BYTES: usize = 40;
/// Cookie of the uncompressed V2 encoding with 8-byte words, as `HdrHistogram` defines it.
const V2_COOKIE: u32 = 0x1c84_9313;

/// Why bytes are not one of our histograms.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ParseError {
    /// Fewer bytes than the header has, or than it announces, or more.
    #[error("the histogram is cut short or has bytes behind its end")]
    Length,
    /// Not the V2 encoding, or another range or precision than ours.
    #[error("not a histogram of durations up to an hour with three digits in the V2 encoding")]
    Shape,
    /// The counts are damaged.
    #[error("the counts of the histogram are damaged: {0}")]
    Counts(String),
}

/// Counts of durations. About 270 KB in memory, empty or full; an empty one encodes to some 40 bytes.
#[derive(Debug, Clone, PartialEq)]
pub struct Histogram {
    pub(crate) inner: hdrhistogram::Histogram<u64>,
}

impl Default for Histogram {
    fn default() -> Self {
        Self::new()
    }
}

impl Histogram {
    /// An empty one.
    pub fn new() -> Self {
        let inner = hdrhistogram::Histogram::new_with_bounds(1, DURATION_NS_MAX, DIGITS);
        Self { inner: inner.expect("the bounds are constants that the crate accepts") }
    }

    /// Counts one duration. Longer than [`DURATION_NS_MAX`] counts as that.
    pub fn record(&mut self, duration_ns: u64) {
        self.inner.saturating_record(duration_ns);
    }

    /// Counts the same duration several times.
    pub fn record_n(&mut self, duration_ns: u64, count: u64) {
        self.inner.saturating_record_n(duration_ns, count);
    }

    /// Adds everything the other one counted.
    pub fn merge(&mut self, other: &Self) {
        self.inner.add(&other.inner).expect("all histograms here have the same bounds");
    }

    /// Forgets everything.
    pub fn clear(&mut self) {
        self.inner.reset();
    }

    /// What would have been recorded, had requests gone out every `interval_ns` instead of waiting for slow answers
    /// (coordinated omission): a duration of many intervals also means the requests that were not sent meanwhile.
    /// The raw one stays as it is; show both and name them. An interval of 0 corrects nothing.
    #[must_use]
    pub fn corrected(&self, interval_ns: u64) -> Self {
        let mut corrected = self.clone();
        if interval_ns == 0 {
            return corrected;
        }
        for step in self.inner.iter_recorded() {
            corrected.add_omitted(step.value_iterated_to(), interval_ns, step.count_at_value());
        }
        corrected
    }

    /// Adds `duration - interval`, `duration - 2 * interval` and so on down to the interval. All of them that fall into one
    /// bucket are counted in one step, so that an hour over a microsecond takes as many steps as there are buckets.
    fn add_omitted(&mut self, duration_ns: u64, interval_ns: u64, count: u64) {
        let Some(mut missing) = duration_ns.checked_sub(interval_ns) else { return };
        while missing >= interval_ns {
            let least = self.inner.lowest_equivalent(missing).max(interval_ns);
            let in_bucket = (missing - least) / interval_ns + 1;
            self.record_n(missing, count.saturating_mul(in_bucket));
            let Some(next) = missing.checked_sub(in_bucket.saturating_mul(interval_ns)) else { return };
            missing = next;
        }
    }

    /// How many durations were counted.
    pub fn count(&self) -> u64 {
        self.inner.len()
    }

    /// Whether nothing was counted.
    pub fn is_empty(&self) -> bool {
        self.inner.is_empty()
    }

    /// The shortest duration in ns, to three digits.
    pub fn min_ns(&self) -> Option<u64> {
        (!self.is_empty()).then(|| self.inner.min())
    }

    /// The longest duration in ns, to three digits.
    pub fn max_ns(&self) -> Option<u64> {
        (!self.is_empty()).then(|| self.inner.max().min(DURATION_NS_MAX))
    }

    /// The mean in ns.
    pub fn mean_ns(&self) -> Option<f64> {
        (!self.is_empty()).then(|| self.inner.mean())
    }

    /// The standard deviation in ns, of all that was counted and not estimated from a sample.
    pub fn deviation_ns(&self) -> Option<f64> {
        (!self.is_empty()).then(|| self.inner.stdev())
    }

    /// The duration in ns that `percentile` (0 to 100) of all did not exceed.
    pub fn percentile_ns(&self, percentile: f64) -> Option<u64> {
        let percentile = percentile.clamp(0.0, 100.0);
        (!self.is_empty()).then(|| self.inner.value_at_percentile(percentile).min(DURATION_NS_MAX))
    }

    /// Durations and how often each was counted, ascending; only those that were.
    pub fn recorded(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        self.inner.iter_recorded().map(|step| (step.value_iterated_to(), step.count_at_value()))
    }

    /// The V2 encoding that every `HdrHistogram` tool reads: all counts, runs of empty buckets folded. Equal histograms give equal bytes.
    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        // It can only fail on a count of 2^63 or on a writer that fails, and a Vec does not.
        V2Serializer::new().serialize(&self.inner, &mut bytes).expect("counts stay below 2^63 in any run");
        bytes
    }

    /// Reads what [`encode`](Self::encode) wrote. The bytes may come from a damaged file.
    pub fn parse(bytes: &[u8]) -> Result<Self, ParseError> {
        let word = |at: usize| bytes.get(at..at + 4).and_then(|b| b.try_into().ok()).map(u32::from_be_bytes);
        let long = |at: usize| bytes.get(at..at + 8).and_then(|b| b.try_into().ok()).map(u64::from_be_bytes);
        let (cookie, payload) = word(0).zip(word(4)).ok_or(ParseError::Length)?;
        let (offset, digits) = word(8).zip(word(12)).ok_or(ParseError::Length)?;
        let (low, high) = long(16).zip(long(24)).ok_or(ParseError::Length)?;
        if (cookie, offset, digits, low, high) != (V2_COOKIE, 0, u32::from(DIGITS), 1, DURATION_NS_MAX) {
            return Err(ParseError::Shape);
        }
        // The crate below allocates what the header announces, so that is compared with the input first.
        if bytes.len().checked_sub(HEADER_BYTES) != Some(payload as usize) {
            return Err(ParseError::Length);
        }
        let inner: hdrhistogram::Histogram<u64> =
            Deserializer::new().deserialize(&mut &*bytes).map_err(|error| ParseError::Counts(error.to_string()))?;
        // Counts near 2^64 would make later sums saturate without a word.
        let counted = inner.iter_recorded().try_fold(0_u64, |sum, step| sum.checked_add(step.count_at_value()));
        if counted.is_none_or(|sum| sum > i64::MAX as u64 || sum != inner.len()) {
            return Err(ParseError::Counts("their sum is beyond 2^63".to_owned()));
        }
        Ok(Self { inner })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn of(durations_ns: &[u64]) -> Histogram {
        let mut histogram = Histogram::new();
        for ns in durations_ns {
            histogram.record(*ns);
        }
        histogram
    }

    #[test]
    fn nothing_recorded_has_no_percentile() {
        let empty = Histogram::new();
        assert_eq!((empty.percentile_ns(50.0), empty.max_ns(), empty.mean_ns()), (None, None, None));
        assert!(empty.encode().len() < 64, "{} bytes", empty.encode().len());
    }

    #[test]
    fn more_than_an_hour_counts_as_an_hour() {
        let histogram = of(&[u64::MAX, DURATION_NS_MAX]);
        assert_eq!((histogram.count(), histogram.max_ns()), (2, Some(DURATION_NS_MAX)));
    }

    #[test]
    fn correction_reveals_a_five_second_freeze() {
        // A closed loop that means to send every 5 ms: 1,000 answers of 1 ms, then one of 5 s.
        let mut raw = Histogram::new();
        raw.record_n(1_000_000, 1000);
        raw.record(5_000_000_000);
        let corrected = raw.corrected(5_000_000);
        assert_eq!(raw.percentile_ns(75.0).map(|ns| ns / 1_000_000), Some(1), "raw hides it");
        // 5 s, 4.995 s, ... down to 5 ms.
        assert_eq!(corrected.count(), 1000 + 1000);
        let p75 = corrected.percentile_ns(75.0).expect("not empty") as f64;
        assert!((p75 / 2.5e9 - 1.0).abs() < 0.01, "theory says 2.5 s, this says {p75} ns");
    }

    #[test]
    fn long_corrections_take_bucket_steps_and_count_all() {
        let corrected = of(&[DURATION_NS_MAX]).corrected(1);
        // The bucket's upper end is what is iterated; every nanosecond below means an omitted request.
        assert!(corrected.count() >= DURATION_NS_MAX);
    }

    #[test]
    fn huge_header_is_refused_before_allocation() {
        let mut bytes = of(&[1, 2, 3]).encode();
        bytes[4..8].copy_from_slice(&u32::MAX.to_be_bytes());
        assert_eq!(Histogram::parse(&bytes), Err(ParseError::Length));
        assert_eq!(Histogram::parse(&[]), Err(ParseError::Length));
        let mut wider = of(&[1]).encode();
        wider[24..32].copy_from_slice(&u64::MAX.to_be_bytes());
        assert_eq!(Histogram::parse(&wider), Err(ParseError::Shape));
    }

    fn durations() -> impl Strategy<Value = Vec<u64>> {
        prop::collection::vec(prop_oneof![0_u64..5000, 0..DURATION_NS_MAX, any::<u64>()], 0..60)
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn merged_parts_are_the_same_bytes_as_one_whole(left in durations(), right in durations()) {
            let mut merged = of(&left);
            merged.merge(&Histogram::parse(&of(&right).encode()).expect("own bytes"));
            let whole = of(&[left, right].concat());
            prop_assert_eq!(merged.encode(), whole.encode());
            prop_assert_eq!(merged, whole);
        }

        #[test]
        fn histogram_survives_a_round_trip(durations_ns in durations()) {
            let histogram = of(&durations_ns);
            let read = Histogram::parse(&histogram.encode()).expect("own bytes");
            prop_assert_eq!(&read, &histogram);
            prop_assert_eq!(read.percentile_ns(99.0), histogram.percentile_ns(99.0));
            prop_assert_eq!((read.min_ns(), read.max_ns()), (histogram.min_ns(), histogram.max_ns()));
        }

        #[test]
        fn a_percentile_is_the_sorted_value_to_three_digits(mut durations_ns in prop::collection::vec(1..DURATION_NS_MAX, 1..60),
                                                           percentile in 0.0..=100.0_f64) {
            let got = of(&durations_ns).percentile_ns(percentile).expect("not empty") as f64;
            durations_ns.sort_unstable();
            let rank = ((percentile / 100.0 * durations_ns.len() as f64).ceil() as usize).max(1);
            // Where the product is a whole number but for rounding, either neighbour is right.
            let near = [rank.saturating_sub(1).max(1), rank].map(|rank| durations_ns[rank - 1] as f64);
            prop_assert!(near.iter().any(|true_ns| (got / true_ns - 1.0).abs() < 0.001), "{} for {:?}", got, near);
        }

        #[test]
        fn the_correction_is_that_of_the_reference(durations_ns in prop::collection::vec(1..2_000_000_u64, 0..20),
                                                  interval_ns in 100..50_000_u64) {
            let raw = of(&durations_ns);
            let reference = raw.inner.clone_correct(interval_ns);
            prop_assert_eq!(raw.corrected(interval_ns).inner, reference);
        }

        #[test]
        fn damaged_bytes_are_an_error_and_never_a_panic(durations_ns in durations(), at in 0..400_usize, byte in any::<u8>(),
                                                        cut in 0..400_usize) {
            let mut bytes = of(&durations_ns).encode();
            if let Some(place) = bytes.get_mut(at) {
                *place = byte;
            }
            bytes.truncate(bytes.len().saturating_sub(cut / 8));
            if let Ok(read) = Histogram::parse(&bytes) {
                let _ = (read.percentile_ns(50.0), read.mean_ns(), read.corrected(1_000_000).count());
                prop_assert!(Histogram::parse(&read.encode()).is_ok());
            }
        }
    }
}
