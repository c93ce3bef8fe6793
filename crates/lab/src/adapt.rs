//! Applies command-line options to an experiment: fewer rounds, other values, some of the arms, each arm against itself.
//! The record stores the adapted experiment, so nothing about a run depends on options that are no longer known.

use crate::experiment::{Claim, Experiment, Form, Order};
use crate::fault::suggestion;
use crate::limits::ROUNDS_MAX;
use std::collections::BTreeSet;

/// Suffix of the second name of an arm in a control.
const AGAIN: &str = " (again)";

/// The changes to an experiment.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Adaptation {
    /// Whether to apply the experiment's `quick` section.
    pub quick: bool,
    /// Another number of rounds; overrides `quick`.
    pub rounds: Option<u32>,
    /// Another order.
    pub order: Option<Order>,
    /// Values that override those of the experiment and the arms, and replace a sweep. They override `quick`, too.
    pub values: Vec<(String, String)>,
    /// Run only these arms; empty for all. Overrides `quick`.
    pub arms: Vec<String>,
    /// Whether to run each arm against itself instead of testing the claims.
    pub control: bool,
}

impl Experiment {
    /// The adapted experiment. The error names an arm or value that does not exist.
    pub fn adapted(&self, how: &Adaptation) -> Result<Self, String> {
        let mut adapted = self.clone();
        if how.quick {
            adapted.make_quick(how.arms.is_empty());
        }
        let form = if how.quick { Form::Quick } else { Form::Full };
        adapted.claims.retain(|claim| claim.only.is_none_or(|only| only == form));
        if let Some(rounds) = how.rounds {
            if !(1..=ROUNDS_MAX).contains(&rounds) {
                return Err(format!("{rounds} rounds: from 1 to {ROUNDS_MAX}"));
            }
            adapted.method.rounds = rounds;
        }
        for (name, value) in &how.values {
            let of_arms = self.arms.iter().flat_map(|arm| arm.values.keys());
            let known = self.values.keys().chain(self.sweep.keys()).chain(of_arms).map(String::as_str);
            if !known.clone().any(|known| known == name) {
                let known: BTreeSet<&str> = known.collect();
                return Err(format!(
                    "{} has no value \"{name}\": {}",
                    self.name,
                    suggestion(name, known.iter().copied())
                ));
            }
            adapted.set_value(name, value);
        }
        adapted.method.order = how.order.unwrap_or(adapted.method.order);
        for name in &how.arms {
            let known = || self.arms.iter().map(|arm| arm.name.as_str());
            if !known().any(|arm| arm == name) {
                return Err(format!("{} has no arm \"{name}\": {}", self.name, suggestion(name, known())));
            }
        }
        adapted.keep_arms(&how.arms);
        if how.control {
            adapted.make_control();
        }
        Ok(adapted)
    }

    fn make_quick(&mut self, choose_arms: bool) {
        let quick = self.quick.clone();
        let method = &mut self.method;
        method.rounds = quick.rounds.unwrap_or(method.rounds);
        method.spare = quick.spare.unwrap_or(method.spare);
        method.warm_up = quick.warm_up.unwrap_or(method.warm_up);
        method.look = quick.look.unwrap_or(method.look);
        method.idle = quick.idle.unwrap_or(method.idle);
        for load in &mut self.loads {
            // A load has either seconds or requests, and keeps that kind.
            load.seconds = load.seconds.map(|seconds| quick.seconds.unwrap_or(seconds));
            load.requests = load.requests.map(|requests| quick.requests.unwrap_or(requests));
        }
        for (name, value) in quick.values {
            self.set_value(&name, &value);
        }
        if choose_arms {
            self.keep_arms(&quick.arms);
        }
    }

    /// Keeps these arms in the experiment's order. Claims about the others stay, and the report says that they were not
    /// run.
    fn keep_arms(&mut self, names: &[String]) {
        if !names.is_empty() {
            self.arms.retain(|arm| names.contains(&arm.name));
        }
    }

    /// Runs each arm twice, side by side. For each claimed figure of an arm the question is whether the arm differs from
    /// itself.
    fn make_control(&mut self) {
        let mut asked: Vec<(String, String)> = Vec::new();
        for claim in &self.claims {
            for arm in std::iter::once(&claim.of).chain(&claim.against) {
                let question = (claim.figure.clone(), arm.clone());
                if self.arms.iter().any(|known| known.name == *arm) && !asked.contains(&question) {
                    asked.push(question);
                }
            }
        }
        if asked.is_empty() {
            asked = self.arms.iter().map(|arm| ("requests_per_second".to_owned(), arm.name.clone())).collect();
        }
        let claim = |(figure, arm): (String, String)| Claim {
            says: format!("{figure} of {arm} does not differ from itself"),
            figure,
            of: format!("{arm}{AGAIN}"),
            against: Some(arm),
            observed: true,
            ..Claim::default()
        };
        self.claims = asked.into_iter().map(claim).collect();
        let twice = self.arms.drain(..).flat_map(|arm| {
            let mut again = arm.clone();
            again.name.push_str(AGAIN);
            [arm, again]
        });
        self.arms = twice.collect();
    }
}
