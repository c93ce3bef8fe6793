//! A group as exchanges use it: its peers with their keys in the pool, and its counters. The peers are behind
//! [`Members`], since those of a name may change while the generation lives; a peer keeps its identity across such a
//! change through its health in `upstream::balance`.

use crate::base::cells::{GroupCells, PeerCells};
use crate::plan::group::GroupPlan;
use crate::registry::names::keys::{KeyHold, NamedKeys};
use crate::registry::names::moving::MovingGroup;
use crate::registry::peer_states::TunnelPeer;
use reactor::PeerAddress;
use std::ops::Deref;
use std::sync::{Arc, Mutex, PoisonError};
use upstream::balance::{Group, Sessions};
use upstream::shared::KeyId;

/// A group as some proxies use it: with the same connections.
pub(crate) struct BoundGroup {
    pub(crate) plan: Arc<GroupPlan>,
    pub(crate) members: Members,
    /// The sessions of `sticky learn`.
    pub(crate) sessions: Option<Arc<Sessions>>,
    /// Its counters.
    pub(crate) cells: Arc<GroupCells>,
    /// Updates the peers that come from names.
    pub(crate) moving: Option<Arc<MovingGroup>>,
}

impl Deref for BoundGroup {
    type Target = GroupPlan;

    fn deref(&self) -> &GroupPlan {
        &self.plan
    }
}

/// The peers of a group at one time.
#[derive(Debug)]
pub(crate) struct PeerSet {
    pub(crate) peers: Vec<BoundPeer>,
    /// The balancer's state: the same for all proxies that use the group.
    pub(crate) balance: Arc<Group>,
    /// Keep the peers' keys alive while a generation or an exchange holds these peers; in the order of the peers, without
    /// those that are not pooled.
    pub(crate) holds: Vec<KeyHold>,
}

impl PeerSet {
    /// A peer as generations know it; `None` for one without a number in the pool.
    pub(crate) fn known_peer(&self, place: usize) -> Option<TunnelPeer> {
        let KeyHold { group, peer, .. } = *self.holds.get(place)?;
        Some(TunnelPeer { group, peer, ordinal: self.balance.health(place)?.ordinal() })
    }

    /// The peers, without those that share the address, and so the connections, of an earlier one.
    pub(crate) fn distinct(&self) -> impl Iterator<Item = &BoundPeer> {
        let is_first = |place: usize| self.balance.health(place).is_none_or(|health| health.ordinal() == 0);
        self.peers.iter().enumerate().filter(move |(place, _)| is_first(*place)).map(|(_, peer)| peer)
    }
}

/// A peer of a group.
#[derive(Debug)]
pub(crate) struct BoundPeer {
    pub(crate) address: PeerAddress,
    /// `$upstream_addr`.
    pub(crate) name: Box<[u8]>,
    pub(crate) key: KeyId,
    /// Its connections are kept for other requests. `false` for peers beyond the pool's numbers, if requests have named
    /// too many addresses: these share a key.
    pub(crate) is_pooled: bool,
    /// The pool keys by TLS name, if each request has its own name. [`Self::key`] has no connections then.
    pub(crate) named: Option<NamedKeys>,
    /// Its counters.
    pub(crate) cells: Arc<PeerCells>,
}

/// The peers of a group. Written addresses stay, and are read without touching a counter that workers share. Peers from
/// a resolver may be replaced, and an exchange holds on to those that it began with.
pub(crate) enum Members {
    Fixed(PeerSet),
    Moving(Mutex<Arc<PeerSet>>),
}

/// An exchange's hold on peers that may be replaced; `None` if they are fixed.
pub(crate) type HeldPeers = Option<Arc<PeerSet>>;

impl Members {
    /// Holds the present peers.
    pub(crate) fn hold(&self) -> HeldPeers {
        match self {
            Self::Fixed(_) => None,
            Self::Moving(present) => Some(Arc::clone(&present.lock().unwrap_or_else(PoisonError::into_inner))),
        }
    }

    /// The peers that were held. `None` for a group with names that was not held.
    pub(crate) fn of<'a>(&'a self, held: &'a HeldPeers) -> Option<&'a PeerSet> {
        match (self, held) {
            (_, Some(held)) => Some(held),
            (Self::Fixed(peers), None) => Some(peers),
            (Self::Moving(_), None) => None,
        }
    }

    /// Replaces the peers for new exchanges. Does nothing for fixed peers.
    pub(crate) fn replace(&self, peers: Arc<PeerSet>) {
        if let Self::Moving(present) = self {
            // The previous peers are dropped outside of the lock: their connections may have to be closed.
            let before = std::mem::replace(&mut *present.lock().unwrap_or_else(PoisonError::into_inner), peers);
            drop(before);
        }
    }
}
