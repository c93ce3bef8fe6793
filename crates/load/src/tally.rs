//! Counts per target and interval. The worker that sees an event counts it, and `collect` merges the counts without loss.
//! Memory does not grow with the number of requests: latencies are histograms (HDR, three digits), statuses a short list.

use crate::cause::{ByCause, Cause, SocketErrorKind};
use crate::options::LATENCY_NS_MAX;
use crate::scenario::CheckTally;
use crate::series::Sparse;
use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};

/// Significant decimal digits of a latency.
pub const LATENCY_DIGITS: u8 = 3;

/// Latencies in nanoseconds. It grows to the largest value it has seen, at most to one hour.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(try_from = "LatenciesOnWire", into = "LatenciesOnWire")]
pub struct Latencies {
    histogram: Histogram<u64>,
    /// Exact, while the histogram has three digits.
    sum_ns: u128,
}

/// Compares the recorded latencies, not the allocated size.
impl PartialEq for Latencies {
    fn eq(&self, other: &Self) -> bool {
        self.sum_ns == other.sum_ns && self.recorded().eq(other.recorded())
    }
}

impl Default for Latencies {
    fn default() -> Self {
        let histogram = Histogram::new(LATENCY_DIGITS).expect("three digits are within what a histogram can have");
        Self { histogram, sum_ns: 0 }
    }
}

/// Latencies for transfer between processes. Nothing is lost: each value is the upper end of its bucket and falls into the
/// same one again, and the exact sum is included.
#[derive(Serialize, Deserialize)]
struct LatenciesOnWire {
    /// Upper and lower 64 bits, because JSON readers have no 128-bit integers.
    sum_ns: (u64, u64),
    counts: Sparse,
}

impl From<Latencies> for LatenciesOnWire {
    fn from(latencies: Latencies) -> Self {
        let sum_ns = ((latencies.sum_ns >> 64) as u64, latencies.sum_ns as u64);
        Self { sum_ns, counts: Sparse::from(&latencies) }
    }
}

impl TryFrom<LatenciesOnWire> for Latencies {
    type Error = &'static str;

    fn try_from(counted: LatenciesOnWire) -> Result<Self, Self::Error> {
        let mut latencies = Self::default();
        let highest = latencies.histogram.highest_equivalent(LATENCY_NS_MAX);
        for (latency_ns, count) in counted.counts.0 {
            // The histogram would grow to any value, and saturate at any count.
            if latency_ns > highest || latencies.count().checked_add(count).is_none() {
                return Err("a latency beyond an hour, or more of them than can be counted");
            }
            latencies.histogram.record_n(latency_ns, count).map_err(|_| "a latency that cannot be counted")?;
        }
        let (high, low) = counted.sum_ns;
        latencies.sum_ns = u128::from(high) << 64 | u128::from(low);
        Ok(latencies)
    }
}

impl Latencies {
    /// Records one latency; values above one hour count as one hour.
    #[inline]
    pub fn record(&mut self, latency_ns: u64) {
        let latency_ns = latency_ns.min(LATENCY_NS_MAX);
        self.sum_ns += u128::from(latency_ns);
        // The histogram resizes itself, so it accepts any u64.
        let _ = self.histogram.record(latency_ns);
    }

    /// Clears all counts and keeps the memory.
    pub(crate) fn clear(&mut self) {
        // Most histograms are empty, and clearing one would write some hundred kilobytes.
        if !self.histogram.is_empty() {
            self.histogram.reset();
        }
        self.sum_ns = 0;
    }

    /// Allocates memory for latencies up to this one, before the load begins.
    pub(crate) fn make_room(&mut self, latency_ns: u64) {
        self.record(latency_ns);
        self.clear();
    }

    /// Adds another histogram.
    pub fn add(&mut self, other: &Self) {
        self.sum_ns += other.sum_ns;
        let _ = self.histogram.add(&other.histogram);
    }

    /// Number of recorded latencies.
    pub fn count(&self) -> u64 {
        self.histogram.len()
    }

    /// The latency that this share (0 to 1) of the requests did not exceed, in nanoseconds; 0 if there are none.
    pub fn quantile_ns(&self, quantile: f64) -> u64 {
        if self.histogram.is_empty() { 0 } else { self.histogram.value_at_quantile(quantile) }
    }

    /// Greatest latency, in nanoseconds, to three digits.
    pub fn max_ns(&self) -> u64 {
        if self.histogram.is_empty() { 0 } else { self.histogram.max() }
    }

