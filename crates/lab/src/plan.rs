//! What an experiment comes to for one arm: every process and load with its host, folder, files, arguments and limits, and with
//! nothing left to fill in or to look up. Plain values in, plain values out; `stage` starts what is here.

mod fill;

use crate::experiment::{Arm, Client, Experiment, Host, Load, NetworkKind, Probe, Ready};
use crate::fault::{Fault, Path as FaultPath, suggestion};
use crate::path;
use crate::read::Places;
use fill::{Owner, Scope};
use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};

/// The host on which everything is where the experiment names none.
pub const HERE: &str = "here";
/// The host that loads run on, if there is one of that name; and what a load is called.
pub const CLIENT: &str = "client";

/// One arm, ready to be started.
#[derive(Debug, Clone, PartialEq)]
pub struct Staged {
    /// The arm's name.
    pub arm: String,
    /// `experiment.toml:14:1`, for errors about the whole arm.
    pub place: String,
    /// How the hosts are connected: what the site has, not what the experiment asks for.
    pub network: NetworkKind,
    /// In the order of their names, which is that of their addresses.
    pub hosts: Vec<StagedHost>,
    /// In the order in which they are started; those that the arm does without are not here.
    pub processes: Vec<StagedProcess>,
    /// Run one after the other, before what is measured.
    pub fills: Vec<StagedLoad>,
    /// Run at the same time.
    pub loads: Vec<StagedLoad>,
    /// Their URLs filled in.
    pub probes: Vec<Probe>,
}

/// A host with its addresses.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StagedHost {
    /// As the experiment names it.
    pub name: String,
    /// At least one. With [`NetworkKind::Hosts`] in 10.77.0.0/16, otherwise in 127.0.0.0/8.
    pub addresses: Vec<Ipv4Addr>,
    /// The host's, with those of the arm over them. Name with dots, and value.
    pub sysctls: BTreeMap<String, String>,
}

/// A process as it is to be started.
#[derive(Debug, Clone, PartialEq)]
pub struct StagedProcess {
    /// As claims and tables name it.
    pub name: String,
    /// Where it is in the experiment: `experiment.toml:14:1`.
    pub place: String,
    /// One of the hosts.
    pub host: String,
    /// What is started.
    pub program: Program,
    /// Its own, to be made empty before it is started; it may write there.
    pub folder: PathBuf,
    /// To be written into the folder before it is started.
    pub files: Vec<StagedFile>,
    /// Which of them is its configuration.
    pub conf: Option<PathBuf>,
    /// Behind those that the program always gets.
    pub arguments: Vec<String>,
    /// Its texts filled in.
    pub ready: Option<Ready>,
    /// `RLIMIT_NOFILE`, soft and hard.
    pub descriptors: Option<u64>,
    /// Pinned to this core, modulo how many there are.
    pub core: Option<usize>,
    /// Its end does not end the run.
    pub may_die: bool,
}

/// What a process runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Program {
    /// In the foreground, with the configuration and its folder as prefix.
    Nginx,
    /// In the foreground, with the configuration.
    Haproxy,
    /// With a configuration as nginx is started; without one the arguments are a subcommand of this program.
    Holdfast,
    /// The program in Go that is built from the file, or the folder of files, of its first argument.
    Go,
    /// A path, or a name that is looked up in PATH.
    Command(String),
}

impl Program {
    /// What the word in the file means.
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

/// A load as it is to be run.
#[derive(Debug, Clone, PartialEq)]
pub struct StagedLoad {
    /// As claims and tables name it.
    pub name: String,
    /// Where it is in the experiment: `experiment.toml:14:1`.
    pub place: String,
    /// One of the hosts.
    pub host: String,
    /// What makes the load.
    pub program: Client,
    /// Its own.
    pub folder: PathBuf,
    /// To be written into the folder before it is started.
    pub files: Vec<StagedFile>,
    /// What is asked for; empty if nothing is requested.
    pub url: String,
    /// In the program's own words.
    pub arguments: Vec<String>,
    /// How much of it there is.
    pub amount: Amount,
    /// `RLIMIT_NOFILE`, soft and hard.
    pub descriptors: Option<u64>,
    /// Pinned to this core, modulo how many there are.
    pub core: Option<usize>,
    /// That it was the bottleneck does not void the sample.
    pub may_limit: bool,
}

/// How much load.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Amount {
    /// For so long.
    Seconds(f64),
    /// This many.
    Requests(u64),
}

/// A file as it is to be written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StagedFile {
    /// In the reader's folder.
    pub path: PathBuf,
    /// What is in it.
    pub content: Content,
}

