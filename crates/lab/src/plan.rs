//! Resolves an experiment for one arm: every process and load with its host, folder, files, arguments and limits, and all
//! templates filled in. Plain values in, plain values out; `stage` starts the result.

mod fill;

use crate::experiment::{Arm, Client, Experiment, Host, Load, NetworkKind, Probe, Ready};
use crate::fault::{Fault, Path as FaultPath, suggestion};
use crate::path;
use crate::read::Places;
use fill::{Owner, Scope};
use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};

/// The host of everything if the experiment names none.
pub const HERE: &str = "here";
/// The host that loads run on, if it exists; also the default name of a load.
pub const CLIENT: &str = "client";

/// One arm, ready to start.
#[derive(Debug, Clone, PartialEq)]
pub struct Staged {
    /// The arm's name.
    pub arm: String,
    /// `experiment.toml:14:1`, for errors about the whole arm.
    pub place: String,
    /// How the hosts are connected on this site, which may differ from the experiment.
    pub network: NetworkKind,
    /// Hosts in the order of their names, which is also the order of their addresses.
    pub hosts: Vec<StagedHost>,
    /// Processes in the order of their start, without those that the arm omits.
    pub processes: Vec<StagedProcess>,
    /// Loads that run one after the other before the measurement.
    pub fills: Vec<StagedLoad>,
    /// Loads that run at the same time.
    pub loads: Vec<StagedLoad>,
    /// Probes, with their URLs filled in.
    pub probes: Vec<Probe>,
}

/// A host with its addresses.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StagedHost {
    /// The name in the experiment.
    pub name: String,
    /// At least one. With [`NetworkKind::Hosts`] in 10.77.0.0/16, otherwise in 127.0.0.0/8.
    pub addresses: Vec<Ipv4Addr>,
    /// The host's sysctls, overridden by those of the arm: dotted name and value.
    pub sysctls: BTreeMap<String, String>,
}

/// A process to start.
#[derive(Debug, Clone, PartialEq)]
pub struct StagedProcess {
    /// The name in claims and tables.
    pub name: String,
    /// Its place in the experiment: `experiment.toml:14:1`.
    pub place: String,
    /// The name of its host.
    pub host: String,
    /// The program to start.
    pub program: Program,
    /// Its folder, which is emptied before the start and which it may write to.
    pub folder: PathBuf,
    /// Files to write into the folder before the start.
    pub files: Vec<StagedFile>,
    /// The path of its configuration, one of the files.
    pub conf: Option<PathBuf>,
    /// Arguments after those that the program always gets.
    pub arguments: Vec<String>,
    /// The readiness check, with its text filled in.
    pub ready: Option<Ready>,
    /// `RLIMIT_NOFILE`, soft and hard.
    pub descriptors: Option<u64>,
    /// The core it is pinned to, modulo the number of cores.
    pub core: Option<usize>,
    /// Whether the run continues when it ends.
    pub may_die: bool,
}

/// The program of a process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Program {
    /// nginx in the foreground, with the configuration, and its folder as prefix.
    Nginx,
    /// HAProxy in the foreground, with the configuration.
    Haproxy,
    /// Holdfast: with a configuration it is started like nginx; without one the arguments are a subcommand.
    Holdfast,
    /// A Go program that is built from its first argument, a file or a folder.
    Go,
    /// A path, or a name that is searched in PATH.
    Command(String),
}

impl Program {
    /// The program for a word of the experiment file.
    pub fn parse(word: &str) -> Self {
        match word {
            "nginx" => Self::Nginx,
            "haproxy" => Self::Haproxy,
            "holdfast" => Self::Holdfast,
            "go" => Self::Go,
            command => Self::Command(command.to_owned()),
        }
    }
}

/// A load to run.
#[derive(Debug, Clone, PartialEq)]
pub struct StagedLoad {
    /// The name in claims and tables.
    pub name: String,
    /// Its place in the experiment: `experiment.toml:14:1`.
    pub place: String,
    /// The name of its host.
    pub host: String,
    /// The load generator.
    pub program: Client,
    /// Its folder.
    pub folder: PathBuf,
    /// Files to write into the folder before the start.
    pub files: Vec<StagedFile>,
    /// The URL to request; empty if it sends nothing.
    pub url: String,
    /// Arguments in the program's own syntax.
    pub arguments: Vec<String>,
    /// The length of the load.
    pub amount: Amount,
    /// `RLIMIT_NOFILE`, soft and hard.
    pub descriptors: Option<u64>,
    /// The core it is pinned to, modulo the number of cores.
    pub core: Option<usize>,
    /// Whether the sample stays valid if this load was the bottleneck.
    pub may_limit: bool,
}

