//! Judges the claims of an experiment from its record. The verdicts depend only on the record, so judging it again gives
//! the same result.
//!
//! The unit is the round. A comparison uses both arms of a round or neither, so a void sample also drops its partner. The
//! whole interval decides, never only its middle: a claim holds if the whole interval is within the bound, fails if the
//! whole interval is outside, and is undecided if the bound lies inside.

mod bounds;
mod values;

use crate::experiment::Claim;
use crate::figure;
use crate::record::Record;
use bounds::{Bounded, Judgement};
use report::{Figure, Outcome, Unit, Verdict};
use stats::rounds::{RoundsError, Scale};
use stats::verdict::{Question, ROUNDS_MIN};
use values::{Counted, Pairs};

/// A claim with its verdict.
#[derive(Debug, Clone, PartialEq)]
pub struct Judged {
    /// The claim.
    pub claim: Claim,
    /// The verdict on it.
    pub verdict: Verdict,
    /// Whether its arms were selected to run. With `quick` or `--arm` they may not be, and then the claim was not tested.
    pub asked: bool,
}

/// The conclusion of a whole run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Conclusion {
    /// All claims hold.
    Holds,
    /// At least one claim fails.
    Fails,
    /// No claim fails, but at least one is undecided, void or was not run.
    Open,
}

/// Judges all claims, in the experiment's order.
pub fn judge(record: &Record) -> Vec<Judged> {
    judge_drawn(record, RESAMPLES)
}

/// The same with this many bootstrap samples. The bootstrap interval is shown but decides nothing; 0 omits it.
pub fn judge_drawn(record: &Record, resamples: usize) -> Vec<Judged> {
    let claims = record.experiment.claims.iter();
    let judged = |claim: &Claim| Judged {
        claim: claim.clone(),
        verdict: verdict(record, claim, resamples),
        asked: missing(record, claim).is_none(),
    };
    claims.map(judged).collect()
}

/// The first arm of a claim that was not selected to run.
fn missing<'c>(record: &Record, claim: &'c Claim) -> Option<&'c String> {
    let is_known = |name: &String| record.experiment.arms.iter().any(|arm| arm.name == *name);
    std::iter::once(&claim.of).chain(&claim.against).find(|name| !is_known(name))
}

/// The conclusion from all verdicts. It ignores claims that are only shown or were not tested, and those of a control, of
/// which one in twenty is answered wrongly by design.
pub fn conclude(judged: &[Judged]) -> Conclusion {
    let counts = |judged: &&Judged| judged.asked && !judged.claim.observed;
    let counted = || judged.iter().filter(counts).map(|judged| judged.verdict.outcome);
    if counted().any(|outcome| outcome == Outcome::Fails) {
        Conclusion::Fails
    } else if counted().any(|outcome| outcome != Outcome::Holds) {
        Conclusion::Open
    } else {
        Conclusion::Holds
    }
}

/// Whether a claim has too few rounds only because samples were void, so that another round would help. Measured values are
/// not considered, so a run cannot continue until a claim holds.
pub fn lacks_rounds(record: &Record) -> bool {
    let lacks = |judged: &Judged| judged.verdict.outcome == Outcome::Void && !judged.claim.observed;
    judge_drawn(record, 0).iter().any(lacks)
}

/// Number of bootstrap samples; see [`stats::bootstrap`].
const RESAMPLES: usize = stats::bootstrap::RESAMPLES;

fn verdict(record: &Record, claim: &Claim, resamples: usize) -> Verdict {
    let said = |outcome, reason: String, brief: String| {
        let (claim, evidence) = (claim.says.clone(), Vec::new());
        Verdict { claim, outcome, reason, brief, evidence }
    };
    for arm in std::iter::once(&claim.of).chain(&claim.against) {
        if let Some((_, reason)) = record.absent.iter().find(|(absent, _)| absent == arm) {
            let brief = format!("arm {arm} could not be run");
            return said(Outcome::Undecided, format!("{brief}: {reason}"), brief);
        }
    }
    if let Some(arm) = missing(record, claim) {
        let reason = format!("arm {arm} was not part of this run");
        return said(Outcome::Undecided, reason.clone(), reason);
    }
    match &claim.against {
        Some(against) => compared(record, claim, against, resamples),
        None => valued(record, claim),
    }
}

