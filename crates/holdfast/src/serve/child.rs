//! The process that does the work: gets configurations, sockets and logs from its master, drops its privileges, and
//! runs the engine. It opens nothing that needs privileges.

use super::adoption;
use super::certificate_watch;
use super::channel::{Channel, Kind, Packet};
use super::commons::words;
use super::ctl_work;
use super::engine::{Engine, EngineParts, set_descriptor_limit};
use super::figures::{FiguresFile, Round};
use super::log_files::LogFiles;
use super::order::Order;
use super::privileges::become_owner;
use super::service_manager::status_text;
use super::siblings::{self, Published};
use super::sockets::{Bound, socket_name};
use super::tunnels::{self, Giving};
use crate::instance::Instance;
use crate::process::{ChildPlan, Part};
use crate::report::{self, errno};
use crate::signals::{Ask, Signals};
use crate::verdict::{Lasting, Prepared, prepare};
use conf::Loader as _;
use gateway::{Level, ListenerSpec, ZoneMemory, ZoneSpec};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use reactor::{Listener, SharedCounters};
use std::cell::RefCell;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd as _, OwnedFd};
use std::sync::Arc;

/// Time between two checks of queues and deadlines, and so the longest delay of a due action.
const LOOK_PERIOD_MS: u16 = 100;

/// The child.
struct Child {
    channel: Channel,
    lasting: Lasting,
    engine: Option<Engine>,
    ending: bool,
    /// What a new master gets if the present one dies.
    heritage: Heritage,
    /// The hand-over of its tunnels.
    giving: Option<Giving>,
    /// The figures of other processes, before there is an engine.
    published: Published,
    /// A configuration that it is to apply when the others are ready as well.
    pending: Option<Pending>,
}

/// A configuration that can be applied.
struct Pending {
    prepared: Prepared,
    bound: Vec<Bound>,
    files: LogFiles,
    instance: Instance,
    siblings: Option<siblings::Belongings>,
}

/// State that outlives a master.
struct Heritage {
    /// The socket to which a new master connects.
    meeting_place: Option<OwnedFd>,
    /// The user who started the master.
    master_user: u32,
    /// The sockets of the configuration, and the instance.
    bound: Vec<Bound>,
    instance: Option<Instance>,
    /// Whether the master is gone and there is no new one.
    alone: bool,
}

impl Heritage {
    /// Replaces the sockets. A reload passes the same ones as new descriptors: the first ones stay in use here, as in
    /// the workers.
    fn keep(&mut self, bound: &[Bound]) {
        let old = std::mem::take(&mut self.bound);
        let kept = |new: &Bound| {
            let is_same =
                |old: &&Bound| old.is_of(&new.address, &new.options) && old.listeners.len() == new.listeners.len();
            let known = old.iter().find(is_same);
            known.unwrap_or(new).clone()
        };
        self.bound = bound.iter().map(kept).collect();
    }
}

/// Runs until told to end.
pub(super) fn run() -> Result<(), String> {
    let channel = Channel::from_stdin().map_err(|error| format!("no master to work for: {error}"))?;
    // A name for ps and top: the process was started through a link in /proc.
    let _ = rustix::thread::set_name(c"holdfast");
    let signals = Signals::open().map_err(|error| format!("signalfd() failed {}", errno(&error)))?;
    let master_user = channel.peer_user().map_err(|error| format!("getsockopt() failed {}", errno(&error)))?;
    let heritage = Heritage { meeting_place: None, master_user, bound: Vec::new(), instance: None, alone: false };
    let mut child = Child {
        channel,
        lasting: Lasting::default(),
        engine: None,
        ending: false,
        heritage,
        giving: None,
        published: Published::default(),
        pending: None,
    };
    let outcome = child.work(&signals);
    if let Some(giving) = child.giving.take() {
        giving.end();
    }
    let ended = child.engine.map_or(Ok(()), Engine::join);
    outcome.and(ended)
}

