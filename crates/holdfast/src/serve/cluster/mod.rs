//! `holdfast ingress`: a controller and its data plane in one process without a master. Objects of a cluster become
//! generations here; endpoints reach the groups without one. The thread of the API server is in the crate `kubernetes`.

mod addresses;
mod authority;
mod configuration;
mod files;
mod host;
#[cfg(test)]
mod reuse_tests;
mod tree;

use super::engine::{Engine, EngineParts, set_descriptor_limit};
use super::log_files::LogFiles;
use super::sockets::Sockets;
use super::temp_directories::make_directories;
use crate::instance::{Instance, Wanted};
use crate::report;
use crate::signals::{Ask, Signals};
use crate::verdict::{Lasting, Prepared};
use addresses::Addresses;
pub(crate) use authority::AcmeStart;
use conf::Loader as _;
use configuration::{Candidate, Change, Frame, Made, make, owners_of_port};
use files::ClusterFiles;
use gateway::{Level, ListenerSpec};
use host::ClusterHost;
use ingress::{EndpointSource, Finding, Kind, Settings, Translation};
use kubernetes::{Coalescer, Controller, Options, Report};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use reactor::PeerAddress;
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _};
use std::path::PathBuf;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tree::ProcessLines;

/// Time between two checks of queues and deadlines, as in the other processes.
const LOOK_PERIOD: Duration = Duration::from_millis(100);
/// Time between two tries to open an address that is in use.
const PORT_RETRY: Duration = Duration::from_secs(5);
/// Most findings of one generation in the error log; all of them are Events.
const FINDINGS_LOGGED_MAX: usize = 20;
/// The name of the configuration in messages that belong to no object.
const NAME: &str = "/kubernetes/nginx.conf";

/// What the command line says.
pub(crate) struct Start {
    /// How objects are translated.
    pub(crate) settings: Settings,
    /// How the API server is followed.
    pub(crate) options: Options,
    /// The authority that certificates are ordered from; `None`: none is ordered.
    pub(crate) acme: Option<AcmeStart>,
    /// From the signal to the drain: load balancers notice within it that this replica is not ready.
    pub(crate) grace: Duration,
    /// From the drain to the end.
    pub(crate) shutdown_timeout: Duration,
}

/// Runs a replica until it is told to end; the result is the exit code.
pub(crate) fn run(start: Start) -> u8 {
    super::conclude(serve(start))
}

/// The end of a replica, step by step.
enum Ending {
    No,
    /// It serves, but is not ready any more.
    Grace(Instant),
    Draining,
}

/// What serves.
struct Serving {
    engine: Engine,
    /// Without its model, which nothing reads any more.
    prepared: Prepared,
}

struct Replica {
    host: Arc<ClusterHost>,
    controller: Rc<Controller>,
    frame: Frame,
    /// The files of the present generation.
    files: ClusterFiles,
    /// Those that it was bound with.
    bound_files: ClusterFiles,
    /// The next configuration is bound even if it is the present one.
    is_stale: bool,
    addresses: Addresses,
    lasting: Lasting,
    /// What translations share.
    memory: ingress::Memory,
    /// The endpoints of the configuration that is being made; read when it is bound.
    following: Rc<RefCell<BTreeMap<String, EndpointSource>>>,
    sockets: Sockets,
    serving: Option<Serving>,
    coalescer: Coalescer,
    /// Addresses that could not be opened.
    closed: Vec<ListenerSpec>,
    retry_at: Instant,
    told: BTreeSet<Finding>,
    refusal: Option<String>,
    grace: Duration,
    ending: Ending,
}

fn serve(start: Start) -> Result<(), String> {
    let signals = Signals::open().map_err(|error| format!("signalfd() failed {}", report::errno(&error)))?;
    let mut replica = Replica::new(start)?;
    let outcome = replica.control(&signals);
    replica.sockets.close();
    let ended = replica.serving.take().map_or(Ok(()), |serving| serving.engine.join());
    outcome.and(ended)
}