    /// Smallest latency, in nanoseconds, to three digits.
    pub fn min_ns(&self) -> u64 {
        if self.histogram.is_empty() { 0 } else { self.histogram.min() }
    }

    /// Arithmetic mean in nanoseconds, exact; 0 if there are none.
    pub fn mean_ns(&self) -> f64 {
        if self.count() == 0 { 0.0 } else { self.sum_ns as f64 / self.count() as f64 }
    }

    /// Standard deviation in nanoseconds.
    pub fn deviation_ns(&self) -> f64 {
        if self.histogram.is_empty() { 0.0 } else { self.histogram.stdev() }
    }

    /// Share (0 to 1) of latencies up to this one.
    pub fn share_below(&self, latency_ns: u64) -> f64 {
        if self.histogram.is_empty() { 1.0 } else { self.histogram.quantile_below(latency_ns) }
    }

    /// Adds the latencies of requests that a closed loop did not send while it waited, if each connection had sent every
    /// `interval_ns`.
    pub fn corrected(&self, interval_ns: u64) -> Self {
        let corrected = self.histogram().corrected(interval_ns);
        let mut latencies = Self::default();
        for (latency_ns, count) in corrected.recorded() {
            let _ = latencies.histogram.record_n(latency_ns, count);
        }
        latencies.sum_ns = (latencies.histogram.mean() * latencies.histogram.len() as f64) as u128;
        latencies
    }

    /// The recorded values, each the upper end of its bucket, ascending, with their counts.
    pub fn recorded(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        self.histogram.iter_recorded().map(|step| (step.value_iterated_to(), step.count_at_value()))
    }

    /// The same as a histogram of fixed size, for corrections and exports. Nothing is lost, because the buckets are the
    /// same.
    pub fn histogram(&self) -> stats::Histogram {
        let mut histogram = stats::Histogram::new();
        self.recorded().for_each(|(latency_ns, count)| histogram.record_n(latency_ns, count));
        histogram
    }
}

/// Failures in wrk's three categories. Here a failed write counts as a failed read, because data that the target sent
/// before its reset is read first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SocketErrors {
    /// The connection could not be established.
    pub connect: u64,
    /// The connection broke, or the received data is no response.
    pub read: u64,
    /// A timeout.
    pub timeout: u64,
}

/// Counts of one target.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Tally {
    /// Requests that were sent or should have been sent.
    pub begun: u64,
    /// Complete responses.
    pub responses: u64,
    /// Responses on a connection that had carried a request before.
    pub reused: u64,
    /// Responses by status, in the order of their first appearance.
    pub statuses: Vec<(u16, u64)>,
    /// Failures by [`Cause`] as index.
    pub failures: ByCause,
    /// Bytes of complete and incomplete responses, heads included.
    pub bytes_received: u64,
    /// Bytes of bodies, chunked coding removed.
    pub bytes_body: u64,
    /// Bytes of requests.
    pub bytes_sent: u64,
    /// Length of the first body; `ab` compares the others with it.
    pub length_first: Option<u64>,
    /// Responses whose body had another length.
    pub lengths_other: u64,
    /// Open loop: from the time the request was due. Closed loop: from the time the connection could send. Up to the end of
    /// the response, or for a timeout up to the end of the wait.
    pub latency: Latencies,
    /// The checks of a scenario's step, then its extractions; empty without them.
    #[serde(default)]
    pub checks: Vec<CheckTally>,
}

/// Serializes counts indexed by cause or ending as a list, because serde does not support arrays of every length.
pub(crate) mod by_index {
    use serde::de::Error as _;
    use serde::{Deserialize as _, Deserializer, Serialize as _, Serializer};

    pub(crate) fn serialize<S: Serializer, const N: usize>(counts: &[u64; N], out: S) -> Result<S::Ok, S::Error> {
        counts.as_slice().serialize(out)
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>, const N: usize>(from: D) -> Result<[u64; N], D::Error> {
        let counts = Vec::<u64>::deserialize(from)?;
        counts.try_into().map_err(|_| D::Error::custom("another number of counts than this program knows"))
    }
}

impl Tally {
    /// Counts a complete response.
    #[inline]
    pub(crate) fn response(&mut self, status: u16, body_bytes: u64, latency_ns: u64) {
        self.responses += 1;
        self.bytes_body += body_bytes;
        self.latency.record(latency_ns);
        match self.statuses.iter_mut().find(|(known, _)| *known == status) {
            Some((_, count)) => *count += 1,
            // There are at most 900 statuses.
            None => self.statuses.push((status, 1)),
        }
        if *self.length_first.get_or_insert(body_bytes) != body_bytes {
            self.lengths_other += 1;
        }
    }

