//! The state of a peer that outlives a generation: failures as nginx counts them, the results of active checks, and
//! current exchanges. `timing` measures response times.

use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, OnceLock, Weak};

use rustc_hash::FxHashMap;

use super::timing::Timing;
use super::{Measure, PeerSpec, SeatLine};
use crate::Millis;
use crate::shared::PeerAddress;
use crate::sweep::Sweeps;
use crate::sync::{AtomicU32 as SeatCount, PlainMutex, lock_plain};

/// The state of a peer according to active health checks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[repr(u8)]
pub enum Checked {
    /// It is not checked, or its checks pass.
    #[default]
    Healthy = 0,
    /// Its checks fail: no request is sent to it.
    Unhealthy = 1,
    /// It must pass its first check before a request is sent to it.
    Pending = 2,
}

/// What an operator permits for a peer at run time; this overrides the configuration and the checks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[repr(u8)]
pub enum PeerMode {
    /// As the configuration and the checks permit.
    #[default]
    Up = 0,
    /// Only requests of its sessions.
    Drain = 1,
    /// No requests.
    Down = 2,
}

impl fmt::Display for PeerMode {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            Self::Up => "up",
            Self::Drain => "drain",
            Self::Down => "down",
        })
    }
}

/// A peer's reputation and load, shared by all workers and generations. Failures are a heuristic, so the fields need no
/// order among each other; the exchange count is exact.
#[derive(Debug, Default)]
pub struct PeerHealth {
    /// Its ordinal among the peers of its group with the same address.
    ordinal: u32,
    fails: AtomicU32,
    /// When it failed last, in milliseconds.
    accessed_ms: AtomicU64,
    /// When it failed last, or was given another chance after `fail_timeout`.
    checked_ms: AtomicU64,
    active: SeatCount,
    /// The line to notify when a seat becomes free.
    line: OnceLock<Arc<SeatLine>>,
    active_checks: AtomicU8,
    mode: AtomicU8,
    /// The weight that an operator has set; 0: that of the configuration.
    weight: AtomicU32,
    /// When it came back from being unavailable, for `slow_start`; 0 if it never did.
    recovered_ms: AtomicU64,
    pub(super) timing: Timing,
}

impl PeerHealth {
    /// Its ordinal among the peers of its group with the same address: 0 for the first of them.
    pub fn ordinal(&self) -> u32 {
        self.ordinal
    }

    /// Current exchanges, as far as they are counted.
    pub fn active(&self) -> u32 {
        self.active.load(Relaxed)
    }

    /// Reports free seats to the group's line. It is the same line for the life of the process.
    pub(super) fn notify_of_seats(&self, line: &Arc<SeatLine>) {
        let _ = self.line.set(Arc::clone(line));
    }

    /// Failures since the last successful check.
    pub fn fails(&self) -> u32 {
        self.fails.load(Relaxed)
    }

    /// The running averages of its response times in milliseconds: to the head, and to the last byte. Measured in groups
    /// whose method asks for them.
    pub fn times_ms(&self) -> (u64, u64) {
        self.timing.averages_ms()
    }

    /// What active checks found last.
    pub fn checked(&self) -> Checked {
        match self.active_checks.load(Relaxed) {
            0 => Checked::Healthy,
            1 => Checked::Unhealthy,
            _ => Checked::Pending,
        }
    }

    /// The mode that an operator has set.
    pub fn mode(&self) -> PeerMode {
        match self.mode.load(Relaxed) {
            0 => PeerMode::Up,
            1 => PeerMode::Drain,
            _ => PeerMode::Down,
        }
    }

    /// Sets the mode until the next call. It outlives generations, like all state here.
    pub fn set_mode(&self, mode: PeerMode) {
        self.mode.store(mode as u8, Relaxed);
        if let (PeerMode::Up, Some(line)) = (mode, self.line.get()) {
            line.call();
        }
    }

    /// The weight that an operator has set, if one has.
    pub fn weight(&self) -> Option<u32> {
        Some(self.weight.load(Relaxed)).filter(|weight| *weight > 0)
    }

    /// Sets the weight until the next call; `None` returns to the configured one. It outlives generations.
    pub fn set_weight(&self, weight: Option<u32>) {
        self.weight.store(weight.unwrap_or(0), Relaxed);
        WEIGHTS_ARE_SET.store(true, Relaxed);
    }

    /// Records the result of an active check. A recovered peer starts slowly if it has `slow_start`; earlier failures
    /// of requests are forgotten.
    pub fn set_checked(&self, found: Checked, now: Millis) {
        let before = self.active_checks.swap(found as u8, Relaxed);
        if found == Checked::Healthy && before == Checked::Unhealthy as u8 {
            self.fails.store(0, Relaxed);
            self.recovered(now);
        }
        if found == Checked::Healthy
            && before != Checked::Healthy as u8
            && let Some(line) = self.line.get()
        {
            // Its seats are now free for the waiting requests.
            line.call();
        }
    }

    /// Whether its failures and checks permit requests.
    pub(super) fn is_usable(&self, spec: &PeerSpec, now: Millis) -> bool {
        self.active_checks.load(Relaxed) == 0 && self.mode() != PeerMode::Down && !self.is_ejected(spec, now)
    }

