//! Times, rates and amounts as they are typed.

use load::Stage;
use std::time::Duration;

/// `10s`, `500ms`, `2m`, `1h`; a bare number is seconds, as in wrk.
pub(super) fn parse_duration(text: &str) -> Result<Duration, String> {
    let units = [("us", 1e-6), ("ms", 1e-3), ("s", 1.0), ("m", 60.0), ("h", 3600.0)];
    let number = |text: &str| text.parse::<f64>().ok().filter(|number| *number >= 0.0);
    let found = units.iter().find_map(|(unit, seconds)| Some(number(text.strip_suffix(unit)?)? * seconds));
    let seconds = found.or_else(|| number(text)).ok_or("a time, such as 500ms, 10s, 2m or 1h")?;
    Duration::try_from_secs_f64(seconds).map_err(|error| error.to_string())
}

/// `30ms`, or `10ms..50ms`.
pub(super) fn parse_duration_range(text: &str) -> Result<(Duration, Duration), String> {
    match text.split_once("..") {
        Some((from, to)) => Ok((parse_duration(from)?, parse_duration(to)?)),
        None => parse_duration(text).map(|both| (both, both)),
    }
}

/// A whole number, with wrk's `k`, `M` and `G` behind it if wanted.
pub(super) fn parse_count(text: &str) -> Result<u64, String> {
    let units = [('k', 1_000), ('K', 1_000), ('M', 1_000_000), ('G', 1_000_000_000)];
    let (digits, factor) =
        units.iter().find_map(|(unit, factor)| Some((text.strip_suffix(*unit)?, *factor))).unwrap_or((text, 1u64));
    let number: u64 = digits.parse().map_err(|_| "a whole number, such as 100, 10k or 1M".to_owned())?;
    number.checked_mul(factor).ok_or_else(|| "a number below 2^64".to_owned())
}

/// Requests per second at the start and at the end: `2400`, `2400/s`, `100..2000/s`.
pub(super) fn parse_rate(text: &str) -> Result<(f64, f64), String> {
    let bare = text.strip_suffix("/s").unwrap_or(text);
    let rate = |text: &str| -> Result<f64, String> {
        let (digits, factor) = text.strip_suffix(['k', 'K']).map_or((text, 1.0), |digits| (digits, 1000.0));
        let number = digits.parse::<f64>().ok().filter(|number| number.is_finite() && *number >= 0.0);
        Ok(number.ok_or("requests per second, such as 2400/s or 100..2000/s")? * factor)
    };
    match bare.split_once("..") {
        Some((from, to)) => Ok((rate(from)?, rate(to)?)),
        None => rate(bare).map(|both| (both, both)),
    }
}

/// `30s:100/s` or `1m:100..2000/s`.
pub(super) fn parse_stage(text: &str) -> Result<Stage, String> {
    let (duration, rate) = text.split_once(':').ok_or("a stage is TIME:RATE, such as 30s:100..2000/s")?;
    let (from, to) = parse_rate(rate)?;
    Ok(Stage { duration: parse_duration(duration)?, from, to })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_typed_is_understood() {
        assert_eq!(parse_duration("1.5"), Ok(Duration::from_millis(1500)));
        assert_eq!(parse_duration("250ms"), Ok(Duration::from_millis(250)));
        assert_eq!(parse_duration("2m"), Ok(Duration::from_mins(2)));
        assert_eq!(parse_duration_range("1ms..2ms"), Ok((Duration::from_millis(1), Duration::from_millis(2))));
        assert_eq!((parse_count("10k"), parse_count("7")), (Ok(10_000), Ok(7)));
        assert_eq!((parse_rate("2.4k/s"), parse_rate("100..2000/s")), (Ok((2400.0, 2400.0)), Ok((100.0, 2000.0))));
        assert_eq!(parse_stage("30s:5/s"), Ok(Stage { duration: Duration::from_secs(30), from: 5.0, to: 5.0 }));
        for wrong in ["", "x", "-1s", "1d"] {
            assert!(parse_duration(wrong).is_err(), "{wrong}");
        }
        assert!(parse_rate("fast").is_err() && parse_stage("30s").is_err() && parse_count("1.5").is_err());
    }
}
