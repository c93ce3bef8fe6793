//! An agent: it sends a heartbeat twice a second, takes orders from a coordinator, and runs them in processes of this program. `work`
//! has its parts, `part` is the process of one.

mod part;
mod work;

use crate::access::{Access, FarmError};
use crate::allow::AllowList;
use crate::coordinator::subscribe;
use crate::message::{AgentState, Beat, Name, Subjects, ToAgent, decode, encode, version};
use crate::{BEAT_PERIOD, LOOK_PERIOD};
use async_nats::{Client, Event};
use futures_util::StreamExt as _;
use load::Limits;
use load::remote::monotonic_ns;
use part::Terms;
use std::net::IpAddr;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use tokio::sync::mpsc;
use work::Work;

/// How long an agent waits for its server when it starts. Its service starts it again.
const SERVER_PATIENCE: Duration = Duration::from_mins(1);
/// Time between two attempts.
const SERVER_PERIOD: Duration = Duration::from_secs(1);
/// Time for the last reports of an agent that is told to end.
const END_PATIENCE: Duration = Duration::from_secs(5);
/// Lines of the processes that wait for the event loop.
const LINES_MAX: usize = 64;
/// Addresses that an agent tells.
const ADDRESSES_MAX: usize = 16;

/// Makes the command of a process that calls [`load::serve_part`].
pub type PartCommand = Arc<dyn Fn() -> Command + Send + Sync>;

/// The settings of an agent.
#[derive(Clone)]
pub struct AgentOptions {
    /// The server.
    pub access: Access,
    /// The farm that it belongs to.
    pub farm: Name,
    /// Its name, different from those of the other agents.
    pub name: Name,
    /// The targets that it may load.
    pub allow: AllowList,
    /// Makes the command of the process that runs a part.
    pub command: PartCommand,
    /// Whether it ends after one run.
    pub once: bool,
    /// Tells the operator something.
    pub say: fn(&str),
}

/// Runs an agent until `stop` is set, or after one run if that is wanted.
pub fn run_agent(options: &AgentOptions, stop: &AtomicBool) -> Result<(), FarmError> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| FarmError::Unreachable(format!("the agent cannot run: {error}")))?;
    runtime.block_on(serve(options, stop))
}

async fn serve(options: &AgentOptions, stop: &AtomicBool) -> Result<(), FarmError> {
    let (sender, mut events) = mpsc::unbounded_channel();
    let Some(client) = connect(options, &sender, stop).await? else { return Ok(()) };
    let subjects = Subjects(options.farm.clone());
    let mut orders = subscribe(&client, subjects.orders(&options.name)).await?;
    let (to_said, mut said) = mpsc::channel(LINES_MAX);
    let terms = Terms { allow: options.allow.clone(), command: Arc::clone(&options.command) };
    let mut agent = Agent {
        options,
        client,
        subjects,
        work: Work::new(options.name.clone(), terms, to_said),
        beat: first_beat(options),
        beaten_ns: 0,
        is_connected: true,
        ended: None,
    };
    (options.say)(&format!(
        "agent `{}` of farm `{}` waits for orders; it may load {}",
        options.name, options.farm, options.allow
    ));
    let mut ticker = tokio::time::interval(LOOK_PERIOD);
    ticker.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    let mut has_worked = false;
    loop {
        let has_room = agent.work.has_room();
        tokio::select! {
            Some(message) = orders.next() => {
                if let Some((head, body)) = decode::<ToAgent>(&message.payload)
                    && (agent.ended.is_none() || !matches!(head, ToAgent::Order { .. }))
                {
                    agent.work.receive(&head, body, monotonic_ns());
                }
            }
            Some(said) = said.recv(), if has_room => agent.work.line(said),
            Some(event) = events.recv() => agent.connection(&event),
            _ = ticker.tick() => {}
        }
        agent.look(stop);
        agent.send().await;
        has_worked |= !agent.work.is_idle();
        let is_idle = agent.work.is_idle();
        let is_due = agent.ended.is_some_and(|since| is_idle || since.elapsed() >= END_PATIENCE);
        if is_due || (options.once && has_worked && is_idle) {
            break;
        }
    }
    agent.leave().await;
    Ok(())
}

