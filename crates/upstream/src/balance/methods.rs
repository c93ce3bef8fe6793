//! nginx's methods, one function each. All of them choose an index in a tier. A hash or random choice that finds no
//! usable peer in twenty steps falls back on round robin, as in nginx.

use super::timing::Measure;
use super::{Inputs, Peer, Selection, Tier};
use crate::Millis;
use crate::sync::lock_plain;

/// Steps after which a hash or random choice gives up; nginx's number.
const MISSES_MAX: u32 = 20;

/// The method of a group.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Method {
    /// Smooth weighted round robin, the default.
    RoundRobin,
    /// `least_conn`.
    LeastConn,
    /// `least_time`.
    LeastTime {
        /// Which time.
        measure: Measure,
        /// Whether exchanges under way count by their age.
        inflight: bool,
    },
    /// `ip_hash`.
    IpHash,
    /// `hash KEY`, compatible with `Cache::Memcached`.
    Hash,
    /// `hash KEY consistent`, compatible with `Cache::Memcached::Fast`.
    ConsistentHash,
    /// `random`.
    Random,
    /// `random two least_conn`.
    RandomTwoLeastConn,
    /// `random two least_time=…`.
    RandomTwoLeastTime(Measure),
}

impl Method {
    /// Whether the method uses response times, so that they must be measured.
    pub fn wants_times(self) -> bool {
        matches!(self, Self::LeastTime { .. } | Self::RandomTwoLeastTime(_))
    }

    /// The time that the method compares.
    pub(super) fn measure(self) -> Option<Measure> {
        match self {
            Self::LeastTime { measure, .. } | Self::RandomTwoLeastTime(measure) => Some(measure),
            _ => None,
        }
    }

    /// Whether the method uses randomness, so that [`Inputs::random`] matters.
    pub fn wants_chance(self) -> bool {
        matches!(self, Self::Random | Self::RandomTwoLeastConn | Self::RandomTwoLeastTime(_))
    }

    /// Whether the age of current exchanges counts, and, if so, what ends it.
    pub(super) fn wants_inflight(self) -> Option<Measure> {
        match self {
            Self::LeastTime { measure, inflight: true } => Some(measure),
            _ => None,
        }
    }
}

/// A peer's weights in smooth weighted round robin.
#[derive(Debug, Clone, Copy)]
pub(super) struct Weights {
    current: i64,
    /// The whole weight, less after failures, growing back by one at each round.
    effective: i64,
}

impl Weights {
    pub(super) fn new(weight: u32) -> Self {
        Self { current: 0, effective: i64::from(weight) }
    }

    pub(super) fn lower(&mut self, by: u32) {
        self.effective = (self.effective - i64::from(by)).max(0);
    }

    /// The same peer with another weight: it keeps its place in the round, and its reduction.
    pub(super) fn moved(self, from: u32, to: u32) -> Self {
        let lost = (i64::from(from) - self.effective).max(0);
        Self { current: self.current, effective: (i64::from(to) - lost).max(0) }
    }

    /// One round: the current weight grows by the effective one, or by its share, which is returned. A weight that an
    /// operator has raised is reached by one at each round, like one that failures have lowered.
    fn advance(&mut self, whole: u32, share: i64) -> i64 {
        self.effective = self.effective.min(i64::from(whole));
        let step = self.effective * share;
        self.current += step;
        if self.effective < i64::from(whole) {
            self.effective += 1;
        }
        step
    }
}

pub(super) fn choose(
    method: Method,
    tier: &Tier,
    selection: &mut Selection,
    inputs: &Inputs<'_>,
    now: Millis,
) -> Option<usize> {
    let many = tier.peers.len() > 1 && selection.misses <= MISSES_MAX;
    let found = match method {
        Method::LeastConn => return least(tier, selection, now, |peer| u64::from(peer.health.active())),
        Method::LeastTime { measure, .. } => return least(tier, selection, now, |peer| peer.estimate(measure, now)),
        Method::IpHash if many => ip_hash(tier, selection, inputs.client, now),
        Method::Hash if many && !inputs.hash_key.is_empty() => hash(tier, selection, inputs.hash_key, now),
        Method::ConsistentHash if many && !inputs.hash_key.is_empty() => {
            consistent_hash(tier, selection, inputs.hash_key, now)
        }
        Method::Random if many => random(tier, selection, inputs.random, now),
        Method::RandomTwoLeastConn if many => {
            random_two(tier, selection, inputs.random, now, |peer| u64::from(peer.health.active()))
        }
        Method::RandomTwoLeastTime(measure) if many => {
            random_two(tier, selection, inputs.random, now, |peer| peer.estimate(measure, now))
        }
        _ => None,
    };
    found.or_else(|| round_robin(tier, selection, now, |_| true))
}

