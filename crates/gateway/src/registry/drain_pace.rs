//! How fast tunnels are drained: the workers of a process take turns from one pace, so that the rate is that of the
//! process. It reads no clock and has no random source: both come in as arguments.

use reactor::Micros;
use std::num::NonZeroU32;
use std::sync::atomic::{AtomicU64, Ordering};

/// Turns that were missed for no longer than this are made up for: the timers of workers count milliseconds, and a worker
/// may be busy for some. Turns of a time in which nothing was to drain are lost.
const MADE_UP_US: u64 = 20_000;

/// The pace of a process.
#[derive(Debug, Default)]
pub(crate) struct DrainPace {
    /// When the next turn begins, in microseconds.
    next_us: AtomicU64,
}

impl DrainPace {
    /// Takes a turn; returns when it is. Each turn lasts for the interval of the rate, and the moment within it is
    /// random, so that instances with the same configuration do not close in step.
    pub(crate) fn take(&self, now: Micros, rate: NonZeroU32, random: u64) -> Micros {
        let interval_us = u64::from(1_000_000 / rate.get()).max(1);
        let earliest = now.0.saturating_sub(MADE_UP_US);
        let begin = |next: u64| next.max(earliest);
        let taken = |next: u64| Some(begin(next).saturating_add(interval_us));
        // Both results are the value before the turn.
        let (Ok(before) | Err(before)) = self.next_us.fetch_update(Ordering::Relaxed, Ordering::Relaxed, taken);
        Micros(begin(before).saturating_add(random % interval_us))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const START: u64 = 1_000_000_000;

    fn rate(per_second: u32) -> NonZeroU32 {
        NonZeroU32::new(per_second).unwrap()
    }

    #[test]
    fn turns_come_at_the_rate() {
        let pace = DrainPace::default();
        let turns: Vec<u64> = (0..100).map(|_| pace.take(Micros(START), rate(100), 0).0).collect();
        assert!(turns.windows(2).all(|pair| pair[1] - pair[0] == 10_000), "{turns:?}");
        assert_eq!(turns[0], START - MADE_UP_US);
    }

    #[test]
    fn a_pause_saves_up_no_turns() {
        let pace = DrainPace::default();
        pace.take(Micros(START), rate(10), 0);
        let later = START + 3_600_000_000;
        assert_eq!(pace.take(Micros(later), rate(10), 0), Micros(later - MADE_UP_US));
        assert_eq!(pace.take(Micros(later), rate(10), 0), Micros(later - MADE_UP_US + 100_000));
    }

    #[test]
    fn another_rate_holds_from_the_next_turn_on() {
        let pace = DrainPace::default();
        pace.take(Micros(START), rate(1), 0);
        let second = pace.take(Micros(START), rate(1000), 0).0;
        assert_eq!(pace.take(Micros(START), rate(1000), 0), Micros(second + 1000));
    }

    proptest! {
        #[test]
        fn no_second_has_more_turns_than_the_rate_allows(
            per_second in 1_u32..2000, randoms in prop::collection::vec(any::<u64>(), 1..300),
        ) {
            let pace = DrainPace::default();
            let turns: Vec<u64> = randoms.iter().map(|random| pace.take(Micros(START), rate(per_second), *random).0).collect();
            for (index, turn) in turns.iter().enumerate() {
                let within = turns[index..].iter().filter(|other| **other >= *turn && **other < turn + 1_000_000).count();
                // The interval is in whole microseconds, and a turn may be anywhere in its interval.
                prop_assert!(within as u32 <= per_second + per_second / 100 + 2, "{within} of {per_second}");
            }
        }
    }
}
