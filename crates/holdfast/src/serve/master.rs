//! The process that supervises: it has no threads and handles no request. It opens what needs privileges and passes it
//! to the child, keeps the pid file, handles signals, and restarts the child when it dies.

mod change;
mod ctl;
mod ctl_merge;
mod dry_run;
mod figures;
mod offspring;
mod seats;
mod service;
mod tunnels;
mod upgrade;

use super::adoption;
use super::certificate_watch::{self, CertificateWatch};
use super::channel::{Channel, Kind};
use super::commons::Commons;
use super::ctl_socket::CtlSocket;
use super::log_files::{Journal, LogFiles};
use super::order::{Remembering, Texts};
use super::pid_file::PidFile;
use super::service_manager::Notifier;
use super::sockets::{Bound, Sockets, tickets_left};
use super::temp_directories::make_directories;
use crate::instance::Instance;
use crate::process::Process;
use crate::report::{self, errno};
use crate::signals::{Ask, Signals};
use crate::verdict::{Lasting, Prepared, prepare};
use change::Change;
use conf::Loader as _;
use gateway::{Level, Registry, ZoneSpec};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use offspring::Offspring;
use seats::Seat;
use std::cell::RefCell;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::time::{Duration, Instant};
use upgrade::Takeover;

/// Time for a child to stop; then it is killed.
const STOP_TIMEOUT: Duration = Duration::from_secs(5);
/// Longest wait for an event, so that deadlines are checked this often.
const LOOK_PERIOD_MS: u16 = 200;

/// A configuration and what was opened for it.
pub(super) struct Plan {
    prepared: Prepared,
    /// State that outlives the configuration, with the ticket keys for children.
    registry: &'static Registry,
    texts: RefCell<Texts>,
    /// Emptied when the instance ends: an address is free only after every process has closed its socket.
    bound: RefCell<Vec<Bound>>,
}

impl Plan {
    /// The zones of limits, and the caches.
    fn zones(&self) -> &[ZoneSpec] {
        self.prepared.plan.as_ref().map_or(&[], |plan| plan.zones.as_slice())
    }

    /// The process settings; a plan always has them.
    fn process(&self) -> &Process {
        self.prepared.process.as_ref().expect("`Master::plan` checks that it is there")
    }
}

/// How far the end has progressed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Ending {
    Not,
    /// Children finish open requests.
    Gently,
    /// Children end; after this time they are killed.
    Now(Instant),
}

/// The master.
struct Master<'a> {
    instance: &'a Instance,
    lasting: Lasting,
    sockets: Sockets,
    journal: Journal,
    pid_file: PidFile,
    /// The current configuration.
    plan: Rc<Plan>,
    /// The places of the children that serve.
    seats: Vec<Seat>,
    /// What the children share, if there are several.
    commons: Option<Commons>,
    /// The counters of children that have ended.
    ended: figures::Ended,
    /// The configuration that is about to replace the current one.
    change: Option<Change>,
    /// Children that finish their open requests.
    retiring: Vec<Offspring>,
    /// The socket by which the children can be reached after the end of this process.
    meeting_place: Option<OwnedFd>,
    /// Children of a dead master whose sockets this master has. They finish when its own first child serves.
    adopted: Vec<Channel>,
    /// Whether another HUP came during a reload.
    again: bool,
    ending: Ending,
    takeover: Takeover,
    certificates: CertificateWatch,
    service: Notifier,
    /// The socket of `holdfast ctl`, and the requests in execution.
    ctl: CtlSocket,
    awaited: ctl::Awaited,
}

