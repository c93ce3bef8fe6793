//! Decides whether another round fits into the time of a demo. Pure: it takes times since the start of the demo.

use std::time::Duration;

/// The progress of the rounds.
#[derive(Debug)]
pub struct Pace {
    limit: Duration,
    rounds: u32,
    /// Samples of a round with all arms; 0 until that is known.
    per_round: usize,
    /// Samples of each further round.
    wanted: usize,
    /// The current round, from 0, and when it began; `in_round` counts its samples.
    round: Option<(usize, Duration)>,
    in_round: usize,
    /// Time per sample in the slowest round.
    longest: Duration,
    is_over: bool,
}

impl Pace {
    /// At most `rounds` rounds, all of which end within the limit, except the first, which always runs because the demo
    /// needs its figures.
    pub fn new(limit: Duration, rounds: u32) -> Self {
        Self {
            limit,
            rounds: rounds.max(1),
            per_round: 0,
            wanted: 0,
            round: None,
            in_round: 0,
            longest: Duration::ZERO,
            is_over: false,
        }
    }

    /// Called when a sample begins: its number from 0, and the number of samples in all rounds with all arms.
    pub fn sample(&mut self, number: usize, count: usize, now: Duration) {
        if self.per_round == 0 {
            self.per_round = (count / self.rounds as usize).max(1);
            self.wanted = self.per_round;
        }
        let round = number / self.per_round;
        if self.round.is_none_or(|(known, _)| known != round) {
            (self.round, self.in_round) = (Some((round, now)), 0);
        }
    }

    /// Called when a sample has been taken. `false` if it was the last of a round and the next round would end too late.
    pub fn taken(&mut self, now: Duration) -> bool {
        self.in_round += 1;
        let Some((round, began)) = self.round else { return true };
        if self.in_round < self.wanted || round + 1 >= self.rounds as usize {
            return true;
        }
        let each = now.saturating_sub(began) / u32::try_from(self.in_round).unwrap_or(u32::MAX);
        self.longest = self.longest.max(each);
        self.is_over = now + self.longest * u32::try_from(self.wanted).unwrap_or(u32::MAX) > self.limit;
        !self.is_over
    }

    /// After a round: how many arms fit into the remaining time if each has this many rounds in all; all of them if fewer rounds
    /// are wanted. `None` within a round.
    pub fn arms_that_fit(&self, now: Duration, rounds: usize) -> Option<usize> {
        let (round, began) = self.round.filter(|_| self.in_round == self.wanted)?;
        if (self.rounds as usize) < rounds {
            return Some(usize::MAX);
        }
        let each =
            (now.saturating_sub(began) / u32::try_from(self.in_round.max(1)).unwrap_or(u32::MAX)).max(self.longest);
        let left = self.limit.saturating_sub(now).as_secs_f64();
        Some((left / (rounds.saturating_sub(round + 1).max(1) as f64 * each.as_secs_f64().max(1e-9))) as usize)
    }

    /// Whether the first round is the last that was run.
    pub fn is_first_round(&self) -> bool {
        self.round.is_some_and(|(round, _)| round == 0)
    }

    /// After a round: how many rounds there will be in the whole time, at most. `None` within a round.
    pub fn rounds_that_fit(&self, now: Duration) -> Option<usize> {
        let (round, _) = self.round.filter(|_| self.in_round == self.wanted && !self.longest.is_zero())?;
        let left = self.limit.saturating_sub(now).as_secs_f64();
        let more = (left / (self.longest.as_secs_f64() * self.wanted as f64)) as usize;
        Some((round + 1 + more).min(self.rounds as usize))
    }

    /// Further rounds have this number of arms.
    pub fn keep(&mut self, arms: usize) {
        self.wanted = arms.clamp(1, self.per_round.max(1));
    }

    /// Whether the time was over before all rounds were run.
    pub fn is_over(&self) -> bool {
        self.is_over
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs samples of this many seconds, three to a round; returns the number of samples taken.
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

    #[test]
    fn rounds_that_fit_are_known_after_each_round() {
        let seconds = Duration::from_secs;
        let mut pace = Pace::new(seconds(30), 8);
        for number in 0..5 {
            assert_eq!(pace.rounds_that_fit(seconds(number)), None, "within the round");
            pace.sample(number as usize, 40, seconds(number));
            pace.taken(seconds(number + 1));
        }
        assert_eq!(pace.rounds_that_fit(seconds(5)), Some(6), "five more of five seconds");
        pace.keep(2);
        for number in 5..7 {
            pace.sample(number as usize, 40, seconds(number));
            pace.taken(seconds(number + 1));
        }
        assert_eq!(pace.rounds_that_fit(seconds(7)), Some(8), "no more than wanted");
    }

    #[test]
    fn rounds_that_become_slower_leave_room_for_fewer_arms() {
        let seconds = Duration::from_secs;
        let mut pace = Pace::new(seconds(30), 8);
        let mut now = 0;
        for number in 0..10 {
            pace.sample(number, 40, seconds(now));
            now += if number < 5 { 1 } else { 2 };
            pace.taken(seconds(now));
            match number {
                4 => assert_eq!(pace.arms_that_fit(seconds(now), 6), Some(5), "25 s for five rounds of 1 s each"),
                9 => assert_eq!(pace.arms_that_fit(seconds(now), 6), Some(1), "15 s for four rounds of 2 s each"),
                _ => assert_eq!(pace.arms_that_fit(seconds(now), 6), None, "within a round"),
            }
        }
        assert!(!pace.is_first_round());
    }

    #[test]
    fn with_fewer_arms_there_is_time_for_more_rounds() {
        let seconds = Duration::from_secs;
        let mut pace = Pace::new(seconds(30), 8);
        for number in 0..5 {
            pace.sample(number, 40, seconds(number as u64 * 2));
            assert_eq!(pace.arms_that_fit(seconds(1), 6), None, "a round first");
            pace.taken(seconds(number as u64 * 2 + 2));
        }
        assert_eq!(pace.arms_that_fit(seconds(10), 6), Some(2), "20 s for five rounds of 2 s each");
        assert!(pace.is_first_round());
        pace.keep(2);
        let mut now = 10;
        let mut rounds = 1;
        for round in 1..8 {
            for arm in 0..2 {
                pace.sample(round * 5 + arm, 40, seconds(now));
                now += 2;
                let goes_on = pace.taken(seconds(now));
                rounds += arm;
                if !goes_on {
                    assert_eq!((rounds, now), (6, 30));
                    return;
                }
            }
        }
        panic!("the time is over before");
    }
}
