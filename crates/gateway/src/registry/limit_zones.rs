//! The zones of `limit_req` and `limit_conn`: process-wide shards, each behind its own lock, that all workers use; or the
//! memory of several processes (`shared_zones`). The registry owns them, so reloads keep them. `rules::limit` has the arithmetic; exchanges call it.

use crate::base::logs::error::Level;
use crate::plan::limits::LimitPlan;
use crate::registry::shared_zones::ZoneMemory;
use rules::limit::{Admission, ConnectionStates, RequestRefusal, RequestRule, RequestStates};
use rules::template::View;
use std::hash::{BuildHasher, RandomState};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Bytes of a zone that justify another shard: with smaller shards, the oldest keys of a shard would be much younger
/// than those of the zone.
const SHARD_BYTES: u64 = 256 * 1024;

/// More shards gain nothing: a shard is locked for less than a microsecond.
const SHARDS_MAX: u64 = 16;

/// The states of a zone, spread by key. Keys come from clients, so the hash is seeded.
#[derive(Debug)]
struct Shards<T> {
    hasher: RandomState,
    shards: Box<[Mutex<T>]>,
}

impl<T> Shards<T> {
    fn new(bytes: u64, make: impl Fn(u64, RandomState) -> T) -> Self {
        let count = (bytes / SHARD_BYTES).clamp(1, SHARDS_MAX);
        let shard = |_| Mutex::new(make(bytes / count, RandomState::new()));
        Self { hasher: RandomState::new(), shards: (0..count).map(shard).collect() }
    }

    fn of(&self, key: &[u8]) -> MutexGuard<'_, T> {
        let at = self.hasher.hash_one(key) % self.shards.len() as u64;
        // After a panic under the lock the counts are still usable.
        self.shards[at as usize].lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The states of this process alone, or of several processes.
#[derive(Debug)]
enum States<T> {
    Own(Shards<T>),
    Shared(ZoneMemory),
}

/// A `limit_req_zone`.
#[derive(Debug)]
pub(crate) struct RequestZone {
    pub(crate) name: Box<str>,
    /// The key as written: another key with the same zone name must not use these states.
    pub(crate) key_text: Box<str>,
    states: States<RequestStates<RandomState>>,
}

impl RequestZone {
    /// `memory`: that of several processes, if there are several.
    pub(crate) fn new(name: &str, key_text: &str, bytes: u64, memory: Option<ZoneMemory>) -> Self {
        let own = || States::Own(Shards::new(bytes, RequestStates::new));
        Self { name: name.into(), key_text: key_text.into(), states: memory.map_or_else(own, States::Shared) }
    }

    pub(crate) fn probe(&self, key: &[u8], rule: &RequestRule, now_ms: u64) -> Result<u64, RequestRefusal> {
        match &self.states {
            States::Own(shards) => shards.of(key).probe(key, rule, now_ms),
            States::Shared(memory) => memory.probe(key, rule, now_ms),
        }
    }

    pub(crate) fn take(&self, key: &[u8], rule: &RequestRule, now_ms: u64) -> Result<u64, RequestRefusal> {
        match &self.states {
            States::Own(shards) => shards.of(key).take(key, rule, now_ms),
            States::Shared(memory) => memory.take(key, rule, now_ms),
        }
    }

    pub(crate) fn charge(&self, key: &[u8], rule: &RequestRule, now_ms: u64) -> u64 {
        match &self.states {
            States::Own(shards) => shards.of(key).charge(key, rule, now_ms),
            States::Shared(memory) => memory.charge(key, rule, now_ms),
        }
    }
}

/// A `limit_conn_zone`.
#[derive(Debug)]
pub(crate) struct ConnectionZone {
    pub(crate) name: Box<str>,
    /// As that of a [`RequestZone`].
    pub(crate) key_text: Box<str>,
    states: States<ConnectionStates<RandomState>>,
}

impl ConnectionZone {
    /// `memory`: that of several processes, if there are several.
    pub(crate) fn new(name: &str, key_text: &str, bytes: u64, memory: Option<ZoneMemory>) -> Self {
        let own = || States::Own(Shards::new(bytes, ConnectionStates::new));
        Self { name: name.into(), key_text: key_text.into(), states: memory.map_or_else(own, States::Shared) }
    }

