//! Ramps, ranges and stages in flags: two numbers with `..` between them. The numbers have the same syntax as in other
//! flags.

use crate::typed::{duration, rate};
use load::Stage;
use std::time::Duration;

/// `30ms`, or `10ms..50ms`.
pub(super) fn parse_duration_range(text: &str) -> Result<(Duration, Duration), String> {
    match text.split_once("..") {
        Some((from, to)) => Ok((duration(from)?, duration(to)?)),
        None => duration(text).map(|both| (both, both)),
    }
}

/// Requests per second at the start and at the end: `2400`, `2,400/s`, `100..2k/s`.
pub(super) fn parse_rate(text: &str) -> Result<(f64, f64), String> {
    match text.split_once("..") {
        // The unit follows the second number and applies to both.
        Some((from, to)) => {
            let unit = to.find('/').and_then(|at| to.get(at..)).filter(|_| !from.contains('/')).unwrap_or_default();
            Ok((rate(&format!("{from}{unit}"))?, rate(to)?))
        }
        None => rate(text).map(|both| (both, both)),
    }
}

/// `30s:100/s` or `1m:100..2000/s`.
pub(super) fn parse_stage(text: &str) -> Result<Stage, String> {
    let (time, rates) = text.split_once(':').ok_or("a stage is TIME:RATE, such as 30s:100..2000/s")?;
    let (from, to) = parse_rate(rates)?;
    Ok(Stage { duration: duration(time)?, from, to })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ramps_ranges_and_stages_are_understood() {
        assert_eq!(parse_duration_range("1ms..2ms"), Ok((Duration::from_millis(1), Duration::from_millis(2))));
        assert_eq!((parse_rate("2.4k/s"), parse_rate("100..2,000/s")), (Ok((2400.0, 2400.0)), Ok((100.0, 2000.0))));
        assert_eq!(parse_rate("60..120/min"), Ok((1.0, 2.0)));
        assert_eq!(parse_stage("30s:5/s"), Ok(Stage { duration: Duration::from_secs(30), from: 5.0, to: 5.0 }));
        assert!(parse_rate("fast").is_err() && parse_stage("30s").is_err() && parse_rate("1..").is_err());
    }
}
