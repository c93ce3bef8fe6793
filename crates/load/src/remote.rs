//! Parts of a load on other machines. A [`Courier`] takes the same messages to them that `processes` sends through pipes,
//! and the same code merges the figures. The courier knows machines and networks; this module knows what the messages mean.

use crate::collect::{Collected, Recorded};
use crate::crew::{Part, Workers};
use crate::processes::{Begin, OF_ANOTHER, Order, Said, Work, encode, speaks_for_another};
use crate::setup::StartError;
use crate::worker::Message;
use crate::worker::timer;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::net::SocketAddr;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::time::{Duration, Instant};

/// How long a courier may wait for an event, so that a stop is seen soon.
const LOOK_PERIOD: Duration = Duration::from_millis(20);
/// Parts that have not ended this long after a stop are given up: longer than an agent needs to send its last reports again.
const PATIENCE: Duration = Duration::from_secs(20);

/// An event of a part.
#[derive(Debug)]
pub enum Event {
    /// A line of a part, in order and once.
    Line {
        /// Number of the part.
        part: usize,
        /// The line.
        line: Vec<u8>,
    },
    /// A part is lost; nothing more comes from it.
    Lost {
        /// Number of the part.
        part: usize,
        /// A phrase with the agent's name and what happened.
        text: String,
    },
    /// A remark for the report of the run.
    Mark(String),
}

/// What a part has done in an interval.
#[derive(Debug, Clone, Copy)]
pub struct PartProgress {
    /// The interval.
    pub interval: u64,
    /// Complete responses in it.
    pub responses: u64,
    /// The generator's lag there at p99, in nanoseconds.
    pub lag_ns: u64,
}

/// An agent of a run, at its end.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct AgentFigures {
    /// Its name.
    pub name: String,
    /// Its processors.
    pub cores: usize,
    /// Complete responses that it reported.
    pub responses: u64,
    /// Largest p99 of the generator's lag in an interval, in nanoseconds.
    pub lag_ns: u64,
    /// How far its clock was from the coordinator's, in nanoseconds: the estimate and its largest error.
    pub clock_offset_ns: i64,
    /// The largest error of the estimate.
    pub clock_error_ns: u64,
    /// How long after the moment of the start its workers began, in nanoseconds, by its own clock; `None` if it did not say.
    pub late_ns: Option<u64>,
    /// What was wrong with it: lost, or a straggler.
    pub remarks: Vec<String>,
}

/// Takes messages to parts on other machines and back.
pub trait Courier: Send {
    /// Gives each part its order. Lines of the parts may come from then on.
    fn order(&mut self, orders: Vec<Order>);
    /// Lets all parts begin at the same moment, which it returns. The error is for the operator.
    fn begin(&mut self) -> Result<Instant, String>;
    /// The next event, if one comes within this time.
    fn next(&mut self, wait: Duration) -> Option<Event>;
    /// A part has finished an interval.
    fn progress(&mut self, part: usize, progress: PartProgress);
    /// A part has said how long after the moment of the start it began.
    fn began(&mut self, part: usize, late_ns: u64);
    /// Nothing more comes from a part, which is complete.
    fn ended(&mut self, part: usize);
    /// The name of the agent that has a part.
    fn name(&mut self, part: usize) -> String;
    /// Lets all parts stop.
    fn stop(&mut self);
    /// The run is over. Returns its agents.
    fn finish(&mut self) -> Vec<AgentFigures>;
}

impl Order {
    /// Reads an order that [`Order::encode`] wrote.
    pub fn parse(bytes: &[u8]) -> Result<Self, String> {
        let order: Self =
            serde_json::from_slice(bytes).map_err(|error| format!("the order cannot be read: {error}"))?;
        if order.part.index >= order.part.of {
            return Err(format!("the order is for part {} of {}", order.part.index, order.part.of));
        }
        Ok(order)
    }

