//! The state of a run as the coordinator sees it: which agent has which part, what has arrived, and who is lost. Pure: messages and
//! times come in, messages and events go out.

use super::figures::{Figures, straggling};
use crate::clock::Clock;
use crate::message::{AgentState, Beat, FromAgent, Name, ToAgent, version};
use crate::sequence::Inbox;
use crate::{BEAT_PERIOD, SILENCE_MAX, pack};
use load::remote::{AgentFigures, Event, PartProgress};
use std::sync::Arc;
use std::time::Duration;

/// An order is sent again after this time.
const ORDER_AGAIN: Duration = Duration::from_secs(3);
/// An agent that has not taken its part after this time never will.
const ORDER_PATIENCE: Duration = Duration::from_secs(30);
/// Time between two questions for a clock.
const CLOCK_PERIOD: Duration = Duration::from_millis(20);
/// Time for the clocks to be compared, once all agents are ready.
const CLOCK_PATIENCE: Duration = Duration::from_secs(5);
/// All agents begin this long after the last one is ready, and four round trips later, so that each knows it by then.
const BEGIN_AHEAD: Duration = Duration::from_millis(300);
/// The start is sent again after this time.
const BEGIN_AGAIN: Duration = Duration::from_millis(100);
/// A part that takes over begins this much later, so that it misses no request of its share.
const JOIN_AHEAD: Duration = Duration::from_millis(200);
/// After this time without the server a run cannot go on.
const CUT_OFF_PATIENCE: Duration = Duration::from_secs(30);
/// Agents that do not hear the coordinator for this long end their load: the coordinator is gone.
const ABANDON: Duration = Duration::from_secs(10);
/// The same where another agent takes over, so that both do not load for long.
const ABANDON_TAKE_OVER: Duration = Duration::from_secs(4);

/// A message to be sent.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Outgoing {
    pub(super) agent: Name,
    pub(super) head: ToAgent,
    pub(super) body: Vec<u8>,
}

/// An agent of the run.
#[derive(Debug)]
struct Hired {
    name: Name,
    session: u64,
    heard_ns: u64,
    clock: Clock,
    /// When each question for its clock was sent.
    asked_ns: Vec<u64>,
    is_lost: bool,
    figures: Figures,
}

/// A part of the load.
#[derive(Debug)]
struct PartOf {
    /// Index of its agent.
    agent: usize,
    order: Arc<[u8]>,
    ordered_ns: u64,
    order_sent_ns: u64,
    inbox: Inbox,
    is_ready: bool,
    /// When it was told to begin, and when it begins.
    begin: Option<Begin>,
    has_begun: bool,
    /// Whether it takes over from a lost agent.
    joins: bool,
    is_over: bool,
    /// The last interval that it has reported.
    interval: Option<u64>,
    behind_since_ns: Option<u64>,
}

#[derive(Debug, Clone, Copy)]
struct Begin {
    from_ns: u64,
    sent_ns: u64,
}

/// A run.
#[derive(Debug)]
pub(super) struct Run {
    pub(super) id: u64,
    take_over: bool,
    agents: Vec<Hired>,
    parts: Vec<PartOf>,
    /// When the load begins, by this clock.
    begins_ns: Option<u64>,
    /// When the start was asked for.
    begin_asked_ns: Option<u64>,
    /// When the connection to the server was last opened or lost.
    connection_ns: u64,
    is_connected: bool,
    beat_ns: u64,
    is_stopping: bool,
    pub(super) out: Vec<Outgoing>,
    pub(super) events: Vec<Event>,
}

fn ns(duration: Duration) -> u64 {
    duration.as_nanos() as u64
}

impl Run {
    pub(super) fn new(id: u64, agents: Vec<Beat>, take_over: bool, now_ns: u64) -> Self {
        let hired = agents.into_iter().map(|beat| Hired {
            figures: Figures::new(&beat),
            name: beat.name,
            session: beat.session,
            heard_ns: now_ns,
            clock: Clock::default(),
            asked_ns: Vec::new(),
            is_lost: false,
        });
        Self {
            id,
            take_over,
            agents: hired.collect(),
            parts: Vec::new(),
            begins_ns: None,
            begin_asked_ns: None,
            connection_ns: now_ns,
            is_connected: true,
            beat_ns: 0,
            is_stopping: false,
            out: Vec::new(),
            events: Vec::new(),
        }
    }

