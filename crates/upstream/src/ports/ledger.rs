//! The ledger itself: one account per pair of source address and peer.

use std::collections::VecDeque;
use std::net::{IpAddr, SocketAddr};

use rustc_hash::FxHashMap;

use super::Limits;
use crate::Millis;

/// How long Linux keeps a port in TIME_WAIT (`TCP_TIMEWAIT_LEN`, `include/net/tcp.h`); no setting changes it.
const TIME_WAIT_MS: u64 = 60_000;

/// Most pairs: peers come and go, and each pair costs some hundred bytes. Connections of further pairs are not counted.
pub const PAIRS_MAX: usize = 65_536;

/// The time over which the present rate is measured, in steps of a second: long enough for a rate of a few connections
/// a second to show, short enough for a burst to show while it lasts.
const RATE_STEPS: usize = 10;

/// Source and destination. Different pairs can use the same ports.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Pair {
    /// The local address.
    pub source: IpAddr,
    /// The peer's.
    pub peer: SocketAddr,
}

/// Identifies an account while one of its connections is open.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PairId(u32);

/// How a connection ended, as far as its port is concerned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PortEnding {
    /// We closed first: the port waits in TIME_WAIT here.
    WeClosedFirst,
    /// The peer closed first, or either side reset the connection, or it was never established: the port is free.
    Free,
}

/// The state of a pair.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PairUsage {
    /// Source and destination.
    pub pair: Pair,
    /// Ports that `connect()` may choose.
    pub ports: u32,
    /// Ports of open connections, including those being opened.
    pub used: u32,
    /// Ports in TIME_WAIT, as far as this side closed first.
    pub time_wait: u32,
    /// Of these, the ports that `connect()` reuses.
    pub reusable: u32,
    /// Ports left for the next connection.
    pub free: u32,
    /// Connections opened per second, over the last ten seconds.
    pub opened_per_second: f64,
    /// Seconds until no port is left if the decrease of the last ten seconds continues; `None` if there is none.
    pub exhausted_in_s: Option<f64>,
}

/// All accounts of a process.
#[derive(Debug, Default)]
pub struct Ledger {
    limits: Limits,
    ids: FxHashMap<Pair, PairId>,
    accounts: Vec<Account>,
    /// Places of closed accounts.
    vacant: Vec<u32>,
}

#[derive(Debug)]
struct Account {
    pair: Pair,
    /// Open connections with a port that `connect()` may choose.
    used: u32,
    /// All open connections, including those with fixed ports.
    open: u32,
    /// Ports in TIME_WAIT with the time when it began, the oldest first. A port that was reused is no longer in
    /// `waiting` with this time.
    queue: VecDeque<(Millis, u16)>,
    waiting: FxHashMap<u16, Waiting>,
    /// Entries at the front of the queue that are old enough to be reused.
    mature: usize,
    /// Ports of these entries that still wait.
    reusable: u32,
    rate: [Step; RATE_STEPS],
}

/// A port in TIME_WAIT.
#[derive(Debug, Clone, Copy)]
struct Waiting {
    began: Millis,
    /// Whether it is counted in `reusable`.
    is_mature: bool,
}

/// One second of an account's history.
#[derive(Debug, Clone, Copy, Default)]
struct Step {
    /// Which second.
    second: u64,
    /// Connections opened in it.
    opened: u32,
    /// Ports that were not free when it began.
    taken: u32,
}

impl Ledger {
    /// An empty ledger.
    pub fn new(limits: Limits) -> Self {
        Self { limits, ..Self::default() }
    }

    /// The system's settings, which an operator may change at any time.
    pub fn set_limits(&mut self, limits: Limits) {
        self.limits = limits;
    }

    /// The system's settings.
    pub fn limits(&self) -> &Limits {
        &self.limits
    }

