//! The configuration of the process itself, resolved against the machine: user names become numbers, relative paths
//! absolute ones, `auto` a count. Called by `verdict`; used by code that starts, signals or drops privileges.

use crate::instance::Instance;
use crate::verdict;
use crate::worker_groups::{self, Spread};
use conf::Loaded;
use conf::diagnostic::{Diagnostic, Severity};
use conf::model::{Affinity, CtlSocket, EnvVariable, LogTarget, Model, WorkerProcesses};
use conf::source::{FileId, Span};
use gateway::{ErrorTarget, Level, LogPlace, Resolve, Share};
use nix::unistd::{Gid, Group, Uid, User};
use std::ffi::{CString, OsStr};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Most worker threads of one process: four times the cores of the largest common servers.
const WORKERS_MAX: u32 = 512;

/// Settings of the process.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Process {
    /// Whether to detach from the terminal.
    pub(crate) daemon: bool,
    /// Whether to run a master that supervises a child.
    pub(crate) master: bool,
    /// Path of the pid file.
    pub(crate) pid_path: PathBuf,
    /// The control socket; `None` for none.
    pub(crate) ctl: Option<CtlPlan>,
    /// Destinations of error lines.
    pub(crate) error_logs: Vec<ErrorTarget>,
    /// Settings that only a new child can apply.
    pub(crate) child: ChildPlan,
    /// How long a draining process waits; zero for no limit.
    pub(crate) shutdown_timeout: Duration,
    /// Connections of one worker.
    pub(crate) worker_connections: u32,
    /// The part of the installation that this process is.
    pub(crate) share: Share,
}

/// The control socket.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct CtlPlan {
    /// Its path.
    pub(crate) path: PathBuf,
    /// Its permissions.
    pub(crate) mode: u32,
    /// Its group; `None` is the process's own.
    pub(crate) group: Option<Gid>,
}

/// Permissions of the control socket without a group, and with one.
const CTL_MODES: [u32; 2] = [0o600, 0o660];

/// Settings that a child gets at its start and keeps for life.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct ChildPlan {
    /// The least severe level that any error log wants.
    pub(crate) error_level: Level,
    /// Processes that serve.
    pub(crate) groups: u16,
    /// Worker threads of a process.
    pub(crate) workers: u16,
    /// Processors of each worker of all processes; empty if the kernel decides.
    pub(crate) processors: Vec<Vec<u32>>,
    /// User to run as; `None` keeps the current one.
    pub(crate) owner: Option<Owner>,
    /// Descriptors wanted; `None` takes the hard limit.
    pub(crate) descriptors: Option<u64>,
    /// Environment variables of the child.
    pub(crate) env: Vec<(String, Vec<u8>)>,
    /// Whether it sends from addresses that are not this machine's: it keeps `CAP_NET_RAW` then.
    pub(crate) transparent: bool,
    /// Whether a log goes to standard error, which then stays the stream with which the master was started.
    pub(crate) uses_stderr: bool,
    /// Working directory, where core dumps go.
    pub(crate) working_directory: Option<PathBuf>,
}

/// User and groups of a process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Owner {
    /// For the lookup of supplementary groups.
    pub(crate) name: CString,
    /// The user.
    pub(crate) user: Uid,
    /// The group.
    pub(crate) group: Gid,
}

/// Which of the processes of an installation this one is. The master decides how many there are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Part {
    /// Its number, from 0.
    pub(crate) index: u16,
    /// The number of processes.
    pub(crate) of: u16,
}