    /// Gives each agent a part.
    pub(super) fn order(&mut self, orders: Vec<Vec<u8>>, now_ns: u64) {
        for (index, order) in orders.into_iter().enumerate() {
            let part = PartOf {
                agent: index % self.agents.len().max(1),
                order: Arc::from(Vec::new()),
                ordered_ns: now_ns,
                order_sent_ns: now_ns,
                inbox: Inbox::default(),
                is_ready: false,
                begin: None,
                has_begun: false,
                joins: false,
                is_over: false,
                interval: None,
                behind_since_ns: None,
            };
            self.parts.push(part);
            match pack::pack(&order) {
                Ok(packed) => {
                    if let Some(part) = self.parts.last_mut() {
                        part.order = Arc::from(packed);
                    }
                    self.send_order(index, now_ns);
                }
                Err(problem) => {
                    let text =
                        format!("the load has {problem}: bodies and data files this large cannot be sent to agents");
                    self.give_up(index, text);
                }
            }
        }
    }

    fn send(&mut self, agent: usize, head: ToAgent, body: Vec<u8>) {
        if let Some(hired) = self.agents.get(agent) {
            self.out.push(Outgoing { agent: hired.name.clone(), head, body });
        }
    }

    fn send_order(&mut self, index: usize, now_ns: u64) {
        let Some(part) = self.parts.get_mut(index) else { return };
        part.order_sent_ns = now_ns;
        let (agent, order) = (part.agent, Arc::clone(&part.order));
        let pieces = pack::pieces(&order);
        let abandon_ms = if self.take_over { ABANDON_TAKE_OVER } else { ABANDON }.as_millis() as u64;
        let (run, count) = (self.id, pieces.len());
        for (at, bytes) in pieces.into_iter().enumerate() {
            let head = ToAgent::Order { run, part: index, version: version(), piece: at, pieces: count, abandon_ms };
            self.send(agent, head, bytes.to_vec());
        }
    }

    /// Nothing more is expected of a part.
    fn give_up(&mut self, index: usize, text: String) {
        if let Some(part) = self.parts.get_mut(index).filter(|part| !part.is_over) {
            part.is_over = true;
            self.events.push(Event::Lost { part: index, text });
        }
    }

    /// When the load begins, once all clocks are known.
    pub(super) fn begin(&mut self, now_ns: u64) -> Option<Result<u64, String>> {
        let asked_ns = *self.begin_asked_ns.get_or_insert(now_ns);
        let waits = self.agents.iter().any(|agent| !agent.is_lost && !agent.clock.is_complete());
        if waits && now_ns.saturating_sub(asked_ns) < ns(CLOCK_PATIENCE) {
            return None;
        }
        if let Some(agent) = self.agents.iter().find(|agent| !agent.is_lost && !agent.clock.is_known()) {
            return Some(Err(format!("agent `{}` sends no clock value", agent.name)));
        }
        let trip_ns = self.agents.iter().map(|agent| agent.clock.trip_ns()).max().unwrap_or(0);
        let begins_ns = now_ns + ns(BEGIN_AHEAD) + 4 * trip_ns;
        self.begins_ns = Some(begins_ns);
        for index in 0..self.parts.len() {
            self.send_begin(index, 0, now_ns);
        }
        Some(Ok(begins_ns))
    }

    fn send_begin(&mut self, index: usize, from_ns: u64, now_ns: u64) {
        let (Some(begins_ns), Some(part)) = (self.begins_ns, self.parts.get_mut(index)) else { return };
        part.begin = Some(Begin { from_ns, sent_ns: now_ns });
        let agent = part.agent;
        let monotonic_ns = self.agents.get(agent).map_or(begins_ns, |hired| hired.clock.there(begins_ns));
        self.send(agent, ToAgent::Begin { run: self.id, part: index, monotonic_ns, from_ns }, Vec::new());
    }

