//! Compares intervals with the bounds of claims.

use super::values::Pairs;
use crate::experiment::Claim;
use crate::figure;
use report::figure::shown;
use report::{Figure, Outcome, Unit};
use stats::Interval;
use stats::hodges_lehmann::{centre, centre_interval};
use stats::rounds::{RoundsError, Scale};
use stats::verdict::{CONFIDENCE, Direction, Question, Verdict, judge};
use std::fmt::Write as _;

/// The quantity that a claim bounds.
#[derive(Clone, Copy)]
pub(super) enum Bounded {
    /// The ratio.
    Times(Range),
    /// The difference.
    More(Range),
    /// The figure itself.
    Value(Range),
    /// No bound: the question of a control is whether the arms differ.
    None,
}

/// Lower and upper bound; either may be missing.
#[derive(Clone, Copy)]
pub(super) struct Range {
    least: Option<f64>,
    most: Option<f64>,
}

/// Whether the claim holds, with the evidence.
pub(super) struct Judgement {
    pub(super) outcome: Outcome,
    pub(super) reason: String,
    /// The effect, or what is missing.
    pub(super) brief: String,
    pub(super) evidence: Vec<(String, Figure)>,
}

pub(super) fn of(claim: &Claim) -> Bounded {
    let range =
        |least: Option<f64>, most: Option<f64>| (least.is_some() || most.is_some()).then_some(Range { least, most });
    let times = range(claim.times_at_least, claim.times_at_most).map(Bounded::Times);
    let more = || range(claim.more_at_least, claim.more_at_most).map(Bounded::More);
    let value = || range(claim.value_at_least, claim.value_at_most).map(Bounded::Value);
    times.or_else(more).or_else(value).unwrap_or(Bounded::None)
}

impl Range {
    /// Holds if the whole interval is within both bounds; fails if the whole interval is outside one of them.
    fn outcome(self, interval: Interval) -> Outcome {
        let Interval { low, high, .. } = interval;
        let lower = self.least.map(|least| {
            if low >= least {
                Outcome::Holds
            } else if high < least {
                Outcome::Fails
            } else {
                Outcome::Undecided
            }
        });
        let upper = self.most.map(|most| {
            if high <= most {
                Outcome::Holds
            } else if low > most {
                Outcome::Fails
            } else {
                Outcome::Undecided
            }
        });
        both(lower, upper)
    }

    /// Number of rounds that would decide, if the middle stays the same: an interval shrinks with the square root of the
    /// rounds. `None` if the middle is so close to a bound that no sensible number would.
    fn rounds_wanted(self, middle: f64, interval: Interval, rounds: usize) -> Option<usize> {
        /// More rounds than this take hours, in which the machine changes.
        const ROUNDS_MAX: f64 = 200.0;
        let Interval { low, high, .. } = interval;
        let bounds = [self.least, self.most].into_iter().flatten();
        let wanted = bounds.filter(|bound| (low..high).contains(bound)).map(|bound| {
            let half = if bound < middle { middle - low } else { high - middle };
            rounds as f64 * (half / (middle - bound).abs()).powi(2)
        });
        let wanted = wanted.fold(0.0, f64::max).ceil();
        (wanted > rounds as f64 && wanted <= ROUNDS_MAX).then_some(wanted as usize)
    }

    /// What would decide the claim, in a few words.
    fn missing_rounds(self, middle: f64, interval: Interval, rounds: usize) -> String {
        match self.rounds_wanted(middle, interval, rounds) {
            Some(wanted) => {
                let more = wanted - rounds;
                format!("about {more} more round{} would decide it", if more == 1 { "" } else { "s" })
            }
            None => "it is too close to the bound for more rounds to decide it".to_owned(),
        }
    }

    fn in_words(self, show: impl Fn(f64) -> String) -> String {
        let least = self.least.map(|least| format!("at least {}", show(least)));
        let most = self.most.map(|most| format!("at most {}", show(most)));
        [least, most].into_iter().flatten().collect::<Vec<_>>().join(" and ")
    }
}

