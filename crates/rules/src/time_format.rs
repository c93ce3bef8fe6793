//! Dates as texts, from seconds since the epoch and an offset from UTC. Pure: the caller holds the clock and keeps the texts
//! for as long as the second lasts.

mod strftime;

pub use strftime::Zone;

/// Last second that is shown, 9999-12-31T23:59:59Z: the texts have room for four digits of a year.
const SECONDS_MAX: i64 = 253_402_300_799;

const SECONDS_PER_DAY: i64 = 86_400;
const MONTHS: &[u8; 36] = b"JanFebMarAprMayJunJulAugSepOctNovDec";
/// From the weekday of the epoch, a Thursday.
const WEEKDAYS: &[u8; 21] = b"ThuFriSatSunMonTueWed";

/// A moment split into calendar fields.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Moment {
    year: u16,
    /// From 1.
    month: u8,
    day: u8,
    hour: u8,
    minute: u8,
    second: u8,
    /// From 0, a Thursday.
    weekday: u8,
    utc_offset_minutes: i16,
}

impl Moment {
    /// `unix_seconds` since the epoch as shown at `utc_offset_minutes` east of Greenwich. Moments before 1970 or after 9999
    /// are shown as the nearest one that can be, offsets of a day or more as none.
    pub fn new(unix_seconds: i64, utc_offset_minutes: i16) -> Self {
        let offset = if utc_offset_minutes.unsigned_abs() < 24 * 60 { utc_offset_minutes } else { 0 };
        let seconds = unix_seconds.saturating_add(i64::from(offset) * 60).clamp(0, SECONDS_MAX);
        let (days, of_day) = (seconds / SECONDS_PER_DAY, seconds % SECONDS_PER_DAY);
        let (year, month, day) = civil_date(days);
        Self {
            year,
            month,
            day,
            hour: (of_day / 3600) as u8,
            minute: (of_day / 60 % 60) as u8,
            second: (of_day % 60) as u8,
            weekday: (days % 7) as u8,
            utc_offset_minutes: offset,
        }
    }

    /// The form that cookies began with: `Sun, 06-Nov-94 08:49:37 GMT`, with four digits for years that two do not tell.
    pub fn cookie_date(&self) -> Vec<u8> {
        let date = self.http_date();
        let (day_of_week, day, month, year, time) = (&date[..5], &date[5..7], &date[8..11], &date[12..16], &date[16..]);
        let year = if year > &b"2037"[..] { year } else { &year[2..] };
        [day_of_week, day, b"-", month, b"-", year, time].concat()
    }

    /// `$time_local`: `21/Nov/2026:20:30:00 +0000`.
    pub fn local(&self) -> [u8; 26] {
        let mut text = *b"00/Jan/0000:00:00:00 +0000";
        put_two(&mut text[0..2], self.day);
        text[3..6].copy_from_slice(self.month_name());
        put_four(&mut text[7..11], self.year);
        self.put_clock(&mut text[12..20]);
        let (sign, hours, minutes) = self.offset();
        text[21] = sign;
        put_two(&mut text[22..24], hours);
        put_two(&mut text[24..26], minutes);
        text
    }

    /// `$time_iso8601`: `2026-11-21T20:30:00+00:00`.
    pub fn iso8601(&self) -> [u8; 25] {
        let mut text = *b"0000-00-00T00:00:00+00:00";
        self.put_date(&mut text[0..10]);
        self.put_clock(&mut text[11..19]);
        let (sign, hours, minutes) = self.offset();
        text[19] = sign;
        put_two(&mut text[20..22], hours);
        put_two(&mut text[23..25], minutes);
        text
    }

    /// The date of an error-log line: `2026/11/21 20:30:00`.
    pub fn error_log(&self) -> [u8; 19] {
        let mut text = *b"0000/00/00 00:00:00";
        self.put_date(&mut text[0..10]);
        self.put_clock(&mut text[11..19]);
        text
    }

    /// The date of an HTTP field (RFC 9110 section 5.6.7), `Sat, 21 Nov 2026 20:30:00 GMT`. Only a moment without an offset
    /// gives the right one.
    pub fn http_date(&self) -> [u8; 29] {
        debug_assert_eq!(self.utc_offset_minutes, 0, "an HTTP date is in UTC");
        let mut text = *b"Thu, 00 Jan 0000 00:00:00 GMT";
        let weekday = usize::from(self.weekday) * 3;
        text[0..3].copy_from_slice(&WEEKDAYS[weekday..weekday + 3]);
        put_two(&mut text[5..7], self.day);
        text[8..11].copy_from_slice(self.month_name());
        put_four(&mut text[12..16], self.year);
        self.put_clock(&mut text[17..25]);
        text
    }

