//! Checks names and texts: allowed characters, and no duplicate names.

use crate::experiment::{Experiment, Probe};
use crate::fault::{Fault, Path};
use crate::limits::NAME_CHARS_MAX;
use crate::path;
use std::collections::BTreeMap;

pub(super) fn check(experiment: &Experiment, faults: &mut Vec<Fault>) {
    letters(experiment, faults);
    texts(experiment, faults);
    taken(experiment, faults);
}

/// Whether a name consists of the characters allowed in figures, folders and templates.
fn is_word(name: &str) -> bool {
    let is_letter = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    name.chars().all(is_letter) && name.chars().next().is_some_and(|c| c.is_ascii_alphanumeric())
}

fn is_file_name(name: &str) -> bool {
    is_word(&name.replace('.', "-")) && !name.starts_with('.')
}

fn letters(experiment: &Experiment, faults: &mut Vec<Fault>) {
    let mut word = |name: &str, path: Path, is_key: bool| {
        if !is_word(name) || name.len() > NAME_CHARS_MAX {
            let fault = Fault { at_key: is_key, ..Fault::new(path, format!("\"{name}\" cannot be a name here")) };
            faults.push(fault.with_hint(format!("letters, digits, `-` and `_`, at most {NAME_CHARS_MAX}")));
        }
    };
    for (at, process) in experiment.processes.iter().enumerate() {
        word(&process.name, path!["process", at, "name"], false);
    }
    for (at, load) in experiment.loads.iter().enumerate() {
        word(load.name(), path!["load", at, "name"], false);
    }
    for (at, fill) in experiment.fills.iter().enumerate() {
        word(fill.name(), path!["fill", at, "name"], false);
    }
    for (at, share) in experiment.shares.iter().enumerate() {
        word(&share.name, path!["share", at, "name"], false);
    }
    for (at, probe) in experiment.probes.iter().enumerate() {
        word(name_of(probe), path!["probe", at, "name"], false);
    }
    for name in experiment.hosts.keys() {
        word(name, path!["hosts", name], true);
    }
    let values = experiment.values.keys().map(|name| (name, path!["values", name]));
    let swept = experiment.sweep.keys().map(|name| (name, path!["sweep", name]));
    let of_quick = experiment.quick.values.keys().map(|name| (name, path!["quick", "values", name]));
    let of_arms = experiment.arms.iter().enumerate();
    let of_arms =
        of_arms.flat_map(|(at, arm)| arm.values.keys().map(move |name| (name, path!["arm", at, "values", name])));
    for (name, path) in values.chain(swept).chain(of_quick).chain(of_arms) {
        word(name, path, true);
    }
    for name in experiment.files.keys().filter(|name| !is_file_name(name) || name.len() > NAME_CHARS_MAX) {
        let fault = Fault::of_key(path!["files", name], format!("\"{name}\" cannot be the name of a file here"));
        faults.push(fault.with_hint("letters, digits, `-`, `_` and `.`, not first"));
    }
    let is_small = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    let name = &experiment.name;
    if name.is_empty() || !name.chars().all(is_small) || name.starts_with('-') || name.len() > NAME_CHARS_MAX {
        let fault = Fault::new(path!["name"], format!("\"{name}\" cannot be the name of an experiment"));
        faults.push(fault.with_hint("small letters, digits and hyphens, as in `keepalive-states`"));
    }
}

fn name_of(probe: &Probe) -> &str {
    match probe {
        Probe::Port { name, .. }
        | Probe::Queue { name, .. }
        | Probe::Bytes { name, .. }
        | Probe::Calls { name, .. }
        | Probe::Told { name, .. } => name,
    }
}

/// Texts that reports, tables and the terminal show unchanged.
fn texts(experiment: &Experiment, faults: &mut Vec<Fault>) {
    let mut text = |text: &str, path: Path, one_line: bool| {
        if text.trim().is_empty() {
            faults.push(Fault::new(path.clone(), "this is empty").with_hint("people read it: say something"));
        }
        let is_shown = |c: char| !c.is_control() || (!one_line && (c == '\n' || c == '\t'));
        if !text.chars().all(is_shown) {
            faults.push(Fault::new(path, "this has control characters").with_hint("write it as plain text"));
        }
    };
    text(&experiment.title, path!["title"], true);
    text(&experiment.about, path!["about"], false);
    for (at, arm) in experiment.arms.iter().enumerate() {
        text(&arm.name, path!["arm", at, "name"], true);
    }
    for (at, claim) in experiment.claims.iter().enumerate() {
        text(&claim.says, path!["claim", at, "says"], true);
    }
}

/// Names must be unique, because figures and tables distinguish things only by name.
fn taken(experiment: &Experiment, faults: &mut Vec<Fault>) {
    let processes = experiment.processes.iter().enumerate();
    let processes = processes.map(|(at, process)| (process.name.as_str(), path!["process", at, "name"], "process"));
    let loads = experiment.loads.iter().enumerate().map(|(at, load)| (load.name(), path!["load", at, "name"], "load"));
    let fills = experiment.fills.iter().enumerate().map(|(at, fill)| (fill.name(), path!["fill", at, "name"], "fill"));
    once(processes.chain(loads).chain(fills), faults);
    let shares = experiment.shares.iter().enumerate();
    once(shares.map(|(at, share)| (share.name.as_str(), path!["share", at, "name"], "share")), faults);
    let hosts = experiment.hosts.keys().map(|name| (name.as_str(), path!["hosts", name], "host"));
    let probes = experiment.probes.iter().enumerate();
    let probes = probes.map(|(at, probe)| (name_of(probe), path!["probe", at, "name"], "probe"));
    once(hosts.chain(probes), faults);
    let arms = experiment.arms.iter().enumerate().map(|(at, arm)| (arm.name.as_str(), path!["arm", at, "name"], "arm"));
    once(arms, faults);

    let hosts = experiment.hosts.keys().map(String::as_str).chain(["folder"]);
    for host in hosts {
        let in_arm = experiment.arms.iter().enumerate().filter(|(_, arm)| arm.values.contains_key(host));
        let in_all = experiment.values.contains_key(host).then(|| path!["values", host]);
        let swept = experiment.sweep.contains_key(host).then(|| path!["sweep", host]);
        for path in in_all.into_iter().chain(swept).chain(in_arm.map(|(at, _)| path!["arm", at, "values", host])) {
            let fault =
                Fault::of_key(path, format!("a value cannot be called \"{host}\": `{{{{{host}}}}}` is something else"));
            faults.push(fault.with_hint("call it otherwise"));
        }
    }
}

fn once<'n>(names: impl Iterator<Item = (&'n str, Path, &'static str)>, faults: &mut Vec<Fault>) {
    let mut known: BTreeMap<&str, &str> = BTreeMap::new();
    for (name, path, kind) in names {
        if let Some(first) = known.insert(name, kind) {
            let what = format!("another {first} is called \"{name}\" already");
            faults.push(Fault::new(path, what).with_hint(format!("give this {kind} a `name` of its own")));
        }
    }
}
