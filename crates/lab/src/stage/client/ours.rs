//! `holdfast load`: its arguments and its JSON file. HTTP and WebSockets are treated alike: every number becomes a figure
//! with its name in the file.

use super::{Figures, Latency};
use crate::plan::Amount;
use serde_json::{Map, Value};
use std::collections::BTreeMap;
use std::ffi::OsString;

pub(super) fn amount_words(amount: Amount) -> Vec<OsString> {
    let words = match amount {
        Amount::Requests(requests) => ["-n".to_owned(), requests.to_string()],
        Amount::Seconds(seconds) => ["-d".to_owned(), format!("{:.0}ms", seconds * 1e3)],
    };
    words.map(OsString::from).into()
}

/// Parts of the file whose numbers are not figures by themselves.
const NOT_FIGURES: [&str; 4] = ["format", "targets", "intervals", "sockets"];

/// Parses the output of `holdfast load --json`.
pub fn parse_load(text: &str) -> Option<Figures> {
    let Ok(Value::Object(file)) = serde_json::from_str::<Value>(text) else { return None };
    let more = numbers(&file);
    let void = file.get("void").and_then(Value::as_array).into_iter().flatten();
    let void = void.filter_map(Value::as_str).map(str::to_owned).collect();
    let of = |name: &str| more.get(name).copied();
    let mut figures = if file.contains_key("protocol") { of_websocket(&file, of)? } else { of_http(&file, of)? };
    figures.is_open = file.get("loop").and_then(Value::as_str) != Some("closed");
    figures.void = void;
    figures.late = file.get("late").and_then(Value::as_str).map(str::to_owned);
    figures.more = more;
    Some(figures)
}

/// Every number in the file, by its name there; latencies in milliseconds.
pub(super) fn numbers(file: &Map<String, Value>) -> BTreeMap<String, f64> {
    let mut more = BTreeMap::new();
    for (name, value) in file.iter().filter(|(name, _)| !NOT_FIGURES.contains(&name.as_str())) {
        match value {
            Value::Object(inner) if inner.contains_key("quantiles_ns") => {
                let latency = latency_of(inner);
                more.extend(latency.each().map(|(quantile, ms)| (format!("{name}_ms.{quantile}"), ms)));
            }
            Value::Object(inner) => {
                let numbers = inner.iter().filter_map(|(key, value)| Some((format!("{name}.{key}"), value.as_f64()?)));
                more.extend(numbers);
            }
            other => more.extend(other.as_f64().map(|number| (name.clone(), number))),
        }
    }
    more
}

fn of_http(file: &Map<String, Value>, of: impl Fn(&str) -> Option<f64>) -> Option<Figures> {
    let mut causes = counts(file, "failures");
    let is_bad = |status: &str| status.parse::<u16>().is_ok_and(|status| status >= 400);
    causes.extend(counts(file, "statuses").into_iter().filter(|(status, _)| is_bad(status)));
    let requests = of("responses")? as u64;
    Some(Figures {
        requests,
        attempts: requests + of("failed")? as u64,
        requests_per_second: of("rate")?,
        failed: of("errors")? as u64,
        causes,
        latency: file.get("latency").and_then(Value::as_object).map(latency_of)?,
        histogram: histogram_of(file, "latency"),
        over_time: rates(file),
        ..Figures::default()
    })
}

/// For WebSockets: messages count as requests. Failures are connections that failed or were lost, and lost messages.
fn of_websocket(file: &Map<String, Value>, of: impl Fn(&str) -> Option<f64>) -> Option<Figures> {
    let delivered = of("delivered")?;
    let failed = of("failed")? + of("losses")? + of("lost")?;
    let elapsed = of("elapsed_s").filter(|elapsed| *elapsed > 0.0)?;
    let named = if delivered > 0.0 { "delivery" } else { "handshake" };
    let mut causes = counts(file, "failures");
    causes.extend(counts(file, "endings").into_iter().map(|(ending, count)| (format!("ended {ending}"), count)));
    Some(Figures {
        requests: delivered as u64,
        attempts: (of("begun")? + of("begun_again").unwrap_or(0.0) + of("expected")?) as u64,
        requests_per_second: delivered / elapsed,
        failed: failed as u64,
        causes,
        latency: file.get(named).and_then(Value::as_object).map(latency_of)?,
        histogram: histogram_of(file, named),
        ..Figures::default()
    })
}

fn counts(file: &Map<String, Value>, name: &str) -> BTreeMap<String, u64> {
    let entries = file.get(name).and_then(Value::as_object).into_iter().flatten();
    entries.filter_map(|(key, value)| Some((key.clone(), value.as_u64()?))).collect()
}

