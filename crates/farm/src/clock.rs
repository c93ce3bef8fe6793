//! How far the clock of an agent is from the coordinator's, from round trips as in NTP (RFC 5905, section 8): the fastest round
//! trip tells most, and half of it is the largest error.

/// Round trips that are measured before a run.
pub(crate) const TRIPS: u64 = 16;
/// Fewest of them that must come back.
const TRIPS_MIN: u64 = 4;

/// What round trips tell of a clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Clock {
    best: Option<Trip>,
    trips: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Trip {
    length_ns: u64,
    offset_ns: i64,
}

impl Clock {
    /// A round trip: when it began and ended by this clock, and the other clock in between.
    pub(crate) fn take(&mut self, sent_ns: u64, other_ns: u64, came_ns: u64) {
        self.trips += 1;
        let length_ns = came_ns.saturating_sub(sent_ns);
        let middle_ns = sent_ns.saturating_add(length_ns / 2);
        let trip = Trip { length_ns, offset_ns: other_ns.wrapping_sub(middle_ns) as i64 };
        if self.best.is_none_or(|best| trip.length_ns < best.length_ns) {
            self.best = Some(trip);
        }
    }

    /// Whether enough round trips were measured.
    pub(crate) fn is_known(&self) -> bool {
        self.trips >= TRIPS_MIN
    }

    /// Whether all round trips were measured.
    pub(crate) fn is_complete(&self) -> bool {
        self.trips >= TRIPS
    }

    /// The other clock minus this one.
    pub(crate) fn offset_ns(&self) -> i64 {
        self.best.map_or(0, |best| best.offset_ns)
    }

    /// The largest error of [`offset_ns`](Self::offset_ns).
    pub(crate) fn error_ns(&self) -> u64 {
        self.best.map_or(0, |best| best.length_ns.div_ceil(2))
    }

    /// The fastest round trip.
    pub(crate) fn trip_ns(&self) -> u64 {
        self.best.map_or(0, |best| best.length_ns)
    }

    /// A time of this clock on the other one.
    pub(crate) fn there(&self, here_ns: u64) -> u64 {
        here_ns.saturating_add_signed(self.offset_ns())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// However long each way takes, the error is within half of the fastest round trip.
        #[test]
        fn the_offset_is_within_its_error(
            offset in -1_000_000_000_000_i64..1_000_000_000_000,
            ways in prop::collection::vec((0_u64..50_000_000, 0_u64..50_000_000), 1..20),
        ) {
            let mut clock = Clock::default();
            for (at, (there, back)) in ways.iter().enumerate() {
                let sent = 10_000_000_000_000 + at as u64 * 1_000_000_000;
                clock.take(sent, (sent + there).saturating_add_signed(offset), sent + there + back);
            }
            prop_assert!((clock.offset_ns() - offset).unsigned_abs() <= clock.error_ns() + 1);
            let fastest = ways.iter().map(|(there, back)| there + back).min().unwrap();
            prop_assert_eq!(clock.error_ns(), fastest.div_ceil(2));
        }
    }
}
