//! Rate-limited log lines about a shortage. Without a limit every connection would write one. The first occurrence is
//! logged at once; later ones are counted and logged together. This module writes nothing; the callers format the
//! lines.

use reactor::Millis;
use std::sync::atomic::{AtomicU64, Ordering};

/// Least time between two lines about the same shortage. The operator learns at once that it began and every minute
/// that it goes on, and the log stays readable.
const PERIOD_MS: u64 = 60_000;

/// One kind of shortage, counted for the whole process.
#[derive(Debug, Default)]
pub(crate) struct Alarm {
    /// When the last line was written, in milliseconds of the monotonic clock; 0 for never.
    told_at: AtomicU64,
    total: AtomicU64,
    kept_back: AtomicU64,
}

impl Alarm {
    /// Counts an occurrence. `Some` means that a line is due; the number is how many occurrences went unlogged since
    /// the last line.
    pub(crate) fn ring(&self, now: Millis) -> Option<u64> {
        self.total.fetch_add(1, Ordering::Relaxed);
        let told_at = self.told_at.load(Ordering::Relaxed);
        let due = told_at == 0 || now.0.saturating_sub(told_at) >= PERIOD_MS;
        // If several workers find it due at the same time, only one writes the line.
        if due && self.told_at.compare_exchange(told_at, now.0.max(1), Ordering::Relaxed, Ordering::Relaxed).is_ok() {
            return Some(self.kept_back.swap(0, Ordering::Relaxed));
        }
        self.kept_back.fetch_add(1, Ordering::Relaxed);
        None
    }

    /// Occurrences since the start.
    pub(crate) fn total(&self) -> u64 {
        self.total.load(Ordering::Relaxed)
    }
}

/// The suffix of a line about the occurrences that went unlogged; empty if there were none.
pub(crate) fn and_more(kept_back: u64) -> String {
    match kept_back {
        0 => String::new(),
        count => format!("; {count} more since the last such line"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reports_the_first_then_one_per_minute_with_a_count() {
        let alarm = Alarm::default();
        assert_eq!(alarm.ring(Millis(0)), Some(0));
        assert_eq!(alarm.ring(Millis(5)), None);
        assert_eq!(alarm.ring(Millis(PERIOD_MS)), None);
        assert_eq!(alarm.ring(Millis(PERIOD_MS + 1)), Some(2));
        assert_eq!((alarm.ring(Millis(PERIOD_MS + 2)), alarm.total()), (None, 5));
        assert_eq!((and_more(0), and_more(2)), (String::new(), "; 2 more since the last such line".to_owned()));
    }
}