    /// Records a connection that has got its port. `None` if there are too many pairs: then its end is not counted
    /// either.
    pub fn opened(&mut self, pair: Pair, port: u16, now: Millis) -> Option<PairId> {
        let id = self.account_of(pair, now)?;
        let limits = &self.limits;
        let account = self.accounts.get_mut(id.0 as usize)?;
        account.advance(limits, now);
        let step = account.step(limits, now);
        step.opened = step.opened.saturating_add(1);
        account.end_wait(port);
        account.open += 1;
        account.used += u32::from(limits.contains(port));
        Some(id)
    }

    /// Records the end of a connection.
    pub fn closed(&mut self, id: PairId, port: u16, ending: PortEnding, now: Millis) {
        let limits = &self.limits;
        let Some(account) = self.accounts.get_mut(id.0 as usize) else { return };
        account.advance(limits, now);
        account.step(limits, now);
        account.open = account.open.saturating_sub(1);
        if limits.contains(port) {
            account.used = account.used.saturating_sub(1);
            if ending == PortEnding::WeClosedFirst {
                account.end_wait(port);
                account.queue.push_back((now, port));
                account.waiting.insert(port, Waiting { began: now, is_mature: false });
            }
        }
    }

    /// The state of a pair. An unused pair has all its ports.
    pub fn usage(&mut self, pair: Pair, now: Millis) -> PairUsage {
        let limits = &self.limits;
        match self.ids.get(&pair).and_then(|id| self.accounts.get_mut(id.0 as usize)) {
            Some(account) => account.usage(limits, now),
            None => Account::new(pair).usage(limits, now),
        }
    }

    /// The state of all pairs used now or within the last minute.
    pub fn usages(&mut self, now: Millis) -> Vec<PairUsage> {
        let limits = &self.limits;
        let ids = self.ids.values();
        let mut usages: Vec<PairUsage> = ids
            .filter_map(|id| Some(self.accounts.get_mut(id.0 as usize)?.usage(limits, now)))
            .filter(|usage| usage.used + usage.time_wait > 0 || usage.opened_per_second > 0.0)
            .collect();
        usages.sort_by_key(|usage| (usage.pair.peer, usage.pair.source));
        usages
    }

    /// The pair to a peer with the fewest ports left, for a connection with an unknown source address.
    pub fn tightest(&mut self, peer: SocketAddr, now: Millis) -> Option<PairUsage> {
        let limits = &self.limits;
        let accounts = self.accounts.iter_mut().filter(|account| account.pair.peer == peer);
        accounts.map(|account| account.usage(limits, now)).min_by_key(|usage| usage.free)
    }

    fn account_of(&mut self, pair: Pair, now: Millis) -> Option<PairId> {
        if let Some(id) = self.ids.get(&pair) {
            return Some(*id);
        }
        if self.vacant.is_empty() && self.accounts.len() >= PAIRS_MAX {
            self.sweep(now);
        }
        let id = match self.vacant.pop() {
            Some(place) => {
                *self.accounts.get_mut(place as usize)? = Account::new(pair);
                PairId(place)
            }
            None if self.accounts.len() < PAIRS_MAX => {
                self.accounts.push(Account::new(pair));
                PairId(self.accounts.len() as u32 - 1)
            }
            None => return None,
        };
        self.ids.insert(pair, id);
        Some(id)
    }

    /// Drops pairs without any state.
    fn sweep(&mut self, now: Millis) {
        let (accounts, vacant, limits) = (&mut self.accounts, &mut self.vacant, &self.limits);
        self.ids.retain(|_, id| {
            let Some(account) = accounts.get_mut(id.0 as usize) else { return false };
            account.advance(limits, now);
            let is_empty = account.open == 0 && account.waiting.is_empty();
            if is_empty {
                vacant.push(id.0);
            }
            !is_empty
        });
    }
}

impl Account {
    fn new(pair: Pair) -> Self {
        Self {
            pair,
            used: 0,
            open: 0,
            queue: VecDeque::new(),
            waiting: FxHashMap::default(),
            mature: 0,
            reusable: 0,
            rate: [Step::default(); RATE_STEPS],
        }
    }