impl Child {
    fn work(&mut self, signals: &Signals) -> Result<(), String> {
        loop {
            // A channel with a closed other end would always be readable.
            let channel = match (self.ending, self.heritage.alone) {
                (true, _) => None,
                (false, false) => Some(self.channel.descriptor()),
                (false, true) => self.heritage.meeting_place.as_ref().map(OwnedFd::as_fd),
            };
            let ended = self.engine.as_ref().map(Engine::ended);
            let watched = [Some(signals.descriptor()), channel, ended].into_iter().flatten();
            let mut watched: Vec<PollFd<'_>> = watched.map(|it| PollFd::new(it, PollFlags::POLLIN)).collect();
            match poll(&mut watched, PollTimeout::from(LOOK_PERIOD_MS)) {
                Ok(_) | Err(nix::errno::Errno::EINTR) => {}
                Err(error) => return Err(format!("poll() failed {}", errno(&error.into()))),
            }
            while let Some(ask) = signals.next().map_err(|error| error.to_string())? {
                match ask {
                    // The signal was sent to the child itself. Signals from the terminal are for the master, which
                    // sends orders.
                    Ask::Quit => self.drain(),
                    Ask::Terminate => self.stop(),
                    Ask::Interrupt if self.heritage.alone => self.stop(),
                    Ask::Interrupt | Ask::Reload | Ask::Reopen | Ask::Upgrade | Ask::Rest | Ask::Child => {}
                }
            }
            if self.heritage.alone {
                self.meet_master();
            } else {
                self.read_channel()?;
            }
            let Some(engine) = &mut self.engine else {
                if self.ending {
                    return Ok(());
                }
                continue;
            };
            engine.look();
            if engine.is_finished() {
                engine.publish();
                return Ok(());
            }
            if !self.ending && engine.lost_worker() {
                engine.log(Level::Alert, "a worker has ended unexpectedly");
                self.stop();
            }
        }
    }

    fn read_channel(&mut self) -> Result<(), String> {
        loop {
            match self.channel.receive() {
                Ok(packet) => self.obey(packet)?,
                Err(error) => match error.kind() {
                    io::ErrorKind::WouldBlock => return Ok(()),
                    io::ErrorKind::Interrupted => {}
                    io::ErrorKind::UnexpectedEof | io::ErrorKind::ConnectionReset => {
                        self.lose_master();
                        return Ok(());
                    }
                    _ => return Err(format!("recvmsg() failed {}", errno(&error))),
                },
            }
        }
    }

    /// A master that ends tells its children first. A killed master does not, and its children continue to serve
    /// clients.
    fn lose_master(&mut self) {
        self.heritage.alone = true;
        match &self.engine {
            Some(engine) if !self.ending => {
                let pid = std::process::id();
                let message = format!(
                    "the master process is gone; this process serves on until a new master comes or it is told to end \
                     (kill -QUIT {pid}, kill -TERM {pid})"
                );
                engine.log(Level::Alert, &message);
            }
            Some(_) => {}
            None => self.ending = true,
        }
    }

    /// Accepts a new master, if one has connected.
    fn meet_master(&mut self) {
        let Some(place) = self.heritage.meeting_place.as_ref().filter(|_| !self.ending) else { return };
        match adoption::accept_master(place.as_fd(), self.heritage.master_user) {
            Ok(Some(channel)) => {
                self.channel = channel;
                self.heritage.alone = false;
            }
            Ok(None) => {}
            Err(error) => {
                if let Some(engine) = &self.engine {
                    engine.log(Level::Alert, &format!("accept() failed {}", errno(&error)));
                }
                self.heritage.meeting_place = None;
            }
        }
    }

    /// Sends the sockets to a new master.
    fn bequeath(&self) {
        let Some(instance) = &self.heritage.instance else { return };
        let bound = &self.heritage.bound;
        let mut order = Order::new(instance.clone());
        order.listeners = bound.iter().map(|bound| (bound.name(), bound.listeners.len())).collect();
        let sockets = bound.iter().flat_map(|bound| &bound.listeners).map(|listener| listener.descriptor());
        // If sending fails, the master is gone, which another place detects.
        let _ = self.channel.send_body(Kind::Heritage, &order.encode(), &sockets.collect::<Vec<_>>());
    }

