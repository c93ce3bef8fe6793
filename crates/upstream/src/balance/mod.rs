//! Which peer of a group gets the next attempt: nginx's methods, step by step as nginx takes them, so that weights,
//! ejection and recovery behave as operators know them. Connections are `shared`'s business; whether there is a next
//! attempt is `retry`'s.
//!
//! A [`Group`] belongs to one generation of the configuration and holds the weights; what must survive a reload, and be
//! exact over all workers, is each peer's [`PeerHealth`], found by group name and address in [`HealthRegistry`]. A group
//! of one peer has nothing to choose: it takes no lock and counts nothing unless `max_conns` is set.

mod health;
mod methods;
#[cfg(test)]
mod tests;

use std::sync::Arc;

pub use health::{HealthRegistry, PeerHealth, Seat};
pub use methods::Method;
use methods::Weights;

use crate::Millis;
use crate::sync::{PlainMutex, lock_plain};

/// One `server` line's parameters, for one address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PeerSpec {
    /// `weight`, at least 1.
    pub weight: u32,
    /// `max_conns`: exchanges at a time; `None` for 0 (no limit).
    pub max_conns: Option<u32>,
    /// `max_fails`; 0 never ejects.
    pub max_fails: u32,
    /// `fail_timeout` in milliseconds: the time in which failures add up, and how long the peer is left alone then.
    pub fail_timeout_ms: u64,
    /// `backup`.
    pub backup: bool,
    /// `down`.
    pub down: bool,
}

impl Default for PeerSpec {
    fn default() -> Self {
        Self { weight: 1, max_conns: None, max_fails: 1, fail_timeout_ms: 10_000, backup: false, down: false }
    }
}

/// How an attempt ended for the peer's reputation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// It answered.
    Succeeded,
    /// A failed attempt in the sense of `max_fails`.
    Failed,
    /// Neither, such as a lost keepalive race.
    Neutral,
}

/// What became of a peer by a report.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Standing {
    /// As before.
    Unchanged,
    /// It reached `max_fails`: "upstream server temporarily disabled".
    Disabled,
}

/// What a request brings for the methods that look at it.
#[derive(Debug, Clone, Copy, Default)]
pub struct Inputs<'a> {
    /// The client's address, as `ip_hash` sees it: the first three octets of IPv4, all sixteen of IPv6.
    pub client: &'a [u8],
    /// The value of `hash`'s key.
    pub hash_key: &'a [u8],
}

/// A request's progress through its group: the peers it tried, and where its hash stands. One per request and group.
#[derive(Debug, Clone, Default)]
pub struct Selection {
    tried: u64,
    /// Peers from the 65th on; almost never used, so almost never allocated.
    tried_beyond: Vec<u64>,
    hash: u32,
    rehashes: u32,
    misses: u32,
}

impl Selection {
    /// Whether the peer was picked for this request before.
    pub fn has_tried(&self, peer: usize) -> bool {
        if peer < 64 {
            return self.tried & (1 << peer) != 0;
        }
        self.tried_beyond.get(peer / 64 - 1).is_some_and(|word| word & (1 << (peer % 64)) != 0)
    }

    fn mark(&mut self, peer: usize) {
        if peer < 64 {
            self.tried |= 1 << peer;
            return;
        }
        let word = peer / 64 - 1;
        if word >= self.tried_beyond.len() {
            self.tried_beyond.resize(word + 1, 0);
        }
        self.tried_beyond[word] |= 1 << (peer % 64);
    }
}

/// Answer of [`Group::pick`].
#[derive(Debug)]
#[must_use]
pub enum Pick {
    /// Use this one.
    Peer {
        /// Its place in the list the group was made of.
        index: usize,
        /// Its count against `max_conns` and for `least_conn`: keep it as long as the exchange lasts.
        seat: Seat,
    },
    /// All are down, ejected, tried or full: "no live upstreams".
    NoLive,
}

struct Peer {
    /// Its place in the list the group was made of.
    index: usize,
    spec: PeerSpec,
    health: Arc<PeerHealth>,
}

/// The primaries, or the backups.
struct Tier {
    peers: Vec<Peer>,
    weights: PlainMutex<Vec<Weights>>,
    total_weight: u32,
}

/// The peers of an `upstream {}` block in one generation of the configuration.
pub struct Group {
    primary: Tier,
    backup: Tier,
    method: Method,
    /// For each peer in the order given: whether it is a backup, and its place in its tier.
    places: Vec<(bool, usize)>,
}