/// Chooses one of the peers that a session is bound to; several (with one route) take turns. In round robin all others
/// gain their weights as in any round, so a peer with bound sessions gets less of the rest, by up to one round: a peer
/// without its sessions must not be left out for long.
pub(super) fn choose_bound(
    method: Method,
    tier: &Tier,
    selection: &Selection,
    bound: &[u8],
    now: Millis,
) -> Option<usize> {
    let is_bound = |peer: &Peer| *peer.sid == *bound && peer.is_usable(selection, now);
    let places = || tier.peers.iter().enumerate().filter(|(_, peer)| is_bound(peer));
    let own_weight: u64 = places().map(|(_, peer)| u64::from(peer.weight())).sum();
    let mut weights = lock_plain(&tier.weights);
    let current = places().filter_map(|(place, _)| weights.get(place)).map(|weights| weights.current).max()?;
    let round = u64::from(tier.total_weight()).saturating_sub(own_weight) as i64 * tier.share_whole();
    let mut owed = 0;
    if method == Method::RoundRobin && current > -round {
        for (peer, weights) in tier.peers.iter().zip(weights.iter_mut()) {
            if !is_bound(peer) && peer.is_eligible(selection, now) {
                owed += weights.advance(peer.weight(), tier.share(peer, now));
            }
        }
    }
    let place = heaviest(tier, &mut weights, places(), now)?;
    weights.get_mut(place)?.current -= owed;
    Some(place)
}

/// Every candidate gains its weight, the heaviest wins and pays the sum: with weights 5, 1, 1 a a b a c a a.
fn round_robin(tier: &Tier, selection: &Selection, now: Millis, is_candidate: impl Fn(&Peer) -> bool) -> Option<usize> {
    let mut weights = lock_plain(&tier.weights);
    let candidates =
        tier.peers.iter().enumerate().filter(|(_, peer)| peer.is_eligible(selection, now) && is_candidate(peer));
    heaviest(tier, &mut weights, candidates, now)
}

fn heaviest<'t>(
    tier: &Tier,
    weights: &mut [Weights],
    candidates: impl Iterator<Item = (usize, &'t Peer)>,
    now: Millis,
) -> Option<usize> {
    let mut best: Option<(usize, i64)> = None;
    let mut total = 0;
    for (place, peer) in candidates {
        let Some(weights) = weights.get_mut(place) else { continue };
        total += weights.advance(peer.weight(), tier.share(peer, now));
        if best.is_none_or(|(_, most)| weights.current > most) {
            best = Some((place, weights.current));
        }
    }
    let (place, _) = best?;
    weights.get_mut(place)?.current -= total;
    Some(place)
}

/// The least load per weight; round robin among equals.
fn least(tier: &Tier, selection: &Selection, now: Millis, load: impl Fn(&Peer) -> u64) -> Option<usize> {
    let mut best: Option<(usize, u128, u128)> = None;
    let mut many = false;
    for (place, peer) in tier.peers.iter().enumerate() {
        if !peer.is_eligible(selection, now) {
            continue;
        }
        let (load, weight) = (u128::from(load(peer)), tier.weight(peer, now));
        match best {
            Some((_, best_load, best_weight)) if load * best_weight > best_load * weight => {}
            Some((_, best_load, best_weight)) if load * best_weight == best_load * weight => many = true,
            _ => {
                best = Some((place, load, weight));
                many = false;
            }
        }
    }
    let (place, best_load, best_weight) = best?;
    if !many {
        return Some(place);
    }
    let is_equal = |peer: &Peer| u128::from(load(peer)) * best_weight == best_load * tier.weight(peer, now);
    // Loads may have changed since; then the first choice counts.
    round_robin(tier, selection, now, is_equal).or(Some(place))
}