    /// The order as a line.
    pub fn encode(&self) -> Vec<u8> {
        encode(self)
    }

    /// The addresses that the load connects to.
    pub fn addresses(&self) -> &[SocketAddr] {
        match &self.work {
            Work::Http { addresses, .. } => addresses,
            Work::WebSocket { address, .. } => std::slice::from_ref(address),
        }
    }

    /// Why a machine must not take this order from another one.
    pub fn refusal(&self) -> Option<&'static str> {
        match &self.work {
            Work::WebSocket { .. } => Some("WebSockets and held connections cannot be shared between machines"),
            Work::Http { options, .. } if options.script.is_some() => {
                Some("a script is a program, and agents run no programs of others (use --scenario)")
            }
            Work::Http { options, .. } if options.places.unix.is_some() => Some("a Unix socket is on one machine"),
            Work::Http { options, .. } if !options.sources.is_empty() => {
                Some("--source names addresses of one machine; each agent has its own")
            }
            Work::Http { options, addresses, .. } if addresses.len() != options.targets.len() => {
                Some("it has another number of addresses than of targets")
            }
            Work::Http { .. } => None,
        }
    }
}

/// The line that lets a part begin at this time of [`monotonic_ns`], `from_ns` after the start of the run.
pub fn begin_line(monotonic_ns: u64, from_ns: u64) -> Vec<u8> {
    encode(&Begin { monotonic_ns, from_ns })
}

/// The line of an agent that does not take an order.
pub fn refusal_line(text: &str) -> Vec<u8> {
    encode(&Said::<()>::Refused(text.to_owned()))
}

/// The line of an agent that has lost its part.
pub fn lost_line(text: &str) -> Vec<u8> {
    encode(&Said::<()>::Lost(text.to_owned()))
}

/// Whether a line is the last one of a part.
pub fn is_last_line(line: &[u8]) -> bool {
    let last = [encode(&Said::<()>::End), b"{\"lost\":".to_vec(), b"{\"refused\":".to_vec()];
    last.iter().any(|last| line.starts_with(last.trim_ascii_end()))
}

/// The time of the clock that [`begin_line`] has, in nanoseconds.
pub fn monotonic_ns() -> u64 {
    timer::monotonic_ns()
}

/// Starts a load in `count` parts with `each` workers each.
pub(crate) fn start<R: Recorded + DeserializeOwned + Send + 'static>(
    work: &Work,
    count: usize,
    each: usize,
    mut courier: Box<dyn Courier>,
    collected: Collected<R>,
) -> Result<Workers<R>, StartError> {
    let orders = (0..count).map(|index| Order { part: Part { index, of: count }, work: work.clone() });
    courier.order(orders.collect());
    let begun = wait_until_ready::<R>(count, courier.as_mut()).and_then(|()| courier.begin());
    let begun = match begun {
        Ok(begun) => begun,
        Err(text) => {
            courier.stop();
            courier.finish();
            return Err(StartError::Farm(text));
        }
    };
    let stop = Arc::new(AtomicBool::new(false));
    let (sender, messages) = channel();
    let told = Arc::clone(&stop);
    let parts = (0..count).map(|index| Some(index * each..(index + 1) * each)).collect();
    let relay = move || Relay { parts, to: sender, courier }.run(&told);
    let threads = vec![std::thread::spawn(relay)];
    let workers = Workers {
        stop,
        threads,
        begun,
        messages,
        collected: Some(collected),
        count: count * each,
        processes: Vec::new(),
        elsewhere: count,
    };
    Ok(workers)
}

