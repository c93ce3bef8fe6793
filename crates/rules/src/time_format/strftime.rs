//! Dates in a form of the user's, as `strftime(3)` writes them in the C locale with glibc's flags and widths.

use super::Moment;

/// Most bytes of a date, as in nginx.
const DATE_BYTES_MAX: usize = 2048;

const WEEKDAY_NAMES: [&str; 7] = ["Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"];
const MONTH_NAMES: [&str; 12] = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
];

/// How `%Z` names the zone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Zone {
    /// `GMT`
    Gmt,
    /// `UTC` if local time is that; otherwise the offset, since its name is not known.
    Local,
}

/// One `%` of a format.
#[derive(Default)]
struct Conversion {
    /// `-` no padding, `_` spaces, `0` zeros.
    padding: Option<u8>,
    /// `^`
    upper: bool,
    width: usize,
}

impl Moment {
    /// The moment in this form. `None`: the result is empty or too long. `unix_seconds` is the moment that `self` was made of.
    pub fn format(&self, format: &[u8], zone: Zone, unix_seconds: i64) -> Option<Vec<u8>> {
        let mut out = Vec::new();
        self.write_format(format, zone, unix_seconds, &mut out);
        (!out.is_empty() && out.len() < DATE_BYTES_MAX).then_some(out)
    }

    fn write_format(&self, format: &[u8], zone: Zone, unix_seconds: i64, out: &mut Vec<u8>) {
        let mut rest = format;
        while let Some(at) = memchr::memchr(b'%', rest) {
            out.extend_from_slice(&rest[..at]);
            let written = &rest[at..];
            let mut conversion = Conversion::default();
            let mut end = at + 1;
            while let Some(flag @ (b'-' | b'_' | b'0' | b'^' | b'#')) = rest.get(end).copied() {
                match flag {
                    b'^' => conversion.upper = true,
                    b'#' => {}
                    padding => conversion.padding = Some(padding),
                }
                end += 1;
            }
            while let Some(digit @ b'0'..=b'9') = rest.get(end).copied() {
                conversion.width = (conversion.width * 10 + usize::from(digit - b'0')).min(DATE_BYTES_MAX);
                end += 1;
            }
            if matches!(rest.get(end), Some(b'E' | b'O')) {
                end += 1;
            }
            let letter = rest.get(end).copied();
            let known = letter.is_some_and(|letter| self.convert(letter, &conversion, zone, unix_seconds, out));
            let end = (end + usize::from(letter.is_some())).min(rest.len());
            if !known {
                // As glibc does, an unknown one stays as it was written.
                out.extend_from_slice(&written[..end - at]);
            }
            if out.len() > 2 * DATE_BYTES_MAX {
                return;
            }
            rest = &rest[end..];
        }
        out.extend_from_slice(rest);
    }

    /// Appends one conversion. `false`: it is unknown.
    fn convert(&self, letter: u8, how: &Conversion, zone: Zone, unix_seconds: i64, out: &mut Vec<u8>) -> bool {
        let (hour, weekday) = (i64::from(self.hour), (usize::from(self.weekday) + 4) % 7);
        let hour12 = if hour % 12 == 0 { 12 } else { hour % 12 };
        let (year, day_of_year) = (i64::from(self.year), self.day_of_year());
        let (iso_year, iso_week) = self.iso_week(weekday as i64);
        let number =
            |value: i64, digits: usize, padding: u8, out: &mut Vec<u8>| how.number(value, digits, padding, out);
        match letter {
            b'a' => how.text(&WEEKDAY_NAMES[weekday][..3], out),
            b'A' => how.text(WEEKDAY_NAMES[weekday], out),
            b'b' | b'h' => how.text(&self.month_text()[..3], out),
            b'B' => how.text(self.month_text(), out),
            b'c' => self.write_format(b"%a %b %e %H:%M:%S %Y", zone, unix_seconds, out),
            b'C' => number(year / 100, 2, b'0', out),
            b'd' => number(i64::from(self.day), 2, b'0', out),
            b'D' | b'x' => self.write_format(b"%m/%d/%y", zone, unix_seconds, out),
            b'e' => number(i64::from(self.day), 2, b'_', out),
            b'F' => self.write_format(b"%Y-%m-%d", zone, unix_seconds, out),
            b'g' => number(iso_year % 100, 2, b'0', out),
            b'G' => number(iso_year, 1, b'0', out),
            b'H' => number(hour, 2, b'0', out),
            b'I' => number(hour12, 2, b'0', out),
            b'j' => number(day_of_year + 1, 3, b'0', out),
            b'k' => number(hour, 2, b'_', out),
            b'l' => number(hour12, 2, b'_', out),
            b'm' => number(i64::from(self.month), 2, b'0', out),
            b'M' => number(i64::from(self.minute), 2, b'0', out),
            b'n' => out.push(b'\n'),
            b'p' => how.text(if hour < 12 { "AM" } else { "PM" }, out),
            b'P' => how.text(if hour < 12 { "am" } else { "pm" }, out),
            b'r' => self.write_format(b"%I:%M:%S %p", zone, unix_seconds, out),
            b'R' => self.write_format(b"%H:%M", zone, unix_seconds, out),
            b's' => number(unix_seconds, 1, b'0', out),
            b'S' => number(i64::from(self.second), 2, b'0', out),
            b't' => out.push(b'\t'),
            b'T' | b'X' => self.write_format(b"%H:%M:%S", zone, unix_seconds, out),
            b'u' => number(if weekday == 0 { 7 } else { weekday as i64 }, 1, b'0', out),
            b'U' => number((day_of_year + 7 - weekday as i64) / 7, 2, b'0', out),
            b'V' => number(iso_week, 2, b'0', out),
            b'w' => number(weekday as i64, 1, b'0', out),
            b'W' => number((day_of_year + 7 - (weekday as i64 + 6) % 7) / 7, 2, b'0', out),
            b'y' => number(year % 100, 2, b'0', out),
            b'Y' => number(year, 1, b'0', out),
            b'z' => out.extend_from_slice(&self.offset_text()),
            b'Z' => match zone {
                Zone::Gmt => how.text("GMT", out),
                Zone::Local if self.utc_offset_minutes == 0 => how.text("UTC", out),
                Zone::Local => out.extend_from_slice(&self.offset_text()),
            },
            b'%' => out.push(b'%'),
            _ => return false,
        }
        true
    }

