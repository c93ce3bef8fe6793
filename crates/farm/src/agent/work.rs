//! The work of an agent: the parts that it runs for one coordinator, what of their reports is not acknowledged, and when to give up.

use super::part::{Process, Said, Terms};
use crate::message::{FromAgent, Name, ToAgent, version};
use crate::pack::{self, Assembly};
use crate::sequence::Outbox;
use load::remote::{begin_line, is_last_line, lost_line, refusal_line};
use std::collections::BTreeMap;
use std::time::Duration;
use tokio::sync::mpsc;

/// A process that has not ended this long after it was told to stop is killed.
const STOP_PATIENCE: Duration = Duration::from_secs(10);
/// Reports are kept this long after the last word of the coordinator, which waits as long for its server.
const REPORT_PATIENCE: Duration = Duration::from_secs(30);
/// Unacknowledged bytes above which no more are taken from the processes.
const QUEUE_BYTES_MAX: usize = 128 * 1024 * 1024;
/// Parts of one agent: its own, and those that it takes over.
const PARTS_MAX: usize = 16;

/// A part.
#[derive(Debug, Default)]
struct PartOf {
    assembly: Assembly,
    process: Option<Process>,
    outbox: Outbox,
    is_begun: bool,
    /// Whether its last line is in the outbox.
    is_complete: bool,
    /// When it was told to stop.
    stopped_ns: Option<u64>,
}

/// A message to the coordinator of a run.
#[derive(Debug)]
pub(super) struct Outgoing {
    pub(super) run: u64,
    pub(super) head: FromAgent,
    pub(super) body: Vec<u8>,
}

/// The work of an agent.
pub(super) struct Work {
    agent: Name,
    terms: Terms,
    said: mpsc::Sender<Said>,
    run: u64,
    parts: BTreeMap<usize, PartOf>,
    /// Processes of parts that are no longer wanted, and since when.
    dying: Vec<(Process, u64)>,
    heard_ns: u64,
    abandon_ns: u64,
    /// Why the parts were stopped, if the coordinator did not ask for it.
    abandoned: Option<String>,
    pub(super) out: Vec<Outgoing>,
    /// What an operator should know.
    pub(super) news: Vec<String>,
}

impl Work {
    pub(super) fn new(agent: Name, terms: Terms, said: mpsc::Sender<Said>) -> Self {
        Self {
            agent,
            terms,
            said,
            run: 0,
            parts: BTreeMap::new(),
            dying: Vec::new(),
            heard_ns: 0,
            abandon_ns: u64::MAX,
            abandoned: None,
            out: Vec::new(),
            news: Vec::new(),
        }
    }

    /// Whether it has no part.
    pub(super) fn is_idle(&self) -> bool {
        self.parts.is_empty()
    }

    /// Whether it can take more lines of its processes.
    pub(super) fn has_room(&self) -> bool {
        self.parts.values().map(|part| part.outbox.bytes()).sum::<usize>() < QUEUE_BYTES_MAX
    }

    /// A message of a coordinator.
    pub(super) fn receive(&mut self, message: &ToAgent, body: &[u8], now_ns: u64) {
        let (ToAgent::Clock { run, .. }
        | ToAgent::Order { run, .. }
        | ToAgent::Begin { run, .. }
        | ToAgent::Ack { run, .. }
        | ToAgent::Beat { run }
        | ToAgent::Stop { run }
        | ToAgent::Forget { run }) = *message;
        match message {
            ToAgent::Clock { ask, .. } => {
                let head = FromAgent::Clock { agent: self.agent.clone(), ask: *ask, now_ns };
                self.out.push(Outgoing { run, head, body: Vec::new() });
            }
            ToAgent::Order { part, version: other, piece, pieces, abandon_ms, .. } => {
                if *other != version() {
                    self.refuse(run, *part, &format!("has version {}, the coordinator {other}", version()));
                } else if self.run != run && !self.is_idle() {
                    self.refuse(run, *part, "is busy with another run");
                } else if self.parts.len() >= PARTS_MAX && !self.parts.contains_key(part) {
                    self.refuse(run, *part, "has too many parts");
                } else {
                    if self.run != run {
                        (self.run, self.abandoned) = (run, None);
                    }
                    self.heard_ns = now_ns;
                    self.abandon_ns = abandon_ms.saturating_mul(1_000_000);
                    self.order(*part, *piece, *pieces, body);
                }
            }
            _ if run != self.run => {}
            ToAgent::Begin { part, monotonic_ns, from_ns, .. } => {
                self.heard_ns = now_ns;
                if let Some(part) = self.parts.get_mut(part).filter(|part| !part.is_begun)
                    && let Some(process) = &part.process
                {
                    part.is_begun = true;
                    process.send(begin_line(*monotonic_ns, *from_ns));
                }
            }
            ToAgent::Ack { part, next, .. } => {
                self.heard_ns = now_ns;
                if let Some(part) = self.parts.get_mut(part) {
                    part.outbox.acknowledge(*next, now_ns);
                }
                self.parts.retain(|_, part| !(part.is_complete && part.outbox.is_empty()));
            }
            ToAgent::Beat { .. } => self.heard_ns = now_ns,
            ToAgent::Stop { .. } => {
                self.heard_ns = now_ns;
                self.stop(now_ns);
            }
            ToAgent::Forget { .. } => self.forget(now_ns),
        }
    }

