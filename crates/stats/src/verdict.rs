//! The verdict over an experiment of two arms in interleaved rounds: does the second differ from the first, by how much,
//! and by how much at most. Used by the lab and by `load compare`; it knows nothing of what was measured.
//!
//! The signed-rank test over the effects of the rounds decides, since both arms of a round share the machine's conditions. Its
//! interval says how large the effect may be. A bootstrap interval and Mann and Whitney's test, which ignores the pairing, are
//! further evidence and decide nothing: if any of three tests could decide, false verdicts would be too frequent.

use crate::bootstrap::{self, Resampling};
use crate::hodges_lehmann::{VALUES_MAX, centre, centre_interval};
use crate::interval::Interval;
use crate::mann_whitney::{MannWhitney, mann_whitney};
use crate::random::Random;
use crate::rounds::{RoundsError, Scale, effects};
use crate::signed_rank::{SignedRank, signed_rank};
use crate::summary::{Summary, median};

/// With five rounds even full agreement comes by chance once in sixteen experiments.
pub const ROUNDS_MIN: usize = 6;
/// One false verdict in twenty experiments without a difference.
pub const CONFIDENCE: f64 = 0.95;

/// What is asked of the rounds.
#[derive(Debug, Clone, Copy, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct Question {
    /// Ratios or differences.
    pub scale: Scale,
    /// Smaller effects do not matter: a share for ratios (0.02 is 2 %), the values' unit for differences. 0: every one does.
    pub effect_min: f64,
    /// Of the bootstrap. Print it.
    pub seed: u64,
    /// Draws of the bootstrap; see [`bootstrap::RESAMPLES`]. 0: none, as in simulations of many experiments.
    pub resamples: usize,
}

impl Default for Question {
    fn default() -> Self {
        Self { scale: Scale::Ratio, effect_min: 0.0, seed: 1, resamples: bootstrap::RESAMPLES }
    }
}

/// Whether the second arm is above or below the first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Direction {
    /// Above the first.
    Higher,
    /// Below the first.
    Lower,
    /// These rounds do not decide.
    Undecided,
}

/// Whether the effect matters, given [`Question::effect_min`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Size {
    /// The whole interval lies beyond the bound.
    Material,
    /// The whole interval lies within the bound: the arms are as good as equal.
    Negligible,
    /// The interval crosses the bound: more rounds, or a quieter machine, would tell.
    Open,
}

/// The conclusion with its evidence.
#[derive(Debug, Clone, Copy, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct Verdict {
    /// What was asked.
    pub question: Question,
    /// Where the second arm lies.
    pub direction: Direction,
    /// Whether that matters.
    pub size: Size,
    /// The effect: second over first, or second minus first (Hodges and Lehmann over the rounds).
    pub effect: f64,
    /// The effect lies in here; it belongs to the test that decided.
    pub interval: Interval,
    /// The same by bootstrap; somewhat too narrow with few rounds. `None` if no draws were asked for.
    pub interval_bootstrap: Option<Interval>,
    /// The test that decided.
    pub signed_rank: SignedRank,
    /// The arms as two heaps of values, ignoring the rounds.
    pub mann_whitney: MannWhitney,
    /// The first arm.
    pub first: Summary,
    /// The second arm.
    pub second: Summary,
}

/// Compares the arms; their values are in the order of the rounds.
pub fn judge(first: &[f64], second: &[f64], question: Question) -> Result<Verdict, RoundsError> {
    let effects = effects(first, second, question.scale)?;
    let rounds = effects.len();
    let too_few = RoundsError::TooFew { rounds };
    if rounds < ROUNDS_MIN {
        return Err(too_few);
    }
    if rounds > VALUES_MAX {
        return Err(RoundsError::TooMany { rounds });
    }
    // From here on everything is finite and enough, so that each of these exists.
    let effect = centre(&effects).ok_or(too_few)?;
    let interval = centre_interval(&effects, CONFIDENCE).ok_or(too_few)?;
    let interval_bootstrap = bootstrap_interval(&effects, question);
    let signed_rank = signed_rank(&effects).ok_or(too_few)?;
    let decided = signed_rank.p <= 1.0 - CONFIDENCE;
    let direction = match effect {
        _ if !decided => Direction::Undecided,
        effect if effect > 0.0 => Direction::Higher,
        effect if effect < 0.0 => Direction::Lower,
        _ => Direction::Undecided,
    };
    let shown = |effect| question.scale.shown(effect);
    Ok(Verdict {
        question,
        direction,
        size: size(interval, question),
        effect: shown(effect),
        interval: interval.map(shown),
        interval_bootstrap: interval_bootstrap.map(|interval| interval.map(shown)),
        signed_rank,
        mann_whitney: mann_whitney(first, second).ok_or(too_few)?,
        first: Summary::of(first).ok_or(too_few)?,
        second: Summary::of(second).ok_or(too_few)?,
    })
}

/// Pairs of many rounds are too many to form 2,000 times over, and with that many the median is as good.
fn bootstrap_interval(effects: &[f64], question: Question) -> Option<Interval> {
    const PAIRED_MAX: usize = 60;
    let random = &mut Random::from_seed(question.seed);
    let resampling = Resampling { confidence: CONFIDENCE, resamples: question.resamples, random };
    bootstrap::interval(effects, resampling, if effects.len() <= PAIRED_MAX { centre } else { median })
}

fn size(interval: Interval, question: Question) -> Size {
    let least = question.effect_min.abs();
    // On the logarithmic scale a gain of 2 % and the loss that undoes it are equally far from zero.
    let bound = if question.scale == Scale::Ratio { least.ln_1p() } else { least };
    if interval.is_within(bound) {
        Size::Negligible
    } else if interval.low > bound || interval.high < -bound {
        Size::Material
    } else {
        Size::Open
    }
}

impl Verdict {
    /// One sentence with every number that it is on.
    pub fn explain(&self, first: &str, second: &str) -> String {
        let lies = match (self.direction, self.size) {
            (Direction::Undecided, Size::Negligible) => format!("{second} and {first} are as good as equal"),
            (Direction::Undecided, _) => format!("these rounds show no difference between {first} and {second}"),
            (Direction::Higher, _) => format!("{second} lies above {first}"),
            (Direction::Lower, _) => format!("{second} lies below {first}"),
        };
        let matters = match self.size {
            Size::Negligible if self.direction != Direction::Undecided => ", by less than matters",
            Size::Open if self.direction != Direction::Undecided && self.question.effect_min > 0.0 => {
                ", perhaps by less than matters"
            }
            _ => "",
        };
        let Interval { low, high, confidence } = self.interval;
        let (effect, low, high) = match self.question.scale {
            Scale::Ratio => (relative(self.effect), relative(low), relative(high)),
            Scale::Difference => (format!("{:+.4}", self.effect), format!("{low:+.4}"), format!("{high:+.4}")),
        };
        let (rounds, p, sure) = (self.first.n, self.signed_rank.p, confidence * 100.0);
        format!("{lies}{matters}: {effect} [{low} to {high} at {sure:.0} %], {rounds} rounds, p = {p:.2e}")
    }
}

/// `+5.0 %` near one, `× 820` far from it.
fn relative(ratio: f64) -> String {
    if (0.5..2.0).contains(&ratio) { format!("{:+.1} %", (ratio - 1.0) * 100.0) } else { format!("× {ratio:.3}") }
}
