//! Thresholds: what a run must have reached, as `p99<50ms` or `errors<0.1%`. Parsed before the run, judged after it. Pure.

use crate::cause::Cause;
use crate::health::{Health, Late};
use crate::run::Summary;
use crate::tally::Latencies;
use serde::Serialize;
use std::str::FromStr;
use thiserror::Error;

/// The grammar, for help texts.
pub const EXPECTATIONS: &str = "\
p50 p99 p99.9 … min mean max    latency, as in p99<50ms (us, ms, s, m)
service_p99 … lag_p99 …         from sending; how late the generator itself was
own_lag_p99 …                   of that, what its own work was the cause of, and not this machine
connect_p99 …                   opening a connection
rate responses                  rate>1000 per second; a number
errors failed reused            errors<0.1% or errors<10: failures and statuses from 400; failures; kept connections
2xx 3xx 4xx 5xx 200 404 …       responses by status, as a number or a share
refused silent keepalive_race … failures by cause, as a number or a share";

/// What is compared.
#[derive(Debug, Clone, PartialEq)]
enum Figure {
    Latency(Series, Point),
    Rate,
    Count(Counted),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Series {
    Latency,
    Service,
    Lag,
    OwnLag,
    Connect,
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Point {
    Quantile(f64),
    Min,
    Mean,
    Max,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Counted {
    Responses,
    Errors,
    Failed,
    Reused,
    Statuses(u16, u16),
    Cause(Cause),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Operator {
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
    Equal,
}

/// One threshold.
///
/// ```
/// use load::Expectation;
///
/// assert!("p99<50ms".parse::<Expectation>().is_ok());
/// let unmeant = "p99<50".parse::<Expectation>().unwrap_err();
/// assert_eq!(unmeant.to_string(), "`50` is no bound for `p99`: a time with its unit: us, ms, s or m");
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct Expectation(Threshold<Figure>);

/// A figure of some kind of load that can be compared with a bound.
pub(crate) trait Compared: Sized {
    /// The figure of that name.
    fn parse(name: &str) -> Option<Self>;
    /// What its bound is written as.
    fn bound(&self) -> Bound;
}

/// What a bound is written as.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Bound {
    Time,
    Rate,
    /// Or a share.
    Count,
}

/// A figure, an operator and a bound, whatever the load speaks.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Threshold<F> {
    text: String,
    pub(crate) figure: F,
    operator: Operator,
    /// Nanoseconds, requests per second, a number, or a share from 0 to 1.
    bound: f64,
    /// The bound is a share.
    share: bool,
}

impl<F: Compared> Threshold<F> {
    pub(crate) fn parse(text: &str) -> Result<Self, ExpectationError> {
        let (name, operator, bound) = split(text)?;
        let figure = F::parse(name).ok_or_else(|| ExpectationError::UnknownFigure(name.to_owned()))?;
        let (value, share) = parse_bound(figure.bound(), bound)
            .map_err(|why| ExpectationError::Bound(bound.to_owned(), name.to_owned(), why))?;
        Ok(Self { text: text.to_owned(), figure, operator, bound: value, share })
    }

    /// Compares what was measured. A value that is not known is not what was expected.
    pub(crate) fn judge(&self, value: Option<f64>, measured: String) -> Verdict {
        let met = value.is_some_and(|value| self.operator.holds(value, self.bound));
        Verdict { expected: self.text.clone(), measured, met, undecided: None }
    }

    /// Whether the threshold lies between what was measured and what it would be at the other end: then the measurement decides nothing.
    pub(crate) fn lies_between(&self, value: f64, other: f64) -> bool {
        let holds = |value| self.operator.holds(value, self.bound);
        let is_within = self.bound >= value.min(other) && self.bound <= value.max(other);
        holds(value) != holds(other) || (self.operator == Operator::Equal && is_within && !holds(value))
    }

    /// So many of so many: the number or the share, as the bound is, and both in words.
    pub(crate) fn counted(&self, count: u64, of: u64) -> (f64, String) {
        let share = if of == 0 { 0.0 } else { count as f64 / of as f64 };
        let text = format!("{count} of {of} ({:.3} %)", share * 100.0);
        (if self.share { share } else { count as f64 }, text)
    }
}

/// What became of a threshold.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Verdict {
    /// As it was written.
    pub expected: String,
    /// What was measured, with its unit.
    pub measured: String,
    /// Whether it was reached.
    pub met: bool,
    /// Why that counts for nothing: the generator, and not the target, may have decided it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub undecided: Option<String>,
}

/// Why a threshold cannot be understood.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum ExpectationError {
    /// No `<`, `<=`, `>`, `>=` or `=`.
    #[error("`{0}` has none of < <= > >= =")]
    NoOperator(String),
    /// A word that is no figure.
    #[error("`{0}` is no figure of a run; such as p99, mean, errors, rate, reused, 5xx, refused")]
    UnknownFigure(String),
    /// A bound that does not fit the figure.
    #[error("`{0}` is no bound for `{1}`: {2}")]
    Bound(String, String, &'static str),
}

impl FromStr for Expectation {
    type Err = ExpectationError;

