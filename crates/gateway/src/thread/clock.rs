//! The present second as text, rendered once: for the Date field and for log time stamps.

use rules::time_format::Moment;
use std::cell::Cell;
use std::time::Duration;

/// The wall clock of a worker, read once per turn.
#[derive(Debug)]
pub(crate) struct Clock {
    now: Cell<Duration>,
    second: Cell<u64>,
    date: Cell<[u8; 29]>,
    utc_offset_minutes: i16,
}

impl Clock {
    pub(crate) fn new(utc_offset_minutes: i16) -> Self {
        let clock =
            Self { now: Cell::default(), second: Cell::new(u64::MAX), date: Cell::new([0; 29]), utc_offset_minutes };
        clock.turn();
        clock
    }

    /// Reads the clock again.
    pub(crate) fn turn(&self) {
        self.now.set(reactor::wall_clock());
    }

    /// Time since the Unix epoch at the beginning of this turn.
    pub(crate) fn now(&self) -> Duration {
        self.now.get()
    }

    /// Offset of local time, east of Greenwich.
    pub(crate) fn utc_offset_minutes(&self) -> i16 {
        self.utc_offset_minutes
    }

    /// The present second in local time.
    pub(crate) fn moment(&self) -> Moment {
        Moment::new(self.now().as_secs() as i64, self.utc_offset_minutes())
    }

    /// The IMF-fixdate of this second, as in the Date field.
    pub(crate) fn date(&self) -> [u8; 29] {
        let second = self.now.get().as_secs();
        if self.second.replace(second) != second {
            self.date.set(Moment::new(second as i64, 0).http_date());
        }
        self.date.get()
    }
}
