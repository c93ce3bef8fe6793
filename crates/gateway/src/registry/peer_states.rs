//! Which peers of a generation tunnels may keep: a reload drains the tunnels of a peer that is gone, or that the
//! configuration has marked `drain` since they began.

use crate::registry::group::{BoundGroup, Members, PeerSet};
use rustc_hash::{FxHashMap, FxHashSet};
use upstream::shared::{GroupId, PeerId};

/// The peer of a tunnel, as generations know it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct TunnelPeer {
    pub(crate) group: GroupId,
    pub(crate) peer: PeerId,
    /// Its ordinal among the peers of the group with the same address.
    pub(crate) ordinal: u32,
}

/// A peer and its ordinal among those of its group with the same address.
type PeerKey = (PeerId, u32);

/// The peers that are marked `drain`, with the number of the generation that first marked them.
pub(crate) type DrainedSince = FxHashMap<PeerKey, u64>;

/// The peers of a generation.
#[derive(Debug, Default)]
pub(crate) struct PeerStates {
    /// `None`: it is not marked `drain`.
    known: FxHashMap<PeerKey, Option<u64>>,
    /// Groups with peers that come from names or from requests: an address that is absent now may return.
    open: FxHashSet<GroupId>,
}

impl PeerStates {
    /// Whether a tunnel may have this peer.
    pub(crate) fn has(&self, peer: TunnelPeer) -> bool {
        self.known.contains_key(&(peer.peer, peer.ordinal)) || self.open.contains(&peer.group)
    }

    /// Whether a tunnel that began under a generation loses its peer. A tunnel that began when the peer was marked
    /// already belongs to a sticky session, and stays.
    pub(crate) fn drains(&self, peer: TunnelPeer, began: u64) -> bool {
        match self.known.get(&(peer.peer, peer.ordinal)) {
            Some(since) => since.is_some_and(|since| began < since),
            None => !self.open.contains(&peer.group),
        }
    }
}

/// Collects the peers of a generation.
pub(crate) struct PeerStatesBuilder<'a> {
    before: &'a DrainedSince,
    generation: u64,
    states: PeerStates,
}

impl<'a> PeerStatesBuilder<'a> {
    pub(crate) fn new(before: &'a DrainedSince, generation: u64) -> Self {
        Self { before, generation, states: PeerStates::default() }
    }

    pub(crate) fn add(&mut self, id: GroupId, group: &BoundGroup) {
        if group.follows_names() || group.servers.is_empty() {
            self.states.open.insert(id);
        }
        match &group.members {
            Members::Fixed(set) => self.add_set(set),
            Members::Moving(_) => {
                if let Some(set) = group.members.hold() {
                    self.add_set(&set);
                }
            }
        }
    }

    fn add_set(&mut self, set: &PeerSet) {
        for (place, hold) in set.holds.iter().enumerate() {
            let (Some(spec), Some(health)) = (set.balance.spec(place), set.balance.health(place)) else { continue };
            let key = (hold.peer, health.ordinal());
            let since = spec.drain.then(|| self.before.get(&key).copied().unwrap_or(self.generation));
            self.states.known.insert(key, since);
        }
    }

    /// The peers, and those of them that are marked.
    pub(crate) fn finish(self) -> (PeerStates, DrainedSince) {
        let marked = self.states.known.iter().filter_map(|(key, since)| Some((*key, (*since)?))).collect();
        (self.states, marked)
    }
}