impl Replica {
    fn new(start: Start) -> Result<Self, String> {
        let Start { mut settings, mut options, acme, grace, shutdown_timeout } = start;
        options.acme = acme.map(authority::options).transpose()?;
        settings.acme = options.acme.is_some();
        settings.resolvers = tree::name_servers(&std::fs::read_to_string("/etc/resolv.conf").unwrap_or_default());
        if let Some(webhook) = &mut options.webhook {
            webhook.settings.clone_from(&settings);
        }
        let host = Arc::new(ClusterHost::new().map_err(|error| format!("eventfd() failed {}", report::errno(&error)))?);
        let lines = ProcessLines { workers: settings.workers, shutdown_seconds: shutdown_timeout.as_secs() };
        let frame = Frame { settings, lines, instance: instance()?, own_files: ClusterFiles::self_made()? };
        let controller = Rc::new(Controller::start(options, Arc::clone(&host) as _)?);
        let following = Rc::<RefCell<BTreeMap<_, _>>>::default();
        let before_bind = {
            let (host, controller, following) = (Arc::clone(&host), Rc::clone(&controller), Rc::clone(&following));
            move |registry| {
                host.set_registry(registry);
                controller.follow(&following.borrow());
            }
        };
        let lasting = Lasting::before_bind(before_bind);
        Ok(Self {
            host,
            controller,
            frame,
            files: ClusterFiles::default(),
            bound_files: ClusterFiles::default(),
            is_stale: false,
            addresses: Addresses::default(),
            lasting,
            memory: ingress::Memory::default(),
            following,
            sockets: Sockets::default(),
            serving: None,
            coalescer: Coalescer::default(),
            closed: Vec::new(),
            retry_at: Instant::now(),
            told: BTreeSet::new(),
            refusal: None,
            grace,
            ending: Ending::No,
        })
    }

    fn control(&mut self, signals: &Signals) -> Result<(), String> {
        loop {
            self.wait(signals)?;
            self.controller.is_alive();
            let now = Instant::now();
            if self.host.take() {
                self.coalescer.note(now);
            }
            while let Some(ask) = signals.next().map_err(|error| error.to_string())? {
                self.answer(ask, now);
            }
            self.proceed_to_end(now);
            if !matches!(self.ending, Ending::Draining) {
                self.retry_ports(now);
                if self.coalescer.take(now) {
                    self.renew()?;
                    self.coalescer.made(Instant::now());
                }
            }
            match &mut self.serving {
                None if matches!(self.ending, Ending::Draining) => return Ok(()),
                None => {}
                Some(serving) => {
                    serving.engine.look();
                    if serving.engine.is_finished() {
                        return Ok(());
                    }
                    if !matches!(self.ending, Ending::Draining) && serving.engine.lost_worker() {
                        serving.engine.log(Level::Alert, "a worker has ended unexpectedly");
                        serving.engine.stop();
                        self.ending = Ending::Draining;
                    }
                }
            }
        }
    }

    fn wait(&self, signals: &Signals) -> Result<(), String> {
        let mut watched = vec![signals.descriptor(), self.host.descriptor()];
        watched.extend(self.serving.iter().map(|serving| serving.engine.ended()));
        let mut watched: Vec<PollFd<'_>> = watched.into_iter().map(|it| PollFd::new(it, PollFlags::POLLIN)).collect();
        let due = self.coalescer.due_at().map_or(LOOK_PERIOD, |at| at.saturating_duration_since(Instant::now()));
        // Rounded up, so that the loop does not turn until the moment.
        let pause = due.min(LOOK_PERIOD).as_micros().div_ceil(1000) as u16;
        match poll(&mut watched, PollTimeout::from(pause)) {
            Ok(_) | Err(nix::errno::Errno::EINTR) => Ok(()),
            Err(error) => Err(format!("poll() failed {}", report::errno(&error.into()))),
        }
    }

    fn answer(&mut self, ask: Ask, now: Instant) {
        match ask {
            Ask::Terminate | Ask::Quit => match self.ending {
                Ending::No => {
                    self.log(Level::Notice, "the end begins: this replica is not ready any more");
                    self.controller.set_ready(false);
                    self.ending = Ending::Grace(now + self.grace);
                }
                Ending::Grace(_) => {}
                // Asked again while it drains: the operator does not want to wait.
                Ending::Draining => self.serving.iter_mut().for_each(|serving| serving.engine.stop()),
            },
            Ask::Interrupt => {
                self.controller.set_ready(false);
                self.ending = Ending::Draining;
                self.serving.iter_mut().for_each(|serving| serving.engine.stop());
            }
            Ask::Reopen => {
                if let Some(serving) = &mut self.serving {
                    match LogFiles::open(&serving.prepared) {
                        Ok(files) => serving.engine.reopen(files),
                        Err(message) => serving.engine.log(Level::Emerg, &message),
                    }
                }
            }
            Ask::Reload | Ask::Upgrade | Ask::Rest | Ask::Child => {}
        }
    }

    fn proceed_to_end(&mut self, now: Instant) {
        if let Ending::Grace(until) = self.ending
            && now >= until
        {
            self.ending = Ending::Draining;
            self.sockets.close();
            if let Some(serving) = &mut self.serving {
                serving.engine.log(Level::Notice, "no new connections are accepted, open requests are finished");
                serving.engine.drain();
            }
        }
    }

