//! Numbers for readers: with their unit, and with the count and spread of their samples.

use serde::{Deserialize, Serialize};
use stats::Summary;

/// What a number counts or measures.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Unit {
    /// Durations; shown as ns, µs, ms or s.
    Nanoseconds,
    /// Sizes; shown in powers of 1024.
    Bytes,
    /// 0 to 100.
    Percent,
    /// One thing over another; shown with ×.
    Ratio,
    /// Any other unit, by its name: `requests/s`, `sockets`.
    Of(String),
}

impl Unit {
    /// A unit that has only a name.
    pub fn of(name: &str) -> Self {
        Self::Of(name.to_owned())
    }

    /// The name on an axis.
    pub fn name(&self) -> &str {
        match self {
            Self::Nanoseconds => "time",
            Self::Bytes => "bytes",
            Self::Percent => "%",
            Self::Ratio => "×",
            Self::Of(name) => name,
        }
    }
}

/// A number with its context. JSON has no infinity: a value that is not finite is written as null and read as NaN.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "kind")]
pub enum Figure {
    /// Counted or computed exactly, so it has no spread.
    Exact {
        /// In `unit`.
        #[serde(deserialize_with = "number")]
        value: f64,
        /// Its unit.
        unit: Unit,
    },
    /// Measured several times.
    Sampled {
        /// The median.
        #[serde(deserialize_with = "number")]
        median: f64,
        /// The lowest value.
        #[serde(deserialize_with = "number")]
        min: f64,
        /// The highest value.
        #[serde(deserialize_with = "number")]
        max: f64,
        /// Number of measurements.
        n: u64,
        /// Its unit.
        unit: Unit,
    },
    /// From many events of one run, such as a percentile of latencies.
    FromEvents {
        /// In `unit`.
        #[serde(deserialize_with = "number")]
        value: f64,
        /// Number of events.
        n: u64,
        /// Its unit.
        unit: Unit,
    },
}

/// serde reads the null that it wrote for a value that is not finite.
pub(crate) fn number<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<f64, D::Error> {
    Ok(Option::<f64>::deserialize(deserializer)?.unwrap_or(f64::NAN))
}

impl Figure {
    /// Counted or computed.
    pub fn exact(value: f64, unit: Unit) -> Self {
        Self::Exact { value, unit }
    }

    /// Median and spread of the values. Shown as a dash if there is no value, or if one is not finite.
    pub fn sampled(values: &[f64], unit: Unit) -> Self {
        match Summary::of(values) {
            Some(summary) => Self::summary(&summary, unit),
            None => Self::Sampled { median: f64::NAN, min: f64::NAN, max: f64::NAN, n: values.len() as u64, unit },
        }
    }

    /// The same from a summary.
    pub fn summary(summary: &Summary, unit: Unit) -> Self {
        let Summary { median, min, max, n, .. } = *summary;
        Self::Sampled { median, min, max, n: n as u64, unit }
    }

    /// From `n` events of one run.
    pub fn from_events(value: f64, n: u64, unit: Unit) -> Self {
        Self::FromEvents { value, n, unit }
    }

    /// The number with its spread in short form: `20.5 µs ±5 %`. `Display` gives the full form.
    pub fn brief(&self) -> String {
        match self {
            Self::Sampled { median, min, max, n, unit } if *n > 1 && median.is_finite() && *median != 0.0 => {
                let spread = (max - min) / 2.0 / median.abs() * 100.0;
                let spread = if spread < 0.5 { String::new() } else { format!(" ±{spread:.0} %") };
                format!("{}{spread}", shown(*median, unit))
            }
            Self::Sampled { median: value, unit, .. }
            | Self::FromEvents { value, unit, .. }
            | Self::Exact { value, unit } => shown(*value, unit),
        }
    }

    /// The number itself: the value, or the median.
    pub fn value(&self) -> f64 {
        match self {
            Self::Exact { value, .. } | Self::FromEvents { value, .. } => *value,
            Self::Sampled { median, .. } => *median,
        }
    }
}

