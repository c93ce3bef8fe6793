//! `expires`, `add_header` and `add_trailer`: what a location adds to all responses. The plans, and the arithmetic of
//! `expires`; `filter::added_fields` applies them.

use conf::model::Expires;
use http1::outgoing::FieldToken;
use rules::template::Template;
use rules::time_format::Moment;

/// The additions of a location.
pub(crate) struct AddedPlan {
    pub(crate) expires: ExpiresPlan,
    pub(crate) fields: Vec<AddedField>,
    pub(crate) trailers: Vec<AddedField>,
}

/// `expires`
pub(crate) enum ExpiresPlan {
    Fixed(Expires),
    /// Evaluated for each response; `modified` if that word came before it.
    Template {
        modified: bool,
        value: Template,
    },
}

/// One `add_header` or `add_trailer`.
pub(crate) struct AddedField {
    /// Which directive.
    pub(crate) directive: &'static str,
    pub(crate) name: FieldToken,
    pub(crate) value: Template,
    /// Added for every status.
    pub(crate) always: bool,
}

impl AddedField {
    /// Whether the value replaces existing fields: a response has only one of these.
    pub(crate) fn replaces(&self) -> bool {
        [&b"last-modified"[..], b"etag"].iter().any(|name| self.name.as_bytes().eq_ignore_ascii_case(name))
    }
}

/// The statuses that get added fields without `always`.
pub(crate) fn is_usual(status: u16) -> bool {
    matches!(status, 200 | 201 | 204 | 206 | 301 | 302 | 303 | 304 | 307 | 308)
}

/// Seconds of a day.
const DAY: i64 = 24 * 60 * 60;
/// Nearly the last day that 32 bits can represent, and the ten years that nginx sends with it.
const MAX: (&str, &str) = ("Thu, 31 Dec 2037 23:55:55 GMT", "max-age=315360000");
const EPOCH: (&str, &str) = ("Thu, 01 Jan 1970 00:00:01 GMT", "no-cache");

/// The values of Expires and Cache-Control. Times are seconds since the epoch; `modified` is the response's, if it has
/// one. `None`: no field.
pub(crate) fn expiry(
    expires: &Expires,
    now: i64,
    modified: Option<i64>,
    utc_offset_minutes: i16,
) -> Option<(Vec<u8>, Vec<u8>)> {
    let fixed = |(date, control): (&str, &str)| Some((date.as_bytes().to_vec(), control.as_bytes().to_vec()));
    let (at, negative) = match expires {
        Expires::Off | Expires::Template { .. } => return None,
        Expires::Epoch => return fixed(EPOCH),
        Expires::Max => return fixed(MAX),
        Expires::Access(seconds) => (now.saturating_add(*seconds), *seconds < 0),
        Expires::Modified(seconds) => (modified.unwrap_or(now).saturating_add(*seconds), *seconds < 0),
        Expires::Daily(time) => {
            let offset = i64::from(utc_offset_minutes) * 60;
            let midnight = (now + offset).div_euclid(DAY) * DAY - offset;
            let at = midnight + i64::from(*time);
            (if at > now { at } else { at + DAY }, false)
        }
    };
    let age = at - now;
    let control = if negative || age < 0 { "no-cache".to_owned() } else { format!("max-age={age}") };
    Some((Moment::new(at, 0).http_date().to_vec(), control.into_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 2026-11-21T20:30:00Z
    const NOW: i64 = 1_795_293_000;

    fn said(expires: &Expires, modified: Option<i64>, offset: i16) -> Option<(String, String)> {
        let text = |bytes| String::from_utf8(bytes).unwrap();
        expiry(expires, NOW, modified, offset).map(|(date, control)| (text(date), text(control)))
    }

    #[test]
    fn expires_sets_date_and_age() {
        let hour = "Sat, 21 Nov 2026 21:30:00 GMT";
        for (expires, modified, date, control) in [
            (Expires::Access(3600), None, hour, "max-age=3600"),
            (Expires::Access(0), None, "Sat, 21 Nov 2026 20:30:00 GMT", "max-age=0"),
            (Expires::Access(-3600), None, "Sat, 21 Nov 2026 19:30:00 GMT", "no-cache"),
            (Expires::Modified(7200), Some(NOW - 3600), hour, "max-age=3600"),
            (Expires::Modified(3600), None, hour, "max-age=3600"),
            (Expires::Modified(60), Some(NOW - 120), "Sat, 21 Nov 2026 20:29:00 GMT", "no-cache"),
            (Expires::Daily(21 * 3600 + 1800), None, hour, "max-age=3600"),
            (Expires::Daily(20 * 3600 + 1800), None, "Sun, 22 Nov 2026 20:30:00 GMT", "max-age=86400"),
            (Expires::Epoch, None, "Thu, 01 Jan 1970 00:00:01 GMT", "no-cache"),
            (Expires::Max, None, "Thu, 31 Dec 2037 23:55:55 GMT", "max-age=315360000"),
        ] {
            assert_eq!(said(&expires, modified, 0), Some((date.to_owned(), control.to_owned())), "{expires:?}");
        }
        assert_eq!(said(&Expires::Off, None, 0), None);
        // One hour east of Greenwich it is 21:30 already.
        let (date, _) = said(&Expires::Daily(22 * 3600), None, 60).unwrap();
        assert_eq!(date, "Sat, 21 Nov 2026 21:00:00 GMT");
    }
}
