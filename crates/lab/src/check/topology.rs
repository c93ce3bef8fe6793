//! Checks hosts, processes, loads, probes and times: required parts, and parts that exclude each other.

use super::unknown;
use crate::experiment::{Client, Experiment, File, Load, NetworkKind, Probe, Process};
use crate::fault::{Fault, Path};
use crate::limits::{self, CELLS_MAX, DURATION_SECONDS_MAX, FILES_MAX, HOSTS_MAX, VALUES_MAX};
use crate::path;
use crate::plan::{HERE, Program};
use std::collections::BTreeMap;

pub(super) fn check(experiment: &Experiment, faults: &mut Vec<Fault>) {
    counts(experiment, faults);
    sweep(experiment, faults);
    hosts(experiment, faults);
    traced(experiment, faults);
    sysctls(experiment, faults);
    for (load, here) in loads(experiment) {
        faults.extend(end(load, load.program, &here.then("requests"), &here));
        faults.extend(goal(load, load.program, &here));
    }
    for (at, arm) in experiment.arms.iter().enumerate() {
        let changed = experiment.loads.iter().filter_map(|load| Some((load, *arm.clients.get(load.name())?)));
        for (load, program) in changed {
            let here = path!["arm", at, "clients", load.name()];
            if load.seconds.is_none() && load.requests.is_some() {
                faults.extend(end(load, program, &here, &here));
            }
            if !load.program.asks() && arm.url.is_none() {
                faults.extend(goal(load, program, &here));
            }
        }
    }
    for (at, process) in experiment.processes.iter().enumerate() {
        if let Some(fault) = program(process, &path!["process", at]) {
            faults.push(fault);
        }
    }
    for (name, file) in &experiment.files {
        if let File::Bytes(bytes @ (0 | limits::TOO_MANY_FILL_BYTES..)) = file {
            let fault = Fault::new(path!["files", name, "bytes"], format!("{bytes} bytes"));
            faults.push(fault.with_hint(format!("from 1 to {}", limits::FILL_BYTES_MAX)));
        }
    }
    duration(experiment, faults);
}

/// All loads and fills with their paths.
fn loads(experiment: &Experiment) -> impl Iterator<Item = (&Load, Path)> {
    let loads = experiment.loads.iter().enumerate().map(|(at, load)| (load, path!["load", at]));
    loads.chain(experiment.fills.iter().enumerate().map(|(at, fill)| (fill, path!["fill", at])))
}

/// A load needs exactly one end condition, and one that its program supports. `counted` is the path of its number of
/// requests.
fn end(load: &Load, program: Client, counted: &Path, here: &Path) -> Option<Fault> {
    match (load.seconds, load.requests) {
        (None, None) => {
            let fault = Fault::of_key(here.clone(), format!("load \"{}\" has no end", load.name()));
            Some(fault.with_hint("add `seconds` or `requests`"))
        }
        (Some(_), Some(_)) => {
            let fault = Fault::of_key(counted.clone(), "a load ends after `seconds` or after `requests`");
            Some(fault.with_hint("keep one of them"))
        }
        (None, Some(_)) if matches!(program, Client::Wrk | Client::Siege | Client::Hold | Client::Floor) => {
            let fault = Fault::of_key(counted.clone(), "this program counts seconds, not requests");
            Some(fault.with_hint("write `seconds` instead"))
        }
        _ => None,
    }
}

/// A load that sends requests needs a URL.
fn goal(load: &Load, program: Client, here: &Path) -> Option<Fault> {
    (program.asks() && load.url.is_empty()).then(|| {
        let fault = Fault::of_key(here.clone(), format!("load \"{}\" has no \"url\"", load.name()));
        fault.with_hint("add `url`: what is asked for")
    })
}

/// Checks the number of combinations of a sweep. Each combination is a run.
fn sweep(experiment: &Experiment, faults: &mut Vec<Fault>) {
    for (name, values) in &experiment.sweep {
        let here = path!["sweep", name];
        let twice = values.iter().enumerate().find(|(at, value)| values.iter().take(*at).any(|known| known == *value));
        if values.is_empty() {
            faults.push(
                Fault::new(here, format!("\"{name}\" has no value"))
                    .with_hint("one at least, such as [\"30\", \"256\"]"),
            );
        } else if let Some((at, value)) = twice {
            faults.push(Fault::new(here.then(at), format!("\"{value}\" is here twice")).with_hint("keep one of them"));
        }
    }
    let cells = experiment.cell_count();
    if cells > CELLS_MAX {
        let fault = Fault::of_key(path!["sweep"], format!("these are {cells} combinations"));
        faults.push(fault.with_hint(format!("at most {CELLS_MAX}: each is a whole run")));
    }
}

