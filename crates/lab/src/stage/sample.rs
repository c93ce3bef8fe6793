//! One sample: creates its network, starts its processes, watches them while idle, warms up, runs and watches the load, and
//! ends everything again, also after an error. Called by `run`; `figures` evaluates the observations.

use super::calls::Tracer;
use super::client;
use super::figures::{Client, Reading, Seen};
use super::looks::{Look, Looker, Watched};
use super::network::MadeNetwork;
use super::process::{Started, end_together, in_words, pause};
use super::processes::{Limits, Starting, prepare_folder};
use super::programs::{Programs, STRACE, client_name};
use super::run::{Event, Stop};
use super::sweep::Traces;
use super::usage::{Cores, Cpu, cpu_of_tree};
use super::written::{Writer, Written};
use super::{StageError, programs};
use crate::experiment::{Method, Probe};
use crate::plan::{Amount, Staged, StagedLoad, StagedProcess};
use crate::record::Sample;
use rustix::time::{ClockId, clock_gettime};
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// The first look comes this long after the start of the load, because connections are being opened until then.
const FIRST_LOOK: Duration = Duration::from_millis(100);
/// A load that has not ended this long after its time hangs. siege and ab wait for their slowest response, at most two
/// minutes.
const LOAD_LATE_MAX: Duration = Duration::from_mins(3);
/// A load with a number of requests has no fixed time; this is the longest time that an experiment may specify.
const REQUESTS_TIME_MAX: Duration = Duration::from_hours(4);
/// Looks of one sample at the requested interval. Each time the limit is reached, the interval doubles, so that a long load
/// has some thousand points and not hundreds of thousands.
const LOOKS_MAX: usize = 1000;
/// Looking takes at most one part in this many of the time. With a million sockets, looks are less frequent than requested.
const LOOKING_SHARE_MAX: u32 = 5;

/// What to sample, and the means for it.
pub(super) struct Taking<'a> {
    pub(super) staged: &'a Staged,
    pub(super) round: u32,
    pub(super) method: &'a Method,
    pub(super) programs: &'a Programs,
    pub(super) traces: &'a Traces,
    pub(super) stop: &'a Stop,
}

impl Taking<'_> {
    /// Takes the sample.
    pub(super) fn take(&self, tell: &mut dyn FnMut(Event<'_>)) -> Result<Sample, StageError> {
        let made = MadeNetwork::make(self.staged.network, &self.staged.hosts);
        let network = made.map_err(|error| error.at(&self.staged.place))?;
        let starting = Starting { network: &network, programs: self.programs, traces: self.traces, stop: self.stop };
        let mut running = Running::default();
        for process in &self.staged.processes {
            tell(Event::Starting(&process.name));
            running.processes.push((starting.process(process)?, process));
        }
        let looker = Looker::open(&network, &self.staged.probes).map_err(|error| error.at(&self.staged.place))?;
        let (looks, next, written) = (Vec::new(), Instant::now(), Written::default());
        let when = "before anything was loaded";
        let mut stage = Stage { taking: self, starting, running, looker, looks, next, written, when };
        stage.perform(tell)
    }
}

/// The running programs. All of them are ended at the same time.
#[derive(Default)]
struct Running<'a> {
    processes: Vec<(Started, &'a StagedProcess)>,
    /// Processes that were allowed to die and did, with the reason.
    died: BTreeMap<String, String>,
}

impl Drop for Running<'_> {
    fn drop(&mut self) {
        end_together(self.processes.drain(..).rev().map(|(started, _)| started).collect());
    }
}

/// A sample in progress.
struct Stage<'a> {
    taking: &'a Taking<'a>,
    starting: Starting<'a>,
    running: Running<'a>,
    looker: Looker,
    looks: Vec<Look>,
    /// When the next look is due.
    next: Instant,
    written: Written,
    /// The current phase, for the message of an interruption.
    when: &'static str,
}

/// A load that was started.
struct Loading<'a> {
    started: Started,
    load: &'a StagedLoad,
    late: Instant,
    /// Its CPU time, once it has ended.
    cpu: Option<Cpu>,
}