impl std::fmt::Display for Figure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Exact { value, unit } => f.write_str(&shown(*value, unit)),
            Self::FromEvents { value, n, unit } => write!(f, "{}, n = {}", shown(*value, unit), grouped(*n as f64, 0)),
            Self::Sampled { median, n, unit, .. } if !median.is_finite() => {
                write!(f, "{}, n = {n}", shown(f64::NAN, unit))
            }
            Self::Sampled { median, n: 1, unit, .. } => write!(f, "{}, n = 1", shown(*median, unit)),
            Self::Sampled { median, min, max, n, unit } => {
                write!(f, "{} [{}–{}], n = {n}", shown(*median, unit), shown(*min, unit), shown(*max, unit))
            }
        }
    }
}

/// The value with its unit, in three or four digits; a dash if it is not finite.
pub fn shown(value: f64, unit: &Unit) -> String {
    if !value.is_finite() {
        return "–".to_owned();
    }
    match unit {
        Unit::Nanoseconds => stepped(value, &[(1e9, "s"), (1e6, "ms"), (1e3, "µs"), (1.0, "ns")]),
        Unit::Bytes => {
            const KIB: f64 = 1024.0;
            let steps =
                [(KIB.powi(4), "TiB"), (KIB.powi(3), "GiB"), (KIB.powi(2), "MiB"), (KIB, "KiB"), (1.0, "bytes")];
            stepped(value, &steps)
        }
        Unit::Percent => format!("{} %", digits(value)),
        Unit::Ratio => format!("× {}", digits(value)),
        Unit::Of(name) if name.is_empty() => digits(value),
        Unit::Of(name) => format!("{} {name}", digits(value)),
    }
}

fn stepped(value: f64, steps: &[(f64, &str)]) -> String {
    let step = steps.iter().find(|(size, _)| value.abs() >= *size).or(steps.last());
    step.map_or_else(String::new, |(size, name)| format!("{} {name}", digits(value / size)))
}

/// Three significant digits or more, thousands grouped, no trailing zeros.
pub(crate) fn digits(value: f64) -> String {
    let size = value.abs();
    let decimals = match size {
        _ if size >= 100.0 || value.fract() == 0.0 => 0,
        _ if size >= 10.0 => 1,
        _ if size >= 1.0 => 2,
        _ if size >= 0.001 => 4,
        _ => return format!("{value:.2e}"),
    };
    let text = grouped(value, decimals);
    if decimals > 0 { text.trim_end_matches('0').trim_end_matches('.').to_owned() } else { text }
}

fn grouped(value: f64, decimals: usize) -> String {
    let plain = format!("{value:.decimals$}");
    let (whole, fraction) = plain.split_once('.').unwrap_or((&plain, ""));
    let (sign, whole) = whole.strip_prefix('-').map_or(("", whole), |rest| ("-", rest));
    let mut text = sign.to_owned();
    for (place, digit) in whole.chars().enumerate() {
        if place > 0 && (whole.len() - place).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    if !fraction.is_empty() {
        text.push('.');
        text.push_str(fraction);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_is_shown_with_unit_count_and_spread() {
        let times = Figure::sampled(&[1.5e6, 1.2e6, 1.9e6], Unit::Nanoseconds);
        assert_eq!(times.to_string(), "1.5 ms [1.2 ms–1.9 ms], n = 3");
        assert_eq!(Figure::exact(800_000.0, Unit::of("tuples")).to_string(), "800,000 tuples");
        assert_eq!(Figure::from_events(250e3, 12_000, Unit::Nanoseconds).to_string(), "250 µs, n = 12,000");
        assert_eq!(Figure::sampled(&[7.0], Unit::Percent).to_string(), "7 %, n = 1");
    }

    #[test]
    fn shows_a_dash_and_a_count_for_missing_values() {
        assert_eq!(Figure::sampled(&[], Unit::Bytes).to_string(), "–, n = 0");
        assert_eq!(Figure::exact(f64::INFINITY, Unit::Ratio).to_string(), "–");
    }

    #[test]
    fn sizes_step_by_1024_and_small_numbers_keep_their_digits() {
        assert_eq!(shown(4096.0 * 1_000_000.0, &Unit::Bytes), "3.81 GiB");
        assert_eq!(shown(256.0, &Unit::Bytes), "256 bytes");
        assert_eq!(shown(0.0145, &Unit::Percent), "0.0145 %");
        assert_eq!(shown(-1_290_140.0, &Unit::of("")), "-1,290,140");
        assert_eq!(shown(0.0, &Unit::Nanoseconds), "0 ns");
    }
}
