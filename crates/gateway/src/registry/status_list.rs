//! The groups, peers, locations and listening sockets for the status page, with their counters. It outlives generations but
//! keeps no objects alive itself: what no configuration names any more leaves the list, so the configuration bounds the
//! labels of the metrics.

use crate::base::cells::{GroupCells, PeerCells};
use crate::base::route_cells::{RouteCells, RouteSums};
use reactor::Listener;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use upstream::shared::{GroupId, GroupSnapshot, PeerId};
use upstream::sweep::Sweeps;

/// Most locations with counters of their own: each has some thirty series. Those beyond share [`OTHERS`].
const ROUTES_MAX: usize = 500;

/// The label of locations without counters of their own.
const OTHERS: &str = "(others)";

/// Server and location.
pub(crate) type RouteName = (Box<str>, Box<str>);

/// Groups, peers, locations and listeners of the process.
#[derive(Debug)]
pub(crate) struct StatusList {
    workers: usize,
    groups: Mutex<Swept<GroupEntry>>,
    routes: Mutex<BTreeMap<RouteName, Weak<RouteCells>>>,
    listeners: Mutex<Vec<Weak<Listener>>>,
}

/// Entries by name. Those that nothing uses any more are removed at times.
#[derive(Debug)]
struct Swept<T> {
    entries: BTreeMap<Box<str>, T>,
    sweeps: Sweeps,
}

impl<T> Default for Swept<T> {
    fn default() -> Self {
        Self { entries: BTreeMap::new(), sweeps: Sweeps::default() }
    }
}

impl<T> Swept<T> {
    fn insert(&mut self, name: Box<str>, entry: T, is_used: impl Fn(&T) -> bool) {
        if self.sweeps.are_due(self.entries.len()) {
            self.entries.retain(|_, entry| is_used(entry));
            self.sweeps.left(self.entries.len());
        }
        self.entries.insert(name, entry);
    }
}

/// A group in the list.
#[derive(Debug)]
struct GroupEntry {
    id: GroupId,
    cells: Weak<GroupCells>,
    peers: Swept<PeerEntry>,
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
    /// Requests that wait: in the pool's line for a connection, for a stream of one, or for a peer.
    pub(crate) fn waiting(&self, pooled: &GroupSnapshot) -> u64 {
        u64::from(pooled.waiting) + self.cells.waiting()
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
        Self { workers, groups: Mutex::default(), routes: Mutex::default(), listeners: Mutex::default() }
    }

    /// The counters of a group; those of the previous generation, if it had the same group.
    pub(crate) fn group(&self, name: &str, id: GroupId) -> Arc<GroupCells> {
        let mut groups = lock(&self.groups);
        if let Some(cells) = groups.entries.get(name).and_then(|entry| entry.cells.upgrade()) {
            return cells;
        }
        let cells = Arc::new(GroupCells::new(self.workers));
        let entry = GroupEntry { id, cells: Arc::downgrade(&cells), peers: Swept::default() };
        groups.insert(name.into(), entry, |entry| entry.cells.strong_count() > 0);
        cells
    }

    /// The counters of a peer of a listed group, by the peer's address as text and its ordinal among equals.
    pub(crate) fn peer(&self, group: &str, address: &str, ordinal: u32, id: PeerId) -> Arc<PeerCells> {
        let mut groups = lock(&self.groups);
        let Some(entry) = groups.entries.get_mut(group) else { return Arc::new(PeerCells::new(self.workers)) };
        let label = peer_label(address, ordinal);
        if let Some(cells) = entry.peers.entries.get(&*label).and_then(|peer| peer.cells.upgrade()) {
            return cells;
        }
        let cells = Arc::new(PeerCells::new(self.workers));
        let listed = PeerEntry { id, ordinal, cells: Arc::downgrade(&cells) };
        entry.peers.insert(label.into(), listed, |peer| peer.cells.strong_count() > 0);
        cells
    }

    /// The counters of a location of a server; those of the previous generation, if it had the same location. Locations with the
    /// same names share them.
    pub(crate) fn route(&self, server: &str, location: &str) -> Arc<RouteCells> {
        let mut routes = lock(&self.routes);
        let mut name = (Box::from(server), Box::from(location));
        if routes.len() >= ROUTES_MAX && !routes.contains_key(&name) {
            name = (OTHERS.into(), OTHERS.into());
        }
        if let Some(cells) = routes.get(&name).and_then(Weak::upgrade) {
            return cells;
        }
        let cells = Arc::new(RouteCells::new(self.workers));
        routes.insert(name, Arc::downgrade(&cells));
        cells
    }

    /// Makes room for locations: removes those that no generation has any more. Called once for each generation, since a sweep
    /// at each of thousands of locations costs tens of milliseconds.
    pub(crate) fn forget_routes(&self) {
        lock(&self.routes).retain(|_, cells| cells.strong_count() > 0);
    }

    /// Server, location and sums of the locations that have answered a request.
    pub(crate) fn listed_routes(&self) -> Vec<(RouteName, RouteSums)> {
        let routes = lock(&self.routes);
        let sums = routes.iter().filter_map(|(name, cells)| Some((name.clone(), cells.upgrade()?.sums())));
        sums.filter(|(_, sums)| sums.responses.iter().any(|count| *count > 0)).collect()
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
        let listed = groups.entries.iter().filter_map(|(name, entry)| {
            let peers = entry.peers.entries.iter();
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

    /// The number of a listed peer, by its group and its label.
    pub(crate) fn peer_id(&self, group: &str, label: &str) -> Option<PeerId> {
        let groups = lock(&self.groups);
        let peer = groups.entries.get(group)?.peers.entries.get(label)?;
        (peer.cells.strong_count() > 0).then_some(peer.id)
    }

    pub(crate) fn listed_listeners(&self) -> Vec<Arc<Listener>> {
        lock(&self.listeners).iter().filter_map(Weak::upgrade).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn locations_keep_counters_and_share_beyond_the_limit() {
        let list = StatusList::new(1);
        let kept: Vec<_> = (0..ROUTES_MAX).map(|number| list.route("a", &number.to_string())).collect();
        kept[0].count(0, 200, Some(5));
        assert!(Arc::ptr_eq(&kept[0], &list.route("a", "0")));
        let others = [list.route("a", "x"), list.route("b", "y")];
        assert!(Arc::ptr_eq(&others[0], &others[1]));
        others[0].count(0, 404, None);
        let names: Vec<_> =
            list.listed_routes().into_iter().map(|((server, location), _)| (server, location)).collect();
        assert_eq!(names, [(OTHERS.into(), OTHERS.into()), ("a".into(), "0".into())], "only those that were used");
        drop(kept);
        assert_eq!(list.listed_routes().len(), 1);
        list.forget_routes();
        let anew = list.route("a", "x");
        assert!(!Arc::ptr_eq(&anew, &others[0]), "there is room again");
    }
}
