//! The start time of a run, for its record and its file names. Measured times are monotonic and do not use this.

use time::OffsetDateTime;
use time::macros::format_description;

/// A moment, in UTC.
pub(crate) struct Began {
    /// In RFC 3339, whole seconds.
    pub(crate) text: String,
    /// First part of file names: `2026-11-22T0701Z`.
    pub(crate) stem: String,
    microsecond: u32,
}

impl Began {
    /// The current time.
    pub(crate) fn now() -> Self {
        let now = OffsetDateTime::now_utc();
        let second = format_description!("[year]-[month]-[day]T[hour]:[minute]:[second]Z");
        let minute = format_description!("[year]-[month]-[day]T[hour][minute]Z");
        let text = |format| now.format(format).unwrap_or_default();
        Self { text: text(second), stem: text(minute), microsecond: now.microsecond() }
    }

    /// A seed that differs from run to run. To get the same order again, pass the printed seed.
    pub(crate) fn seed(&self) -> u64 {
        u64::from(self.microsecond)
    }
}
