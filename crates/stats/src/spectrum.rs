//! The percentile spectrum of a histogram, finer towards its end, and the `.hgrm` text that plotters of `HdrHistogram` read.

use crate::Histogram;
use std::fmt::Write as _;

/// Steps between one halving of the remaining tail and the next; the usual number in `.hgrm` files.
pub const TICKS_PER_HALF: u32 = 5;
/// What the summary lines of the text say about our shape: buckets, and sub-buckets for three digits.
const SUB_BUCKETS: u32 = 2048;

/// One point: this share of all durations took no longer than this duration.
#[derive(Debug, Clone, Copy, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct SpectrumPoint {
    /// 0 to 1.
    pub quantile: f64,
    /// Nanoseconds.
    pub duration_ns: u64,
    /// How many took no longer.
    pub count: u64,
}

impl Histogram {
    /// Ascending points from the shortest to the longest, which is at quantile 1. Empty if nothing was recorded.
    pub fn spectrum(&self, ticks_per_half: u32) -> Vec<SpectrumPoint> {
        let mut count = 0_u64;
        let steps = self.inner.iter_quantiles(ticks_per_half.max(1));
        steps
            .map(|step| {
                count = count.saturating_add(step.count_since_last_iteration());
                let duration_ns = step.value_iterated_to().min(crate::histogram::DURATION_NS_MAX);
                SpectrumPoint { quantile: step.quantile_iterated_to(), duration_ns, count }
            })
            .collect()
    }

    /// The `.hgrm` text. `unit_ns` is what one unit of its first column is worth: 1,000,000 for milliseconds.
    pub fn encode_hgrm(&self, unit_ns: f64) -> String {
        let mut text =
            format!("{:>12} {:>14} {:>10} {:>14}\n\n", "Value", "Percentile", "TotalCount", "1/(1-Percentile)");
        for SpectrumPoint { quantile, duration_ns, count } in self.spectrum(TICKS_PER_HALF) {
            let value = duration_ns as f64 / unit_ns;
            let _ = write!(text, "{value:>12.3} {quantile:>2.12} {count:>10}");
            if quantile < 1.0 {
                let _ = write!(text, " {:>14.2}", 1.0 / (1.0 - quantile));
            }
            text.push('\n');
        }
        let of = |value: Option<f64>| value.unwrap_or(0.0) / unit_ns;
        let (mean, deviation) = (of(self.mean_ns()), of(self.deviation_ns()));
        let max = of(self.max_ns().map(|ns| ns as f64));
        let _ = writeln!(text, "#[Mean    = {mean:>12.3}, StdDeviation   = {deviation:>12.3}]");
        let _ = writeln!(text, "#[Max     = {max:>12.3}, Total count    = {:>12}]", self.count());
        let _ = writeln!(text, "#[Buckets = {:>12}, SubBuckets     = {SUB_BUCKETS:>12}]", self.inner.buckets());
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one_to(last_ms: u64) -> Histogram {
        let mut histogram = Histogram::new();
        for ms in 1..=last_ms {
            histogram.record(ms * 1_000_000);
        }
        histogram
    }

    #[test]
    fn the_spectrum_rises_and_ends_with_all_at_the_longest() {
        let histogram = one_to(1000);
        let points = histogram.spectrum(TICKS_PER_HALF);
        assert!(points.windows(2).all(|pair| pair[0].quantile <= pair[1].quantile && pair[0].count <= pair[1].count));
        let last = points.last().expect("not empty");
        assert_eq!((last.quantile, last.count, Some(last.duration_ns)), (1.0, 1000, histogram.max_ns()));
        assert_eq!(Histogram::new().spectrum(TICKS_PER_HALF), []);
    }

    #[test]
    fn text_has_columns_and_summary_for_plotters() {
        let text = one_to(4).encode_hgrm(1e6);
        let lines: Vec<_> = text.lines().collect();
        assert_eq!(lines[0], "       Value     Percentile TotalCount 1/(1-Percentile)");
        assert_eq!(lines[2], "       1.000 0.000000000000          1           1.00");
        assert!(
            lines.iter().any(|line| line.starts_with("       4.0") && line.ends_with("1.000000000000          4")),
            "{text}"
        );
        assert!(text.ends_with(&format!("#[Buckets = {:>12}, SubBuckets     = {:>12}]\n", 32, 2048)), "{text}");
        // Each data line is numbers and nothing else.
        for line in lines[2..].iter().filter(|line| !line.starts_with('#')) {
            assert!(line.split_whitespace().all(|number| number.parse::<f64>().is_ok()), "{line}");
        }
    }
}
