//! The working part of a process: worker threads, the log writer, and the orders to them. Knows nothing of signals and
//! other processes; driven by `single` and by `child`.

use super::ended::{Ended, Running};
use super::log_files::LogFiles;
use super::log_writer::LogWriter;
use super::queue_watch::QueueWatch;
use super::retired::Retired;
use super::siblings::{self, Landing, ListenerNames, Published};
use super::sockets::{Bound, share_of};
use crate::process::Process;
use crate::worker_groups::DESCRIPTORS_BESIDE;
use control::Control;
use gateway::{BoundPlan, Generation, Level, ListenerId, ListenerSpec, Message, Registry};
use reactor::{Listener, PeerAddress};
use std::io;
use std::os::fd::BorrowedFd;
use std::sync::{Arc, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// The figures of other processes on a status page are at most this old, and so much of them is lost when a process is killed.
const PUBLISH_PERIOD: Duration = Duration::from_millis(500);

/// A running gateway.
pub(super) struct Engine {
    registry: &'static Registry,
    /// Which of the processes this one is.
    index: u16,
    /// The current configuration.
    generation: Arc<Generation>,
    earlier: Retired<Generation>,
    workers: Vec<JoinHandle<io::Result<()>>>,
    ended: Arc<Ended>,
    listening: Vec<ListenerSpec>,
    writer: LogWriter,
    queues: QueueWatch,
    /// The names of `listening`, for connections that other processes accepted.
    names: ListenerNames,
    landing: Option<Landing>,
    /// When the figures of this process were published last.
    published: Instant,
    /// The control plane, which ends with the engine.
    _control: Control,
    shutdown_timeout: Duration,
    /// While it drains, the time at which the remaining work is ended.
    deadline: Option<Instant>,
}

/// The parts that a configuration provides.
pub(super) struct EngineParts<'a> {
    pub(super) process: &'a Process,
    pub(super) plan: &'a BoundPlan,
    pub(super) bound: &'a [Bound],
    pub(super) files: LogFiles,
    /// The other processes on the same listeners; only at the start.
    pub(super) siblings: Option<(siblings::Belongings, Published)>,
}

impl Engine {
    /// Starts the threads.
    pub(super) fn start(registry: &'static Registry, parts: EngineParts<'_>) -> io::Result<Self> {
        let EngineParts { process, plan, bound, files, siblings } = parts;
        let writer = LogWriter::start(registry, plan, process.error_logs.clone(), files)?;
        let mut engine = Self {
            registry,
            index: process.share.index,
            generation: Arc::clone(&plan.generation),
            earlier: Retired::default(),
            workers: Vec::new(),
            ended: Ended::new()?,
            listening: plan.listeners.clone(),
            writer,
            queues: QueueWatch::new(sockets_of(bound).filter(|_| process.share.index == 0)),
            names: ListenerNames::default(),
            landing: None,
            published: Instant::now(),
            _control: Control::start(registry)?,
            shutdown_timeout: process.shutdown_timeout,
            deadline: None,
        };
        engine.name_listeners();
        if let Some((siblings, published)) = siblings {
            let landing = Landing::start(registry, engine.index, siblings, Arc::clone(&engine.names))?;
            landing.set_published(published);
            engine.landing = Some(landing);
        }
        for worker in 0..registry.workers() as u16 {
            let listeners = engine.listeners_of(worker, bound);
            let generation = Arc::clone(&plan.generation);
            let place = process.share.index * registry.workers() as u16 + worker;
            let processors = processors_of(place, &process.child.processors);
            let running = Running(Arc::clone(&engine.ended));
            let work = move || {
                let _running = running;
                pin(&processors);
                gateway::run(worker, registry, generation, listeners)
            };
            let thread = std::thread::Builder::new().name(format!("worker {worker}")).spawn(work)?;
            engine.workers.push(thread);
        }
        Ok(engine)
    }

