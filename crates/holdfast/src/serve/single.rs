//! `master_process off`: one process does everything, signals included. For development, containers and quick mode; it
//! keeps its privileges (but in quick mode) and its number of workers for life.

use super::adoption;
use super::certificate_watch::{self, CertificateWatch};
use super::channel::Kind;
use super::engine::{Engine, EngineParts, set_descriptor_limit};
use super::log_files::LogFiles;
use super::pid_file::PidFile;
use super::privileges::become_owner;
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

/// Between two looks at queues and deadlines: what became due is noticed so much later.
const LOOK_PERIOD_MS: u16 = 100;

/// One process with everything in it.
struct Single<'a> {
    instance: &'a Instance,
    lasting: Lasting,
    sockets: Sockets,
    engine: Engine,
    prepared: Prepared,
    pid_file: PidFile,
    ending: bool,
    certificates: CertificateWatch,
}

/// Runs until told to end; the error is for standard error.
pub(super) fn run(
    instance: &Instance,
    prepared: Prepared,
    lasting: Lasting,
    ready: impl FnOnce(),
) -> Result<(), String> {
    let (Some(process), Some(plan), Some(shared)) = (&prepared.process, &prepared.plan, lasting.existing()) else {
        return Err("the configuration is not complete".to_owned());
    };
    let signals = Signals::open().map_err(|error| format!("signalfd() failed {}", report::errno(&error)))?;
    let limit = set_descriptor_limit(process);
    let files = LogFiles::open(&prepared)?;
    make_directories(&prepared)?;
    let (mut sockets, troubles) = Sockets::inherited();
    let adopted = adoption::adopt_by_pid_file(&process.pid_path, &mut sockets);
    let opened = sockets.open_patiently(&plan.listeners, process.child.workers)?;
    for warning in opened.warnings.iter().chain(&limit).chain(&troubles) {
        report::warn_at_start(process, warning);
        shared.error_log().log(Level::Warn, warning);
    }
    let pid_file = PidFile::write(&process.pid_path)?;
    if let (Some(owner), true) = (&process.child.owner, instance.text.is_some()) {
        // In quick mode nobody has said who it should run as, and all that root was needed for is open.
        become_owner(owner, process.child.transparent)?;
    }
    let parts = EngineParts { process, plan, bound: &opened.bound, files };
    let engine = Engine::start(shared, parts).map_err(|error| format!("a thread could not be started: {error}"))?;
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
    let mut single = Single { instance, lasting, sockets, engine, prepared, pid_file, ending: false, certificates };
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

    fn look_at_certificates(&mut self) {
        let Some(shared) = self.lasting.existing() else { return };
        if self.certificates.is_due(Instant::now(), shared) {
            let loader = RefCell::new(self.instance.loader());
            let read = |path: &Path| loader.borrow_mut().read(path);
            certificate_watch::renew(shared, &read, |level, message| self.engine.log(level, message));
        }
    }

    fn answer(&mut self, ask: Ask) {
        match ask {
            Ask::Terminate | Ask::Interrupt => {
                self.ending = true;
                self.engine.stop();
            }
            Ask::Quit => {
                self.ending = true;
                // Others may bind the addresses while the last connections finish.
                self.sockets.close();
                self.engine.drain();
            }
            Ask::Reload if !self.ending => {
                if let Err(message) = self.reload() {
                    self.engine.log(Level::Emerg, &message);
                }
            }
            Ask::Reopen => match LogFiles::open(&self.prepared) {
                Ok(files) => self.engine.reopen(files),
                Err(message) => self.engine.log(Level::Emerg, &message),
            },
            // As in nginx, that takes a master.
            Ask::Reload | Ask::Upgrade | Ask::Rest | Ask::Child => {}
        }
    }

    /// A configuration that cannot be taken on changes nothing.
    fn reload(&mut self) -> Result<(), String> {
        self.engine.log(Level::Notice, "signal 1 (SIGHUP) received, reconfiguring");
        let prepared = prepare(self.instance, &mut self.instance.loader(), &mut self.lasting);
        for line in report::log_lines(&prepared) {
            self.engine.log(line.0, &line.1);
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
        self.engine.reload(EngineParts { process, plan, bound: &opened.bound, files });
        for trouble in self.sockets.keep(opened.bound) {
            self.engine.log(Level::Error, &trouble);
        }
        self.prepared = prepared;
        Ok(())
    }
}
