//! One look with everything that is computed from it. Usage: begin, add each socket, finish. Pure; `sampler` supplies
//! the sockets, the counters and the time.

use super::closers::{Closers, Closes, Peer};
use super::destinations::{Destination, Destinations};
use super::listeners::{self, ConfiguredListener, LISTENERS_MAX, Listener};
use super::missed::{Deaths, Missed, Present, between};
use super::piles::{Cause, Pile, Piles};
use super::tally::Tally;
use sockdiag::{Counters, Owners, Settings, Socket, State};
use std::collections::HashSet;

/// The figures of a look.
#[derive(Debug, Clone, Default)]
pub(crate) struct Picture {
    /// UTC, as in RFC 3339.
    pub(crate) time: String,
    /// Seconds since the watch began.
    pub(crate) seconds: f64,
    /// How long the look itself took.
    pub(crate) took_ms: f64,
    pub(crate) tally: Tally,
    pub(crate) listeners: Vec<Listener>,
    pub(crate) destinations: Vec<Destination>,
    /// The largest pile-ups, with the process that owns the socket.
    pub(crate) piles: Vec<(Pile, Option<String>)>,
    /// Sockets and bytes by cause.
    pub(crate) causes: Vec<(Cause, u64, u64)>,
    /// Closes per peer since the watch began.
    pub(crate) closers: Vec<(Peer, Closes)>,
    pub(crate) closes: Closes,
    /// Counters since the previous look; all unknown at the first look.
    pub(crate) counted: Counters,
    /// Counters since the watch began.
    pub(crate) counted_all: Counters,
    /// Missed connections in this interval, and since the watch began; `None` with a filter or without counters.
    pub(crate) missed: Option<(Missed, Missed)>,
    pub(crate) settings: Settings,
    /// Limitations of this picture, in words.
    pub(crate) notes: Vec<String>,
}

/// State that is kept between looks.
#[derive(Debug, Default)]
pub(crate) struct Memory {
    closers: Closers,
    deaths: Deaths,
    present: Option<Present>,
    destinations: Option<Destinations>,
    listeners: Vec<Listener>,
    listening: HashSet<u16>,
    /// Cookies of listeners, so that their deaths do not count as those of connections.
    listener_cookies: HashSet<u64>,
    missed: Missed,
}

impl Memory {
    /// Called before a look with the ports that have a listener, as far as they are known, and the listeners' cookies.
    pub(crate) fn listens_on(&mut self, ports: HashSet<u16>, cookies: HashSet<u64>) {
        // Earlier ones are kept for one more look, because these listeners and their connections may still be dying.
        let before = std::mem::replace(&mut self.listening, ports);
        self.listening.extend(before.into_iter().take(LISTENERS_MAX));
        let before = std::mem::replace(&mut self.listener_cookies, cookies);
        self.listener_cookies.extend(before.into_iter().take(LISTENERS_MAX));
    }

    /// Handles the death of a socket.
    pub(crate) fn died(&mut self, socket: &Socket) {
        if self.listener_cookies.contains(&socket.cookie) {
            return;
        }
        self.deaths.note(socket);
        let listening = &self.listening;
        self.closers.died(socket, |port| listening.contains(&port));
    }

    /// Records overflows of the event queue.
    pub(crate) fn overran(&mut self, times: u32) {
        self.deaths.overran(times);
    }
}

/// The context of a look.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Look<'a> {
    pub(crate) ports: &'a [u16],
    pub(crate) asked: &'a [ConfiguredListener],
    pub(crate) settings: &'a Settings,
    pub(crate) owners: Option<&'a Owners>,
    /// Seconds since the previous look.
    pub(crate) elapsed_s: Option<f64>,
    /// The evidence for closes.
    pub(crate) closes: Evidence,
    /// Whether the sockets come from `/proc`.
    pub(crate) from_proc: bool,
    /// Whether all sockets are included, and not only those that pass a filter.
    pub(crate) is_whole: bool,
}

/// The evidence for closes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Evidence {
    /// Destroy events and the sockets of each look.
    Events,
    /// Only the sockets of each look.
    LooksAlone,
    /// None: the filter excludes states that are the evidence.
    Nothing,
}

/// A look in progress.
#[derive(Debug)]
pub(crate) struct Gathering<'a> {
    look: Look<'a>,
    tally: Tally,
    listeners: Vec<Listener>,
    listeners_unshown: u64,
    destinations: Destinations,
    piles: Piles,
    present: Present,
}

