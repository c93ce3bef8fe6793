//! A load over HTTP, from its options to its summary. Names are resolved and the plan is made before the first socket.
//! `run` starts the workers, in this process or in several.

use crate::collect::Collected;
use crate::crew::{Crew, Part};
use crate::http::Http;
use crate::options::{Options, Pace};
use crate::pace::Schedule;
use crate::plan::{Limits, Plan};
use crate::processes::Work;
use crate::record::HttpRecord;
use crate::run::{Kind, LoadKind, PreparedLoad, Ran, RunningLoad};
use crate::script::{self, Finished, WorkerScript};
use crate::setup::{Setup, StartError};
use crate::summary::Summary;
use crate::worker::{self, requests::Requests};
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

/// A load over HTTP.
#[derive(Debug)]
pub struct HttpLoad {
    options: Options,
    setup: Arc<Setup>,
    script: Option<Finished>,
}

/// A load over HTTP that is ready to begin.
pub type Prepared = PreparedLoad<HttpLoad>;
/// A running load over HTTP.
pub type Running = RunningLoad<HttpLoad>;

/// Resolves names and computes what the load will need. If the load cannot fit, it is refused, unless [`Options::plan`] is
/// `false`.
pub fn prepare(options: Options) -> Result<Prepared, StartError> {
    prepare_within(options, &Limits::read())
}

/// The same, within the limits of the machines that will run the load.
pub fn prepare_within(options: Options, limits: &Limits) -> Result<Prepared, StartError> {
    let setup = Arc::new(Setup::new(&options, None, limits)?);
    PreparedLoad::new(HttpLoad { options, setup, script: None })
}

/// Starts a load in this process.
pub fn start(options: Options) -> Result<Running, StartError> {
    prepare(options)?.start()
}

impl LoadKind for HttpLoad {
    type Record = HttpRecord;
    type Summary = Summary;
}

impl Kind for HttpLoad {
    fn plan(&self) -> &Plan {
        &self.setup.plan
    }

    fn interval(&self) -> Duration {
        self.options.interval
    }

    fn warm_up_intervals(&self) -> u64 {
        self.options.warm_up_intervals()
    }

    fn addresses(&self) -> Vec<SocketAddr> {
        self.setup.addresses()
    }

    fn shares(&self) -> (usize, usize) {
        (self.options.threads, self.setup.connections_least())
    }

    /// With the same histogram sizes as the workers' records, because adding equal sizes takes a tenth of the time.
    fn empty(&self) -> HttpRecord {
        *HttpRecord::new(self.options.targets.len()).make_room()
    }

    fn crew(&mut self) -> Result<Crew<HttpRecord>, StartError> {
        let Self { options, setup, script } = self;
        let stop = Arc::new(AtomicBool::new(false));
        let mut scripts = Vec::new();
        if let Some(given) = &options.script {
            let workers = Part::WHOLE.workers(options.threads, setup.connections_least());
            let (host, prepared) = script::prepare(given, options, &setup.addresses(), workers, &stop)?;
            (*script, scripts) = (Some(Finished(host)), prepared);
        }
        crew(options, setup, Part::WHOLE, stop, scripts)
    }

    fn work(&mut self, workers: usize, stop: &Arc<AtomicBool>) -> Result<Work, StartError> {
        let (options, addresses) = (&self.options, self.setup.addresses());
        let mut threads = Vec::new();
        if let Some(given) = &options.script {
            let (host, starts) = script::set_up(given, options, &addresses, workers, stop)?;
            (self.script, threads) = (Some(Finished(host)), starts);
        }
        Ok(Work::Http { options: Box::new(options.clone()), addresses, threads })
    }

    fn sum_up(self, mut ran: Ran<HttpRecord>) -> io::Result<Summary> {
        let Self { options, setup, script } = self;
        if let Some(Finished(host)) = &script {
            for (worker, globals) in std::mem::take(&mut ran.collected.scripts) {
                host.restore(worker, &globals).map_err(io::Error::other)?;
            }
        }
        let warm_up_ns = u128::from(options.warm_up_intervals()) * options.interval.as_nanos();
        let warm_up = Duration::from_nanos(u64::try_from(warm_up_ns).unwrap_or(u64::MAX));
        let elapsed = elapsed(&options, &ran).saturating_sub(warm_up);
        let Collected { whole, lost, marks, agents, processors, failure, .. } = ran.collected;
        Ok(Summary {
            addresses: setup.addresses(),
            threads: ran.threads,
            processes: ran.processes,
            plan: setup.plan.clone(),
            lost,
            marks,
            agents,
            record: whole,
            processors,
            elapsed,
            stopped: ran.is_early && failure.is_none(),
            failure,
            script,
            options,
        })
    }
}

/// Length of the run: to the last response or to the end of the duration, the later of the two.
fn elapsed(options: &Options, ran: &Ran<HttpRecord>) -> Duration {
    let planned = match &options.pace {
        Pace::Open { .. } if options.requests.is_some() => None,
        Pace::Open { stages, .. } => Some(Schedule::new(stages.clone()).duration()),
        Pace::Closed { .. } => options.duration,
    };
    let completed = Duration::from_nanos(ran.collected.completed_ns);
    let ended = Duration::from_nanos(ran.collected.ended_ns);
    match planned {
        _ if ran.is_early => ended,
        _ if completed.is_zero() => ended.max(planned.unwrap_or_default()),
        // An open loop ends with its schedule, even if its last response came before that.
        Some(planned) if options.pace.is_open() || planned <= ended => completed.max(planned),
        // With a number of requests the run ends at the last response.
        _ => completed,
    }
}

/// The workers of a part in this process, each with its script if there is one.
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