/// The length of a load.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Amount {
    /// This many seconds.
    Seconds(f64),
    /// This many requests.
    Requests(u64),
}

/// A file to write.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StagedFile {
    /// Its path, in the folder of the process that reads it.
    pub path: PathBuf,
    /// Its content.
    pub content: Content,
}

/// The content of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Content {
    /// Text.
    Text(String),
    /// This many bytes of `x`.
    Fill(u64),
}

/// Where a sample runs.
#[derive(Debug, Clone, Copy)]
pub struct Site<'a> {
    /// The folder of the sample, absolute. Each process and load has a subfolder with its name.
    pub folder: &'a Path,
    /// The available kind of network; it differs from the experiment's where namespaces are not possible.
    pub network: NetworkKind,
    /// The places of the experiment's parts in its file.
    pub places: &'a Places,
}

/// The addresses of the host with this number, from 0, in the order of the hosts' names.
pub fn addresses(network: NetworkKind, host: usize, count: u32) -> Vec<Ipv4Addr> {
    let host = host.min(crate::limits::HOSTS_MAX) as u8;
    let count = count.clamp(1, crate::limits::ADDRESSES_MAX) as u8;
    let address = |number| match network {
        // Some programs treat a last byte of 0 or 255 specially; the switch has 10.77.255.254.
        NetworkKind::Hosts => Ipv4Addr::new(10, 77, host, number),
        // The first address is 127.0.0.1, the default of programs that are given only a port.
        NetworkKind::Namespace => Ipv4Addr::new(127, 0, host, number),
        // Away from other services on the machine's loopback.
        NetworkKind::Loopback => Ipv4Addr::new(127, 77, host, number),
    };
    (1..=count).map(address).collect()
}

/// Applies the arm to the experiment and fills in all templates. Returns all faults at once; a checked experiment has none
/// for any of its arms.
pub fn staged(experiment: &Experiment, arm: &str, site: Site<'_>) -> Result<Staged, Vec<Fault>> {
    let Some((index, arm)) = experiment.arms.iter().enumerate().find(|(_, known)| known.name == arm) else {
        let hint = suggestion(arm, experiment.arms.iter().map(|arm| arm.name.as_str()));
        return Err(vec![Fault::new(path!["arm"], format!("there is no arm \"{arm}\"")).with_hint(hint)]);
    };
    let hosts = hosts(experiment, arm, site.network);
    let mut scope = Scope::new(experiment, index, &hosts);
    let mut processes = Vec::new();
    for at in 0..experiment.processes.len() {
        processes.extend(process(experiment, arm, at, site, &mut scope));
    }
    let fills = experiment.fills.iter().enumerate();
    // An arm's additional arguments are for the program of the loads; fills may have another program.
    let fills = fills.map(|(at, fill)| load(experiment, fill, &path!["fill", at], &[], site, &mut scope)).collect();
    let loads = experiment.loads.iter().enumerate();
    let loads =
        loads.map(|(at, one)| load(experiment, one, &path!["load", at], &arm.arguments, site, &mut scope)).collect();
    let probes =
        experiment.probes.iter().enumerate().map(|(at, probe)| with_full_url(probe, at, site, &mut scope)).collect();
    let faults = scope.into_faults();
    if !faults.is_empty() {
        return Err(faults);
    }
    let place = site.places.of(&path!["arm", index]);
    Ok(Staged { arm: arm.name.clone(), place, network: site.network, hosts, processes, fills, loads, probes })
}

/// All hosts; only `here` if the experiment names none.
fn hosts(experiment: &Experiment, arm: &Arm, network: NetworkKind) -> Vec<StagedHost> {
    let here = BTreeMap::from([(HERE.to_owned(), Host::default())]);
    let named = if experiment.hosts.is_empty() { &here } else { &experiment.hosts };
    let staged = named.iter().enumerate().map(|(number, (name, host))| {
        let mut sysctls = host.sysctls.clone();
        sysctls.extend(arm.sysctls.get(name).cloned().unwrap_or_default());
        StagedHost { name: name.clone(), addresses: addresses(network, number, host.addresses.unwrap_or(1)), sysctls }
    });
    staged.collect()
}

impl Experiment {
    /// The minimum length of a sample: idle time, warm-up, and the longest load. Loads with a number of requests are not
    /// included.
    pub fn seconds_per_sample(&self) -> f64 {
        let load = self.loads.iter().filter_map(|load| load.seconds).fold(0.0, f64::max);
        load + self.method.warm_up + self.method.idle
    }