impl<'a> Gathering<'a> {
    pub(crate) fn begin(look: Look<'a>) -> Self {
        Self {
            tally: Tally::of_ports(look.ports),
            listeners: Vec::new(),
            listeners_unshown: 0,
            destinations: Destinations::default(),
            piles: Piles::default(),
            present: Present::default(),
            look,
        }
    }

    pub(crate) fn add(&mut self, socket: &Socket, memory: &mut Memory) {
        self.tally.count(socket);
        if socket.state == State::Listen {
            if self.listeners.len() < LISTENERS_MAX {
                let process = process_of(self.look.owners, socket.inode);
                self.listeners.push(Listener::of(socket, process, self.look.asked, self.look.from_proc));
            } else {
                self.listeners_unshown += 1;
            }
            return;
        }
        let listening = &memory.listening;
        let listens = |port: u16| listening.contains(&port);
        self.destinations.count(socket, self.look.settings, listens);
        self.piles.count(socket);
        self.present.note(socket);
        let elapsed_ms = match self.look.closes {
            Evidence::Events => None,
            // At the first look every socket would be new, so none counts as new.
            Evidence::LooksAlone => Some(self.look.elapsed_s.map_or(0, |elapsed| (elapsed * 1000.0) as u32)),
            Evidence::Nothing => return,
        };
        memory.closers.seen(socket, elapsed_ms, listens);
    }

    /// Completes the look; `counted` has the counters since the previous look.
    pub(crate) fn finish(mut self, memory: &mut Memory, counted: &Counters) -> Picture {
        let look = self.look;
        let listening = &memory.listening;
        memory.closers.look_ends(counted.attempt_fails.unwrap_or(0), |port| listening.contains(&port));
        self.present.seal(memory.present.as_ref());
        let deaths = std::mem::take(&mut memory.deaths);
        let is_accounted = look.is_whole && !self.present.is_cut();
        let missed = memory.present.as_ref().filter(|before| is_accounted && !before.is_cut()).and_then(|before| {
            let missed = between(before, &self.present, &deaths, counted, self.present.grown_since(before))?;
            memory.missed.add(&missed);
            Some((missed, memory.missed))
        });
        let before = memory.destinations.as_ref().zip(look.elapsed_s);
        let destinations = self.destinations.finish(look.settings, before);
        let mut notes = Vec::new();
        let mut note = |count: u64, what: &str| {
            if count > 0 {
                notes.push(format!("{count} {what}"));
            }
        };
        note(self.destinations.unshown(), "sockets to further destinations are counted but not shown");
        note(memory.closers.unplaced(), "closes could not be assigned to a peer");
        note(self.listeners_unshown, "further listeners are not shown");
        note(u64::from(look.owners.map_or(0, Owners::refused)), "processes may not be looked into");
        let unknown = look.settings.unknown();
        if !unknown.is_empty() {
            notes.push(format!("unknown on this system, with all values computed from them: {}", unknown.join(", ")));
        }
        if self.present.is_cut() {
            notes.push("too many connections to find out which of them opened and closed".to_owned());
        }
        if look.owners.is_some_and(Owners::is_cut) {
            notes.push(
                "there are more sockets than the limit of this look-up; the processes of the others are unknown"
                    .to_owned(),
            );
        }
        let causes = self.piles.by_cause().collect();
        let named = |pile: Pile| (pile, process_of(look.owners, pile.inode));
        let listeners = listeners::finish(self.listeners, &memory.listeners);
        memory.listeners.clone_from(&listeners);
        memory.present = Some(self.present);
        memory.destinations = Some(self.destinations);
        Picture {
            tally: self.tally,
            listeners,
            destinations,
            piles: self.piles.largest().into_iter().map(named).collect(),
            causes,
            closers: memory.closers.rows(),
            closes: memory.closers.total(),
            counted: *counted,
            missed,
            settings: look.settings.clone(),
            notes,
            ..Picture::default()
        }
    }
}