    /// Counts a TLS handshake in a load of handshakes only.
    pub(crate) fn handshake(&mut self, latency_ns: u64) {
        self.responses += 1;
        self.latency.record(latency_ns);
    }

    /// Counts a complete message of a load over TCP, with the bytes of its reply.
    pub(crate) fn message(&mut self, reply_bytes: u64, latency_ns: u64) {
        self.responses += 1;
        self.bytes_body += reply_bytes;
        self.latency.record(latency_ns);
    }

    /// Counts a failure.
    pub(crate) fn failure(&mut self, cause: Cause, latency_ns: u64) {
        if let Some(count) = self.failures.get_mut(cause as usize) {
            *count += 1;
        }
        if cause.is_waited_for() {
            self.latency.record(latency_ns);
        }
    }

    /// Clears all counts and keeps the memory.
    pub(crate) fn clear(&mut self) {
        let Self {
            begun,
            responses,
            reused,
            statuses,
            failures,
            bytes_received,
            bytes_body,
            bytes_sent,
            length_first,
            lengths_other,
            latency,
            checks,
        } = self;
        for count in [begun, responses, reused, bytes_received, bytes_body, bytes_sent, lengths_other] {
            *count = 0;
        }
        statuses.clear();
        *failures = ByCause::default();
        *length_first = None;
        checks.clear();
        latency.clear();
    }

    /// Adds another tally.
    pub fn add(&mut self, other: &Self) {
        self.begun += other.begun;
        self.responses += other.responses;
        self.reused += other.reused;
        for &(status, count) in &other.statuses {
            match self.statuses.iter_mut().find(|(known, _)| *known == status) {
                Some((_, sum)) => *sum += count,
                None => self.statuses.push((status, count)),
            }
        }
        for (sum, count) in self.failures.iter_mut().zip(*other.failures) {
            *sum += count;
        }
        self.bytes_received += other.bytes_received;
        self.bytes_body += other.bytes_body;
        self.bytes_sent += other.bytes_sent;
        // The first body is a different one in each thread. One length is kept for the comparison.
        self.length_first = self.length_first.or(other.length_first);
        self.lengths_other += other.lengths_other;
        if self.length_first.is_some() && other.length_first.is_some() && self.length_first != other.length_first {
            self.lengths_other += 1;
        }
        self.latency.add(&other.latency);
        self.add_checks(&other.checks);
    }

    fn add_checks(&mut self, others: &[CheckTally]) {
        if self.checks.len() < others.len() {
            self.checks.resize_with(others.len(), CheckTally::default);
        }
        self.checks.iter_mut().zip(others).for_each(|(sum, other)| sum.add(*other));
    }

    /// Counts the outcome of a check.
    pub(crate) fn check(&mut self, number: usize, passed: bool) {
        if self.checks.len() <= number {
            self.checks.resize_with(number + 1, CheckTally::default);
        }
        if let Some(check) = self.checks.get_mut(number) {
            *(if passed { &mut check.passed } else { &mut check.failed }) += 1;
        }
    }

    /// Failed checks and extractions, and all of them.
    pub fn checks_failed(&self) -> (u64, u64) {
        let failed = self.checks.iter().map(|check| check.failed).sum();
        (failed, self.checks.iter().map(|check| check.passed + check.failed).sum())
    }

    /// Failures of this cause.
    pub fn failed_by(&self, cause: Cause) -> u64 {
        self.failures.get(cause as usize).copied().unwrap_or_default()
    }

    /// Requests without a complete response.
    pub fn failed(&self) -> u64 {
        self.failures.iter().sum()
    }

    /// Responses with a status in this range.
    pub fn with_status(&self, statuses: std::ops::RangeInclusive<u16>) -> u64 {
        self.statuses.iter().filter(|(status, _)| statuses.contains(status)).map(|(_, count)| count).sum()
    }

    /// Failures, and responses with a status of 400 and above.
    pub fn errors(&self) -> u64 {
        self.failed() + self.with_status(400..=999)
    }

    /// Complete responses and failures.
    pub fn ended(&self) -> u64 {
        self.responses + self.failed()
    }

