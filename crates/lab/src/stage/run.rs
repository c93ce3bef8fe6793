//! A whole run: finds the arms that can run here, takes every sample in turn, and writes the record after each, so that an
//! aborted run keeps its measurements. It judges and prints nothing; called by the command line.

use super::StageError;
use super::machine;
use super::namespace::{again_as_root, file_of, ip, is_users_own};
use super::network::{self, MadeNetwork};
use super::programs::Programs;
use super::sample::Taking;
use super::sweep::Traces;
use crate::experiment::{Experiment, NetworkKind};
use crate::figure;
use crate::judge;
use crate::plan::{Site, Staged, staged};
use crate::read::Places;
use crate::record::{Record, Sample};
use crate::schedule::Turn;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// A request to end the run. Any thread may set it, and everything that waits checks it.
#[derive(Debug, Clone, Default)]
pub struct Stop {
    said: Arc<AtomicBool>,
    /// Arms that are not run from here on.
    left_out: Arc<Mutex<BTreeSet<String>>>,
}

impl Stop {
    /// A new request that SIGINT and SIGTERM set. SIGHUP, the end of the terminal, sets it as well, unless this process was
    /// started with SIGHUP ignored, for example by `nohup`.
    pub fn when_interrupted() -> io::Result<Self> {
        use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
        let stop = Self::default();
        let hangup = (!is_ignored(SIGHUP)).then_some(SIGHUP);
        for signal in [SIGINT, SIGTERM].into_iter().chain(hangup) {
            signal_hook::flag::register(signal, Arc::clone(&stop.said))?;
        }
        Ok(stop)
    }

    /// Requests the end of the run.
    pub fn request_end(&self) {
        self.said.store(true, Ordering::Relaxed);
    }

    /// Runs no further sample of this arm; its samples stay valid.
    pub fn leave_out(&self, arm: &str) {
        self.left_out.lock().unwrap_or_else(PoisonError::into_inner).insert(arm.to_owned());
    }

    fn leaves_out(&self, arm: &str) -> bool {
        self.left_out.lock().unwrap_or_else(PoisonError::into_inner).contains(arm)
    }

    /// Whether the end of the run was requested.
    pub fn is_said(&self) -> bool {
        self.said.load(Ordering::Relaxed)
    }

    /// An error if the end was requested; `when` says what was going on, such as "under load".
    pub(super) fn check(&self, when: impl fmt::Display) -> Result<(), StageError> {
        if self.is_said() { Err(StageError::new(format!("interrupted {when}"))) } else { Ok(()) }
    }
}

/// Whether this process ignores that signal.
fn is_ignored(signal: i32) -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let mask = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0);
    // Signals are counted from 1, the bits from 0.
    u32::try_from(signal - 1).is_ok_and(|bit| mask.checked_shr(bit).unwrap_or(0) & 1 == 1)
}

/// A run to perform. The caller has filled the record with the experiment, the seed and other known values.
#[derive(Debug)]
pub struct Request<'a> {
    /// The places of the experiment's parts.
    pub places: &'a Places,
    /// The turns in order. Those beyond the method's rounds are run only while a claim lacks rounds.
    pub turns: &'a [Turn],
    /// Where to find the programs.
    pub programs: &'a Programs,
    /// The parent of the run's folder, such as /tmp; it contains configurations and the files that processes write.
    pub home: &'a Path,
    /// The file of the record, written after each sample; `None` for no file.
    pub file: Option<&'a Path>,
    /// Ends the run early.
    pub stop: &'a Stop,
    /// Whether network namespaces may be created. If not, or if they cannot be, all hosts are on the machine's loopback.
    pub namespaces: bool,
}