/// Waits until the workers of all parts wait. The courier gives up a part that does not answer.
fn wait_until_ready<R: DeserializeOwned>(count: usize, courier: &mut dyn Courier) -> Result<(), String> {
    let mut ready = vec![false; count];
    while ready.contains(&false) {
        match courier.next(LOOK_PERIOD) {
            Some(Event::Line { part, line }) => match (serde_json::from_slice::<Said<R>>(&line), ready.get_mut(part)) {
                (Ok(Said::Ready), Some(ready)) => *ready = true,
                (Ok(Said::Refused(text) | Said::Lost(text)), _) => {
                    return Err(format!("agent `{}` {text}", courier.name(part)));
                }
                (Ok(_), _) => return Err(format!("agent `{}` speaks before its time", courier.name(part))),
                (Err(error), _) => {
                    return Err(format!("agent `{}` cannot be understood: {error}", courier.name(part)));
                }
            },
            Some(Event::Lost { text, .. }) => return Err(text),
            Some(Event::Mark(_)) | None => {}
        }
    }
    Ok(())
}

/// Passes on the messages of all parts until they have ended.
struct Relay<R> {
    /// The workers of each part that has not ended.
    parts: Vec<Option<Range<usize>>>,
    to: Sender<Message<R>>,
    courier: Box<dyn Courier>,
}

impl<R: Recorded + DeserializeOwned> Relay<R> {
    fn run(mut self, stop: &AtomicBool) {
        let mut until = None;
        while self.parts.iter().any(Option::is_some) {
            if stop.load(Ordering::Relaxed) && until.is_none() {
                self.courier.stop();
                until = Some(Instant::now() + PATIENCE);
            }
            match self.courier.next(LOOK_PERIOD) {
                Some(Event::Line { part, line }) => self.line(part, &line),
                Some(Event::Lost { part, text }) => self.lose(part, text),
                Some(Event::Mark(text)) => self.send(Message::Mark(text)),
                None => {}
            }
            if until.is_some_and(|until| Instant::now() >= until) {
                for part in 0..self.parts.len() {
                    let name = self.courier.name(part);
                    self.lose(part, format!("agent `{name}` did not end its load"));
                }
            }
        }
        let agents = self.courier.finish();
        while let Some(event) = self.courier.next(Duration::ZERO) {
            if let Event::Mark(text) = event {
                self.send(Message::Mark(text));
            }
        }
        self.send(Message::Agents(agents));
    }

    /// Sends a message to the run. If the run is gone, the message has no reader.
    fn send(&self, message: Message<R>) {
        let _ = self.to.send(message);
    }

    fn lose(&mut self, part: usize, text: String) {
        if let Some(workers) = self.parts.get_mut(part).and_then(Option::take) {
            self.send(Message::Lost { workers, text });
        }
    }

    fn line(&mut self, part: usize, line: &[u8]) {
        let Some(Some(workers)) = self.parts.get(part) else { return };
        let said = match serde_json::from_slice::<Said<R>>(line) {
            Ok(said) if speaks_for_another(&said, workers) => Err(OF_ANOTHER.to_owned()),
            Ok(said) => Ok(said),
            Err(error) => Err(format!("cannot be understood ({error})")),
        };
        match said {
            Ok(Said::End) => {
                self.courier.ended(part);
                if let Some(part) = self.parts.get_mut(part) {
                    *part = None;
                }
            }
            Ok(Said::Began { late_ns }) => self.courier.began(part, late_ns),
            // A part that takes over from a lost one.
            Ok(Said::Ready) => {}
            Ok(Said::Refused(text) | Said::Lost(text)) => {
                let name = self.courier.name(part);
                self.lose(part, format!("agent `{name}` {text}"));
            }
            Ok(said) => {
                if let Said::Interval { interval, record, .. } = &said {
                    let progress = PartProgress {
                        interval: *interval,
                        responses: record.complete(),
                        lag_ns: record.generator().lag.quantile_ns(0.99),
                    };
                    self.courier.progress(part, progress);
                }
                if let Some(message) = said.into_message() {
                    self.send(message);
                }
            }
            Err(text) => {
                self.courier.ended(part);
                let name = self.courier.name(part);
                self.lose(part, format!("agent `{name}` {text}"));
            }
        }
    }
}