    fn is_ejected(&self, spec: &PeerSpec, now: Millis) -> bool {
        spec.max_fails > 0 && self.fails() >= spec.max_fails && now.since(self.checked_at()) <= spec.fail_timeout_ms
    }

    /// When it failed last, or was given another chance.
    pub(super) fn checked_at(&self) -> Millis {
        Millis(self.checked_ms.load(Relaxed))
    }

    /// A pick once per `fail_timeout` tests the peer: other workers see the new time and leave an ejected peer alone.
    pub(super) fn picked(&self, now: Millis, fail_timeout_ms: u64) {
        if now.since(self.checked_at()) > fail_timeout_ms {
            self.checked_ms.store(now.0, Relaxed);
        }
    }

    pub(super) fn failed(&self, now: Millis) -> u32 {
        self.accessed_ms.store(now.0, Relaxed);
        self.checked_ms.store(now.0, Relaxed);
        self.fails.fetch_add(1, Relaxed).saturating_add(1)
    }

    /// A success clears the failures only if the peer was checked since the last of them.
    pub(super) fn succeeded(&self, spec: &PeerSpec, now: Millis) {
        let fails = self.fails();
        if fails == 0 || self.accessed_ms.load(Relaxed) >= self.checked_ms.load(Relaxed) {
            return;
        }
        self.fails.store(0, Relaxed);
        if spec.max_fails > 0 && fails >= spec.max_fails {
            self.recovered(now);
        }
    }

    fn recovered(&self, now: Millis) {
        self.recovered_ms.store(now.0.max(1), Relaxed);
    }

    /// The share of its weight that a peer has now, in thousandths, at least one: all of it unless it recovered less
    /// than `slow_start_ms` ago.
    pub(super) fn share(&self, slow_start_ms: u64, now: Millis) -> i64 {
        let recovered = self.recovered_ms.load(Relaxed);
        if slow_start_ms == 0 || recovered == 0 {
            return SHARE_WHOLE;
        }
        let elapsed = now.since(Millis(recovered));
        if elapsed >= slow_start_ms {
            return SHARE_WHOLE;
        }
        (SHARE_WHOLE as u64 * elapsed / slow_start_ms).max(1) as i64
    }
}

/// Whether an operator has ever set a weight in this process: until then the sums of groups are as they were made.
static WEIGHTS_ARE_SET: AtomicBool = AtomicBool::new(false);

/// Whether weights may differ from those of the configuration.
pub(super) fn weights_are_set() -> bool {
    WEIGHTS_ARE_SET.load(Relaxed)
}

/// The full weight in tiers with a peer that starts slowly: a thousand steps from nothing to everything.
pub(super) const SHARE_WHOLE: i64 = 1000;

/// One exchange counted at its peer, until dropped.
#[derive(Debug)]
#[must_use = "dropping it tells the balancer that the exchange ended"]
pub struct Seat {
    counted: Counted,
    /// When the exchange began, if its age counts (`least_time … inflight`) and has not ended.
    inflight_since: Option<Millis>,
}

impl Seat {
    /// Counts one more exchange unless that would exceed the limit.
    pub(super) fn take(health: &Arc<PeerHealth>, active_max: Option<u32>, inflight: Option<Millis>) -> Option<Self> {
        let limit = active_max.unwrap_or(u32::MAX);
        let more = |active: u32| if active < limit { Some(active + 1) } else { None };
        health.active.fetch_update(Relaxed, Relaxed, more).ok()?;
        if let Some(now) = inflight {
            health.timing.begin(now);
        }
        Some(Self { counted: Counted(Some(Arc::clone(health))), inflight_since: inflight })
    }

    /// A seat at a peer whose load is not counted.
    pub(super) fn uncounted() -> Self {
        Self { counted: Counted(None), inflight_since: None }
    }

    /// Ends the counting of the exchange's age: `least_time` has its measurement.
    pub(super) fn measured(&mut self) {
        if let (Some(health), Some(began)) = (&self.counted.0, self.inflight_since.take()) {
            health.timing.end(began);
        }
    }

    /// Begins to measure a session at this peer, or ends it if the time of the connection is all that counts.
    pub(super) fn time_session(
        &mut self,
        health: &Arc<PeerHealth>,
        measure: Measure,
        began: Millis,
        now: Millis,
    ) -> Option<SessionTiming> {
        if measure == Measure::Connect {
            health.timing.took(now.since(began), 0);
            return None;
        }
        let inflight_since = self.inflight_since.take();
        Some(SessionTiming { health: Arc::clone(health), measure, began, inflight_since })
    }

    /// Turns the exchange into a tunnel, which also counts but has nothing more to measure.
    pub fn into_tunnel(mut self) -> Counted {
        self.measured();
        Counted(self.counted.0.take())
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        self.measured();
    }
}

/// Measures a session for `least_time first_byte` and `least_time last_byte`.
#[derive(Debug)]
pub struct SessionTiming {
    health: Arc<PeerHealth>,
    measure: Measure,
    began: Millis,
    /// As for [`Seat`].
    inflight_since: Option<Millis>,
}

