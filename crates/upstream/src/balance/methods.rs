//! nginx's methods, one function each. All of them choose a place in a tier under that tier's lock; a hash that finds no
//! usable peer in twenty steps falls back on round robin, as nginx does.

use super::{Inputs, Peer, Selection, Tier};
use crate::Millis;

/// Steps after which a hash gives up; nginx's number.
const HASH_MISSES_MAX: u32 = 20;

/// How a group chooses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Method {
    /// Smooth weighted round robin, the default.
    RoundRobin,
    /// `least_conn`.
    LeastConn,
    /// `ip_hash`.
    IpHash,
    /// `hash KEY`, compatible with `Cache::Memcached`.
    Hash,
}

/// A peer's weights in smooth weighted round robin.
#[derive(Debug, Clone, Copy)]
pub(super) struct Weights {
    current: i64,
    /// The configured weight, less after failures, growing back by one at each round.
    effective: i64,
}

impl Weights {
    pub(super) fn new(weight: u32) -> Self {
        Self { current: 0, effective: i64::from(weight) }
    }

    pub(super) fn lower(&mut self, by: u32) {
        self.effective = (self.effective - i64::from(by)).max(0);
    }

    /// One round: the current weight grows by the effective one, which is returned.
    fn advance(&mut self, configured: u32) -> i64 {
        let step = self.effective;
        self.current += step;
        if self.effective < i64::from(configured) {
            self.effective += 1;
        }
        step
    }
}

pub(super) fn choose(
    method: Method,
    tier: &Tier,
    weights: &mut [Weights],
    selection: &mut Selection,
    inputs: &Inputs<'_>,
    now: Millis,
) -> Option<usize> {
    let hashable = tier.peers.len() > 1 && selection.misses <= HASH_MISSES_MAX;
    let hashed = match method {
        Method::LeastConn => return least_conn(tier, weights, selection, now),
        Method::IpHash if hashable => ip_hash(tier, selection, inputs.client, now),
        Method::Hash if hashable && !inputs.hash_key.is_empty() => hash(tier, selection, inputs.hash_key, now),
        Method::RoundRobin | Method::IpHash | Method::Hash => None,
    };
    hashed.or_else(|| round_robin(tier, weights, selection, now, |_| true))
}

/// Every candidate gains its weight, the heaviest wins and pays the sum: with weights 5, 1, 1 a a b a c a a.
fn round_robin(
    tier: &Tier,
    weights: &mut [Weights],
    selection: &Selection,
    now: Millis,
    is_candidate: impl Fn(&Peer) -> bool,
) -> Option<usize> {
    let mut best: Option<(usize, i64)> = None;
    let mut total = 0;
    for (place, (peer, weights)) in tier.peers.iter().zip(weights.iter_mut()).enumerate() {
        if !peer.is_eligible(selection, now) || !is_candidate(peer) {
            continue;
        }
        total += weights.advance(peer.spec.weight);
        if best.is_none_or(|(_, heaviest)| weights.current > heaviest) {
            best = Some((place, weights.current));
        }
    }
    let (place, _) = best?;
    weights.get_mut(place)?.current -= total;
    Some(place)
}

/// The least exchanges per weight; round robin among equals.
fn least_conn(tier: &Tier, weights: &mut [Weights], selection: &Selection, now: Millis) -> Option<usize> {
    let mut best: Option<(usize, u64, u64)> = None;
    let mut many = false;
    for (place, peer) in tier.peers.iter().enumerate() {
        if !peer.is_eligible(selection, now) {
            continue;
        }
        let (active, weight) = (u64::from(peer.health.active()), u64::from(peer.spec.weight));
        match best {
            Some((_, best_active, best_weight)) if active * best_weight > best_active * weight => {}
            Some((_, best_active, best_weight)) if active * best_weight == best_active * weight => many = true,
            _ => {
                best = Some((place, active, weight));
                many = false;
            }
        }
    }
    let (place, best_active, best_weight) = best?;
    if !many {
        return Some(place);
    }
    let is_equal =
        |peer: &Peer| u64::from(peer.health.active()) * best_weight == best_active * u64::from(peer.spec.weight);
    // Loads may have moved since; then the first choice stands.
    round_robin(tier, weights, selection, now, is_equal).or(Some(place))
}

fn ip_hash(tier: &Tier, selection: &mut Selection, client: &[u8], now: Millis) -> Option<usize> {
    // A request starts at 89 and goes on from where its last attempt stood.
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
        selection.misses += 1;
        if selection.misses > HASH_MISSES_MAX {
            return None;
        }
    }
}

/// `((crc32([REHASH] KEY) >> 16) & 0x7fff) + PREVIOUS`, the number of the rehash left out the first time.
fn hash(tier: &Tier, selection: &mut Selection, key: &[u8], now: Millis) -> Option<usize> {
    loop {
        let mut crc = Crc32::new();
        if selection.rehashes > 0 {
            crc.update(selection.rehashes.to_string().as_bytes());
        }
        crc.update(key);
        selection.hash = selection.hash.wrapping_add((crc.value() >> 16) & 0x7fff);
        selection.rehashes += 1;
        let place = place_of_weight(tier, selection.hash)?;
        if tier.peers.get(place)?.is_eligible(selection, now) {
            return Some(place);
        }
        selection.misses += 1;
        if selection.misses > HASH_MISSES_MAX {
            return None;
        }
    }
}

/// The peer in whose share of the total weight a hash falls.
fn place_of_weight(tier: &Tier, hash: u32) -> Option<usize> {
    let mut rest = hash.checked_rem(tier.total_weight)?;
    tier.peers.iter().position(|peer| {
        let falls_here = rest < peer.spec.weight;
        rest = rest.wrapping_sub(peer.spec.weight);
        falls_here
    })
}

/// CRC-32 of IEEE 802.3, bit by bit: keys are short, and this is once per request of a `hash` group.
struct Crc32(u32);

impl Crc32 {
    fn new() -> Self {
        Self(u32::MAX)
    }

    fn update(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 ^= u32::from(*byte);
            for _ in 0..8 {
                let low = self.0 & 1;
                self.0 = (self.0 >> 1) ^ (0xedb8_8320 * low);
            }
        }
    }

    fn value(&self) -> u32 {
        !self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn crc32_is_the_known_one() {
        let mut crc = Crc32::new();
        crc.update(b"1234");
        crc.update(b"56789");
        assert_eq!(crc.value(), 0xcbf4_3926);
    }
}
