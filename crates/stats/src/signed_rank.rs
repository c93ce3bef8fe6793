//! Wilcoxon's signed-rank test: do paired differences lie to one side of zero? A verdict uses it, because both arms of a
//! round share the machine's conditions and only their difference counts.

use crate::normal::two_sided_tail;
use crate::ranks::{Ranked, rank, subset_sums, tie_term, two_sided};

/// Up to this many differences the distribution is counted, ties included: 60 are 3,661 sums and 220,000 additions.
pub const EXACT_PAIRS_MAX: usize = 60;

/// The outcome of the test.
#[derive(Debug, Clone, Copy, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct SignedRank {
    /// Sum of the ranks of positive differences.
    pub rank_sum_positive: f64,
    /// How often chance alone gives a sum at least as far out, 0 to 1, two-sided.
    pub p: f64,
    /// Differences that are not zero; zeros say nothing and are left out, as Wilcoxon did.
    pub n: usize,
    /// Counted, or approximated by the normal distribution with tie correction.
    pub exact: bool,
}

/// Tests the differences. `None` if one is no number; with nothing but zeros, p is 1.
pub fn signed_rank(differences: &[f64]) -> Option<SignedRank> {
    let used: Vec<f64> = differences.iter().copied().filter(|difference| *difference != 0.0).collect();
    let exact = used.len() <= EXACT_PAIRS_MAX;
    test(&used, exact)
}

fn test(used: &[f64], exact: bool) -> Option<SignedRank> {
    if used.iter().any(|difference| difference.is_nan()) {
        return None;
    }
    let sizes: Vec<f64> = used.iter().map(|difference| difference.abs()).collect();
    let Ranked { doubled, groups } = rank(&sizes);
    let positive = used.iter().zip(&doubled).filter(|(difference, _)| **difference > 0.0);
    let sum_doubled: u64 = positive.map(|(_, rank)| rank).sum();
    let rank_sum_positive = sum_doubled as f64 / 2.0;
    let n = used.len();
    let p = if n == 0 {
        1.0
    } else if exact {
        two_sided(&subset_sums(&doubled), sum_doubled)
    } else {
        let count = n as f64;
        let variance = count * (count + 1.0) * (2.0 * count + 1.0) / 24.0 - tie_term(&groups) / 48.0;
        two_sided_tail((rank_sum_positive - count * (count + 1.0) / 4.0) / variance.sqrt())
    };
    Some(SignedRank { rank_sum_positive, p, n, exact })
}

/// The greatest number k such that a sum of ranks below k, without ties, has at most `tail` probability, among `n` pairs.
/// Walsh averages k-th from either end bound the interval that belongs to the test. 0: no interval is that sure.
pub(crate) fn critical_count(n: usize, tail: f64) -> usize {
    if n > EXACT_PAIRS_MAX {
        let count = n as f64;
        let deviation = (count * (count + 1.0) * (2.0 * count + 1.0) / 24.0).sqrt();
        let mean = count * (count + 1.0) / 4.0;
        return (0..=mean as usize)
            .rev()
            .find(|k| two_sided_tail((mean - *k as f64 + 1.0) / deviation) / 2.0 <= tail)
            .unwrap_or(0);
    }
    let weights: Vec<u64> = (1..=n as u64).collect();
    let mut sum = 0.0;
    subset_sums(&weights)
        .iter()
        .take_while(|share| {
            sum += **share;
            sum <= tail
        })
        .count()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn close(got: f64, expected: f64) {
        assert!((got - expected).abs() <= 1e-9 * expected.abs().max(1e-3), "{got} and not {expected}");
    }

    /// Cross- and self-fertilised plants, the example of scipy's own documentation (Darwin 1876).
    const PLANTS: [f64; 15] =
        [6.0, 8.0, 14.0, 16.0, 23.0, 24.0, 28.0, 29.0, 41.0, -48.0, 49.0, 56.0, 60.0, -67.0, 75.0];
    const TIED: [f64; 8] = [1.0, 1.0, -1.0, 2.0, 2.0, 3.0, 3.0, -4.0];

    #[test]
    fn the_exact_value_is_scipys() {
        // scipy 1.17.1: wilcoxon(PLANTS, method="exact") has statistic 24.0, pvalue 0.041259765625
        let test = signed_rank(&PLANTS).expect("numbers");
        assert_eq!((test.rank_sum_positive, test.n, test.exact), (96.0, 15, true));
        close(test.p, 0.041_259_765_625);
    }

    #[test]
    fn with_ties_the_exact_value_is_that_of_all_signs() {
        // All 2^8 assignments of signs, counted in Python.
        close(signed_rank(&TIED).expect("numbers").p, 0.273_437_5);
    }

    #[test]
    fn the_normal_approximation_with_ties_is_scipys() {
        // scipy 1.17.1: wilcoxon(…, method="approx", correction=False)
        close(test(&PLANTS, false).expect("numbers").p, 0.040_888_132_911_855_91);
        close(test(&TIED, false).expect("numbers").p, 0.259_086_453_181_575_86);
    }

    #[test]
    fn zeros_are_dropped_and_all_zeros_are_undecided() {
        assert_eq!(signed_rank(&[0.0, 1.0, 2.0, 0.0]).expect("numbers").n, 2);
        assert_eq!(signed_rank(&[0.0; 9]).expect("numbers").p, 1.0);
        assert_eq!(signed_rank(&[f64::NAN]), None);
    }

    #[test]
    fn critical_counts_are_one_more_than_the_tabled_values() {
        // Tables of the signed-rank test, two-sided 0.05: W ≤ 0 for n = 6, 2 for 7, 3 for 8, 8 for 10, 13 for 12, 52 for 20.
        for (n, tabled) in [(6, 0), (7, 2), (8, 3), (10, 8), (12, 13), (20, 52)] {
            assert_eq!(critical_count(n, 0.025), tabled + 1, "n = {n}");
        }
        assert_eq!(critical_count(5, 0.025), 0, "five pairs cannot be that sure");
        let (counted, normal) = (critical_count(60, 0.025), critical_count(61, 0.025));
        assert!(normal > counted && normal - counted < 35, "{counted} at 60 pairs, {normal} at 61");
    }

    proptest! {
        #[test]
        fn the_other_sign_mirrors_the_sum_and_keeps_p(differences in prop::collection::vec(-9..=9_i32, 1..30)) {
            let numbers: Vec<f64> = differences.iter().map(|value| f64::from(*value)).collect();
            let mirrored: Vec<f64> = numbers.iter().map(|value| -value).collect();
            let (there, back) = (signed_rank(&numbers).expect("numbers"), signed_rank(&mirrored).expect("numbers"));
            prop_assert_eq!(there.rank_sum_positive + back.rank_sum_positive, (there.n * (there.n + 1)) as f64 / 2.0);
            prop_assert!((there.p - back.p).abs() < 1e-9);
        }
    }
}