    fn obey(&mut self, mut packet: Packet) -> Result<(), String> {
        match packet.kind {
            Kind::Stop => self.stop(),
            Kind::Drain => self.drain(),
            Kind::Reopen => {
                let order = decode(&mut packet)?;
                let files = sort_out(&order, packet.descriptors.into_iter())?.files;
                if let Some(engine) = &self.engine {
                    engine.reopen(files);
                }
            }
            Kind::Certificates => {
                let order = decode(&mut packet)?;
                if let Some(registry) = self.lasting.existing() {
                    let changed: Vec<_> = order.texts.paths().cloned().collect();
                    let texts = RefCell::new(order.texts);
                    // The master has logged it.
                    certificate_watch::renew(registry, &changed, &|path| texts.borrow_mut().read(path), |_, _| ());
                }
            }
            Kind::Configure => {
                let prepared = decode(&mut packet).and_then(|order| self.prepare(order, packet.descriptors));
                let outcome = prepared.and_then(|pending| self.apply(pending));
                self.answer(&outcome)?;
                self.ending |= self.engine.is_none();
            }
            Kind::Prepare => {
                let prepared = decode(&mut packet).and_then(|order| self.prepare(order, packet.descriptors));
                let outcome = prepared.map(|pending| self.pending = Some(pending));
                self.answer(&outcome)?;
            }
            Kind::Apply => {
                let pending = self.pending.take().ok_or_else(|| "no configuration is prepared".to_owned());
                let outcome = pending.and_then(|pending| self.apply(pending));
                self.answer(&outcome)?;
            }
            Kind::Withdraw => self.pending = None,
            Kind::Adopt => self.bequeath(),
            Kind::TakeTunnels | Kind::GiveTunnels => self.move_tunnels(packet),
            Kind::Counts => {
                if let Some(registry) = self.lasting.existing() {
                    // If the master is gone, it needs no answer.
                    let _ = self.channel.send(Kind::Counts, &status_text(self.ending, &registry.totals_of_all()));
                }
            }
            Kind::Figures => self.know_figures(packet)?,
            Kind::Ctl => {
                if let (Some(engine), Some(registry)) = (&self.engine, self.lasting.existing())
                    && let Err(error) = ctl_work::begin(&packet.text, registry, engine.generation(), &self.channel)
                {
                    engine.log(Level::Alert, &format!("ctl: a request is not carried out {}", errno(&error)));
                }
            }
            Kind::CtlAnswer
            | Kind::Descriptors
            | Kind::Heritage
            | Kind::Ready
            | Kind::Refused
            | Kind::Hello
            | Kind::Idle
            | Kind::Tunnels
            | Kind::Held
            | Kind::Commit => {}
        }
        Ok(())
    }

    /// The files with the figures of the other processes.
    fn know_figures(&mut self, mut packet: Packet) -> Result<(), String> {
        let body = packet.take_body().map_err(|error| error.to_string())?;
        let Round { number, has_ended } = Round::decode(&body).ok_or("the master's message is not understood")?;
        let mut files = packet.descriptors.into_iter().map(|file| FiguresFile::over(file.into()));
        let ended = if has_ended { files.next() } else { None };
        let published = Published { living: files.collect(), ended, round: number };
        match &self.engine {
            Some(engine) => engine.set_published(published),
            None => self.published = published,
        }
        Ok(())
    }

    fn answer(&self, outcome: &Result<(), String>) -> Result<(), String> {
        let (kind, text) = match outcome {
            Ok(()) => (Kind::Ready, ""),
            Err(message) => (Kind::Refused, message.as_str()),
        };
        self.channel.send(kind, text).map_err(|error| format!("sendmsg() failed {}", errno(&error)))
    }

    /// Reads and binds a configuration.
    fn prepare(&mut self, order: Order, descriptors: Vec<OwnedFd>) -> Result<Pending, String> {
        let mut texts = order.texts.clone();
        self.lasting.tickets.clone_from(&order.tickets);
        self.lasting.part = order.part.or(self.lasting.part);
        let mut descriptors = descriptors.into_iter();
        self.lasting.zones = zones_of(&order, self.lasting.part, &mut descriptors)?;
        let prepared = prepare(&order.instance, &mut texts, &mut self.lasting);
        let (Some(_), Some(plan), true) = (&prepared.process, &prepared.plan, prepared.is_ok()) else {
            let lines = report::log_lines(&prepared);
            let first = lines.into_iter().find(|(level, _)| *level == Level::Emerg).map(|(_, line)| line);
            return Err(first.unwrap_or_else(|| "the child finds the configuration incomplete".to_owned()));
        };
        let Belongings { listeners, files, meeting_place, siblings } = sort_out(&order, descriptors)?;
        let bound = bind_to_specs(&plan.listeners, listeners)?;
        self.heritage.meeting_place = self.heritage.meeting_place.take().or(meeting_place);
        Ok(Pending { prepared, bound, files, instance: order.instance, siblings })
    }

    /// Works with a configuration from now on.
    fn apply(&mut self, pending: Pending) -> Result<(), String> {
        let Pending { prepared, bound, files, instance, siblings } = pending;
        let (Some(process), Some(plan)) = (&prepared.process, &prepared.plan) else {
            return Err("the configuration is not complete".to_owned());
        };
        self.heritage.instance = Some(instance);
        self.heritage.keep(&bound);
        let siblings = siblings.map(|siblings| (siblings, std::mem::take(&mut self.published)));
        let parts = EngineParts { process, plan, bound: &bound, files, siblings };
        if let Some(engine) = &mut self.engine {
            engine.reload(parts);
            return Ok(());
        }
        let registry = self.lasting.existing().ok_or("no registry")?;
        let warning = set_descriptor_limit(process);
        settle_in(&process.child)?;
        if let Some((_, published)) = &parts.siblings {
            published.wait_until_known();
        }
        let engine =
            Engine::start(registry, parts).map_err(|error| format!("a thread could not be started: {error}"))?;
        if let Some(warning) = warning {
            engine.log(Level::Warn, &warning);
        }
        self.engine = Some(engine);
        Ok(())
    }

