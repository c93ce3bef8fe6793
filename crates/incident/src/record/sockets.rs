//! Reads the machine's sockets and counts them: by state, by destination, and the queues of listeners. Belongs to the thread and the
//! network namespace in which it was opened.

use crate::sample::{Counts, Destination, Listener, Sockets};
use sockdiag::{Census, Question, Settings, Socket, Source, State, StateSet};
use std::collections::{HashMap, HashSet};
use watch::model::destinations::Destinations;

/// Most destinations of a sample: a line for each upstream of a usual gateway, and some for other programs.
const DESTINATIONS_MAX: usize = 32;
/// Most listeners of a sample; those with a queue or drops come first.
const LISTENERS_MAX: usize = 32;
/// Most listeners whose drops are remembered; a machine with more has a program that listens on a range of ports.
const REMEMBERED_MAX: usize = 4096;

/// Reads sockets.
#[derive(Debug)]
pub(super) struct SocketReader {
    census: Census,
    settings: Settings,
    /// Drops so far of each listener, by the kernel's number of it.
    drops: HashMap<u64, u32>,
}

impl SocketReader {
    pub(super) fn open() -> Result<Self, String> {
        let census = Census::open().map_err(|error| format!("the sockets cannot be read: {error}"))?;
        Ok(Self { census, settings: Settings::read(), drops: HashMap::new() })
    }

    pub(super) fn settings(&self) -> &Settings {
        &self.settings
    }

    /// What this source cannot tell, if anything.
    pub(super) fn missing(&self) -> Option<String> {
        match self.census.source() {
            Source::Netlink => None,
            source @ Source::Proc(_) => {
                Some(format!("backlogs and drops of listeners: the sockets come from {source}"))
            }
        }
    }

    /// Reads all sockets once.
    pub(super) fn read(&mut self) -> Result<Sockets, String> {
        self.settings = Settings::read();
        let mut found = Vec::new();
        let listening = StateSet::of(&[State::Listen]);
        let of_listeners = Question { states: listening, tcp_info: false, memory: true, ..Question::default() };
        self.visit(&of_listeners, |socket| {
            if found.len() < REMEMBERED_MAX {
                found.push(listener_of(socket));
            }
        })?;
        let ports: HashSet<u16> = found.iter().map(|(_, _, port)| *port).collect();
        let mut states = [0_u64; State::ALL.len()];
        states[State::Listen.index()] = found.len() as u64;
        // connect() takes no port that a listener has.
        let mut settings = self.settings.clone();
        let taken = ports.iter().filter(|port| settings.is_ephemeral(**port)).map(|port| *port..=*port);
        let taken: Vec<_> = taken.collect();
        settings.reserved_ports.extend(taken);
        let mut destinations = Destinations::default();
        let states_asked = StateSet::ALL.without(listening);
        let question = Question { states: states_asked, tcp_info: false, memory: false, ..Question::default() };
        self.visit(&question, |socket| {
            if let Some(count) = states.get_mut(socket.state.index()) {
                *count += 1;
            }
            destinations.count(socket, &settings, |port| ports.contains(&port));
        })?;
        let rows = destinations.finish(&settings, None);
        let counts = State::ALL.iter().zip(states).filter(|(_, count)| *count > 0);
        Ok(Sockets {
            states: counts.map(|(state, count)| (state.name().to_owned(), count)).collect::<Counts>(),
            destinations_more: destinations.unshown() + rows.len().saturating_sub(DESTINATIONS_MAX) as u64,
            destinations: most_pressing(rows),
            listeners: self.finish_listeners(found),
        })
    }

    fn visit(&mut self, question: &Question<'_>, visit: impl FnMut(&Socket)) -> Result<(), String> {
        let visited = self.census.for_each(question, visit);
        visited.map(drop).map_err(|error| format!("the sockets cannot be read: {error}"))
    }

    /// Computes the drops since the last reading.
    fn finish_listeners(&mut self, found: Vec<(Listener, u64, u16)>) -> Vec<Listener> {
        let now: HashMap<u64, u32> = found.iter().map(|(listener, cookie, _)| (*cookie, listener.drops)).collect();
        let before = std::mem::replace(&mut self.drops, now);
        let mut listeners: Vec<Listener> = found
            .into_iter()
            .map(|(listener, cookie, _)| {
                let drops = before.get(&cookie).map_or(0, |then| listener.drops.saturating_sub(*then));
                Listener { drops, ..listener }
            })
            .collect();
        listeners.sort_by(|a, b| (b.drops, b.queue).cmp(&(a.drops, a.queue)).then_with(|| a.address.cmp(&b.address)));
        listeners.truncate(LISTENERS_MAX);
        listeners
    }
}

fn listener_of(socket: &Socket) -> (Listener, u64, u16) {
    // From /proc there is neither a number nor a backlog.
    let backlog = (socket.cookie != 0 && socket.memory.is_some()).then_some(socket.send_queue);
    let drops = socket.memory.map_or(0, |memory| memory.drops);
    let listener = Listener { address: socket.local.to_string(), queue: socket.recv_queue, backlog, drops };
    (listener, socket.cookie, socket.local.port())
}

/// The destinations with the fewest free ports, the most trouble and the most sockets.
fn most_pressing(mut rows: Vec<watch::model::destinations::Destination>) -> Vec<Destination> {
    rows.sort_by_key(|row| std::cmp::Reverse((row.retransmitting + row.unanswered, row.used + row.time_wait)));
    let row = |row: watch::model::destinations::Destination| Destination {
        local: row.local.to_string(),
        remote: row.remote.to_string(),
        used: row.used,
        time_wait: row.time_wait,
        free: row.free,
        connecting: row.connecting,
        unanswered: row.unanswered,
        retransmitting: row.retransmitting,
    };
    rows.into_iter().take(DESTINATIONS_MAX).map(row).collect()
}
