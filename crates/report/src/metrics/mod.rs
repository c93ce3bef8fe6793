//! Metrics as values, and the formats in which they are sent to a server: Prometheus remote write, OTLP and the line protocol of
//! `InfluxDB`. `prometheus` collects them while it writes a page. Pure: sending is the caller's.

mod influx;
mod otlp;
mod remote_write;

pub use influx::influx_lines;
pub use otlp::otlp_request;
pub use remote_write::remote_write_request;

use crate::prometheus::Kind;

/// A family of samples with one name.
#[derive(Debug, Clone, PartialEq)]
pub struct Metric {
    /// The name in Prometheus' style: with unit, and `_total` for counters.
    pub name: String,
    /// What it measures.
    pub kind: Kind,
    /// One line for people.
    pub help: String,
    /// The samples, each with other labels.
    pub points: Vec<Point>,
}

/// A sample.
#[derive(Debug, Clone, PartialEq)]
pub struct Point {
    /// Names and values, in no order.
    pub labels: Vec<(String, String)>,
    /// What was measured.
    pub value: Value,
}

/// The value of a sample.
#[derive(Debug, Clone, PartialEq)]
pub enum Value {
    /// Of a counter or a gauge.
    Number(f64),
    /// Of a summary.
    Summary {
        /// Quantiles (0 to 1) with their values.
        quantiles: Vec<(f64, f64)>,
        /// The sum of all values.
        sum: f64,
        /// Their number.
        count: u64,
    },
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::prometheus::Page;

    /// Metrics of each kind.
    pub(super) fn metrics() -> Vec<Metric> {
        let mut page = Page::collecting();
        page.family("a_total", Kind::Counter, "All.").samples(&[], "by", [("x y", 1_u64), ("z", 2)]);
        page.one("b", Kind::Gauge, "Now.", 0.5);
        page.family("c_seconds", Kind::Summary, "Times.").summary(&[], [(0.5, 0.25), (0.99, 1.5)], 12.5, 20);
        page.take_metrics()
    }

    #[test]
    fn page_collects_its_lines() {
        let metrics = metrics();
        let names: Vec<_> = metrics.iter().map(|metric| (metric.name.as_str(), metric.points.len())).collect();
        assert_eq!(names, [("a_total", 2), ("b", 1), ("c_seconds", 1)]);
        assert_eq!(metrics[0].points[0].labels, [("by".to_owned(), "x y".to_owned())]);
        assert_eq!((metrics[0].kind, metrics[0].help.as_str()), (Kind::Counter, "All."));
    }
}
