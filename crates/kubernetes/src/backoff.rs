//! How long to wait before the API server is asked again. Pure: the random part comes in.

use std::time::Duration;

/// The first pause.
const FIRST: Duration = Duration::from_millis(500);
/// The longest pause: a server that was away for an hour is noticed half a minute after it is back.
const LONGEST: Duration = Duration::from_secs(30);

/// Pauses that double with each failure.
#[derive(Debug, Default)]
pub(crate) struct Backoff {
    failures: u32,
}

impl Backoff {
    /// The next pause; `chance` is between 0 and 1. Half of it is random, so that many replicas do not come back together.
    pub(crate) fn next(&mut self, chance: f64) -> Duration {
        let whole = FIRST.saturating_mul(1 << self.failures.min(6)).min(LONGEST);
        self.failures = self.failures.saturating_add(1);
        whole.mul_f64(0.5 + chance.clamp(0.0, 1.0) / 2.0)
    }

    /// The server answered.
    pub(crate) fn reset(&mut self) {
        self.failures = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_double_up_to_half_a_minute() {
        let mut backoff = Backoff::default();
        let pauses: Vec<u64> = (0..8).map(|_| backoff.next(1.0).as_millis() as u64).collect();
        assert_eq!(pauses, [500, 1000, 2000, 4000, 8000, 16_000, 30_000, 30_000]);
        assert_eq!(backoff.next(0.0).as_secs(), 15);
        backoff.reset();
        assert_eq!(backoff.next(1.0), FIRST);
    }
}