    fn month_text(&self) -> &'static str {
        MONTH_NAMES[usize::from(self.month) - 1]
    }

    fn offset_text(&self) -> [u8; 5] {
        let (sign, hours, minutes) = self.offset();
        [sign, b'0' + hours / 10, b'0' + hours % 10, b'0' + minutes / 10, b'0' + minutes % 10]
    }

    /// From 0.
    fn day_of_year(&self) -> i64 {
        const BEFORE: [i64; 12] = [0, 31, 59, 90, 120, 151, 181, 212, 243, 273, 304, 334];
        let leap_day = i64::from(is_leap(i64::from(self.year)) && self.month > 2);
        BEFORE[usize::from(self.month) - 1] + leap_day + i64::from(self.day) - 1
    }

    /// Year and week of ISO 8601; `weekday` from Sunday.
    fn iso_week(&self, weekday: i64) -> (i64, i64) {
        let year = i64::from(self.year);
        let from_monday = (weekday + 6) % 7;
        let week = (self.day_of_year() - from_monday + 10) / 7;
        match week {
            0 => (year - 1, weeks_of(year - 1)),
            53 if weeks_of(year) < 53 => (year + 1, 1),
            week => (year, week),
        }
    }
}

impl Conversion {
    fn text(&self, text: &str, out: &mut Vec<u8>) {
        let pad = if self.padding == Some(b'0') { b'0' } else { b' ' };
        out.extend(std::iter::repeat_n(pad, self.width.saturating_sub(text.len())));
        let start = out.len();
        out.extend_from_slice(text.as_bytes());
        if self.upper {
            out[start..].make_ascii_uppercase();
        }
    }

    fn number(&self, value: i64, digits: usize, padding: u8, out: &mut Vec<u8>) {
        let text = value.to_string();
        let padding = self.padding.unwrap_or(padding);
        let width = if padding == b'-' { self.width } else { self.width.max(digits) };
        let pad = if padding == b'_' { b' ' } else { b'0' };
        out.extend(std::iter::repeat_n(pad, width.saturating_sub(text.len())));
        out.extend_from_slice(text.as_bytes());
    }
}

fn is_leap(year: i64) -> bool {
    year % 4 == 0 && (year % 100 != 0 || year % 400 == 0)
}

/// Number of weeks of a year of ISO 8601.
fn weeks_of(year: i64) -> i64 {
    let ends_on = |year: i64| (year + year / 4 - year / 100 + year / 400) % 7;
    if ends_on(year) == 4 || ends_on(year - 1) == 3 { 53 } else { 52 }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn format(seconds: i64, format: &str) -> String {
        let made = Moment::new(seconds, 0).format(format.as_bytes(), Zone::Gmt, seconds);
        String::from_utf8(made.unwrap_or_default()).unwrap()
    }

    /// As `LC_ALL=C date -u -d @SECONDS` writes them.
    #[test]
    fn dates_match_the_c_library() {
        let second = 1_795_293_004;
        for (form, text) in [
            ("%A, %d-%b-%Y %H:%M:%S %Z", "Saturday, 21-Nov-2026 20:30:04 GMT"),
            ("%a %B %e %y %C", "Sat November 21 26 20"),
            ("%j %U %W %V %G %g %u %w", "325 46 46 47 2026 26 6 6"),
            ("%I %l %k %p %P", "08  8 20 PM pm"),
            (
                "%c|%x|%X|%D|%F|%r|%R|%T",
                "Sat Nov 21 20:30:04 2026|11/21/26|20:30:04|11/21/26|2026-11-21|08:30:04 PM|20:30|20:30:04",
            ),
            ("%s%%%n%t%z", "1795293004%\n\t+0000"),
            ("%-d %_m %5Y %^a %010s %-H", "21 11 02026 SAT 1795293004 20"),
            ("%Q %", "%Q %"),
            ("%EY %Od", "2026 21"),
            ("no conversion", "no conversion"),
        ] {
            assert_eq!(format(second, form), text, "{form}");
        }
        assert_eq!(format(0, ""), "");
        assert_eq!(format(0, &"%A".repeat(600)), "", "too long");
    }

    #[test]
    fn weeks_of_iso_years() {
        // 2021-01-01, 2020-12-31, 2024-12-30, 2027-01-01
        for (second, text) in [
            (1_609_459_200, "2020-W53-5"),
            (1_609_372_800, "2020-W53-4"),
            (1_735_516_800, "2025-W01-1"),
            (1_798_761_600, "2026-W53-5"),
        ] {
            assert_eq!(format(second, "%G-W%V-%u"), text);
        }
    }

    #[test]
    fn local_time_has_no_name_but_an_offset() {
        let local = |minutes| Moment::new(0, minutes).format(b"%H %Z", Zone::Local, 0).unwrap();
        assert_eq!(local(0), b"00 UTC");
        assert_eq!(local(90), b"01 +0130");
    }
}
