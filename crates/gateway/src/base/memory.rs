//! `memory_budget`: one number of bytes for the buffers of all connections, an account of which connection holds how
//! much, and what to give up when it runs out. Counted: a connection's fixed part, heads, bodies in memory, bytes that
//! a socket has not accepted, buffers kept for the next exchange. Not counted: the kernel's socket buffers, idle
//! upstream connections, log lines (bounded separately), the configuration, and the room of each worker for a batch of
//! datagrams (1 MB, of which only touched pages take memory).
//!
//! A worker takes bytes from the budget in chunks and spends them without synchronisation: it touches the
//! process-wide counter once for many requests. An exchange reports what it holds whenever it waits; between two waits the amount does
//! not change.

use crate::base::alarm::Alarm;
use crate::base::counters::bump;
use crate::base::holder::Holder;
use conf::model::{MemoryBudget, Shed};
use reactor::TaskId;
use std::cell::{Cell, RefCell};
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};

/// The cost of a connection without buffers: its struct, its slots in the tables, its timer (ADR 3).
pub(crate) const CONNECTION_BYTES: usize = 512;
/// The cost of a tunnel: the same for its two sockets, and the least that it may hold in each direction.
pub(crate) const TUNNEL_BYTES: usize = 2 * (256 + TUNNEL_FLOOR_BYTES);
/// The cost of an exchange: its future (ADR 3) and the fixed part of its head.
pub(crate) const EXCHANGE_BYTES: usize = 4096 + 1024;
/// Bytes that an exchange may always read at once; otherwise a client that reads slowly could not be served at all.
pub(crate) const FLOOR_BYTES: usize = 4096;
/// The least that an exchange counts for its buffers: a response head of usual size, bytes being relayed, twice that
/// for a buffer that doubles, and as much for decoding. It is reserved in full when the exchange is admitted.
pub(crate) const BUFFERS_BYTES_MIN: usize = HEAD_BYTES_USUAL + 3 * FLOOR_BYTES;
/// nginx's `proxy_buffer_size`. A longer response head is read only while memory is not short.
pub(crate) const HEAD_BYTES_USUAL: usize = 4096;
/// The same for a direction of a tunnel.
pub(crate) const TUNNEL_FLOOR_BYTES: usize = 256;

/// Percent of the budget above which idle keepalive connections are closed.
const KEEPALIVE_PERCENT: u64 = 80;
/// Percent above which new requests are answered 503.
const REQUESTS_PERCENT: u64 = 90;
/// Percent above which nothing is accepted any more, and buffers do not grow. The rest is for exchanges admitted
/// before.
const ACCEPTS_PERCENT: u64 = 95;

/// Most that a worker takes at once: as much as one read. With a small budget the chunks are smaller, so that bytes
/// taken but not spent stay below a thirty-second of the budget.
const CHUNK_BYTES_MAX: u64 = 256 * 1024;
const CHUNK_BYTES_MIN: u64 = 4096;
const CHUNKS_PER_WORKER: u64 = 64;

/// Means that there is no budget.
const UNLIMITED: u64 = u64::MAX;

/// How short memory is; each level includes the ones before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Pressure {
    None,
    /// Idle keepalive connections are closed.
    Keepalive,
    /// New requests are refused.
    Requests,
    /// Nothing is accepted.
    Accepts,
}

impl Pressure {
    /// The labels in metrics, mildest first.
    pub(crate) const LABELS: [&str; 4] = ["none", "keepalive", "requests", "accepts"];

    pub(crate) fn label(self) -> &'static str {
        Self::LABELS[self as usize]
    }
}

/// What a connection holds bytes for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[repr(u8)]
pub(crate) enum HeldFor {
    /// It is idle, its head is incomplete, or it lingers.
    #[default]
    Connection = 0,
    Exchange = 1,
    Tunnel = 2,
}

/// Bytes that a worker holds; only that worker writes it.
#[derive(Debug, Default)]
pub(crate) struct Held {
    /// All bytes, including buffers kept for the next exchange.
    pub(crate) all: AtomicU64,
    /// Bytes of connections, by [`HeldFor`].
    pub(crate) by: [AtomicU64; 3],
}

