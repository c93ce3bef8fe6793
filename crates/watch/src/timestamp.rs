//! The displayed time of a look. Intervals and deadlines use the monotonic clock instead.

use time::OffsetDateTime;
use time::macros::format_description;

/// The current time in UTC as in RFC 3339, in whole seconds.
pub(super) fn timestamp() -> String {
    let format = format_description!("[year]-[month]-[day]T[hour]:[minute]:[second]Z");
    OffsetDateTime::now_utc().format(format).unwrap_or_default()
}