/// In milliseconds; empty if nothing was recorded.
fn latency_of(latency: &Map<String, Value>) -> Latency {
    let number = |value: Option<&Value>| value.and_then(Value::as_f64).map(|ns| ns / 1e6);
    if latency.get("count").and_then(Value::as_u64).unwrap_or(0) == 0 {
        return Latency::default();
    }
    let quantile = |name: &str| number(latency.get("quantiles_ns").and_then(|quantiles| quantiles.get(name)));
    Latency {
        mean: number(latency.get("mean_ns")),
        p50: quantile("p50"),
        p90: quantile("p90"),
        p99: quantile("p99"),
        p999: quantile("p99.9"),
        max: number(latency.get("max_ns")),
    }
}

/// Latencies in ns with their counts.
fn histogram_of(file: &Map<String, Value>, named: &str) -> Vec<(u64, u64)> {
    let pairs = file.get(named).and_then(|latency| latency.get("histogram")).and_then(Value::as_array);
    let number = |pair: &Value, at: usize| pair.get(at).and_then(Value::as_u64);
    pairs.into_iter().flatten().filter_map(|pair| Some((number(pair, 0)?, number(pair, 1)?))).collect()
}

/// Responses per second by interval, at the middle of each.
fn rates(file: &Map<String, Value>) -> Vec<(f64, f64)> {
    let intervals = file.get("intervals").and_then(Value::as_array).into_iter().flatten();
    let rate = |interval: &Value| {
        let of = |name: &str| interval.get(name).and_then(Value::as_f64);
        let length = of("length_s").filter(|length| *length > 0.0)?;
        Some((of("begun_s")? + length / 2.0, of("responses")? / length))
    };
    intervals.filter_map(rate).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const LATENCY: &str = r#"{"count":10,"mean_ns":2000000.0,"max_ns":9000000,"quantiles_ns":{"p50":1500000,"p99":4000000},
        "histogram":[[1500000,9],[9000000,1],["x",2]]}"#;

    #[test]
    fn a_load_over_http_is_read() {
        let text = format!(
            r#"{{"format":1,"loop":"open","responses":100,"failed":2,"errors":5,"rate":50.5,"statuses":{{"200":97,"502":3}},
               "failures":{{"reset":2}},"latency":{LATENCY},"connect":{LATENCY},"connections_opened":7,"void":["it starved"],"late":"p99 9 ms",
               "intervals":[{{"begun_s":1.0,"length_s":0.5,"responses":20}}],"first_limit":null}}"#
        );
        let figures = parse_load(&text).unwrap();
        assert_eq!((figures.requests, figures.attempts, figures.failed), (100, 102, 5));
        assert_eq!((figures.causes["reset"], figures.causes["502"], figures.causes.len()), (2, 3, 2));
        assert_eq!((figures.latency.p99, figures.latency.p90, figures.latency.max), (Some(4.0), None, Some(9.0)));
        assert_eq!((figures.more["connections_opened"], figures.more["connect_ms.p50"]), (7.0, 1.5));
        assert_eq!(figures.histogram, [(1_500_000, 9), (9_000_000, 1)]);
        assert!(figures.is_open);
        assert_eq!((figures.over_time, figures.void), (vec![(1.25, 40.0)], vec!["it starved".to_owned()]));
        assert_eq!(figures.late.as_deref(), Some("p99 9 ms"));
    }

    #[test]
    fn a_load_of_websockets_is_read() {
        let text = format!(
            r#"{{"protocol":"websocket","elapsed_s":2.0,"begun":1000,"failed":3,"losses":4,"lost":5,"delivered":600,
               "expected":605,"open_max":997,"failures":{{"refused":3}},"endings":{{"reset":4}},"delivery":{LATENCY},
               "handshake":{LATENCY},"memory":{{"held_bytes":5000}},"void":[]}}"#
        );
        let figures = parse_load(&text).unwrap();
        assert_eq!((figures.requests, figures.failed, figures.attempts), (600, 12, 1605));
        assert_eq!(figures.histogram.len(), 2, "of the deliveries");
        assert_eq!((figures.requests_per_second, figures.causes["ended reset"]), (300.0, 4));
        assert_eq!((figures.more["open_max"], figures.more["memory.held_bytes"]), (997.0, 5000.0));
    }

    #[test]
    fn refuses_files_without_figures() {
        for text in ["", "[]", "{}", r#"{"responses":1}"#, r#"{"protocol":"websocket","delivered":1}"#] {
            assert_eq!(parse_load(text), None, "{text}");
        }
    }
}