impl Group {
    /// A group of the given peers, in the order in which the configuration names them.
    pub fn new(method: Method, peers: Vec<(PeerSpec, Arc<PeerHealth>)>) -> Self {
        let (mut primary, mut backup, mut places) = (Vec::new(), Vec::new(), Vec::new());
        for (index, (spec, health)) in peers.into_iter().enumerate() {
            let tier = if spec.backup { &mut backup } else { &mut primary };
            places.push((spec.backup, tier.len()));
            tier.push(Peer { index, spec, health });
        }
        Self { primary: Tier::new(primary), backup: Tier::new(backup), method, places }
    }

    /// Peers, backups included.
    pub fn len(&self) -> usize {
        self.places.len()
    }

    /// Whether the group has no peers at all.
    pub fn is_empty(&self) -> bool {
        self.places.is_empty()
    }

    /// The peer for the next attempt of a request. A request never gets the same peer twice, but in a group of one.
    pub fn pick(&self, selection: &mut Selection, inputs: &Inputs<'_>, now: Millis) -> Pick {
        if let Some(only) = self.only_peer() {
            return only.pick_unchosen();
        }
        for tier in [&self.primary, &self.backup] {
            if let Some((index, seat)) = tier.pick(self.method, selection, inputs, now) {
                return Pick::Peer { index, seat };
            }
        }
        Pick::NoLive
    }

    /// How an attempt with the peer ended. A group's only peer is never ejected: there is nothing to be gained.
    pub fn report(&self, index: usize, outcome: Outcome, now: Millis) -> Standing {
        if self.only_peer().is_some() || outcome == Outcome::Neutral {
            return Standing::Unchanged;
        }
        let Some(&(is_backup, place)) = self.places.get(index) else { return Standing::Unchanged };
        let tier = if is_backup { &self.backup } else { &self.primary };
        let Some(peer) = tier.peers.get(place) else { return Standing::Unchanged };
        if outcome == Outcome::Succeeded {
            peer.health.succeeded();
            return Standing::Unchanged;
        }
        let fails = peer.health.failed(now);
        let spec = &peer.spec;
        if spec.max_fails == 0 {
            return Standing::Unchanged;
        }
        if let Some(weights) = lock_plain(&tier.weights).get_mut(place) {
            weights.lower(spec.weight / spec.max_fails);
        }
        if fails >= spec.max_fails { Standing::Disabled } else { Standing::Unchanged }
    }

    fn only_peer(&self) -> Option<&Peer> {
        match (self.primary.peers.as_slice(), self.backup.peers.is_empty()) {
            ([only], true) => Some(only),
            _ => None,
        }
    }
}

impl Tier {
    fn new(peers: Vec<Peer>) -> Self {
        let weights = peers.iter().map(|peer| Weights::new(peer.spec.weight)).collect();
        // A sum past u32 would take weights in the millions; the hashes then favour the first peers.
        let total_weight = peers.iter().fold(0, |sum: u32, peer| sum.saturating_add(peer.spec.weight));
        Self { peers, weights: PlainMutex::new(weights), total_weight }
    }

    fn pick(
        &self,
        method: Method,
        selection: &mut Selection,
        inputs: &Inputs<'_>,
        now: Millis,
    ) -> Option<(usize, Seat)> {
        let mut weights = lock_plain(&self.weights);
        // Each round that fails took a peer's last seat from under us: other generations count on the same peers.
        for _ in 0..=self.peers.len() {
            let place = methods::choose(method, self, &mut weights, selection, inputs, now)?;
            let peer = self.peers.get(place)?;
            if let Some(seat) = Seat::take(&peer.health, peer.spec.max_conns) {
                selection.mark(peer.index);
                peer.health.checked(now, peer.spec.fail_timeout_ms);
                return Some((peer.index, seat));
            }
        }
        None
    }
}

impl Peer {
    fn pick_unchosen(&self) -> Pick {
        if self.spec.down {
            return Pick::NoLive;
        }
        let seat = if self.spec.max_conns.is_some() {
            Seat::take(&self.health, self.spec.max_conns)
        } else {
            Some(Seat::uncounted())
        };
        seat.map_or(Pick::NoLive, |seat| Pick::Peer { index: self.index, seat })
    }

    fn is_eligible(&self, selection: &Selection, now: Millis) -> bool {
        !selection.has_tried(self.index)
            && !self.spec.down
            && !self.health.is_ejected(&self.spec, now)
            && self.spec.max_conns.is_none_or(|max_conns| self.health.active() < max_conns)
    }
}
