//! Chooses the peer of a group for the next attempt: nginx's methods, step by step as in nginx, so that weights,
//! ejection and recovery behave as operators expect. `shared` handles connections; `retry` decides whether there is a
//! next attempt.
//!
//! A [`Group`] belongs to one generation of the configuration, or to one answer of the resolver, and holds the weights;
//! what must survive both, and be exact over all workers, is each peer's [`PeerHealth`], found by group name, address
//! and ordinal among equals in [`HealthRegistry`]. [`Group::succeed`] carries the weights over to the peers that stay. A group of one peer has
//! nothing to choose: it takes no lock and counts nothing unless `max_conns` is set.

mod health;
mod methods;
mod peer_queue;
mod ring;
mod sticky;
#[cfg(all(test, not(loom)))]
mod tests;
mod timing;

use std::sync::Arc;

use health::SHARE_WHOLE;
pub use health::{Checked, Counted, HealthRegistry, Ordinals, PeerHealth, PeerMode, Seat, SessionTiming};
pub use methods::Method;
use methods::Weights;
pub use peer_queue::{LineFull, SeatGrant, SeatLine, SeatWaiter};
use ring::Ring;
pub use sticky::{SESSION_BYTES, SessionKey, Sessions};
pub use timing::Measure;

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
    /// `drain`: only for sessions that are bound to it.
    pub drain: bool,
    /// `slow_start` in milliseconds: how long its weight grows after it came back; 0 for at once.
    pub slow_start_ms: u64,
}

impl Default for PeerSpec {
    fn default() -> Self {
        Self {
            weight: 1,
            max_conns: None,
            max_fails: 1,
            fail_timeout_ms: 10_000,
            backup: false,
            down: false,
            drain: false,
            slow_start_ms: 0,
        }
    }
}

/// One address of a group, as it is made known to the balancer.
#[derive(Debug, Clone)]
pub struct Member {
    /// Its parameters.
    pub spec: PeerSpec,
    /// The `server` as written: addresses of one name are on the same points of a consistent hash.
    pub server: Arc<str>,
    /// The name of the peer in bound sessions; empty if the group has no sticky sessions.
    pub sid: Arc<[u8]>,
    /// Its state. It is also its identity: a member of another generation with the same one is the same peer.
    pub health: Arc<PeerHealth>,
}

/// The result of an attempt, for the peer's failure count.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// It answered.
    Succeeded,
    /// A failed attempt in the sense of `max_fails`.
    Failed,
    /// Neither, such as a lost keepalive race.
    Neutral,
}

/// The effect of a report on a peer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PeerChange {
    /// As before.
    Unchanged,
    /// It reached `max_fails`: "upstream server temporarily disabled".
    Disabled,
}

/// The inputs of a request for the methods.
#[derive(Debug, Clone, Copy, Default)]
pub struct Inputs<'a> {
    /// The client's address, as `ip_hash` sees it: the first three octets of IPv4, all sixteen of IPv6.
    pub client: &'a [u8],
    /// The value of `hash`'s key.
    pub hash_key: &'a [u8],
    /// A number of the request's own, for random methods.
    pub random: u64,
    /// The `sid` that the request's session is bound to; empty if it is not.
    pub bound: &'a [u8],
}

/// A request's progress through its group: the peers it tried, and the state of its hash. One per request and group.
#[derive(Debug, Clone, Default)]
pub struct Selection {
    tried: u64,
    /// Peers from the 65th on; almost never used, so almost never allocated.
    tried_beyond: Vec<u64>,
    hash: u32,
    rehashes: u32,
    misses: u32,
    draws: u32,
}

impl Selection {
    /// Whether the peer was picked for this request before.
    pub fn has_tried(&self, peer: usize) -> bool {
        if peer < 64 {
            return self.tried & (1 << peer) != 0;
        }
        self.tried_beyond.get(peer / 64 - 1).is_some_and(|word| word & (1 << (peer % 64)) != 0)
    }