    /// An address may become free.
    fn retry_ports(&mut self, now: Instant) {
        let Some(serving) = self.serving.as_ref().filter(|_| !self.closed.is_empty() && now >= self.retry_at) else {
            return;
        };
        self.retry_at = now + PORT_RETRY;
        let workers = serving.prepared.process.as_ref().map_or(1, |process| process.child.workers);
        let (opened, failed) = self.sockets.open_each(&self.closed, workers);
        if failed.len() < self.closed.len() {
            // The next generation opens them again, and keeps them.
            self.is_stale = true;
            self.coalescer.note(now);
        }
        self.sockets.discard(&opened.bound);
    }

    /// Makes a configuration of the present objects, and serves it. Only an error of the first one that serves ends the
    /// process.
    fn renew(&mut self) -> Result<(), String> {
        let Some(mut cluster) = self.controller.cluster() else { return Ok(()) };
        self.addresses.complete(&mut cluster);
        let registry = self.lasting.existing();
        let pairs: BTreeSet<PathBuf> =
            registry.map(|it| it.certificate_files().into_iter().flatten().collect()).unwrap_or_default();
        let follow = |translation: &Translation| self.following.borrow_mut().clone_from(&translation.endpoints);
        let gateways = cluster.gateways.clone();
        let made = Made {
            tree: self.serving.as_ref().map(|serving| &serving.prepared.loaded.tree),
            is_stale: self.is_stale,
            files: &self.files,
            bound_files: &self.bound_files,
        };
        let made = make(
            cluster,
            &self.frame,
            made,
            |path| pairs.contains(path),
            &follow,
            (&mut self.lasting, &mut self.memory),
        );
        match made {
            Ok(candidate) => {
                self.refusal = None;
                self.addresses.note(&gateways, &candidate.translation);
                self.apply(candidate)
            }
            Err(message) => {
                self.controller.count_refusal();
                let message = format!("the objects give no valid configuration, the old one stays: {message}");
                if self.refusal.as_ref() != Some(&message) {
                    self.log(Level::Error, &message);
                    self.refusal = Some(message);
                }
                Ok(())
            }
        }
    }

    fn apply(&mut self, candidate: Candidate) -> Result<(), String> {
        let Candidate { mut translation, files, change } = candidate;
        match change {
            Change::Files(changed) => self.renew_certificates(&changed, files),
            Change::Tree(prepared) => {
                let findings = self.switch(*prepared, &translation)?;
                translation.findings.extend(findings);
                self.bound_files.clone_from(&files);
                (self.files, self.is_stale) = (files, false);
                self.controller.keep(&translation.endpoints);
                self.controller.count_generation();
            }
        }
        self.report_findings(&translation.findings);
        let ingresses = translation.owners.values().filter(|owner| owner.kind == Kind::Ingress).cloned().collect();
        let Translation { findings, statuses, certificates, .. } = translation;
        self.controller.report(Report { findings, statuses, ingresses }, certificates);
        Ok(())
    }

    /// New certificates at the same places: connections and generation stay.
    fn renew_certificates(&mut self, changed: &[PathBuf], files: ClusterFiles) {
        self.files = files;
        let (Some(registry), false) = (self.lasting.existing(), changed.is_empty()) else { return };
        let loader = RefCell::new(self.files.clone());
        let renewal = registry.renew_certificates(changed, &|path| loader.borrow_mut().read(path));
        for certificate in &renewal.renewed {
            self.log(Level::Notice, &format!("the certificate {certificate} has changed, and the new one is used"));
        }
        for trouble in &renewal.broken {
            self.log(Level::Error, &format!("{trouble}; the certificate that was read before stays in use"));
        }
        self.controller.count_renewals(renewal.renewed.len());
    }

