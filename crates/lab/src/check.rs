//! Checks what the schema cannot: unknown or duplicate names, arms that do not differ, claims that nothing can decide.
//! Reports all faults at once; pure.

mod arms;
mod claims;
mod names;
mod topology;

use crate::experiment::Experiment;
use crate::fault::{Fault, Path, suggestion};

/// All faults of an experiment. If its file had faults in its shape (`is_whole` is false), templates and the effects of
/// arms are not checked, because each missing part would be reported again there.
pub fn check(experiment: &Experiment, is_whole: bool) -> Vec<Fault> {
    let mut faults = Vec::new();
    names::check(experiment, &mut faults);
    topology::check(experiment, &mut faults);
    let is_whole = is_whole && faults.is_empty();
    arms::check(experiment, is_whole, &mut faults);
    claims::check(experiment, is_whole, &mut faults);
    faults
}

/// The fault for an unknown name.
fn unknown<'c>(path: Path, kind: &str, name: &str, known: impl Iterator<Item = &'c str> + Clone) -> Fault {
    Fault::new(path, format!("there is no {kind} \"{name}\"")).with_hint(suggestion(name, known))
}