/// Runs until told to end. `ready` is called when the first child serves.
pub(super) fn run(instance: &Instance, ready: impl FnOnce()) -> Result<(), String> {
    let signals = Signals::open().map_err(|error| format!("signalfd() failed {}", errno(&error)))?;
    let mut lasting = Lasting::without_workers().map_err(|error| format!("eventfd() failed {}", errno(&error)))?;
    lasting.tickets = tickets_left();
    let mut loader = Remembering { inner: instance.loader(), texts: Texts::default() };
    let prepared = prepare(instance, &mut loader, &mut lasting);
    report::at_start(&prepared);
    let (Some(process), Some(plan), true) = (&prepared.process, &prepared.plan, prepared.is_ok()) else {
        return Err("the configuration is refused".to_owned());
    };
    // The master holds the sockets of all ports, and the children inherit the limit.
    let _ = reactor::descriptor_limit().and_then(|(_, hard)| reactor::raise_descriptor_limit(hard));
    let files = LogFiles::open(&prepared)?;
    make_directories(&prepared)?;
    let journal = Journal::new(&process.error_logs, &files);
    let takeover = Takeover::at_start();
    let (mut sockets, mut troubles) = Sockets::inherited();
    let adopted = adoption::adopt_by_pid_file(&process.pid_path, &mut sockets);
    let meeting_place = adoption::open_meeting_place().inspect_err(|error| {
        troubles
            .push(format!("if this process dies, its children cannot be reached: socket() failed {}", errno(error)));
    });
    let meeting_place = meeting_place.ok();
    let (service, trouble) = Notifier::at_start(Instant::now());
    troubles.extend(trouble);
    let unmatched = sockets.unmatched(&plan.listeners);
    for warning in &unmatched {
        // Before the sockets are opened: an address in use may have this cause.
        report::warn_at_start(process, warning);
        journal.log(Level::Warn, warning);
    }
    let opened = sockets.open_patiently(&plan.listeners, process.child.workers)?;
    for warning in troubles.iter().chain(&opened.warnings) {
        report::warn_at_start(process, warning);
        journal.log(Level::Warn, warning);
    }
    let pid_file = PidFile::write(&process.pid_path)?;
    let registry = lasting.existing().ok_or("no registry")?;
    let (texts, bound) = (RefCell::new(loader.texts), RefCell::new(opened.bound));
    let plan = Rc::new(Plan { prepared, registry, texts, bound });
    let mut master = Master {
        instance,
        lasting,
        sockets,
        journal,
        pid_file,
        plan: Rc::clone(&plan),
        seats: Vec::new(),
        commons: None,
        ended: figures::Ended::default(),
        change: None,
        retiring: Vec::new(),
        meeting_place,
        adopted,
        again: false,
        ending: Ending::Not,
        takeover,
        certificates: CertificateWatch::default(),
        service,
        ctl: CtlSocket::default(),
        awaited: ctl::Awaited::default(),
    };
    master.open_ctl();
    let outcome = master.begin_change(plan, &files).and_then(|()| master.supervise(&signals, ready));
    // Only after a master's crash do children continue without it.
    master.everybody().for_each(|one| one.order(Kind::Stop));
    master.sockets.close();
    outcome
}

