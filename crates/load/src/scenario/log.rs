//! Reads access logs in nginx's combined format or any other `log_format`: the time, the method and the path of each line.
//! Pure. Log lines are foreign bytes: a line that does not fit is skipped and counted.

use std::borrow::Cow;

/// nginx's predefined format.
pub const COMBINED: &str = "$remote_addr - $remote_user [$time_local] \"$request\" $status $body_bytes_sent \"$http_referer\" \"$http_user_agent\"";
/// Most variables of a format; long ones have thirty.
const PARTS_MAX: usize = 256;

/// A request of a log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Logged {
    /// Milliseconds since 1970.
    pub time_ms: u64,
    /// The method.
    pub method: String,
    /// The request target.
    pub path: String,
}

/// A parsed `log_format`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogFormat {
    /// The text before the first variable.
    start: String,
    /// Each variable with the text behind it.
    parts: Vec<(String, String)>,
}

impl LogFormat {
    /// Parses a format as nginx has it, its strings joined: `$name` and `${name}`.
    pub fn parse(format: &str) -> Result<Self, String> {
        let mut pieces = format.split('$');
        let start = pieces.next().unwrap_or_default().to_owned();
        let mut parts = Vec::new();
        for piece in pieces {
            let (name, text) = if let Some(inner) = piece.strip_prefix('{') {
                inner.split_once('}').ok_or("a `${` of the format has no end")?
            } else {
                let end = piece.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(piece.len());
                piece.split_at(end)
            };
            parts.push((name.to_owned(), text.to_owned()));
        }
        if parts.len() > PARTS_MAX {
            return Err(format!("more than {PARTS_MAX} variables in the format"));
        }
        if let Some(pair) = parts.windows(2).find(|pair| pair.first().is_some_and(|(_, text)| text.is_empty())) {
            let name = pair.first().map_or("", |(name, _)| name);
            return Err(format!("nothing separates ${name} from the next variable"));
        }
        let has = |name: &str| parts.iter().any(|(known, _)| known == name);
        if !(has("request") || has("request_uri") || has("uri")) {
            return Err("the format has no $request and no $request_uri".to_owned());
        }
        if !["time_local", "time_iso8601", "msec"].iter().any(|name| has(name)) {
            return Err("the format has no $time_local, $time_iso8601 or $msec".to_owned());
        }
        Ok(Self { start, parts })
    }

    /// The request of a line; `None` if it does not fit.
    pub fn read(&self, line: &str) -> Option<Logged> {
        let mut rest = line.strip_prefix(self.start.as_str())?;
        let (mut time_ms, mut method, mut path, mut args) = (None, None, None, None);
        let mut exact = false;
        for (at, (name, text)) in self.parts.iter().enumerate() {
            let is_last = at + 1 == self.parts.len();
            let (value, behind) = match text.as_str() {
                "" => (rest, ""),
                // The last text may be cut, for example if fields were added to the log later.
                text => match rest.split_once(text) {
                    Some(split) => split,
                    None if is_last => (rest, ""),
                    None => return None,
                },
            };
            rest = behind;
            match name.as_str() {
                "time_local" if !exact => time_ms = Some(local_time_ms(value)?),
                "time_iso8601" if !exact => time_ms = Some(iso_time_ms(value)?),
                "msec" => (time_ms, exact) = (Some(milliseconds(value)?), true),
                "request" => {
                    let mut words = value.split(' ');
                    (method, path) = (Some(words.next()?), Some(words.next()?));
                    words.next().filter(|version| version.starts_with("HTTP/"))?;
                }
                "request_method" => method = Some(value),
                "request_uri" => path = Some(value),
                "uri" if path.is_none() => path = Some(value),
                "args" | "query_string" => args = Some(value).filter(|args| !matches!(*args, "" | "-")),
                _ => {}
            }
        }
        let path = path.filter(|path| path.starts_with('/'))?;
        let path = unescaped(path);
        let path = match args.filter(|_| !path.contains('?')) {
            Some(args) => format!("{path}?{}", unescaped(args)),
            None => path.into_owned(),
        };
        let method = method.unwrap_or("GET");
        let is_method = !method.is_empty() && method.bytes().all(|byte| byte.is_ascii_uppercase() || byte == b'-');
        is_method.then_some(Logged { time_ms: time_ms?, method: method.to_owned(), path })
    }
}

/// Undoes nginx's `\xHH`; bytes that are not UTF-8 become percent-encoded.
fn unescaped(text: &str) -> Cow<'_, str> {
    if !text.contains("\\x") {
        return Cow::Borrowed(text);
    }
    let mut out = String::new();
    let mut rest = text;
    while let Some((before, behind)) = rest.split_once("\\x") {
        out.push_str(before);
        let digits = behind.get(..2).filter(|digits| digits.bytes().all(|digit| digit.is_ascii_hexdigit()));
        if let Some(digits) = digits {
            // Percent-encoding means the same to the server, for every byte.
            out.push('%');
            out.push_str(digits);
            rest = behind.get(2..).unwrap_or_default();
        } else {
            out.push_str("\\x");
            rest = behind;
        }
    }
    out.push_str(rest);
    Cow::Owned(out)
}

/// `24/Nov/2026:18:00:00 +0100`.
fn local_time_ms(text: &str) -> Option<u64> {
    const MONTHS: [&str; 12] = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
    let (date, rest) = text.split_once(':')?;
    let mut date = date.split('/');
    let day = date.next()?.parse().ok()?;
    let month = date.next()?;
    let month = MONTHS.iter().position(|name| *name == month)? as i64 + 1;
    let year = date.next()?.parse().ok()?;
    let (time, zone) = rest.split_once(' ')?;
    at(year, month, day, time, zone)
}