impl<'a> Stage<'a> {
    fn perform(&mut self, tell: &mut dyn FnMut(Event<'_>)) -> Result<Sample, StageError> {
        let method = self.taking.method;
        tell(Event::Idling(method.idle));
        self.look(&[], true)?;
        let idle_until = Instant::now() + Duration::from_secs_f64(method.idle);
        while Instant::now() < idle_until {
            self.step(&[])?;
        }
        let loaded_from = Instant::now();
        self.when = "in what fills the pool";
        for fill in &self.taking.staged.fills {
            tell(Event::Starting(&fill.name));
            let mut loads = vec![self.start_load(fill, fill.amount).map_err(|error| error.at(&fill.place))?];
            self.watch(&mut loads, &mut |_| ())?;
            Self::read_loads(loads)?;
        }
        if method.warm_up > 0.0 {
            tell(Event::WarmingUp(method.warm_up));
            self.when = "in the warm-up";
            let mut loads = self.start_loads(Some(Amount::Seconds(method.warm_up)))?;
            self.watch(&mut loads, &mut |_| ())?;
            Self::read_loads(loads)?;
        }
        tell(Event::Loading);
        self.when = "under load";
        // This look gives the last numbers before the load, and its cost does not count as part of the load.
        self.look(&[], true)?;
        let tracers = self.trace()?;
        let before = self.read();
        let mut loads = self.start_loads(None)?;
        self.next = Instant::now() + FIRST_LOOK;
        let seconds = |look: &Look| look.at.saturating_duration_since(before.at).as_secs_f64();
        self.watch(&mut loads, &mut |look| tell(Event::Looked(seconds(look), &look.numbers)))?;
        let after = self.read();
        let mut calls = BTreeMap::new();
        for tracer in tracers {
            calls.insert(tracer.name.clone(), tracer.calls()?);
        }
        // Taken after the load, so it is in no average of the load; the metrics of processes are read up to here.
        self.look(&[], true)?;
        self.check_processes()?;
        Ok(Seen {
            arm: self.taking.staged.arm.clone(),
            round: self.taking.round,
            looks: std::mem::take(&mut self.looks),
            loaded_from,
            before,
            after,
            clients: Self::read_loads(loads)?,
            processes: self.running.processes.iter().map(|(_, process)| process.name.clone()).collect(),
            died: std::mem::take(&mut self.running.died),
            calls,
            remarks: self.looker.remarks().into_iter().chain(Written::remarks(self.writers())).collect(),
        }
        .into_sample())
    }

    /// Starts strace for the probes that count system calls.
    fn trace(&self) -> Result<Vec<Tracer>, StageError> {
        let taking = self.taking;
        let mut tracers = Vec::new();
        for probe in &taking.staged.probes {
            let Probe::Calls { name, process } = probe else { continue };
            let Some((started, _)) = self.running.processes.iter().find(|(_, known)| known.name == *process) else {
                continue;
            };
            let strace = taking.programs.find(STRACE).ok_or_else(|| StageError::new(programs::absent(STRACE)))?;
            let tracer = Tracer::attach(&strace, name, started.id(), taking.traces.folder());
            let tracer = tracer.map_err(|error| error.within(&format!("probe {name}")).at(&taking.staged.place))?;
            taking.traces.add(tracer.id());
            tracers.push(tracer);
        }
        Ok(tracers)
    }

    /// Starts all loads, with `amount` instead of their own if it is set.
    fn start_loads(&self, amount: Option<Amount>) -> Result<Vec<Loading<'a>>, StageError> {
        let mut loads = Vec::new();
        for load in &self.taking.staged.loads {
            loads.push(self.start_load(load, amount.unwrap_or(load.amount)).map_err(|error| error.at(&load.place))?);
        }
        Ok(loads)
    }