    /// Counts a connection until the permit is dropped; the error says why it is refused.
    pub(crate) fn admit(self: &Arc<Self>, key: &[u8], most: u32) -> Result<ConnectionPermit, Admission> {
        let admission = match &self.states {
            States::Own(shards) => shards.of(key).admit(key, most),
            States::Shared(memory) => memory.admit(key, most),
        };
        match admission {
            Admission::Admitted => Ok(ConnectionPermit { zone: Arc::clone(self), key: key.into() }),
            refused => Err(refused),
        }
    }
}

/// A counted connection: it counts while this value lives, in the exchange or its tunnel.
#[derive(Debug)]
pub(crate) struct ConnectionPermit {
    zone: Arc<ConnectionZone>,
    key: Box<[u8]>,
}

impl ConnectionPermit {
    /// The name of its zone, the zone's key as written, and the counted value.
    pub(crate) fn parts(&self) -> (&str, &str, &[u8]) {
        (&self.zone.name, &self.zone.key_text, &self.key)
    }
}

impl Drop for ConnectionPermit {
    fn drop(&mut self) {
        match &self.zone.states {
            States::Own(shards) => shards.of(&self.key).leave(&self.key),
            States::Shared(memory) => memory.leave(&self.key),
        }
    }
}

/// Longest key of `limit_conn`, as in nginx.
const CONNECTION_KEY_BYTES_MAX: usize = 255;

/// Checks the zones of `limit_conn`; `None` if no limit has a key. If a limit has no permit left, it is logged, and no
/// permit is taken at all.
pub(crate) fn admit(
    plan: &LimitPlan,
    zones: &[Arc<ConnectionZone>],
    view: &impl View,
    say: impl Fn(Level, &str),
) -> Option<(LimitStatus, Vec<ConnectionPermit>)> {
    let refusal = plan.connection_refusal;
    let refused = if refusal.dry_run { LimitStatus::RejectedDryRun } else { LimitStatus::Rejected };
    let mut permits = Vec::new();
    for limit in &plan.connections {
        let zone = &zones[limit.zone.0 as usize];
        let mut key = Vec::new();
        limit.key.write(view, &mut key);
        if key.is_empty() {
            continue;
        }
        if key.len() > CONNECTION_KEY_BYTES_MAX {
            let name = &zone.key_text;
            say(Level::Error, &format!("the value of the \"{name}\" key is more than 255 bytes"));
            continue;
        }
        let name = &zone.name;
        match zone.admit(&key, limit.most) {
            Ok(permit) => permits.push(permit),
            Err(Admission::Exhausted) => {
                let message = format!("could not allocate node in limit_conn_zone \"{name}\": it is exhausted");
                say(Level::Crit, &message);
                return Some((refused, Vec::new()));
            }
            Err(_) => {
                let dry_run = if refusal.dry_run { ", dry run," } else { "" };
                say(refusal.level, &format!("limiting connections{dry_run} by zone \"{name}\""));
                return Some((refused, Vec::new()));
            }
        }
    }
    (!permits.is_empty()).then_some((LimitStatus::Passed, permits))
}

/// The limits' results for an exchange.
#[derive(Debug, Default)]
pub(crate) struct Limited {
    pub(crate) requests: Option<LimitStatus>,
    pub(crate) connections: Option<LimitStatus>,
    /// The connection counts while these live.
    pub(crate) permits: Vec<ConnectionPermit>,
}

/// `$limit_req_status` and `$limit_conn_status`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LimitStatus {
    Passed,
    Delayed,
    Rejected,
    DelayedDryRun,
    RejectedDryRun,
}

impl LimitStatus {
    pub(crate) fn word(self) -> &'static [u8] {
        match self {
            Self::Passed => b"PASSED",
            Self::Delayed => b"DELAYED",
            Self::Rejected => b"REJECTED",
            Self::DelayedDryRun => b"DELAYED_DRY_RUN",
            Self::RejectedDryRun => b"REJECTED_DRY_RUN",
        }
    }
}