impl SessionTiming {
    /// The peer's first byte has come.
    pub fn first_byte_came(&mut self, now: Millis) {
        if self.measure == Measure::FirstByte {
            self.health.timing.took(now.since(self.began), 0);
            self.end_inflight();
        }
    }

    /// The session has ended.
    pub fn session_ended(&self, now: Millis) {
        if self.measure == Measure::LastByte {
            let took = now.since(self.began);
            self.health.timing.took(took, took);
        }
    }

    fn end_inflight(&mut self) {
        if let Some(began) = self.inflight_since.take() {
            self.health.timing.end(began);
        }
    }
}

impl Drop for SessionTiming {
    fn drop(&mut self) {
        self.end_inflight();
    }
}

/// Counts an exchange or a tunnel at its peer, until dropped. As small as possible: there may be a million tunnels.
#[derive(Debug, Default)]
pub struct Counted(Option<Arc<PeerHealth>>);

impl Counted {
    /// The peer's ordinal among those of its group with the same address; 0 for a peer that is not counted, which is the
    /// only one of its group.
    pub fn ordinal(&self) -> u32 {
        self.counted_ordinal().unwrap_or(0)
    }

    /// The ordinal of the peer where it is counted; `None` if it is not counted.
    pub fn counted_ordinal(&self) -> Option<u32> {
        self.0.as_ref().map(|health| health.ordinal())
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        if let Some(health) = &self.0 {
            health.active.fetch_sub(1, Relaxed);
            if let Some(line) = health.line.get() {
                line.call();
            }
        }
    }
}

/// Numbers the peers of one group with the same address, in the order of the list: `server a; server a;` are two peers.
#[derive(Debug, Default)]
pub struct Ordinals(FxHashMap<PeerAddress, u32>);

impl Ordinals {
    /// The number of the next peer with this address.
    pub fn next(&mut self, address: &PeerAddress) -> u32 {
        let next = self.0.entry(address.clone()).or_default();
        *next += 1;
        *next - 1
    }
}

type Identity = (Box<str>, PeerAddress, u32);

/// Every peer's health by group name, address and ordinal among equals. Holds a peer only as long as a generation does.
#[derive(Debug, Default)]
pub struct HealthRegistry {
    peers: PlainMutex<Peers>,
}

#[derive(Debug, Default)]
struct Peers {
    known: FxHashMap<Identity, Weak<PeerHealth>>,
    /// Former addresses of names leave an entry each.
    sweeps: Sweeps,
}

impl HealthRegistry {
    /// The health of a peer: that of the previous generation if it had the same peer; a new peer starts as `newcomer`.
    /// `ordinal` is that of [`Ordinals`].
    pub fn health(&self, group: &str, address: &PeerAddress, ordinal: u32, newcomer: Checked) -> Arc<PeerHealth> {
        let mut peers = lock_plain(&self.peers);
        let identity = (group.into(), address.clone(), ordinal);
        if let Some(health) = peers.known.get(&identity).and_then(Weak::upgrade) {
            return health;
        }
        if peers.sweeps.are_due(peers.known.len()) {
            peers.known.retain(|_, health| health.strong_count() > 0);
            let left = peers.known.len();
            peers.sweeps.left(left);
        }
        let health = PeerHealth { ordinal, active_checks: AtomicU8::new(newcomer as u8), ..PeerHealth::default() };
        let health = Arc::new(health);
        peers.known.insert(identity, Arc::downgrade(&health));
        health
    }

    /// Counts a tunnel that another process has opened, whatever the limits; it counts nowhere if no generation has the
    /// peer.
    pub fn count_tunnel(&self, group: &str, address: &PeerAddress, ordinal: u32) -> Counted {
        let identity = (group.into(), address.clone(), ordinal);
        let health = lock_plain(&self.peers).known.get(&identity).and_then(Weak::upgrade);
        if let Some(health) = &health {
            health.active.fetch_add(1, Relaxed);
        }
        Counted(health)
    }

    /// All peers that a generation has, with their groups and addresses. Off the request path.
    pub fn all(&self) -> Vec<(Box<str>, PeerAddress, Arc<PeerHealth>)> {
        let peers = lock_plain(&self.peers);
        let live = peers
            .known
            .iter()
            .filter_map(|((group, address, _), health)| Some((group.clone(), address.clone(), health.upgrade()?)));
        live.collect()
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn former_addresses_are_forgotten() {
        let registry = HealthRegistry::default();
        let at = |port| PeerAddress::Ip(std::net::SocketAddr::from(([192, 0, 2, 1], port)));
        let kept: Vec<_> = (0..100).map(|port| registry.health("app", &at(port), 0, Checked::Healthy)).collect();
        for port in 100..10_000 {
            drop(registry.health("app", &at(port), 0, Checked::Healthy));
        }
        let known = lock_plain(&registry.peers).known.len();
        assert!(known <= kept.len() * 2, "{known}");
        assert_eq!(registry.all().len(), kept.len());
    }
}