fn counts(experiment: &Experiment, faults: &mut Vec<Fault>) {
    let mut count = |path: Path, count: usize, most: usize| {
        if count > most {
            faults.push(
                Fault::of_key(path.clone(), format!("{count} times {path}")).with_hint(format!("at most {most}")),
            );
        }
    };
    count(path!["hosts"], experiment.hosts.len(), HOSTS_MAX);
    count(path!["files"], experiment.files.len(), FILES_MAX);
    count(path!["values"], experiment.values.len(), VALUES_MAX);
    for (at, arm) in experiment.arms.iter().enumerate() {
        count(path!["arm", at, "values"], arm.values.len(), VALUES_MAX);
    }
    for (name, host) in &experiment.hosts {
        count(path!["hosts", name, "sysctls"], host.sysctls.len(), VALUES_MAX);
    }
}

fn hosts(experiment: &Experiment, faults: &mut Vec<Fault>) {
    let names = || experiment.hosts.keys().map(String::as_str).chain(experiment.hosts.is_empty().then_some(HERE));
    let mut host = |host: Option<String>, path: Path, who: &str| match host {
        Some(host) if !names().any(|known| known == host) => {
            faults.push(unknown(path.then("host"), "host", &host, names()));
        }
        Some(_) => {}
        None => {
            let fault = Fault::of_key(path, format!("{who} does not say on which host it runs"));
            let names: Vec<_> = names().map(|name| format!("\"{name}\"")).collect();
            faults.push(fault.with_hint(format!("add `host`: one of {}", names.join(", "))));
        }
    };
    for (at, process) in experiment.processes.iter().enumerate() {
        let who = format!("process \"{}\"", process.name);
        host(experiment.host_of_process(process.host.as_deref()), path!["process", at], &who);
    }
    for (load, here) in loads(experiment) {
        let who = format!("load \"{}\"", load.name());
        host(experiment.host_of_load(load.host.as_deref()), here, &who);
    }
    let mut no_port = Vec::new();
    for (at, probe) in experiment.probes.iter().enumerate() {
        let (on, port) = match probe {
            Probe::Port { host, port, .. } | Probe::Queue { host, port, .. } | Probe::Bytes { host, port, .. } => {
                (host, Some(*port))
            }
            Probe::Told { host, .. } => (host, None),
            Probe::Calls { .. } => continue,
        };
        host(Some(on.clone()), path!["probe", at], "the probe");
        no_port.extend((port == Some(0)).then(|| path!["probe", at, "port"]));
    }
    let no_port =
        no_port.into_iter().map(|path| Fault::new(path, "no socket is on port 0").with_hint("from 1 to 65535"));
    faults.extend(no_port);
}

/// Checks the processes that probes trace.
fn traced(experiment: &Experiment, faults: &mut Vec<Fault>) {
    let known = || experiment.processes.iter().map(|process| process.name.as_str());
    for (at, probe) in experiment.probes.iter().enumerate() {
        if let Probe::Calls { process, .. } = probe
            && !known().any(|known| known == process)
        {
            faults.push(unknown(path!["probe", at, "process"], "process", process, known()));
        }
    }
}

/// Settings that every namespace shows but that belong to the machine: writing them would change the machine.
const GLOBAL: [&str; 5] = [
    "net.core.netdev_max_backlog",
    "net.ipv4.tcp_mem",
    "net.ipv4.tcp_max_orphans",
    "net.ipv4.udp_mem",
    "net.netfilter.nf_conntrack_max",
];

