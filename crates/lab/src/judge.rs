//! What a record says about the claims of its experiment. Everything follows from the record alone: judged again it says the same.
//!
//! The round is the unit. A comparison takes both arms of a round or neither, so that a void sample takes its partner with it.
//! The whole interval decides, never the middle alone: a claim holds where all of the interval keeps its bound, fails where none
//! of it does, and is undecided where the bound lies inside.

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
    /// What was claimed.
    pub claim: Claim,
    /// Whether it holds.
    pub verdict: Verdict,
    /// Whether its arms were to be run. By choice (`quick`, `--arm`) they may not be, and then nothing was asked.
    pub asked: bool,
}

/// What a run as a whole says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Conclusion {
    /// Everything that is claimed holds.
    Holds,
    /// Something that is claimed fails.
    Fails,
    /// Nothing fails, but something is undecided, void or was not run.
    Open,
}

/// All claims, in the experiment's order.
pub fn judge(record: &Record) -> Vec<Judged> {
    judge_drawn(record, RESAMPLES)
}

/// The same with this many draws of the bootstrap, whose interval is beside and decides nothing; 0 leaves it out.
pub fn judge_drawn(record: &Record, resamples: usize) -> Vec<Judged> {
    let claims = record.experiment.claims.iter();
    let judged = |claim: &Claim| Judged {
        claim: claim.clone(),
        verdict: verdict(record, claim, resamples),
        asked: missing(record, claim).is_none(),
    };
    claims.map(judged).collect()
}

/// The first of its arms that was not to be run.
fn missing<'c>(record: &Record, claim: &'c Claim) -> Option<&'c String> {
    let is_known = |name: &String| record.experiment.arms.iter().any(|arm| arm.name == *name);
    std::iter::once(&claim.of).chain(&claim.against).find(|name| !is_known(name))
}

/// What the claims come to. What is merely shown or was not asked does not count, nor do the questions of a control: one in twenty of those is
/// answered wrongly by design.
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

/// Whether something that is claimed has too few rounds only because samples were void: another round would help. Values play no
/// part in it, so that a run cannot go on until a claim holds.
pub fn lacks_rounds(record: &Record) -> bool {
    let lacks = |judged: &Judged| judged.verdict.outcome == Outcome::Void && !judged.claim.observed;
    judge_drawn(record, 0).iter().any(lacks)
}

/// Draws of the bootstrap that is beside; see [`stats::bootstrap`].
const RESAMPLES: usize = stats::bootstrap::RESAMPLES;

fn verdict(record: &Record, claim: &Claim, resamples: usize) -> Verdict {
    let said = |outcome, reason: String| Verdict { claim: claim.says.clone(), outcome, reason, evidence: Vec::new() };
    for arm in std::iter::once(&claim.of).chain(&claim.against) {
        if let Some((_, reason)) = record.absent.iter().find(|(absent, _)| absent == arm) {
            return said(Outcome::Undecided, format!("arm {arm} could not be run: {reason}"));
        }
    }
    if let Some(arm) = missing(record, claim) {
        return said(Outcome::Undecided, format!("arm {arm} was not part of this run"));
    }
    match &claim.against {
        Some(against) => compared(record, claim, against, resamples),
        None => valued(record, claim),
    }
}

/// One arm against another, round by round.
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

/// A figure of one arm by itself.
fn valued(record: &Record, claim: &Claim) -> Verdict {
    let (values, counted) = values::of_arm(record, &claim.figure, &claim.of);
    let evidence = vec![(claim.of.clone(), figure::shown(&claim.figure, &values))];
    if counted.rounds() < ROUNDS_MIN {
        return too_few(record, claim, &counted, evidence);
    }
    finished(claim, &counted, evidence, bounds::of_values(claim, &values))
}

/// What is missing for a verdict, and whether that was asked for.
fn too_few(record: &Record, claim: &Claim, counted: &Counted, evidence: Vec<(String, Figure)>) -> Verdict {
    let rounds = counted.rounds();
    let (outcome, what) = if counted.taken > 0 && counted.unmeasured == counted.taken {
        (Outcome::Undecided, format!("no sample has the figure {}", claim.figure))
    } else if counted.taken < ROUNDS_MIN {
        let rounds = counted_word(rounds, "round");
        let missing = counted_word(ROUNDS_MIN - counted.taken, "more round");
        (Outcome::Undecided, format!("{rounds}, and no verdict below {ROUNDS_MIN}: {missing} needed"))
    } else {
        (
            Outcome::Void,
            format!(
                "only {rounds} of {} count, and no verdict below {ROUNDS_MIN}",
                counted_word(counted.taken, "round")
            ),
        )
    };
    let partial = match &record.partial {
        Some(reason) => format!("; the run is partial: {reason}"),
        None => String::new(),
    };
    let reason = format!("{what}{}{partial}", counted.in_words());
    Verdict { claim: claim.says.clone(), outcome, reason, evidence }
}

fn finished(
    claim: &Claim,
    counted: &Counted,
    mut evidence: Vec<(String, Figure)>,
    bounded: Result<Judgement, RoundsError>,
) -> Verdict {
    let (outcome, reason) = match bounded {
        Ok(judgement) => {
            evidence.extend(judgement.evidence);
            (judgement.outcome, judgement.reason)
        }
        Err(error) => (Outcome::Undecided, error.to_string()),
    };
    let rounds = Figure::exact(counted.rounds() as f64, Unit::of("rounds"));
    evidence.push(("rounds that count".to_owned(), rounds));
    Verdict { claim: claim.says.clone(), outcome, reason: format!("{reason}{}", counted.in_words()), evidence }
}

/// `1 round`, `8 rounds`.
pub fn counted_word(count: usize, word: &str) -> String {
    format!("{count} {word}{}", if count == 1 { "" } else { "s" })
}
