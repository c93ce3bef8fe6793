//! A group as exchanges see it: its peers with their keys in the pool, and what is counted about it. The peers are behind
//! [`Members`], since those of a name may change while the generation lives; a peer keeps its identity across such a change
//! through its health in `upstream::balance`.

use crate::base::cells::{GroupCells, PeerCells};
use crate::plan::group::GroupPlan;
use crate::registry::names::keys::{KeyHold, NamedKeys};
use crate::registry::names::moving::MovingGroup;
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
    /// What is counted about it.
    pub(crate) cells: Arc<GroupCells>,
    /// It makes the peers of names anew.
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
    /// Whose turn it is: the same for all proxies that use the group.
    pub(crate) balance: Arc<Group>,
    /// On the peers' keys: they are not retired as long as anybody has these peers, a generation or an exchange.
    pub(crate) _holds: Vec<KeyHold>,
}

impl PeerSet {
    /// The peers without those that have the address of one before them, whose connections they share.
    pub(crate) fn distinct(&self) -> impl Iterator<Item = &BoundPeer> {
        let is_first = |place: usize| self.balance.health(place).is_none_or(|health| health.ordinal() == 0);
        self.peers.iter().enumerate().filter(move |(place, _)| is_first(*place)).map(|(_, peer)| peer)
    }
}

/// A server of a group.
#[derive(Debug)]
pub(crate) struct BoundPeer {
    pub(crate) address: PeerAddress,
    /// `$upstream_addr`.
    pub(crate) name: Box<[u8]>,
    pub(crate) key: KeyId,
    /// Its connections are kept for others. Not so where requests have named more addresses than the pool has numbers for:
    /// these share a key.
    pub(crate) is_pooled: bool,
    /// Where each request has its own name in TLS: the keys of those names. [`Self::key`] has no connections then.
    pub(crate) named: Option<NamedKeys>,
    /// What is counted about it.
    pub(crate) cells: Arc<PeerCells>,
}

/// The peers of a group. What is written as an address stays, and is read without touching a counter that workers share;
/// what comes from a resolver may be replaced, and an exchange holds on to what it began with.
pub(crate) enum Members {
    Fixed(PeerSet),
    Moving(Mutex<Arc<PeerSet>>),
}

/// An exchange's hold on peers that may be replaced; nothing where they stay.
pub(crate) type HeldPeers = Option<Arc<PeerSet>>;

impl Members {
    /// Holds the present peers.
    pub(crate) fn hold(&self) -> HeldPeers {
        match self {
            Self::Fixed(_) => None,
            Self::Moving(present) => Some(Arc::clone(&present.lock().unwrap_or_else(PoisonError::into_inner))),
        }
    }

    /// The peers that were held. `None` for those of a group that moves and was not held.
    pub(crate) fn of<'a>(&'a self, held: &'a HeldPeers) -> Option<&'a PeerSet> {
        match (self, held) {
            (_, Some(held)) => Some(held),
            (Self::Fixed(peers), None) => Some(peers),
            (Self::Moving(_), None) => None,
        }
    }

    /// Exchanges that begin from now on use these peers. Nothing happens to a group that stays.
    pub(crate) fn replace(&self, peers: Arc<PeerSet>) {
        if let Self::Moving(present) = self {
            // Those before are dropped without the lock: their connections may have to be closed.
            let before = std::mem::replace(&mut *present.lock().unwrap_or_else(PoisonError::into_inner), peers);
            drop(before);
        }
    }
}
