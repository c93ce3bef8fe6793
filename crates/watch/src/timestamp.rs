//! The time of a look, as it is shown. Beats and deadlines are monotonic and do not come here.

use time::OffsetDateTime;
use time::macros::format_description;

/// Now, in UTC as in RFC 3339, whole seconds.
pub(super) fn timestamp() -> String {
    let format = format_description!("[year]-[month]-[day]T[hour]:[minute]:[second]Z");
    OffsetDateTime::now_utc().format(format).unwrap_or_default()
}
