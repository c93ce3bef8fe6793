//! A threshold on a figure of a run, for any protocol: its syntax, and its judgement after the run. `expect` and
//! `websocket` have the figures. Pure.

use crate::health::Health;
use crate::tally::Latencies;
use serde::{Deserialize, Serialize};
use std::str::FromStr;
use thiserror::Error;

/// One threshold, such as an [`Expectation`](crate::Expectation).
#[derive(Debug, Clone, PartialEq)]
pub struct Threshold<F> {
    text: String,
    figure: F,
    operator: Operator,
    /// Nanoseconds, requests per second, a number, or a share from 0 to 1.
    bound: f64,
    /// Whether the bound is a share.
    share: bool,
}

/// A figure of one kind of load.
pub trait LoadFigure {
    /// The summary of this kind of load.
    type Summary;
}

/// A figure that can be compared with a bound.
pub(crate) trait Compared: LoadFigure + Sized {
    /// The remark on counts that a late generator may have caused.
    const CAUSED_BY_LATENESS: &'static str;

    /// The figure of that name.
    fn parse(name: &str) -> Option<Self>;
    /// The unit of its bound.
    fn bound(&self) -> Bound;
    /// The figure of a run. `counted` turns a count and its total into a figure.
    fn measure(&self, counted: &Counting<'_>, summary: &Self::Summary, health: &Health) -> Measured;
    /// Why a missed threshold counts for nothing although the generator was on time.
    fn limited_by_generator(&self, _summary: &Self::Summary, _health: &Health) -> Option<String> {
        None
    }
}

/// Takes a count and its total; returns the number or the share, depending on the bound, and both in words.
pub(crate) type Counting<'a> = dyn Fn(u64, u64) -> (f64, String) + 'a;

/// The unit of a bound.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Bound {
    Time,
    Rate,
    /// A number or a share.
    Count,
}

/// A figure of a run.
pub(crate) struct Measured {
    /// `None` if it is unknown; then the threshold is not met.
    pub(crate) value: Option<f64>,
    pub(crate) words: String,
    /// The value that the figure could have had without the generator's lag; `None` if the lag does not matter.
    pub(crate) other: Option<f64>,
}

/// The point of a distribution of times that is compared.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Point {
    Quantile(f64),
    Min,
    Mean,
    Max,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Operator {
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
    Equal,
}

impl<F: Compared> FromStr for Threshold<F> {
    type Err = ExpectationError;

    fn from_str(text: &str) -> Result<Self, ExpectationError> {
        let (name, operator, bound) = split(text)?;
        let figure = F::parse(name).ok_or_else(|| ExpectationError::UnknownFigure(name.to_owned()))?;
        let (value, share) = parse_bound(figure.bound(), bound)
            .map_err(|why| ExpectationError::Bound(bound.to_owned(), name.to_owned(), why))?;
        Ok(Self { text: text.to_owned(), figure, operator, bound: value, share })
    }
}

#[expect(private_bounds, reason = "the figures are this crate's")]
impl<F: Compared> Threshold<F> {
    /// What is compared.
    pub(crate) fn figure(&self) -> &F {
        &self.figure
    }

    /// Judges a run. The generator may have distorted the figure; an unknown value does not meet the threshold.
    pub fn judge(&self, summary: &F::Summary, health: &Health) -> Verdict {
        let Measured { value, words, other } =
            self.figure.measure(&|count, of| self.counted(count, of), summary, health);
        let met = value.is_some_and(|value| self.operator.holds(value, self.bound));
        let undecided = value.and_then(|value| match other.filter(|other| self.lies_between(value, *other)) {
            Some(other) => Some(self.between(value.min(other), value.max(other))),
            None if met => None,
            None => self.figure.limited_by_generator(summary, health),
        });
        Verdict { expected: self.text.clone(), measured: words, met, undecided }
    }

    /// Whether the bound lies between the measured value and the value without lag, so that the measurement does not
    /// decide.
    fn lies_between(&self, value: f64, other: f64) -> bool {
        let holds = |value| self.operator.holds(value, self.bound);
        let is_within = self.bound >= value.min(other) && self.bound <= value.max(other);
        holds(value) != holds(other) || (self.operator == Operator::Equal && is_within && !holds(value))
    }

    /// Why a threshold between two values is undecided.
    fn between(&self, least: f64, most: f64) -> String {
        let words = match self.figure.bound() {
            Bound::Time => |ns: f64| format!("{:.1} ms", ns / 1e6),
            Bound::Rate => per_second,
            Bound::Count => return F::CAUSED_BY_LATENESS.to_owned(),
        };
        let (least, most) = (words(least), words(most));
        format!("without the generator's own lag it would be {least} to {most}, which the threshold lies between")
    }

