//! Whether an experiment can be run: what the shape of its file cannot tell. Names that lead nowhere, names that are taken, arms
//! that differ in nothing, claims that nothing can decide. All faults at once; pure.

mod arms;
mod claims;
mod names;
mod topology;

use crate::experiment::Experiment;
use crate::fault::{Fault, Path, suggestion};

/// Everything that is wrong with it.
pub fn check(experiment: &Experiment) -> Vec<Fault> {
    let mut faults = Vec::new();
    names::check(experiment, &mut faults);
    topology::check(experiment, &mut faults);
    // Templates and effects of arms mean something only where names lead somewhere.
    let names_lead = faults.is_empty();
    arms::check(experiment, names_lead, &mut faults);
    claims::check(experiment, &mut faults);
    faults
}

/// A name that leads nowhere.
fn unknown<'c>(path: Path, kind: &str, name: &str, known: impl Iterator<Item = &'c str> + Clone) -> Fault {
    Fault::new(path, format!("there is no {kind} \"{name}\"")).with_hint(suggestion(name, known))
}