/// The budget of the process.
#[derive(Debug)]
#[repr(align(128))]
pub(crate) struct Memory {
    budget: AtomicU64,
    chunk: AtomicU64,
    shed: AtomicU8,
    /// Bytes taken by workers, spent or not.
    claimed: AtomicU64,
    claimed_most: AtomicU64,
    /// The most of `claimed` since memory was last returned to the system.
    claimed_lately: AtomicU64,
    /// Requests answered 503.
    pub(crate) refused: Alarm,
    /// Pauses of accepting.
    pub(crate) paused: Alarm,
    /// Idle connections closed.
    pub(crate) closed: Alarm,
}

/// The memory of connections, as the process counts it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct MemoryUse {
    /// `memory_budget` in bytes; `None` for no limit.
    pub budget: Option<u64>,
    /// Bytes held by connections, or kept for the next.
    pub held: u64,
    /// Bytes of client connections that are idle or have no complete head.
    pub held_by_connections: u64,
    /// Bytes of exchanges.
    pub held_by_exchanges: u64,
    /// Bytes of tunnels.
    pub held_by_tunnels: u64,
    /// Bytes that workers have reserved, held or not.
    pub claimed: u64,
    /// The most that was ever reserved.
    pub claimed_most: u64,
    /// Idle connections closed to make room.
    pub connections_closed: u64,
    /// Requests answered 503.
    pub requests_refused: u64,
    /// How often a worker stopped accepting.
    pub accept_pauses: u64,
}

impl Default for Memory {
    fn default() -> Self {
        Self {
            budget: AtomicU64::new(UNLIMITED),
            chunk: AtomicU64::new(CHUNK_BYTES_MAX),
            shed: AtomicU8::new(Shed::InOrder as u8),
            claimed: AtomicU64::new(0),
            claimed_most: AtomicU64::new(0),
            claimed_lately: AtomicU64::new(0),
            refused: Alarm::default(),
            paused: Alarm::default(),
            closed: Alarm::default(),
        }
    }
}

impl Memory {
    /// Applies the configured budget from now on.
    pub(crate) fn limit(&self, budget: Option<MemoryBudget>, workers: usize) {
        let bytes = budget.map_or(UNLIMITED, |budget| budget.bytes);
        let chunk = bytes / (CHUNKS_PER_WORKER * workers.max(1) as u64);
        self.chunk.store(chunk.clamp(CHUNK_BYTES_MIN, CHUNK_BYTES_MAX), Ordering::Relaxed);
        self.shed.store(budget.map_or(Shed::InOrder, |budget| budget.shed) as u8, Ordering::Relaxed);
        self.budget.store(bytes, Ordering::Relaxed);
    }

    pub(crate) fn budget(&self) -> Option<u64> {
        Some(self.budget.load(Ordering::Relaxed)).filter(|budget| *budget != UNLIMITED)
    }

    /// How short memory is, as far as the configuration wants a reaction.
    pub(crate) fn pressure(&self) -> Pressure {
        let Some(budget) = self.budget() else { return Pressure::None };
        let claimed = self.claimed.load(Ordering::Relaxed);
        let above = |share| claimed >= percent(budget, share);
        let level = match () {
            () if above(ACCEPTS_PERCENT) => Pressure::Accepts,
            () if above(REQUESTS_PERCENT) => Pressure::Requests,
            () if above(KEEPALIVE_PERCENT) => Pressure::Keepalive,
            () => return Pressure::None,
        };
        match self.shed.load(Ordering::Relaxed) {
            shed if shed == Shed::Nothing as u8 => Pressure::None,
            shed if shed == Shed::Keepalive as u8 => level.min(Pressure::Keepalive),
            shed if shed == Shed::Requests as u8 && level < Pressure::Requests => Pressure::None,
            _ => level,
        }
    }

    /// Whether idle connections stay open when memory is short: the configuration then sheds requests only.
    pub(crate) fn spares_keepalive(&self) -> bool {
        self.shed.load(Ordering::Relaxed) == Shed::Requests as u8
    }