    fn name_listeners(&self) {
        let names = self.listening.iter().filter(|spec| !spec.options.datagrams);
        let names = names.map(|spec| (spec.address.to_string(), spec.id)).collect();
        *self.names.lock().unwrap_or_else(PoisonError::into_inner) = names;
    }

    /// The sockets that a worker accepts from.
    fn listeners_of(&self, worker: u16, bound: &[Bound]) -> Vec<(ListenerId, Arc<Listener>)> {
        let mut listeners = Vec::new();
        for spec in &self.listening {
            // The datagrams of a client belong to one session, so one process has the socket.
            if spec.options.datagrams && self.index > 0 {
                continue;
            }
            let Some(bound) = bound.iter().find(|bound| bound.is_of(&spec.address, &spec.options)) else { continue };
            let (workers, sockets) = (self.registry.workers() as u16, bound.listeners.len());
            for index in share_of(worker, workers, sockets, spec.options.datagrams, spec.id.0) {
                listeners.extend(bound.listeners.get(index).map(|listener| (spec.id, Arc::clone(listener))));
            }
        }
        listeners
    }

    /// Replaces the current configuration. Connections stay open.
    pub(super) fn reload(&mut self, parts: EngineParts<'_>) {
        let EngineParts { process, plan, bound, files, .. } = parts;
        self.writer.reload(plan, process.error_logs.clone(), files);
        let first = self.index == 0;
        self.queues.watch(sockets_of(bound).filter(|_| first));
        self.shutdown_timeout = process.shutdown_timeout;
        self.earlier.keep(std::mem::replace(&mut self.generation, Arc::clone(&plan.generation)));
        let old = std::mem::take(&mut self.listening);
        self.listening.clone_from(&plan.listeners);
        // Every worker gets the configuration first: one worker may pass another a connection of a new address.
        for worker in 0..self.registry.workers() {
            self.registry.send(worker, Message::Reload(Arc::clone(&plan.generation)));
        }
        for worker in 0..self.registry.workers() {
            for (id, listener) in self.listeners_of(worker as u16, bound) {
                if !old.iter().any(|known| known.id == id) {
                    self.registry.send(worker, Message::Listen(id, listener));
                }
            }
            for gone in old.iter().filter(|gone| !self.listening.iter().any(|spec| spec.id == gone.id)) {
                self.registry.send(worker, Message::Unlisten(gone.id));
            }
        }
        self.name_listeners();
    }

    /// The current configuration.
    pub(super) fn generation(&self) -> &Arc<Generation> {
        &self.generation
    }

    /// Continues in newly opened logs.
    pub(super) fn reopen(&self, files: LogFiles) {
        self.writer.reopen(files);
    }

    /// Stops accepting, and ends when all open work has ended or `worker_shutdown_timeout` is over.
    pub(super) fn drain(&mut self) {
        self.landing.iter().for_each(Landing::close);
        self.queues.watch(std::iter::empty());
        // Authorities validate at the process that accepts.
        self.registry.acme().stop();
        self.send_all(|| Message::Drain);
        if !self.shutdown_timeout.is_zero() {
            self.deadline = Some(Instant::now() + self.shutdown_timeout);
        }
    }

    /// Ends now.
    pub(super) fn stop(&mut self) {
        self.landing.iter().for_each(Landing::close);
        self.queues.watch(std::iter::empty());
        self.deadline = None;
        self.send_all(|| Message::Stop);
    }

    fn send_all(&self, message: impl Fn() -> Message) {
        for worker in 0..self.registry.workers() {
            self.registry.send(worker, message());
        }
    }

    /// Periodic checks; also to be called when [`Self::ended`] is readable.
    pub(super) fn look(&mut self) {
        self.ended.hush();
        self.earlier.free_unused();
        self.queues.look(self.registry);
        if self.landing.is_some() && self.published.elapsed() >= PUBLISH_PERIOD {
            self.publish();
        }
    }

    /// Publishes the figures of this process for the others.
    pub(super) fn publish(&mut self) {
        self.published = Instant::now();
        gateway::publish_figures(self.registry, &self.generation);
    }

