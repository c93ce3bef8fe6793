//! Hodges and Lehmann's estimates: how far one arm lies from the other, untroubled by a few wild rounds.

use crate::interval::Interval;
use crate::signed_rank::critical_count;
use crate::summary::median;

/// More values than this are refused rather than paired: two million averages are 16 MB, and no experiment has as many rounds.
pub const VALUES_MAX: usize = 2000;

/// How far the first arm lies above the second: the median of all differences between a value of the one and a value of the
/// other. `None` for an empty arm, more than [`VALUES_MAX`] values, or something that is no number.
pub fn difference(first: &[f64], second: &[f64]) -> Option<f64> {
    if first.len().max(second.len()) > VALUES_MAX {
        return None;
    }
    let differences: Vec<f64> = first.iter().flat_map(|a| second.iter().map(move |b| a - b)).collect();
    median(&differences)
}

/// The middle of paired differences: the median of the means of all pairs among them, each also paired with itself.
/// `None` as for [`difference`].
pub fn centre(differences: &[f64]) -> Option<f64> {
    median(&walsh_averages(differences)?)
}

/// The interval around [`centre`] that belongs to the signed-rank test: it leaves out zero exactly where the test, without
/// ties, finds less than `1 - confidence`. `None` where so few differences cannot be that sure, and as for [`difference`].
pub fn centre_interval(differences: &[f64], confidence: f64) -> Option<Interval> {
    let count = critical_count(differences.len(), (1.0 - confidence) / 2.0);
    let mut averages = walsh_averages(differences)?;
    if averages.iter().any(|average| average.is_nan()) {
        return None;
    }
    averages.sort_by(f64::total_cmp);
    let low = *averages.get(count.checked_sub(1)?)?;
    let high = *averages.get(averages.len().checked_sub(count)?)?;
    Some(Interval { low, high, confidence })
}

fn walsh_averages(values: &[f64]) -> Option<Vec<f64>> {
    if values.len() > VALUES_MAX {
        return None;
    }
    let pairs =
        values.iter().enumerate().flat_map(|(at, a)| values.iter().skip(at).map(move |b| f64::midpoint(*a, *b)));
    Some(pairs.collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const X: [f64; 6] = [6.1, 5.9, 6.4, 7.0, 6.6, 5.8];
    const Y: [f64; 6] = [5.2, 5.5, 6.0, 5.1, 5.7, 5.3];

    #[test]
    fn estimates_match_numpy() {
        // numpy.median([a - b for a in X for b in Y]) = 0.8; numpy.median of the 21 Walsh averages of X = 6.25
        assert!((difference(&X, &Y).expect("values") - 0.8).abs() < 1e-12);
        assert!((centre(&X).expect("values") - 6.25).abs() < 1e-12);
    }

    #[test]
    fn interval_of_six_is_their_range_and_five_have_none() {
        let interval = centre_interval(&X, 0.95).expect("six values");
        assert_eq!((interval.low, interval.high), (5.8, 7.0));
        assert_eq!(centre_interval(&X[..5], 0.95), None);
        assert_eq!(centre_interval(&[], 0.95), None);
    }

    #[test]
    fn nothing_too_much_and_no_number_have_no_estimate() {
        assert_eq!((difference(&[], &X), centre(&[]), centre(&[f64::NAN])), (None, None, None));
        assert_eq!(centre(&vec![1.0; VALUES_MAX + 1]), None);
        assert_eq!(centre_interval(&[f64::NAN; 9], 0.95), None);
    }

    proptest! {
        #[test]
        fn moving_one_arm_moves_the_estimate_by_as_much(values in prop::collection::vec(-1e3..1e3_f64, 6..15), by in -1e3..1e3_f64) {
            let moved: Vec<f64> = values.iter().map(|value| value + by).collect();
            prop_assert!((difference(&moved, &values).expect("values") - by).abs() < 1e-9);
            prop_assert!((centre(&moved).expect("values") - centre(&values).expect("values") - by).abs() < 1e-9);
            let interval = centre_interval(&values, 0.95).expect("six or more");
            prop_assert!(interval.contains(centre(&values).expect("values")));
        }
    }
}
