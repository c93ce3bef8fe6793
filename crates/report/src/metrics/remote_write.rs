//! Prometheus remote write 1.0: `prometheus.WriteRequest`, before its compression with Snappy's block format. The
//! specification is part of Prometheus' documentation.

use super::{Metric, Value};
use crate::prometheus::Kind;
use crate::protobuf::Writer;

/// A request with all samples of one time, in milliseconds since 1970. `labels` belong to every series.
pub fn remote_write_request(metrics: &[Metric], labels: &[(String, String)], time_ms: i64) -> Vec<u8> {
    let mut request = Writer::default();
    for metric in metrics {
        for point in &metric.points {
            let common: Vec<(&str, &str)> =
                labels.iter().chain(&point.labels).map(|(name, value)| (name.as_str(), value.as_str())).collect();
            let mut series = |suffix: &str, more: Option<(&str, &str)>, value: f64| {
                let name = format!("{}{suffix}", metric.name);
                put_series(&mut request, &name, common.iter().copied().chain(more), value, time_ms);
            };
            match &point.value {
                Value::Number(value) => series("", None, *value),
                Value::Summary { quantiles, sum, count } => {
                    for (quantile, value) in quantiles {
                        series("", Some(("quantile", &quantile.to_string())), *value);
                    }
                    series("_sum", None, *sum);
                    series("_count", None, *count as f64);
                }
            }
        }
    }
    for metric in metrics {
        request.nested(3, |metadata| {
            let kind = match metric.kind {
                Kind::Counter => 1,
                Kind::Gauge => 2,
                Kind::Histogram => 3,
                Kind::Summary => 5,
            };
            metadata.number(1, kind);
            metadata.bytes(2, metric.name.as_bytes());
            metadata.bytes(4, metric.help.as_bytes());
        });
    }
    request.into_bytes()
}

fn put_series<'a>(
    request: &mut Writer,
    name: &'a str,
    labels: impl Iterator<Item = (&'a str, &'a str)>,
    value: f64,
    time_ms: i64,
) {
    // The receiver requires sorted names, and each name once.
    let mut all: Vec<(&str, &str)> = labels.filter(|(_, value)| !value.is_empty()).collect();
    all.push(("__name__", name));
    all.sort_by_key(|(name, _)| *name);
    all.dedup_by_key(|(name, _)| *name);
    request.nested(1, |series| {
        for (name, value) in all {
            series.nested(1, |label| {
                label.bytes(1, name.as_bytes());
                label.bytes(2, value.as_bytes());
            });
        }
        series.nested(2, |sample| {
            sample.double(1, value);
            sample.number(2, time_ms as u64);
        });
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_are_sorted_and_values_have_their_time() {
        let metrics = [Metric {
            name: "m".to_owned(),
            kind: Kind::Gauge,
            help: "h".to_owned(),
            points: vec![super::super::Point {
                labels: vec![("z".to_owned(), "1".to_owned()), ("a".to_owned(), "2".to_owned())],
                value: Value::Number(2.0),
            }],
        }];
        let written = remote_write_request(&metrics, &[("job".to_owned(), "j".to_owned())], 300);
        let mut expected = Writer::default();
        expected.nested(1, |series| {
            for (name, value) in [("__name__", "m"), ("a", "2"), ("job", "j"), ("z", "1")] {
                series.nested(1, |label| {
                    label.bytes(1, name.as_bytes());
                    label.bytes(2, value.as_bytes());
                });
            }
            series.message(2, b"\x09\0\0\0\0\0\0\0\x40\x10\xac\x02");
        });
        expected.message(3, b"\x08\x02\x12\x01m\x22\x01h");
        assert_eq!(written, expected.into_bytes());
    }
}
