//! The coordinator: finds agents, and takes the messages of a load to them. A thread has the connection to NATS; [`Farm`] and the
//! courier that it gives to `load` talk to that thread. `run` decides, `figures` has what is known of each agent.

mod figures;
mod roster;
mod run;

use crate::access::{Access, FarmError};
use crate::message::{Beat, Name, Subjects, decode, encode};
use crate::{BEAT_PERIOD, LOOK_PERIOD, SILENCE_MAX};
use async_nats::{Client, Message, Subscriber};
use futures_util::StreamExt as _;
use load::remote::{AgentFigures, Courier, Event, PartProgress, monotonic_ns};
use load::{Limits, Order};
use nix::sys::signal::SigSet;
use roster::Roster;
use run::Run;
use std::ops::Range;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::{Duration, Instant};
use tokio::sync::mpsc;

/// Time in which every living agent has said so at least twice.
const GATHER_TIME: Duration = Duration::from_millis(2 * BEAT_PERIOD.as_millis() as u64 + 200);
/// How often the agents that are there are counted.
const COUNT_PERIOD: Duration = Duration::from_millis(50);
/// Time for the connection's last messages to be sent.
const FLUSH_PATIENCE: Duration = Duration::from_secs(2);

/// A question to the thread of the connection.
enum Command {
    Gather(Sender<Roster>),
    Hire { agents: Vec<Beat>, take_over: bool, events: Sender<Event>, done: Sender<Result<(), FarmError>> },
    Order(Vec<Order>),
    Begin(Sender<Result<u64, String>>),
    Progress(usize, PartProgress),
    Began(usize, u64),
    Ended(usize),
    Name(usize, Sender<String>),
    Stop,
    Finish(Sender<Vec<AgentFigures>>),
}

/// The connection of a coordinator to its farm. It ends when the last of its handles is dropped.
#[derive(Debug, Clone)]
pub struct Farm {
    commands: mpsc::UnboundedSender<Command>,
    name: Name,
}

/// How a load is given to agents.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Hire {
    /// Whether the share of an agent that is lost is taken over by another one.
    pub take_over: bool,
}

impl Farm {
    /// Connects to NATS.
    pub fn connect(access: &Access, name: Name) -> Result<Self, FarmError> {
        let (commands, received) = mpsc::unbounded_channel();
        let (done, connected) = channel();
        let (access, subjects) = (access.clone(), Subjects(name.clone()));
        std::thread::Builder::new()
            .name("farm".to_owned())
            .spawn(move || {
                // Signals are for the thread that drives the load. It cannot fail: the set is valid.
                let _ = SigSet::all().thread_block();
                let runtime = match tokio::runtime::Builder::new_current_thread().enable_all().build() {
                    Ok(runtime) => runtime,
                    Err(error) => return drop(done.send(Err(no_thread(&error)))),
                };
                runtime.block_on(async move {
                    match Connection::open(&access, subjects).await {
                        Ok(connection) => {
                            let _ = done.send(Ok(()));
                            connection.serve(received).await;
                        }
                        Err(error) => drop(done.send(Err(error))),
                    }
                });
            })
            .map_err(|error| no_thread(&error))?;
        connected.recv().map_err(|_| no_thread(&"it ended at once"))??;
        Ok(Self { commands, name })
    }

    /// All agents that have said in the last two seconds that they live.
    pub fn agents(&self) -> Vec<Beat> {
        std::thread::park_timeout(GATHER_TIME);
        self.roster().into_beats()
    }

    fn roster(&self) -> Roster {
        let (sender, answer) = channel();
        let _ = self.commands.send(Command::Gather(sender));
        answer.recv().unwrap_or_default()
    }

    /// Waits until `wanted` agents take orders; without a number it takes all that are there after a second. The error says which
    /// agents are there and why they cannot be taken.
    pub fn gather(&self, wanted: Option<usize>, patience: Duration) -> Result<Vec<Beat>, FarmError> {
        let begun = Instant::now();
        loop {
            std::thread::park_timeout(COUNT_PERIOD);
            let roster = self.roster();
            let waited = begun.elapsed();
            // An agent that was started again has two sessions until the old one is silent.
            if let Some(problem) = roster.conflict() {
                if waited > SILENCE_MAX + BEAT_PERIOD {
                    return Err(FarmError::Agents(problem));
                }
                continue;
            }
            let idle = roster.idle();
            match wanted {
                Some(wanted) if idle.len() >= wanted => return Ok(idle.into_iter().take(wanted).collect()),
                None if waited >= GATHER_TIME && !idle.is_empty() => return Ok(idle),
                _ if waited >= patience.max(GATHER_TIME) => {
                    return Err(FarmError::Agents(roster.missing(&self.name, wanted.unwrap_or(1))));
                }
                _ => {}
            }
        }
    }