    /// Failures in the three categories of wrk and its scripts.
    pub fn socket_errors(&self) -> SocketErrors {
        let mut errors = SocketErrors::default();
        for cause in Cause::ALL {
            let sum = match cause.kind() {
                SocketErrorKind::Connect => &mut errors.connect,
                SocketErrorKind::Read => &mut errors.read,
                SocketErrorKind::Timeout => &mut errors.timeout,
            };
            *sum += self.failed_by(*cause);
        }
        errors
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_lost_in_a_merge() {
        let (mut one, mut other, mut whole) = (Latencies::default(), Latencies::default(), Latencies::default());
        for value in 1..2_000u64 {
            let latency = value * value * 1_000;
            if value % 3 == 0 { &mut one } else { &mut other }.record(latency);
            whole.record(latency);
        }
        one.add(&other);
        assert_eq!(one, whole);
    }

    #[test]
    fn tally_survives_the_transfer_between_processes() {
        let mut sent = Tally::default();
        for value in 1..3_000u64 {
            sent.response(200, value % 7, value * value * value);
        }
        sent.response(503, 1, LATENCY_NS_MAX);
        sent.failure(Cause::Silent, 0);
        let text = serde_json::to_string(&sent).unwrap();
        let read: Tally = serde_json::from_str(&text).unwrap();
        assert_eq!(read, sent);
        // Bit for bit, so that every output has the same bytes.
        assert_eq!(read.latency.histogram().encode(), sent.latency.histogram().encode());
        assert_eq!(serde_json::to_string(&read).unwrap(), text);
        for damaged in [
            r#"{"sum_ns":[0,1],"counts":[[18446744073709551615,1]]}"#,
            r#"{"sum_ns":[0,1],"counts":[[1,18446744073709551615],[2,1]]}"#,
            r#"{"sum_ns":[0,1]}"#,
        ] {
            assert!(serde_json::from_str::<Latencies>(damaged).is_err(), "{damaged}");
        }
    }

    #[test]
    fn a_stall_is_filled_up() {
        let mut raw = Latencies::default();
        (0..99).for_each(|_| raw.record(1_000_000));
        raw.record(1_000_000_000);
        let corrected = raw.corrected(10_000_000);
        // One second without an answer hides 99 requests, one every 10 ms.
        assert_eq!((raw.count(), corrected.count()), (100, 199));
        assert!(raw.quantile_ns(0.9) < 2_000_000 && corrected.quantile_ns(0.9) > 700_000_000);
    }

    #[test]
    fn statuses_lengths_and_causes_are_kept_apart() {
        let mut tally = Tally::default();
        tally.response(200, 5, 10);
        tally.response(200, 6, 10);
        tally.response(503, 5, 10);
        tally.failure(Cause::Refused, 1);
        tally.failure(Cause::Silent, 30);
        assert_eq!(tally.statuses, [(200, 2), (503, 1)]);
        assert_eq!((tally.errors(), tally.failed(), tally.lengths_other), (3, 2, 1));
        assert_eq!(tally.socket_errors(), SocketErrors { connect: 1, read: 0, timeout: 1 });
        // A refused request has no latency, a timeout has one.
        assert_eq!(tally.latency.count(), 4);
        let mut sum = tally.clone();
        sum.add(&tally);
        assert_eq!((sum.errors(), sum.with_status(200..=299), sum.latency.count()), (6, 4, 8));
    }

    #[test]
    fn cleared_tally_equals_a_new_one() {
        let mut tally = Tally::default();
        tally.response(503, 9, LATENCY_NS_MAX);
        tally.failure(Cause::Silent, 30);
        tally.clear();
        // Bit for bit, although one has memory for an hour.
        let text = |tally: &Tally| serde_json::to_string(tally).unwrap();
        assert!(tally == Tally::default() && text(&tally) == text(&Tally::default()));
        let mut fresh = Tally::default();
        for tally in [&mut tally, &mut fresh] {
            tally.response(200, 5, 10);
        }
        assert!(tally == fresh, "room makes no difference");
        assert_eq!((text(&tally), tally.latency.max_ns()), (text(&fresh), 10));
    }

    #[test]
    fn of_nothing_everything_is_zero() {
        let none = Latencies::default();
        assert_eq!((none.count(), none.quantile_ns(0.99), none.max_ns(), none.min_ns()), (0, 0, 0, 0));
        assert!(none.mean_ns() + none.deviation_ns() < f64::EPSILON);
    }
}