    /// An agent lives, or leaves.
    pub(super) fn beat(&mut self, beat: &Beat, now_ns: u64) {
        let Some(agent) = self.agents.iter().position(|hired| hired.name == beat.name) else { return };
        let Some(hired) = self.agents.get_mut(agent) else { return };
        if hired.session == beat.session {
            if hired.is_lost {
                if beat.state == AgentState::Busy {
                    self.send(agent, ToAgent::Forget { run: self.id }, Vec::new());
                }
                return;
            }
            hired.heard_ns = now_ns;
            if beat.state == AgentState::Leaving {
                self.lose(agent, "was told to end", now_ns);
            }
        } else if !hired.is_lost {
            self.lose(agent, "has ended, and another agent has its name", now_ns);
        }
    }

    /// A message of an agent.
    pub(super) fn receive(&mut self, message: &FromAgent, body: &[u8], now_ns: u64) {
        let (FromAgent::Clock { agent: name, .. } | FromAgent::Report { agent: name, .. }) = message;
        let Some(agent) = self.agents.iter().position(|hired| hired.name == *name) else { return };
        let Some(hired) = self.agents.get_mut(agent) else { return };
        if hired.is_lost {
            return self.send(agent, ToAgent::Forget { run: self.id }, Vec::new());
        }
        hired.heard_ns = now_ns;
        match message {
            FromAgent::Clock { ask, now_ns: other_ns, .. } => {
                if let Some(asked_ns) = hired.asked_ns.get(*ask as usize) {
                    hired.clock.take(*asked_ns, *other_ns, now_ns);
                }
            }
            FromAgent::Report { part, number, more, .. } => self.report(agent, *part, (*number, *more), body, now_ns),
        }
    }

    fn report(&mut self, agent: usize, index: usize, (number, more): (u64, bool), body: &[u8], now_ns: u64) {
        let Some(part) = self.parts.get_mut(index).filter(|part| part.agent == agent) else { return };
        let taken = part.inbox.take(number, more, body);
        let next = part.inbox.next();
        self.send(agent, ToAgent::Ack { run: self.id, part: index, next }, Vec::new());
        match taken {
            Ok(Some(line)) => self.line(index, line, now_ns),
            Ok(None) => {}
            Err(problem) => self.lose(agent, &problem, now_ns),
        }
    }

    fn line(&mut self, index: usize, line: Vec<u8>, now_ns: u64) {
        let Some(part) = self.parts.get_mut(index).filter(|part| !part.is_over) else { return };
        let is_first = !part.is_ready;
        part.is_ready = true;
        if load::remote::is_last_line(&line) {
            part.is_over = true;
        } else if is_first && part.joins {
            let from_ns = now_ns.saturating_sub(self.begins_ns.unwrap_or(now_ns)) + ns(JOIN_AHEAD);
            self.send_begin(index, from_ns, now_ns);
        }
        self.events.push(Event::Line { part: index, line });
    }

    /// Gives an agent up. Another one takes its parts over, if that is wanted and possible.
    fn lose(&mut self, agent: usize, why: &str, now_ns: u64) {
        let Some(hired) = self.agents.get_mut(agent).filter(|hired| !hired.is_lost) else { return };
        (hired.is_lost, hired.figures.is_lost) = (true, true);
        let at = self.begins_ns.filter(|begins_ns| now_ns > *begins_ns).map(|begins_ns| now_ns - begins_ns);
        let when = at.map_or_else(String::new, |ns| format!(" at {:.1} s of the run", ns as f64 / 1e9));
        let text = format!("agent `{}` {why}{when}", hired.name);
        hired.figures.remarks.push(format!("{why}{when}"));
        self.send(agent, ToAgent::Forget { run: self.id }, Vec::new());
        for index in 0..self.parts.len() {
            let Some(part) = self.parts.get(index).filter(|part| part.agent == agent && !part.is_over) else {
                continue;
            };
            let is_wanted = self.take_over && !self.is_stopping && part.begin.is_some() && at.is_some();
            match self.heir().filter(|_| is_wanted) {
                Some(heir) => self.hand_over(index, heir, &text, now_ns),
                None => self.give_up(index, text.clone()),
            }
        }
    }

    /// The agent with the fewest parts; of those, the one with the most processors.
    fn heir(&self) -> Option<usize> {
        let load = |agent: usize| self.parts.iter().filter(|part| part.agent == agent && !part.is_over).count();
        let living = self.agents.iter().enumerate().filter(|(_, hired)| !hired.is_lost);
        living.min_by_key(|(index, hired)| (load(*index), usize::MAX - hired.figures.cores)).map(|(index, _)| index)
    }

