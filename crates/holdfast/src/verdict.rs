//! Decides whether a configuration is valid, for `-t`, every start and every reload. From an instance it computes
//! everything that can be decided before a socket is bound.

use crate::explain::HostsFile;
use crate::instance::Instance;
use crate::process::{self, Part, Process};
use crate::serve::{LogFiles, make_directories};
use crate::{exit, report};
use conf::diagnostic::{self, Diagnostic, Severity};
use conf::model::{Model, Options};
use conf::{Loaded, Loader};
use gateway::{
    BoundPlan, ErrorLog, Level, LogPlace, LowerMemory, LowerOptions, ReadFile, Registry, Resolve, ZoneMemory,
};
use std::cell::RefCell;
use std::collections::BTreeSet;
use std::io;
use std::net::{SocketAddr, ToSocketAddrs};
use std::path::{Path, PathBuf};
use time::UtcOffset;
use tls::TicketState;

/// A configuration that was read, with the findings.
pub(crate) struct Prepared {
    /// Texts and tree.
    pub(crate) loaded: Loaded,
    /// The typed configuration; `None` if the text could not be parsed.
    pub(crate) model: Option<Model>,
    /// The settings of the process itself; `None` if they could not be resolved.
    pub(crate) process: Option<Process>,
    /// The plan for workers and sockets; `None` if there is an error.
    pub(crate) plan: Option<BoundPlan>,
    /// All findings, in the order of the text.
    pub(crate) diagnostics: Vec<Diagnostic>,
    /// Other files that were read with the configuration: certificates, keys, lists.
    pub(crate) files: BTreeSet<PathBuf>,
}

impl Prepared {
    /// Whether a start may use it.
    pub(crate) fn is_ok(&self) -> bool {
        self.process.is_some() && self.plan.is_some() && sound(&self.diagnostics)
    }
}

/// Whether a log goes to standard error, which nginx then does not redirect.
fn uses_stderr(process: &Process, plan: &BoundPlan) -> bool {
    let errors = process.error_logs.iter().chain(plan.error_logs.iter().flat_map(|log| &log.targets));
    let accesses = plan.logs.iter().map(|log| log.sink.place());
    errors.map(|target| &target.place).chain(accesses).any(|place| *place == LogPlace::Stderr)
}

/// Offset of local time from UTC, for the logs; 0 if it cannot be determined. Read before the first thread starts: the
/// time zone is in the environment, which other threads could change.
pub(crate) fn local_offset_minutes() -> i16 {
    UtcOffset::current_local_offset().map_or(0, UtcOffset::whole_minutes)
}

/// State that outlives configurations in one process. It is never freed, so a process has only one.
#[derive(Default)]
pub(crate) struct Lasting {
    registry: Option<&'static Registry>,
    /// Ticket keys of another process: the next configuration is bound with them.
    pub(crate) tickets: Vec<TicketState>,
    /// Which of the processes this one is; `None` in the master and where no process serves.
    pub(crate) part: Option<Part>,
    /// The memory of zones that this process shares with others.
    pub(crate) zones: Vec<ZoneMemory>,
    /// Names are looked up here only, and no name server is asked.
    pub(crate) hosts: Option<HostsFile>,
    /// What configurations that are made one after another share; `None` for those that are read from files.
    pub(crate) reuse: Option<Reuse>,
    /// Called before each configuration is bound: the names that this process answers must be known by then.
    pub(crate) before_bind: Option<Box<dyn Fn(&'static Registry)>>,
}

/// What is known of the configuration before, step by step.
#[derive(Default)]
pub(crate) struct Reuse {
    model: conf::reuse::Memory,
    plan: LowerMemory,
}

impl Lasting {
    /// For a process that checks configurations and runs no workers.
    pub(crate) fn without_workers() -> io::Result<Self> {
        Ok(Self { registry: Some(Registry::leak(1, ErrorLog::new(Level::Emerg, 0))?), ..Self::default() })
    }