/// The worse of two outcomes; a missing bound does not count.
fn both(lower: Option<Outcome>, upper: Option<Outcome>) -> Outcome {
    let outcomes = || [lower, upper].into_iter().flatten();
    [Outcome::Fails, Outcome::Undecided]
        .into_iter()
        .find(|worse| outcomes().any(|outcome| outcome == *worse))
        .unwrap_or(Outcome::Holds)
}

/// Judges a ratio or a difference.
pub(super) fn of_effect(claim: &Claim, found: &Verdict) -> Judgement {
    let (unit, factor) = match found.question.scale {
        Scale::Ratio => (Unit::Ratio, 1.0),
        Scale::Difference => figure::unit(&claim.figure),
    };
    let show = |value: f64| shown(value * factor, &unit);
    let mut missing = String::new();
    let (outcome, claimed) = match of(claim) {
        Bounded::Times(range) | Bounded::More(range) | Bounded::Value(range) => {
            let outcome = range.outcome(found.interval);
            if outcome == Outcome::Undecided {
                missing = range.missing_rounds(found.effect, found.interval, found.first.n);
            }
            (outcome, format!("claimed is {}", range.in_words(show)))
        }
        Bounded::None => match found.direction {
            Direction::Undecided => (Outcome::Holds, "as it should be, the rounds show no difference".to_owned()),
            Direction::Higher | Direction::Lower => (
                Outcome::Fails,
                "the rounds show a difference between the arm and itself; by chance that happens in 1 of 20 controls"
                    .to_owned(),
            ),
        },
    };
    let effect = interval_words(found.effect, found.interval, show);
    let reason = with_missing(format!("{effect}: {claimed}, {}", test_words(found)), &missing);
    let brief = in_brief(outcome, missing, || show(found.effect), effect);
    Judgement { outcome, reason, brief, evidence: evidence_of(found, &unit, factor) }
}

/// What is missing; or the effect, with its interval if a claim fails.
fn in_brief(outcome: Outcome, missing: String, middle: impl FnOnce() -> String, effect: String) -> String {
    match outcome {
        _ if !missing.is_empty() => missing,
        Outcome::Fails => effect,
        _ => middle(),
    }
}

fn with_missing(reason: String, missing: &str) -> String {
    if missing.is_empty() { reason } else { format!("{reason}; {missing}") }
}

/// `× 820 [800 to 840 at 95 %]`.
fn interval_words(middle: f64, interval: Interval, show: impl Fn(f64) -> String) -> String {
    let Interval { low, high, confidence } = interval;
    format!("{} [{} to {} at {:.0} %]", show(middle), show(low), show(high), confidence * 100.0)
}

fn test_words(found: &Verdict) -> String {
    format!("{} rounds, p = {:.2e}", found.first.n, found.signed_rank.p)
}

fn evidence_of(found: &Verdict, unit: &Unit, factor: f64) -> Vec<(String, Figure)> {
    let exact = |name: &str, value: f64| (name.to_owned(), Figure::exact(value * factor, unit.clone()));
    let name = if found.question.scale == Scale::Ratio { "ratio" } else { "difference" };
    let mut evidence = vec![
        exact(name, found.effect),
        exact("interval from", found.interval.low),
        exact("interval to", found.interval.high),
    ];
    if let Some(bootstrap) = found.interval_bootstrap {
        evidence.extend([exact("bootstrap from", bootstrap.low), exact("bootstrap to", bootstrap.high)]);
    }
    let plain = |name: &str, value: f64| (name.to_owned(), Figure::exact(value, Unit::of("")));
    evidence.extend([plain("p, signed rank", found.signed_rank.p), plain("p, Mann–Whitney", found.mann_whitney.p)]);
    evidence
}

