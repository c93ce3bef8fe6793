//! Selects the samples for a claim, and explains which are left out and why.

use super::counted_word;
use crate::record::{Record, Sample, includes_lateness};
use std::fmt::Write as _;

/// Most left-out rounds that are listed one by one.
const TOLD_MAX: usize = 3;

/// Which rounds count.
pub(super) struct Counted {
    /// Rounds in which each arm has a sample.
    pub(super) taken: usize,
    /// Void rounds among them: round from 1, arm, reason.
    void: Vec<(u32, String, String)>,
    /// Rounds among them without the figure.
    pub(super) unmeasured: usize,
}

impl Counted {
    fn new() -> Self {
        Self { taken: 0, void: Vec::new(), unmeasured: 0 }
    }

    /// Number of rounds that count.
    pub(super) fn rounds(&self) -> usize {
        self.taken - self.void.len() - self.unmeasured
    }

    /// The rounds that are left out, as the end of a sentence; empty if there are none.
    pub(super) fn in_words(&self) -> String {
        let mut text = String::new();
        if !self.void.is_empty() {
            let _ = write!(text, "; {} void and left out", counted_word(self.void.len(), "round"));
            for (round, arm, reason) in self.void.iter().take(TOLD_MAX) {
                let _ = write!(text, ", {round} ({arm}: {reason})");
            }
            if self.void.len() > TOLD_MAX {
                text.push_str(", …");
            }
        }
        if self.unmeasured > 0 {
            let _ = write!(text, "; {} without the figure", counted_word(self.unmeasured, "round"));
        }
        text
    }

    /// The values of one round, one for each arm, if all samples of the round count.
    fn take(&mut self, samples: &[&Sample], figure: &str) -> Option<Vec<f64>> {
        self.taken += 1;
        let why = |sample: &Sample| {
            let late = sample.late.as_ref().filter(|_| includes_lateness(figure));
            sample.void.as_ref().or(late).cloned()
        };
        let void = samples.iter().find_map(|sample| Some((sample, why(sample)?)));
        if let Some((sample, reason)) = void {
            self.void.push((sample.round + 1, sample.arm.clone(), reason));
            return None;
        }
        let values = samples.iter().map(|sample| sample.figures.get(figure).copied().filter(|value| value.is_finite()));
        let values: Option<Vec<f64>> = values.collect();
        self.unmeasured += usize::from(values.is_none());
        values
    }
}

/// The values of both arms in the rounds that count, in the order of the rounds.
pub(super) struct Pairs {
    pub(super) first: Vec<f64>,
    pub(super) second: Vec<f64>,
    pub(super) counted: Counted,
}

impl Pairs {
    pub(super) fn of(record: &Record, figure: &str, first: &str, second: &str) -> Self {
        let mut pairs = Self { first: Vec::new(), second: Vec::new(), counted: Counted::new() };
        for round in 0..record.rounds() {
            let Some(samples) = sample(record, first, round).zip(sample(record, second, round)) else { continue };
            if let Some(values) = pairs.counted.take(&[samples.0, samples.1], figure) {
                pairs.first.extend(values.first());
                pairs.second.extend(values.get(1));
            }
        }
        pairs
    }
}

/// The values of one arm in the rounds that count.
pub(super) fn of_arm(record: &Record, figure: &str, arm: &str) -> (Vec<f64>, Counted) {
    let mut counted = Counted::new();
    let samples = (0..record.rounds()).filter_map(|round| sample(record, arm, round));
    let values = samples.filter_map(|sample| counted.take(&[sample], figure)).flatten().collect();
    (values, counted)
}

fn sample<'r>(record: &'r Record, arm: &str, round: u32) -> Option<&'r Sample> {
    record.samples.iter().find(|sample| sample.round == round && sample.arm == arm)
}
