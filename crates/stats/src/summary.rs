//! How a handful of values is shown: median, spread and count together, because none of them is enough alone.

/// Five numbers and how many they mean. Quartiles interpolate between neighbours (type 7 of Hyndman and Fan, as numpy does).
#[derive(Debug, Clone, Copy, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct Summary {
    /// The middle value.
    pub median: f64,
    /// A quarter lies below.
    pub quartile_low: f64,
    /// A quarter lies above.
    pub quartile_high: f64,
    /// The least.
    pub min: f64,
    /// The greatest.
    pub max: f64,
    /// How many values.
    pub n: usize,
}

impl Summary {
    /// `None` for no values, or where one of them is no finite number.
    pub fn of(values: &[f64]) -> Option<Self> {
        if values.iter().any(|value| !value.is_finite()) {
            return None;
        }
        let mut sorted = values.to_vec();
        sorted.sort_by(f64::total_cmp);
        let at = |share| quantile_of_sorted(&sorted, share);
        Some(Self {
            median: at(0.5)?,
            quartile_low: at(0.25)?,
            quartile_high: at(0.75)?,
            min: *sorted.first()?,
            max: *sorted.last()?,
            n: sorted.len(),
        })
    }
}

/// The value that `share` (0 to 1) of the ascending values lie below, interpolated. `None` for no values.
pub fn quantile_of_sorted(sorted: &[f64], share: f64) -> Option<f64> {
    let last = sorted.len().checked_sub(1)?;
    let place = share.clamp(0.0, 1.0) * last as f64;
    let (below, above) = (*sorted.get(place.floor() as usize)?, *sorted.get(place.ceil() as usize)?);
    // Weighted, since the difference of two huge values may not be finite.
    let weight = place.fract();
    Some(if below.total_cmp(&above).is_eq() { below } else { below * (1.0 - weight) + above * weight })
}

/// The middle of the values. `None` for no values, or where one is no number.
pub fn median(values: &[f64]) -> Option<f64> {
    if values.iter().any(|value| value.is_nan()) {
        return None;
    }
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    quantile_of_sorted(&sorted, 0.5)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn quartiles_match_numpy() {
        // numpy.percentile([3, 1, 4, 1, 5, 9, 2, 6], [25, 50, 75]) = [1.75, 3.5, 5.25]
        let summary = Summary::of(&[3.0, 1.0, 4.0, 1.0, 5.0, 9.0, 2.0, 6.0]).expect("values");
        assert_eq!((summary.quartile_low, summary.median, summary.quartile_high), (1.75, 3.5, 5.25));
        assert_eq!((summary.min, summary.max, summary.n), (1.0, 9.0, 8));
    }

    #[test]
    fn no_summary_without_numbers() {
        assert_eq!(Summary::of(&[]), None);
        assert_eq!(Summary::of(&[1.0, f64::NAN]), None);
        assert_eq!(Summary::of(&[1.0, f64::INFINITY]), None);
        assert_eq!((median(&[]), median(&[f64::NAN])), (None, None));
    }

    proptest! {
        #[test]
        fn the_five_numbers_are_in_order(values in prop::collection::vec(-1e300..1e300_f64, 1..40)) {
            let s = Summary::of(&values).expect("finite values");
            prop_assert!(s.min <= s.quartile_low && s.quartile_low <= s.median);
            prop_assert!(s.median <= s.quartile_high && s.quartile_high <= s.max);
        }
    }
}