    /// Serves a configuration. Returns findings about addresses that cannot be opened.
    fn switch(&mut self, mut prepared: Prepared, translation: &Translation) -> Result<Vec<Finding>, String> {
        prepared.model = None;
        if let Some(process) = &mut prepared.process {
            // The process keeps its user: a Pod has one already.
            process.child.owner = None;
        }
        let files = LogFiles::open(&prepared)?;
        make_directories(&prepared)?;
        let (Some(process), Some(plan)) = (&prepared.process, &mut prepared.plan) else {
            return Err("the configuration is not complete".to_owned());
        };
        let (opened, failed) = self.sockets.open_each(&plan.listeners, process.child.workers);
        let (closed, open) = std::mem::take(&mut plan.listeners)
            .into_iter()
            .partition::<Vec<_>, _>(|spec| failed.iter().any(|(id, _)| *id == spec.id));
        plan.listeners = open;
        let findings = closed
            .iter()
            .zip(&failed)
            .flat_map(|(spec, (_, message))| unopened(spec, message, &prepared.loaded.tree, translation));
        let findings: Vec<Finding> = findings.collect();
        let is_open = !plan.listeners.is_empty();
        let mut warnings = opened.warnings;
        let parts = EngineParts { process, plan, bound: &opened.bound, files, siblings: None };
        match (&mut self.serving, self.lasting.existing()) {
            (Some(serving), _) => serving.engine.reload(parts),
            (None, Some(registry)) => {
                warnings.extend(set_descriptor_limit(process));
                let engine = Engine::start(registry, parts)
                    .map_err(|error| format!("a thread could not be started: {error}"))?;
                engine.log(Level::Notice, "holdfast serves, in one process");
                self.serving = Some(Serving { engine, prepared: empty() });
            }
            (None, None) => return Err("the configuration is not bound".to_owned()),
        }
        warnings.extend(failed.into_iter().map(|(_, message)| message).filter(|_| self.closed.len() != closed.len()));
        warnings.extend(self.sockets.keep(opened.bound));
        self.host.set_generation(&plan.generation);
        for warning in &warnings {
            self.log(Level::Warn, warning);
        }
        (self.closed, self.retry_at) = (closed, Instant::now() + PORT_RETRY);
        if let Some(serving) = &mut self.serving {
            serving.prepared = prepared;
        }
        self.controller.set_ready(is_open && matches!(self.ending, Ending::No));
        Ok(findings)
    }

    /// New findings in the error log.
    fn report_findings(&mut self, findings: &[Finding]) {
        let all: BTreeSet<Finding> = findings.iter().cloned().collect();
        let new: Vec<&Finding> = all.difference(&self.told).collect();
        for finding in new.iter().take(FINDINGS_LOGGED_MAX) {
            let level = if finding.level == ingress::Level::Note { Level::Info } else { Level::Warn };
            self.log(level, &format!("{}: {}", finding.object, finding.message));
        }
        if new.len() > FINDINGS_LOGGED_MAX {
            self.log(Level::Warn, &format!("{} further findings are Events", new.len() - FINDINGS_LOGGED_MAX));
        }
        self.told = all;
    }

    fn log(&self, level: Level, message: &str) {
        match &self.serving {
            Some(serving) => serving.engine.log(level, message),
            None => report::complain(&format!("[{}] {message}", level.label())),
        }
    }
}

/// The configuration of a process before the first one.
fn empty() -> Prepared {
    let place = conf::source::Span { file: conf::source::FileId(0), start: 0, end: 0 };
    let tree = conf::tree::Block { directives: Vec::new(), open: place, close: place };
    Prepared {
        loaded: conf::Loaded::from_tree(tree, conf::source::SourceMap::default()),
        model: None,
        process: None,
        plan: None,
        diagnostics: Vec::new(),
        files: BTreeSet::new(),
    }
}

/// What a closed address means for the objects that want it.
fn unopened(spec: &ListenerSpec, message: &str, tree: &conf::tree::Block, translation: &Translation) -> Vec<Finding> {
    let PeerAddress::Ip(address) = &spec.address else { return Vec::new() };
    let owners = owners_of_port(tree, translation, address.port());
    let finding = |object| Finding {
        object,
        level: ingress::Level::Refused,
        reason: "Conflicted",
        message: format!("the port {} cannot be opened: {message}", address.port()),
    };
    owners.into_iter().map(finding).collect()
}

/// An instance without files of its own: temporary files and files of passwords are below a directory that only this user
/// may enter.
fn instance() -> Result<Instance, String> {
    let user = nix::unistd::geteuid();
    let prefix = std::env::temp_dir().join(format!("holdfast-ingress-{user}"));
    let failed = |error: std::io::Error| format!("{}: {}", prefix.display(), report::errno(&error));
    std::fs::DirBuilder::new().recursive(true).mode(0o700).create(&prefix).map_err(failed)?;
    let found = std::fs::symlink_metadata(&prefix).map_err(failed)?;
    if !found.is_dir() || found.uid() != user.as_raw() || found.mode() & 0o022 != 0 {
        return Err(format!("{} is not a directory of this user alone", prefix.display()));
    }
    let error_log = Some("stderr".into());
    Ok(Instance::find(&Wanted { conf_path: Some(NAME.into()), prefix: Some(prefix), globals: None, error_log }))
}