    fn counted(&self, count: u64, of: u64) -> (f64, String) {
        let share = if of == 0 { 0.0 } else { count as f64 / of as f64 };
        let text = format!("{count} of {of} ({:.3} %)", share * 100.0);
        (if self.share { share } else { count as f64 }, text)
    }
}

/// The verdict on a threshold.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Verdict {
    /// The threshold as it was written.
    pub expected: String,
    /// What was measured, with its unit.
    pub measured: String,
    /// Whether the threshold was met.
    pub met: bool,
    /// Why the verdict counts for nothing: the generator, not the target, may have decided it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub undecided: Option<String>,
}

/// Why a threshold cannot be parsed.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum ExpectationError {
    /// No `<`, `<=`, `>`, `>=` or `=`.
    #[error("`{0}` has none of < <= > >= =")]
    NoOperator(String),
    /// The name of the figure is unknown.
    #[error("`{0}` is no figure of a run; such as p99, mean, errors, rate, reused, 5xx, refused")]
    UnknownFigure(String),
    /// The bound does not fit the figure.
    #[error("`{0}` is no bound for `{1}`: {2}")]
    Bound(String, String, &'static str),
}

/// Splits a threshold into figure, operator and bound.
fn split(text: &str) -> Result<(&str, Operator, &str), ExpectationError> {
    let at = text.find(['<', '>', '=']).ok_or_else(|| ExpectationError::NoOperator(text.to_owned()))?;
    let (name, rest) = text.split_at(at);
    let operators = [
        ("<=", Operator::LessOrEqual),
        (">=", Operator::GreaterOrEqual),
        ("==", Operator::Equal),
        ("<", Operator::Less),
        (">", Operator::Greater),
        ("=", Operator::Equal),
    ];
    let found = operators.iter().find_map(|(sign, operator)| Some((*operator, rest.strip_prefix(sign)?)));
    let (operator, bound) = found.ok_or_else(|| ExpectationError::NoOperator(text.to_owned()))?;
    Ok((name.trim(), operator, bound.trim()))
}

impl Operator {
    fn holds(self, value: f64, bound: f64) -> bool {
        match self {
            Self::Less => value < bound,
            Self::LessOrEqual => value <= bound,
            Self::Greater => value > bound,
            Self::GreaterOrEqual => value >= bound,
            Self::Equal => (value - bound).abs() <= f64::EPSILON * bound.abs(),
        }
    }
}

impl Point {
    /// Nanoseconds.
    pub(crate) fn of(self, latencies: &Latencies) -> f64 {
        match self {
            Self::Quantile(quantile) => latencies.quantile_ns(quantile) as f64,
            Self::Min => latencies.min_ns() as f64,
            Self::Mean => latencies.mean_ns(),
            Self::Max => latencies.max_ns() as f64,
        }
    }
}

/// Formats a rate.
pub(crate) fn per_second(rate: f64) -> String {
    format!("{rate:.1}/s")
}

/// Formats a latency.
pub(crate) fn millis(ns: f64) -> String {
    format!("{:.3} ms", ns / 1e6)
}

/// `p99.9`, `min`, `mean` or `max`.
pub(crate) fn parse_point(name: &str) -> Option<Point> {
    Some(match name {
        "min" => Point::Min,
        "mean" => Point::Mean,
        "max" => Point::Max,
        _ => {
            let percent: f64 = name.strip_prefix('p')?.parse().ok()?;
            Point::Quantile((0.0..=100.0).contains(&percent).then_some(percent / 100.0)?)
        }
    })
}

/// A number that is not negative.
fn parse_number(text: &str) -> Option<f64> {
    report::typed::scaled(text, &[("k", 1e3), ("m", 1e6), ("g", 1e9)])
}

/// A time with its unit, in nanoseconds.
fn parse_time(text: &str) -> Option<f64> {
    // The unit of a bare number would be ambiguous.
    let has_unit = text.ends_with(|last: char| last.is_alphabetic());
    report::typed::duration(text).ok().filter(|_| has_unit).map(|time| time.as_secs_f64() * 1e9)
}

fn parse_bound(bound: Bound, text: &str) -> Result<(f64, bool), &'static str> {
    let number = parse_number;
    match bound {
        Bound::Time => parse_time(text).map(|ns| (ns, false)).ok_or("a time with its unit: us, ms, s or m"),
        Bound::Rate => {
            let rate = report::typed::rate(text).map(|rate| (rate, false));
            rate.map_err(|_| "requests per second, such as 1000 or 1,000/s")
        }
        Bound::Count => match text.strip_suffix('%') {
            Some(percent) => number(percent).map(|percent| (percent / 100.0, true)).ok_or("a share such as 0.1%"),
            None => number(text).map(|count| (count, false)).ok_or("a number, or a share such as 0.1%"),
        },
    }
}