fn sysctls(experiment: &Experiment, faults: &mut Vec<Fault>) {
    let of_hosts = experiment.hosts.iter().map(|(name, host)| (path!["hosts", name, "sysctls"], name, &host.sysctls));
    let of_arms = experiment.arms.iter().enumerate();
    let of_arms = of_arms.flat_map(|(at, arm)| {
        arm.sysctls.iter().map(move |(host, sysctls)| (path!["arm", at, "sysctls", host], host, sysctls))
    });
    let mut common: BTreeMap<&str, (&str, &str)> = BTreeMap::new();
    for (path, host, sysctls) in of_hosts.clone().chain(of_arms) {
        if path.0.len() == 4 && !experiment.hosts.contains_key(host) && !(experiment.hosts.is_empty() && host == HERE) {
            let fault = unknown(path.clone(), "host", host, experiment.hosts.keys().map(String::as_str));
            faults.push(Fault { at_key: true, ..fault });
        }
        for (name, value) in sysctls {
            faults.extend(sysctl(experiment, name, value, path.then(name)));
        }
    }
    if experiment.network.kind != NetworkKind::Namespace {
        return;
    }
    for (path, host, sysctls) in of_hosts {
        for (name, value) in sysctls {
            let (first, known) = *common.entry(name.as_str()).or_insert((host.as_str(), value.as_str()));
            if known != value {
                let what = format!("one namespace cannot have {name} = {value} here and {known} on host \"{first}\"");
                faults.push(Fault::new(path.then(name), what).with_hint("write `kind = \"hosts\"` under [network]"));
            }
        }
    }
}

fn sysctl(experiment: &Experiment, name: &str, value: &str, path: Path) -> Option<Fault> {
    let is_name = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.');
    let fault = Fault::of_key(path, format!("\"{name}\" is not of a network namespace"));
    if !name.starts_with("net.") || name.contains("..") || !name.chars().all(is_name) {
        return Some(fault.with_hint("names such as `net.core.somaxconn`; others would change the whole machine"));
    }
    if GLOBAL.contains(&name) {
        return Some(fault.with_hint("the kernel has one for the whole machine, so no experiment may change it"));
    }
    if experiment.network.kind == NetworkKind::Loopback {
        let what = format!("\"{name}\" would be the machine's own on its loopback");
        let hint = "write `kind = \"hosts\"` or `kind = \"namespace\"` under [network]";
        return Some(Fault { what, ..fault }.with_hint(hint));
    }
    if value.trim().is_empty() || !value.chars().all(|c| c.is_ascii_graphic() || c == ' ') {
        let what = format!("the value of \"{name}\" is not one line of text");
        return Some(Fault { at_key: false, what, ..fault });
    }
    None
}

/// What each kind of program requires. Arms may change program and configuration, so they are checked one by one.
pub(super) fn program(process: &Process, path: &Path) -> Option<Fault> {
    let name = &process.name;
    match Program::parse(&process.program) {
        Program::Nginx | Program::Haproxy if process.conf.is_none() => {
            let fault = Fault::of_key(path.clone(), format!("process \"{name}\" has no configuration"));
            Some(fault.with_hint(format!("add `conf`: {} does not start without", process.program)))
        }
        Program::Holdfast if process.conf.is_none() && process.arguments.is_empty() => {
            let fault = Fault::of_key(path.clone(), format!("process \"{name}\" is not used"));
            Some(fault.with_hint("add `conf` for a gateway, or a subcommand as `arguments`, such as [\"origin\"]"))
        }
        Program::Go if process.arguments.is_empty() => {
            let fault = Fault::of_key(path.clone(), format!("process \"{name}\" has no source"));
            Some(
                fault
                    .with_hint("the first of its `arguments` is the file that is built, as in \"{{file:gateway.go}}\""),
            )
        }
        Program::Command(word) if word.trim().is_empty() || word.chars().any(char::is_control) => {
            Some(Fault::new(path.then("program"), "this is no command").with_hint("a path, or a name in PATH"))
        }
        _ => None,
    }
}

/// Checks the minimum length of the whole run.
fn duration(experiment: &Experiment, faults: &mut Vec<Fault>) {
    let sample = experiment.seconds_per_sample();
    let samples = f64::from(experiment.method.rounds) * experiment.arms.len() as f64 * experiment.cell_count() as f64;
    if sample * samples > DURATION_SECONDS_MAX {
        let hours = sample * samples / 3600.0;
        let what = format!("{samples} samples of {sample} s are {hours:.0} hours");
        let hint = format!("at most {} hours: fewer `rounds`, or a shorter load", DURATION_SECONDS_MAX / 3600.0);
        faults.push(Fault::new(path!["method", "rounds"], what).with_hint(hint));
    }
}
