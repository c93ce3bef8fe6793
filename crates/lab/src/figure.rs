//! Names and units of the figures that an experiment has. [`record`](crate::record) explains their meaning.

use crate::experiment::{Experiment, Load, Probe};
use crate::fault::{nearest, suggestion};
use crate::plan::HERE;
use report::Unit;
use sockdiag::State;
use std::collections::{BTreeMap, BTreeSet};

/// Figures of all loads together, and of each load with its name as prefix.
const OF_LOADS: [&str; 10] = [
    "requests",
    "requests_per_second",
    "failed",
    "failed_share",
    "latency_ms.mean",
    "latency_ms.p50",
    "latency_ms.p90",
    "latency_ms.p99",
    "latency_ms.p99.9",
    "latency_ms.max",
];

/// Figures with the name of a process or load as suffix.
const OF_PROCESSES: [&str; 9] = [
    "cpu_us_per_request",
    "cpu_user_us_per_request",
    "cores",
    "busiest",
    "rss_mb",
    "rss_mb_max",
    "bytes_per_connection",
    "descriptors",
    "died",
];

/// Suffixes of a figure that each look counts: the mean during the load, the mean before it, the difference, and the value
/// right after it.
const OVER_LOOKS: [&str; 4] = ["", ".idle", ".net", ".end"];

/// Prefix of the names of shares.
pub(crate) const SHARE: &str = "share.";

/// All figures of an experiment, except those of the processes in `without`. A name that ends with a dot means all
/// names with that prefix, because kernels and programs decide what they count.
pub fn names(experiment: &Experiment, without: &[String]) -> Vec<String> {
    let mut names: Vec<String> = OF_LOADS.map(str::to_owned).into();
    names.extend(["failed.", "cores.looking", "cores_used", "stolen"].map(str::to_owned));
    for load in &experiment.loads {
        names.extend(OF_LOADS.map(|name| format!("{}.{name}", load.name())));
        // Further figures of the load's program, under the program's own names.
        names.push(format!("{}.", load.name()));
    }
    let processes = experiment.processes.iter().map(|process| process.name.as_str());
    let processes = processes.filter(|name| !without.iter().any(|without| without == name));
    for process in processes.chain(experiment.loads.iter().map(Load::name)) {
        names.extend(OF_PROCESSES.map(|name| format!("{name}.{process}")));
    }
    let here = [HERE.to_owned()];
    let hosts: Vec<&String> =
        if experiment.hosts.is_empty() { here.iter().collect() } else { experiment.hosts.keys().collect() };
    for host in hosts {
        add_sockets(&mut names, host);
        names.push(format!("tcp.{host}."));
        names.push(format!("ports.{host}"));
    }
    for probe in &experiment.probes {
        match probe {
            Probe::Port { name, .. } => {
                add_sockets(&mut names, name);
                names.extend(OVER_LOOKS.map(|behind| format!("closed_first.{name}{behind}")));
            }
            Probe::Queue { name, .. } => names.extend(["length", "backlog"].map(|of| format!("queue.{name}.{of}"))),
            Probe::Bytes { name, .. } => {
                names.extend(["receive", "send", "zero_windows"].map(|of| format!("bytes.{name}.{of}")));
            }
            Probe::Calls { process, .. } if without.contains(process) => {}
            Probe::Calls { name, .. } => names.push(format!("calls_per_request.{name}")),
            Probe::Told { name, .. } => names.push(format!("told.{name}.")),
        }
    }
    let is_there = |name: &String| check(name, &names).is_ok();
    let shares = experiment.shares.iter().filter(|share| is_there(&share.of) && is_there(&share.over));
    let shares: Vec<String> = shares.map(|share| format!("{SHARE}{}", share.name)).collect();
    names.extend(shares);
    names
}