/// Judges a ratio if some round has none because a value is not above zero. `of ≥ T × against` is tested in each round as
/// the difference `of − T × against`, which always exists.
pub(super) fn without_ratio(claim: &Claim, pairs: &Pairs, question: Question) -> Result<Judgement, RoundsError> {
    let question = Question { scale: Scale::Difference, ..question };
    let zeros = |values: &[f64]| values.iter().filter(|value| **value <= 0.0).count();
    let rounds = pairs.first.len();
    let why = format!(
        "there is no ratio: {} of {rounds} rounds of {} and {} of {} are not above 0",
        zeros(&pairs.first),
        claim.against.as_deref().unwrap_or_default(),
        zeros(&pairs.second),
        claim.of,
    );
    // A line about each bound would be long.
    let brief = String::new();
    let plain = judge(&pairs.first, &pairs.second, question)?;
    let Bounded::Times(range) = of(claim) else {
        let judgement = of_effect(claim, &plain);
        return Ok(Judgement {
            reason: format!("{why}, so the difference is judged: {}", judgement.reason),
            ..judgement
        });
    };
    let (unit, factor) = figure::unit(&claim.figure);
    let mut reason = why;
    let mut against = |times: Option<f64>, is_least: bool| -> Result<Option<Outcome>, RoundsError> {
        let Some(times) = times else { return Ok(None) };
        let multiplied: Vec<f64> = pairs.first.iter().map(|value| value * times).collect();
        let found = judge(&multiplied, &pairs.second, question)?;
        let range =
            if is_least { Range { least: Some(0.0), most: None } } else { Range { least: None, most: Some(0.0) } };
        let show = |value: f64| shown(value * factor, &unit);
        let claimed = if is_least { "above 0 as claimed" } else { "below 0 as claimed" };
        let _ = write!(
            reason,
            "; {} − {} × {} is {}, to be {claimed}, {}",
            claim.of,
            shown(times, &Unit::of("")),
            claim.against.as_deref().unwrap_or_default(),
            interval_words(found.effect, found.interval, show),
            test_words(&found)
        );
        // If all values are zero, a minimum ratio is neither true nor false.
        let is_nothing = is_least && pairs.first.iter().chain(&pairs.second).all(|value| *value == 0.0);
        Ok(Some(if is_nothing { Outcome::Undecided } else { range.outcome(found.interval) }))
    };
    let (lower, upper) = (against(range.least, true)?, against(range.most, false)?);
    Ok(Judgement { outcome: both(lower, upper), reason, brief, evidence: evidence_of(&plain, &unit, factor) })
}

/// Judges a figure of one arm, with the interval of the signed-rank test around the middle of its rounds.
pub(super) fn of_values(claim: &Claim, values: &[f64]) -> Result<Judgement, RoundsError> {
    let too_few = RoundsError::TooFew { rounds: values.len() };
    let (middle, interval) = centre(values).zip(centre_interval(values, CONFIDENCE)).ok_or(too_few)?;
    let (unit, factor) = figure::unit(&claim.figure);
    let show = |value: f64| shown(value * factor, &unit);
    let mut missing = String::new();
    let (outcome, claimed) = match of(claim) {
        Bounded::Value(range) | Bounded::Times(range) | Bounded::More(range) => {
            let outcome = range.outcome(interval);
            if outcome == Outcome::Undecided {
                missing = range.missing_rounds(middle, interval, values.len());
            }
            (outcome, format!("claimed is {}", range.in_words(show)))
        }
        Bounded::None => (Outcome::Undecided, "nothing is claimed of it".to_owned()),
    };
    let rounds = super::counted_word(values.len(), "round");
    let effect = interval_words(middle, interval, show);
    let reason = with_missing(format!("{effect}: {claimed}, {rounds}"), &missing);
    let brief = in_brief(outcome, missing, || show(middle), effect);
    let exact = |name: &str, value: f64| (name.to_owned(), Figure::exact(value * factor, unit.clone()));
    let evidence =
        vec![exact("middle", middle), exact("interval from", interval.low), exact("interval to", interval.high)];
    Ok(Judgement { outcome, reason, brief, evidence })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missing_rounds_follow_from_the_distance_to_the_bound() {
        let interval = Interval { low: 1.8, high: 2.2, confidence: 0.95 };
        let range = |least| Range { least: Some(least), most: None };
        // Half of the interval is twice the distance, so it takes four times the rounds.
        assert_eq!(range(1.9).rounds_wanted(2.0, interval, 6), Some(24));
        assert_eq!(range(2.1).rounds_wanted(2.0, interval, 6), Some(24), "it would fail then");
        assert_eq!(range(1.999).rounds_wanted(2.0, interval, 6), None);
        assert!(range(1.9).missing_rounds(2.0, interval, 6).contains("about 18 more rounds"));
    }
}
