//! Takes looks: passes sockets, destroy events, counters, owners and settings of the kernel to `model::picture`, with the
//! time. Belongs to the thread and the network namespace in which it was opened.

use super::model::listeners::{ConfiguredListener, LISTENERS_MAX};
use super::model::picture::{Evidence, Gathering, Look, Memory, Picture};
use super::timestamp::timestamp;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use sockdiag::{Census, Counters, DestroyEvents, Filter, Owners, Question, Settings, Source, State, StateSet};
use std::collections::HashSet;
use std::os::fd::BorrowedFd;
use std::time::{Duration, Instant};

/// What to look at.
#[derive(Debug, Clone, Default)]
pub(super) struct Wanted {
    pub(super) ports: Vec<u16>,
    /// Backlogs from configurations.
    pub(super) asked: Vec<ConfiguredListener>,
    pub(super) filter: Option<Filter>,
}

/// How often destroy events are read: the queue holds ten times the events of this period at 60,000 closes a second.
const EVENTS_REST: Duration = Duration::from_millis(20);

/// Most listeners that are distinguished from connections when they die: a megabyte at 16 bytes each.
const LISTENER_COOKIES_MAX: usize = 65_536;

/// Takes repeated looks at the kernel.
#[derive(Debug)]
pub(super) struct Sampler {
    wanted: Wanted,
    census: Census,
    /// The error says why the kernel does not report events.
    events: Result<DestroyEvents, String>,
    evidence: Evidence,
    memory: Memory,
    begun: Instant,
    before: Option<(Instant, Counters)>,
    /// The counters at the first look.
    first: Option<Counters>,
    /// Ports with a listener at the last look.
    listening: HashSet<u16>,
}

impl Sampler {
    pub(super) fn open(wanted: Wanted) -> Result<Self, String> {
        let census = Census::open().map_err(|error| error.to_string())?;
        let events = DestroyEvents::open().map_err(|error| error.to_string());
        let mut sampler = Self {
            evidence: evidence(wanted.filter.as_ref(), events.is_ok()),
            wanted,
            census,
            events,
            memory: Memory::default(),
            begun: Instant::now(),
            before: None,
            first: None,
            listening: HashSet::new(),
        };
        // With the listeners known, deaths before the first look can be classified already.
        sampler.find_listeners()?;
        Ok(sampler)
    }

    /// Waits until the time comes (`false`) or `other` becomes readable (`true`), and reads destroy events meanwhile.
    pub(super) fn wait(&mut self, other: Option<BorrowedFd<'_>>, until: Instant) -> Result<bool, String> {
        loop {
            self.drain()?;
            let left = until.saturating_duration_since(Instant::now());
            // Not at each event: reading many at once costs less, and the kernel's queue holds them meanwhile.
            let wait_ms = left.min(EVENTS_REST).as_nanos().div_ceil(1_000_000);
            let mut watched: Vec<PollFd<'_>> =
                other.iter().map(|descriptor| PollFd::new(*descriptor, PollFlags::POLLIN)).collect();
            match poll(&mut watched, PollTimeout::try_from(wait_ms).unwrap_or(PollTimeout::ZERO)) {
                Ok(0) | Err(nix::errno::Errno::EINTR) if left.is_zero() => return Ok(false),
                Ok(0) | Err(nix::errno::Errno::EINTR) => {}
                Ok(_) => return Ok(true),
                Err(error) => return Err(format!("poll() failed: {error}")),
            }
        }
    }

    /// Reads the destroy events that have arrived.
    pub(super) fn drain(&mut self) -> Result<(), String> {
        let Ok(events) = &mut self.events else { return Ok(()) };
        let (memory, filter) = (&mut self.memory, self.wanted.filter.as_ref());
        let is_counted = self.evidence == Evidence::Events;
        let drained = events.drain(|socket| {
            // A dead socket has no owner any more; for a filter by owner, `evidence` does not use events.
            if is_counted && filter.is_none_or(|filter| filter.matches(socket, None)) {
                memory.died(socket);
            }
        });
        let drained = drained.map_err(|error| format!("the kernel's events cannot be read: {error}"))?;
        memory.overran(drained.overruns);
        Ok(())
    }