/// `2026-11-24T18:00:00+01:00`.
fn iso_time_ms(text: &str) -> Option<u64> {
    let (date, rest) = text.split_once('T')?;
    let mut date = date.splitn(3, '-').map(|number| number.parse::<i64>().ok());
    let (year, month, day) = (date.next()??, date.next()??, date.next()??);
    let time = rest.get(..8)?;
    let zone = rest.get(8..)?.replace(':', "");
    at(year, month, day, time, if zone == "Z" { "+0000" } else { &zone })
}

/// `1764007200.123`.
fn milliseconds(text: &str) -> Option<u64> {
    let (seconds, rest) = text.split_once('.').unwrap_or((text, "0"));
    let thousandths: u64 = format!("{rest:0<3}").get(..3)?.parse().ok()?;
    seconds.parse::<u64>().ok()?.checked_mul(1000)?.checked_add(thousandths)
}

fn at(year: i64, month: i64, day: i64, time: &str, zone: &str) -> Option<u64> {
    let mut time =
        time.splitn(3, ':').map(|number| number.parse::<i64>().ok().filter(|number| (0..=60).contains(number)));
    let (hour, minute, second) = (time.next()??, time.next()??, time.next()??);
    if !(1970..=9999).contains(&year) || !(1..=12).contains(&month) || !(1..=31).contains(&day) || hour > 23 {
        return None;
    }
    let number = |range: std::ops::Range<usize>| zone.get(range)?.parse::<i64>().ok();
    let offset_s = number(1..3)? * 3600 + number(3..5)? * 60;
    let offset_s = if zone.starts_with('-') { -offset_s } else { offset_s };
    let seconds = days_since_1970(year, month, day) * 86_400 + hour * 3600 + minute * 60 + second - offset_s;
    u64::try_from(seconds).ok().map(|seconds| seconds * 1000)
}

/// Days of the Gregorian calendar, with years that begin in March, so that the leap day is the last one.
pub(super) fn days_since_1970(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let (era, of_era) = (year.div_euclid(400), year.rem_euclid(400));
    let of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    era * 146_097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719_468
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn read(format: &str, line: &str) -> Option<(u64, String, String)> {
        let logged = LogFormat::parse(format).unwrap().read(line)?;
        Some((logged.time_ms, logged.method, logged.path))
    }

    #[allow(clippy::unnecessary_wraps)] // as `read` gives it
    fn logged(time_ms: u64, method: &str, path: &str) -> Option<(u64, String, String)> {
        Some((time_ms, method.to_owned(), path.to_owned()))
    }

    #[test]
    fn the_combined_format_is_read() {
        let line = r#"127.0.0.1 - - [24/Nov/2026:19:00:01 +0100] "GET /a?b=c HTTP/1.1" 200 12 "-" "curl/8 (x; y)""#;
        assert_eq!(read(COMBINED, line), logged(1_795_543_201_000, "GET", "/a?b=c"));
        let quoted = r#"::1 - u [01/Mar/2024:00:00:00 +0000] "POST /\x22\xC3\xA9 HTTP/1.0" 404 0 "-" "-""#;
        assert_eq!(read(COMBINED, quoted), logged(1_709_251_200_000, "POST", "/%22%C3%A9"));
    }

    #[test]
    fn other_formats_are_read_by_their_variables() {
        let format = r#"{"t":"$time_iso8601","m":"${request_method}","u":"$request_uri"}"#;
        let line = r#"{"t":"2026-11-24T18:00:01Z","m":"HEAD","u":"/x"}"#;
        assert_eq!(read(format, line), logged(1_795_543_201_000, "HEAD", "/x"));
        assert_eq!(read("$msec $uri $args", "1764007200.25 /x a=1"), logged(1_764_007_200_250, "GET", "/x?a=1"));
        assert_eq!(read("$msec $uri $args", "1764007200.25 /x -"), logged(1_764_007_200_250, "GET", "/x"));
    }

    #[test]
    fn lines_that_are_no_requests_do_not_fit() {
        for line in [
            "",
            "garbage",
            r#"1.2.3.4 - - [24/Nov/2026:19:00:01 +0100] "\x16\x03\x01" 400 150 "-" "-""#,
            r#"1.2.3.4 - - [24/Nov/2026:19:00:01 +0100] "GET http://a/ HTTP/1.1" 400 150 "-" "-""#,
            r#"1.2.3.4 - - [24/Now/2026:19:00:01 +0100] "GET / HTTP/1.1" 400 150 "-" "-""#,
            r#"1.2.3.4 - - [24/Nov/2026:19:00:01] "GET / HTTP/1.1" 400 150 "-" "-""#,
        ] {
            assert_eq!(read(COMBINED, line), None, "{line}");
        }
    }

    #[test]
    fn refuses_formats_with_too_little_information() {
        let error = |format: &str| LogFormat::parse(format).unwrap_err();
        assert!(error("$time_local").contains("no $request"));
        assert!(error("$request").contains("no $time_local"));
        assert!(error("$msec$request").contains("nothing separates $msec"));
        assert!(error("${msec $request").contains("has no end"));
    }

    proptest! {
        #[test]
        fn no_line_panics(line in ".{0,200}", time in "[0-9/A-Za-z: +-]{0,40}") {
            let format = LogFormat::parse(COMBINED).unwrap();
            let _ = format.read(&line);
            let _ = format.read(&format!("a - b [{time}] \"GET /{line} HTTP/1.1\" 200 1 \"-\" \"-\""));
        }
    }
}