    /// A date of syslog (RFC 3164): `Nov 21 20:30:00`, days below ten with a space in front.
    pub fn syslog(&self) -> [u8; 15] {
        let mut text = *b"Jan 00 00:00:00";
        text[0..3].copy_from_slice(self.month_name());
        put_two(&mut text[4..6], self.day);
        if text[4] == b'0' {
            text[4] = b' ';
        }
        self.put_clock(&mut text[7..15]);
        text
    }

    fn month_name(&self) -> &'static [u8] {
        let start = (usize::from(self.month) - 1) * 3;
        &MONTHS[start..start + 3]
    }

    /// Sign, hours and minutes of the offset.
    fn offset(&self) -> (u8, u8, u8) {
        let minutes = self.utc_offset_minutes.unsigned_abs();
        (if self.utc_offset_minutes < 0 { b'-' } else { b'+' }, (minutes / 60) as u8, (minutes % 60) as u8)
    }

    /// `YYYY?MM?DD`, separators left as they are.
    fn put_date(&self, text: &mut [u8]) {
        put_four(&mut text[0..4], self.year);
        put_two(&mut text[5..7], self.month);
        put_two(&mut text[8..10], self.day);
    }

    /// `HH:MM:SS`, separators left as they are.
    fn put_clock(&self, text: &mut [u8]) {
        put_two(&mut text[0..2], self.hour);
        put_two(&mut text[3..5], self.minute);
        put_two(&mut text[6..8], self.second);
    }
}

fn put_two(text: &mut [u8], value: u8) {
    text[0] = b'0' + value / 10;
    text[1] = b'0' + value % 10;
}

fn put_four(text: &mut [u8], value: u16) {
    put_two(&mut text[0..2], (value / 100) as u8);
    put_two(&mut text[2..4], (value % 100) as u8);
}

/// Year, month and day of a number of days since the epoch (not negative). The year is taken to begin in March, so that
/// the leap day is its last one and months have a regular pattern of 153 days in five.
fn civil_date(days: i64) -> (u16, u8, u8) {
    /// From 0000-03-01 to 1970-01-01.
    const EPOCH_DAYS: i64 = 719_468;
    const DAYS_PER_ERA: i64 = 146_097;
    let days = days + EPOCH_DAYS;
    let (era, day_of_era) = (days / DAYS_PER_ERA, days % DAYS_PER_ERA);
    let year_of_era = (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
    let year = year_of_era + era * 400 + i64::from(month <= 2);
    (year as u16, month as u8, day as u8)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(bytes: &[u8]) -> &str {
        std::str::from_utf8(bytes).unwrap()
    }

    #[test]
    fn one_moment_in_every_form() {
        let moment = Moment::new(1_795_293_000, 0);
        assert_eq!(text(&moment.local()), "21/Nov/2026:20:30:00 +0000");
        assert_eq!(text(&moment.iso8601()), "2026-11-21T20:30:00+00:00");
        assert_eq!(text(&moment.http_date()), "Sat, 21 Nov 2026 20:30:00 GMT");
        assert_eq!(text(&moment.error_log()), "2026/11/21 20:30:00");
        assert_eq!(text(&moment.syslog()), "Nov 21 20:30:00");
        assert_eq!(text(&Moment::new(784_111_777, 0).http_date()), "Sun, 06 Nov 1994 08:49:37 GMT", "RFC 9110");
        assert_eq!(text(&Moment::new(784_111_777, 0).syslog()), "Nov  6 08:49:37");
    }

    #[test]
    fn offsets_move_the_clock_and_are_shown() {
        let east = Moment::new(1_795_293_000, 5 * 60 + 30);
        assert_eq!(text(&east.local()), "22/Nov/2026:02:00:00 +0530");
        let west = Moment::new(1_795_293_000, -(3 * 60 + 30));
        assert_eq!(text(&west.iso8601()), "2026-11-21T17:00:00-03:30");
    }

    #[test]
    fn leap_days_ends_of_years_and_the_ends_of_time() {
        let date = |seconds| text(&Moment::new(seconds, 0).error_log()).to_owned();
        assert_eq!(date(0), "1970/01/01 00:00:00");
        assert_eq!(date(951_782_400), "2000/02/29 00:00:00");
        assert_eq!(date(951_868_800), "2000/03/01 00:00:00");
        assert_eq!(date(4_107_542_399), "2100/02/28 23:59:59");
        assert_eq!(date(4_107_542_400), "2100/03/01 00:00:00");
        assert_eq!(date(1_704_067_199), "2023/12/31 23:59:59");
        assert_eq!(date(-1), "1970/01/01 00:00:00");
        assert_eq!(date(i64::MAX), "9999/12/31 23:59:59");
    }
}
