//! How long a peer's responses take, for `least_time`: running averages of what was measured, the age of what is under
//! way, and the estimate that is compared. Plain atomics: a lost update among thousands changes no decision.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};

use crate::Millis;

/// What `least_time` measures.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Measure {
    /// Until the head of the response.
    Header,
    /// Until its last byte.
    LastByte,
    /// In `stream`: until the peer accepts a connection.
    Connect,
    /// In `stream`: until the peer's first byte.
    FirstByte,
}

/// A new time counts a twentieth: an average follows some dozens of requests, and one slow answer does not move it far.
const WEIGHT_OF_NEW: i64 = 20;

/// Averages are kept in 256ths of a millisecond, or small differences would never move them.
const FRACTION_BITS: u32 = 8;

/// Above this all peers are equally bad, and only their load tells them apart.
const TIME_MS_MAX: u64 = 5000;

/// Times within one step count as equal, so that peers of about the same speed take turns.
const STEP_MS: u64 = 20;

/// The times of one peer.
#[derive(Debug, Default)]
pub(super) struct Timing {
    header: AtomicU64,
    last_byte: AtomicU64,
    inflight: AtomicU32,
    /// The sum of the moments at which the exchanges under way began, in milliseconds.
    inflight_began_ms: AtomicU64,
}

impl Timing {
    pub(super) fn averages_ms(&self) -> (u64, u64) {
        (self.header.load(Relaxed) >> FRACTION_BITS, self.last_byte.load(Relaxed) >> FRACTION_BITS)
    }

    /// A response has come: times since the attempt began.
    pub(super) fn took(&self, header_ms: u64, last_byte_ms: u64) {
        for (average, ms) in [(&self.header, header_ms), (&self.last_byte, last_byte_ms)] {
            let (old, new) = (average.load(Relaxed), ms.min(u64::from(u32::MAX)) << FRACTION_BITS);
            let moved = if old == 0 { new as i64 } else { old as i64 + (new as i64 - old as i64) / WEIGHT_OF_NEW };
            average.store(moved.max(1) as u64, Relaxed);
        }
    }

    pub(super) fn begin(&self, now: Millis) {
        self.inflight_began_ms.fetch_add(now.0, Relaxed);
        self.inflight.fetch_add(1, Relaxed);
    }

    pub(super) fn end(&self, began: Millis) {
        self.inflight.fetch_sub(1, Relaxed);
        self.inflight_began_ms.fetch_sub(began.0, Relaxed);
    }

    /// The mean age of the exchanges under way, 0 without any. The two reads may not fit together; ages that make no
    /// sense are nothing.
    fn inflight_age_ms(&self, now: Millis) -> u64 {
        let count = u64::from(self.inflight.load(Relaxed));
        let began = self.inflight_began_ms.load(Relaxed).checked_div(count).unwrap_or(u64::MAX);
        now.0.saturating_sub(began)
    }

    /// The time that the peer is expected to need with one more exchange: its average time, or the age of what it has not
    /// answered where that is longer, times its load. A peer that was not asked for longer than `rest_ms` (its
    /// `fail_timeout`) is believed to be twice as fast as it was, and so on, so that one that was slow gets another chance.
    /// Rests are counted in whole seconds, as nginx counts them: with `fail_timeout=0` one second is one rest.
    pub(super) fn estimate(&self, measure: Measure, active: u32, silent_ms: u64, rest_ms: u64, now: Millis) -> u64 {
        let average = match measure {
            Measure::Header | Measure::Connect | Measure::FirstByte => &self.header,
            Measure::LastByte => &self.last_byte,
        };
        let average_ms = average.load(Relaxed) >> FRACTION_BITS;
        let (silent_s, rest_s) = (silent_ms / 1000, rest_ms / 1000);
        let rests = if silent_s > rest_s { silent_s / (rest_s + 1) } else { 0 };
        let rested = u32::try_from(rests).ok().and_then(|rests| average_ms.checked_shr(rests)).unwrap_or(0);
        let time = rested.max(self.inflight_age_ms(now));
        let stepped = if time > TIME_MS_MAX { TIME_MS_MAX } else { time + STEP_MS - time % STEP_MS };
        stepped * (1 + u64::from(active))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Millis = Millis(1_000_000);

    fn estimate(timing: &Timing, active: u32, silent_ms: u64) -> u64 {
        timing.estimate(Measure::Header, active, silent_ms, 10_000, NOW)
    }

    #[test]
    fn an_average_begins_with_the_first_time_and_follows_slowly() {
        let timing = Timing::default();
        timing.took(100, 200);
        assert_eq!(timing.averages_ms(), (100, 200));
        timing.took(300, 200);
        assert_eq!(timing.averages_ms(), (110, 200));
        for _ in 0..200 {
            timing.took(300, 200);
        }
        assert_eq!(timing.averages_ms().0, 299);
    }

    #[test]
    fn close_times_are_equal_and_long_ones_are_equally_bad() {
        let (fast, near, slow, slower) = (Timing::default(), Timing::default(), Timing::default(), Timing::default());
        fast.took(21, 0);
        near.took(39, 0);
        slow.took(6_000, 0);
        slower.took(60_000, 0);
        assert_eq!((estimate(&fast, 0, 0), estimate(&near, 0, 0)), (40, 40));
        assert_eq!((estimate(&slow, 1, 0), estimate(&slower, 1, 0)), (10_000, 10_000));
    }

    #[test]
    fn a_peer_that_rests_gets_another_chance() {
        let timing = Timing::default();
        timing.took(800, 0);
        let silences = [0, 10_999, 11_000, 21_999, 22_000, 700_000];
        assert_eq!(silences.map(|silent| estimate(&timing, 0, silent)), [820, 820, 420, 420, 220, 20]);
        assert_eq!(timing.estimate(Measure::Header, 0, u64::MAX, 0, NOW), 20, "whatever the clock says");
    }

    #[test]
    fn without_a_fail_timeout_a_rest_is_a_second() {
        let timing = Timing::default();
        timing.took(800, 0);
        let silences = [0, 3, 999, 1000, 1999, 2000];
        let estimates = silences.map(|silent| timing.estimate(Measure::Header, 0, silent, 0, NOW));
        assert_eq!(estimates, [820, 820, 820, 420, 420, 220]);
    }

    #[test]
    fn requests_in_flight_count_by_their_age() {
        let timing = Timing::default();
        timing.took(40, 0);
        timing.begin(Millis(NOW.0 - 3000));
        timing.begin(Millis(NOW.0 - 1000));
        assert_eq!(estimate(&timing, 0, 0), 2020);
        timing.end(Millis(NOW.0 - 3000));
        assert_eq!(estimate(&timing, 0, 0), 1020);
        timing.end(Millis(NOW.0 - 1000));
        assert_eq!(estimate(&timing, 0, 0), 60);
    }
}
