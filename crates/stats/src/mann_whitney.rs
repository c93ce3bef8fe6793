//! Mann and Whitney's U: do the values of one arm tend to be greater than the other's? For arms without paired rounds; for paired
//! rounds `signed_rank` is more sensitive.

use crate::normal::two_sided_tail;
use crate::ranks::{Ranked, choice_sums, rank, tie_term, two_sided};

/// Up to this many values in both arms together the distribution is counted, ties included: 60 values are 30 × 3,660 sums
/// and some 7 million additions. Beyond, the normal distribution is right to three digits.
pub const EXACT_VALUES_MAX: usize = 60;

/// The outcome of the test.
#[derive(Debug, Clone, Copy, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct MannWhitney {
    /// Pairs in which the first arm's value is the greater, ties counting one half.
    pub u: f64,
    /// How often chance alone gives a U at least as far out, 0 to 1, two-sided.
    pub p: f64,
    /// Counted, or approximated by the normal distribution with tie and continuity correction.
    pub exact: bool,
}

/// Compares two arms. `None` if one is empty or has something that is no number.
pub fn mann_whitney(first: &[f64], second: &[f64]) -> Option<MannWhitney> {
    let all = first.len() + second.len();
    compare(first, second, all <= EXACT_VALUES_MAX)
}

fn compare(first: &[f64], second: &[f64], exact: bool) -> Option<MannWhitney> {
    let (n, m) = (first.len(), second.len());
    let values = [first, second].concat();
    if n == 0 || m == 0 || values.iter().any(|value| value.is_nan()) {
        return None;
    }
    let Ranked { doubled, groups } = rank(&values);
    let rank_sum_doubled: u64 = doubled.iter().take(n).sum();
    let u = rank_sum_doubled as f64 / 2.0 - (n * (n + 1)) as f64 / 2.0;
    let p = if exact {
        two_sided(&choice_sums(&doubled, n), rank_sum_doubled)
    } else {
        let (n, m) = (n as f64, m as f64);
        let all = n + m;
        let variance = n * m / 12.0 * (all + 1.0 - tie_term(&groups) / (all * (all - 1.0)));
        let distance = ((u - n * m / 2.0).abs() - 0.5).max(0.0);
        if variance > 0.0 { two_sided_tail(distance / variance.sqrt()) } else { 1.0 }
    };
    Some(MannWhitney { u, p, exact })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn close(got: f64, expected: f64) {
        assert!((got - expected).abs() <= 1e-9 * expected.abs().max(1e-3), "{got} and not {expected}");
    }

    const A: [f64; 7] = [1.83, 0.50, 1.62, 2.48, 1.68, 1.88, 1.55];
    const B: [f64; 7] = [0.878, 0.647, 0.598, 2.05, 1.06, 1.29, 1.06];
    const TIED: [f64; 6] = [1.0, 2.0, 2.0, 3.0, 5.0, 5.0];
    const TIED_TOO: [f64; 6] = [2.0, 4.0, 5.0, 5.0, 6.0, 7.0];

    #[test]
    fn the_exact_value_is_scipys() {
        // scipy 1.17.1: mannwhitneyu(A, B without its tie, method="exact")
        let b = [0.878, 0.647, 0.598, 2.05, 1.06, 1.29];
        let test = mann_whitney(&A, &b).expect("values");
        assert_eq!(test.u, 31.0);
        close(test.p, 0.180_652_680_652_680_65);
        assert!(test.exact);
    }

    #[test]
    fn with_ties_the_exact_value_is_that_of_all_permutations() {
        // scipy 1.17.1: permutation_test((TIED, TIED_TOO), rank sum of the first, n_resamples=inf, alternative twice the smaller tail)
        let test = mann_whitney(&TIED, &TIED_TOO).expect("values");
        assert_eq!(test.u, 8.0);
        close(test.p, 0.121_212_121_212_121_22);
    }

    #[test]
    fn the_normal_approximation_with_ties_is_scipys() {
        // scipy 1.17.1: mannwhitneyu(…, method="asymptotic", use_continuity=True)
        close(compare(&TIED, &TIED_TOO, false).expect("values").p, 0.118_789_365_155_630_04);
        close(compare(&A, &B, false).expect("values").p, 0.124_785_918_988_563);
    }

    #[test]
    fn equal_arms_are_undecided_and_empty_ones_an_error() {
        assert_eq!(mann_whitney(&[1.0; 8], &[1.0; 8]).expect("values").p, 1.0);
        assert_eq!(mann_whitney(&[1.0; 80], &[1.0; 80]).expect("values").p, 1.0);
        assert_eq!(mann_whitney(&[], &[1.0]), None);
        assert_eq!(mann_whitney(&[f64::NAN], &[1.0]), None);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(48))]

        #[test]
        fn exchanging_the_arms_mirrors_u_and_keeps_p(first in prop::collection::vec(0..9_i32, 1..14),
                                                     second in prop::collection::vec(0..9_i32, 1..14)) {
            let numbers = |values: &[i32]| values.iter().map(|value| f64::from(*value)).collect::<Vec<_>>();
            let (first, second) = (numbers(&first), numbers(&second));
            let there = mann_whitney(&first, &second).expect("values");
            let back = mann_whitney(&second, &first).expect("values");
            prop_assert_eq!(there.u + back.u, (first.len() * second.len()) as f64);
            prop_assert!((there.p - back.p).abs() < 1e-9);
            prop_assert!((0.0..=1.0).contains(&there.p));
        }
    }
}
