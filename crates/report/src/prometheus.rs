//! Prometheus' formats: families of metrics, each with its help, type and samples, as text (version 0.0.4), as OpenMetrics
//! text, or as Protocol Buffers, which alone carry native histograms. The gateway's status page, `watch` and `load` decide what
//! is measured and write their pages with it.
//!
//! ```
//! use report::prometheus::{Kind, Page};
//!
//! let mut page = Page::default();
//! page.family("requests_total", Kind::Counter, "Requests by host.").sample(&[("host", "a\"b")], 7);
//! assert_eq!(
//!     page.into_text(),
//!     "# HELP requests_total Requests by host.\n# TYPE requests_total counter\nrequests_total{host=\"a\\\"b\"} 7\n"
//! );
//! ```

mod messages;

use crate::metrics::{Metric, Point, Value};
use crate::protobuf::Writer;
use std::fmt::{Display, Write as _};

/// How a page is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Format {
    /// Prometheus' text, version 0.0.4.
    #[default]
    Text,
    /// The text of OpenMetrics 1.0.
    OpenMetrics,
    /// Messages of `io.prometheus.client.MetricFamily`, each behind its length.
    Protobuf,
}

impl Format {
    /// The `Content-Type` of a page.
    pub fn content_type(self) -> &'static str {
        match self {
            Self::Text => "text/plain; version=0.0.4; charset=utf-8",
            Self::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
            Self::Protobuf => {
                "application/vnd.google.protobuf; proto=io.prometheus.client.MetricFamily; encoding=delimited"
            }
        }
    }
}

/// A value of a sample.
pub trait Number: Display {
    /// The value as the messages carry it.
    fn as_f64(&self) -> f64;
}

macro_rules! numbers {
    ($($kind:ty),*) => {
        $(impl Number for $kind {
            fn as_f64(&self) -> f64 {
                *self as f64
            }
        })*
    };
}
numbers!(u32, u64, usize, i32, i64, f64);

impl<N: Number + ?Sized> Number for &N {
    fn as_f64(&self) -> f64 {
        (**self).as_f64()
    }
}

/// The counts of a native histogram: bucket `i` holds values above `2^((i-1)/2^schema)` and up to `2^(i/2^schema)`.
#[derive(Debug, Clone, PartialEq, Default, serde::Serialize, serde::Deserialize)]
pub struct NativeHistogram {
    /// How fine the buckets are.
    pub schema: i8,
    /// Values up to this one are in no bucket.
    pub zero_threshold: f64,
    /// How many these are.
    pub zero_count: u64,
    /// Index and count of the buckets that are not empty, in ascending order.
    pub buckets: Vec<(i32, u64)>,
}

/// Labels of a sample: names and values. Values are escaped, names are not.
pub type Labels<'a> = [(&'a str, &'a str)];

/// What a family measures.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A sum that only grows.
    Counter,
    /// A value that rises and falls.
    Gauge,
    /// Counts of values up to each bound, with sum and number.
    Histogram,
    /// Quantiles, with sum and number.
    Summary,
}

impl Kind {
    /// The word in the `# TYPE` line.
    pub fn word(self) -> &'static str {
        match self {
            Self::Counter => "counter",
            Self::Gauge => "gauge",
            Self::Histogram => "histogram",
            Self::Summary => "summary",
        }
    }
}

/// A page in progress.
#[derive(Debug, Default)]
pub struct Page {
    format: Format,
    text: String,
    messages: Writer,
    /// The families as values, if they are collected.
    collected: Option<Vec<Metric>>,
}

impl Page {
    /// An empty page of this format.
    pub fn new(format: Format) -> Self {
        Self { format, ..Self::default() }
    }

    /// An empty page of text that collects its counters, gauges and summaries as values, too.
    pub fn collecting() -> Self {
        Self { collected: Some(Vec::new()), ..Self::default() }
    }

    /// What a collecting page has collected so far; it collects no more.
    pub fn take_metrics(&mut self) -> Vec<Metric> {
        self.collected.take().unwrap_or_default()
    }

    /// Begins a family. Help and type are written with the first sample, so a family without samples is not on the
    /// page.
    pub fn family<'a>(&'a mut self, name: &'a str, kind: Kind, help: &'a str) -> Family<'a> {
        Family { page: self, name, kind, help, has_head: false, message: Writer::default() }
    }

    /// A family of one sample without labels.
    pub fn one(&mut self, name: &str, kind: Kind, help: &str, value: impl Number) {
        self.family(name, kind, help).sample(&[], value);
    }

    /// The whole text; nothing of a page of messages.
    pub fn into_text(mut self) -> String {
        if self.format == Format::OpenMetrics {
            self.text.push_str("# EOF\n");
        }
        self.text
    }

    /// The whole page.
    pub fn into_bytes(self) -> Vec<u8> {
        match self.format {
            Format::Text | Format::OpenMetrics => self.into_text().into_bytes(),
            Format::Protobuf => self.messages.into_bytes(),
        }
    }
}