    fn start_load(&self, load: &'a StagedLoad, amount: Amount) -> Result<Loading<'a>, StageError> {
        prepare_folder(&load.folder, &load.files)?;
        let program = self.taking.programs.client(load.program);
        let program = program.ok_or_else(|| StageError::new(programs::absent(client_name(load.program))))?;
        let words = client::words(load, program, amount)?;
        let limits = Limits { descriptors: load.descriptors, core: load.core };
        let space = self.starting.network.space(&load.host)?;
        let started = self.starting.start(&load.name, &words, &limits, space, load.folder.join("output"))?;
        let time = match amount {
            Amount::Seconds(seconds) => Duration::from_secs_f64(seconds) + LOAD_LATE_MAX,
            Amount::Requests(_) => REQUESTS_TIME_MAX,
        };
        Ok(Loading { started, load, late: Instant::now() + time, cpu: None })
    }

    /// Continues looking until all loads have ended; passes each look to `looked`.
    fn watch(&mut self, loads: &mut [Loading<'_>], looked: &mut dyn FnMut(&Look)) -> Result<(), StageError> {
        loop {
            for loading in loads.iter_mut().filter(|loading| loading.cpu.is_none()) {
                if loading.started.has_ended()? {
                    // It is still a zombie, so the times of its threads and children are still available.
                    loading.cpu = Some(cpu_of_tree(loading.started.id()));
                } else if Instant::now() > loading.late {
                    let text = loading.started.quote(&format!("{} does not come to its end", loading.load.name));
                    return Err(StageError::new(text).at(&loading.load.place));
                }
            }
            if loads.iter().all(|loading| loading.cpu.is_some()) {
                return Ok(());
            }
            if let Some(look) = self.step(loads)? {
                looked(look);
            }
        }
    }

    /// Takes a look if one is due; otherwise pauses briefly.
    fn step(&mut self, loads: &[Loading<'_>]) -> Result<Option<&Look>, StageError> {
        self.taking.stop.check(self.when)?;
        self.check_processes()?;
        let writers = self.writers();
        self.written.check(writers)?;
        if Instant::now() < self.next {
            pause();
            return Ok(None);
        }
        self.look(loads, false)?;
        Ok(self.looks.last())
    }

    fn look(&mut self, loads: &[Loading<'_>], asked: bool) -> Result<(), StageError> {
        let begun = Instant::now();
        let watched = |name: &str, started: &Started| Watched { name: name.to_owned(), pid: started.id() };
        let alive = self.running.processes.iter().filter(|(_, process)| !self.running.died.contains_key(&process.name));
        let mut all: Vec<Watched> = alive.map(|(started, process)| watched(&process.name, started)).collect();
        let running = |loading: &&Loading<'_>| loading.cpu.is_none();
        all.extend(loads.iter().filter(running).map(|loading| watched(&loading.load.name, &loading.started)));
        let mut look = self.looker.look(&all, asked)?;
        // A load that has ended meanwhile has lost some of its threads and their times.
        for loading in loads {
            if loading.started.has_ended()? {
                look.threads.remove(&loading.load.name);
                for kind in ["rss_mb", "descriptors"] {
                    look.numbers.remove(&format!("{kind}.{}", loading.load.name));
                }
            }
        }
        self.looks.push(look);
        let wanted = Duration::from_secs_f64(self.taking.method.look) * (1 << (self.looks.len() / LOOKS_MAX).min(16));
        self.next = begun + wanted.max(begun.elapsed() * LOOKING_SHARE_MAX);
        Ok(())
    }

    /// All programs with a folder to write into.
    fn writers(&self) -> impl Iterator<Item = Writer<'a>> + use<'a> {
        let staged = self.taking.staged;
        let processes = staged.processes.iter();
        let processes = processes.map(|it| Writer { name: &it.name, place: &it.place, folder: &it.folder });
        processes.chain(staged.loads.iter().map(|it| Writer { name: &it.name, place: &it.place, folder: &it.folder }))
    }

    /// An error if a process has ended that must not.
    fn check_processes(&mut self) -> Result<(), StageError> {
        for (started, process) in &mut self.running.processes {
            if self.running.died.contains_key(&process.name) || !started.has_ended()? {
                continue;
            }
            let status = started.status()?.map_or_else(String::new, |status| format!(" with {}", in_words(status)));
            if !process.may_die {
                let text = started.quote(&format!("{} ended{status} before the sample was taken", process.name));
                return Err(StageError::new(text).at(&process.place));
            }
            self.running.died.insert(process.name.clone(), started.quote(&format!("it ended{status}")));
        }
        Ok(())
    }

    fn read(&self) -> Reading {
        let processes = self.running.processes.iter();
        let own = clock_gettime(ClockId::ProcessCPUTime);
        Reading {
            counters: self.looker.counters(),
            cores: Cores::read(),
            cpu: processes.map(|(started, process)| (process.name.clone(), cpu_of_tree(started.id()))).collect(),
            own_cpu_ns: own.tv_sec as u64 * 1_000_000_000 + own.tv_nsec as u64,
            at: Instant::now(),
        }
    }

    /// The figures of the loads. A load without figures has failed, even if its exit status is 0.
    fn read_loads(loads: Vec<Loading<'_>>) -> Result<Vec<Client>, StageError> {
        let mut clients = Vec::new();
        for Loading { mut started, load, cpu, .. } in loads {
            let status = started.status()?.map_or_else(String::new, |status| format!(" ({})", in_words(status)));
            let figures = client::figures(load, started.output())
                .map_err(|error| StageError::new(started.quote(&format!("{error}{status}"))).at(&load.place))?;
            let cpu = cpu.unwrap_or_default();
            clients.push(Client { name: load.name.clone(), figures, cpu, may_limit: load.may_limit });
        }
        Ok(clients)
    }
}