    /// Whether a peer was picked. The only peer of a group is not recorded, since it can be picked again.
    pub fn has_begun(&self) -> bool {
        self.tried != 0 || !self.tried_beyond.is_empty()
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
        /// Its index in the list the group was made of.
        index: usize,
        /// Its count for `max_conns` and `least_conn`: keep it for the duration of the exchange.
        seat: Seat,
    },
    /// All are down, ejected, tried or full: "no live upstreams".
    NoLive,
}

#[derive(Debug)]
struct Peer {
    /// Its place in the list the group was made of.
    index: usize,
    spec: PeerSpec,
    server: Arc<str>,
    sid: Arc<[u8]>,
    health: Arc<PeerHealth>,
}

/// The primaries, or the backups.
#[derive(Debug)]
struct Tier {
    peers: Vec<Peer>,
    weights: PlainMutex<Vec<Weights>>,
    /// The sum of the configured weights.
    configured_weight: u32,
    /// Weights are counted in thousandths, because a peer with `slow_start` gains its weight gradually.
    starts_slowly: bool,
    /// Empty except for `hash … consistent`.
    ring: Ring,
}

/// The peers of an `upstream {}` block in one generation of the configuration.
#[derive(Debug)]
pub struct Group {
    primary: Tier,
    backup: Tier,
    method: Method,
    /// For each peer in the order given: whether it is a backup, and its index in its tier.
    places: Vec<(bool, usize)>,
    /// Peers that are neither `down` nor `drain`.
    tries_max: u32,
    /// The line for requests without an available peer (`queue`).
    line: Option<Arc<SeatLine>>,
}

impl Group {
    /// A group of the given peers, in the order in which the configuration names them.
    pub fn new(method: Method, members: Vec<Member>) -> Self {
        Self::following(None, method, members)
    }

    /// The group after a change of its peers (a name has other addresses, a weight was changed): peers that stay keep
    /// their turn and their reduced weights.
    #[must_use]
    pub fn succeed(&self, members: Vec<Member>) -> Self {
        Self::following(Some(self), self.method, members)
    }

    fn following(before: Option<&Self>, method: Method, members: Vec<Member>) -> Self {
        let (mut primary, mut backup, mut places) = (Vec::new(), Vec::new(), Vec::new());
        let mut tries_max: u32 = 0;
        for (index, Member { spec, server, sid, health }) in members.into_iter().enumerate() {
            tries_max = tries_max.saturating_add(u32::from(!spec.down && !spec.drain));
            let tier = if spec.backup { &mut backup } else { &mut primary };
            places.push((spec.backup, tier.len()));
            tier.push(Peer { index, spec, server, sid, health });
        }
        Self {
            primary: Tier::new(method, primary, before.map(|before| &before.primary)),
            backup: Tier::new(method, backup, before.map(|before| &before.backup)),
            method,
            places,
            tries_max,
            line: None,
        }
        .in_line(before.and_then(|before| before.line.as_ref()))
    }

    /// The same group with a line for requests without an available peer (`queue`).
    #[must_use]
    pub fn with_line(self, line: &Arc<SeatLine>) -> Self {
        self.in_line(Some(line))
    }

    fn in_line(mut self, line: Option<&Arc<SeatLine>>) -> Self {
        if let Some(line) = line {
            let peers = self.primary.peers.iter().chain(&self.backup.peers);
            peers.for_each(|peer| peer.health.notify_of_seats(line));
            self.line = Some(Arc::clone(line));
        }
        self
    }

    /// The line for requests without an available peer.
    pub fn line(&self) -> Option<&Arc<SeatLine>> {
        self.line.as_ref()
    }

