//! gRPC's HTTP/2 fields: the time that a call has, and how it ended. The gateway reads and writes these fields; it does not look at
//! messages.

use std::time::Duration;

/// Digits of a time: the protocol has no more.
const DIGITS_MAX: usize = 8;

/// Reads `grpc-timeout`: up to eight digits and a unit. `None` for anything else, which is ignored.
pub fn parse_timeout(value: &[u8]) -> Option<Duration> {
    let (&unit, digits) = value.split_last()?;
    if digits.is_empty() || digits.len() > DIGITS_MAX || !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let count = digits.iter().fold(0, |count, digit| count * 10 + u64::from(digit - b'0'));
    Some(match unit {
        b'H' => Duration::from_secs(count * 3600),
        b'M' => Duration::from_secs(count * 60),
        b'S' => Duration::from_secs(count),
        b'm' => Duration::from_millis(count),
        b'u' => Duration::from_micros(count),
        b'n' => Duration::from_nanos(count),
        _ => return None,
    })
}

/// Appends a `grpc-timeout`, rounded down to a unit that fits: the receiver never gets more time than is left.
pub fn write_timeout(left: Duration, out: &mut Vec<u8>) {
    let millis = left.as_millis();
    let (count, unit) = [(millis, b'm'), (millis / 1000, b'S'), (millis / 60_000, b'M'), (millis / 3_600_000, b'H')]
        .into_iter()
        .find(|(count, _)| *count < 10_u128.pow(DIGITS_MAX as u32))
        .unwrap_or((10_u128.pow(DIGITS_MAX as u32) - 1, b'H'));
    out.extend_from_slice(count.to_string().as_bytes());
    out.push(unit);
}

/// How a call ended, for the errors that the gateway itself reports.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Status {
    /// `grpc-status`
    pub code: u8,
    /// `grpc-message`
    pub message: &'static str,
}

impl Status {
    /// The time of the call is over.
    pub const DEADLINE_EXCEEDED: Self = Self { code: 4, message: "the time of the call is over" };
    /// The upstream has broken off; another attempt may succeed.
    pub const UNAVAILABLE: Self = Self { code: 14, message: "the upstream has broken off its response" };

    /// What an error of HTTP is in gRPC. Clients that get the HTTP error make the same of it (gRPC's "HTTP to gRPC Status Code Mapping"),
    /// but for 413 and 500, of which they can only say that they do not know them.
    pub fn of_http(status: u16) -> Self {
        let (code, message) = match status {
            400 => (13, "bad request"),
            401 => (16, "authorization is required"),
            403 => (7, "forbidden"),
            404 | 405 | 501 => (12, "there is no such service here"),
            413 => (8, "the request is larger than is allowed"),
            429 => (14, "too many requests"),
            500 => (13, "internal error of the gateway"),
            502 => (14, "the upstream has no valid response"),
            503 => (14, "the service is unavailable"),
            504 => (14, "the upstream did not answer in time"),
            _ => (2, "the gateway has refused the call"),
        };
        Self { code, message }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_read_as_the_protocol_has_them() {
        let is = |text: &str, time: Duration| assert_eq!(parse_timeout(text.as_bytes()), Some(time), "{text}");
        is("1H", Duration::from_hours(1));
        is("2M", Duration::from_mins(2));
        is("99999999S", Duration::from_secs(99_999_999));
        is("1500m", Duration::from_millis(1500));
        is("0m", Duration::ZERO);
        is("10u", Duration::from_micros(10));
        is("7n", Duration::from_nanos(7));
        for text in ["", "m", "1", "1s", "-1m", "1.5S", " 1m", "123456789m", "1mm", "99999999h"] {
            assert_eq!(parse_timeout(text.as_bytes()), None, "{text}");
        }
    }

    #[test]
    fn grpc_message_survives_a_round_trip() {
        let times =
            [0, 1, 999, 1000, 99_999_999, 100_000_000, 100_000_999, 99_999_999_999, 100_000_000_000_000, u64::MAX];
        for millis in times {
            let (left, mut out) = (Duration::from_millis(millis), Vec::new());
            write_timeout(left, &mut out);
            let read = parse_timeout(&out).unwrap_or_else(|| panic!("{out:?}"));
            assert!(read <= left && (millis > 99_999_999 || read == left), "{millis}: {read:?}");
        }
    }

    #[test]
    fn errors_of_http_have_a_code() {
        let code = |status| Status::of_http(status).code;
        assert_eq!([401, 403, 404, 413, 502, 504, 418].map(code), [16, 7, 12, 8, 14, 14, 2]);
    }
}