    /// Claims enough to cover `need`: whole chunks while the total stays below the mark at which buffers stop growing.
    /// Above the mark it claims exactly `need`, for exchanges that were already admitted.
    fn claim(&self, need: u64) -> u64 {
        let chunk = self.chunk.load(Ordering::Relaxed);
        let whole = need.next_multiple_of(chunk);
        let mark = percent(self.budget.load(Ordering::Relaxed), ACCEPTS_PERCENT);
        let fits = self.claimed.load(Ordering::Relaxed).saturating_add(whole) <= mark;
        let bytes = if fits { whole } else { need };
        let claimed = self.claimed.fetch_add(bytes, Ordering::Relaxed) + bytes;
        self.note_claimed(claimed);
        bytes
    }

    /// Claims up to `wanted` bytes without exceeding a limit on the total.
    fn claim_within(&self, wanted: u64, limit: u64) -> u64 {
        let room = |claimed: u64| limit.saturating_sub(claimed).min(wanted);
        let grow = |claimed: u64| Some(claimed + room(claimed)).filter(|_| room(claimed) > 0);
        match self.claimed.fetch_update(Ordering::Relaxed, Ordering::Relaxed, grow) {
            Ok(before) => {
                self.note_claimed(before + room(before));
                room(before)
            }
            Err(_) => 0,
        }
    }

    fn note_claimed(&self, claimed: u64) {
        self.claimed_most.fetch_max(claimed, Ordering::Relaxed);
        self.claimed_lately.fetch_max(claimed, Ordering::Relaxed);
    }

    /// How far the claimed bytes have fallen below their maximum since this last returned `Some`; `None` if that is
    /// less than `enough`, so that a small fall can accumulate.
    pub(crate) fn take_fall(&self, enough: u64) -> Option<u64> {
        let claimed = self.claimed.load(Ordering::Relaxed);
        let fall = self.claimed_lately.load(Ordering::Relaxed).saturating_sub(claimed);
        if fall < enough {
            return None;
        }
        self.claimed_lately.store(claimed, Ordering::Relaxed);
        Some(fall)
    }

    fn give_back(&self, bytes: u64) {
        self.claimed.fetch_sub(bytes, Ordering::Relaxed);
    }

    /// Sums the numbers of all workers.
    pub(crate) fn in_use<'a>(&self, workers: impl Iterator<Item = &'a Held>) -> MemoryUse {
        let mut used = MemoryUse {
            budget: self.budget(),
            claimed: self.claimed.load(Ordering::Relaxed),
            claimed_most: self.claimed_most.load(Ordering::Relaxed),
            connections_closed: self.closed.total(),
            requests_refused: self.refused.total(),
            accept_pauses: self.paused.total(),
            ..MemoryUse::default()
        };
        for held in workers {
            let by = |reason: HeldFor| held.by[reason as usize].load(Ordering::Relaxed);
            used.held += held.all.load(Ordering::Relaxed);
            used.held_by_connections += by(HeldFor::Connection);
            used.held_by_exchanges += by(HeldFor::Exchange);
            used.held_by_tunnels += by(HeldFor::Tunnel);
        }
        used
    }
}

fn percent(budget: u64, share: u64) -> u64 {
    budget / 100 * share
}

/// Bytes that several exchanges hold together, on several workers: they count in the budget, and in the account of no
/// connection.
#[derive(Debug)]
pub(crate) struct CommonBytes {
    memory: &'static Memory,
    bytes: u64,
}

impl CommonBytes {
    pub(crate) fn new(memory: &'static Memory) -> Self {
        Self { memory, bytes: 0 }
    }

    /// Sets how many there are now.
    pub(crate) fn set(&mut self, bytes: u64) {
        if bytes > self.bytes {
            let more = bytes - self.bytes;
            let claimed = self.memory.claimed.fetch_add(more, Ordering::Relaxed) + more;
            self.memory.note_claimed(claimed);
        } else {
            self.memory.give_back(self.bytes - bytes);
        }
        self.bytes = bytes;
    }

    /// Whether there may be more: not above the mark at which buffers stop growing.
    pub(crate) fn may_grow(&self) -> bool {
        let is_kept_within = self.memory.shed.load(Ordering::Relaxed) != Shed::Nothing as u8;
        let Some(budget) = self.memory.budget().filter(|_| is_kept_within) else { return true };
        self.memory.claimed.load(Ordering::Relaxed) < percent(budget, ACCEPTS_PERCENT)
    }
}