    fn hand_over(&mut self, index: usize, heir: usize, text: &str, now_ns: u64) {
        let Some((part, hired)) = self.parts.get_mut(index).zip(self.agents.get_mut(heir)) else { return };
        (part.agent, part.inbox, part.is_ready, part.begin, part.has_begun) =
            (heir, Inbox::default(), false, None, false);
        (part.joins, part.ordered_ns, part.behind_since_ns) = (true, now_ns, None);
        hired.figures.remarks.push(format!("took over part {index}"));
        self.events.push(Event::Mark(format!(
            "{text}; agent `{}` takes its share over: requests due in between were not sent, and the figures since its last \
             report are missing",
            hired.name
        )));
        self.send_order(index, now_ns);
    }

    /// The connection to the server is open, or lost.
    pub(super) fn connection(&mut self, is_open: bool, now_ns: u64) {
        if self.is_connected != is_open {
            (self.is_connected, self.connection_ns) = (is_open, now_ns);
        }
        // Agents may need the longest pause between two attempts to be back as well.
        self.agents.iter_mut().for_each(|agent| agent.heard_ns = now_ns + ns(BEAT_PERIOD));
    }

    /// Does what is due.
    pub(super) fn look(&mut self, now_ns: u64) {
        if !self.is_connected {
            if now_ns.saturating_sub(self.connection_ns) > ns(CUT_OFF_PATIENCE) {
                let why = format!("sends nothing: no connection to NATS for {} s", CUT_OFF_PATIENCE.as_secs());
                self.is_stopping = true;
                (0..self.agents.len()).for_each(|agent| self.lose(agent, &why, now_ns));
            }
            return;
        }
        for agent in 0..self.agents.len() {
            self.look_at_agent(agent, now_ns);
        }
        for index in 0..self.parts.len() {
            self.look_at_part(index, now_ns);
        }
        self.look_for_stragglers(now_ns);
        if now_ns.saturating_sub(self.beat_ns) >= ns(BEAT_PERIOD) {
            self.beat_ns = now_ns;
            for agent in 0..self.agents.len() {
                let (lost, run) = (self.agents.get(agent).is_none_or(|hired| hired.is_lost), self.id);
                if !lost {
                    let head = if self.is_stopping { ToAgent::Stop { run } } else { ToAgent::Beat { run } };
                    self.send(agent, head, Vec::new());
                }
            }
        }
    }

    fn look_at_agent(&mut self, agent: usize, now_ns: u64) {
        let Some(hired) = self.agents.get_mut(agent).filter(|hired| !hired.is_lost) else { return };
        let has_work = self.parts.iter().any(|part| part.agent == agent && !part.is_over);
        let silent_ns = now_ns.saturating_sub(hired.heard_ns);
        if has_work && silent_ns >= ns(SILENCE_MAX) {
            return self.lose(agent, &format!("sent nothing for {:.1} s", silent_ns as f64 / 1e9), now_ns);
        }
        let is_due = hired.asked_ns.last().is_none_or(|last_ns| now_ns.saturating_sub(*last_ns) >= ns(CLOCK_PERIOD));
        if self.begins_ns.is_none() && !self.parts.is_empty() && !hired.clock.is_complete() && is_due {
            let ask = hired.asked_ns.len() as u64;
            hired.asked_ns.push(now_ns);
            self.send(agent, ToAgent::Clock { run: self.id, ask }, Vec::new());
        }
    }

    fn look_at_part(&mut self, index: usize, now_ns: u64) {
        let Some(part) = self.parts.get(index).filter(|part| !part.is_over) else { return };
        let agent = part.agent;
        if !part.is_ready {
            if now_ns.saturating_sub(part.ordered_ns) >= ns(ORDER_PATIENCE) {
                let why = format!("did not take its part within {} s", ORDER_PATIENCE.as_secs());
                self.lose(agent, &why, now_ns);
            } else if now_ns.saturating_sub(part.order_sent_ns) >= ns(ORDER_AGAIN) {
                self.send_order(index, now_ns);
            }
        } else if let Some(begin) = part.begin.filter(|_| !part.has_begun)
            && now_ns.saturating_sub(begin.sent_ns) >= ns(BEGIN_AGAIN)
        {
            self.send_begin(index, begin.from_ns, now_ns);
        }
    }