/// What is in a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Content {
    /// Text.
    Text(String),
    /// This many `x`.
    Fill(u64),
}

/// Where and on what a sample is staged.
#[derive(Debug, Clone, Copy)]
pub struct Site<'a> {
    /// The folder of the sample, absolute. Each process and load has a folder of its name in it.
    pub folder: &'a Path,
    /// What there is; another than the experiment asks for where namespaces are not to be had.
    pub network: NetworkKind,
    /// Where the parts of the experiment are in its file.
    pub places: &'a Places,
}

/// The addresses of the host with this number, from 0, in the order of the hosts' names.
pub fn addresses(network: NetworkKind, host: usize, count: u32) -> Vec<Ipv4Addr> {
    let host = host.min(crate::limits::HOSTS_MAX) as u8;
    let count = count.clamp(1, crate::limits::ADDRESSES_MAX) as u8;
    let address = |number| match network {
        // 0 and 255 at the end of an address mean something to some programs; the switch is 10.77.255.254.
        NetworkKind::Hosts => Ipv4Addr::new(10, 77, host, number),
        // The first is 127.0.0.1, which programs take that are told a port alone.
        NetworkKind::Namespace => Ipv4Addr::new(127, 0, host, number),
        // Away from what else the machine has on its loopback.
        NetworkKind::Loopback => Ipv4Addr::new(127, 77, host, number),
    };
    (1..=count).map(address).collect()
}

/// Applies the arm to the experiment, and fills in every template. All that is wrong comes at once; an experiment that was
/// checked has nothing wrong for any of its arms.
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
    // What an arm adds is in the words of the program of the loads; fills have one of their own.
    let fills = fills.map(|(at, fill)| load(experiment, fill, &path!["fill", at], &[], site, &mut scope)).collect();
    let loads = experiment.loads.iter().enumerate();
    let loads =
        loads.map(|(at, one)| load(experiment, one, &path!["load", at], &arm.arguments, site, &mut scope)).collect();
    let probes = experiment.probes.iter().enumerate().map(|(at, probe)| told(probe, at, site, &mut scope)).collect();
    let faults = scope.into_faults();
    if !faults.is_empty() {
        return Err(faults);
    }
    let place = site.places.of(&path!["arm", index]);
    Ok(Staged { arm: arm.name.clone(), place, network: site.network, hosts, processes, fills, loads, probes })
}

/// All hosts, `here` where the experiment names none.
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
    /// What a sample takes at least: idle time, warm-up, and the longest load. Loads that count requests are not in it.
    pub fn seconds_per_sample(&self) -> f64 {
        let load = self.loads.iter().filter_map(|load| load.seconds).fold(0.0, f64::max);
        load + self.method.warm_up + self.method.idle
    }

    /// The host of a process: the one it names, or the only one. `None` where neither is there.
    pub fn host_of_process(&self, host: Option<&str>) -> Option<String> {
        match host {
            Some(host) => Some(host.to_owned()),
            None if self.hosts.is_empty() => Some(HERE.to_owned()),
            None if self.hosts.len() == 1 => self.hosts.keys().next().cloned(),
            None => None,
        }
    }

    /// The host of a load: the one it names, `client` if there is one, or the only one. `None` where none of them is there.
    pub fn host_of_load(&self, host: Option<&str>) -> Option<String> {
        match host {
            None if self.hosts.contains_key(CLIENT) => Some(CLIENT.to_owned()),
            other => self.host_of_process(other),
        }
    }
}

/// `None` where the arm does without it, or where it has no host, which checking says.
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

/// A load or a fill, with the arguments that the arm puts behind its own.
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
    // A load that sends nothing needs nothing of the others' URL.
    let url = if program.asks() { scope.text(&mut owner, url, &url_path) } else { String::new() };
    let mut arguments = scope.texts(&mut owner, &load.arguments, &here.then("arguments"));
    arguments.extend(scope.texts(&mut owner, of_arm, &arm_path.then("arguments")));
    let amount = match (load.requests, load.seconds) {
        (Some(requests), _) => Amount::Requests(requests),
        (None, seconds) => Amount::Seconds(seconds.unwrap_or_default()),
    };
    StagedLoad {
        place: site.places.of(here),
        // A load without a host is refused when the experiment is checked.
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

fn told(probe: &Probe, at: usize, site: Site<'_>, scope: &mut Scope<'_>) -> Probe {
    let mut probe = probe.clone();
    if let Probe::Told { name, url, .. } = &mut probe {
        let mut owner = Owner::new(site.folder.join(name.as_str()));
        *url = scope.text(&mut owner, url, &path!["probe", at, "url"]);
    }
    probe
}