fn process_of(owners: Option<&Owners>, inode: u32) -> Option<String> {
    owners?.of(inode).map(|owner| format!("{}[{}]", owner.name, owner.pid))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::piles::PILES_MAX;
    use crate::model::tables::retransmitted_percent;
    use crate::model::tests::socket;

    fn look(settings: &Settings, elapsed_s: Option<f64>) -> Look<'_> {
        Look {
            ports: &[80],
            asked: &[],
            settings,
            owners: None,
            elapsed_s,
            closes: Evidence::Events,
            from_proc: false,
            is_whole: true,
        }
    }

    #[test]
    fn two_looks_give_rates() {
        let settings = Settings { port_range: Some(40_000..=40_999), ..Settings::default() };
        let mut memory = Memory::default();
        memory.listens_on(HashSet::from([80]), HashSet::from([3]));
        memory.died(&Socket { cookie: 3, ..socket(State::Close, "0.0.0.0:81", "0.0.0.0:0") });
        let mut first = Gathering::begin(look(&settings, None));
        first.add(&socket(State::Listen, "0.0.0.0:80", "0.0.0.0:0"), &mut memory);
        let picture = first.finish(&mut memory, &Counters::default());
        assert_eq!((picture.listeners.len(), picture.missed), (1, None));

        let short = Socket { cookie: 7, ..socket(State::Close, "10.0.0.1:80", "10.0.0.2:50000") };
        memory.died(&short);
        let mut second = Gathering::begin(look(&settings, Some(2.0)));
        let reading = Socket {
            cookie: 8,
            inode: 1,
            recv_queue: 9,
            ..socket(State::Established, "10.0.0.1:80", "10.0.0.2:50001")
        };
        second.add(&reading, &mut memory);
        second.add(&socket(State::TimeWait, "10.0.0.1:80", "10.0.0.2:50000"), &mut memory);
        second.add(&socket(State::TimeWait, "10.0.0.1:40000", "10.0.0.3:81"), &mut memory);
        let counted = Counters {
            active_opens: Some(0),
            passive_opens: Some(2),
            attempt_fails: Some(0),
            segments_out: Some(30),
            segments_retrans: Some(10),
            ..Counters::default()
        };
        let picture = second.finish(&mut memory, &counted);
        assert_eq!(retransmitted_percent(&picture.counted), Some(25.0));
        let (now, all) = picture.missed.unwrap();
        assert_eq!((now.opened, now.opens_seen, now.opens_seen_dying, now.closes_seen), (2, 1, 1, 1));
        assert_eq!(now, all);
        assert_eq!((picture.closes.this_side, picture.closes.sum()), (1, 1));
        assert_eq!((picture.destinations.len(), picture.destinations[0].growth_per_s), (1, 0.5));
        assert_eq!((picture.piles.len(), picture.piles[0].0.cause), (1, Cause::NotRead));
    }

    #[test]
    fn counts_a_million_sockets_in_fixed_tables() {
        const SOCKETS: u32 = 1_000_000;
        /// Sockets per destination; there are more destinations than are distinguished.
        const EACH: u32 = 100;
        let settings = Settings { port_range: Some(40_000..=40_999), tw_reuse: Some(0), ..Settings::default() };
        let mut memory = Memory::default();
        let mut gathering = Gathering::begin(look(&settings, None));
        let states = [State::Established, State::TimeWait, State::CloseWait, State::Established];
        for number in 0..SOCKETS {
            let [_, a, b, c] = (number / EACH).to_be_bytes();
            let local = ([10, 0, 0, 1], 40_000 + (number % EACH) as u16);
            let state = states[number as usize % states.len()];
            // In CLOSE_WAIT the FIN counts as a byte in the queue, although no data waits.
            let waiting = u32::from(state != State::TimeWait) + number / (SOCKETS / 2);
            let socket = Socket {
                state,
                cookie: u64::from(number) + 1,
                inode: number + 1,
                recv_queue: waiting,
                ..Socket::between(local.into(), ([11, a, b, c], 80).into())
            };
            gathering.add(&socket, &mut memory);
        }
        assert_eq!(gathering.present.len(), 750_000, "8 bytes each, which is all that grows");
        let picture = gathering.finish(&mut memory, &Counters::default());
        let counts: Vec<_> = picture.tally.all.present().collect();
        assert_eq!(counts, [(State::Established, 500_000), (State::TimeWait, 250_000), (State::CloseWait, 250_000)]);
        assert_eq!((picture.destinations.len(), picture.piles.len()), (4096, PILES_MAX));
        let shown: u32 = picture.destinations.iter().map(|row| row.used + row.time_wait).sum();
        let unshown = format!("{} sockets to further destinations are counted but not shown", SOCKETS - shown);
        assert!(picture.notes.contains(&unshown), "{:?}", picture.notes);
        let piled: u64 = picture.causes.iter().map(|(_, sockets, _)| sockets).sum();
        assert_eq!(piled, 625_000, "{:?}", picture.causes);
    }
}