    /// Names agents that are behind the others for a second.
    fn look_for_stragglers(&mut self, now_ns: u64) {
        let newest = self.parts.iter().filter_map(|part| part.interval).max().unwrap_or(0);
        for index in 0..self.parts.len() {
            let Some(part) = self.parts.get_mut(index).filter(|part| !part.is_over && part.has_begun) else { continue };
            let behind = newest.saturating_sub(part.interval.unwrap_or(0));
            if behind < 2 || part.joins {
                part.behind_since_ns = None;
                continue;
            }
            let since_ns = *part.behind_since_ns.get_or_insert(now_ns);
            let Some(hired) = self.agents.get_mut(part.agent) else { continue };
            if now_ns.saturating_sub(since_ns) >= 1_000_000_000 && !hired.figures.is_straggler {
                hired.figures.is_straggler = true;
                let text = format!("is a straggler: its reports come {behind} intervals after those of the others");
                self.events.push(Event::Mark(format!("agent `{}` {text}", hired.name)));
                hired.figures.remarks.push(text);
            }
        }
    }

    fn figures(&mut self, index: usize) -> Option<&mut Figures> {
        let agent = self.parts.get(index)?.agent;
        self.agents.get_mut(agent).map(|hired| &mut hired.figures)
    }

    /// A part has reported an interval.
    pub(super) fn progress(&mut self, index: usize, progress: PartProgress) {
        if let Some(part) = self.parts.get_mut(index) {
            part.interval = part.interval.max(Some(progress.interval));
        }
        if let Some(figures) = self.figures(index) {
            figures.responses += progress.responses;
            figures.lag_ns = figures.lag_ns.max(progress.lag_ns);
        }
    }

    /// A part has begun.
    pub(super) fn began(&mut self, index: usize, late_ns: u64) {
        let Some(part) = self.parts.get_mut(index) else { return };
        part.has_begun = true;
        if part.joins {
            return;
        }
        let agent = part.agent;
        if let Some(hired) = self.agents.get_mut(agent) {
            hired.figures.late_ns = Some(late_ns);
        }
    }

    /// Nothing more is expected of a part.
    pub(super) fn ended(&mut self, index: usize) {
        if let Some(part) = self.parts.get_mut(index) {
            part.is_over = true;
        }
    }

    /// Lets all agents stop.
    pub(super) fn stop(&mut self) {
        self.is_stopping = true;
        for agent in 0..self.agents.len() {
            self.send(agent, ToAgent::Stop { run: self.id }, Vec::new());
        }
    }

    /// The name of the agent that has a part.
    pub(super) fn name(&self, index: usize) -> String {
        let agent = self.parts.get(index).and_then(|part| self.agents.get(part.agent));
        agent.map_or_else(|| format!("of part {index}"), |hired| hired.name.to_string())
    }

    /// The agents at the end. What is remarkable about them becomes events.
    pub(super) fn finish(&mut self) -> Vec<AgentFigures> {
        for hired in &mut self.agents {
            (hired.figures.clock_offset_ns, hired.figures.clock_error_ns) =
                (hired.clock.offset_ns(), hired.clock.error_ns());
        }
        let mut all: Vec<Figures> = self.agents.iter().map(|hired| hired.figures.clone()).collect();
        if let Some((text, _)) = super::figures::spread(&all) {
            self.events.push(Event::Mark(text));
        }
        for (agent, text) in straggling(&all) {
            if let Some(figures) = all.get_mut(agent) {
                self.events.push(Event::Mark(format!("agent `{}` {text}", figures.name)));
                figures.remarks.push(text);
            }
        }
        all.into_iter().map(Figures::into_public).collect()
    }

    /// Ends the work of agents that still have some.
    pub(super) fn forget(&mut self) {
        for agent in 0..self.agents.len() {
            self.send(agent, ToAgent::Forget { run: self.id }, Vec::new());
        }
    }
}

#[cfg(test)]
#[path = "run_tests.rs"]
mod tests;