/// Resolves the settings. Reports what cannot be resolved; there is no result then.
pub(crate) fn lower_process(
    model: &Model,
    loaded: &Loaded,
    instance: &Instance,
    part: Option<Part>,
    resolve: Resolve<'_>,
    out: &mut Vec<Diagnostic>,
) -> Option<Process> {
    let settings = &model.main.settings;
    let errors = |out: &[Diagnostic]| out.iter().filter(|found| found.severity == Severity::Error).count();
    let errors_before = errors(out);
    let all_workers = workers(settings.worker_processes, model, out);
    let written = model.events.settings.worker_connections;
    let spread = if let Some(part) = part {
        Spread::over(part.of, all_workers, written)
    } else {
        let hard = reactor::descriptor_limit().map_or(u64::MAX, |(_, hard)| hard);
        let descriptors = settings.worker_rlimit_nofile.map_or(hard, |wanted| wanted.min(hard));
        Spread::wanted(settings.worker_groups, all_workers, written, descriptors)
    };
    worker_groups::refuse_unshared(model, spread.groups, place(model), out);
    let owner = owner(model, out);
    let error_logs = error_logs(model, loaded, instance, resolve, out);
    let error_level = error_logs.iter().map(|log| log.level).min().unwrap_or(Level::Error);
    let pid_path = settings.pid.as_deref().map_or_else(|| instance.pid_path.clone(), |pid| below(&loaded.prefix, pid));
    let process = Process {
        ctl: ctl(settings.ctl_socket.as_ref(), &loaded.prefix, &pid_path, out),
        daemon: settings.daemon,
        master: settings.master_process,
        pid_path,
        error_logs,
        child: ChildPlan {
            error_level,
            uses_stderr: false,
            transparent: false,
            groups: spread.groups,
            workers: spread.workers,
            processors: processors(&settings.worker_cpu_affinity, spread.groups.saturating_mul(spread.workers)),
            owner,
            descriptors: settings.worker_rlimit_nofile,
            env: environment(&settings.env),
            working_directory: settings.working_directory.as_deref().map(|path| OsStr::from_bytes(path).into()),
        },
        shutdown_timeout: settings.worker_shutdown_timeout,
        worker_connections: spread.connections,
        share: spread.share(part.map_or(0, |part| part.index), written),
    };
    (errors(out) == errors_before).then_some(process)
}

/// The control socket: beside the pid file by default.
fn ctl(written: Option<&CtlSocket>, prefix: &Path, pid_path: &Path, out: &mut Vec<Diagnostic>) -> Option<CtlPlan> {
    match written {
        Some(CtlSocket::Off) => None,
        None => Some(CtlPlan { path: pid_path.with_extension("ctl"), mode: CTL_MODES[0], group: None }),
        Some(CtlSocket::At { path, mode, group, span }) => {
            let found = group.as_ref().map(|name| (name, Group::from_name(name).ok().flatten()));
            if let Some((name, None)) = &found {
                out.push(Diagnostic::error(*span, format!("there is no group \"{name}\"")));
            }
            let group = found.and_then(|(_, group)| group).map(|group| group.gid);
            let mode = mode.unwrap_or(CTL_MODES[usize::from(group.is_some())]);
            Some(CtlPlan { path: below(prefix, path), mode, group })
        }
    }
}

/// Resolves a path of the configuration.
pub(crate) fn below(prefix: &Path, path: &[u8]) -> PathBuf {
    prefix.join(OsStr::from_bytes(path))
}

/// Processors that this process may use.
fn parallelism() -> u32 {
    std::thread::available_parallelism().map_or(1, |count| count.get() as u32)
}

fn workers(wanted: WorkerProcesses, model: &Model, out: &mut Vec<Diagnostic>) -> u16 {
    let count = match wanted {
        WorkerProcesses::Auto => parallelism().min(WORKERS_MAX),
        WorkerProcesses::Count(count) => count,
    };
    if count > WORKERS_MAX {
        let message =
            format!("\"worker_processes\" is {count}, and holdfast runs {WORKERS_MAX} worker threads at most");
        out.push(Diagnostic::error(place(model), message).with_hint("`worker_processes auto;` is one per processor"));
    }
    count.min(WORKERS_MAX) as u16
}