impl Drop for CommonBytes {
    fn drop(&mut self) {
        self.memory.give_back(self.bytes);
    }
}

/// The account of one worker.
#[derive(Debug)]
pub(crate) struct Ledger {
    memory: &'static Memory,
    /// Bytes held by this worker's connections, for other threads to read.
    held: &'static Held,
    /// Bytes claimed and not spent.
    credit: Cell<u64>,
    /// By task index.
    holders: RefCell<Vec<Holder>>,
}

impl Ledger {
    pub(crate) fn new(memory: &'static Memory, held: &'static Held) -> Self {
        Self { memory, held, credit: Cell::new(0), holders: RefCell::default() }
    }

    /// Makes room for this many connections.
    pub(crate) fn reserve(&self, connections: usize) {
        self.holders.borrow_mut().reserve(connections);
    }

    pub(crate) fn pressure(&self) -> Pressure {
        self.memory.pressure()
    }

    /// Sets the serial number of a task's connection.
    pub(crate) fn name(&self, task: TaskId, serial: u64) {
        let mut holders = self.holders.borrow_mut();
        let index = task.index as usize;
        if index >= holders.len() {
            holders.resize(index + 1, Holder::default());
        }
        holders[index].set_serial(serial);
    }

    /// Sets what a connection holds now; 0 when it ends.
    pub(crate) fn hold(&self, task: TaskId, reason: HeldFor, bytes: usize) {
        let bytes = bytes as u64;
        let was = match self.holders.borrow_mut().get_mut(task.index as usize) {
            Some(holder) => holder.hold(reason as usize, bytes),
            None => return,
        };
        let before = was.bytes();
        if (before, was.reason()) == (bytes, reason as usize) {
            return;
        }
        if let Some(counter) = self.held.by.get(was.reason()) {
            bump(counter, -(before as i64));
        }
        bump(&self.held.by[reason as usize], bytes as i64);
        if bytes > before {
            self.spend(bytes - before);
        } else if bytes < before {
            self.regain(before - bytes);
        }
    }

    /// The serial number of a task's connection.
    pub(crate) fn serial(&self, task: TaskId) -> u64 {
        self.holders.borrow().get(task.index as usize).map_or(0, |holder| holder.serial())
    }

    /// Bytes that a task holds.
    pub(crate) fn held_by(&self, task: TaskId) -> u64 {
        self.holders.borrow().get(task.index as usize).map_or(0, |holder| holder.bytes())
    }

    /// The connections that hold the most, by `$connection`, largest first.
    pub(crate) fn largest(&self, count: usize) -> Vec<(u64, u64)> {
        let mut all: Vec<(u64, u64)> =
            self.holders.borrow().iter().map(|holder| (holder.serial(), holder.bytes())).collect();
        all.sort_unstable_by_key(|(_, bytes)| std::cmp::Reverse(*bytes));
        all.truncate(count);
        all
    }

    /// Spends bytes that no connection holds, such as buffers kept for the next exchange.
    pub(crate) fn spend(&self, bytes: u64) {
        bump(&self.held.all, bytes as i64);
        let credit = self.credit.get();
        if credit < bytes {
            self.credit.set(credit + self.memory.claim(bytes - credit) - bytes);
        } else {
            self.credit.set(credit - bytes);
        }
    }

    /// The opposite of [`Self::spend`].
    pub(crate) fn regain(&self, bytes: u64) {
        bump(&self.held.all, -(bytes as i64));
        self.credit.set(self.credit.get() + bytes);
        if self.credit.get() > 2 * self.memory.chunk.load(Ordering::Relaxed) {
            self.trim();
        }
    }

    /// Returns unspent bytes beyond one chunk to the budget.
    pub(crate) fn trim(&self) {
        let chunk = self.memory.chunk.load(Ordering::Relaxed);
        let surplus = self.credit.get().saturating_sub(chunk);
        self.credit.set(self.credit.get() - surplus);
        self.memory.give_back(surplus);
    }