    /// The host of a process: the one it names, or the only one. `None` if there is neither.
    pub fn host_of_process(&self, host: Option<&str>) -> Option<String> {
        match host {
            Some(host) => Some(host.to_owned()),
            None if self.hosts.is_empty() => Some(HERE.to_owned()),
            None if self.hosts.len() == 1 => self.hosts.keys().next().cloned(),
            None => None,
        }
    }

    /// The host of a load: the one it names, `client` if it exists, or the only one. `None` if there is none of these.
    pub fn host_of_load(&self, host: Option<&str>) -> Option<String> {
        match host {
            None if self.hosts.contains_key(CLIENT) => Some(CLIENT.to_owned()),
            other => self.host_of_process(other),
        }
    }
}

/// `None` if the arm omits the process, or if it has no host, which the check reports.
fn process(
    experiment: &Experiment,
    arm: &Arm,
    at: usize,
    site: Site<'_>,
    scope: &mut Scope<'_>,
) -> Option<StagedProcess> {
    let process = experiment.processes.get(at).filter(|process| !arm.without.contains(&process.name))?;
    let here = path!["process", at];
    let mut owner = Owner::new(site.folder.join(&process.name));
    let conf = match (arm.confs.get(&process.name), &process.conf) {
        (Some(conf), _) => Some((conf, path!["arm", scope.arm, "confs", &process.name])),
        (None, Some(conf)) => Some((conf, here.then("conf"))),
        (None, None) => None,
    };
    let conf = conf.map(|(conf, path)| scope.file(&mut owner, conf, &path));
    let arguments = match arm.process_arguments.get(&process.name) {
        Some(own) => scope.texts(&mut owner, own, &path!["arm", scope.arm, "process_arguments", &process.name]),
        None => scope.texts(&mut owner, &process.arguments, &here.then("arguments")),
    };
    let ready = process.ready.as_ref().map(|ready| match ready {
        Ready::Http(url) => Ready::Http(scope.text(&mut owner, url, &here.then("ready").then("http"))),
        Ready::Tcp(address) => Ready::Tcp(scope.text(&mut owner, address, &here.then("ready").then("tcp"))),
    });
    let program = arm.programs.get(&process.name).unwrap_or(&process.program);
    Some(StagedProcess {
        name: process.name.clone(),
        place: site.places.of(&here),
        host: experiment.host_of_process(process.host.as_deref())?,
        program: Program::parse(program),
        files: scope.files(&mut owner),
        folder: owner.folder,
        conf,
        arguments,
        ready,
        descriptors: arm.descriptors.get(&process.name).copied().or(process.descriptors),
        core: process.core,
        may_die: process.may_die,
    })
}

/// A load or a fill, with the arm's arguments after its own.
fn load(
    experiment: &Experiment,
    load: &Load,
    here: &FaultPath,
    of_arm: &[String],
    site: Site<'_>,
    scope: &mut Scope<'_>,
) -> StagedLoad {
    let arm_path = path!["arm", scope.arm];
    let arm = experiment.arms.get(scope.arm);
    let name = load.name().to_owned();
    let mut owner = Owner::new(site.folder.join(&name));
    let (url, url_path) = match arm.and_then(|arm| arm.url.as_ref()) {
        Some(url) => (url, arm_path.then("url")),
        None => (&load.url, here.then("url")),
    };
    let program = arm.and_then(|arm| arm.clients.get(&name)).copied().unwrap_or(load.program);
    // A load that sends nothing ignores the arm's URL.
    let url = if program.asks() { scope.text(&mut owner, url, &url_path) } else { String::new() };
    let mut arguments = scope.texts(&mut owner, &load.arguments, &here.then("arguments"));
    arguments.extend(scope.texts(&mut owner, of_arm, &arm_path.then("arguments")));
    let amount = match (load.requests, load.seconds) {
        (Some(requests), _) => Amount::Requests(requests),
        (None, seconds) => Amount::Seconds(seconds.unwrap_or_default()),
    };
    StagedLoad {
        place: site.places.of(here),
        // The check refuses a load without a host.
        host: experiment.host_of_load(load.host.as_deref()).unwrap_or_default(),
        program,
        files: scope.files(&mut owner),
        folder: owner.folder,
        url,
        arguments,
        amount,
        descriptors: load.descriptors,
        core: load.core,
        may_limit: load.may_limit,
        name,
    }
}

fn with_full_url(probe: &Probe, at: usize, site: Site<'_>, scope: &mut Scope<'_>) -> Probe {
    let mut probe = probe.clone();
    if let Probe::Told { name, url, .. } = &mut probe {
        let mut owner = Owner::new(site.folder.join(name.as_str()));
        *url = scope.text(&mut owner, url, &path!["probe", at, "url"]);
    }
    probe
}