    /// Takes one look at everything.
    pub(super) fn look(&mut self) -> Result<Picture, String> {
        let begun = Instant::now();
        self.drain()?;
        // Read right after the events, so that counters and deaths belong to the same moment.
        let counters = Counters::read().map_err(|error| format!("the counters cannot be read: {error}"))?;
        self.find_listeners()?;
        let settings = Settings::read();
        let owners = Owners::scan().map_err(|error| format!("the processes cannot be read: {error}"))?;
        let from_proc = matches!(self.census.source(), Source::Proc(_));
        let elapsed_s = self.before.map(|(before, _)| begun.duration_since(before).as_secs_f64());
        let mut gathering = Gathering::begin(Look {
            ports: &self.wanted.ports,
            asked: &self.wanted.asked,
            settings: &settings,
            owners: Some(&owners),
            elapsed_s,
            closes: self.evidence,
            from_proc,
            is_whole: self.wanted.filter.is_none(),
        });
        let filter = self.wanted.filter.as_ref();
        let question = Question { filter, owners: Some(&owners), ..Question::default() };
        let memory = &mut self.memory;
        let mut listening = HashSet::new();
        let summary = self
            .census
            .for_each(&question, |socket| {
                if socket.state == State::Listen && listening.len() < LISTENERS_MAX {
                    listening.insert(socket.local.port());
                }
                gathering.add(socket, memory);
            })
            .map_err(|error| format!("the sockets cannot be read: {error}"))?;
        let counted = self.before.map_or_else(Counters::default, |(_, before)| counters.since(&before));
        self.before = Some((begun, counters));
        self.listening.extend(listening);
        let mut picture = gathering.finish(memory, &counted);
        picture.counted_all = self.first.map_or_else(Counters::default, |first| counters.since(&first));
        self.first.get_or_insert(counters);
        picture.time = timestamp();
        picture.seconds = begun.duration_since(self.begun).as_secs_f64();
        picture.took_ms = begun.elapsed().as_secs_f64() * 1e3;
        self.note(&mut picture, summary.interrupted);
        Ok(picture)
    }

    /// Finds all ports with a listener, including those that the filter excludes. They tell accepted from connecting
    /// sockets.
    fn find_listeners(&mut self) -> Result<(), String> {
        // From /proc a query for listeners costs as much as one for all sockets, so use the result of the last look.
        if self.census.source() == &Source::Netlink || self.before.is_none() {
            let states = StateSet::of(&[State::Listen]);
            let question = Question { states, tcp_info: false, memory: false, ..Question::default() };
            let (mut found, mut cookies) = (HashSet::new(), HashSet::new());
            self.census
                .for_each(&question, |socket| {
                    found.insert(socket.local.port());
                    if cookies.len() < LISTENER_COOKIES_MAX {
                        cookies.insert(socket.cookie);
                    }
                })
                .map_err(|error| format!("the listeners cannot be read: {error}"))?;
            self.memory.listens_on(found.clone(), cookies);
            self.listening = found;
        } else {
            self.memory.listens_on(self.listening.clone(), HashSet::new());
        }
        Ok(())
    }

    /// Adds the limitations of the data to the picture.
    fn note(&self, picture: &mut Picture, interrupted: bool) {
        if let Source::Proc(_) = self.census.source() {
            picture.notes.push(format!("the sockets come from {}", self.census.source()));
        }
        if interrupted {
            picture
                .notes
                .push("the sockets changed during the dump; some may be counted twice or not at all".to_owned());
        }
        match (&self.events, self.evidence) {
            (_, Evidence::Nothing) => {
                picture.notes.push("the filter names states, so who closed first cannot be told".to_owned());
            }
            (Err(reason), _) => picture.notes.push(format!("closes between two looks are missed: {reason}")),
            (Ok(_), Evidence::LooksAlone) => {
                picture.notes.push("the filter names a process, so closes between two looks are missed".to_owned());
            }
            (Ok(_), Evidence::Events) => {}
        }
        if let Some((_, sum)) = &picture.missed
            && sum.overruns > 0
        {
            picture.notes.push(format!("events of dying sockets were lost, {} times", sum.overruns));
        }
    }
}

fn evidence(filter: Option<&Filter>, has_events: bool) -> Evidence {
    match filter {
        Some(filter) if filter.names_a_state() => Evidence::Nothing,
        Some(filter) if filter.names_a_process() => Evidence::LooksAlone,
        _ if has_events => Evidence::Events,
        _ => Evidence::LooksAlone,
    }
}
