//! A range that should contain the true value, with its confidence.

/// `low` to `high`, both included.
#[derive(Debug, Clone, Copy, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct Interval {
    /// In the unit of what is estimated.
    pub low: f64,
    /// In the unit of what is estimated.
    pub high: f64,
    /// In what share of experiments such an interval holds the true value, 0 to 1.
    pub confidence: f64,
}

impl Interval {
    /// Whether the value lies inside.
    pub fn contains(&self, value: f64) -> bool {
        self.low <= value && value <= self.high
    }

    /// Whether all of it lies within `±bound` around zero.
    pub fn is_within(&self, bound: f64) -> bool {
        self.low >= -bound && self.high <= bound
    }

    /// The same interval seen through a rising function, such as `exp`.
    #[must_use]
    pub fn map(self, rising: impl Fn(f64) -> f64) -> Self {
        Self { low: rising(self.low), high: rising(self.high), ..self }
    }
}
