//! Names of figures: which an experiment has, and in what unit each is shown. Their meaning is at
//! [`record`](crate::record).

use crate::experiment::{Experiment, Load, Probe};
use crate::fault::{nearest, suggestion};
use crate::plan::HERE;
use report::Unit;
use sockdiag::State;
use std::collections::{BTreeMap, BTreeSet};

/// Of all loads together, and of each with its name before it.
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

/// With the name of a process or load behind them.
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

/// Behind the name of what is counted at each look: the mean over the load, before it, the one less the other, and right after it.
const OVER_LOOKS: [&str; 4] = ["", ".idle", ".net", ".end"];

/// What the names of shares begin with.
pub(crate) const SHARE: &str = "share.";

/// All figures of an experiment, without the processes that are named. One that ends with a dot means all that begin so:
/// kernels and programs decide what they count.
pub fn names(experiment: &Experiment, without: &[String]) -> Vec<String> {
    let mut names: Vec<String> = OF_LOADS.map(str::to_owned).into();
    names.extend(["failed.", "cores.looking", "cores_used", "stolen"].map(str::to_owned));
    for load in &experiment.loads {
        names.extend(OF_LOADS.map(|name| format!("{}.{name}", load.name())));
        // What else its program tells, by the program's own names.
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

/// Adds the shares of an experiment to the figures of a sample that they are made of.
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

/// Whether the name is one of these; otherwise what is meant, in words.
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
    // There are hundreds: told is what may appear in the place of the first word that leads nowhere.
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

/// What the figure counts, and by how much its value is multiplied to be in that unit.
pub fn unit(name: &str) -> (Unit, f64) {
    let mut words = name.split('.').rev();
    let has = |word: &str| name.split('.').any(|one| one == word);
    // What our own load tells in milliseconds besides: `client.lag_ms.p99`.
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

/// Values of the figure as a report shows them: median and spread.
pub fn shown(name: &str, values: &[f64]) -> report::Figure {
    let (unit, factor) = unit(name);
    let values: Vec<f64> = values.iter().map(|value| value * factor).collect();
    report::Figure::sampled(&values, unit)
}
