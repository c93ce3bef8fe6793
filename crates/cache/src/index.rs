//! The index of a cache's files: which files there are, their sizes and last use, and which request writes one. The
//! oldest file is removed first. It knows no files and no clock; the gateway keeps it behind a lock that all workers
//! take.

use crate::key::Key;
use crate::news::News;
use std::collections::HashMap;
use std::hash::BuildHasher;

/// No node.
const NONE: u32 = u32::MAX;

/// Nodes examined from the oldest one on, if a place is needed and the oldest ones are in use. As in nginx.
const TRIES_MAX: u32 = 20;

/// Uses of a key are told to other processes at most this often, in seconds.
const TOLD_MOST_S: u32 = 2;

/// The place of a key's node. It stays valid, and refers to nothing else, after its node is gone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Place {
    slot: u32,
    generation: u32,
}

/// What is known of a requested key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Found {
    /// Nothing yet.
    New,
    /// There is a file.
    File,
    /// There is no file, and the key was requested often enough to get one.
    NoFile,
    /// There is no file, and the key was requested too rarely.
    Scarce,
    /// For some time it is answered with this status.
    Status(u16),
}

/// An answer to [`Index::enter`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Entered {
    /// The key's place, which is held until [`Index::leave`].
    pub place: Place,
    /// What is known of the key.
    pub found: Found,
    /// A key that was evicted: its file must be removed.
    pub evicted: Option<Key>,
    /// The file is in use, and other processes have not been told so for a while.
    pub used: Option<Record>,
}

/// There is no room for another key, and all candidates for eviction are in use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Full;

/// Which request fills a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lock {
    /// The caller has it, until [`Index::release`] or [`Index::stored`].
    Taken,
    /// Another request, until this time at the latest, in milliseconds.
    Until(u64),
}

/// An existing file, for a snapshot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Record {
    /// Its key.
    pub key: Key,
    /// The tag of the key that all variants share.
    pub tag: u64,
    /// Bytes on the disk.
    pub bytes: u64,
    /// Until when it stays without being used, in seconds since the epoch.
    pub expires_s: i64,
}

/// Sums over an index.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Stored {
    /// Keys, with and without files.
    pub keys: usize,
    /// Most keys.
    pub keys_max: usize,
    /// Bytes of all files.
    pub bytes: u64,
}

/// 80 bytes; with its share of the table a key costs less than 140.
#[derive(Debug, Clone)]
struct Node {
    key: Key,
    tag: u64,
    bytes: u64,
    /// Until when it stays without being used; if it has a status, `until_s` says how long that is valid.
    expires_s: u32,
    until_s: u32,
    /// Until when its writer holds it, in milliseconds, or 0.
    locked_until_ms: u64,
    older: u32,
    newer: u32,
    /// The other variants of its response, if it is one.
    kin: [u32; 2],
    generation: u32,
    holds: u32,
    uses: u16,
    status: u16,
    has_file: bool,
    is_updating: bool,
}

/// The keys of a cache.
#[derive(Debug)]
pub struct Index<S> {
    places: HashMap<Key, u32, S>,
    nodes: Vec<Node>,
    free: Vec<u32>,
    oldest: u32,
    newest: u32,
    bytes: u64,
    keys_max: usize,
    inactive_s: i64,
    /// Tokens that wait for the end of an update, by slot.
    waiting: HashMap<u32, Vec<u64>>,
    /// The variant stored last of each response with variants, by tag. So a purge looks at the keys that it removes, and
    /// at no others.
    variants: HashMap<u64, u32>,
    generations: u32,
}

/// Seconds since the epoch in 32 bits, which last until 2106.
fn seconds(time_s: i64) -> u32 {
    u32::try_from(time_s.max(0)).unwrap_or(u32::MAX)
}

impl<S: BuildHasher> Index<S> {
    /// An index of at most `keys_max` keys; keys unused for `inactive_s` expire.
    pub fn new(keys_max: usize, inactive_s: i64, hasher: S) -> Self {
        Self {
            places: HashMap::with_hasher(hasher),
            nodes: Vec::new(),
            free: Vec::new(),
            oldest: NONE,
            newest: NONE,
            bytes: 0,
            keys_max: keys_max.clamp(1, NONE as usize),
            inactive_s,
            waiting: HashMap::new(),
            variants: HashMap::new(),
            generations: 0,
        }
    }

