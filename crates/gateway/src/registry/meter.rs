//! The pace of the last moments: what was counted between a status page and the one before.

use crate::base::durations::Durations;
use reactor::Millis;
use std::sync::{Mutex, PoisonError};

/// The shortest interval: below it, a page of a second viewer would show the noise of a few requests.
const INTERVAL_MS_MIN: u64 = 1000;

/// The counters at one moment.
#[derive(Debug, Clone, Default)]
pub(crate) struct MeterReading {
    pub(crate) at: Millis,
    pub(crate) requests: u64,
    pub(crate) responses: u64,
    pub(crate) server_errors: u64,
    pub(crate) durations: Durations,
}

/// The counters of the last two pages.
#[derive(Debug)]
pub(crate) struct Meter(Mutex<[MeterReading; 2]>);

impl Meter {
    pub(crate) fn new(now: Millis) -> Self {
        let start = MeterReading { at: now, ..MeterReading::default() };
        Self(Mutex::new([start.clone(), start]))
    }

    /// What was counted since the page before, and in how many milliseconds. Before the first, that is since the start.
    pub(crate) fn since_last(&self, now: MeterReading) -> (MeterReading, u64) {
        let mut marks = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if now.at.since(marks[1].at) >= INTERVAL_MS_MIN {
            let [before, latest] = &mut *marks;
            *before = std::mem::replace(latest, now);
        }
        let [before, latest] = &*marks;
        let counted = MeterReading {
            at: latest.at,
            requests: latest.requests.saturating_sub(before.requests),
            responses: latest.responses.saturating_sub(before.responses),
            server_errors: latest.server_errors.saturating_sub(before.server_errors),
            durations: latest.durations.since(&before.durations),
        };
        (counted, latest.at.since(before.at))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn interval_is_between_pages_and_at_least_a_second() {
        let meter = Meter::new(Millis(1000));
        let at = |ms, requests| MeterReading { at: Millis(ms), requests, ..MeterReading::default() };
        let ask = |mark| {
            let (counted, ms) = meter.since_last(mark);
            (counted.requests, ms)
        };
        assert_eq!(ask(at(1500, 3)), (0, 0), "nothing is known yet");
        assert_eq!(ask(at(3000, 10)), (10, 2000));
        assert_eq!(ask(at(3500, 11)), (10, 2000), "the same again");
        assert_eq!(ask(at(5000, 14)), (4, 2000));
    }
}
