//! Whether another round fits into the time that a demo may take. Pure: times come in, counted from its beginning.

use std::time::Duration;

/// The rounds so far.
#[derive(Debug)]
pub struct Pace {
    limit: Duration,
    rounds: u32,
    /// Samples of a round, once that is known.
    per_round: usize,
    taken: usize,
    /// When the round under way began.
    round_began: Duration,
    longest: Duration,
    is_over: bool,
}

impl Pace {
    /// At most so many rounds, all of which end within the limit; but for the first, without which nothing can be told.
    pub fn new(limit: Duration, rounds: u32) -> Self {
        Self {
            limit,
            rounds: rounds.max(1),
            per_round: 0,
            taken: 0,
            round_began: Duration::ZERO,
            longest: Duration::ZERO,
            is_over: false,
        }
    }

    /// A sample begins: its number from 0, and how many there are in all rounds.
    pub fn sample(&mut self, number: usize, count: usize, now: Duration) {
        self.per_round = (count / self.rounds as usize).max(1);
        if number.is_multiple_of(self.per_round) {
            self.round_began = now;
        }
        self.taken = number;
    }

    /// It has been taken. `false`: it was the last of a round, and the next one would end too late.
    pub fn taken(&mut self, now: Duration) -> bool {
        self.taken += 1;
        let is_last = self.taken >= self.per_round * self.rounds as usize;
        if is_last || !self.taken.is_multiple_of(self.per_round) {
            return true;
        }
        self.longest = self.longest.max(now.saturating_sub(self.round_began));
        self.is_over = now + self.longest > self.limit;
        !self.is_over
    }

    /// Whether the time was over before the rounds were.
    pub fn is_over(&self) -> bool {
        self.is_over
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Samples of so many seconds each, three to a round; how many are taken.
    fn taken(limit_s: u64, rounds: u32, sample_s: u64) -> (usize, bool) {
        let mut pace = Pace::new(Duration::from_secs(limit_s), rounds);
        let count = rounds as usize * 3;
        let mut now = Duration::ZERO;
        for number in 0..count {
            pace.sample(number, count, now);
            now += Duration::from_secs(sample_s);
            if !pace.taken(now) {
                return (number + 1, pace.is_over());
            }
        }
        (count, pace.is_over())
    }

    #[test]
    fn no_round_is_begun_that_would_end_too_late() {
        assert_eq!(taken(18, 6, 1), (18, false), "all of them fit");
        assert_eq!(taken(17, 6, 1), (15, true), "the sixth would end at 18");
        assert_eq!(taken(1, 6, 1), (3, true), "the first is always whole");
        assert_eq!(taken(1, 1, 9), (3, false), "and where there is but one, it is all");
    }

    #[test]
    fn the_slowest_round_is_the_measure() {
        let mut pace = Pace::new(Duration::from_secs(10), 3);
        let mut at = |number, begins, ends| {
            pace.sample(number, 3, Duration::from_secs(begins));
            pace.taken(Duration::from_secs(ends))
        };
        assert!(at(0, 0, 5), "another five seconds");
        assert!(!at(1, 5, 6), "one of five seconds would end at eleven");
    }
}