/// A span for findings that belong to no particular word.
pub(crate) fn place(model: &Model) -> Span {
    model.http.as_ref().map_or(Span { file: FileId(0), start: 0, end: 0 }, |http| http.span)
}

fn owner(model: &Model, out: &mut Vec<Diagnostic>) -> Option<Owner> {
    let wanted = model.main.settings.user.as_ref();
    let is_root = nix::unistd::geteuid().is_root();
    let span = wanted.map_or_else(|| place(model), |user| user.span);
    let name = wanted.map_or("nobody", |user| &user.name);
    if !is_root {
        if wanted.is_some() {
            let message = "the \"user\" directive makes sense only if the master process runs with super-user \
                           privileges, ignored";
            out.push(Diagnostic::warning(span, message));
        }
        return None;
    }
    let Ok(Some(user)) = User::from_name(name) else {
        out.push(Diagnostic::error(span, format!("getpwnam(\"{name}\") failed")).with_hint("no such user"));
        return None;
    };
    let group = match wanted.and_then(|user| user.group.as_deref()) {
        Some(group) => {
            let Ok(Some(group)) = Group::from_name(group) else {
                out.push(Diagnostic::error(span, format!("getgrnam(\"{group}\") failed")).with_hint("no such group"));
                return None;
            };
            group.gid
        }
        // nginx needs a group with the user's name. If there is none, we take the user's own group.
        None => Group::from_name(name).ok().flatten().map_or(user.gid, |group| group.gid),
    };
    let name = CString::new(name).ok()?;
    Some(Owner { name, user: user.uid, group })
}

fn error_logs(
    model: &Model,
    loaded: &Loaded,
    instance: &Instance,
    resolve: Resolve<'_>,
    out: &mut Vec<Diagnostic>,
) -> Vec<ErrorTarget> {
    let settings = &model.main.settings;
    if settings.error_logs.is_empty() {
        let place = match &instance.error_log {
            path if path == Path::new("stderr") => LogPlace::Stderr,
            path => LogPlace::File(loaded.prefix.join(path)),
        };
        return vec![ErrorTarget { place, level: Level::Error }];
    }
    let mut targets = Vec::new();
    for log in &settings.error_logs {
        let place = match &log.target {
            LogTarget::File(name) => LogPlace::File(below(&loaded.prefix, name.as_text().unwrap_or_default())),
            LogTarget::Stderr => LogPlace::Stderr,
            LogTarget::Syslog(written) => {
                match gateway::syslog_place(written, &verdict::hostname(), resolve, log.span) {
                    Ok(place) => LogPlace::Syslog(place),
                    Err(error) => {
                        out.push(error);
                        continue;
                    }
                }
            }
        };
        targets.push(ErrorTarget { place, level: log.level.into() });
    }
    targets
}

fn processors(affinity: &Affinity, workers: u16) -> Vec<Vec<u32>> {
    match affinity {
        Affinity::None => Vec::new(),
        Affinity::Masks(masks) => masks.clone(),
        Affinity::Auto(mask) => {
            let usable = mask.clone().unwrap_or_else(|| (0..parallelism()).collect());
            usable
                .iter()
                .cycle()
                .take(if usable.is_empty() { 0 } else { workers.into() })
                .map(|&one| vec![one])
                .collect()
        }
    }
}

/// As in nginx, only the time zone and the named variables are inherited.
fn environment(wanted: &[EnvVariable]) -> Vec<(String, Vec<u8>)> {
    let inherited = |name: &str| std::env::var_os(name).map(|value| value.as_encoded_bytes().to_vec());
    let mut env = Vec::new();
    if !wanted.iter().any(|variable| variable.name == "TZ") {
        env.extend(inherited("TZ").map(|value| ("TZ".to_owned(), value)));
    }
    for variable in wanted.iter().filter(|variable| !variable.name.is_empty()) {
        let value = variable.value.clone().or_else(|| inherited(&variable.name));
        env.extend(value.map(|value| (variable.name.clone(), value)));
    }
    env
}