    /// Gives a load to these agents.
    pub fn hire(&self, agents: Vec<Beat>, how: Hire) -> Result<Box<dyn Courier>, FarmError> {
        let (events, received) = channel();
        let (done, answer) = channel();
        let _ = self.commands.send(Command::Hire { agents, take_over: how.take_over, events, done });
        answer.recv().unwrap_or_else(|_| Err(no_thread(&"it has ended")))?;
        Ok(Box::new(Handle { commands: self.commands.clone(), events: received, parts: 0..0 }))
    }

    /// The limits of these agents for a load that they share equally.
    pub fn limits(agents: &[Beat]) -> Option<Limits> {
        agents.iter().map(|agent| agent.limits.clone()).reduce(|one, other| one.shared_with(&other))
    }
}

fn no_thread(error: &dyn std::fmt::Display) -> FarmError {
    FarmError::Unreachable(format!("the thread of the farm cannot run: {error}"))
}

/// The courier of a run.
struct Handle {
    commands: mpsc::UnboundedSender<Command>,
    events: Receiver<Event>,
    /// The parts that are lost if the thread ends.
    parts: Range<usize>,
}

impl Handle {
    fn send_command(&self, command: Command) {
        // The thread ends after the last handle, so it receives this.
        let _ = self.commands.send(command);
    }

    fn ask<T>(&self, command: impl FnOnce(Sender<T>) -> Command) -> Option<T> {
        let (sender, answer) = channel();
        self.send_command(command(sender));
        answer.recv().ok()
    }
}

impl Courier for Handle {
    fn order(&mut self, orders: Vec<Order>) {
        self.parts = 0..orders.len();
        self.send_command(Command::Order(orders));
    }

    fn begin(&mut self) -> Result<Instant, String> {
        let begins_ns = self.ask(Command::Begin).unwrap_or_else(|| Err("the connection has ended".to_owned()))?;
        Ok(Instant::now() + Duration::from_nanos(begins_ns.saturating_sub(monotonic_ns())))
    }

    fn next(&mut self, wait: Duration) -> Option<Event> {
        match self.events.recv_timeout(wait) {
            Ok(event) => Some(event),
            Err(RecvTimeoutError::Timeout) => None,
            // The thread has ended, so nothing more comes of any part.
            Err(RecvTimeoutError::Disconnected) => {
                let part = self.parts.next()?;
                Some(Event::Lost { part, text: format!("the connection to the agent of part {part} has ended") })
            }
        }
    }

    fn progress(&mut self, part: usize, progress: PartProgress) {
        self.send_command(Command::Progress(part, progress));
    }

    fn began(&mut self, part: usize, late_ns: u64) {
        self.send_command(Command::Began(part, late_ns));
    }

    fn ended(&mut self, part: usize) {
        self.send_command(Command::Ended(part));
    }

    fn name(&mut self, part: usize) -> String {
        self.ask(|answer| Command::Name(part, answer)).unwrap_or_default()
    }

    fn stop(&mut self) {
        self.send_command(Command::Stop);
    }

    fn finish(&mut self) -> Vec<AgentFigures> {
        self.ask(Command::Finish).unwrap_or_default()
    }
}

/// The connection, in its thread.
struct Connection {
    client: Client,
    subjects: Subjects,
    roster: Roster,
    beats: Subscriber,
    events: mpsc::UnboundedReceiver<async_nats::Event>,
    is_connected: bool,
    run: Option<Run>,
    reports: Option<Subscriber>,
    to_run: Option<Sender<Event>>,
    /// Who waits for the moment of the start.
    to_begin: Option<Sender<Result<u64, String>>>,
}

impl Connection {
    async fn open(access: &Access, subjects: Subjects) -> Result<Self, FarmError> {
        let (sender, events) = mpsc::unbounded_channel();
        let client = access.connect("holdfast load".to_owned(), sender).await?;
        let beats = subscribe(&client, subjects.beats()).await?;
        Ok(Self {
            client,
            subjects,
            roster: Roster::default(),
            beats,
            events,
            is_connected: true,
            run: None,
            reports: None,
            to_run: None,
            to_begin: None,
        })
    }

