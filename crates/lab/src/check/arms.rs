//! Checks the arms: what they change must exist, the result must be complete, and no two arms may be the
//! same.

use super::{topology, unknown};
use crate::Adaptation;
use crate::experiment::{Arm, Experiment, Load};
use crate::fault::{Fault, Path};
use crate::limits::ARGUMENTS_MAX;
use crate::path;
use crate::plan::{Site, Staged, staged};
use crate::read::Places;

pub(super) fn check(experiment: &Experiment, is_whole: bool, faults: &mut Vec<Fault>) {
    let before = faults.len();
    for (at, arm) in experiment.arms.iter().enumerate() {
        names(experiment, arm, &path!["arm", at], faults);
    }
    let arms = || experiment.arms.iter().map(|arm| arm.name.as_str());
    for (at, name) in experiment.quick.arms.iter().enumerate() {
        if !arms().any(|known| known == name) {
            faults.push(unknown(path!["quick", "arms", at], "arm", name, arms()));
        }
    }
    if is_whole && faults.len() == before {
        whole(experiment, faults);
    }
}

fn names(experiment: &Experiment, arm: &Arm, here: &Path, faults: &mut Vec<Fault>) {
    let processes = || experiment.processes.iter().map(|process| process.name.as_str());
    let without = arm.without.iter().enumerate().map(|(at, name)| (name, here.then("without").then(at), false));
    let keyed = |key: &'static str, name| (name, here.then(key).then(name), true);
    let programs = arm.programs.keys().map(|name| keyed("programs", name));
    let confs = arm.confs.keys().map(|name| keyed("confs", name));
    let descriptors = arm.descriptors.keys().map(|name| keyed("descriptors", name));
    let arguments = arm.process_arguments.keys().map(|name| keyed("process_arguments", name));
    for (name, path, at_key) in without.chain(programs).chain(confs).chain(descriptors).chain(arguments) {
        if !processes().any(|known| known == name) {
            faults.push(Fault { at_key, ..unknown(path.clone(), "process", name, processes()) });
        } else if at_key && arm.without.contains(name) {
            let what = format!("arm \"{}\" does without \"{name}\", so nothing of it can be changed", arm.name);
            faults.push(Fault::of_key(path, what).with_hint("keep one of the two"));
        }
    }
    let loads = || experiment.loads.iter().map(Load::name);
    for name in arm.clients.keys().filter(|name| !loads().any(|known| known == name.as_str())) {
        faults.push(Fault { at_key: true, ..unknown(here.then("clients").then(name), "load", name, loads()) });
    }
    for (process, limit) in &arm.descriptors {
        if *limit < 1 || *limit > crate::limits::DESCRIPTORS_MAX {
            let fault = Fault::new(here.then("descriptors").then(process), format!("{limit} descriptors"));
            faults.push(fault.with_hint(format!("from 1 to {}", crate::limits::DESCRIPTORS_MAX)));
        }
    }
    for (process, conf) in &arm.confs {
        if !experiment.files.contains_key(conf) {
            let files = experiment.files.keys().map(String::as_str);
            faults.push(unknown(here.then("confs").then(process), "file", conf, files));
        }
    }
    for (process, arguments) in arm.process_arguments.iter().filter(|(_, arguments)| arguments.len() > ARGUMENTS_MAX) {
        let fault = Fault::new(here.then("process_arguments").then(process), format!("{} arguments", arguments.len()));
        faults.push(fault.with_hint(format!("at most {ARGUMENTS_MAX}")));
    }
    for process in experiment.processes.iter().filter(|process| arm.programs.contains_key(&process.name)) {
        let mut changed = process.clone();
        changed.program.clone_from(&arm.programs[&process.name]);
        changed.arguments.clone_from(arm.process_arguments.get(&process.name).unwrap_or(&process.arguments));
        changed.conf = arm.confs.get(&process.name).or(process.conf.as_ref()).cloned();
        if topology::program(process, here).is_none() {
            faults.extend(topology::program(&changed, here));
        }
    }
}

/// Fills in every template for each arm under each condition, and compares the resulting arms.
fn whole(experiment: &Experiment, faults: &mut Vec<Fault>) {
    for cell in experiment.cells() {
        compared(&cell, faults);
        // A fault under one condition usually occurs under all of them, so stop after the first.
        if !faults.is_empty() {
            return;
        }
    }
    let quick = experiment.adapted(&Adaptation { quick: true, ..Adaptation::default() });
    for cell in quick.iter().flat_map(Experiment::cells) {
        for arm in &cell.arms {
            filled_in(&cell, &arm.name, faults);
        }
    }
}

fn compared(experiment: &Experiment, faults: &mut Vec<Fault>) {
    let mut known: Vec<Staged> = Vec::new();
    for (at, arm) in experiment.arms.iter().enumerate() {
        let Some(mut staged) = filled_in(experiment, &arm.name, faults) else { continue };
        let name = std::mem::take(&mut staged.arm);
        staged.place.clear();
        if let Some(twin) = known.iter().position(|other| *other == staged) {
            let twin = &experiment.arms[twin].name;
            let what = format!("arm \"{name}\" is the same as \"{twin}\"");
            let hint =
                "let a template, a program, a configuration or a sysctl differ; an arm against itself is `--control`";
            faults.push(Fault::of_key(path!["arm", at], what).with_hint(hint));
        }
        known.push(staged);
    }
}

/// Reports a fault in a file that all arms share only once.
fn filled_in(experiment: &Experiment, arm: &str, faults: &mut Vec<Fault>) -> Option<Staged> {
    let (folder, places) = (std::path::Path::new("/"), Places::default());
    let site = Site { folder, network: experiment.network.kind, places: &places };
    let found = match staged(experiment, arm, site) {
        Ok(staged) => return Some(staged),
        Err(found) => found,
    };
    for fault in found {
        if !faults.iter().any(|known| (&known.path, &known.part) == (&fault.path, &fault.part)) {
            faults.push(fault);
        }
    }
    None
}
