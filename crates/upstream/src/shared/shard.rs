//! One worker's idle connections, behind that worker's lock: a slab with entries in two lists, the stack of their key
//! (newest first) and the age list of their group. Plain data: the pool handles counters shared between workers, and
//! calls this under the lock.

use super::connection_queue::Line;
use super::group::GroupCounts;
use super::key::KeyId;
use crate::{DiscardReason, Millis};

/// No neighbour in a list.
const NONE: u32 = u32::MAX;

/// Data that stay with a connection over its life.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Meta {
    /// When it was established.
    pub created_at: Millis,
    /// Exchanges begun on it, including the present one.
    pub requests: u32,
}

/// An idle connection outside the slab: being added or removed.
pub(crate) struct Parked<C> {
    pub(crate) connection: C,
    pub(crate) meta: Meta,
    pub(crate) idle_since: Millis,
    pub(crate) key: KeyId,
    pub(crate) group: u32,
    pub(crate) peer: u32,
}

/// Identifies an idle connection in its worker's shard; a stale one finds nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct IdleToken {
    /// Place in the slab.
    pub index: u32,
    /// How often the place was reused.
    pub generation: u32,
}

struct Entry<C> {
    parked: Option<Parked<C>>,
    generation: u32,
    /// Neighbours in the key's stack; `newer_in_key` links free entries.
    newer_in_key: u32,
    older_in_key: u32,
    newer_in_group: u32,
    older_in_group: u32,
}

#[derive(Clone, Copy)]
struct Ends {
    newest: u32,
    oldest: u32,
}

const EMPTY: Ends = Ends { newest: NONE, oldest: NONE };

struct GroupHere {
    ends: Ends,
    idle: u32,
    counts: GroupCounts,
}

/// The effect of a removal, for the hints of the pool.
pub(crate) struct Emptied {
    pub(crate) key: bool,
    pub(crate) group: bool,
}

pub(crate) struct Shard<C> {
    entries: Vec<Entry<C>>,
    free: u32,
    keys: Vec<Ends>,
    groups: Vec<GroupHere>,
    /// By key.
    seekers: Vec<Line<C>>,
}

impl<C> Shard<C> {
    pub(crate) fn new() -> Self {
        Self { entries: Vec::new(), free: NONE, keys: Vec::new(), groups: Vec::new(), seekers: Vec::new() }
    }

    /// This worker's counters of a group.
    pub(crate) fn counts(&mut self, group: u32) -> &mut GroupCounts {
        &mut self.group(group).counts
    }

    pub(crate) fn counts_if_any(&self, group: u32) -> Option<&GroupCounts> {
        self.groups.get(group as usize).map(|here| &here.counts)
    }

    pub(crate) fn count_discard(&mut self, group: u32, reason: DiscardReason) {
        self.counts(group).discarded[reason.index()] += 1;
    }

    /// Requests of this worker that open a connection with the key, and would take one that comes free.
    pub(crate) fn seekers(&mut self, key: u32) -> &mut Line<C> {
        let at = key as usize;
        if at >= self.seekers.len() {
            self.seekers.resize_with(at + 1, Line::new);
        }
        &mut self.seekers[at]
    }

    /// Idle connections of a group in this shard.
    pub(crate) fn idle_in_group(&self, group: u32) -> u32 {
        self.groups.get(group as usize).map_or(0, |here| here.idle)
    }

    /// Whether there are any idle connections here.
    pub(crate) fn has_idle(&self) -> bool {
        self.groups.iter().any(|here| here.idle > 0)
    }

    /// Whether a key's stack has an entry here.
    pub(crate) fn has_key(&self, key: u32) -> bool {
        self.keys.get(key as usize).is_some_and(|ends| ends.newest != NONE)
    }

    /// Puts a connection on top of its key's stack. The flags say whether key and group were empty before.
    pub(crate) fn push(&mut self, parked: Parked<C>) -> (IdleToken, Emptied) {
        let (key, group) = (parked.key.index(), parked.group);
        let index = self.vacant();
        let key_ends = self.key_ends(key);
        let group_ends = self.group(group).ends;
        let generation = match self.entries.get_mut(index as usize) {
            Some(entry) => {
                entry.parked = Some(parked);
                entry.newer_in_key = NONE;
                entry.older_in_key = key_ends.newest;
                entry.newer_in_group = NONE;
                entry.older_in_group = group_ends.newest;
                entry.generation
            }
            None => 0,
        };
        if let Some(below) = self.entries.get_mut(key_ends.newest as usize) {
            below.newer_in_key = index;
        }
        if let Some(below) = self.entries.get_mut(group_ends.newest as usize) {
            below.newer_in_group = index;
        }
        let keys = &mut self.keys[key as usize];
        keys.newest = index;
        if keys.oldest == NONE {
            keys.oldest = index;
        }
        let here = self.group(group);
        here.ends.newest = index;
        if here.ends.oldest == NONE {
            here.ends.oldest = index;
        }
        here.idle += 1;
        let was_empty = Emptied { key: key_ends.newest == NONE, group: group_ends.newest == NONE };
        (IdleToken { index, generation }, was_empty)
    }