    /// Whether a peer that the request has not tried may become free, so that waiting makes sense. `bound` is that of
    /// [`Inputs`].
    pub fn may_come(&self, selection: &Selection, bound: &[u8]) -> bool {
        let may_come = |peer: &Peer| {
            let is_drained = peer.is_drained() && (bound.is_empty() || *bound != *peer.sid);
            !peer.spec.down && !is_drained && !selection.has_tried(peer.index)
        };
        self.primary.peers.iter().chain(&self.backup.peers).any(may_come)
    }

    /// Most attempts of a request: one at each peer that is neither `down` nor `drain`, as nginx counts them.
    pub fn tries_max(&self) -> u32 {
        self.tries_max
    }

    /// Whether [`Self::pick`] would find another peer for the request now. `bound` is that of [`Inputs`].
    pub fn has_another(&self, selection: &Selection, bound: &[u8], now: Millis) -> bool {
        let may_go = |peer: &Peer| {
            let is_drained = peer.is_drained() && (bound.is_empty() || *bound != *peer.sid);
            !is_drained && peer.is_usable(selection, now)
        };
        self.only_peer().is_none() && self.primary.peers.iter().chain(&self.backup.peers).any(may_go)
    }

    /// Whether a request that failed at this peer would get one if it began its selection anew. The failure takes the peer out if
    /// it counts (`max_fails`). `bound` is that of [`Inputs`].
    pub fn may_repeat(&self, failed: usize, bound: &[u8], now: Millis) -> bool {
        let mut others = Selection::default();
        others.mark(failed);
        let is_kept = self.spec(failed).is_some_and(|spec| spec.max_fails == 0);
        self.only_peer().is_some() || is_kept || self.has_another(&others, bound, now)
    }

    /// Whether any peer would take another exchange.
    fn has_room(&self, now: Millis) -> bool {
        if let Some(only) = self.only_peer() {
            return only.spec.max_conns.is_none_or(|max_conns| only.health.active() < max_conns);
        }
        let fresh = Selection::default();
        self.primary.peers.iter().chain(&self.backup.peers).any(|peer| peer.is_usable(&fresh, now))
    }

    /// Peers, backups included.
    pub fn len(&self) -> usize {
        self.places.len()
    }

    /// Whether the group has no peers at all.
    pub fn is_empty(&self) -> bool {
        self.places.is_empty()
    }

    /// How it chooses.
    pub fn method(&self) -> Method {
        self.method
    }

    /// The name of the peer in bound sessions; empty if the group has no sticky sessions.
    pub fn sid(&self, index: usize) -> &[u8] {
        self.peer(index).map_or(&[], |(_, _, peer)| &peer.sid)
    }

    /// The state of a peer, for the status page.
    pub fn health(&self, index: usize) -> Option<&PeerHealth> {
        self.peer(index).map(|(_, _, peer)| &*peer.health)
    }

    /// The parameters of a peer.
    pub fn spec(&self, index: usize) -> Option<&PeerSpec> {
        self.peer(index).map(|(_, _, peer)| &peer.spec)
    }

    /// The peer for the next attempt of a request. A request never gets the same peer twice, except in a group of one.
    pub fn pick(&self, selection: &mut Selection, inputs: &Inputs<'_>, now: Millis) -> Pick {
        if let Some(only) = self.only_peer() {
            return only.pick_unchosen(inputs);
        }
        for tier in [&self.primary, &self.backup] {
            // A session bound to a backup returns as soon as a primary accepts requests again.
            if !inputs.bound.is_empty() {
                let choose =
                    |selection: &mut Selection| methods::choose_bound(self.method, tier, selection, inputs.bound, now);
                if let Some((index, seat)) = tier.seat(self.method, selection, now, choose) {
                    return Pick::Peer { index, seat };
                }
            }
            let choose = |selection: &mut Selection| methods::choose(self.method, tier, selection, inputs, now);
            if let Some((index, seat)) = tier.seat(self.method, selection, now, choose) {
                return Pick::Peer { index, seat };
            }
        }
        Pick::NoLive
    }

