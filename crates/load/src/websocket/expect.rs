//! The figures of a load of WebSockets that a threshold can use; `threshold` parses and judges. Pure.

use super::ending::Ending;
use super::run::WebSocketSummary;
use crate::cause::Cause;
use crate::health::{Health, Late};
use crate::threshold::{Bound, Compared, Counting, LoadFigure, Measured, Point, Threshold, millis, parse_point};

/// The grammar, for help texts.
pub const EXPECTATIONS: &str = "\
p50 p99 p99.9 … min mean max    ws: from when a message was due to each delivery, as in p99<50ms
handshake_p99 pong_p99 connect_p99   ws: from due to 101; from due to pong; to TCP
lag_p99 own_lag_p99             ws: the generator's own lag, and what its own work was the cause of
open established failed losses lost delivered   ws: connections; deliveries lost, as lost<0.1% or lost=0
between_p99 events unstamped complete …   --sse: between events of a connection; events; endings (p99: from the time in an event)
recovered                       ws: from the storm until all were open again, as recovered<5s
refused silent close_frame reset no_pong …   ws: failures and endings by cause
memory                          ws: bytes of user memory per connection, as memory<1024";

#[derive(Debug, Clone, Copy, PartialEq)]
pub enum WebSocketTimes {
    Delivery,
    Handshake,
    Pong,
    Between,
    Connect,
    Lag,
    OwnLag,
}

/// The figure that is compared.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum WebSocketFigure {
    Latency(WebSocketTimes, Point),
    Recovered,
    Open,
    Established,
    Failed,
    Losses,
    Lost,
    Delivered,
    Unstamped,
    Memory,
    Cause(Cause),
    Ending(Ending),
}

/// A threshold on a load of WebSockets.
pub type WebSocketExpectation = Threshold<WebSocketFigure>;

fn parse_figure(name: &str) -> Option<WebSocketFigure> {
    let figure = match name {
        "recovered" => Some(WebSocketFigure::Recovered),
        "open" => Some(WebSocketFigure::Open),
        "established" => Some(WebSocketFigure::Established),
        "failed" => Some(WebSocketFigure::Failed),
        "losses" => Some(WebSocketFigure::Losses),
        "lost" => Some(WebSocketFigure::Lost),
        "delivered" | "events" => Some(WebSocketFigure::Delivered),
        "unstamped" => Some(WebSocketFigure::Unstamped),
        "memory" => Some(WebSocketFigure::Memory),
        _ => None,
    };
    let cause = || Some(WebSocketFigure::Cause(*Cause::ALL.iter().find(|cause| cause.key() == name)?));
    let ending = || Some(WebSocketFigure::Ending(*Ending::ALL.iter().find(|ending| ending.key() == name)?));
    let latency = || {
        let prefixes = [
            ("handshake_", WebSocketTimes::Handshake),
            ("pong_", WebSocketTimes::Pong),
            ("between_", WebSocketTimes::Between),
            ("connect_", WebSocketTimes::Connect),
            ("own_lag_", WebSocketTimes::OwnLag),
            ("lag_", WebSocketTimes::Lag),
        ];
        let found = prefixes.iter().find_map(|(prefix, series)| Some((*series, name.strip_prefix(prefix)?)));
        let (series, point) = found.unwrap_or((WebSocketTimes::Delivery, name));
        Some(WebSocketFigure::Latency(series, parse_point(point)?))
    };
    figure.or_else(cause).or_else(ending).or_else(latency)
}

impl LoadFigure for WebSocketFigure {
    type Summary = WebSocketSummary;
}

impl Compared for WebSocketFigure {
    const CAUSED_BY_LATENESS: &'static str = "the generator was late, and that may have caused these";

    fn parse(name: &str) -> Option<Self> {
        parse_figure(name)
    }

    fn bound(&self) -> Bound {
        match self {
            Self::Latency(..) | Self::Recovered => Bound::Time,
            _ => Bound::Count,
        }
    }