/// Compares one arm with another, round by round.
fn compared(record: &Record, claim: &Claim, against: &str, resamples: usize) -> Verdict {
    let pairs = Pairs::of(record, &claim.figure, against, &claim.of);
    let evidence = vec![
        (claim.of.clone(), figure::shown(&claim.figure, &pairs.second)),
        (against.to_owned(), figure::shown(&claim.figure, &pairs.first)),
    ];
    if pairs.counted.rounds() < ROUNDS_MIN {
        return too_few(record, claim, &pairs.counted, evidence);
    }
    let question = Question { seed: record.seed, resamples, ..Question::default() };
    let bounded = match bounds::of(claim) {
        Bounded::Times { .. } | Bounded::None => match stats::verdict::judge(&pairs.first, &pairs.second, question) {
            Err(RoundsError::NotPositive { .. }) => bounds::without_ratio(claim, &pairs, question),
            other => other.map(|found| bounds::of_effect(claim, &found)),
        },
        Bounded::More { .. } | Bounded::Value { .. } => {
            let question = Question { scale: Scale::Difference, ..question };
            stats::verdict::judge(&pairs.first, &pairs.second, question).map(|found| bounds::of_effect(claim, &found))
        }
    };
    finished(claim, &pairs.counted, evidence, bounded)
}

/// Judges a figure of a single arm.
fn valued(record: &Record, claim: &Claim) -> Verdict {
    let (values, counted) = values::of_arm(record, &claim.figure, &claim.of);
    let evidence = vec![(claim.of.clone(), figure::shown(&claim.figure, &values))];
    if counted.rounds() < ROUNDS_MIN {
        return too_few(record, claim, &counted, evidence);
    }
    finished(claim, &counted, evidence, bounds::of_values(claim, &values))
}

/// The verdict if there are too few rounds, and what is missing.
fn too_few(record: &Record, claim: &Claim, counted: &Counted, evidence: Vec<(String, Figure)>) -> Verdict {
    let rounds = counted.rounds();
    let (outcome, what, brief) = if counted.taken > 0 && counted.unmeasured == counted.taken {
        let what = format!("no sample has the figure {}", claim.figure);
        (Outcome::Undecided, what.clone(), what)
    } else if counted.taken < ROUNDS_MIN {
        let rounds = counted_word(rounds, "round");
        let missing = counted_word(ROUNDS_MIN - counted.taken, "more round");
        let what = format!("{rounds}, and no verdict below {ROUNDS_MIN}: {missing} needed");
        (Outcome::Undecided, what, format!("{missing} needed"))
    } else {
        (
            Outcome::Void,
            format!(
                "only {rounds} of {} count, and no verdict below {ROUNDS_MIN}",
                counted_word(counted.taken, "round")
            ),
            format!("{rounds} of {} count", counted_word(counted.taken, "round")),
        )
    };
    let partial = match &record.partial {
        Some(reason) => format!("; the run is partial: {reason}"),
        None => String::new(),
    };
    let reason = format!("{what}{}{partial}", counted.in_words());
    Verdict { claim: claim.says.clone(), outcome, reason, brief, evidence }
}

fn finished(
    claim: &Claim,
    counted: &Counted,
    mut evidence: Vec<(String, Figure)>,
    bounded: Result<Judgement, RoundsError>,
) -> Verdict {
    let (outcome, reason, brief) = match bounded {
        Ok(judgement) => {
            evidence.extend(judgement.evidence);
            (judgement.outcome, judgement.reason, judgement.brief)
        }
        Err(error) => (Outcome::Undecided, error.to_string(), error.to_string()),
    };
    let rounds = Figure::exact(counted.rounds() as f64, Unit::of("rounds"));
    evidence.push(("rounds that count".to_owned(), rounds));
    Verdict { claim: claim.says.clone(), outcome, reason: format!("{reason}{}", counted.in_words()), brief, evidence }
}

/// `1 round`, `8 rounds`.
pub fn counted_word(count: usize, word: &str) -> String {
    format!("{count} {word}{}", if count == 1 { "" } else { "s" })
}