    /// Reports the result of an attempt. A group's only peer is never ejected: that would gain nothing.
    pub fn report(&self, index: usize, outcome: Outcome, now: Millis) -> PeerChange {
        if self.only_peer().is_some() || outcome == Outcome::Neutral {
            return PeerChange::Unchanged;
        }
        let Some((tier, place, peer)) = self.peer(index) else { return PeerChange::Unchanged };
        let spec = &peer.spec;
        if outcome == Outcome::Succeeded {
            peer.health.succeeded(spec, now);
            return PeerChange::Unchanged;
        }
        let fails = peer.health.failed(now);
        if spec.max_fails == 0 {
            return PeerChange::Unchanged;
        }
        if let Some(weights) = lock_plain(&tier.weights).get_mut(place) {
            weights.lower(peer.weight() / spec.max_fails);
        }
        if fails >= spec.max_fails { PeerChange::Disabled } else { PeerChange::Unchanged }
    }

    /// The head of a response has come. If the method measures the time to the head, the exchange's age counts no
    /// longer.
    pub fn head_came(&self, seat: &mut Seat) {
        if self.method.wants_inflight() == Some(Measure::Header) {
            seat.measured();
        }
    }

    /// Reports the duration of a successful attempt, in milliseconds: to the head, and to the last byte. Ignored if the
    /// method does not use it.
    pub fn took(&self, index: usize, header_ms: u64, last_byte_ms: u64) {
        if self.method.wants_times()
            && let Some((_, _, peer)) = self.peer(index)
        {
            peer.health.timing.took(header_ms, last_byte_ms);
        }
    }

    /// A peer has accepted a session of `stream` that began at this time. Returns what further times of the session are
    /// reported to, if the method compares those.
    pub fn session_connected(
        &self,
        index: usize,
        seat: &mut Seat,
        began: Millis,
        now: Millis,
    ) -> Option<SessionTiming> {
        let measure = self.method.measure()?;
        let (_, _, peer) = self.peer(index)?;
        seat.time_session(&peer.health, measure, began, now)
    }

    /// Counts a session of datagrams for as long as it exists, also at the only peer of its group: [`Self::pick`] leaves that
    /// to the pool, which sees no connection here.
    pub fn count_datagrams(&self, index: usize, seat: Seat) -> Counted {
        let counted = seat.into_tunnel();
        if counted.counted_ordinal().is_some() {
            return counted;
        }
        let seat = self.peer(index).and_then(|(_, _, peer)| Seat::take(&peer.health, None, None));
        seat.map_or(counted, Seat::into_tunnel)
    }

    fn peer(&self, index: usize) -> Option<(&Tier, usize, &Peer)> {
        let &(is_backup, place) = self.places.get(index)?;
        let tier = if is_backup { &self.backup } else { &self.primary };
        Some((tier, place, tier.peers.get(place)?))
    }

    fn only_peer(&self) -> Option<&Peer> {
        match (self.primary.peers.as_slice(), self.backup.peers.is_empty()) {
            ([only], true) => Some(only),
            _ => None,
        }
    }
}

impl Tier {
    fn new(method: Method, peers: Vec<Peer>, before: Option<&Self>) -> Self {
        let weights = match before {
            None => peers.iter().map(|peer| Weights::new(peer.spec.weight)).collect(),
            Some(before) => before.weights_for(&peers),
        };
        // A sum past u32 would take weights in the millions; the hashes then favour the first peers.
        let configured_weight = peers.iter().fold(0, |sum: u32, peer| sum.saturating_add(peer.spec.weight));
        let starts_slowly = peers.iter().any(|peer| peer.spec.slow_start_ms > 0);
        let ring = if method == Method::ConsistentHash { Ring::new(&peers) } else { Ring::default() };
        Self { peers, weights: PlainMutex::new(weights), configured_weight, starts_slowly, ring }
    }

