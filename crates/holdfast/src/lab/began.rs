//! When a run began, as its record and its files show it. Times that are measured are monotonic and do not come here.

use time::OffsetDateTime;
use time::macros::format_description;

/// A moment, in UTC.
pub(crate) struct Began {
    /// As in RFC 3339, whole seconds.
    pub(crate) text: String,
    /// As names of files begin: `2026-11-22T0701Z`.
    pub(crate) stem: String,
    microsecond: u32,
}

impl Began {
    /// This moment.
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