    /// Answers an order that it does not take; the coordinator sends the order again until it has the answer.
    fn refuse(&mut self, run: u64, part: usize, why: &str) {
        let body = pack::pack(&refusal_line(why)).unwrap_or_default();
        let head = FromAgent::Report { agent: self.agent.clone(), part, number: 0, more: false };
        self.out.push(Outgoing { run, head, body });
    }

    fn order(&mut self, index: usize, piece: usize, pieces: usize, body: &[u8]) {
        let part = self.parts.entry(index).or_default();
        if part.process.is_some() || part.is_complete {
            return;
        }
        if let Some(order) = part.assembly.take(piece, pieces, body) {
            self.news.push(format!("takes part {index} of run {:016x}", self.run));
            part.process = Some(Process::start(self.run, index, order, self.terms.clone(), self.said.clone()));
        }
    }

    /// A line of a process.
    pub(super) fn line(&mut self, said: Said) {
        let Some(part) = self.parts.get_mut(&said.part).filter(|part| said.run == self.run && !part.is_complete) else {
            return;
        };
        let mut line = said.line;
        if is_last_line(&line) {
            part.is_complete = true;
            part.process = None;
            if let Some(why) = &self.abandoned {
                line = lost_line(&format!("stopped its load: it {why}"));
            }
        }
        if let Err(problem) = part.outbox.push(&line) {
            part.is_complete = true;
            part.process = None;
            let _ = part.outbox.push(&lost_line(&format!("has a report with {problem}")));
        }
    }

    /// Lets all processes stop and report.
    pub(super) fn stop(&mut self, now_ns: u64) {
        for part in self.parts.values_mut() {
            part.stopped_ns.get_or_insert(now_ns);
            if let Some(process) = &mut part.process {
                process.stop();
            }
        }
    }

    /// The same, not because the coordinator asked for it.
    pub(super) fn abandon(&mut self, why: &str, now_ns: u64) {
        if !self.is_idle() && self.abandoned.is_none() {
            self.news.push(format!("stops its load: it {why}"));
            self.abandoned = Some(why.to_owned());
            self.stop(now_ns);
        }
    }

    /// Ends all parts without their reports.
    fn forget(&mut self, now_ns: u64) {
        if !self.is_idle() {
            self.news.push("ends its part: the coordinator no longer wants it".to_owned());
        }
        for mut part in std::mem::take(&mut self.parts).into_values() {
            if let Some(mut process) = part.process.take() {
                process.stop();
                self.dying.push((process, now_ns));
            }
        }
    }

    /// Does what is due.
    pub(super) fn look(&mut self, now_ns: u64) {
        let stop_ns = STOP_PATIENCE.as_nanos() as u64;
        let is_over = |since_ns: u64| now_ns.saturating_sub(since_ns) >= stop_ns;
        self.dying.retain(|(process, since_ns)| {
            if is_over(*since_ns) {
                process.kill();
            }
            !is_over(*since_ns)
        });
        for part in self.parts.values() {
            if part.stopped_ns.is_some_and(is_over)
                && let Some(process) = &part.process
            {
                process.kill();
            }
        }
        let silent_ns = now_ns.saturating_sub(self.heard_ns);
        if !self.is_idle() && silent_ns >= self.abandon_ns {
            let why = format!(
                "has stopped its load because it did not hear the coordinator for {} s",
                silent_ns / 1_000_000_000
            );
            self.abandon(&why, now_ns);
        }
        if !self.is_idle() && silent_ns >= REPORT_PATIENCE.as_nanos() as u64 {
            self.news.push("gives up its reports: the coordinator does not come back".to_owned());
            self.forget(now_ns);
        }
        for part in self.parts.values_mut() {
            part.outbox.look(now_ns);
        }
    }

    /// Puts the reports that have room on their way.
    pub(super) fn report(&mut self, now_ns: u64) {
        for (index, part) in &mut self.parts {
            while let Some(piece) = part.outbox.send_next(now_ns) {
                let (agent, part, number, more) = (self.agent.clone(), *index, piece.number, piece.more);
                let head = FromAgent::Report { agent, part, number, more };
                self.out.push(Outgoing { run: self.run, head, body: piece.bytes.clone() });
            }
        }
    }
}