    /// The weights of a list of peers, as far as they are those of this tier.
    fn weights_for(&self, peers: &[Peer]) -> Vec<Weights> {
        let weights = lock_plain(&self.weights);
        let known = |peer: &Peer| {
            let place = self.peers.iter().position(|own| Arc::ptr_eq(&own.health, &peer.health))?;
            Some(weights.get(place)?.moved(self.peers.get(place)?.spec.weight, peer.spec.weight))
        };
        peers.iter().map(|peer| known(peer).unwrap_or_else(|| Weights::new(peer.spec.weight))).collect()
    }

    /// A seat at a chosen peer.
    fn seat(
        &self,
        method: Method,
        selection: &mut Selection,
        now: Millis,
        mut choose: impl FnMut(&mut Selection) -> Option<usize>,
    ) -> Option<(usize, Seat)> {
        let inflight = method.wants_inflight().map(|_| now);
        // In each failed round, another worker or generation took the peer's last seat first: they count on the same
        // peers.
        for _ in 0..=self.peers.len() {
            let place = choose(selection)?;
            let peer = self.peers.get(place)?;
            if let Some(seat) = Seat::take(&peer.health, peer.spec.max_conns, inflight) {
                selection.mark(peer.index);
                peer.health.picked(now, peer.spec.fail_timeout_ms);
                return Some((peer.index, seat));
            }
        }
        None
    }

    fn share_whole(&self) -> i64 {
        if self.starts_slowly { SHARE_WHOLE } else { 1 }
    }

    /// The sum of all weights.
    fn total_weight(&self) -> u32 {
        if !health::weights_are_set() {
            return self.configured_weight;
        }
        self.peers.iter().fold(0, |sum: u32, peer| sum.saturating_add(peer.weight()))
    }

    /// The present value of a unit of the peer's weight.
    fn share(&self, peer: &Peer, now: Millis) -> i64 {
        if self.starts_slowly { peer.health.share(peer.spec.slow_start_ms, now) } else { 1 }
    }

    /// The peer's present weight, for comparison with others in the tier.
    fn weight(&self, peer: &Peer, now: Millis) -> u128 {
        u128::from(peer.weight()) * u128::from(self.share(peer, now).unsigned_abs())
    }
}

impl Peer {
    /// Its weight: what an operator has set, or that of the configuration.
    fn weight(&self) -> u32 {
        self.health.weight().unwrap_or(self.spec.weight)
    }

    fn pick_unchosen(&self, inputs: &Inputs<'_>) -> Pick {
        let is_drained = self.is_drained() && *inputs.bound != *self.sid;
        // Failures do not count here; active checks and an operator's mode do.
        let is_down = self.spec.down || self.health.mode() == PeerMode::Down;
        if is_down || is_drained || self.health.checked() != Checked::Healthy {
            return Pick::NoLive;
        }
        let seat = if self.spec.max_conns.is_some() {
            Seat::take(&self.health, self.spec.max_conns, None)
        } else {
            Some(Seat::uncounted())
        };
        seat.map_or(Pick::NoLive, |seat| Pick::Peer { index: self.index, seat })
    }

    /// Whether a request that is bound to it may use it.
    fn is_usable(&self, selection: &Selection, now: Millis) -> bool {
        !selection.has_tried(self.index)
            && !self.spec.down
            && self.health.is_usable(&self.spec, now)
            && self.spec.max_conns.is_none_or(|max_conns| self.health.active() < max_conns)
    }

    /// Whether any request may use it.
    fn is_eligible(&self, selection: &Selection, now: Millis) -> bool {
        !self.is_drained() && self.is_usable(selection, now)
    }

    /// Whether only requests of its sessions may use it, by the configuration or by an operator.
    fn is_drained(&self) -> bool {
        self.spec.drain || self.health.mode() == PeerMode::Drain
    }

    fn estimate(&self, measure: Measure, now: Millis) -> u64 {
        let silent_ms = now.since(self.health.checked_at());
        self.health.timing.estimate(measure, self.health.active(), silent_ms, self.spec.fail_timeout_ms, now)
    }
}