    /// For a process that explains a request: it asks no name server, and its log keeps all lines about requests.
    pub(crate) fn offline(hosts: HostsFile) -> io::Result<Self> {
        let registry = Some(Registry::leak(1, ErrorLog::new(Level::Info, 0))?);
        Ok(Self { registry, hosts: Some(hosts), ..Self::default() })
    }

    /// For a process that makes its configurations and answers names itself.
    #[cfg(feature = "kubernetes")]
    pub(crate) fn before_bind(call: impl Fn(&'static Registry) + 'static) -> Self {
        Self { before_bind: Some(Box::new(call)), reuse: Some(Reuse::default()), ..Self::default() }
    }

    /// The next configuration shares nothing with the one before.
    #[cfg(feature = "kubernetes")]
    pub(crate) fn forget(&mut self) {
        self.reuse = self.reuse.take().map(|_| Reuse::default());
    }

    /// The registry; the first configuration that needs it makes it.
    fn registry(&mut self, process: &Process) -> io::Result<&'static Registry> {
        if let Some(registry) = self.registry {
            return Ok(registry);
        }
        let log = ErrorLog::new(process.child.error_level, local_offset_minutes());
        let registry = Registry::leak_part(process.child.workers, log, process.share)?;
        Ok(*self.registry.insert(registry))
    }

    /// The registry, if it exists already.
    pub(crate) fn existing(&self) -> Option<&'static Registry> {
        self.registry
    }
}

/// Reads, checks, lowers and binds. If several things are wrong, one run finds as many as possible.
pub(crate) fn prepare(instance: &Instance, loader: &mut dyn Loader, lasting: &mut Lasting) -> Prepared {
    let loaded = conf::load(&instance.conf_path, &instance.prefix, instance.globals.as_deref(), loader);
    prepare_loaded(loaded, instance, loader, lasting)
}

/// The same for a configuration that is loaded already; `holdfast ingress` makes one without a text.
pub(crate) fn prepare_loaded(
    mut loaded: Loaded,
    instance: &Instance,
    loader: &mut dyn Loader,
    lasting: &mut Lasting,
) -> Prepared {
    let mut found = std::mem::take(&mut loaded.diagnostics);
    let parsed = sound(&found);
    found.extend(match &mut lasting.reuse {
        Some(reuse) => conf::check_reusing(&loaded, conf::table::all(), &mut reuse.model),
        None => conf::check(&loaded, conf::table::all()),
    });
    let mut prepared =
        Prepared { loaded, model: None, process: None, plan: None, diagnostics: Vec::new(), files: BTreeSet::new() };
    if parsed {
        let options = Options { privileged: nix::unistd::geteuid().is_root() };
        let Loaded { tree, sources, .. } = &prepared.loaded;
        let (model, more) = match &mut lasting.reuse {
            Some(reuse) => conf::model::lower_reusing(tree, sources, options, &mut reuse.model),
            None => conf::model::lower_with(tree, sources, options),
        };
        found.extend(more);
        let hosts = lasting.hosts.take();
        let resolve = |name: &str, port: u16| match &hosts {
            Some(hosts) => Ok(hosts.resolve(name, port)),
            None => resolve(name, port),
        };
        prepared.process =
            process::lower_process(&model, &prepared.loaded, instance, lasting.part, &resolve, &mut found);
        if let (Some(process), true) = (&prepared.process, sound(&found)) {
            let (loader, files) = (RefCell::new(loader), RefCell::default());
            let read = |path: &Path| {
                BTreeSet::insert(&mut files.borrow_mut(), path.to_path_buf());
                loader.borrow_mut().read(path)
            };
            prepared.plan = bind_gateway(&model, process, (&prepared.loaded, &read, &resolve), lasting, &mut found);
            prepared.files = files.into_inner();
        }
        if let (Some(process), Some(plan)) = (&mut prepared.process, &prepared.plan) {
            process.child.uses_stderr = uses_stderr(process, plan);
            process.child.transparent = plan.transparent;
        }
        lasting.hosts = hosts;
        prepared.model = Some(model);
    }
    diagnostic::sort(&mut found);
    // A setting that several levels inherit is lowered once for each of them.
    found.dedup();
    // A directive with the note "has no effect here" often depends on a directive that was refused. The notes return
    // once the errors are fixed.
    if !sound(&found) {
        found.retain(|found| found.severity > Severity::Note);
    }
    prepared.diagnostics = found;
    prepared
}

