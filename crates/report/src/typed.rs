//! Parses numbers, times, rates and sizes as people type them: `10k`, `2,000/s`, `1.5m`, `64k`. It also reads the
//! output of [`text::grouped`](crate::text::grouped). One syntax for every flag of the program. Pure.

use std::time::Duration;

/// A whole number: `2000`, `2,000`, `2_000`, `10k`, `1.5m`, `2G`. `k`, `m` and `g` are thousands, millions and thousand millions.
///
/// # Errors
/// What it should look like.
pub fn count(text: &str) -> Result<u64, String> {
    let wanted = || "a whole number, such as 200, 2,000, 10k or 1m".to_owned();
    let number = scaled(text, &[("k", 1e3), ("m", 1e6), ("g", 1e9)]).ok_or_else(wanted)?;
    // Beyond this, a double cannot represent every whole number, and no count is that large.
    let is_exact = number.fract() == 0.0 && number < 2_f64.powi(53);
    is_exact.then_some(number as u64).ok_or_else(wanted)
}

/// A number per second: `2400`, `2,400/s`, `2.4k/s`, `120/min`, `3600/h`.
///
/// # Errors
/// What it should look like.
pub fn rate(text: &str) -> Result<f64, String> {
    let units = [("/s", 1.0), ("/min", 60.0), ("/m", 60.0), ("/h", 3600.0)];
    let found = units.iter().find_map(|(unit, seconds)| Some((text.strip_suffix(unit)?, *seconds)));
    let (bare, seconds) = found.unwrap_or((text, 1.0));
    let number = scaled(bare, &[("k", 1e3), ("m", 1e6), ("g", 1e9)]);
    number.map(|number| number / seconds).ok_or_else(|| "a rate, such as 2,400/s, 10k/s or 120/min".to_owned())
}

/// A time: `500ms`, `10s`, `2m`, `2min`, `1.5h`, `1d`; a bare number is seconds, as in nginx.conf and wrk.
///
/// # Errors
/// What it should look like.
pub fn duration(text: &str) -> Result<Duration, String> {
    let units = [
        ("us", 1e-6),
        ("µs", 1e-6),
        ("ms", 1e-3),
        ("min", 60.0),
        ("s", 1.0),
        ("m", 60.0),
        ("h", 3600.0),
        ("d", 86_400.0),
        ("", 1.0),
    ];
    let seconds = scaled(text, &units).ok_or("a time, such as 500ms, 10s, 2m or 1h")?;
    Duration::try_from_secs_f64(seconds).map_err(|_| "a time below 500,000,000,000 years".to_owned())
}

/// A number of bytes: `512`, `64k`, `1m`, `2g`, in powers of 1,024 as in nginx.conf, optionally with `b` or `ib` after
/// the unit.
///
/// # Errors
/// What it should look like.
pub fn bytes(text: &str) -> Result<u64, String> {
    let wanted = || "a size in bytes, such as 512, 64k or 1m".to_owned();
    let without_b = text.trim().strip_suffix(['b', 'B']).unwrap_or(text);
    let bare = match without_b.strip_suffix('i') {
        // `KiB`, and neither `Ki` nor `iB`.
        Some(unit) if without_b != text && unit.ends_with(|last: char| last.is_ascii_alphabetic()) => unit,
        Some(_) => return Err(wanted()),
        None => without_b,
    };
    let number = scaled(bare, &[("k", 1024.0), ("m", 1_048_576.0), ("g", 1_073_741_824.0)]).ok_or_else(wanted)?;
    (number.fract() == 0.0 && number < 2_f64.powi(53)).then_some(number as u64).ok_or_else(wanted)
}

/// A number with an optional unit after it, in either case.
pub fn scaled(text: &str, units: &[(&str, f64)]) -> Option<f64> {
    let text = text.trim();
    let strip = |unit: &str| {
        let at = text.len().checked_sub(unit.len())?;
        let (number, found) = text.split_at_checked(at)?;
        found.eq_ignore_ascii_case(unit).then_some(number)
    };
    let mut with_unit = units.iter().filter(|(unit, _)| !unit.is_empty());
    let found = with_unit.find_map(|(unit, factor)| Some(number(strip(unit)?)? * factor));
    found.or_else(|| number(text))
}

/// A number not below 0: digits with a decimal point, optionally with separators between groups of three. `1,5` is
/// refused: it could mean one and a half, or be a typo.
pub fn number(text: &str) -> Option<f64> {
    let text = text.trim();
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    let groups: Vec<&str> = whole.split([',', '_']).collect();
    let [first, rest @ ..] = groups.as_slice() else { return None };
    let is_digits = |part: &str| part.bytes().all(|byte| byte.is_ascii_digit());
    let is_grouped = rest.is_empty() || ((1..=3).contains(&first.len()) && rest.iter().all(|part| part.len() == 3));
    let has_digit = !whole.is_empty() || !fraction.is_empty();
    if !groups.iter().all(|part| is_digits(part)) || !is_grouped || !is_digits(fraction) || !has_digit {
        return None;
    }
    let plain: String = text.chars().filter(|c| !matches!(c, ',' | '_')).collect();
    plain.parse().ok().filter(|number: &f64| number.is_finite())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_read_as_people_write_them() {
        let read = [
            ("7", 7),
            ("2,000", 2000),
            ("2_000_000", 2_000_000),
            ("10k", 10_000),
            ("1.5m", 1_500_000),
            ("2G", 2_000_000_000),
        ];
        for (text, expected) in read {
            assert_eq!(count(text), Ok(expected), "{text}");
        }
        for wrong in ["", "x", "-1", "1.5", "1,5", "1,00", "10,00", "1e3", "inf", "nan", "k", "10kk", "10 000", ",100"]
        {
            assert!(count(wrong).is_err(), "{wrong}");
        }
        assert_eq!(count(&crate::text::grouped(1_234_567)), Ok(1_234_567), "what is printed is read back");
    }

    #[test]
    fn rates_times_and_sizes_have_their_units() {
        let rates = [("2400", 2400.0), ("2,000/s", 2000.0), ("2.4k/s", 2400.0), ("120/min", 2.0), ("7200/h", 2.0)];
        for (text, expected) in rates {
            assert_eq!(rate(text).map(f64::to_bits), Ok(f64::to_bits(expected)), "{text}");
        }
        let times =
            [("1.5", 1500), ("250ms", 250), ("2m", 120_000), ("2min", 120_000), ("1h", 3_600_000), ("1,000ms", 1000)];
        for (text, expected) in times {
            assert_eq!(duration(text), Ok(Duration::from_millis(expected)), "{text}");
        }
        let sizes =
            [("512", 512), ("64k", 65_536), ("1m", 1 << 20), ("64KiB", 65_536), ("1MB", 1 << 20), ("10,000", 10_000)];
        for (text, expected) in sizes {
            assert_eq!(bytes(text), Ok(expected), "{text}");
        }
        assert!(rate("fast").is_err() && rate("10/x").is_err() && duration("-1s").is_err() && duration("1w").is_err());
        assert!(bytes("x").is_err() && bytes("1.5").is_err() && bytes("5i").is_err() && bytes("5ib").is_err());
    }
}
