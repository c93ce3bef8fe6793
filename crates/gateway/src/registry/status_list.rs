//! The groups, peers and listening sockets for the status page, with their counters. It outlives generations but keeps
//! no objects alive itself: a group or a peer that no configuration names any more leaves the list, so the
//! configuration bounds the labels of the metrics.

use crate::base::cells::{GroupCells, PeerCells};
use reactor::Listener;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use upstream::shared::{GroupId, GroupSnapshot, PeerId};

/// Groups, peers and listeners of the process.
#[derive(Debug)]
pub(crate) struct StatusList {
    workers: usize,
    groups: Mutex<BTreeMap<Box<str>, GroupEntry>>,
    listeners: Mutex<Vec<Weak<Listener>>>,
}

/// A group in the list.
#[derive(Debug)]
struct GroupEntry {
    id: GroupId,
    cells: Weak<GroupCells>,
    peers: BTreeMap<Box<str>, PeerEntry>,
}

/// A peer in the list.
#[derive(Debug)]
struct PeerEntry {
    id: PeerId,
    ordinal: u32,
    cells: Weak<PeerCells>,
}

/// A group that a configuration uses, with its peers by name.
pub(crate) struct ListedGroup {
    pub(crate) name: Box<str>,
    pub(crate) id: GroupId,
    pub(crate) cells: Arc<GroupCells>,
    pub(crate) peers: Vec<ListedPeer>,
}

impl ListedGroup {
    /// Requests that wait for a connection: those in the pool's line and those that wait for a peer.
    pub(crate) fn waiting(&self, pooled: &GroupSnapshot) -> u64 {
        u64::from(pooled.waiting) + u64::from(self.cells.waiting())
    }
}

/// A peer that a configuration uses.
pub(crate) struct ListedPeer {
    pub(crate) label: Box<str>,
    /// Connections are pooled by address: the first of several peers with the same address shows them.
    pub(crate) id: Option<PeerId>,
    pub(crate) cells: Arc<PeerCells>,
}

/// The label of a peer: its address, and its ordinal if the group has that address before.
pub(crate) fn peer_label(address: &str, ordinal: u32) -> String {
    if ordinal == 0 { address.to_owned() } else { format!("{address}#{}", u64::from(ordinal) + 1) }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // Entries are complete at every moment, so a panic elsewhere leaves nothing half done.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl StatusList {
    /// A list for a number of workers.
    pub(crate) fn new(workers: usize) -> Self {
        Self { workers, groups: Mutex::default(), listeners: Mutex::default() }
    }

    /// The counters of a group; those of the previous generation, if it had the same group.
    pub(crate) fn group(&self, name: &str, id: GroupId) -> Arc<GroupCells> {
        let mut groups = lock(&self.groups);
        // Cleaned up when an entry is added: at a reload, off the request path.
        groups.retain(|_, entry| entry.cells.strong_count() > 0);
        if let Some(cells) = groups.get(name).and_then(|entry| entry.cells.upgrade()) {
            return cells;
        }
        let cells = Arc::new(GroupCells::new(self.workers));
        groups.insert(name.into(), GroupEntry { id, cells: Arc::downgrade(&cells), peers: BTreeMap::new() });
        cells
    }

    /// The counters of a peer of a listed group, by the peer's address as text and its ordinal among equals.
    pub(crate) fn peer(&self, group: &str, address: &str, ordinal: u32, id: PeerId) -> Arc<PeerCells> {
        let mut groups = lock(&self.groups);
        let Some(entry) = groups.get_mut(group) else { return Arc::new(PeerCells::new(self.workers)) };
        entry.peers.retain(|_, peer| peer.cells.strong_count() > 0);
        let label = peer_label(address, ordinal);
        if let Some(cells) = entry.peers.get(&*label).and_then(|peer| peer.cells.upgrade()) {
            return cells;
        }
        let cells = Arc::new(PeerCells::new(self.workers));
        entry.peers.insert(label.into(), PeerEntry { id, ordinal, cells: Arc::downgrade(&cells) });
        cells
    }

    /// Counters for peers that are not shown: requests named them, and requests must not decide what is shown.
    pub(crate) fn unlisted_peer(&self) -> Arc<PeerCells> {
        Arc::new(PeerCells::new(self.workers))
    }

    /// Adds a socket that a worker listens on; several workers may add the same one.
    pub(crate) fn listens(&self, listener: &Arc<Listener>) {
        let mut listeners = lock(&self.listeners);
        listeners.retain(|known| known.strong_count() > 0);
        if !listeners.iter().any(|known| std::ptr::eq(known.as_ptr(), Arc::as_ptr(listener))) {
            listeners.push(Arc::downgrade(listener));
        }
    }

    pub(crate) fn listed_groups(&self) -> Vec<ListedGroup> {
        let groups = lock(&self.groups);
        let listed = groups.iter().filter_map(|(name, entry)| {
            let peers = entry.peers.iter();
            Some(ListedGroup {
                name: name.clone(),
                id: entry.id,
                cells: entry.cells.upgrade()?,
                peers: peers
                    .filter_map(|(label, peer)| {
                        let id = Some(peer.id).filter(|_| peer.ordinal == 0);
                        Some(ListedPeer { label: label.clone(), id, cells: peer.cells.upgrade()? })
                    })
                    .collect(),
            })
        });
        listed.collect()
    }

    pub(crate) fn listed_listeners(&self) -> Vec<Arc<Listener>> {
        lock(&self.listeners).iter().filter_map(Weak::upgrade).collect()
    }
}
