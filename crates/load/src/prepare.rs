//! From options to a load that runs: names are resolved and the plan is made before the first socket, then the workers are
//! started, in this process or (by `processes`) in several.

use crate::http::Http;
use crate::options::Options;
use crate::plan::Plan;
use crate::processes;
use crate::run::Running;
use crate::script::{self, Finished};
use crate::setup::{Setup, StartError};
use crate::worker::{self, Message, Together};
use serde::{Deserialize, Serialize};
use std::net::SocketAddr;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, OnceLock};
use std::thread::JoinHandle;
use std::time::Instant;

/// A load that can begin. It has no socket yet.
#[derive(Debug)]
pub struct Prepared {
    options: Options,
    setup: Arc<Setup>,
}

/// Resolves names, and computes what the load will need. A load that cannot fit is refused, unless [`Options::plan`] says
/// that it is to be tried.
pub fn prepare(options: Options) -> Result<Prepared, StartError> {
    let setup = Arc::new(Setup::new(&options, None)?);
    if setup.plan.processes > setup.connections_least() {
        return Err(StartError::TooManyProcesses { processes: setup.plan.processes });
    }
    Ok(Prepared { options, setup })
}

/// Starts a load in this process.
pub fn start(options: Options) -> Result<Running, StartError> {
    prepare(options)?.start()
}

impl Prepared {
    /// What it will need, and in how many processes.
    pub fn plan(&self) -> &Plan {
        &self.setup.plan
    }

    /// The address of each target.
    pub fn addresses(&self) -> Vec<SocketAddr> {
        self.setup.addresses()
    }

    /// Starts it in this process; refused where the plan says several.
    pub fn start(self) -> Result<Running, StartError> {
        if self.setup.plan.processes > 1 {
            return Err(StartError::Process("cannot be started: this program loads from one alone".to_owned()));
        }
        let crew = Crew::start(&self.options, &self.setup, Part::WHOLE)?;
        let begun = Instant::now();
        crew.together.begin(begun);
        let Crew { together, threads, messages, workers, script } = crew;
        let stop = Arc::clone(&together.stop);
        let Self { options, setup } = self;
        Ok(Running { options, setup, stop, threads, begun, messages, workers, processes: 1, script })
    }

    /// Starts it in as many processes as the plan says. Each is made by a command of `command`'s that calls [`crate::serve_part`]
    /// with its standard input and output; what it says on its standard error is the user's to see. One process alone is
    /// this one.
    pub fn start_with(self, command: impl FnMut() -> Command) -> Result<Running, StartError> {
        match self.setup.plan.processes {
            0 | 1 => self.start(),
            _ => processes::start(self.options, self.setup, command),
        }
    }
}

/// Which share of a load a process has. All workers of all processes are numbered through, and share requests, connections
/// and arrivals by that number alone: whether they live in one process or in several changes nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Part {
    /// From 0.
    pub(crate) index: usize,
    /// Processes in all.
    pub(crate) of: usize,
}

impl Part {
    pub(crate) const WHOLE: Self = Self { index: 0, of: 1 };

    /// Workers of each process: a thread without a connection to an address could not keep its share of the rate.
    pub(crate) fn workers(self, options: &Options, setup: &Setup) -> usize {
        options.threads.div_ceil(self.of).min(setup.connections_least() / self.of).max(1)
    }
}

/// The workers of this process, ready and waiting for the begin.
#[derive(Debug)]
pub(crate) struct Crew {
    pub(crate) together: Arc<Together>,
    pub(crate) threads: Vec<JoinHandle<()>>,
    pub(crate) messages: Receiver<Message>,
    /// How many there are.
    pub(crate) workers: usize,
    pub(crate) script: Option<Finished>,
}

impl Crew {
    /// Starts them; they are built, or have failed to be, when this returns.
    pub(crate) fn start(options: &Options, setup: &Arc<Setup>, part: Part) -> Result<Self, StartError> {
        let here = part.workers(options, setup);
        let (first, all) = (part.index * here, part.of * here);
        let stop = Arc::new(AtomicBool::new(false));
        let together = Arc::new(Together { begun: OnceLock::new(), stop: Arc::clone(&stop) });
        let (sender, messages) = channel();
        let mut script = None;
        let mut scripts = Vec::new();
        if let Some(given) = &options.script {
            let addresses: Vec<SocketAddr> = setup.groups.iter().map(|group| group.address).collect();
            let (host, prepared) = script::prepare(given, options, &addresses, here, &stop)?;
            (script, scripts) = (Some(Finished(host)), prepared);
        }
        let mut scripts = scripts.into_iter();
        let mut crew = Self { together, threads: Vec::new(), messages, workers: here, script };
        let mut failure = None;
        for index in first..first + here {
            let (setup, together, sender) = (Arc::clone(setup), Arc::clone(&crew.together), sender.clone());
            let (options, script) = (options.clone(), scripts.next());
            let work = move || {
                worker::run(&options, index, all, &together, &sender, |bench| {
                    Http::new(setup, &options, script, index, all, bench)
                });
            };
            match std::thread::Builder::new().name(format!("load-{index}")).spawn(work) {
                Ok(thread) => crew.threads.push(thread),
                Err(error) => failure = failure.or(Some(error)),
            }
        }
        for _ in 0..crew.threads.len() {
            // Each worker says so once; the channel cannot end before, as a sender is held here.
            let _ = crew.messages.recv();
        }
        drop(sender);
        if let Some(error) = failure {
            stop.store(true, Ordering::Relaxed);
            // Those that were started run, if only to see that they are to stop.
            crew.together.begin(Instant::now());
            crew.threads.drain(..).for_each(|thread| drop(thread.join()));
            return Err(StartError::Worker(error));
        }
        Ok(crew)
    }
}