/// A family to which samples are added. It is complete when it is dropped.
#[derive(Debug)]
pub struct Family<'a> {
    page: &'a mut Page,
    name: &'a str,
    kind: Kind,
    help: &'a str,
    has_head: bool,
    message: Writer,
}

impl Family<'_> {
    /// The name of the family.
    pub fn name(&self) -> &str {
        self.name
    }

    /// One sample.
    pub fn sample(&mut self, labels: &Labels<'_>, value: impl Number) {
        self.one(labels, None, value);
    }

    /// A sample for each value of one label, with the other labels in common.
    pub fn samples<K: AsRef<str>>(
        &mut self,
        fixed: &Labels<'_>,
        label: &str,
        values: impl IntoIterator<Item = (K, impl Number)>,
    ) {
        for (key, value) in values {
            self.one(fixed, Some((label, key.as_ref())), value);
        }
    }

    fn one(&mut self, labels: &Labels<'_>, last: Option<(&str, &str)>, value: impl Number) {
        self.put_head();
        self.collect(labels, last, || Value::Number(value.as_f64()));
        match self.page.format {
            Format::Text | Format::OpenMetrics => self.put("", labels, last, value),
            Format::Protobuf => messages::sample(&mut self.message, self.kind, labels, last, value.as_f64()),
        }
    }

    /// A histogram: cumulative counts with their upper bounds (`None` for infinity), in ascending order; and the same values
    /// in finer buckets, for a format that has them.
    pub fn histogram(
        &mut self,
        labels: &Labels<'_>,
        buckets: impl IntoIterator<Item = (Option<f64>, u64)>,
        (sum, count): (f64, u64),
        native: Option<&NativeHistogram>,
    ) {
        self.put_head();
        if self.page.format == Format::Protobuf {
            return messages::histogram(&mut self.message, labels, buckets, (sum, count), native);
        }
        for (bound, below) in buckets {
            let bound = bound.map_or_else(|| "+Inf".to_owned(), |bound| self.float(bound));
            self.put("_bucket", labels, Some(("le", &bound)), below);
        }
        self.put("_sum", labels, None, sum);
        self.put("_count", labels, None, count);
    }

    /// A summary: quantiles and their values.
    pub fn summary(
        &mut self,
        labels: &Labels<'_>,
        quantiles: impl IntoIterator<Item = (f64, f64)>,
        sum: f64,
        count: u64,
    ) {
        self.put_head();
        let quantiles: Vec<(f64, f64)> = quantiles.into_iter().collect();
        self.collect(labels, None, || Value::Summary { quantiles: quantiles.clone(), sum, count });
        if self.page.format == Format::Protobuf {
            return messages::summary(&mut self.message, labels, quantiles, (sum, count));
        }
        for (quantile, value) in quantiles {
            self.put("", labels, Some(("quantile", &self.float(quantile))), value);
        }
        self.put("_sum", labels, None, sum);
        self.put("_count", labels, None, count);
    }

    fn collect(&mut self, labels: &Labels<'_>, last: Option<(&str, &str)>, value: impl FnOnce() -> Value) {
        let metric = self.page.collected.as_mut().and_then(|all| all.last_mut());
        if let Some(metric) = metric.filter(|metric| metric.name == self.name) {
            let labels = labels.iter().copied().chain(last).map(|(name, value)| (name.to_owned(), value.to_owned()));
            metric.points.push(Point { labels: labels.collect(), value: value() });
        }
    }

    /// A number in a label: OpenMetrics wants `1.0`, where the older text has `1`.
    fn float(&self, value: f64) -> String {
        if self.page.format == Format::OpenMetrics { format!("{value:?}") } else { value.to_string() }
    }

    /// Writes a line. Writing to a string cannot fail.
    fn put(&mut self, suffix: &str, labels: &Labels<'_>, last: Option<(&str, &str)>, value: impl Display) {
        let text = &mut self.page.text;
        let _ = write!(text, "{}{suffix}", self.name);
        let mut before = '{';
        for (name, value) in labels.iter().copied().chain(last) {
            let _ = write!(text, "{before}{name}=\"");
            escape(text, value, true);
            text.push('"');
            before = ',';
        }
        let _ = writeln!(text, "{} {value}", if before == ',' { "}" } else { "" });
    }

    fn put_head(&mut self) {
        if std::mem::replace(&mut self.has_head, true) {
            return;
        }
        if let Some(all) = &mut self.page.collected {
            let (name, kind, help) = (self.name.to_owned(), self.kind, self.help.to_owned());
            all.push(Metric { name, kind, help, points: Vec::new() });
        }
        let is_open = match self.page.format {
            Format::Text => false,
            Format::OpenMetrics => true,
            Format::Protobuf => return messages::head(&mut self.message, self.name, self.help, self.kind),
        };
        // There, the ending belongs to the sample and not to the family.
        let name = if is_open { self.name.strip_suffix("_total").unwrap_or(self.name) } else { self.name };
        let text = &mut self.page.text;
        let _ = write!(text, "# HELP {name} ");
        escape(text, self.help, is_open);
        let _ = writeln!(text, "\n# TYPE {name} {}", self.kind.word());
    }
}

