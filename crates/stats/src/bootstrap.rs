//! Percentile bootstrap: how far a statistic moves when the rounds are drawn again from themselves. With few rounds such an
//! interval is somewhat too narrow; that is why a verdict is on `hodges_lehmann::centre_interval` and shows this beside it.

use crate::interval::Interval;
use crate::random::Random;
use crate::summary::quantile_of_sorted;

/// Enough for the second digit of a 95 % bound, and some milliseconds for the statistics here with a dozen rounds.
pub const RESAMPLES: usize = 2000;
/// A larger number counts as this one, so that a file with a huge number of resamples cannot run for hours.
pub const RESAMPLES_MAX: usize = 100_000;

/// How an interval is drawn.
#[derive(Debug)]
pub struct Resampling<'a> {
    /// In what share of experiments the interval should hold the true value, 0 to 1.
    pub confidence: f64,
    /// How often the sample is drawn again; see [`RESAMPLES`].
    pub resamples: usize,
    /// The generator of random numbers.
    pub random: &'a mut Random,
}

/// The interval of a statistic of one sample. `None` for no draws, or if the sample or a draw has no such statistic.
pub fn interval(
    sample: &[f64],
    resampling: Resampling<'_>,
    statistic: impl Fn(&[f64]) -> Option<f64>,
) -> Option<Interval> {
    two_sample_interval(sample, &[], resampling, |drawn, _| statistic(drawn))
}

/// The interval of a statistic of two samples, which are drawn apart from each other.
pub fn two_sample_interval(
    first: &[f64],
    second: &[f64],
    resampling: Resampling<'_>,
    statistic: impl Fn(&[f64], &[f64]) -> Option<f64>,
) -> Option<Interval> {
    let Resampling { confidence, resamples, random } = resampling;
    let resamples = resamples.min(RESAMPLES_MAX);
    let (mut drawn, mut drawn_too) = (first.to_vec(), second.to_vec());
    let mut found = Vec::with_capacity(resamples);
    for _ in 0..resamples {
        draw(first, &mut drawn, random);
        draw(second, &mut drawn_too, random);
        found.push(statistic(&drawn, &drawn_too).filter(|value| value.is_finite())?);
    }
    found.sort_by(f64::total_cmp);
    let tail = (1.0 - confidence) / 2.0;
    let (low, high) = (quantile_of_sorted(&found, tail)?, quantile_of_sorted(&found, 1.0 - tail)?);
    Some(Interval { low, high, confidence })
}

fn draw(from: &[f64], into: &mut [f64], random: &mut Random) {
    for place in into {
        *place = from[random.below(from.len())];
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hodges_lehmann::difference;
    use crate::summary::median;

    fn drawn(random: &mut Random, confidence: f64) -> Resampling<'_> {
        Resampling { confidence, resamples: 500, random }
    }

    #[test]
    fn same_seed_gives_the_same_interval() {
        let sample = [3.0, 1.0, 4.0, 1.5, 5.0, 9.0, 2.0];
        let of = |seed| interval(&sample, drawn(&mut Random::from_seed(seed), 0.95), median).expect("values");
        assert_eq!(of(1), of(1));
        assert!(of(1).contains(3.0) && of(1).low >= 1.0 && of(1).high <= 9.0);
    }

    #[test]
    fn about_as_many_intervals_as_promised_hold_the_true_difference() {
        let (mut random, mut held) = (Random::from_seed(5), 0);
        let experiments = 200;
        for _ in 0..experiments {
            let arm = |random: &mut Random, at: f64| (0..12).map(|_| at + random.normal()).collect::<Vec<_>>();
            let (first, second) = (arm(&mut random, 10.0), arm(&mut random, 8.0));
            let found = two_sample_interval(&first, &second, drawn(&mut random, 0.9), difference);
            held += usize::from(found.expect("values").contains(2.0));
        }
        assert!((160..=195).contains(&held), "90 % promised, {held} of {experiments} held it");
    }

    #[test]
    fn no_interval_without_samples() {
        assert_eq!(interval(&[], drawn(&mut Random::from_seed(1), 0.95), median), None);
        assert_eq!(interval(&[f64::NAN], drawn(&mut Random::from_seed(1), 0.95), median), None);
    }
}