/// Adds the shares of an experiment to a sample's figures.
pub(crate) fn add_shares(experiment: &Experiment, figures: &mut BTreeMap<String, f64>) {
    for share in &experiment.shares {
        let (part, whole) = (figures.get(&share.of).copied(), figures.get(&share.over).copied());
        if let (Some(part), Some(whole)) = (part, whole.filter(|whole| *whole != 0.0)) {
            figures.insert(format!("{SHARE}{}", share.name), part / whole);
        }
    }
}

fn add_sockets(names: &mut Vec<String>, of: &str) {
    let states = State::ALL.iter().map(|state| format!("sockets.{of}.{}", state.name()));
    for name in std::iter::once(format!("sockets.{of}")).chain(states) {
        names.extend(OVER_LOOKS.map(|behind| format!("{name}{behind}")));
    }
}

/// Checks that the name is one of these; otherwise the error suggests a name.
pub(crate) fn check(name: &str, names: &[String]) -> Result<(), String> {
    let is = |known: &String| {
        known == name || (known.ends_with('.') && name.len() > known.len() && name.starts_with(known.as_str()))
    };
    if names.iter().any(is) {
        return Ok(());
    }
    if let Some(near) = nearest(name, names.iter().map(String::as_str)) {
        return Err(format!("did you mean `{near}`?"));
    }
    // There are hundreds of names, so list only the words that may replace the first unknown word.
    let mut begun = String::new();
    for word in name.split('.') {
        let next = format!("{begun}{word}.");
        if !names.iter().any(|known| known.starts_with(&next)) {
            break;
        }
        begun = next;
    }
    let behind = names.iter().filter_map(|known| known.strip_prefix(begun.as_str()));
    let words: BTreeSet<&str> =
        behind.filter_map(|known| known.split('.').next()).filter(|word| !word.is_empty()).collect();
    let word = name.strip_prefix(begun.as_str()).and_then(|rest| rest.split('.').next()).unwrap_or_default();
    let hint = suggestion(word, words.iter().copied());
    Err(if begun.is_empty() { hint } else { format!("behind `{begun}`: {hint}") })
}

/// The unit of a figure, and the factor that converts its value to that unit.
pub fn unit(name: &str) -> (Unit, f64) {
    let mut words = name.split('.').rev();
    let has = |word: &str| name.split('.').any(|one| one == word);
    // Further figures of `holdfast load` in milliseconds, such as `client.lag_ms.p99`.
    if name.split('.').any(|word| word.ends_with("_ms")) {
        return (Unit::Nanoseconds, 1e6);
    }
    if has("failed") {
        return (Unit::of("requests"), 1.0);
    }
    if has("failed_share") {
        return (Unit::Percent, 100.0);
    }
    let last = words.next().unwrap_or_default();
    match name.split('.').next().unwrap_or_default() {
        "cpu_us_per_request" | "cpu_user_us_per_request" => (Unit::Nanoseconds, 1e3),
        "cores" => (Unit::of("cores"), 1.0),
        "busiest" | "ports" | "cores_used" | "share" | "stolen" => (Unit::Percent, 100.0),
        "rss_mb" | "rss_mb_max" => (Unit::of("MB"), 1.0),
        "descriptors" => (Unit::of("descriptors"), 1.0),
        "queue" => (Unit::of("connections"), 1.0),
        "calls_per_request" => (Unit::of("calls"), 1.0),
        "bytes_per_connection" => (Unit::Bytes, 1.0),
        "bytes" if last != "zero_windows" => (Unit::Bytes, 1.0),
        "sockets" | "bytes" | "closed_first" => (Unit::of("sockets"), 1.0),
        "tcp" | "told" | "died" => (Unit::of(""), 1.0),
        _ if last == "requests" => (Unit::of("requests"), 1.0),
        _ if last == "requests_per_second" => (Unit::of("requests/s"), 1.0),
        _ => (Unit::of(""), 1.0),
    }
}

/// The values of a figure as a report shows them: median and spread.
pub fn shown(name: &str, values: &[f64]) -> report::Figure {
    let (unit, factor) = unit(name);
    let values: Vec<f64> = values.iter().map(|value| value * factor).collect();
    report::Figure::sampled(&values, unit)
}
