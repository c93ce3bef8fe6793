//! How much longer an exchange waits for somebody who makes no progress. Events wake it whatever they are about, so a wait
//! that began anew with each of them would let a client that keeps talking hold a silent upstream for ever, and the other
//! way round. It knows no clock; the waits of `attempt`, `relay` and `settle` ask it.

use reactor::Millis;
use std::time::Duration;

/// A wait is at least this long: a deadline in the past would make the exchange spin.
const WAIT_MIN: Duration = Duration::from_millis(1);

/// Since when a mark has not changed.
#[derive(Debug)]
pub(crate) struct Patience<M> {
    mark: M,
    since: Millis,
}

impl<M: PartialEq> Patience<M> {
    /// Begins to count.
    pub(crate) fn new(mark: M, now: Millis) -> Self {
        Self { mark, since: now }
    }

    /// What is left of a time without progress. `mark` changes with all progress that counts.
    pub(crate) fn left(&mut self, mark: M, at_most: Duration, now: Millis) -> Duration {
        if self.mark != mark {
            *self = Self::new(mark, now);
        }
        at_most.saturating_sub(Duration::from_millis(now.since(self.since))).max(WAIT_MIN)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_progress_renews_the_time() {
        let ms = Duration::from_millis;
        let mut patience = Patience::new(0, Millis(1000));
        assert_eq!(patience.left(0, ms(300), Millis(1100)), ms(200));
        assert_eq!(patience.left(0, ms(300), Millis(1290)), ms(10));
        assert_eq!(patience.left(1, ms(300), Millis(1299)), ms(300));
        assert_eq!(patience.left(1, ms(300), Millis(1700)), WAIT_MIN);
    }
}
