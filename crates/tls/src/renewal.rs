//! When a certificate by ACME is renewed, and when a failed order is tried again. Pure: time and chance are arguments.

use std::time::{Duration, SystemTime};

/// Renewals of many machines are spread over this part of a certificate's lifetime.
const SPREAD: f64 = 0.02;
/// Attempts that fit into the lifetime of a certificate; a third of them comes before it expires.
const ATTEMPTS_IN_LIFE: u32 = 10;
/// Shortest pause, for a certificate that is valid for seconds.
const PAUSE_MIN: Duration = Duration::from_secs(1);
/// Pauses after consecutive failures, as in nginx's module. A reload tries again at once.
const PAUSES: [Duration; 4] =
    [Duration::from_mins(1), Duration::from_mins(10), Duration::from_mins(100), Duration::from_hours(24)];

/// When a certificate that is valid from `start` to `end` is renewed: after two thirds of its lifetime, or a little sooner.
/// `chance` is from 0 to 1.
pub fn renew_at(start: SystemTime, end: SystemTime, chance: f64) -> SystemTime {
    let life = end.duration_since(start).unwrap_or_default();
    start + life.mul_f64(2.0 / 3.0 - SPREAD * chance.clamp(0.0, 1.0))
}

/// The pause after this number of consecutive failures, including this one. `life` is how long the present certificate is
/// valid in all: one for six days needs several attempts before it expires. `patience` is the pause that the authority
/// requests. `chance` is a random number.
pub fn retry_pause(failures: u32, life: Option<Duration>, patience: Duration, chance: u64) -> Duration {
    let place = (failures.max(1) as usize - 1).min(PAUSES.len() - 1);
    let longest = life.map_or(Duration::MAX, |life| (life / ATTEMPTS_IN_LIFE).max(PAUSE_MIN));
    let pause = PAUSES[place].min(longest).max(patience);
    // Up to a tenth more, so that many machines do not return at the same time.
    pause + pause / 1000 * (chance % 100) as u32
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::UNIX_EPOCH;

    const NONE: Duration = Duration::ZERO;

    #[test]
    fn a_certificate_is_renewed_after_two_thirds_of_its_life() {
        let day = Duration::from_hours(24);
        let (start, end) = (UNIX_EPOCH, UNIX_EPOCH + 90 * day);
        let days = |chance| renew_at(start, end, chance).duration_since(UNIX_EPOCH).unwrap().as_secs_f64() / 86_400.0;
        assert!((days(0.0) - 60.0).abs() < 0.01, "{}", days(0.0));
        assert!((days(1.0) - 58.2).abs() < 0.01, "{}", days(1.0));
    }

    #[test]
    fn pauses_grow_and_a_limit_asks_for_more() {
        assert_eq!(retry_pause(1, None, NONE, 0), Duration::from_mins(1));
        assert_eq!(retry_pause(2, None, NONE, 50), Duration::from_mins(10) + Duration::from_secs(30));
        assert_eq!(retry_pause(99, None, NONE, 0), Duration::from_hours(24));
        let limited = |life| retry_pause(1, life, Duration::from_hours(1), 0);
        assert_eq!(limited(None), Duration::from_hours(1));
        assert_eq!(limited(Some(Duration::from_secs(8))), Duration::from_hours(1));
    }

    #[test]
    fn certificates_with_a_short_life_are_tried_for_more_often() {
        let after = |life_s, failures| retry_pause(failures, Some(Duration::from_secs(life_s)), NONE, 0);
        let (day_s, hour_s) = (86_400, 3600);
        assert_eq!(after(90 * day_s, 99), Duration::from_hours(24));
        assert_eq!(after(6 * day_s, 99), Duration::from_secs(6 * day_s / 10));
        assert_eq!(after(hour_s, 2), Duration::from_mins(6));
        assert_eq!((after(8, 1), after(0, 1)), (Duration::from_secs(1), Duration::from_secs(1)));
    }
}
