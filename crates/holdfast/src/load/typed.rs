//! Ramps, ranges and stages in flags: two numbers with `..` between them. The numbers have the same syntax as in other
//! flags.

use crate::typed::{count, duration, rate};
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

/// Stages. The rate or the number of connections changes linearly from the stage before, from 0 at the start.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Course {
    Rates(Vec<Stage>),
    Connections(Vec<Stage>),
}

/// `30s:100/s,1m:500/s,30s:0`, or connections: `30s:10,1m:50`.
pub(super) fn parse_stages(text: &str) -> Result<Course, String> {
    let is_rate = text.contains('/');
    let (mut stages, mut from) = (Vec::new(), 0.0);
    for part in text.split(',') {
        let (time, to) = part
            .split_once(':')
            .ok_or("stages are TIME:RATE,TIME:RATE or TIME:CONNECTIONS,…, such as 30s:100/s,1m:500/s")?;
        let to = match to.trim() {
            "0" => 0.0,
            to if is_rate && !to.contains('/') => {
                return Err(format!("`{to}` has no unit, and other stages have one: write {to}/s"));
            }
            to if is_rate => rate(to)?,
            to => count(to)? as f64,
        };
        stages.push(Stage { duration: duration(time.trim())?, from, to });
        from = to;
    }
    Ok(if is_rate { Course::Rates(stages) } else { Course::Connections(stages) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stages_ramp_from_one_to_the_next() {
        let stage = |seconds, from, to| Stage { duration: Duration::from_secs(seconds), from, to };
        assert_eq!(
            parse_stages("30s:100/s,1m:500/s, 30s:0"),
            Ok(Course::Rates(vec![stage(30, 0.0, 100.0), stage(60, 100.0, 500.0), stage(30, 500.0, 0.0)]))
        );
        assert_eq!(parse_stages("0s:5,1m:5"), Ok(Course::Connections(vec![stage(0, 0.0, 5.0), stage(60, 5.0, 5.0)])));
        assert!(parse_stages("30s:5/s,1m:5").unwrap_err().contains("write 5/s"));
        assert!(parse_stages("30s").is_err() && parse_stages("").is_err() && parse_stages("1m:x").is_err());
    }

    #[test]
    fn ramps_ranges_and_stages_are_understood() {
        assert_eq!(parse_duration_range("1ms..2ms"), Ok((Duration::from_millis(1), Duration::from_millis(2))));
        assert_eq!((parse_rate("2.4k/s"), parse_rate("100..2,000/s")), (Ok((2400.0, 2400.0)), Ok((100.0, 2000.0))));
        assert_eq!(parse_rate("60..120/min"), Ok((1.0, 2.0)));
        assert_eq!(parse_stage("30s:5/s"), Ok(Stage { duration: Duration::from_secs(30), from: 5.0, to: 5.0 }));
        assert!(parse_rate("fast").is_err() && parse_stage("30s").is_err() && parse_rate("1..").is_err());
    }
}