    fn measure(&self, counted: &Counting<'_>, summary: &WebSocketSummary, health: &Health) -> Measured {
        let (value, words) = self.value(counted, summary);
        // A run without any connection has no figures.
        let value = value.filter(|_| summary.record.begun > 0);
        let other = value.filter(|_| health.late.is_some()).and_then(|value| self.at_other_end(summary, value));
        Measured { value, words, other }
    }
}

impl WebSocketFigure {
    /// The value without the generator's lag; `None` if the lag does not matter.
    fn at_other_end(self, summary: &WebSocketSummary, value: f64) -> Option<f64> {
        let record = &summary.record;
        let lag = Late { lag: &record.generator.lag, service: None };
        match self {
            Self::Latency(WebSocketTimes::Delivery, point) => Some(lag.least_ns(&record.delivery, point)),
            Self::Latency(WebSocketTimes::Handshake, point) => Some(lag.least_ns(&record.handshake, point)),
            Self::Latency(WebSocketTimes::Pong, point) => Some(lag.least_ns(&record.pong, point)),
            Self::Latency(WebSocketTimes::Between, point) => Some(lag.least_ns(&record.between, point)),
            Self::Recovered => Some((value - record.generator.lag.max_ns() as f64).max(0.0)),
            // A generator that is not scheduled answers no ping and reads nothing, so it may have
            // caused these.
            Self::Failed | Self::Losses | Self::Lost | Self::Cause(_) | Self::Ending(_) => Some(0.0),
            Self::Latency(WebSocketTimes::Connect | WebSocketTimes::Lag | WebSocketTimes::OwnLag, _)
            | Self::Open
            | Self::Established
            | Self::Delivered
            | Self::Unstamped
            | Self::Memory => None,
        }
    }

    fn value(self, counted: &Counting<'_>, summary: &WebSocketSummary) -> (Option<f64>, String) {
        let record = &summary.record;
        let (count, of) = match self {
            Self::Latency(series, point) => {
                let latencies = match series {
                    WebSocketTimes::Delivery => &record.delivery,
                    WebSocketTimes::Handshake => &record.handshake,
                    WebSocketTimes::Pong => &record.pong,
                    WebSocketTimes::Between => &record.between,
                    WebSocketTimes::Connect => &record.connect,
                    WebSocketTimes::Lag => &record.generator.lag,
                    WebSocketTimes::OwnLag => &record.generator.lag_own,
                };
                let ns = point.of(latencies);
                let is_known = latencies.count() > 0;
                return if is_known { (Some(ns), millis(ns)) } else { (None, "nothing to measure".to_owned()) };
            }
            Self::Recovered if record.unrecovered > 0 || summary.options.storm.is_none() => {
                return (None, "not recovered".to_owned());
            }
            Self::Recovered => {
                return (Some(record.recovered_ns as f64), format!("{:.3} s", record.recovered_ns as f64 / 1e9));
            }
            Self::Memory => {
                return match summary.memory.bytes_per_connection() {
                    Some(bytes) => (Some(bytes), format!("{bytes:.0} bytes")),
                    None => (None, "too few connections to tell".to_owned()),
                };
            }
            Self::Open => (record.open, summary.options.connections as u64),
            Self::Established => (record.established, record.begun),
            Self::Failed => (record.failed(), record.begun),
            Self::Losses => (record.losses(), record.established),
            Self::Lost => (record.lost, record.expected),
            // Without ids in sequence no number of events is expected.
            Self::Delivered if record.expected == 0 => (record.delivered, record.delivered),
            Self::Delivered => (record.delivered, record.expected),
            Self::Unstamped => (record.unstamped, record.delivered),
            Self::Cause(cause) => (record.failed_by(cause), record.begun),
            Self::Ending(ending) => (record.ended_by(ending), record.established),
        };
        let (value, text) = counted(count, of);
        (Some(value), text)
    }
}
