//! From options to a load that runs: names are resolved and the plan is made before the first socket, then the workers are
//! started, in this process or (by `processes`) in several.

use crate::collect::Collected;
use crate::crew::{Crew, Part};
use crate::http::Http;
use crate::options::Options;
use crate::plan::Plan;
use crate::processes::{self, Work};
use crate::record::HttpRecord;
use crate::run::Running;
use crate::script::{self, Finished, WorkerScript};
use crate::setup::{Setup, StartError};
use crate::worker::{self, requests::Requests};
use std::net::SocketAddr;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

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
        let Self { options, setup } = self;
        let stop = Arc::new(AtomicBool::new(false));
        let (mut script, mut scripts) = (None, Vec::new());
        if let Some(given) = &options.script {
            let workers = Part::WHOLE.workers(options.threads, setup.connections_least());
            let (host, prepared) = script::prepare(given, &options, &setup.addresses(), workers, &stop)?;
            (script, scripts) = (Some(Finished(host)), prepared);
        }
        let crew = crew(&options, &setup, Part::WHOLE, stop, scripts)?;
        let collected = collected(crew.count(), &options);
        Ok(Running { options, setup, workers: crew.begin(collected), script })
    }

    /// Starts it in as many processes as the plan says. Each is made by a command of `command`'s that calls [`crate::serve_part`]
    /// with its standard input and output; what it says on its standard error is the user's to see. One process alone is
    /// this one.
    pub fn start_with(self, command: impl FnMut() -> Command) -> Result<Running, StartError> {
        let count = self.setup.plan.processes;
        if count <= 1 {
            return self.start();
        }
        let Self { options, setup } = self;
        let each = Part { index: 0, of: count }.workers(options.threads, setup.connections_least());
        let (mut script, mut threads) = (None, Vec::new());
        let stopped = Arc::new(AtomicBool::new(false));
        if let Some(given) = &options.script {
            let (host, starts) = script::set_up(given, &options, &setup.addresses(), count * each, &stopped)?;
            (script, threads) = (Some(Finished(host)), starts);
        }
        let work = Work::Http { options: Box::new(options.clone()), addresses: setup.addresses(), threads };
        let workers = processes::start(&work, count, each, command, collected(count * each, &options), |_| ())?;
        // By the script's `setup`.
        workers.stop.fetch_or(stopped.load(Ordering::Relaxed), Ordering::Relaxed);
        Ok(Running { options, setup, workers, script })
    }
}

/// What the records come to; with the room of the workers' own, since those that are alike are added in a tenth of the time.
fn collected(workers: usize, options: &Options) -> Collected<HttpRecord> {
    Collected::new(workers, *HttpRecord::new(options.targets.len()).make_room())
}

/// The workers of a part, in this process, each with its script if there is one.
pub(crate) fn crew(
    options: &Options,
    setup: &Arc<Setup>,
    part: Part,
    stop: Arc<AtomicBool>,
    scripts: Vec<WorkerScript>,
) -> Result<Crew<HttpRecord>, StartError> {
    let here = part.workers(options.threads, setup.connections_least());
    let mut scripts = scripts.into_iter();
    Crew::start(part, here, stop, |place| {
        let (setup, options, script) = (Arc::clone(setup), options.clone(), scripts.next());
        move || {
            let room = || HttpRecord::new(options.targets.len()).make_room();
            worker::run(&place, options.interval, room, |seat| {
                Requests::new(seat, &options, |bench| Http::new(setup, &options, script, bench))
            });
        }
    })
}