    /// Advances the time: TIME_WAIT ends, and ports become old enough to be reused.
    fn advance(&mut self, limits: &Limits, now: Millis) {
        while let Some(&(began, port)) = self.queue.front()
            && now.since(began) >= TIME_WAIT_MS
        {
            self.queue.pop_front();
            self.mature = self.mature.saturating_sub(1);
            // It may have been reused and closed again since.
            if self.waits_since(port, began) {
                self.end_wait(port);
            }
        }
        if let Some(after_ms) = limits.reuse_after_ms(self.pair.source, self.pair.peer.ip()) {
            while let Some(&(began, port)) = self.queue.get(self.mature)
                && now.since(began) >= after_ms
            {
                self.mature += 1;
                if let Some(waiting) = self.waiting.get_mut(&port).filter(|waiting| waiting.began == began) {
                    waiting.is_mature = true;
                    self.reusable += 1;
                }
            }
        }
        // A port that is reused repeatedly leaves an entry each time.
        if self.queue.len() > 2 * self.waiting.len() + QUEUE_SLACK {
            let waiting = &self.waiting;
            self.queue.retain(|(began, port)| waiting.get(port).is_some_and(|waiting| waiting.began == *began));
            self.mature = self.reusable as usize;
        }
    }

    fn waits_since(&self, port: u16, began: Millis) -> bool {
        self.waiting.get(&port).is_some_and(|waiting| waiting.began == began)
    }

    fn end_wait(&mut self, port: u16) {
        if self.waiting.remove(&port).is_some_and(|waiting| waiting.is_mature) {
            self.reusable -= 1;
        }
    }

    /// Waiting ports that may be reused.
    fn reusable(&self, limits: &Limits) -> u32 {
        // The setting may have been changed since they were counted.
        let applies = limits.reuse_after_ms(self.pair.source, self.pair.peer.ip()).is_some();
        if applies { self.reusable } else { 0 }
    }

    /// Ports that are not free.
    fn taken(&self, limits: &Limits) -> u32 {
        self.used + (self.waiting.len() as u32).saturating_sub(self.reusable(limits))
    }

    /// The present second's record.
    fn step(&mut self, limits: &Limits, now: Millis) -> &mut Step {
        let second = now.0 / 1000;
        let place = (second % RATE_STEPS as u64) as usize;
        if self.rate[place].second != second {
            self.rate[place] = Step { second, opened: 0, taken: self.taken(limits) };
        }
        &mut self.rate[place]
    }

    fn usage(&mut self, limits: &Limits, now: Millis) -> PairUsage {
        self.advance(limits, now);
        let ports = limits.ports();
        let time_wait = self.waiting.len() as u32;
        let reusable = self.reusable(limits);
        let taken = self.taken(limits);
        let free = ports.saturating_sub(taken);
        let (opened_per_second, growth) = self.rates(taken, now);
        let exhausted_in_s = (growth > 0.0).then(|| f64::from(free) / growth);
        PairUsage {
            pair: self.pair,
            ports,
            used: self.used,
            time_wait,
            reusable,
            free,
            opened_per_second,
            exhausted_in_s,
        }
    }

    /// Connections opened and ports taken, both per second, since the oldest remembered second.
    fn rates(&self, taken: u32, now: Millis) -> (f64, f64) {
        let second = now.0 / 1000;
        let recent = |step: &&Step| step.second > 0 && second.saturating_sub(step.second) < RATE_STEPS as u64;
        let steps = || self.rate.iter().filter(recent);
        let Some(oldest) = steps().min_by_key(|step| step.second) else { return (0.0, 0.0) };
        // A rate needs at least a second, or a single connection would count as a thousand.
        let seconds = (now.since(Millis(oldest.second * 1000)).max(1000)) as f64 / 1000.0;
        let opened: u32 = steps().map(|step| step.opened).sum();
        (f64::from(opened) / seconds, (f64::from(taken) - f64::from(oldest.taken)) / seconds)
    }
}

