//! Prometheus' text format, version 0.0.4: families of metrics, each with its help, type and samples. The gateway's
//! status page, `watch` and `load` decide what is measured and write their pages with it.
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

use std::fmt::{Display, Write as _};

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
    text: String,
}

impl Page {
    /// Begins a family. Help and type are written with the first sample, so a family without samples is not on the
    /// page.
    pub fn family<'a>(&'a mut self, name: &'a str, kind: Kind, help: &'a str) -> Family<'a> {
        Family { text: &mut self.text, name, kind, help, has_head: false }
    }

    /// A family of one sample without labels.
    pub fn one(&mut self, name: &str, kind: Kind, help: &str, value: impl Display) {
        self.family(name, kind, help).sample(&[], value);
    }

    /// The whole text.
    pub fn into_text(self) -> String {
        self.text
    }
}

/// A family to which samples are added.
#[derive(Debug)]
pub struct Family<'a> {
    text: &'a mut String,
    name: &'a str,
    kind: Kind,
    help: &'a str,
    has_head: bool,
}

impl Family<'_> {
    /// The name of the family.
    pub fn name(&self) -> &str {
        self.name
    }

    /// One sample.
    pub fn sample(&mut self, labels: &Labels<'_>, value: impl Display) {
        self.put("", labels, None, value);
    }

    /// A sample for each value of one label, with the other labels in common.
    pub fn samples<K: AsRef<str>>(
        &mut self,
        fixed: &Labels<'_>,
        label: &str,
        values: impl IntoIterator<Item = (K, impl Display)>,
    ) {
        for (key, value) in values {
            self.put("", fixed, Some((label, key.as_ref())), value);
        }
    }

    /// A histogram: cumulative counts with their upper bounds (`None` for infinity), in ascending order.
    pub fn histogram(
        &mut self,
        labels: &Labels<'_>,
        buckets: impl IntoIterator<Item = (Option<f64>, u64)>,
        sum: f64,
        count: u64,
    ) {
        for (bound, below) in buckets {
            let bound = bound.map_or_else(|| "+Inf".to_owned(), |bound| bound.to_string());
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
        for (quantile, value) in quantiles {
            self.put("", labels, Some(("quantile", &quantile.to_string())), value);
        }
        self.put("_sum", labels, None, sum);
        self.put("_count", labels, None, count);
    }

    /// Writes a line. Writing to a string cannot fail.
    fn put(&mut self, suffix: &str, labels: &Labels<'_>, last: Option<(&str, &str)>, value: impl Display) {
        self.put_head();
        let _ = write!(self.text, "{}{suffix}", self.name);
        let mut before = '{';
        for (name, text) in labels.iter().copied().chain(last) {
            let _ = write!(self.text, "{before}{name}=\"");
            escape(self.text, text, true);
            self.text.push('"');
            before = ',';
        }
        let _ = writeln!(self.text, "{} {value}", if before == ',' { "}" } else { "" });
    }

    fn put_head(&mut self) {
        if std::mem::replace(&mut self.has_head, true) {
            return;
        }
        let _ = write!(self.text, "# HELP {} ", self.name);
        escape(self.text, self.help, false);
        let _ = writeln!(self.text, "\n# TYPE {} {}", self.name, self.kind.word());
    }
}

/// Writes a text with the escapes of the format; quotation marks are escaped only in label values.
fn escape(out: &mut String, text: &str, is_label: bool) {
    for symbol in text.chars() {
        match symbol {
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '"' if is_label => out.push_str("\\\""),
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
        let text = page(|page| page.family("m", Kind::Histogram, "h").histogram(&[("peer", "p")], buckets, 1.5, 3));
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
}
