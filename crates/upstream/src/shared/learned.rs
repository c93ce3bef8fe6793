//! Learned limits of peers (`learn`), shared by all workers: each peer has one learner, off the request path, and its
//! results are copied to the keys of that peer, where checkout and check-in read them without a lock.

use std::sync::atomic::Ordering::Relaxed;

use super::Pool;
use super::group::GroupId;
use super::key::{KeyId, KeySlot};
use crate::Millis;
use crate::learn::{Learned, Learner};
use crate::sync::lock_plain;

/// The learner of a peer.
#[derive(Default)]
pub(crate) struct Knowledge {
    learner: Learner,
    learned: Learned,
}

impl<C: Send> Pool<C> {
    /// Records that the peer ended a connection by its FIN while it was idle, or practically idle: after this many
    /// milliseconds, and after serving this many requests.
    pub fn observe_end(&self, key: KeyId, now: Millis, idle_ms: u64, requests: u32) {
        self.observe(key, now, |learner| learner.end(now, idle_ms, requests));
    }

    /// Records a response's `Keep-Alive: timeout=`. If the peer says the same as last time, this costs one load.
    pub fn observe_announced(&self, key: KeyId, now: Millis, timeout_ms: u64) {
        let is_new = |slot: &KeySlot| slot.announced_ms.swap(timeout_ms, Relaxed) != timeout_ms;
        if self.live_key(key).is_some_and(|slot| slot.announced_ms.load(Relaxed) != timeout_ms && is_new(slot)) {
            self.observe(key, now, |learner| learner.announced(timeout_ms));
        }
    }

    /// The learned limits of the peer behind a key.
    pub fn learned(&self, key: KeyId) -> Learned {
        let slot = self.live_key(key).and_then(|slot| self.peers.slot(u32::from(slot.peer())));
        slot.map_or_else(Learned::default, |peer| lock_plain(&peer.knowledge).learned)
    }

    fn observe(&self, key: KeyId, now: Millis, tell: impl FnOnce(&mut Learner)) {
        let Some(slot) = self.live_key(key) else { return };
        if !self.group_of(slot).is_some_and(|group| group.learn.load(Relaxed)) {
            return;
        }
        let peer = slot.peer();
        // A key that was retired meanwhile is ignored: its peer's number may belong to another peer.
        if slot.is_live(key) {
            self.conclude(peer, now, tell);
        }
    }

    /// Evaluates new or expired observations, and applies the result to the peer's keys.
    pub(super) fn conclude(&self, peer: u16, now: Millis, tell: impl FnOnce(&mut Learner)) {
        let Some(slot) = self.peers.slot(u32::from(peer)) else { return };
        let mut knowledge = lock_plain(&slot.knowledge);
        tell(&mut knowledge.learner);
        let learned = knowledge.learner.learned(now);
        if learned == knowledge.learned {
            return;
        }
        knowledge.learned = learned;
        drop(knowledge);
        self.spread(peer, learned);
    }

    /// Applies the learned limits to a new key of a known peer.
    pub(super) fn publish_key(&self, slot: &KeySlot) {
        if let Some(peer) = self.peers.slot(u32::from(slot.peer())) {
            slot.apply(lock_plain(&peer.knowledge).learned);
        }
    }

    /// `keepalive_learn off`: discards the learned limits.
    pub(super) fn forget_learned(&self, group: GroupId) {
        let peers = self.names().peers_of(group);
        for peer in peers {
            if let Some(slot) = self.peers.slot(u32::from(peer)) {
                *lock_plain(&slot.knowledge) = Knowledge::default();
            }
            self.spread(peer, Learned::default());
        }
    }

    fn spread(&self, peer: u16, learned: Learned) {
        for index in 0..self.names().keys_made() {
            if let Some(slot) = self.keys.slot(index).filter(|slot| slot.peer() == peer) {
                slot.apply(learned);
            }
        }
    }
}