    /// Changes the limits, for example by a reload.
    pub fn set_limits(&mut self, keys_max: usize, inactive_s: i64) {
        self.keys_max = keys_max.clamp(1, NONE as usize);
        self.inactive_s = inactive_s;
    }

    /// Looks a key up, which counts as a use, and holds its place.
    pub fn enter(&mut self, key: Key, tag: u64, min_uses: u32, now_s: i64) -> Result<Entered, Full> {
        let (slot, is_new, evicted) = if let Some(&slot) = self.places.get(&key) {
            (slot, false, None)
        } else {
            let evicted = self.make_room()?;
            (self.insert(key, tag), true, evicted)
        };
        let expires_s = seconds(now_s.saturating_add(self.inactive_s));
        self.unlink(slot);
        self.link_newest(slot);
        let notice_delay_s = self.notice_delay_s();
        let node = &mut self.nodes[slot as usize];
        // Keys take turns, so that not all of them are told at the same second.
        let turn = |at_s: u32| (u64::from(at_s) + node.tag % u64::from(notice_delay_s)) / u64::from(notice_delay_s);
        let is_news = node.has_file && node.status == 0 && turn(node.expires_s) != turn(expires_s);
        node.expires_s = expires_s;
        node.holds += 1;
        node.uses = node.uses.saturating_add(1);
        let place = Place { slot, generation: node.generation };
        let found = if is_new { Found::New } else { self.found(slot, min_uses, now_s) };
        let used = if is_news { self.record(place) } else { None };
        Ok(Entered { place, found, evicted, used })
    }

    /// How long other processes may not know of a use, in seconds: the time that they keep a key longer.
    pub fn notice_delay_s(&self) -> u32 {
        seconds(self.inactive_s / 4).clamp(1, TOLD_MOST_S)
    }

    fn found(&mut self, slot: u32, min_uses: u32, now_s: i64) -> Found {
        let node = &mut self.nodes[slot as usize];
        if node.status != 0 {
            if node.until_s >= seconds(now_s) {
                return Found::Status(node.status);
            }
            node.status = 0;
            return Found::New;
        }
        match node.has_file {
            true => Found::File,
            false if u32::from(node.uses) >= min_uses => Found::NoFile,
            false => Found::Scarce,
        }
    }

    /// Looks at a place again, which does not count as a use.
    pub fn look(&mut self, place: Place, min_uses: u32, now_s: i64) -> Option<Found> {
        self.node(place)?;
        Some(self.found(place.slot, min_uses, now_s))
    }

    fn node(&mut self, place: Place) -> Option<&mut Node> {
        self.nodes.get_mut(place.slot as usize).filter(|node| node.generation == place.generation)
    }

    /// Makes room for one more key.
    fn make_room(&mut self) -> Result<Option<Key>, Full> {
        if self.places.len() < self.keys_max {
            return Ok(None);
        }
        let mut slot = self.oldest;
        for _ in 0..TRIES_MAX {
            let Some(node) = self.nodes.get(slot as usize) else { break };
            if node.holds == 0 {
                let (key, had_file) = (node.key, node.has_file);
                self.remove(slot);
                return Ok(Some(key).filter(|_| had_file));
            }
            slot = node.newer;
        }
        Err(Full)
    }

    fn insert(&mut self, key: Key, tag: u64) -> u32 {
        self.generations = self.generations.wrapping_add(1).max(1);
        let node = Node {
            key,
            tag,
            bytes: 0,
            expires_s: 0,
            until_s: 0,
            locked_until_ms: 0,
            older: NONE,
            newer: NONE,
            kin: [NONE; 2],
            generation: self.generations,
            holds: 0,
            uses: 0,
            status: 0,
            has_file: false,
            is_updating: false,
        };
        let slot = if let Some(slot) = self.free.pop() {
            self.nodes[slot as usize] = node;
            slot
        } else {
            self.nodes.push(node);
            self.nodes.len() as u32 - 1
        };
        self.places.insert(key, slot);
        self.link_newest(slot);
        if tag != key.tag() {
            self.link_variant(slot, tag);
        }
        slot
    }

