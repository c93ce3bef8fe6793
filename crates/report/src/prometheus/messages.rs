//! The same as Protocol Buffers: `io.prometheus.client.MetricFamily` of Prometheus' client model, whose field numbers these are.

use super::{Kind, Labels, NativeHistogram};
use crate::protobuf::Writer;

/// Name, help and type of a family.
pub(super) fn head(out: &mut Writer, name: &str, help: &str, kind: Kind) {
    out.bytes(1, name.as_bytes());
    out.bytes(2, help.as_bytes());
    let kind = match kind {
        Kind::Counter => 0,
        Kind::Gauge => 1,
        Kind::Summary => 2,
        Kind::Histogram => 4,
    };
    out.put_number(3, kind);
}

/// A counter or a gauge.
pub(super) fn sample(out: &mut Writer, kind: Kind, labels: &Labels<'_>, last: Option<(&str, &str)>, value: f64) {
    let field = if kind == Kind::Counter { 3 } else { 2 };
    out.nested(4, |metric| {
        put_labels(metric, labels, last);
        metric.nested(field, |number| number.double(1, value));
    });
}

/// A summary.
pub(super) fn summary(
    out: &mut Writer,
    labels: &Labels<'_>,
    quantiles: impl IntoIterator<Item = (f64, f64)>,
    (sum, count): (f64, u64),
) {
    out.nested(4, |metric| {
        put_labels(metric, labels, None);
        metric.nested(4, |summary| {
            summary.put_number(1, count);
            summary.double(2, sum);
            for (quantile, value) in quantiles {
                summary.nested(3, |pair| {
                    pair.double(1, quantile);
                    pair.double(2, value);
                });
            }
        });
    });
}

/// A histogram with its buckets of both kinds.
pub(super) fn histogram(
    out: &mut Writer,
    labels: &Labels<'_>,
    buckets: impl IntoIterator<Item = (Option<f64>, u64)>,
    (sum, count): (f64, u64),
    native: Option<&NativeHistogram>,
) {
    out.nested(4, |metric| {
        put_labels(metric, labels, None);
        metric.nested(7, |histogram| {
            histogram.put_number(1, count);
            histogram.double(2, sum);
            for (bound, below) in buckets {
                histogram.nested(3, |bucket| {
                    bucket.put_number(1, below);
                    bucket.double(2, bound.unwrap_or(f64::INFINITY));
                });
            }
            if let Some(native) = native {
                put_native(histogram, native);
            }
        });
    });
}

fn put_native(histogram: &mut Writer, native: &NativeHistogram) {
    histogram.put_signed(5, native.schema.into());
    histogram.double(6, native.zero_threshold);
    histogram.put_number(7, native.zero_count);
    // Runs of neighbours, each with its distance from the end of the one before.
    let mut next = 0;
    for run in native.buckets.chunk_by(|one, other| one.0 + 1 == other.0) {
        let [(first, _), ..] = run else { continue };
        histogram.nested(12, |span| {
            span.put_signed(1, i64::from(*first) - next);
            span.put_number(2, run.len() as u64);
        });
        next = i64::from(*first) + run.len() as i64;
    }
    let mut before = 0;
    for (_, count) in &native.buckets {
        let count = i64::try_from(*count).unwrap_or(i64::MAX);
        histogram.put_signed(13, count - before);
        before = count;
    }
}

fn put_labels(metric: &mut Writer, labels: &Labels<'_>, last: Option<(&str, &str)>) {
    for (name, value) in labels.iter().copied().chain(last) {
        metric.nested(1, |pair| {
            pair.bytes(1, name.as_bytes());
            pair.bytes(2, value.as_bytes());
        });
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Format, Page};
    use super::*;

    #[test]
    fn a_family_is_a_message_behind_its_length() {
        let mut page = Page::new(Format::Protobuf);
        page.family("none", Kind::Gauge, "h").samples(&[], "state", [("idle", 1_u64); 0]);
        page.family("m_total", Kind::Counter, "h").sample(&[("a", "b")], 2_u64);
        let expected =
            b"\x23\x0a\x07m_total\x12\x01h\x18\0\x22\x13\x0a\x06\x0a\x01a\x12\x01b\x1a\x09\x09\0\0\0\0\0\0\0\x40";
        assert_eq!(page.into_bytes(), expected);
    }

    #[test]
    fn buckets_of_a_native_histogram_are_runs_and_differences() {
        let native = NativeHistogram { buckets: vec![(-3, 5), (-2, 4), (4, 6)], ..NativeHistogram::default() };
        let mut out = Writer::default();
        put_native(&mut out, &native);
        let mut expected = Writer::default();
        expected.put_signed(5, 0);
        expected.double(6, 0.0);
        expected.put_number(7, 0);
        for (offset, length) in [(-3, 2), (5, 1)] {
            expected.nested(12, |span| {
                span.put_signed(1, offset);
                span.put_number(2, length);
            });
        }
        for delta in [5, -1, 2] {
            expected.put_signed(13, delta);
        }
        assert_eq!(out.as_bytes(), expected.as_bytes());
    }
}
