//! Ranks with ties, and the exact distribution of a sum of ranks. Parts of both rank tests.

use std::cmp::Ordering;

/// Ranks from 1, doubled so that the middle rank of a tie is a whole number, and the size of each group of ties.
pub(crate) struct Ranked {
    /// Twice the rank of each value, in the order of the values.
    pub(crate) doubled: Vec<u64>,
    /// Sizes of the groups of equal values, also those of one.
    pub(crate) groups: Vec<usize>,
}

/// Ranks the values, which must be numbers.
pub(crate) fn rank(values: &[f64]) -> Ranked {
    let mut order: Vec<usize> = (0..values.len()).collect();
    order.sort_by(|a, b| values[*a].total_cmp(&values[*b]));
    let mut ranked = Ranked { doubled: vec![0; values.len()], groups: Vec::new() };
    let mut first = 0;
    // Zeros of either sign are equal as numbers, so groups are made by comparing and not by the total order above.
    for group in order.chunk_by(|a, b| values[*a].partial_cmp(&values[*b]) == Some(Ordering::Equal)) {
        // Ranks first + 1 to first + len have the mean first + (len + 1) / 2.
        let doubled = (2 * first + group.len() + 1) as u64;
        for index in group {
            ranked.doubled[*index] = doubled;
        }
        ranked.groups.push(group.len());
        first += group.len();
    }
    ranked
}

/// How likely each sum is when each of the weights is in or out with probability one half: `result[sum]`.
pub(crate) fn subset_sums(weights: &[u64]) -> Vec<f64> {
    let total: u64 = weights.iter().sum();
    let mut likely = vec![0.0; total as usize + 1];
    likely[0] = 1.0;
    for weight in weights.iter().map(|weight| *weight as usize) {
        for sum in (0..likely.len()).rev() {
            let without = likely[sum];
            let with = sum.checked_sub(weight).map_or(0.0, |rest| likely[rest]);
            likely[sum] = 0.5 * (without + with);
        }
    }
    likely
}

/// How likely each sum is when `chosen` of the weights are drawn, every choice alike: `result[sum]`.
pub(crate) fn choice_sums(weights: &[u64], chosen: usize) -> Vec<f64> {
    let total: u64 = weights.iter().sum();
    // ways[k][sum] is the share of all choices of k among the weights seen so far, which keeps numbers near 1.
    let mut ways = vec![vec![0.0; total as usize + 1]; chosen + 1];
    ways[0][0] = 1.0;
    for (seen, weight) in weights.iter().map(|weight| *weight as usize).enumerate() {
        for k in (1..=chosen.min(seen + 1)).rev() {
            // Of the choices of k among seen + 1 items, k / (seen + 1) contain the newest.
            let with = k as f64 / (seen + 1) as f64;
            for sum in (0..=total as usize).rev() {
                let added = sum.checked_sub(weight).map_or(0.0, |rest| ways[k - 1][rest]);
                ways[k][sum] = (1.0 - with) * ways[k][sum] + with * added;
            }
        }
    }
    ways.pop().unwrap_or_default()
}

/// Twice the smaller tail at the observed sum, at most 1.
pub(crate) fn two_sided(likely: &[f64], observed: u64) -> f64 {
    let observed = observed as usize;
    let below: f64 = likely.iter().take(observed + 1).sum();
    let above: f64 = likely.iter().skip(observed).sum();
    (2.0 * below.min(above)).min(1.0)
}

/// How strongly ties narrow the spread: the sum of t³ - t over the groups.
pub(crate) fn tie_term(groups: &[usize]) -> f64 {
    groups.iter().map(|t| *t as f64).map(|t| t * t * t - t).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_values_share_the_middle_rank() {
        let ranked = rank(&[10.0, 20.0, 10.0, 5.0, -0.0, 0.0]);
        assert_eq!(ranked.doubled, [9, 12, 9, 6, 3, 3]);
        assert_eq!(ranked.groups, [2, 1, 2, 1]);
    }

    #[test]
    fn distributions_match_hand_counts() {
        // Subsets of {1, 2, 3}: sums 0 1 2 3 3 4 5 6.
        assert_eq!(subset_sums(&[1, 2, 3]).map_or_eighths(), [1, 1, 1, 2, 1, 1, 1]);
        // Pairs of {1, 2, 3, 4}: sums 3 4 5 5 6 7.
        let pairs = choice_sums(&[1, 2, 3, 4], 2);
        let sixths: Vec<_> = pairs.iter().map(|share| (share * 6.0).round() as u32).collect();
        assert_eq!(sixths, [0, 0, 0, 1, 1, 2, 1, 1, 0, 0, 0]);
    }

    trait Eighths {
        fn map_or_eighths(self) -> Vec<u32>;
    }

    impl Eighths for Vec<f64> {
        fn map_or_eighths(self) -> Vec<u32> {
            self.iter().map(|share| (share * 8.0).round() as u32).collect()
        }
    }
}
