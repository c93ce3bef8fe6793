//! Checks claims and shares: their arms and figures must exist, and their bounds must be possible.

use super::unknown;
use crate::experiment::{Claim, Experiment, Form, Share};
use crate::fault::{Fault, Path};
use crate::figure;
use crate::path;

pub(super) fn check(experiment: &Experiment, is_whole: bool, faults: &mut Vec<Fault>) {
    for (at, share) in experiment.shares.iter().enumerate().filter(|_| is_whole) {
        faults.extend(parts(experiment, share, &path!["share", at]));
    }
    for (at, claim) in experiment.claims.iter().enumerate() {
        let here = path!["claim", at];
        arms(experiment, claim, &here, is_whole, faults);
        faults.extend(of_quick(experiment, claim, &here));
        faults.extend(bounds(claim, &here));
    }
}

/// Both figures of a share must be measured in at least one arm. An arm without them has no such share.
fn parts(experiment: &Experiment, share: &Share, here: &Path) -> Option<Fault> {
    let mut names = figure::names(experiment, &[]);
    names.retain(|name| !name.starts_with(figure::SHARE));
    [("of", &share.of), ("over", &share.over)].into_iter().find_map(|(key, name)| {
        let hint = figure::check(name, &names).err()?;
        Some(Fault::new(here.then(key), format!("there is no figure \"{name}\"")).with_hint(hint))
    })
}

fn arms(experiment: &Experiment, claim: &Claim, here: &Path, is_whole: bool, faults: &mut Vec<Fault>) {
    let arms = || experiment.arms.iter().map(|arm| arm.name.as_str());
    let before = faults.len();
    for (key, name) in [("of", Some(&claim.of)), ("against", claim.against.as_ref())] {
        let Some(name) = name else { continue };
        let Some(arm) = experiment.arms.iter().find(|arm| arm.name == *name) else {
            faults.push(unknown(here.then(key), "arm", name, arms()));
            continue;
        };
        // With faults in processes or probes, the available figures are not known.
        if !is_whole || faults.len() > before {
            continue;
        }
        if let Err(hint) = figure::check(&claim.figure, &figure::names(experiment, &arm.without)) {
            let has_without = figure::check(&claim.figure, &figure::names(experiment, &[])).is_ok();
            let what = if has_without {
                format!("arm \"{name}\" does without what \"{}\" is measured of", claim.figure)
            } else {
                format!("there is no figure \"{}\"", claim.figure)
            };
            faults.push(Fault::new(here.then("figure"), what).with_hint(hint));
        }
    }
    if claim.against.as_ref() == Some(&claim.of) {
        let fault = Fault::new(here.then("against"), format!("\"{}\" is compared with itself", claim.of));
        faults.push(fault.with_hint("an arm against itself is `--control`"));
    }
}

/// A claim for the quick form must be about arms that the quick form runs.
fn of_quick(experiment: &Experiment, claim: &Claim, here: &Path) -> Option<Fault> {
    let chosen = &experiment.quick.arms;
    let is_left_out = |arm: &String| !chosen.is_empty() && !chosen.contains(arm);
    let named = [("of", Some(&claim.of)), ("against", claim.against.as_ref())];
    let (key, arm) = named.into_iter().find_map(|(key, arm)| Some((key, arm.filter(|arm| is_left_out(arm))?)))?;
    (claim.only == Some(Form::Quick)).then(|| {
        let fault = Fault::new(here.then(key), format!("`--quick` does not run \"{arm}\""));
        fault.with_hint("add it to `arms` under [quick]")
    })
}

/// Reports bounds that contradict each other or make no sense.
fn bounds(claim: &Claim, here: &Path) -> Option<Fault> {
    let kinds = [
        ("times", claim.times_at_least, claim.times_at_most),
        ("more", claim.more_at_least, claim.more_at_most),
        ("value", claim.value_at_least, claim.value_at_most),
    ];
    let mut said = kinds.iter().filter(|(_, least, most)| least.is_some() || most.is_some());
    let Some((kind, least, most)) = said.next() else {
        let fault = Fault::of_key(here.clone(), "nothing is claimed here");
        return Some(fault.with_hint("add a bound such as `times_at_least`, `more_at_most` or `value_at_least`"));
    };
    let key = |least: Option<f64>, kind: &str| format!("{kind}_at_{}", if least.is_some() { "least" } else { "most" });
    let first = key(*least, kind);
    if let Some((other, least, _)) = said.next() {
        let other = key(*least, other);
        let fault = Fault::of_key(here.then(other.as_str()), format!("one claim has `{first}` and `{other}`"));
        return Some(fault.with_hint("make two claims of it"));
    }
    if *kind == "value" && claim.against.is_some() {
        let fault = Fault::of_key(here.then("against"), format!("`{first}` looks at one arm"));
        return Some(fault.with_hint("remove `against`, or claim `times_…` or `more_…`"));
    }
    if *kind != "value" && claim.against.is_none() {
        let fault = Fault::of_key(here.clone(), format!("`{first}` compares \"{}\" with nothing", claim.of));
        return Some(fault.with_hint("add `against`, the other arm, or claim `value_…`"));
    }
    if let (Some(least), Some(most)) = (least, most)
        && least > most
    {
        let fault = Fault::new(here.then(first.as_str()), format!("nothing is at least {least} and at most {most}"));
        return Some(fault.with_hint("exchange them, or leave one out"));
    }
    if *kind == "times" && [least, most].iter().any(|bound| bound.is_some_and(|bound| bound <= 0.0)) {
        let fault = Fault::new(here.then(first.as_str()), "a ratio is above 0");
        return Some(fault.with_hint("for differences there is `more_…`"));
    }
    None
}