impl Drop for Family<'_> {
    fn drop(&mut self) {
        if !self.message.as_bytes().is_empty() {
            self.page.messages.prefixed(self.message.as_bytes());
        }
    }
}

/// Writes a text with the escapes of the format; quotation marks are not escaped everywhere.
fn escape(out: &mut String, text: &str, is_quoted: bool) {
    for symbol in text.chars() {
        match symbol {
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '"' if is_quoted => out.push_str("\\\""),
            symbol => out.push(symbol),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page(write: impl FnOnce(&mut Page)) -> String {
        let mut page = Page::default();
        write(&mut page);
        page.into_text()
    }

    fn samples_of(text: &str) -> Vec<&str> {
        text.lines().filter(|line| !line.starts_with('#')).collect()
    }

    #[test]
    fn values_of_labels_are_escaped() {
        let text = page(|page| page.family("m", Kind::Gauge, "h").sample(&[("log", "a\"b\\c\nd"), ("x", "")], 1));
        assert_eq!(samples_of(&text), ["m{log=\"a\\\"b\\\\c\\nd\",x=\"\"} 1"]);
    }

    #[test]
    fn help_keeps_its_line_and_its_quotation_marks() {
        let text = page(|page| page.one("m", Kind::Counter, "a \"b\"\nc\\d", 0.5));
        assert_eq!(text, "# HELP m a \"b\"\\nc\\\\d\n# TYPE m counter\nm 0.5\n");
    }

    #[test]
    fn help_and_type_come_once_and_with_samples_alone() {
        let text = page(|page| {
            page.family("none", Kind::Gauge, "h").samples(&[], "state", [("idle", 1); 0]);
            page.family("some", Kind::Gauge, "h").samples(&[("group", "g")], "state", [("idle", 1), ("busy", 2)]);
        });
        assert_eq!(
            text,
            "# HELP some h\n# TYPE some gauge\nsome{group=\"g\",state=\"idle\"} 1\nsome{group=\"g\",state=\"busy\"} 2\n"
        );
    }

    #[test]
    fn histograms_and_summaries_end_with_sum_and_count() {
        let buckets = [(Some(0.005), 1), (None, 3)];
        let text =
            page(|page| page.family("m", Kind::Histogram, "h").histogram(&[("peer", "p")], buckets, (1.5, 3), None));
        assert_eq!(
            samples_of(&text),
            [
                "m_bucket{peer=\"p\",le=\"0.005\"} 1",
                "m_bucket{peer=\"p\",le=\"+Inf\"} 3",
                "m_sum{peer=\"p\"} 1.5",
                "m_count{peer=\"p\"} 3"
            ]
        );
        let text = page(|page| page.family("m", Kind::Summary, "h").summary(&[], [(0.99, 0.25)], 2.0, 8));
        assert_eq!(samples_of(&text), ["m{quantile=\"0.99\"} 0.25", "m_sum 2", "m_count 8"]);
    }

    #[test]
    fn openmetrics_trims_counter_suffixes_and_marks_the_end() {
        let mut page = Page::new(Format::OpenMetrics);
        page.one("a_total", Kind::Counter, "The \"a\".", 3_u64);
        page.family("b", Kind::Histogram, "h").histogram(&[], [(Some(1.0), 1), (None, 1)], (0.5, 1), None);
        assert_eq!(
            page.into_text(),
            "# HELP a The \\\"a\\\".\n# TYPE a counter\na_total 3\n\
             # HELP b h\n# TYPE b histogram\nb_bucket{le=\"1.0\"} 1\nb_bucket{le=\"+Inf\"} 1\nb_sum 0.5\nb_count 1\n# EOF\n"
        );
    }
}