    /// Begins to hand over tunnels, or to take them over.
    fn move_tunnels(&mut self, mut packet: Packet) {
        let (Some(engine), Some(registry)) = (&self.engine, self.lasting.existing()) else { return };
        let Some(socket) = packet.descriptors.pop() else { return };
        let begun = match packet.kind {
            Kind::GiveTunnels => tunnels::hand_over(registry, socket).map(|giving| self.giving = Some(giving)),
            _ => tunnels::take_over(registry, socket),
        };
        if let Err(error) = begun {
            engine.log(Level::Warn, &format!("open tunnels are not handed over {}", errno(&error)));
        }
    }

    fn drain(&mut self) {
        self.ending = true;
        // An address is free only after every process has closed its socket.
        self.heritage.bound.clear();
        if let Some(engine) = &mut self.engine {
            engine.drain();
        }
    }

    fn stop(&mut self) {
        self.ending = true;
        self.heritage.bound.clear();
        if let Some(engine) = &mut self.engine {
            engine.stop();
        }
    }
}

fn decode(packet: &mut Packet) -> Result<Order, String> {
    let body = packet.take_body().map_err(|error| error.to_string())?;
    Order::decode(&body).ok_or_else(|| "the master's order is not understood".to_owned())
}

/// The descriptors of an order: sockets by address, files by path, and the socket for a new master.
struct Belongings {
    listeners: Vec<(String, Vec<Arc<Listener>>)>,
    files: LogFiles,
    meeting_place: Option<OwnedFd>,
    siblings: Option<siblings::Belongings>,
}

const MISSING: &str = "a descriptor is missing";

/// The memory of the zones that this process shares with others.
fn zones_of(
    order: &Order,
    part: Option<Part>,
    descriptors: &mut impl Iterator<Item = OwnedFd>,
) -> Result<Vec<ZoneMemory>, String> {
    let Some(Part { index, of }) = part else { return Ok(Vec::new()) };
    let zone = |zone: &ZoneSpec| ZoneMemory::new(zone.clone(), index, of, descriptors.next().ok_or(MISSING)?);
    order.zones.iter().map(zone).collect()
}

fn sort_out(order: &Order, mut descriptors: impl Iterator<Item = OwnedFd>) -> Result<Belongings, String> {
    let mut listeners = Vec::new();
    for (address, count) in &order.listeners {
        let mut sockets = Vec::new();
        for _ in 0..*count {
            let socket = descriptors.next().ok_or(MISSING)?;
            sockets.push(Arc::new(Listener::from_inherited(socket).map_err(|error| error.to_string())?));
        }
        listeners.push((address.clone(), sockets));
    }
    let mut files = LogFiles::default();
    for path in &order.logs {
        files.files.insert(path.clone(), File::from(descriptors.next().ok_or(MISSING)?));
    }
    let meeting_place = if order.meeting_place { Some(descriptors.next().ok_or(MISSING)?) } else { None };
    let siblings = match order.commons {
        0 => None,
        of => {
            let counts = descriptors.next().ok_or(MISSING)?;
            let counts = SharedCounters::from_descriptor(counts, words(of)).map_err(|error| error.to_string())?;
            let figures = FiguresFile::over(descriptors.next().ok_or(MISSING)?.into());
            let landings: Vec<OwnedFd> = descriptors.by_ref().take(of).collect();
            let others: Vec<OwnedFd> = descriptors.take(of).collect();
            Some(siblings::Belongings { counts, landings, figures, others })
        }
    };
    Ok(Belongings { listeners, files, meeting_place, siblings })
}

fn bind_to_specs(
    specs: &[ListenerSpec],
    mut listeners: Vec<(String, Vec<Arc<Listener>>)>,
) -> Result<Vec<Bound>, String> {
    let take = |spec: &ListenerSpec| {
        let name = socket_name(&spec.address, &spec.options);
        let found = listeners.iter_mut().find(|(address, _)| *address == name);
        // A name in `listen` may have resolved to another address between the master's lookup and ours.
        let found = found.ok_or_else(|| format!("the master has opened no socket for {name}"))?;
        let listeners = std::mem::take(&mut found.1);
        Ok(Bound { address: spec.address.clone(), options: spec.options.clone(), listeners })
    };
    specs.iter().map(take).collect()
}

/// Changes to the directory and the user of the configuration.
fn settle_in(plan: &ChildPlan) -> Result<(), String> {
    if let Some(owner) = &plan.owner {
        become_owner(owner, plan.transparent)?;
    }
    if let Some(path) = &plan.working_directory {
        std::env::set_current_dir(path)
            .map_err(|error| format!("chdir(\"{}\") failed {}", path.display(), errno(&error)))?;
    }
    Ok(())
}