    /// What the other processes publish.
    pub(super) fn set_published(&self, published: Published) {
        if let Some(landing) = &self.landing {
            landing.set_published(published);
        }
    }

    /// Checks the deadline of a drain; `true` when all workers have ended.
    pub(super) fn is_finished(&mut self) -> bool {
        if self.deadline.is_some_and(|deadline| Instant::now() >= deadline) {
            self.log(Level::Warn, "worker_shutdown_timeout is over, connections are closed");
            self.stop();
        }
        self.ended.count() >= self.workers.len()
    }

    /// Whether a worker has ended without an order.
    pub(super) fn lost_worker(&self) -> bool {
        self.ended.count() > 0
    }

    /// Readable when a worker has ended since the last [`Self::look`].
    pub(super) fn ended(&self) -> BorrowedFd<'_> {
        self.ended.descriptor()
    }

    /// Writes a line to the error log.
    pub(super) fn log(&self, level: Level, message: &str) {
        self.registry.error_log().log(level, message);
    }

    /// Waits for the workers and writes the rest of the logs; an error is that of the first worker that failed.
    pub(super) fn join(mut self) -> Result<(), String> {
        if let Some(landing) = self.landing.take() {
            landing.end();
        }
        let mut outcome = Ok(());
        for (worker, thread) in self.workers.into_iter().enumerate() {
            let ended = match thread.join() {
                Ok(Ok(())) => continue,
                Ok(Err(error)) => error.to_string(),
                Err(_) => "it panicked".to_owned(),
            };
            let message = format!("worker {worker} has failed: {ended}");
            self.registry.error_log().log(Level::Alert, &message);
            outcome = outcome.and(Err(message));
        }
        self.writer.end();
        outcome
    }
}

fn sockets_of(bound: &[Bound]) -> impl Iterator<Item = (PeerAddress, Arc<Listener>)> {
    bound.iter().flat_map(|bound| bound.listeners.iter().map(|listener| (bound.address.clone(), Arc::clone(listener))))
}

/// Sets the limit of descriptors to the configured number or, without one, raises it as far as possible. Returns a
/// warning if it is too low for the connections that the configuration allows.
pub(super) fn set_descriptor_limit(process: &Process) -> Option<String> {
    let hard = reactor::descriptor_limit().map_or(0, |(_, hard)| hard);
    let wanted = process.child.descriptors.unwrap_or(hard);
    let granted = match reactor::set_descriptor_limit(wanted) {
        Ok(granted) => granted,
        Err(error) => {
            return Some(format!("setrlimit(RLIMIT_NOFILE, {wanted}) failed {}", crate::report::errno(&error)));
        }
    };
    if process.child.descriptors.is_some_and(|wanted| granted < wanted) {
        return Some(format!(
            "worker_rlimit_nofile {wanted} is above the hard limit; {granted} descriptors are granted"
        ));
    }
    let connections = u64::from(process.worker_connections) * u64::from(process.child.workers);
    let needed = connections * 2 + DESCRIPTORS_BESIDE;
    (granted < needed).then(|| {
        format!(
            "{} worker_connections exceed open file resource limit: {} workers may need {needed} descriptors (two for a \
             proxied connection), {granted} are granted; raise the hard limit (ulimit -Hn) or worker_rlimit_nofile",
            process.worker_connections, process.child.workers
        )
    })
}

/// The processors of a worker; the last entry serves the workers beyond the list.
fn processors_of(worker: u16, all: &[Vec<u32>]) -> Vec<u32> {
    all.get(usize::from(worker)).or(all.last()).cloned().unwrap_or_default()
}

fn pin(processors: &[u32]) {
    let mut set = nix::sched::CpuSet::new();
    let known = processors.iter().filter(|&&processor| set.set(processor as usize).is_ok()).count();
    if known > 0 {
        // The call fails if the processor does not exist or a container withholds it: the worker runs anywhere then.
        let _ = nix::sched::sched_setaffinity(nix::unistd::Pid::from_raw(0), &set);
    }
}