fn ip_hash(tier: &Tier, selection: &mut Selection, client: &[u8], now: Millis) -> Option<usize> {
    // A request starts at 89 and goes on from where its last attempt was.
    let mut hash = if selection.hash == 0 && selection.rehashes == 0 { 89 } else { selection.hash };
    selection.rehashes = 1;
    loop {
        for octet in client {
            hash = (hash * 113 + u32::from(*octet)) % 6271;
        }
        selection.hash = hash;
        let place = place_of_weight(tier, hash)?;
        if tier.peers.get(place)?.is_eligible(selection, now) {
            return Some(place);
        }
        selection.miss()?;
    }
}

/// `((crc32([REHASH] KEY) >> 16) & 0x7fff) + PREVIOUS`; the first time without the rehash number.
fn hash(tier: &Tier, selection: &mut Selection, key: &[u8], now: Millis) -> Option<usize> {
    loop {
        let mut crc = crc32fast::Hasher::new();
        if selection.rehashes > 0 {
            crc.update(selection.rehashes.to_string().as_bytes());
        }
        crc.update(key);
        selection.hash = selection.hash.wrapping_add((crc.finalize() >> 16) & 0x7fff);
        selection.rehashes += 1;
        let place = place_of_weight(tier, selection.hash)?;
        if tier.peers.get(place)?.is_eligible(selection, now) {
            return Some(place);
        }
        selection.miss()?;
    }
}

/// Goes along the ring from the key's position to a server with a usable peer; the addresses of one name take turns.
fn consistent_hash(tier: &Tier, selection: &mut Selection, key: &[u8], now: Millis) -> Option<usize> {
    if selection.rehashes == 0 {
        selection.hash = tier.ring.place(key);
        selection.rehashes = 1;
    }
    loop {
        let server = tier.ring.server(selection.hash)?;
        if let Some(place) = round_robin(tier, selection, now, |peer| *peer.server == *server) {
            return Some(place);
        }
        selection.hash = selection.hash.wrapping_add(1);
        selection.miss()?;
    }
}

/// One peer, by weight.
fn random(tier: &Tier, selection: &mut Selection, seed: u64, now: Millis) -> Option<usize> {
    loop {
        let place = place_of_weight(tier, selection.chance(seed))?;
        if tier.peers.get(place)?.is_eligible(selection, now) {
            return Some(place);
        }
        selection.miss()?;
    }
}

/// Chooses two different peers by weight, and of these the one with less load per weight.
fn random_two(
    tier: &Tier,
    selection: &mut Selection,
    seed: u64,
    now: Millis,
    load: impl Fn(&Peer) -> u64,
) -> Option<usize> {
    let mut first: Option<usize> = None;
    loop {
        let place = place_of_weight(tier, selection.chance(seed))?;
        let peer = tier.peers.get(place)?;
        if first != Some(place) && peer.is_eligible(selection, now) {
            let Some(other) = first.and_then(|other| tier.peers.get(other)) else {
                first = Some(place);
                continue;
            };
            let (mine, others) = (u128::from(load(peer)), u128::from(load(other)));
            let is_worse = mine * tier.weight(other, now) > others * tier.weight(peer, now);
            return if is_worse { first } else { Some(place) };
        }
        selection.miss()?;
    }
}

/// The peer in whose share of the total weight a hash falls.
fn place_of_weight(tier: &Tier, hash: u32) -> Option<usize> {
    let mut rest = hash.checked_rem(tier.total_weight())?;
    tier.peers.iter().position(|peer| {
        let weight = peer.weight();
        let falls_here = rest < weight;
        rest = rest.wrapping_sub(weight);
        falls_here
    })
}

impl Selection {
    /// Counts a step without a usable peer; `None` when it was one too many.
    fn miss(&mut self) -> Option<()> {
        self.misses += 1;
        (self.misses <= MISSES_MAX).then_some(())
    }

    /// The next number of a request's own sequence (splitmix64), from its seed.
    fn chance(&mut self, seed: u64) -> u32 {
        self.draws = self.draws.wrapping_add(1);
        let mut mixed = seed.wrapping_add(u64::from(self.draws).wrapping_mul(0x9e37_79b9_7f4a_7c15));
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((mixed ^ (mixed >> 31)) >> 32) as u32
    }
}