    fn link_variant(&mut self, slot: u32, tag: u64) {
        let next = self.variants.insert(tag, slot).unwrap_or(NONE);
        self.nodes[slot as usize].kin = [NONE, next];
        if let Some(node) = self.nodes.get_mut(next as usize) {
            node.kin[0] = slot;
        }
    }

    fn unlink_variant(&mut self, slot: u32) {
        let Node { kin: [before, behind], tag, .. } = self.nodes[slot as usize];
        if let Some(node) = self.nodes.get_mut(behind as usize) {
            node.kin[0] = before;
        }
        match self.nodes.get_mut(before as usize) {
            Some(node) => node.kin[1] = behind,
            None if behind == NONE => drop(self.variants.remove(&tag)),
            None => drop(self.variants.insert(tag, behind)),
        }
    }

    fn remove(&mut self, slot: u32) {
        self.unlink(slot);
        let node = &self.nodes[slot as usize];
        if node.tag != node.key.tag() {
            self.unlink_variant(slot);
        }
        let node = &mut self.nodes[slot as usize];
        self.bytes -= node.bytes;
        // The holder of its place then finds nothing there.
        node.generation = 0;
        node.bytes = 0;
        let key = node.key;
        self.places.remove(&key);
        self.free.push(slot);
    }

    fn unlink(&mut self, slot: u32) {
        let Node { older, newer, .. } = self.nodes[slot as usize];
        match self.nodes.get_mut(older as usize) {
            Some(node) => node.newer = newer,
            None => self.oldest = newer,
        }
        match self.nodes.get_mut(newer as usize) {
            Some(node) => node.older = older,
            None => self.newest = older,
        }
    }

    fn link_newest(&mut self, slot: u32) {
        let newest = self.newest;
        let node = &mut self.nodes[slot as usize];
        (node.older, node.newer) = (newest, NONE);
        match self.nodes.get_mut(newest as usize) {
            Some(node) => node.newer = slot,
            None => self.oldest = slot,
        }
        self.newest = slot;
    }

    /// Releases a place.
    pub fn leave(&mut self, place: Place) {
        if let Some(node) = self.node(place) {
            node.holds = node.holds.saturating_sub(1);
        }
    }

    /// Notes that a file was found there, or none; returns whether that is new.
    pub fn note_file(&mut self, place: Place, bytes: Option<u64>) -> bool {
        let Some(node) = self.node(place) else { return false };
        let (before, had_file) = (node.bytes, node.has_file);
        node.has_file = bytes.is_some();
        node.bytes = bytes.unwrap_or(0);
        self.bytes = self.bytes - before + bytes.unwrap_or(0);
        had_file != bytes.is_some()
    }

    /// Takes the right to fill a key, or returns until when another request has it.
    pub fn lock(&mut self, place: Place, now_ms: u64, age_ms: u64) -> Lock {
        let Some(node) = self.node(place) else { return Lock::Taken };
        if node.is_updating && node.locked_until_ms > now_ms {
            return Lock::Until(node.locked_until_ms);
        }
        node.is_updating = true;
        node.locked_until_ms = now_ms.saturating_add(age_ms);
        Lock::Taken
    }

    /// Waits for the request that fills a key: `token` is returned when that changes.
    pub fn wait(&mut self, place: Place, token: u64) {
        if self.node(place).is_some() {
            self.waiting.entry(place.slot).or_default().push(token);
        }
    }

    /// Takes the tokens that wait for a key with news; the right to fill it does not change.
    #[must_use]
    pub fn take_waiting(&mut self, place: Place) -> Vec<u64> {
        if self.node(place).is_none() {
            return Vec::new();
        }
        self.waiting.remove(&place.slot).unwrap_or_default()
    }