    async fn serve(mut self, mut commands: mpsc::UnboundedReceiver<Command>) {
        let mut ticker = tokio::time::interval(LOOK_PERIOD);
        ticker.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                Some(message) = self.beats.next() => self.beat(&message),
                Some(message) = next_of(&mut self.reports) => self.report(&message),
                Some(event) = self.events.recv() => self.connection(&event),
                command = commands.recv() => match command {
                    Some(command) => self.command(command).await,
                    None => break,
                },
                _ = ticker.tick() => self.look(),
            }
            self.send().await;
        }
        let _ = tokio::time::timeout(FLUSH_PATIENCE, self.client.flush()).await;
    }

    fn beat(&mut self, message: &Message) {
        let Some((beat, _)) = decode::<Beat>(&message.payload) else { return };
        let now_ns = monotonic_ns();
        if let Some(run) = &mut self.run {
            run.beat(&beat, now_ns);
        }
        self.roster.take(beat, now_ns);
    }

    fn report(&mut self, message: &Message) {
        let now_ns = monotonic_ns();
        if let (Some(run), Some((head, body))) = (&mut self.run, decode(&message.payload)) {
            run.receive(&head, body, now_ns);
        }
    }

    fn connection(&mut self, event: &async_nats::Event) {
        let is_open = match event {
            async_nats::Event::Connected => true,
            async_nats::Event::Disconnected | async_nats::Event::Closed => false,
            _ => return,
        };
        if self.is_connected != is_open {
            self.is_connected = is_open;
            let now_ns = monotonic_ns();
            self.roster.connection(now_ns);
            if let Some(run) = &mut self.run {
                run.connection(is_open, now_ns);
            }
        }
    }

    async fn command(&mut self, command: Command) {
        let now_ns = monotonic_ns();
        match command {
            Command::Gather(answer) => drop(answer.send(self.roster.living(now_ns))),
            Command::Hire { agents, take_over, events, done } => {
                let id = fastrand::u64(..);
                let subscribed = subscribe(&self.client, self.subjects.reports(id)).await;
                let outcome = subscribed.map(|reports| {
                    self.reports = Some(reports);
                    self.run = Some(Run::new(id, agents, take_over, now_ns));
                    self.to_run = Some(events);
                });
                let _ = done.send(outcome);
            }
            Command::Begin(answer) => {
                self.to_begin = Some(answer);
                self.look();
            }
            Command::Finish(answer) => {
                let agents = self.finish().await;
                let _ = answer.send(agents);
            }
            command => {
                if let Some(run) = &mut self.run {
                    apply_command(run, command, now_ns);
                }
            }
        }
    }

    fn look(&mut self) {
        let Some(run) = &mut self.run else { return };
        let now_ns = monotonic_ns();
        run.look(now_ns);
        if self.to_begin.is_some()
            && let Some(begun) = run.begin(now_ns)
            && let Some(answer) = self.to_begin.take()
        {
            let _ = answer.send(begun);
        }
    }

    /// Ends the run. Its last events and messages are on their way when this returns.
    async fn finish(&mut self) -> Vec<AgentFigures> {
        let Some(run) = &mut self.run else { return Vec::new() };
        run.forget();
        let agents = run.finish();
        self.send().await;
        (self.run, self.reports, self.to_run) = (None, None, None);
        let _ = tokio::time::timeout(FLUSH_PATIENCE, self.client.flush()).await;
        agents
    }

    /// Sends what the run wants to be sent. Without a connection it is left out: all of it is sent again when it is missed.
    async fn send(&mut self) {
        let Some(run) = &mut self.run else { return };
        for outgoing in std::mem::take(&mut run.out) {
            if self.is_connected {
                let bytes = encode(&outgoing.head, &outgoing.body);
                let _ = self.client.publish(self.subjects.orders(&outgoing.agent), bytes.into()).await;
            }
        }
        for event in run.events.drain(..) {
            if let Some(to_run) = &self.to_run {
                let _ = to_run.send(event);
            }
        }
    }
}

/// What the load tells a run.
fn apply_command(run: &mut Run, command: Command, now_ns: u64) {
    match command {
        Command::Order(orders) => run.order(orders.iter().map(Order::encode).collect(), now_ns),
        Command::Progress(part, progress) => run.progress(part, progress),
        Command::Began(part, late_ns) => run.began(part, late_ns),
        Command::Ended(part) => run.ended(part),
        Command::Name(part, answer) => drop(answer.send(run.name(part))),
        Command::Stop => run.stop(),
        Command::Gather(_) | Command::Hire { .. } | Command::Begin(_) | Command::Finish(_) => {}
    }
}

pub(crate) async fn subscribe(client: &Client, subject: String) -> Result<Subscriber, FarmError> {
    let text = format!("cannot listen to {subject}");
    client.subscribe(subject).await.map_err(|error| FarmError::Access(format!("{text}: {error}")))
}

/// The next message; never one if there is no subscription.
async fn next_of(subscriber: &mut Option<Subscriber>) -> Option<Message> {
    match subscriber {
        Some(subscriber) => subscriber.next().await,
        None => std::future::pending().await,
    }
}
