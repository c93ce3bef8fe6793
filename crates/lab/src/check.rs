//! Whether an experiment can be run: what the shape of its file cannot tell. Names that lead nowhere, names that are taken, arms
//! that differ in nothing, claims that nothing can decide. All faults at once; pure.

mod arms;
mod claims;
mod names;
mod topology;

use crate::experiment::Experiment;
use crate::fault::{Fault, Path, suggestion};

/// Everything that is wrong with it. Of an experiment that is not whole, since its file has slips, templates and effects of arms
/// are not looked at: what is missing would be told again at each.
pub fn check(experiment: &Experiment, is_whole: bool) -> Vec<Fault> {
    let mut faults = Vec::new();
    names::check(experiment, &mut faults);
    topology::check(experiment, &mut faults);
    let is_whole = is_whole && faults.is_empty();
    arms::check(experiment, is_whole, &mut faults);
    claims::check(experiment, is_whole, &mut faults);
    faults
}

/// A name that leads nowhere.
fn unknown<'c>(path: Path, kind: &str, name: &str, known: impl Iterator<Item = &'c str> + Clone) -> Fault {
    Fault::new(path, format!("there is no {kind} \"{name}\"")).with_hint(suggestion(name, known))
}