    /// What other processes should know of a key: its file, or the status with which it is answered.
    pub fn news(&mut self, place: Place) -> Option<News> {
        let node = self.node(place)?;
        let Node { key, tag, status, until_s, .. } = *node;
        match status {
            0 => self.record(place).map(News::File),
            status => Some(News::Status { key, tag, status, until_s: i64::from(until_s) }),
        }
    }

    fn record(&mut self, place: Place) -> Option<Record> {
        self.node(place).filter(|node| node.has_file).map(|node| node.record())
    }

    /// Whether a key has a file, as far as is known.
    pub fn has_file(&mut self, place: Place) -> bool {
        self.node(place).is_some_and(|node| node.has_file)
    }

    /// Takes over the right to fill a key from the request that has it.
    pub fn take_over(&mut self, place: Place, now_ms: u64, age_ms: u64) {
        if let Some(node) = self.node(place) {
            node.is_updating = true;
            node.locked_until_ms = now_ms.saturating_add(age_ms);
        }
    }

    /// Releases the right after an update without result. Returns the waiting tokens.
    #[must_use]
    pub fn release(&mut self, place: Place) -> Vec<u64> {
        let Some(node) = self.node(place) else { return Vec::new() };
        node.is_updating = false;
        node.locked_until_ms = 0;
        self.take_waiting(place)
    }

    /// Notes that a file was written. Returns the waiting tokens.
    #[must_use]
    pub fn stored(&mut self, place: Place, bytes: u64) -> Vec<u64> {
        self.note_file(place, Some(bytes));
        if let Some(node) = self.node(place) {
            node.status = 0;
        }
        self.release(place)
    }

    /// Sets a status with which the key is answered until then.
    pub fn set_status(&mut self, place: Place, status: u16, until_s: i64) {
        if let Some(node) = self.node(place) {
            node.status = status;
            node.until_s = seconds(until_s);
        }
    }

    /// Makes room in the tables for this many more keys, so that they need not grow step by step under a lock.
    pub fn reserve(&mut self, keys: usize) {
        let keys = keys.min(self.keys_max - self.places.len().min(self.keys_max));
        self.places.reserve(keys);
        self.nodes.reserve(keys.saturating_sub(self.free.len()));
    }

    /// Adds a file that was found in the cache's directory. `false`: it is known, or there is no room for it.
    pub fn load(&mut self, record: Record) -> bool {
        if self.places.contains_key(&record.key) || self.places.len() >= self.keys_max {
            return false;
        }
        let slot = self.insert(record.key, record.tag);
        let node = &mut self.nodes[slot as usize];
        node.bytes = record.bytes;
        node.has_file = true;
        node.expires_s = seconds(record.expires_s);
        self.bytes += record.bytes;
        true
    }

    /// Whether a key is known.
    pub fn knows(&self, key: Key) -> bool {
        self.places.contains_key(&key)
    }

    /// Removes keys that were not used for too long, at most this many, oldest first; the caller removes the files. Keys
    /// in use count as used now.
    pub fn expire(&mut self, now_s: i64, most: usize) -> Vec<Key> {
        let mut gone = Vec::new();
        for _ in 0..most {
            let Some(node) = self.nodes.get_mut(self.oldest as usize) else { break };
            if node.expires_s > seconds(now_s) {
                break;
            }
            let slot = self.oldest;
            if node.holds > 0 {
                node.expires_s = seconds(now_s.saturating_add(self.inactive_s));
                self.unlink(slot);
                self.link_newest(slot);
                continue;
            }
            gone.extend(Some(node.key).filter(|_| node.has_file));
            self.remove(slot);
        }
        gone
    }

    /// Removes the oldest keys until at most this many bytes are left; at most `most` keys.
    pub fn shrink(&mut self, bytes: u64, most: usize) -> Vec<Key> {
        let mut gone = Vec::new();
        let mut slot = self.oldest;
        for _ in 0..most {
            if self.bytes <= bytes {
                break;
            }
            let Some(node) = self.nodes.get(slot as usize) else { break };
            let newer = node.newer;
            if node.holds == 0 {
                gone.extend(Some(node.key).filter(|_| node.has_file));
                self.remove(slot);
            }
            slot = newer;
        }
        gone
    }