fn sound(found: &[Diagnostic]) -> bool {
    found.iter().all(|found| found.severity < Severity::Error)
}

fn bind_gateway(
    model: &Model,
    process: &Process,
    (loaded, read, resolve): (&Loaded, ReadFile<'_>, Resolve<'_>),
    lasting: &mut Lasting,
    found: &mut Vec<Diagnostic>,
) -> Option<BoundPlan> {
    let registry = match lasting.registry(process) {
        Ok(registry) => registry,
        Err(error) => {
            found.push(Diagnostic::error(process::place(model), format!("eventfd() failed {}", report::errno(&error))));
            return None;
        }
    };
    registry.adopt_tickets(&lasting.tickets);
    registry.adopt_zones(std::mem::take(&mut lasting.zones));
    if let Some(before_bind) = &lasting.before_bind {
        before_bind(registry);
    }
    let known_pairs = registry.known_pairs();
    let options = LowerOptions {
        prefix: loaded.prefix.clone(),
        workers: registry.workers() as u16,
        share: process.share,
        hostname: hostname(),
        resolve,
        now_s: reactor::wall_clock().as_secs(),
        conf_directory: loaded.conf_prefix.clone(),
        read,
        known_pairs: &known_pairs,
    };
    let lowered = match &mut lasting.reuse {
        Some(reuse) => gateway::lower_reusing(model, &options, &mut reuse.plan),
        None => gateway::lower(model, &options),
    };
    let bound = lowered.and_then(|lowered| {
        found.extend(lowered.warnings);
        registry.bind(lowered.plan)
    });
    bound.map_err(|errors| found.extend(errors)).ok()
}

/// The machine's name.
pub(crate) fn hostname() -> String {
    nix::unistd::gethostname().unwrap_or_default().to_string_lossy().into_owned()
}

/// The system's resolver, which may block: nginx also uses it at start and reload.
pub(crate) fn resolve(name: &str, port: u16) -> io::Result<Vec<SocketAddr>> {
    Ok((name, port).to_socket_addrs()?.collect())
}

/// Output of `-t`.
#[derive(Debug, Clone, Copy)]
pub(crate) struct TestOutput {
    /// As JSON.
    pub(crate) json: bool,
    /// Only errors.
    pub(crate) quiet: bool,
    /// With all files (`-T`).
    pub(crate) dump: bool,
}

/// `-t` and `-T`: the result is the exit code.
pub(crate) fn test(instance: &Instance, output: TestOutput) -> u8 {
    let mut prepared = match Lasting::without_workers() {
        Ok(mut lasting) => prepare(instance, &mut instance.loader(), &mut lasting),
        Err(error) => {
            report::complain(&format!("[emerg] eventfd() failed {}", report::errno(&error)));
            return exit::FAILED;
        }
    };
    if output.quiet {
        prepared.diagnostics.retain(|found| found.severity == Severity::Error);
    }
    let main = prepared.loaded.main.clone();
    if output.json {
        report::verdict_json(&prepared);
    } else {
        report::diagnostics(&prepared);
    }
    // As in nginx, `-t` finds a log that cannot be opened or a directory that cannot be made.
    let opened = || LogFiles::open(&prepared).and_then(|_| make_directories(&prepared));
    let files = if prepared.is_ok() { opened() } else { Ok(()) };
    if let Err(message) = &files {
        report::complain(&format!("[emerg] {message}"));
    }
    if !prepared.is_ok() || files.is_err() {
        report::say(&conf::verdict::test_failed(&main));
        return exit::FAILED;
    }
    if !output.quiet && !output.json {
        report::say(&conf::verdict::syntax_ok(&main));
        report::say(&conf::verdict::test_successful(&main));
    }
    if output.dump && !output.json {
        report::print(&conf::verdict::dump(&prepared.loaded.sources));
    }
    exit::OK
}
