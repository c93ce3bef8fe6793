//! `master_process off`: one process does everything, including signals. For development, containers and quick mode. It
//! keeps its privileges (except in quick mode) and its number of workers for life.

use super::adoption;
use super::certificate_watch::{self, CertificateWatch};
use super::channel::Kind;
use super::engine::{Engine, EngineParts, set_descriptor_limit};
use super::log_files::LogFiles;
use super::order::{Remembering, Texts};
use super::pid_file::PidFile;
use super::privileges::become_owner;
use super::service_manager::{Notifier, status_text};
use super::sockets::Sockets;
use super::temp_directories::make_directories;
use crate::instance::Instance;
use crate::report;
use crate::signals::{Ask, Signals};
use crate::verdict::{Lasting, Prepared, prepare};
use conf::Loader as _;
use gateway::Level;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use std::cell::RefCell;
use std::path::Path;
use std::time::Instant;

/// Time between two checks of queues and deadlines, and so the longest delay of a due action.
const LOOK_PERIOD_MS: u16 = 100;

/// The state of the process.
struct Single<'a> {
    instance: &'a Instance,
    lasting: Lasting,
    sockets: Sockets,
    engine: Engine,
    prepared: Prepared,
    /// The texts of the configuration.
    texts: Texts,
    pid_file: PidFile,
    ending: bool,
    certificates: CertificateWatch,
    service: Notifier,
}

/// Runs until told to end; the error is for standard error.
pub(super) fn run(
    instance: &Instance,
    (prepared, texts): (Prepared, Texts),
    lasting: Lasting,
    ready: impl FnOnce(),
) -> Result<(), String> {
    let (Some(process), Some(plan), Some(registry)) = (&prepared.process, &prepared.plan, lasting.existing()) else {
        return Err("the configuration is not complete".to_owned());
    };
    let signals = Signals::open().map_err(|error| format!("signalfd() failed {}", report::errno(&error)))?;
    let limit = set_descriptor_limit(process);
    let files = LogFiles::open(&prepared)?;
    make_directories(&prepared)?;
    let (mut sockets, mut troubles) = Sockets::inherited();
    let (service, trouble) = Notifier::at_start(Instant::now());
    troubles.extend(trouble);
    let unmatched = sockets.unmatched(&plan.listeners);
    for warning in &unmatched {
        // Before the sockets are opened: an address in use may have this cause.
        report::warn_at_start(process, warning);
        registry.error_log().log(Level::Warn, warning);
    }
    let adopted = adoption::adopt_by_pid_file(&process.pid_path, &mut sockets);
    let opened = sockets.open_patiently(&plan.listeners, process.child.workers)?;
    for warning in opened.warnings.iter().chain(&limit).chain(&troubles) {
        report::warn_at_start(process, warning);
        registry.error_log().log(Level::Warn, warning);
    }
    let pid_file = PidFile::write(&process.pid_path)?;
    if let (Some(owner), true) = (&process.child.owner, instance.text.is_some()) {
        // In quick mode no user is configured, and everything that needed root is open.
        become_owner(owner, process.child.transparent)?;
    }
    let parts = EngineParts { process, plan, bound: &opened.bound, files, siblings: None };
    let engine = Engine::start(registry, parts).map_err(|error| format!("a thread could not be started: {error}"))?;
    for trouble in sockets.keep(opened.bound) {
        engine.log(Level::Error, &trouble);
    }
    sockets.shared = false;
    for child in adopted {
        let _ = child.send(Kind::Drain, "");
    }
    engine.log(Level::Notice, "holdfast serves, in one process");
    ready();
    let certificates = CertificateWatch::default();
    let mut single =
        Single { instance, lasting, sockets, engine, prepared, texts, pid_file, ending: false, certificates, service };
    single.service.ready();
    let outcome = single.serve(&signals);
    single.sockets.close();
    let ended = single.engine.join();
    outcome.and(ended)
}