    /// The most recently used connection of a key, unless it has already been idle for `idle_max_ms`. All of a key's
    /// connections share one limit, so if the newest is too old all others are too; `expire` removes them.
    pub(crate) fn pop_newest(&mut self, key: u32, now: Millis, idle_max_ms: u64) -> Option<(Parked<C>, Emptied)> {
        let newest = self.keys.get(key as usize)?.newest;
        let parked = self.entries.get(newest as usize)?.parked.as_ref()?;
        if now.since(parked.idle_since) >= idle_max_ms {
            return None;
        }
        self.remove(newest)
    }

    /// The least recently used connection of a key.
    pub(crate) fn pop_oldest_of_key(&mut self, key: u32) -> Option<(Parked<C>, Emptied)> {
        self.remove(self.keys.get(key as usize)?.oldest)
    }

    /// The least recently used connection of a group.
    pub(crate) fn pop_oldest_of_group(&mut self, group: u32) -> Option<(Parked<C>, Emptied)> {
        self.remove(self.groups.get(group as usize)?.ends.oldest)
    }

    /// The least recently used connection to a peer, examining at most `entries_max` of its group's.
    pub(crate) fn pop_oldest_of_peer(
        &mut self,
        group: u32,
        peer: u32,
        entries_max: usize,
    ) -> Option<(Parked<C>, Emptied)> {
        let mut at = self.groups.get(group as usize)?.ends.oldest;
        for _ in 0..entries_max {
            let entry = self.entries.get(at as usize)?;
            if entry.parked.as_ref().is_some_and(|parked| parked.peer == peer) {
                return self.remove(at);
            }
            at = entry.newer_in_group;
        }
        None
    }

    /// The connection with this token, if it is still here.
    pub(crate) fn peek(&self, token: IdleToken) -> Option<&C> {
        let entry = self.entries.get(token.index as usize)?;
        if entry.generation != token.generation {
            return None;
        }
        entry.parked.as_ref().map(|parked| &parked.connection)
    }

    pub(crate) fn take(&mut self, token: IdleToken) -> Option<(Parked<C>, Emptied)> {
        self.peek(token)?;
        self.remove(token.index)
    }

    /// All keys that this shard has ever seen have numbers below this.
    pub(crate) fn keys_seen(&self) -> u32 {
        self.keys.len() as u32
    }

    /// When a key's oldest connection became idle.
    pub(crate) fn oldest_of_key(&self, key: u32) -> Option<Millis> {
        let ends = self.keys.get(key as usize)?;
        Some(self.entries.get(ends.oldest as usize)?.parked.as_ref()?.idle_since)
    }

    fn remove(&mut self, index: u32) -> Option<(Parked<C>, Emptied)> {
        let free = self.free;
        let entry = self.entries.get_mut(index as usize)?;
        let parked = entry.parked.take()?;
        let key = parked.key.index();
        entry.generation = entry.generation.wrapping_add(1);
        let (newer_in_key, older_in_key) = (entry.newer_in_key, entry.older_in_key);
        let (newer_in_group, older_in_group) = (entry.newer_in_group, entry.older_in_group);
        entry.newer_in_key = free;
        self.free = index;
        match self.entries.get_mut(newer_in_key as usize) {
            Some(newer) => newer.older_in_key = older_in_key,
            None => self.key_ends_mut(key).newest = older_in_key,
        }
        match self.entries.get_mut(older_in_key as usize) {
            Some(older) => older.newer_in_key = newer_in_key,
            None => self.key_ends_mut(key).oldest = newer_in_key,
        }
        match self.entries.get_mut(newer_in_group as usize) {
            Some(newer) => newer.older_in_group = older_in_group,
            None => self.group(parked.group).ends.newest = older_in_group,
        }
        match self.entries.get_mut(older_in_group as usize) {
            Some(older) => older.newer_in_group = newer_in_group,
            None => self.group(parked.group).ends.oldest = newer_in_group,
        }
        let here = self.group(parked.group);
        here.idle -= 1;
        let emptied = Emptied { group: here.idle == 0, key: !self.has_key(key) };
        Some((parked, emptied))
    }

    /// A free entry: a used one if possible, so that a steady state allocates nothing.
    fn vacant(&mut self) -> u32 {
        let index = self.free;
        if let Some(entry) = self.entries.get(index as usize) {
            self.free = entry.newer_in_key;
            return index;
        }
        self.entries.push(Entry {
            parked: None,
            generation: 0,
            newer_in_key: NONE,
            older_in_key: NONE,
            newer_in_group: NONE,
            older_in_group: NONE,
        });
        (self.entries.len() - 1) as u32
    }

    fn key_ends(&mut self, key: u32) -> Ends {
        *self.key_ends_mut(key)
    }

    fn key_ends_mut(&mut self, key: u32) -> &mut Ends {
        let at = key as usize;
        if at >= self.keys.len() {
            self.keys.resize(at + 1, EMPTY);
        }
        &mut self.keys[at]
    }

    fn group(&mut self, group: u32) -> &mut GroupHere {
        let at = group as usize;
        if at >= self.groups.len() {
            self.groups.resize_with(at + 1, || GroupHere { ends: EMPTY, idle: 0, counts: GroupCounts::default() });
        }
        &mut self.groups[at]
    }
}
