//! Thresholds for a load of WebSockets, in the grammar of those for HTTP: a figure, an operator, a bound. Pure.

use super::ending::Ending;
use super::run::Summary;
use crate::cause::Cause;
use crate::expect::{Bound, Compared, ExpectationError, Point, Threshold, Verdict, between, parse_point};
use crate::health::{Health, Late};
use crate::tally::Latencies;
use std::str::FromStr;

/// The grammar, for help texts.
pub const EXPECTATIONS: &str = "\
p50 p99 p99.9 … min mean max    ws: from when a message was due to each delivery, as in p99<50ms
handshake_p99 pong_p99 connect_p99   ws: from due to 101; from due to pong; to TCP
lag_p99 own_lag_p99             ws: the generator's own lag, and what its own work was the cause of
open established failed losses lost delivered   ws: connections; deliveries lost, as lost<0.1% or lost=0
recovered                       ws: from the storm until all were open again, as recovered<5s
refused silent close_frame reset no_pong …   ws: failures and endings by cause
memory                          ws: bytes of user memory per connection, as memory<1024";

#[derive(Debug, Clone, Copy, PartialEq)]
enum Series {
    Delivery,
    Handshake,
    Pong,
    Connect,
    Lag,
    OwnLag,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Figure {
    Latency(Series, Point),
    Recovered,
    Open,
    Established,
    Failed,
    Losses,
    Lost,
    Delivered,
    Memory,
    Cause(Cause),
    Ending(Ending),
}

/// One threshold.
#[derive(Debug, Clone, PartialEq)]
pub struct Expectation(Threshold<Figure>);

fn parse_figure(name: &str) -> Option<Figure> {
    let figure = match name {
        "recovered" => Some(Figure::Recovered),
        "open" => Some(Figure::Open),
        "established" => Some(Figure::Established),
        "failed" => Some(Figure::Failed),
        "losses" => Some(Figure::Losses),
        "lost" => Some(Figure::Lost),
        "delivered" => Some(Figure::Delivered),
        "memory" => Some(Figure::Memory),
        _ => None,
    };
    let cause = || Some(Figure::Cause(*Cause::ALL.iter().find(|cause| cause.key() == name)?));
    let ending = || Some(Figure::Ending(*Ending::ALL.iter().find(|ending| ending.key() == name)?));
    let latency = || {
        let prefixes = [
            ("handshake_", Series::Handshake),
            ("pong_", Series::Pong),
            ("connect_", Series::Connect),
            ("own_lag_", Series::OwnLag),
            ("lag_", Series::Lag),
        ];
        let found = prefixes.iter().find_map(|(prefix, series)| Some((*series, name.strip_prefix(prefix)?)));
        let (series, point) = found.unwrap_or((Series::Delivery, name));
        Some(Figure::Latency(series, parse_point(point)?))
    };
    figure.or_else(cause).or_else(ending).or_else(latency)
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
            Self::Latency(..) | Self::Recovered => Bound::Time,
            _ => Bound::Count,
        }
    }
}

impl Expectation {
    /// Compares with a run, in whose way the generator may have been. What is not known is not met.
    pub fn judge(&self, summary: &Summary, health: &Health) -> Verdict {
        let (value, measured) = self.measure(summary);
        let value = value.filter(|_| summary.record.begun > 0);
        let mut verdict = self.0.judge(value, measured);
        if let Some(value) = value.filter(|_| health.late.is_some()) {
            verdict.undecided = self.why_undecided(summary, value);
        }
        verdict
    }

    /// What a late generator may have decided.
    fn why_undecided(&self, summary: &Summary, value: f64) -> Option<String> {
        let record = &summary.record;
        let lag = Late { lag: &record.lag, service: None };
        let least_ns = match self.0.figure {
            Figure::Latency(Series::Delivery, point) => lag.least_ns(&record.delivery, point),
            Figure::Latency(Series::Handshake, point) => lag.least_ns(&record.handshake, point),
            Figure::Latency(Series::Pong, point) => lag.least_ns(&record.pong, point),
            Figure::Recovered => (value - record.lag.max_ns() as f64).max(0.0),
            // A generator that sleeps answers no ping and reads nothing: these may be its own doing.
            Figure::Failed | Figure::Losses | Figure::Lost | Figure::Cause(_) | Figure::Ending(_) => {
                let why = "the generator was late, and that may have caused these";
                return self.0.lies_between(value, 0.0).then(|| why.to_owned());
            }
            Figure::Latency(Series::Connect | Series::Lag | Series::OwnLag, _)
            | Figure::Open
            | Figure::Established
            | Figure::Delivered
            | Figure::Memory => return None,
        };
        let millis = |ns: f64| format!("{:.1} ms", ns / 1e6);
        self.0.lies_between(value, least_ns).then(|| between(&millis(least_ns), &millis(value)))
    }

    fn measure(&self, summary: &Summary) -> (Option<f64>, String) {
        let record = &summary.record;
        let counted = |count: u64, of: u64| {
            let (value, text) = self.0.counted(count, of);
            (Some(value), text)
        };
        match self.0.figure {
            Figure::Latency(series, point) => {
                let latencies = match series {
                    Series::Delivery => &record.delivery,
                    Series::Handshake => &record.handshake,
                    Series::Pong => &record.pong,
                    Series::Connect => &record.connect,
                    Series::Lag => &record.lag,
                    Series::OwnLag => &record.lag_own,
                };
                latency(latencies, point)
            }
            Figure::Recovered if record.unrecovered > 0 || summary.options.storm.is_none() => {
                (None, "not recovered".to_owned())
            }
            Figure::Recovered => {
                (Some(record.recovered_ns as f64), format!("{:.3} s", record.recovered_ns as f64 / 1e9))
            }
            Figure::Memory => match summary.memory.bytes_per_connection() {
                Some(bytes) => (Some(bytes), format!("{bytes:.0} bytes")),
                None => (None, "too few connections to tell".to_owned()),
            },
            Figure::Open => counted(record.open, summary.options.connections as u64),
            Figure::Established => counted(record.established, record.begun),
            Figure::Failed => counted(record.failed(), record.begun),
            Figure::Losses => counted(record.losses(), record.established),
            Figure::Lost => counted(record.lost, record.expected),
            Figure::Delivered => counted(record.delivered, record.expected),
            Figure::Cause(cause) => counted(record.failed_by(cause), record.begun),
            Figure::Ending(ending) => counted(record.ended_by(ending), record.established),
        }
    }
}

/// Of nothing nothing is known.
fn latency(latencies: &Latencies, point: Point) -> (Option<f64>, String) {
    if latencies.count() == 0 {
        return (None, "nothing to measure".to_owned());
    }
    let ns = point.of(latencies);
    (Some(ns), format!("{:.3} ms", ns / 1e6))
}