    /// Removes a key and all variants of its response. Keys in use stay, without their file. Returns the keys that
    /// had a file.
    pub fn purge(&mut self, main: Key) -> Vec<Key> {
        let meant: Vec<u32> = self.family(main).collect();
        meant.into_iter().filter_map(|slot| self.take_out(slot)).collect()
    }

    /// A key and the keys of all known variants of its response.
    pub fn variants(&self, main: Key) -> Vec<Key> {
        self.family(main).map(|slot| self.nodes[slot as usize].key).collect()
    }

    fn family(&self, main: Key) -> impl Iterator<Item = u32> + '_ {
        let own = self.places.get(&main).copied().filter(|slot| self.nodes[*slot as usize].tag == main.tag());
        let follow = |slot: u32| Some(slot).filter(|slot| *slot != NONE);
        let first = self.variants.get(&main.tag()).copied();
        own.into_iter().chain(std::iter::successors(first, move |slot| follow(self.nodes[*slot as usize].kin[1])))
    }

    /// Forgets a key after its file was removed. A key in use stays, without its file.
    pub fn forget(&mut self, key: Key) {
        if let Some(&slot) = self.places.get(&key) {
            self.take_out(slot);
        }
    }

    /// Removes a node, or only its file if it is in use; returns its key if there was a file.
    fn take_out(&mut self, slot: u32) -> Option<Key> {
        let node = &mut self.nodes[slot as usize];
        let gone = Some(node.key).filter(|_| node.has_file);
        if node.holds == 0 {
            self.remove(slot);
            return gone;
        }
        self.bytes -= node.bytes;
        node.bytes = 0;
        node.has_file = false;
        node.status = 0;
        gone
    }

    /// Sums.
    pub fn sums(&self) -> Stored {
        Stored { keys: self.places.len(), keys_max: self.keys_max, bytes: self.bytes }
    }

    /// When the oldest key may be removed; `None` if there is none.
    pub fn first_expires_s(&self) -> Option<i64> {
        self.nodes.get(self.oldest as usize).map(|node| i64::from(node.expires_s))
    }

    /// All files, oldest first.
    pub fn records(&self) -> impl Iterator<Item = Record> + '_ {
        let follow = |slot: u32| self.nodes.get(slot as usize);
        std::iter::successors(follow(self.oldest), move |node| follow(node.newer))
            .filter(|node| node.has_file)
            .map(Node::record)
    }

    /// Follows what another process has done, or this one before that. If all processes apply all news in the same order, all
    /// know the same files.
    pub fn apply(&mut self, news: News) {
        match news {
            News::File(record) => self.apply_file(record),
            News::Gone(key) => self.forget(key),
            News::Purged(main) => drop(self.purge(main)),
            News::Status { key, tag, status, until_s } => {
                let known = self.places.get(&key).copied();
                if known.is_none() && self.places.len() >= self.keys_max {
                    return;
                }
                let slot = known.unwrap_or_else(|| self.insert(key, tag));
                let node = &mut self.nodes[slot as usize];
                (node.status, node.until_s) = (status, seconds(until_s));
                node.expires_s = node.expires_s.max(node.until_s);
            }
        }
    }

    fn apply_file(&mut self, record: Record) {
        let Some(&slot) = self.places.get(&record.key) else {
            // Without room for it, the file is counted when a walk through the directory finds it.
            self.load(record);
            return;
        };
        let node = &mut self.nodes[slot as usize];
        self.bytes = self.bytes - node.bytes + record.bytes;
        (node.bytes, node.has_file, node.status) = (record.bytes, true, 0);
        // News of the past, as of this process itself, does not make a key the newest.
        if seconds(record.expires_s) > node.expires_s {
            node.expires_s = seconds(record.expires_s);
            self.unlink(slot);
            self.link_newest(slot);
        }
    }
}

impl Node {
    fn record(&self) -> Record {
        Record { key: self.key, tag: self.tag, bytes: self.bytes, expires_s: i64::from(self.expires_s) }
    }
}

#[cfg(test)]
#[path = "index_tests.rs"]
mod tests;