/// Connects to the server, which may not be there yet. `None` if the agent is told to end before that.
async fn connect(
    options: &AgentOptions,
    events: &mpsc::UnboundedSender<Event>,
    stop: &AtomicBool,
) -> Result<Option<Client>, FarmError> {
    let (begun, mut is_said) = (Instant::now(), false);
    loop {
        match options.access.connect(format!("holdfast load agent {}", options.name), events.clone()).await {
            Ok(client) => return Ok(Some(client)),
            Err(FarmError::Unreachable(text)) if begun.elapsed() < SERVER_PATIENCE => {
                if !is_said {
                    (options.say)(&format!("{text}; trying again for {} s", SERVER_PATIENCE.as_secs()));
                    is_said = true;
                }
            }
            Err(error) => return Err(error),
        }
        let again = Instant::now() + SERVER_PERIOD;
        while Instant::now() < again {
            if stop.load(Ordering::Relaxed) {
                return Ok(None);
            }
            tokio::time::sleep(LOOK_PERIOD).await;
        }
    }
}

/// What the agent says of itself.
fn first_beat(options: &AgentOptions) -> Beat {
    Beat {
        version: version(),
        name: options.name.clone(),
        session: fastrand::u64(..),
        cores: std::thread::available_parallelism().map_or(1, std::num::NonZero::get),
        addresses: addresses(),
        limits: Limits::read(),
        allow: options.allow.to_string(),
        state: AgentState::Idle,
    }
}

/// The addresses of this machine that others can reach.
fn addresses() -> Vec<IpAddr> {
    let Ok(all) = nix::ifaddrs::getifaddrs() else { return Vec::new() };
    let addresses = all.filter_map(|found| {
        let address = found.address?;
        let v4 = address.as_sockaddr_in().map(|v4| IpAddr::V4(v4.ip()));
        v4.or_else(|| address.as_sockaddr_in6().map(|v6| IpAddr::V6(v6.ip())))
    });
    let is_wide =
        |address: &IpAddr| !address.is_loopback() && !matches!(address, IpAddr::V6(v6) if v6.is_unicast_link_local());
    addresses.filter(is_wide).take(ADDRESSES_MAX).collect()
}

/// An agent that is connected.
struct Agent<'a> {
    options: &'a AgentOptions,
    client: Client,
    subjects: Subjects,
    work: Work,
    beat: Beat,
    beaten_ns: u64,
    is_connected: bool,
    /// Since when it is told to end.
    ended: Option<Instant>,
}

impl Agent<'_> {
    fn connection(&mut self, event: &Event) {
        match event {
            Event::Connected => self.is_connected = true,
            Event::Disconnected | Event::Closed => self.is_connected = false,
            Event::ServerError(error) => (self.options.say)(&format!("NATS: {error}")),
            _ => {}
        }
    }

    fn look(&mut self, stop: &AtomicBool) {
        let now_ns = monotonic_ns();
        if stop.load(Ordering::Relaxed) && self.ended.is_none() {
            self.ended = Some(Instant::now());
            self.work.abandon("was told to end", now_ns);
        }
        self.work.look(now_ns);
        // Without a connection nothing is put on its way: it would arrive late, and again.
        if self.is_connected {
            self.work.report(now_ns);
        }
        for news in self.work.news.drain(..) {
            (self.options.say)(&format!("agent `{}` {news}", self.options.name));
        }
    }

    /// Sends the queued messages, and a heartbeat when it is due. Without a connection nothing is sent.
    async fn send(&mut self) {
        for outgoing in std::mem::take(&mut self.work.out) {
            if self.is_connected {
                let bytes = encode(&outgoing.head, &outgoing.body);
                let _ = self.client.publish(self.subjects.reports(outgoing.run), bytes.into()).await;
            }
        }
        let state = match (self.ended, self.work.is_idle()) {
            (Some(_), true) => AgentState::Leaving,
            (None, true) => AgentState::Idle,
            (_, false) => AgentState::Busy,
        };
        let now_ns = monotonic_ns();
        let is_due = now_ns.saturating_sub(self.beaten_ns) >= BEAT_PERIOD.as_nanos() as u64;
        if self.is_connected && (is_due || state != self.beat.state) {
            self.beat.state = state;
            self.beaten_ns = now_ns;
            self.publish_beat().await;
        }
    }

    async fn publish_beat(&self) {
        let _ = self.client.publish(self.subjects.beats(), encode(&self.beat, b"").into()).await;
    }

    /// Says that it ends.
    async fn leave(&mut self) {
        self.beat.state = AgentState::Leaving;
        self.publish_beat().await;
        let _ = tokio::time::timeout(BEAT_PERIOD, self.client.flush()).await;
    }
}
