//! The time left for a wait without progress. Any event wakes a waiting task. If each event restarted the timeout, a
//! client that keeps sending could hold a silent upstream for ever, and vice versa.

use reactor::Millis;
use std::time::Duration;

/// A wait is at least this long: a deadline in the past would make the exchange spin.
const WAIT_MIN: Duration = Duration::from_millis(1);

/// Remembers since when a mark has not changed.
#[derive(Debug)]
pub(crate) struct StallTimeout<M> {
    mark: M,
    since: Millis,
}

impl<M: PartialEq> StallTimeout<M> {
    /// Starts counting.
    pub(crate) fn new(mark: M, now: Millis) -> Self {
        Self { mark, since: now }
    }

    /// The rest of the longest time without progress. `mark` changes with every kind of progress that counts.
    pub(crate) fn left(&mut self, mark: M, at_most: Duration, now: Millis) -> Duration {
        if self.mark != mark {
            *self = Self::new(mark, now);
        }
        at_most.saturating_sub(Duration::from_millis(now.since(self.since))).max(WAIT_MIN)
    }

    /// Whether that time is over. A wait does not tell if something comes all the time that is no progress.
    pub(crate) fn is_over(&self, at_most: Duration, now: Millis) -> bool {
        at_most <= Duration::from_millis(now.since(self.since))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_progress_renews_the_time() {
        let ms = Duration::from_millis;
        let mut stall = StallTimeout::new(0, Millis(1000));
        assert_eq!(stall.left(0, ms(300), Millis(1100)), ms(200));
        assert_eq!(stall.left(0, ms(300), Millis(1290)), ms(10));
        assert_eq!(stall.left(1, ms(300), Millis(1299)), ms(300));
        assert_eq!(stall.left(1, ms(300), Millis(1700)), WAIT_MIN);
    }
}
