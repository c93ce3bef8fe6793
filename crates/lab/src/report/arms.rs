//! A record sorted by arm: the samples that count, those that do not, and figures over the rounds. All parts of the report
//! and other reports of a record use it.

use crate::figure;
use crate::stage::bottleneck::{CORES_FULL, NEVER_IDLE};
use crate::{Record, Sample};
use report::{Cell, Figure, Unit};
use std::collections::{BTreeMap, BTreeSet};

/// One arm with its samples, in the order of the rounds.
pub struct Arm<'a> {
    /// The name in the experiment.
    pub name: &'a str,
    /// The samples that count.
    pub samples: Vec<&'a Sample>,
    /// The rounds of void samples, from 0, with the reason.
    pub void: Vec<(u32, &'a str)>,
}

/// All arms with samples, in the experiment's order.
pub struct Arms<'a> {
    pub(super) record: &'a Record,
    arms: Vec<Arm<'a>>,
}

impl<'a> Arms<'a> {
    /// Sorts the samples of a record.
    pub fn of(record: &'a Record) -> Self {
        let arms = record.experiment.arms.iter().map(|arm| {
            let of_arm = || record.samples.iter().filter(|sample| sample.arm == arm.name);
            let mut samples: Vec<&Sample> = of_arm().filter(|sample| sample.void.is_none()).collect();
            samples.sort_by_key(|sample| sample.round);
            let void = of_arm().filter_map(|sample| Some((sample.round, sample.void.as_deref()?))).collect();
            Arm { name: &arm.name, samples, void }
        });
        let arms = arms.filter(|arm: &Arm<'_>| !arm.samples.is_empty() || !arm.void.is_empty()).collect();
        Self { record, arms }
    }

    /// In the experiment's order.
    pub fn iter(&self) -> impl Iterator<Item = &Arm<'a>> {
        self.arms.iter()
    }

    /// The same as a slice.
    pub fn as_slice(&self) -> &[Arm<'a>] {
        &self.arms
    }

    /// Names of all figures in any sample that counts.
    pub(super) fn figure_names(&self) -> BTreeSet<&'a str> {
        self.arms
            .iter()
            .flat_map(|arm| &arm.samples)
            .flat_map(|sample| sample.figures.keys().map(String::as_str))
            .collect()
    }

    /// The distinct suffixes of figure names with this prefix, for example the processes of `cores.`.
    pub(super) fn named(&self, prefix: &str) -> Vec<&'a str> {
        self.figure_names().into_iter().filter_map(|name| name.strip_prefix(prefix)).collect()
    }

    /// Processes and loads in the experiment's order, with the loads first, as a request passes them.
    pub fn processes(&self) -> Vec<&'a str> {
        let experiment = &self.record.experiment;
        let loads = experiment.loads.iter().map(crate::experiment::Load::name);
        let processes = experiment.processes.iter().rev().map(|process| process.name.as_str());
        let mut names: Vec<&str> = Vec::new();
        for name in loads.chain(processes) {
            if !names.contains(&name) {
                names.push(name);
            }
        }
        names
    }

    /// Whether this figure is not zero in any sample of any arm.
    pub(super) fn has(&self, name: &str) -> bool {
        self.arms.iter().any(|arm| arm.values(name).iter().any(|value| *value != 0.0))
    }
}

impl<'a> Arm<'a> {
    /// The values of the figure in the rounds that have it.
    pub fn values(&self, name: &str) -> Vec<f64> {
        self.samples.iter().filter_map(|sample| sample.figures.get(name).copied()).collect()
    }

    /// The figure divided by that of another arm, in each round that both have; 1 means that they are equal.
    pub fn over(&self, other: &Self, name: &str) -> Vec<f64> {
        let of = |sample: &Sample| sample.figures.get(name).copied();
        let ratios = self.samples.iter().filter_map(|sample| {
            let same = other.samples.iter().find(|known| known.round == sample.round)?;
            let (value, base) = (of(sample)?, of(same)?);
            (base > 0.0).then_some(value / base)
        });
        ratios.collect()
    }

    /// Which processes were the bottleneck, and in how many samples; `cores` if each was idle at times but the cores were
    /// not. `None` if there was none, or no look.
    pub fn bottleneck(&self) -> Option<String> {
        let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
        for sample in &self.samples {
            let busy = sample.figures.iter().filter(|(_, share)| **share >= NEVER_IDLE);
            for process in busy.filter_map(|(name, _)| name.strip_prefix("busiest.")) {
                *counts.entry(process).or_default() += 1;
            }
        }
        let mut counts: Vec<_> = counts.into_iter().collect();
        counts.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
        let all = self.samples.len();
        let words = counts.into_iter().map(|(process, count)| match count {
            count if count == all => process.to_owned(),
            count => format!("{process} in {count} of {all}"),
        });
        let words: Vec<String> = words.collect();
        if words.is_empty() {
            let is_full = self.median("cores_used").is_some_and(|used| used >= CORES_FULL);
            return is_full.then(|| "cores".to_owned());
        }
        Some(words.join(", "))
    }

    /// Median and spread over the rounds; a dash if no sample has the figure. A unit that is a word belongs in the heading,
    /// because three times in each cell it would hide the numbers.
    pub(super) fn cell(&self, name: &str) -> Cell {
        let values = self.values(name);
        if values.is_empty() {
            return "–".into();
        }
        let (unit, factor) = figure::unit(name);
        let unit = if matches!(unit, Unit::Of(_)) { Unit::of("") } else { unit };
        let values: Vec<f64> = values.into_iter().map(|value| value * factor).collect();
        // All rounds have the same value, so there is no spread.
        match values.split_first() {
            Some((first, rest)) if !rest.is_empty() && rest.iter().all(|value| value.total_cmp(first).is_eq()) => {
                Figure::exact(*first, unit).into()
            }
            _ => Figure::sampled(&values, unit).into(),
        }
    }

    /// The median over the rounds.
    pub fn median(&self, name: &str) -> Option<f64> {
        stats::Summary::of(&self.values(name)).map(|summary| summary.median)
    }

    /// The round that represents the arm in charts over time: the one with the median throughput, or the middle one.
    pub(super) fn typical(&self) -> Option<&'a Sample> {
        let mut samples = self.samples.clone();
        let rate = |sample: &Sample| sample.figures.get("requests_per_second").copied().unwrap_or_default();
        samples.sort_by(|a, b| rate(a).total_cmp(&rate(b)).then(a.round.cmp(&b.round)));
        samples.get(samples.len() / 2).copied()
    }
}