impl Single<'_> {
    fn serve(&mut self, signals: &Signals) -> Result<(), String> {
        loop {
            let mut watched = [signals.descriptor(), self.engine.ended()].map(|it| PollFd::new(it, PollFlags::POLLIN));
            match poll(&mut watched, PollTimeout::from(LOOK_PERIOD_MS)) {
                Ok(_) | Err(nix::errno::Errno::EINTR) => {}
                Err(error) => return Err(format!("poll() failed {}", report::errno(&error.into()))),
            }
            while let Some(ask) = signals.next().map_err(|error| error.to_string())? {
                self.answer(ask);
            }
            self.engine.look();
            self.look_at_certificates();
            self.look_at_service();
            if self.engine.is_finished() {
                return Ok(());
            }
            if !self.ending && self.engine.lost_worker() {
                self.engine.log(Level::Alert, "a worker has ended unexpectedly");
                self.ending = true;
                self.engine.stop();
            }
        }
    }

    fn look_at_service(&mut self) {
        let now = Instant::now();
        self.service.turn(now);
        if self.service.wants_status(now)
            && let Some(registry) = self.lasting.existing()
        {
            self.service.status(&status_text(self.ending, &registry.totals()));
        }
    }

    fn look_at_certificates(&mut self) {
        let (Some(registry), false) = (self.lasting.existing(), self.ending) else { return };
        let now = Instant::now();
        let log = |level, message: &str| self.engine.log(level, message);
        if self.certificates.is_warning_due(now) {
            certificate_watch::warn(registry, log);
        }
        let changed = self.certificates.look(now, registry, &self.prepared.files);
        if !changed.pairs.is_empty() {
            let loader = RefCell::new(Remembering { inner: self.instance.loader(), texts: Texts::default() });
            let read = |path: &Path| loader.borrow_mut().read(path);
            let sound = certificate_watch::renew(registry, &changed.pairs, &read, log);
            let mut texts = loader.into_inner().texts;
            texts.retain(&sound);
            self.texts.update(&texts);
        }
        if changed.others.is_empty() {
            return;
        }
        let mut loader = self.instance.loader();
        let newer = certificate_watch::changed_texts(&self.texts, &changed.others, &mut loader, log);
        let Some(texts) = newer else { return };
        if let Err(message) = self.bind(texts, Level::Emerg) {
            self.engine.log(Level::Error, &message);
            self.certificates.refuse(changed.others);
        }
    }

    fn answer(&mut self, ask: Ask) {
        match ask {
            Ask::Terminate | Ask::Interrupt => {
                self.ending = true;
                self.service.stopping(None);
                self.engine.stop();
            }
            Ask::Quit => {
                self.ending = true;
                self.service.stopping(self.prepared.process.as_ref().map(|process| process.shutdown_timeout));
                // Other programs may bind the addresses while the last connections finish.
                self.sockets.close();
                self.engine.drain();
            }
            Ask::Reload if !self.ending => {
                self.service.reloading();
                let outcome = self.reload();
                if let Err(message) = &outcome {
                    self.engine.log(Level::Emerg, message);
                }
                self.service.reloaded(outcome.as_ref().copied().map_err(String::as_str));
            }
            Ask::Reopen => match LogFiles::open(&self.prepared) {
                Ok(files) => self.engine.reopen(files),
                Err(message) => self.engine.log(Level::Emerg, &message),
            },
            // As in nginx, these signals need a master.
            Ask::Reload | Ask::Upgrade | Ask::Rest | Ask::Child => {}
        }
    }

    /// Reloads. A configuration with errors changes nothing.
    fn reload(&mut self) -> Result<(), String> {
        self.engine.log(Level::Notice, "signal 1 (SIGHUP) received, reconfiguring");
        self.bind(self.instance.loader(), Level::Warn)
    }

    /// `least`: the lowest level of findings to log.
    fn bind(&mut self, loader: impl conf::Loader, least: Level) -> Result<(), String> {
        let mut loader = Remembering { inner: loader, texts: Texts::default() };
        let prepared = prepare(self.instance, &mut loader, &mut self.lasting);
        for (level, line) in report::log_lines(&prepared).into_iter().filter(|(level, _)| *level >= least) {
            self.engine.log(level, &line);
        }
        let (Some(process), Some(plan), true) = (&prepared.process, &prepared.plan, prepared.is_ok()) else {
            return Err("the configuration is refused, the old one stays".to_owned());
        };
        let files = LogFiles::open(&prepared)?;
        make_directories(&prepared)?;
        let opened = self.sockets.open(&plan.listeners, process.child.workers)?;
        for warning in &opened.warnings {
            self.engine.log(Level::Warn, warning);
        }
        let before = self.prepared.process.as_ref().map(|process| &process.child);
        if before != Some(&process.child) {
            let message = "user, worker_processes, worker_cpu_affinity, worker_rlimit_nofile, env and the level of \
                           error_log change only at a start, since master_process is off";
            self.engine.log(Level::Warn, message);
        }
        self.pid_file.move_to(&process.pid_path)?;
        self.engine.reload(EngineParts { process, plan, bound: &opened.bound, files, siblings: None });
        for trouble in self.sockets.keep(opened.bound) {
            self.engine.log(Level::Error, &trouble);
        }
        (self.prepared, self.texts) = (prepared, loader.texts);
        Ok(())
    }
}