/// Entries of a queue that are not worth removing.
const QUEUE_SLACK: usize = 1024;

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const START: Millis = Millis(1_000_000);

    fn pair(source: [u8; 4]) -> Pair {
        Pair { source: source.into(), peer: ([10, 0, 0, 9], 80).into() }
    }

    fn ledger(reuse: &str) -> Ledger {
        Ledger::new(Limits::parse("40000 40063", "", reuse, "1000", "1"))
    }

    #[test]
    fn a_port_is_used_then_waits_then_is_free() {
        let mut ledger = ledger("0");
        let near = pair([10, 0, 0, 1]);
        let id = ledger.opened(near, 40_000, START).expect("there is room");
        let counts = |ledger: &mut Ledger, now| {
            let usage = ledger.usage(near, now);
            (usage.used, usage.time_wait, usage.free)
        };
        assert_eq!(counts(&mut ledger, START), (1, 0, 63));
        ledger.closed(id, 40_000, PortEnding::WeClosedFirst, START.plus(10));
        assert_eq!(counts(&mut ledger, START.plus(60_009)), (0, 1, 63));
        assert_eq!(counts(&mut ledger, START.plus(60_010)), (0, 0, 64));
        let id = ledger.opened(near, 40_001, START).expect("there is room");
        ledger.closed(id, 40_001, PortEnding::Free, START);
        assert_eq!(counts(&mut ledger, START), (0, 0, 64));
        let id = ledger.opened(near, 80, START).expect("there is room");
        assert_eq!(counts(&mut ledger, START), (0, 0, 64), "a fixed port takes nothing from the range");
        ledger.closed(id, 80, PortEnding::WeClosedFirst, START);
        assert_eq!(counts(&mut ledger, START), (0, 0, 64));
    }

    #[test]
    fn pairs_do_not_get_into_each_others_way() {
        let mut ledger = ledger("0");
        let (one, other) = (pair([10, 0, 0, 1]), pair([10, 0, 0, 2]));
        for port in 40_000..40_064 {
            ledger.opened(one, port, START).expect("there is room");
        }
        assert_eq!((ledger.usage(one, START).free, ledger.usage(other, START).free), (0, 64));
        assert_eq!(ledger.tightest(one.peer, START).map(|usage| usage.pair), Some(one));
        assert_eq!(ledger.usages(START).len(), 1, "who was never used is not shown");
    }

    #[test]
    fn tcp_tw_reuse_makes_waiting_ports_free_after_a_second() {
        for (reuse, source, free) in
            [("0", [127, 0, 0, 1], 0), ("1", [10, 0, 0, 1], 64), ("2", [127, 0, 0, 1], 64), ("2", [10, 0, 0, 1], 0)]
        {
            let mut ledger = ledger(reuse);
            let pair = pair(source);
            for port in 40_000..40_064 {
                let id = ledger.opened(pair, port, START).expect("there is room");
                ledger.closed(id, port, PortEnding::WeClosedFirst, START);
            }
            assert_eq!(ledger.usage(pair, START.plus(999)).free, 0);
            let later = ledger.usage(pair, START.plus(1000));
            assert_eq!((later.time_wait, later.free), (64, free), "tcp_tw_reuse {reuse} from {source:?}");
            if free > 0 {
                ledger.opened(pair, 40_007, START.plus(1000)).expect("there is room");
                let usage = ledger.usage(pair, START.plus(1000));
                assert_eq!((usage.used, usage.time_wait, usage.reusable, usage.free), (1, 63, 63, 63));
            }
        }
    }

    #[test]
    fn predicts_exhaustion_from_recent_use() {
        let mut ledger = ledger("0");
        let pair = pair([10, 0, 0, 1]);
        assert_eq!(ledger.usage(pair, START).exhausted_in_s, None);
        for step in 0..20 {
            let now = START.plus(step * 250);
            let port = 40_000 + step as u16;
            let id = ledger.opened(pair, port, now).expect("there is room");
            ledger.closed(id, port, PortEnding::WeClosedFirst, now.plus(1));
        }
        // Four a second for five seconds, 44 are left.
        let usage = ledger.usage(pair, START.plus(5000));
        assert!((usage.opened_per_second - 4.0).abs() < 0.1, "{usage:?}");
        let left = usage.exhausted_in_s.expect("they become fewer");
        assert!((left - 11.0).abs() < 0.5, "{usage:?}");
        assert_eq!(ledger.usage(pair, START.plus(30_000)).exhausted_in_s, None, "nothing happened lately");
    }

    #[test]
    fn a_full_ledger_forgets_ended_connections_and_counts_no_more() {
        let mut ledger = ledger("0");
        let pair_of =
            |number: u32| Pair { source: IpAddr::from(number.to_be_bytes()), peer: ([10, 0, 0, 9], 80).into() };
        for number in 0..PAIRS_MAX as u32 {
            let id = ledger.opened(pair_of(number), 40_000, START).expect("there is room");
            if number % 2 == 0 {
                ledger.closed(id, 40_000, PortEnding::Free, START);
            }
        }
        let next = PAIRS_MAX as u32;
        assert!(ledger.opened(pair_of(next), 40_000, START).is_some());
        for number in next + 1..next + PAIRS_MAX as u32 / 2 {
            assert!(ledger.opened(pair_of(number), 40_000, START).is_some());
        }
        assert!(ledger.opened(pair_of(u32::MAX), 40_000, START).is_none());
        assert_eq!(ledger.usage(pair_of(1), START).used, 1, "who is there is kept");
    }

    proptest! {
        /// Compares the ledger with a list of each port's state: connects take a port that the kernel would give,
        /// closes put it into TIME_WAIT or free it, and time passes.
        #[test]
        fn the_ledger_agrees_with_a_list_of_ports(
            reuse in 0..3_u8,
            operations in prop::collection::vec((0..3_u8, 0..64_u16, 0..2500_u64), 1..400),
        ) {
            #[derive(Clone, Copy, PartialEq)]
            enum Port { Free, Used, Waiting(Millis) }
            let mut ledger = ledger(&reuse.to_string());
            let pair = pair([127, 0, 0, 1]);
            let mut ports = [Port::Free; 64];
            let (mut now, mut ids) = (START, std::collections::HashMap::new());
            let can_take = |port: Port, now: Millis| match port {
                Port::Free => true,
                Port::Used => false,
                Port::Waiting(began) => {
                    let age = now.since(began);
                    age >= TIME_WAIT_MS || (reuse > 0 && age >= 1000)
                }
            };
            for (operation, index, wait_ms) in operations {
                now = now.plus(wait_ms);
                let (place, port) = (usize::from(index), 40_000 + index);
                match operation {
                    0 if can_take(ports[place], now) => {
                        ids.insert(port, ledger.opened(pair, port, now).expect("there is room"));
                        ports[place] = Port::Used;
                    }
                    1 | 2 if ports[place] == Port::Used => {
                        let ending = if operation == 1 { PortEnding::WeClosedFirst } else { PortEnding::Free };
                        ledger.closed(ids[&port], port, ending, now);
                        ports[place] = if operation == 1 { Port::Waiting(now) } else { Port::Free };
                    }
                    _ => {}
                }
                let usage = ledger.usage(pair, now);
                let waiting = |port: &&Port| matches!(port, Port::Waiting(began) if now.since(*began) < TIME_WAIT_MS);
                prop_assert_eq!(usage.used as usize, ports.iter().filter(|port| **port == Port::Used).count());
                prop_assert_eq!(usage.time_wait as usize, ports.iter().filter(waiting).count());
                prop_assert_eq!(usage.free as usize, ports.iter().filter(|port| can_take(**port, now)).count());
            }
        }
    }
}
