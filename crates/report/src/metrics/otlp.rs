//! OTLP: `ExportMetricsServiceRequest` of `opentelemetry-proto` 1, with its field numbers. Counters are monotonic
//! cumulative sums.

use super::{Metric, Value};
use crate::prometheus::Kind;
use crate::protobuf::Writer;

/// `AGGREGATION_TEMPORALITY_CUMULATIVE`
const CUMULATIVE: u64 = 2;

/// A request with all samples of one time. Times are in nanoseconds since 1970: the start of the counters, and the sample's.
pub fn otlp_request(metrics: &[Metric], resource: &[(String, String)], begun_ns: u64, time_ns: u64) -> Vec<u8> {
    let mut request = Writer::default();
    request.nested(1, |of_resource| {
        of_resource.nested(1, |out| resource.iter().for_each(|label| attribute(out, 1, label)));
        of_resource.nested(2, |of_scope| {
            of_scope.nested(1, |scope| {
                scope.bytes(1, b"holdfast");
                scope.bytes(2, env!("CARGO_PKG_VERSION").as_bytes());
            });
            for metric in metrics {
                of_scope.nested(2, |out| put_metric(out, metric, begun_ns, time_ns));
            }
        });
    });
    request.into_bytes()
}

fn put_metric(out: &mut Writer, metric: &Metric, begun_ns: u64, time_ns: u64) {
    out.bytes(1, metric.name.as_bytes());
    out.bytes(2, metric.help.as_bytes());
    let unit: &[u8] = match &metric.name {
        name if name.contains("_seconds") => b"s",
        name if name.contains("_bytes") => b"By",
        _ => b"1",
    };
    out.bytes(3, unit);
    let field = match metric.kind {
        Kind::Gauge => 5,
        Kind::Counter => 7,
        Kind::Summary | Kind::Histogram => 11,
    };
    out.nested(field, |data| {
        for point in &metric.points {
            data.nested(1, |out| match &point.value {
                Value::Number(value) => {
                    out.fixed(2, begun_ns);
                    out.fixed(3, time_ns);
                    out.double(4, *value);
                    point.labels.iter().for_each(|label| attribute(out, 7, label));
                }
                Value::Summary { quantiles, sum, count } => {
                    out.fixed(2, begun_ns);
                    out.fixed(3, time_ns);
                    out.fixed(4, *count);
                    out.double(5, *sum);
                    for (quantile, value) in quantiles {
                        out.nested(6, |pair| {
                            pair.double(1, *quantile);
                            pair.double(2, *value);
                        });
                    }
                    point.labels.iter().for_each(|label| attribute(out, 7, label));
                }
            });
        }
        if metric.kind == Kind::Counter {
            data.number(2, CUMULATIVE);
            data.number(3, 1);
        }
    });
}

/// `KeyValue` with a text.
fn attribute(out: &mut Writer, field: u32, (name, value): &(String, String)) {
    out.nested(field, |pair| {
        pair.bytes(1, name.as_bytes());
        pair.nested(2, |any| any.message(1, value.as_bytes()));
    });
}