impl Master<'_> {
    fn supervise(&mut self, signals: &Signals, ready: impl FnOnce()) -> Result<(), String> {
        let mut ready = Some(ready);
        loop {
            self.wait(signals)?;
            self.sockets.shared = self.takeover.shares_sockets();
            while let Some(ask) = signals.next().map_err(|error| error.to_string())? {
                self.answer(ask);
            }
            self.look_at_ctl();
            self.read_other_program();
            self.read_seats();
            self.read_newcomers();
            self.reap();
            self.advance_change(ready.is_some())?;
            self.once_more();
            if self.has_child()
                && let Some(ready) = ready.take()
            {
                self.journal.log(Level::Notice, "holdfast serves");
                ready();
                self.serves();
            }
            self.reap_newcomer();
            if self.has_child() {
                self.look_after_predecessor();
            }
            self.look_at_the_clock();
            self.look_at_service();
            if self.ending != Ending::Not && self.everybody().next().is_none() {
                self.journal.log(Level::Notice, "exit");
                return Ok(());
            }
        }
    }

    fn wait(&self, signals: &Signals) -> Result<(), String> {
        let mut watched = vec![PollFd::new(signals.descriptor(), PollFlags::POLLIN)];
        // Retiring children send nothing more; SIGCHLD reports their end.
        let of_seats = self.seats.iter().flat_map(|seat| seat.child.iter().chain(&seat.successor));
        let newcomers = self.change.iter().flat_map(Change::newcomers);
        for one in of_seats.chain(newcomers).filter(|one| one.speaks()) {
            watched.push(PollFd::new(one.channel.descriptor(), PollFlags::POLLIN));
        }
        let other = self.takeover.other.as_ref();
        watched.extend(other.map(|other| PollFd::new(other.descriptor(), PollFlags::POLLIN)));
        watched.extend(self.ctl.watched());
        match poll(&mut watched, PollTimeout::from(LOOK_PERIOD_MS)) {
            Ok(_) | Err(nix::errno::Errno::EINTR) => Ok(()),
            Err(error) => Err(format!("poll() failed {}", errno(&error.into()))),
        }
    }

    fn answer(&mut self, ask: Ask) {
        match ask {
            Ask::Terminate | Ask::Interrupt => {
                let name = if ask == Ask::Terminate { "15 (SIGTERM)" } else { "2 (SIGINT)" };
                self.journal.log(Level::Notice, &format!("signal {name} received, exiting"));
                self.ending = Ending::Now(Instant::now() + STOP_TIMEOUT);
                self.announce_end(None);
                self.everybody().for_each(|one| one.order(Kind::Stop));
            }
            Ask::Quit if self.ending == Ending::Not => {
                self.journal.log(Level::Notice, "signal 3 (SIGQUIT) received, shutting down");
                self.ending = Ending::Gently;
                self.announce_end(Some(self.plan.process().shutdown_timeout));
                // Other programs may bind the addresses while the last connections finish.
                self.close_sockets();
                self.move_tunnels_to_other_program();
                self.everybody().for_each(|one| one.order(Kind::Drain));
            }
            Ask::Reload if self.ending == Ending::Not && self.takeover.rests => {
                self.service.reloading();
                self.work_again();
                self.service.reloaded(Ok(()));
            }
            Ask::Reload if self.ending == Ending::Not => {
                self.journal.log(Level::Notice, "signal 1 (SIGHUP) received, reconfiguring");
                self.reload();
            }
            Ask::Reopen => self.reopen(),
            Ask::Upgrade if self.ending == Ending::Not => self.upgrade(),
            Ask::Rest if self.ending == Ending::Not => self.rest(),
            Ask::Quit | Ask::Reload | Ask::Upgrade | Ask::Rest | Ask::Child => {}
        }
    }

    fn close_sockets(&mut self) {
        self.sockets.close();
        self.plan.bound.take();
        if let Some(change) = &self.change {
            change.plan().bound.take();
        }
    }

    /// Starts a reload. A configuration with errors changes nothing.
    fn reload(&mut self) {
        if self.is_reloading() {
            self.again = true;
            return;
        }
        self.service.reloading();
        if let Err(message) = self.offer(self.instance.loader(), Level::Warn) {
            self.journal.log(Level::Emerg, &message);
            self.reloaded(Err(&message));
        }
    }

    /// Opens the control socket that the configuration wants.
    fn open_ctl(&mut self) {
        let plan = Rc::clone(&self.plan);
        if let Err(message) = self.ctl.configure(plan.process().ctl.as_ref()) {
            self.journal.log(Level::Warn, &message);
        }
    }

    /// Reads the configuration.
    fn read(&mut self, loader: impl conf::Loader) -> (Prepared, Texts) {
        let mut loader = Remembering { inner: loader, texts: Texts::default() };
        let prepared = prepare(self.instance, &mut loader, &mut self.lasting);
        (prepared, loader.texts)
    }

    /// `least`: the lowest level of findings to log.
    fn plan(&mut self, loader: impl conf::Loader, least: Level) -> Result<(Rc<Plan>, LogFiles), String> {
        let (prepared, texts) = self.read(loader);
        for (level, line) in report::log_lines(&prepared).into_iter().filter(|(level, _)| *level >= least) {
            self.journal.log(level, &line);
        }
        let (Some(process), Some(plan), true) = (&prepared.process, &prepared.plan, prepared.is_ok()) else {
            return Err("the configuration is refused, the old one stays".to_owned());
        };
        let files = LogFiles::open(&prepared)?;
        make_directories(&prepared)?;
        let opened = self.sockets.open(&plan.listeners, process.child.workers)?;
        for warning in &opened.warnings {
            self.journal.log(Level::Warn, warning);
        }
        let (texts, bound) = (RefCell::new(texts), RefCell::new(opened.bound));
        Ok((Rc::new(Plan { prepared, registry: self.plan.registry, texts, bound }), files))
    }

    /// Offers the children another configuration.
    fn offer(&mut self, loader: impl conf::Loader, least: Level) -> Result<(), String> {
        let (plan, files) = self.plan(loader, least)?;
        self.begin_change(plan, &files)
    }

    fn reopen(&mut self) {
        self.journal.log(Level::Notice, "signal 10 (SIGUSR1) received, reopening logs");
        match LogFiles::open(&self.plan.prepared) {
            Ok(files) => {
                let instance = self.instance;
                self.everybody().for_each(|one| one.reopen(instance, &files));
                self.journal = Journal::new(&self.plan.process().error_logs, &files);
            }
            Err(message) => self.journal.log(Level::Emerg, &message),
        }
    }

    /// Handles a configuration that a child has refused.
    fn forget(&mut self, plan: &Plan, message: &str) {
        let message = format!("{message}; the old configuration stays");
        self.journal.log(Level::Emerg, &message);
        self.sockets.discard(&plan.bound.borrow());
        self.reloaded(Err(&message));
    }

    /// Tells the children of a dead master to finish, because a child of this master serves now.
    fn relieve_adopted(&mut self) {
        for (number, child) in std::mem::take(&mut self.adopted).into_iter().enumerate() {
            self.move_tunnels_to_child(&child, number);
            self.journal.log(Level::Notice, "a worker process of a dead master has handed over, and finishes");
            let _ = child.send(Kind::Drain, "");
        }
    }

    /// Makes this the current configuration.
    fn take_on(&mut self, plan: Rc<Plan>) {
        for trouble in self.sockets.keep(plan.bound.borrow().clone()) {
            self.journal.log(Level::Error, &trouble);
        }
        if let Err(message) = self.pid_file.move_to(&plan.process().pid_path) {
            self.journal.log(Level::Emerg, &message);
        }
        let is_new = !Rc::ptr_eq(&plan, &self.plan);
        if is_new {
            if let Ok(files) = LogFiles::open(&plan.prepared) {
                self.journal = Journal::new(&plan.process().error_logs, &files);
            }
            self.journal.log(Level::Notice, "the new configuration holds");
        }
        self.plan = plan;
        self.commons.iter().for_each(|commons| commons.keep_zones(self.plan.zones()));
        if is_new {
            self.open_ctl();
            self.reloaded(Ok(()));
        }
    }

    /// Runs the reload that was requested during the last one.
    fn once_more(&mut self) {
        if !self.is_reloading() && std::mem::take(&mut self.again) && self.ending == Ending::Not {
            self.begins_again();
            self.reload();
        }
    }

    /// Checks which children have ended.
    fn reap(&mut self) {
        let Self { journal, retiring, .. } = self;
        let mut left = Vec::new();
        retiring.retain_mut(|one| {
            let ended = one.ended(journal).is_some();
            if ended {
                left.extend(one.figures.take());
            }
            !ended
        });
        self.reap_newcomers(&mut left);
        self.reap_seats(&mut left);
        self.keep_figures(left);
    }

    fn look_at_the_clock(&mut self) {
        let now = Instant::now();
        if let Ending::Now(deadline) = self.ending
            && now >= deadline
        {
            self.everybody().for_each(Offspring::kill);
        }
        if self.ending == Ending::Not {
            self.respawn(now);
            self.look_at_certificates(now);
        }
    }

    /// Watches certificates for the children, which may not be able to read keys, and sends them the changes.
    fn look_at_certificates(&mut self, now: Instant) {
        let registry = self.plan.registry;
        if self.certificates.is_warning_due(now) {
            certificate_watch::warn(registry, |level, message| self.journal.log(level, message));
        }
        // The new configuration may name other files: changes are handled after the reload.
        if self.is_reloading() {
            return;
        }
        let changed = self.certificates.look(now, registry, &self.plan.prepared.files);
        if !changed.pairs.is_empty() {
            self.renew_certificates(registry, &changed.pairs);
        }
        if !changed.others.is_empty() {
            self.bind_again(changed.others);
        }
    }

    fn renew_certificates(&mut self, registry: &Registry, changed: &[PathBuf]) {
        let loader = RefCell::new(Remembering { inner: self.instance.loader(), texts: Texts::default() });
        let read = |path: &Path| loader.borrow_mut().read(path);
        let sound =
            certificate_watch::renew(registry, changed, &read, |level, message| self.journal.log(level, message));
        let mut texts = loader.into_inner().texts;
        texts.retain(&sound);
        // A child that is started later gets them, too.
        self.plan.texts.borrow_mut().update(&texts);
        let instance = self.instance;
        self.everybody().for_each(|one| one.renew_certificates(instance, &texts));
    }

    /// Binds the current configuration again with changed TLS files.
    fn bind_again(&mut self, changed: Vec<PathBuf>) {
        let log = |level, message: &str| self.journal.log(level, message);
        let mut loader = self.instance.loader();
        let newer = certificate_watch::changed_texts(&self.plan.texts.borrow(), &changed, &mut loader, log);
        let Some(texts) = newer else { return };
        if let Err(message) = self.offer(texts, Level::Emerg) {
            self.journal.log(Level::Error, &message);
            self.certificates.refuse(changed);
        }
    }
}