/// Events for the display.
#[derive(Debug)]
pub enum Event<'a> {
    /// The kind of network of the hosts, how it differs from machines, and why it is not the requested one, if so.
    Network(NetworkKind, &'static str, Option<&'a str>),
    /// An arm cannot run, for this reason.
    Absent(&'a str, &'a str),
    /// A sample begins: its number from 0, the number of samples (more if spare rounds are run), and its arm.
    Sample(usize, usize, &'a str),
    /// A process, or a load before the measurement, is being started.
    Starting(&'a str),
    /// The idle time: no load for this many seconds.
    Idling(f64),
    /// The warm-up, for this many seconds.
    WarmingUp(f64),
    /// The measured load.
    Loading,
    /// A look during the measured load: seconds since it began, and numbers with the names of the record's series, such as
    /// `sockets.PROBE.STATE`. At most one per `look` seconds. The load reports rates and latencies only at its end.
    Looked(f64, &'a BTreeMap<String, f64>),
    /// A sample was added to the record.
    Taken(&'a Sample),
}

/// Runs all turns. Keeps the record up to date, with the reason if it is partial; the error says what ended the run early.
pub fn run(request: &Request<'_>, record: &mut Record, tell: &mut dyn FnMut(Event<'_>)) -> Result<(), StageError> {
    record.partial = Some("the run has not come to its end".to_owned());
    let ran = run_all(request, record, tell);
    record.partial = match &ran {
        Ok(()) => None,
        Err(error) => Some(error.to_string()),
    };
    // The error that ended the run is more important than one that occurs now.
    let written = write(request, record);
    ran.and(written)
}

fn write(request: &Request<'_>, record: &Record) -> Result<(), StageError> {
    let Some(file) = request.file else { return Ok(()) };
    record.write(file).map_err(|error| StageError::new(format!("cannot write the record: {error}")))
}

fn run_all(request: &Request<'_>, record: &mut Record, tell: &mut dyn FnMut(Event<'_>)) -> Result<(), StageError> {
    let experiment = record.experiment.clone();
    let wanted = experiment.network.kind;
    let traces = Traces::begin(request.home)?;
    let unavailable = match (wanted, request.namespaces) {
        (NetworkKind::Loopback, _) => None,
        (_, false) => Some("it was asked for without namespaces".to_owned()),
        (_, true) => why_no_namespaces(),
    };
    let kind = if unavailable.is_some() { NetworkKind::Loopback } else { wanted };
    let words = network::in_words(kind);
    tell(Event::Network(kind, words, unavailable.as_deref()));
    record.fingerprint.push(("network".to_owned(), words.to_owned()));
    if is_users_own() {
        let who = "root of a user namespace, with no rights over the machine".to_owned();
        record.fingerprint.push(("run by".to_owned(), who));
    }
    if let Some(why) = &unavailable {
        record.fingerprint.push(("network instead of what was asked for, since".to_owned(), why.clone()));
    }
    machine::describe(request.programs, &experiment, &mut record.fingerprint);
    let runnable = runnable(request, &experiment, kind, &traces, record)?;
    for (arm, why) in &record.absent {
        tell(Event::Absent(arm, why));
    }
    write(request, record)?;
    let arm_of = |turn: &Turn| experiment.arms.get(turn.arm).and_then(|arm| runnable.get(&arm.name));
    let turns: Vec<(&Turn, &Staged)> = request.turns.iter().filter_map(|turn| Some((turn, arm_of(turn)?))).collect();
    if turns.is_empty()
        && let Some((arm, why)) = record.absent.first()
    {
        return Err(StageError::new(format!("no arm can be run here: {arm}: {why}")));
    }
    let mut rounds = experiment.method.rounds;
    for (number, (turn, staged)) in turns.iter().enumerate() {
        if turn.round >= rounds {
            if !judge::lacks_rounds(record) {
                break;
            }
            rounds = turn.round + 1;
        }
        if request.stop.leaves_out(&staged.arm) {
            continue;
        }
        let count = turns.iter().filter(|(turn, _)| turn.round < rounds).count();
        let which = format!("sample {} of {count} (arm {}, round {})", number + 1, staged.arm, turn.round + 1);
        request.stop.check(format_args!("before {which}")).map_err(|error| error.at(&staged.place))?;
        tell(Event::Sample(number, count, &staged.arm));
        let taking = Taking {
            staged,
            round: turn.round,
            method: &experiment.method,
            programs: request.programs,
            traces: &traces,
            stop: request.stop,
        };
        let mut sample = taking.take(tell).map_err(|error| error.at(&staged.place).within(&which))?;
        figure::add_shares(&experiment, &mut sample.figures);
        record.samples.push(sample);
        write(request, record).map_err(|error| error.at(&staged.place).within(&which))?;
        if let Some(sample) = record.samples.last() {
            tell(Event::Taken(sample));
        }
    }
    Ok(())
}

/// Prepares every arm that can run here, and adds the others to the record's list of absent ones.
fn runnable(
    request: &Request<'_>,
    experiment: &Experiment,
    kind: NetworkKind,
    traces: &Traces,
    record: &mut Record,
) -> Result<BTreeMap<String, Staged>, StageError> {
    let mut runnable = BTreeMap::new();
    let folder = traces.folder().join("sample");
    for arm in &experiment.arms {
        let site = Site { folder: &folder, network: kind, places: request.places };
        let ready = staged(experiment, &arm.name, site).map_err(|faults| {
            let faults: Vec<String> = faults.iter().map(ToString::to_string).collect();
            StageError::new(faults.join("\n"))
        })?;
        let why = match request.programs.prepare(&ready, request.stop)? {
            None if kind == NetworkKind::Loopback => needs_sysctls(&ready),
            None if is_users_own() => refuses_sysctls(&ready),
            other => other,
        };
        match why {
            Some(why) => record.absent.push((arm.name.clone(), why)),
            None => _ = runnable.insert(arm.name.clone(), ready),
        }
    }
    Ok(runnable)
}

/// Why an arm with sysctls cannot run on the machine's own loopback, where no settings are changed.
fn needs_sysctls(staged: &Staged) -> Option<String> {
    let other = staged.hosts.iter().flat_map(|host| &host.sysctls).find(|(name, value)| {
        let now = std::fs::read_to_string(format!("/proc/sys/{}", name.replace('.', "/"))).unwrap_or_default();
        !now.split_ascii_whitespace().eq(value.split_ascii_whitespace())
    })?;
    let (name, value) = other;
    Some(format!("it needs {name} = {value}, and without a network namespace that would be the whole machine's"))
}

/// Root of a user namespace may set only some sysctls, depending on the kernel, so try them.
fn refuses_sysctls(staged: &Staged) -> Option<String> {
    if staged.hosts.iter().all(|host| host.sysctls.is_empty()) {
        return None;
    }
    let why = MadeNetwork::make(staged.network, &staged.hosts).err()?.text;
    Some(format!("as root of a user namespace {why}: run it as root of the machine"))
}

/// Why no named namespace can be created; `None` if it can.
fn why_no_namespaces() -> Option<String> {
    let name = network::name_stem();
    let tried = ip(&format!("netns add {name}\n")).and_then(|()| {
        let entered = sockdiag::Namespace::Path(file_of(&name)).run(|| ());
        ip(&format!("netns delete {name}\n"))?;
        Ok(entered?)
    });
    let why = tried.err()?.text;
    let hint = if again_as_root().is_some() {
        " (as root of a user namespace there could be one)"
    } else if is_root() {
        ""
    } else {
        " (be root, or let users have namespaces: kernel.unprivileged_userns_clone = 1, and on Ubuntu \
         kernel.apparmor_restrict_unprivileged_userns = 0)"
    };
    Some(format!("no network namespace can be made: {why}{hint}"))
}

fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::process::{Signal, getpid, kill_process};
    use std::time::{Duration, Instant};

    #[test]
    fn closed_terminal_ends_the_run_like_ctrl_c() {
        // Under nohup, a run must continue without its terminal.
        let is_nohup = is_ignored(signal_hook::consts::SIGHUP);
        if is_nohup {
            let stop = Stop::when_interrupted().unwrap();
            kill_process(getpid(), Signal::HUP).unwrap();
            assert!(!stop.is_said());
        }
        let hangup = (!is_nohup).then_some(Signal::HUP);
        for signal in hangup.into_iter().chain([Signal::INT, Signal::TERM]) {
            let stop = Stop::when_interrupted().unwrap();
            assert!(!stop.is_said());
            kill_process(getpid(), signal).unwrap();
            let deadline = Instant::now() + Duration::from_secs(10);
            while !stop.is_said() {
                assert!(Instant::now() < deadline, "{signal:?} had no effect");
                super::super::process::pause();
            }
        }
        // No parent process ignores these signals.
        assert!(!is_ignored(signal_hook::consts::SIGINT) && !is_ignored(0) && !is_ignored(64));
    }
}
