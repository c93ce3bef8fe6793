//! Statistics of numbers over time: average, minimum, maximum, and whether they rise. Pure
//! arithmetic.

/// The statistics of a series.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Summary {
    pub(crate) average: f64,
    pub(crate) least: u64,
    pub(crate) most: u64,
    /// Change per minute by a linear fit through all samples, and its standard error.
    pub(crate) per_minute: f64,
    pub(crate) per_minute_error: f64,
}

/// `seconds` and `values` belong together in pairs; `None` without samples.
pub(crate) fn summarize(seconds: &[f64], values: &[u64]) -> Option<Summary> {
    let count = values.len().min(seconds.len());
    let pairs = || seconds.iter().copied().zip(values.iter().map(|value| *value as f64));
    let n = count as f64;
    let average = pairs().map(|(_, value)| value).sum::<f64>() / n;
    let middle = pairs().map(|(time, _)| time).sum::<f64>() / n;
    let spread: f64 = pairs().map(|(time, _)| (time - middle).powi(2)).sum();
    let (slope, error) = if count >= 3 && spread > 0.0 {
        let slope = pairs().map(|(time, value)| (time - middle) * (value - average)).sum::<f64>() / spread;
        let off: f64 = pairs().map(|(time, value)| (value - average - slope * (time - middle)).powi(2)).sum();
        (slope, (off / (n - 2.0) / spread).sqrt())
    } else {
        // Every line fits two points, so the fit says nothing.
        (0.0, 0.0)
    };
    Some(Summary {
        average,
        least: values.iter().take(count).copied().min()?,
        most: values.iter().take(count).copied().max()?,
        per_minute: slope * 60.0,
        per_minute_error: error * 60.0,
    })
}

impl Summary {
    /// The trend in words; within two standard errors there is none.
    pub(crate) fn trend(&self) -> String {
        if self.per_minute.abs() <= 2.0 * self.per_minute_error || self.per_minute == 0.0 {
            return "flat".to_owned();
        }
        format!("{:+.1} ±{:.1}", self.per_minute, self.per_minute_error)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn over(values: &[u64]) -> Summary {
        let seconds: Vec<f64> = (0..values.len()).map(|at| at as f64 * 2.0).collect();
        summarize(&seconds, values).unwrap()
    }

    #[test]
    fn averages_bounds_and_trends_match_the_samples() {
        let rising = over(&[10, 20, 30, 40]);
        assert_eq!((rising.average, rising.least, rising.most), (25.0, 10, 40));
        assert_eq!(rising.trend(), "+300.0 ±0.0");
        assert_eq!(over(&[5, 7, 5, 7, 5, 7, 5]).trend(), "flat");
        assert_eq!(over(&[3]).trend(), "flat");
        assert_eq!(over(&[3, 9]).trend(), "flat");
        assert!(summarize(&[], &[]).is_none());
        let falling = over(&[100, 91, 80, 69, 60]);
        assert!(falling.trend().starts_with('-'), "{}", falling.trend());
    }
}