    /// How many of `wanted` further bytes may be held, at least `floor`.
    pub(crate) fn room(&self, wanted: usize, floor: usize) -> usize {
        self.room_below(ACCEPTS_PERCENT, wanted, floor)
    }

    /// The same for a request's body. A file can take it instead, so bodies never fill the memory so far that other
    /// requests suffer.
    pub(crate) fn room_for_body(&self, wanted: usize) -> usize {
        self.room_below(KEEPALIVE_PERCENT, wanted, FLOOR_BYTES)
    }

    fn room_below(&self, share: u64, wanted: usize, floor: usize) -> usize {
        let Some(budget) = self.memory.budget() else { return wanted };
        if self.memory.shed.load(Ordering::Relaxed) == Shed::Nothing as u8 {
            return wanted;
        }
        let mark = percent(budget, share);
        // Credit left over from claims above the mark is not for growth: otherwise each such claim would let buffers
        // grow further.
        let beyond = self.memory.claimed.load(Ordering::Relaxed).saturating_sub(mark);
        let free = self.credit.get().saturating_sub(beyond);
        if free >= wanted as u64 {
            return wanted;
        }
        let taken = self.memory.claim_within(wanted as u64 - free, mark);
        self.credit.set(self.credit.get() + taken);
        wanted.min(((free + taken) as usize).max(floor))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MB: u64 = 1 << 20;

    fn ledger(budget: Option<MemoryBudget>) -> (&'static Memory, Ledger) {
        let memory: &'static Memory = Box::leak(Box::default());
        memory.limit(budget, 1);
        (memory, Ledger::new(memory, Box::leak(Box::default())))
    }

    fn task(index: u32) -> TaskId {
        TaskId { index, generation: 0 }
    }

    fn of(bytes: u64, shed: Shed) -> MemoryBudget {
        MemoryBudget { bytes, shed }
    }

    #[test]
    fn memory_of_connections_is_counted_by_kind() {
        let (memory, ledger) = ledger(Some(of(MB, Shed::InOrder)));
        for (index, bytes) in [(0, 1000), (1, 70_000), (2, 5000)] {
            ledger.name(task(index), u64::from(index) + 10);
            ledger.hold(task(index), HeldFor::Exchange, bytes);
        }
        assert_eq!(ledger.held.all.load(Ordering::Relaxed), 76_000);
        assert_eq!(ledger.largest(2), [(11, 70_000), (12, 5000)]);
        assert_eq!(ledger.serial(task(2)), 12);
        let claimed = memory.claimed.load(Ordering::Relaxed);
        assert!((76_000..76_000 + 2 * MB / CHUNKS_PER_WORKER).contains(&claimed), "{claimed}");
        for index in 0..3 {
            ledger.hold(task(index), HeldFor::Exchange, 0);
        }
        ledger.trim();
        assert_eq!(ledger.held.all.load(Ordering::Relaxed), 0);
        assert!(memory.claimed.load(Ordering::Relaxed) <= MB / CHUNKS_PER_WORKER);
    }

    #[test]
    fn memory_is_counted_by_purpose() {
        let (memory, ledger) = ledger(None);
        let by = || ledger.held.by.each_ref().map(|bytes| bytes.load(Ordering::Relaxed));
        ledger.name(task(0), 1);
        ledger.name(task(1), 2);
        ledger.hold(task(0), HeldFor::Connection, 500);
        ledger.hold(task(1), HeldFor::Exchange, 9000);
        assert_eq!(by(), [500, 9000, 0]);
        ledger.hold(task(0), HeldFor::Exchange, 500);
        ledger.hold(task(1), HeldFor::Tunnel, 700);
        ledger.spend(40);
        assert_eq!(by(), [0, 500, 700]);
        let used = memory.in_use([ledger.held].into_iter());
        assert_eq!((used.held, used.held_by_exchanges, used.held_by_tunnels), (1240, 500, 700));
        ledger.hold(task(1), HeldFor::Connection, 0);
        assert_eq!(by(), [0, 500, 0]);
    }

    #[test]
    fn the_levels_come_in_order_and_go_again() {
        let (memory, ledger) = ledger(Some(of(MB, Shed::InOrder)));
        ledger.name(task(0), 1);
        let mut seen = Vec::new();
        for share in [10, 82, 87, 91, 93, 97, 50] {
            ledger.hold(task(0), HeldFor::Exchange, percent(MB, share) as usize);
            ledger.trim();
            seen.push(memory.pressure());
        }
        use Pressure::{Accepts, Keepalive, None, Requests};
        assert_eq!(seen, [None, Keepalive, Keepalive, Requests, Requests, Accepts, None]);
    }

    #[test]
    fn policy_sheds_in_order() {
        for (shed, at_85, at_99) in [
            (Shed::InOrder, Pressure::Keepalive, Pressure::Accepts),
            (Shed::Keepalive, Pressure::Keepalive, Pressure::Keepalive),
            (Shed::Requests, Pressure::None, Pressure::Accepts),
            (Shed::Nothing, Pressure::None, Pressure::None),
        ] {
            let (memory, ledger) = ledger(Some(of(MB, shed)));
            ledger.name(task(0), 1);
            ledger.hold(task(0), HeldFor::Exchange, percent(MB, 85) as usize);
            assert_eq!(memory.pressure(), at_85, "{shed:?}");
            ledger.hold(task(0), HeldFor::Exchange, percent(MB, 99) as usize);
            assert_eq!(memory.pressure(), at_99, "{shed:?}");
        }
    }

    #[test]
    fn buffers_grow_to_the_mark_and_never_below_their_floor() {
        let (memory, ledger) = ledger(Some(of(MB, Shed::InOrder)));
        ledger.name(task(0), 1);
        assert_eq!(ledger.room(100_000, FLOOR_BYTES), 100_000);
        ledger.hold(task(0), HeldFor::Exchange, percent(MB, 94) as usize);
        assert_eq!(ledger.room(100_000, FLOOR_BYTES) as u64, percent(MB, 95) - percent(MB, 94));
        ledger.hold(task(0), HeldFor::Exchange, percent(MB, 96) as usize);
        assert_eq!(ledger.room(100_000, FLOOR_BYTES), FLOOR_BYTES);
        assert_eq!(ledger.room(100, FLOOR_BYTES), 100);
        assert!(memory.claimed_most.load(Ordering::Relaxed) <= MB);
    }

    #[test]
    fn buffers_above_the_mark_do_not_accumulate() {
        let (memory, ledger) = ledger(Some(of(MB, Shed::InOrder)));
        ledger.name(task(0), 1);
        ledger.name(task(1), 2);
        let mut grown = percent(MB, 95) as usize;
        ledger.hold(task(0), HeldFor::Exchange, grown);
        for _ in 0..100 {
            // A refused request ends at once; the buffer then takes the room that it is given.
            ledger.hold(task(1), HeldFor::Exchange, 20_000);
            ledger.hold(task(1), HeldFor::Exchange, 0);
            grown += ledger.room(4096, 0);
            ledger.hold(task(0), HeldFor::Exchange, grown);
        }
        assert_eq!(grown as u64, percent(MB, 95));
        assert!(memory.claimed_most.load(Ordering::Relaxed) <= percent(MB, 95) + 20_000);
    }

    #[test]
    fn reports_a_large_fall_once_and_continues_from_there() {
        let (memory, ledger) = ledger(None);
        ledger.name(task(0), 1);
        for (held, fall) in [(50 * MB, false), (45 * MB, false), (30 * MB, true), (30 * MB, false), (10 * MB, true)] {
            ledger.hold(task(0), HeldFor::Exchange, held as usize);
            ledger.trim();
            assert_eq!(memory.take_fall(10 * MB).is_some(), fall, "{held}");
        }
    }

    #[test]
    fn without_a_budget_everything_is_counted_and_nothing_given_up() {
        let (memory, ledger) = ledger(None);
        ledger.name(task(0), 1);
        ledger.hold(task(0), HeldFor::Exchange, 1 << 30);
        assert_eq!((memory.pressure(), memory.budget()), (Pressure::None, None));
        assert_eq!(ledger.room(1 << 20, 1), 1 << 20);
        assert_eq!(ledger.held.all.load(Ordering::Relaxed), 1 << 30);
    }
}
