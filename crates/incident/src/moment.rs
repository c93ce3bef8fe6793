//! Moments as operators type and read them: `14:03`, `14:03:20`, `2026-11-26T14:03`, `10m ago`. Times are those of the machine's time zone,
//! unless they end in `Z`.

use report::typed;
use time::{Date, Month, OffsetDateTime, Time, UtcOffset};

/// A time zone as its offset from UTC, which holds for the whole report.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Zone(UtcOffset);

impl Zone {
    /// From minutes east of Greenwich.
    pub fn of_minutes(minutes: i16) -> Self {
        Self(UtcOffset::from_whole_seconds(i32::from(minutes) * 60).unwrap_or(UtcOffset::UTC))
    }

    fn at(self, at_ms: u64) -> OffsetDateTime {
        let at = OffsetDateTime::from_unix_timestamp_nanos(i128::from(at_ms) * 1_000_000);
        at.unwrap_or(OffsetDateTime::UNIX_EPOCH).to_offset(self.0)
    }

    /// `14:03:12`
    pub fn clock(self, at_ms: u64) -> String {
        let at = self.at(at_ms);
        format!("{:02}:{:02}:{:02}", at.hour(), at.minute(), at.second())
    }

    /// `2026-11-26 14:03:12`
    pub fn full(self, at_ms: u64) -> String {
        let at = self.at(at_ms);
        format!("{:04}-{:02}-{:02} {}", at.year(), u8::from(at.month()), at.day(), self.clock(at_ms))
    }

    /// Parses a moment. A clock time without a date is the last such time before now.
    pub fn parse(self, text: &str, now_ms: u64) -> Result<u64, String> {
        let wrong = || {
            format!(
                "`{text}` is no time: 14:03, 14:03:20, 2026-11-26T14:03:20, with Z at the end for UTC, `10m ago`, or now"
            )
        };
        let text = text.trim();
        if text == "now" {
            return Ok(now_ms);
        }
        if let Some(ago) = text.strip_suffix("ago") {
            let ago = typed::duration(ago.trim()).map_err(|_| wrong())?;
            return Ok(now_ms.saturating_sub(u64::try_from(ago.as_millis()).unwrap_or(u64::MAX)));
        }
        let (text, zone) = match text.strip_suffix('Z') {
            Some(text) => (text, UtcOffset::UTC),
            None => (text, self.0),
        };
        let (date, clock) = match text.split_once(['T', ' ']) {
            Some((date, clock)) => (Some(parse_date(date).ok_or_else(wrong)?), clock),
            None => (None, text),
        };
        let clock = parse_clock(clock).ok_or_else(wrong)?;
        let now = self.at(now_ms).to_offset(zone);
        let at = |date: Date| OffsetDateTime::new_in_offset(date, clock, zone);
        let found = match date {
            Some(date) => at(date),
            None if at(now.date()) > now => at(now.date().previous_day().ok_or_else(wrong)?),
            None => at(now.date()),
        };
        u64::try_from(found.unix_timestamp_nanos() / 1_000_000).map_err(|_| wrong())
    }
}

fn parse_date(text: &str) -> Option<Date> {
    let mut parts = text.split('-');
    let (year, month, day) =
        (parts.next()?.parse().ok()?, parts.next()?.parse::<u8>().ok()?, parts.next()?.parse().ok()?);
    if parts.next().is_some() {
        return None;
    }
    Date::from_calendar_date(year, Month::try_from(month).ok()?, day).ok()
}

fn parse_clock(text: &str) -> Option<Time> {
    let mut parts = text.split(':');
    let (hour, minute) = (parts.next()?.parse().ok()?, parts.next()?.parse().ok()?);
    let second = parts.next().map_or(Some(0), |second| second.parse().ok())?;
    if parts.next().is_some() {
        return None;
    }
    Time::from_hms(hour, minute, second).ok()
}

/// A time span as a person says it: `45 s`, `12 min`, `3 h`.
pub(crate) fn span(ms: u64) -> String {
    match ms {
        0..10_000 => format!("{:.1} s", ms as f64 / 1e3),
        10_000..180_000 => format!("{} s", ms / 1000),
        180_000..10_800_000 => format!("{} min", ms / 60_000),
        _ => format!("{} h", ms / 3_600_000),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 2026-11-26 02:00:00 UTC.
    const NOW_MS: u64 = 1_795_658_400_000;

    #[test]
    fn clock_times_are_the_last_ones_in_the_zone() {
        let (utc, tokyo) = (Zone::of_minutes(0), Zone::of_minutes(9 * 60));
        assert_eq!(utc.full(NOW_MS), "2026-11-26 02:00:00");
        assert_eq!(tokyo.full(NOW_MS), "2026-11-26 11:00:00");
        let shown = |zone: Zone, text: &str| zone.parse(text, NOW_MS).map(|at| zone.full(at));
        assert_eq!(shown(utc, "01:30"), Ok("2026-11-26 01:30:00".to_owned()));
        assert_eq!(shown(utc, "14:03:20"), Ok("2026-11-25 14:03:20".to_owned()));
        assert_eq!(shown(tokyo, "10:59"), Ok("2026-11-26 10:59:00".to_owned()));
        assert_eq!(shown(tokyo, "01:30Z"), Ok("2026-11-26 10:30:00".to_owned()));
        assert_eq!(shown(utc, "2026-11-20T14:03"), Ok("2026-11-20 14:03:00".to_owned()));
        assert_eq!(shown(utc, "10m ago"), Ok("2026-11-26 01:50:00".to_owned()));
        for wrong in ["", "25:00", "14", "14:03:20:1", "2026-13-01T00:00", "soon", "-5m ago", "é"] {
            assert!(utc.parse(wrong, NOW_MS).is_err(), "{wrong}");
        }
    }
}