    fn from_str(text: &str) -> Result<Self, ExpectationError> {
        Threshold::parse(text).map(Self)
    }
}

impl Compared for Figure {
    fn parse(name: &str) -> Option<Self> {
        parse_figure(name)
    }

    fn bound(&self) -> Bound {
        match self {
            Self::Latency(..) => Bound::Time,
            Self::Rate => Bound::Rate,
            Self::Count(_) => Bound::Count,
        }
    }
}

/// The figure's name, the operator, the bound.
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

/// A number that is no less than 0.
fn parse_number(text: &str) -> Option<f64> {
    report::typed::scaled(text, &[("k", 1e3), ("m", 1e6), ("g", 1e9)])
}

/// A time with its unit, in nanoseconds.
fn parse_time(text: &str) -> Option<f64> {
    // A bare number could be meant in any unit.
    let has_unit = text.ends_with(|last: char| last.is_alphabetic());
    report::typed::duration(text).ok().filter(|_| has_unit).map(|time| time.as_secs_f64() * 1e9)
}

fn parse_figure(name: &str) -> Option<Figure> {
    let counted = match name {
        "rate" => return Some(Figure::Rate),
        "responses" => Some(Counted::Responses),
        "errors" => Some(Counted::Errors),
        "failed" => Some(Counted::Failed),
        "reused" => Some(Counted::Reused),
        _ => parse_statuses(name).or_else(|| {
            let cause = Cause::ALL.iter().find(|cause| cause.key() == name)?;
            Some(Counted::Cause(*cause))
        }),
    };
    if let Some(counted) = counted {
        return Some(Figure::Count(counted));
    }
    let prefixes = [
        ("service_", Series::Service),
        ("own_lag_", Series::OwnLag),
        ("lag_", Series::Lag),
        ("connect_", Series::Connect),
    ];
    let found = prefixes.iter().find_map(|(prefix, series)| Some((*series, name.strip_prefix(prefix)?)));
    let (series, point) = found.unwrap_or((Series::Latency, name));
    Some(Figure::Latency(series, parse_point(point)?))
}

/// `404` or `5xx`.
fn parse_statuses(name: &str) -> Option<Counted> {
    if name.len() != 3 {
        return None;
    }
    if let Some(class) = name.strip_suffix("xx") {
        let class: u16 = class.parse().ok().filter(|class| (1..=9).contains(class))?;
        return Some(Counted::Statuses(class * 100, class * 100 + 99));
    }
    let status = name.parse().ok().filter(|status| (100..=999).contains(status))?;
    Some(Counted::Statuses(status, status))
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

impl Expectation {
    /// Compares with a run, in whose way the generator may have been.
    pub fn judge(&self, summary: &Summary, health: &Health) -> Verdict {
        let Measured { value, words, other } = self.measure(summary, health);
        // Of no request at all nothing is known.
        let is_known = summary.record.targets.iter().any(|tally| tally.ended() > 0);
        let mut verdict = self.0.judge(is_known.then_some(value), words);
        verdict.undecided =
            if is_known { self.why_undecided(summary, health, value, other, verdict.met) } else { None };
        verdict
    }

    fn why_undecided(
        &self,
        summary: &Summary,
        health: &Health,
        value: f64,
        other: Option<f64>,
        met: bool,
    ) -> Option<String> {
        if let Some(other) = other.filter(|other| self.0.lies_between(value, *other)) {
            return Some(match self.0.figure {
                Figure::Latency(..) => between(&millis(value.min(other)), &millis(value.max(other))),
                Figure::Rate => between(&per_second(value.min(other)), &per_second(value.max(other))),
                Figure::Count(_) => "the generator was late, and that may have caused these failures".to_owned(),
            });
        }
        let is_limited = match self.0.figure {
            Figure::Latency(Series::Lag | Series::OwnLag, _) | Figure::Count(_) => false,
            Figure::Latency(..) | Figure::Rate => true,
        };
        let is_saturated = health.saturated && !summary.options.pace.is_open();
        (is_limited && is_saturated && !met).then(|| {
            let busy = health.busy_share * 100.0;
            format!("the generator's busiest thread ran {busy:.0} % of the time, so the limit may be its own")
        })
    }

    fn measure(&self, summary: &Summary, health: &Health) -> Measured {
        let whole = summary.record.whole();
        let late = health.late.is_some();
        match &self.0.figure {
            Figure::Rate => {
                let rate = summary.rate();
                // At most the time by which a request was late would the run have been shorter.
                let lag_s = summary.record.lag.max_ns() as f64 / 1e9;
                let shorter_s = (summary.elapsed.as_secs_f64() - lag_s).max(f64::MIN_POSITIVE);
                let other = late.then(|| whole.responses as f64 / shorter_s);
                Measured { value: rate, words: per_second(rate), other }
            }
            Figure::Latency(series, point) => {
                let (latencies, has_lag) = match series {
                    Series::Service if summary.options.pace.is_open() => (&summary.record.service, false),
                    // In closed loop both are the same.
                    Series::Latency | Series::Service => (&whole.latency, true),
                    Series::Lag => (&summary.record.lag, false),
                    Series::OwnLag => (&summary.record.lag_own, false),
                    Series::Connect => (&summary.record.connect, false),
                };
                let ns = point.of(latencies);
                let without = Late { lag: &summary.record.lag, service: Some(&summary.record.service) };
                let other = (late && has_lag).then(|| without.least_ns(latencies, *point));
                Measured { value: ns, words: format!("{:.3} ms", ns / 1e6), other }
            }
            Figure::Count(counted) => {
                let (count, of) = match counted {
                    Counted::Responses => (whole.responses, whole.begun),
                    Counted::Errors => (whole.errors(), whole.ended()),
                    Counted::Failed => (whole.failed(), whole.ended()),
                    Counted::Reused => (whole.reused, whole.responses),
                    Counted::Statuses(from, to) => (whole.with_status(*from..=*to), whole.responses),
                    Counted::Cause(cause) => (whole.failed_by(*cause), whole.ended()),
                };
                // A generator that sleeps lets its own timeouts pass, and those of the target.
                let by_lateness = |cause: &&Cause| match counted {
                    Counted::Errors | Counted::Failed => cause.may_come_of_lateness(),
                    Counted::Cause(counted) => counted == *cause && cause.may_come_of_lateness(),
                    Counted::Responses | Counted::Reused | Counted::Statuses(..) => false,
                };
                let caused: u64 = Cause::ALL.iter().filter(by_lateness).map(|cause| whole.failed_by(*cause)).sum();
                let other = (late && caused > 0).then(|| self.0.counted(count.saturating_sub(caused), of).0);
                let (value, words) = self.0.counted(count, of);
                Measured { value, words, other }
            }
        }
    }
}

/// A figure of a run.
struct Measured {
    value: f64,
    words: String,
    /// What it may have been at the other end, had the generator been in time; `None` where that makes no difference.
    other: Option<f64>,
}

fn millis(ns: f64) -> String {
    format!("{:.1} ms", ns / 1e6)
}

fn per_second(rate: f64) -> String {
    format!("{rate:.1}/s")
}

/// Why a threshold between two values is not decided.
pub(crate) fn between(least: &str, most: &str) -> String {
    format!("without the generator's own lag it would be {least} to {most}, which the threshold lies between")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{HttpRecord, Options, Target};
    use std::time::Duration;

    /// 1000 responses within 1 to 1000 ms in 10 s, of which 900 reused and 5 with 503; 10 timeouts of 2 s.
    fn summary() -> Summary {
        let mut record = HttpRecord::new(1);
        let tally = &mut record.targets[0];
        tally.begun = 1010;
        for ms in 1..=1000u64 {
            tally.response(if ms % 200 == 0 { 503 } else { 200 }, 1, ms * 1_000_000);
        }
        tally.reused = 900;
        (0..10).for_each(|_| tally.failure(Cause::Silent, 2_000_000_000));
        let options = Options::new(Target::new("http://127.0.0.1/".parse().unwrap()));
        let elapsed = Duration::from_secs(10);
        Summary { record, elapsed, ..Summary::of_nothing(options) }
    }

    fn met(text: &str) -> bool {
        text.parse::<Expectation>().unwrap().judge(&summary(), &summary().health()).met
    }

    #[test]
    fn bounds_are_compared() {
        for text in [
            "p50<510ms",
            "p50>=0.49s",
            "p99.9>1999ms",
            "max>=2s",
            "rate=100",
            "rate>99/s",
            "errors<2%",
            "errors=15",
            "failed<=10",
            "reused>=90%",
            "5xx<1%",
            "503=5",
            "404=0",
            "silent>0",
            "refused=0",
            "lag_p99<1ms",
            "own_lag_p99.9<=100us",
        ] {
            assert!(
                met(text),
                "{text}: {:?}",
                text.parse::<Expectation>().unwrap().judge(&summary(), &summary().health())
            );
        }
        for text in
            ["p50<490ms", "max<2s", "rate>100", "errors<1%", "reused>99%", "5xx=0", "silent<1", "service_p50<1us"]
        {
            assert!(!met(text), "{text}");
        }
    }

    #[test]
    fn a_verdict_says_what_was_measured() {
        let verdict = "errors<1%".parse::<Expectation>().unwrap().judge(&summary(), &summary().health());
        assert_eq!((verdict.measured.as_str(), verdict.met), ("15 of 1010 (1.485 %)", false));
    }

    #[test]
    fn of_nothing_nothing_is_met() {
        let none = Summary { record: HttpRecord::new(1), ..summary() };
        assert!(!"errors<1%".parse::<Expectation>().unwrap().judge(&none, &none.health()).met);
    }

    #[test]
    fn mistakes_are_named() {
        let error = |text: &str| text.parse::<Expectation>().unwrap_err().to_string();
        assert_eq!(error("p99"), "`p99` has none of < <= > >= =");
        assert!(error("p999<1ms").starts_with("`p999` is no figure"));
        assert_eq!(error("p99<50"), "`50` is no bound for `p99`: a time with its unit: us, ms, s or m");
        assert!(error("errors<x%").contains("a share such as"));
        assert!(error("rate>fast").contains("requests per second"));
    }
}
