//! The conditions for reuse, in one type, and its interning: a [`PoolKey`] is compared once, when a generation is built
//! or a name resolved; the request path uses only the [`KeyId`].

use std::collections::VecDeque;
use std::net::IpAddr;
use std::sync::atomic::{AtomicU32 as PlainU32, AtomicU64 as PlainU64, Ordering::Relaxed};

use rustc_hash::FxHashMap;
use terms::PeerAddress;

use super::group::GroupId;
use super::table::{TABLE_INDEX_MAX, WorkerSet};
use crate::learn::Learned;
use crate::sync::{AtomicU32, Ordering};

/// The peer and our own identity on a TLS connection. A connection made with one identity is never used with another.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct TlsIdentity {
    /// The name that was sent in the handshake, or that the certificate was verified against; `None` if neither.
    pub server_name: Option<Box<str>>,
    /// A digest of all other settings: verification on or off, trust anchors, depth, revocation lists, the client
    /// certificate (its bytes, not its path: the file may change), protocols and ciphers.
    pub settings: Box<[u8]>,
}

/// The properties that two exchanges must have in common to use the same connection.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct PoolKey {
    /// The group.
    pub group: GroupId,
    /// The peer's address.
    pub peer: PeerAddress,
    /// TLS identity, `None` for plaintext.
    pub tls: Option<TlsIdentity>,
    /// The bound source address (`proxy_bind`).
    pub source: Option<IpAddr>,
    /// Whether the connection began with a PROXY protocol header. The header must be the same for all exchanges: one
    /// that names a client belongs to that client alone, so the gateway does not pool the connection.
    pub proxy_protocol: bool,
    /// Identity of the location, for `keepalive … local`, where nginx does not share between locations.
    pub location: Option<Box<str>>,
}

/// An interned [`PoolKey`]: 16 bits for the place, 16 bits for its generation. After [`super::Pool::retire_key`] the
/// old number finds nothing, even if the place is reused (until a place was retired 65,536 times).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct KeyId(u32);

impl KeyId {
    pub(crate) fn new(index: u32, generation: u32) -> Self {
        Self((generation << 16) | (index & 0xffff))
    }

    pub(crate) fn index(self) -> u32 {
        self.0 & 0xffff
    }

    pub(crate) fn generation(self) -> u32 {
        self.0 >> 16
    }
}

/// A process can have 65,536 groups, peers and keys each at a time; only keys made from request data exceed that, and
/// they are not pooled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TableFull;

impl std::fmt::Display for TableFull {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.write_str("more than 65536 upstream groups, peers or connection identities")
    }
}

impl std::error::Error for TableFull {}

/// A key's place in the pool's table.
pub(crate) struct KeySlot {
    generation: AtomicU32,
    group: PlainU32,
    peer: PlainU32,
    /// How long the peer keeps idle connections, as learned; `u64::MAX` while unknown.
    pub(crate) learned_idle_ms: PlainU64,
    /// How many requests the peer serves on a connection, as learned; `u32::MAX` while unknown.
    pub(crate) learned_requests: PlainU32,
    /// When the learned values expire, `u64::MAX` if they do not.
    pub(crate) learned_until_ms: PlainU64,
    /// The value of the last response's `Keep-Alive: timeout=`.
    pub(crate) announced_ms: PlainU64,
    /// Shards that hold idle connections of this key.
    pub(crate) shards: WorkerSet,
    /// Shards in which a request seeks one.
    pub(crate) seekers: WorkerSet,
}

impl Default for KeySlot {
    fn default() -> Self {
        Self {
            generation: AtomicU32::new(0),
            group: PlainU32::new(0),
            peer: PlainU32::new(0),
            learned_idle_ms: PlainU64::new(u64::MAX),
            learned_requests: PlainU32::new(u32::MAX),
            learned_until_ms: PlainU64::new(u64::MAX),
            announced_ms: PlainU64::new(u64::MAX),
            shards: WorkerSet::default(),
            seekers: WorkerSet::default(),
        }
    }
}

impl KeySlot {
    /// Assigns the place to a key. The number reaches other threads with the generation that uses it, and that
    /// hand-over orders these writes before their reads.
    pub(crate) fn settle(&self, group: u16, peer: u16) {
        self.group.store(u32::from(group), Relaxed);
        self.peer.store(u32::from(peer), Relaxed);
        self.announced_ms.store(u64::MAX, Relaxed);
        self.apply(Learned::default());
    }

    /// Applies learned limits, also to connections that are already idle.
    pub(crate) fn apply(&self, learned: Learned) {
        self.learned_idle_ms.store(learned.idle_ms.unwrap_or(u64::MAX), Relaxed);
        self.learned_requests.store(learned.requests.unwrap_or(u32::MAX), Relaxed);
        self.learned_until_ms.store(learned.until.map_or(u64::MAX, |until| until.0), Relaxed);
        if learned == Learned::default() {
            self.announced_ms.store(u64::MAX, Relaxed);
        }
    }

    pub(crate) fn generation(&self) -> u32 {
        self.generation.load(Ordering::Acquire)
    }

    pub(crate) fn is_live(&self, key: KeyId) -> bool {
        self.generation.load(Ordering::Acquire) == key.generation()
    }

    pub(crate) fn retire(&self) {
        let next = (self.generation.load(Ordering::Acquire) + 1) & 0xffff;
        self.generation.store(next, Ordering::Release);
    }

    pub(crate) fn group(&self) -> u16 {
        self.group.load(Relaxed) as u16
    }

    pub(crate) fn peer(&self) -> u16 {
        self.peer.load(Relaxed) as u16
    }
}

/// Peers without a key whose numbers are not reused yet: their learned limits are kept in case they come back, as with
/// rotating addresses of a name.
#[cfg(not(loom))]
const PEERS_REMEMBERED: usize = 1024;
#[cfg(loom)]
const PEERS_REMEMBERED: usize = 0;

/// Peers examined in one search for a free number, under the lock. Those that still have connections, such as tunnels,
/// go to the end, so that the next search examines others.
const PEER_LOOKS_MAX: usize = 64;
/// Peers of other groups that a search for one group's peers skips: those that are remembered, and some that have
/// connections.
const OTHERS_MAX: usize = 4 * 1024;

/// Most numbers for peers of one group that only requests have named: half of all, so that requests cannot use up the
/// numbers of written groups.
pub(crate) const GUESTS_MAX: usize = (TABLE_INDEX_MAX as usize).div_ceil(2);

/// The owner of a peer's number.
struct Tenant {
    name: (GroupId, PeerAddress),
    /// Keys that lead to it.
    keys: u32,
    /// It is in the list of leaving peers, although a key may lead to it again.
    is_leaving: bool,
}

/// Numbers by name; behind a lock, off the request path.
#[derive(Default)]
pub(crate) struct Names {
    groups: FxHashMap<Box<str>, u16>,
    peers: FxHashMap<(GroupId, PeerAddress), u16>,
    /// By the peer's number.
    tenants: Vec<Tenant>,
    /// Number of numbers that each group has.
    numbers: FxHashMap<GroupId, usize>,
    /// Peers whose last key was retired, the earliest first.
    leaving: VecDeque<u16>,
    keys: FxHashMap<PoolKey, u32>,
    /// The reverse map: retiring one key must not scan all of them.
    keys_by_index: FxHashMap<u32, PoolKey>,
    keys_free: Vec<u32>,
    keys_made: u32,
}

impl Names {
    pub(crate) fn group(&mut self, name: &str) -> Result<GroupId, TableFull> {
        if let Some(&number) = self.groups.get(name) {
            return Ok(GroupId(number));
        }
        let number = u16::try_from(self.groups.len()).map_err(|_| TableFull)?;
        self.groups.insert(name.into(), number);
        Ok(GroupId(number))
    }

    /// The peer's number: its own, a new one, or that of a former peer. A group with `most` numbers gets only those of
    /// its own former peers. `vacate` prepares a number for another peer, and returns whether that is possible.
    pub(crate) fn peer(
        &mut self,
        group: GroupId,
        address: &PeerAddress,
        most: usize,
        vacate: impl FnMut(u16) -> bool,
    ) -> Result<u16, TableFull> {
        let name = (group, address.clone());
        if let Some(&number) = self.peers.get(&name) {
            return Ok(number);
        }
        let tenant = Tenant { name: name.clone(), keys: 0, is_leaving: false };
        let has_most = self.numbers.get(&group).is_some_and(|&numbers| numbers >= most);
        let number = if let Some(number) = self.vacant_peer(has_most.then_some(group), vacate) {
            if let Some(former) = self.tenants.get_mut(usize::from(number)) {
                self.peers.remove(&former.name);
                if let Some(numbers) = self.numbers.get_mut(&former.name.0) {
                    *numbers -= 1;
                }
                *former = tenant;
            }
            number
        } else if has_most {
            return Err(TableFull);
        } else {
            let number = u16::try_from(self.tenants.len()).map_err(|_| TableFull)?;
            self.tenants.push(tenant);
            number
        };
        self.peers.insert(name, number);
        *self.numbers.entry(group).or_default() += 1;
        Ok(number)
    }

    /// The numbers of a group and its peer, if both have one.
    pub(crate) fn known_peer(&self, group: &str, address: &PeerAddress) -> Option<(GroupId, u16)> {
        let group = GroupId(*self.groups.get(group)?);
        let number = *self.peers.get(&(group, address.clone()))?;
        Some((group, number))
    }

    /// The name of a group and the address of a peer of it.
    pub(crate) fn name_of_peer(&self, group: GroupId, peer: u16) -> Option<(Box<str>, PeerAddress)> {
        let (of, address) = &self.tenants.get(usize::from(peer))?.name;
        if *of != group {
            return None;
        }
        Some((self.name_of_group(group)?, address.clone()))
    }

    fn name_of_group(&self, group: GroupId) -> Option<Box<str>> {
        self.groups.iter().find(|(_, number)| **number == group.0).map(|(name, _)| name.clone())
    }

    /// The key at a place, with the name of its group.
    pub(crate) fn describe(&self, index: u32) -> Option<(Box<str>, PoolKey)> {
        let key = self.keys_by_index.get(&index)?;
        Some((self.name_of_group(key.group)?, key.clone()))
    }

    /// The place of a key, if it has one.
    pub(crate) fn known_key(&self, group: &str, key: impl FnOnce(GroupId) -> PoolKey) -> Option<u32> {
        let group = GroupId(*self.groups.get(group)?);
        self.keys.get(&key(group)).copied()
    }

    /// The number of a former peer; of the group `of`, if given.
    fn vacant_peer(&mut self, of: Option<GroupId>, mut vacate: impl FnMut(u16) -> bool) -> Option<u16> {
        let is_full = of.is_some() || self.tenants.len() > TABLE_INDEX_MAX as usize;
        let remembered = if is_full { 0 } else { PEERS_REMEMBERED };
        let (mut looks, mut others) = (0, 0);
        for _ in 0..self.leaving.len().saturating_sub(remembered) {
            if looks == PEER_LOOKS_MAX || others == OTHERS_MAX {
                break;
            }
            let number = self.leaving.pop_front()?;
            let tenant = self.tenants.get_mut(usize::from(number))?;
            // It came back meanwhile.
            let is_gone = tenant.keys == 0;
            tenant.is_leaving = is_gone;
            let is_wanted = of.is_none_or(|group| tenant.name.0 == group);
            *(if is_wanted { &mut looks } else { &mut others }) += 1;
            if is_gone && is_wanted && vacate(number) {
                return Some(number);
            }
            if is_gone {
                self.leaving.push_back(number);
            }
        }
        None
    }

    /// A key that led to the peer was retired.
    pub(crate) fn leave_peer(&mut self, number: u16) {
        let Some(tenant) = self.tenants.get_mut(usize::from(number)) else { return };
        tenant.keys = tenant.keys.saturating_sub(1);
        if tenant.keys == 0 && !tenant.is_leaving {
            tenant.is_leaving = true;
            self.leaving.push_back(number);
        }
    }

    /// All groups that were ever named.
    pub(crate) fn groups(&self) -> Vec<(Box<str>, GroupId)> {
        self.groups.iter().map(|(name, &number)| (name.clone(), GroupId(number))).collect()
    }

    /// The peers of a group that were ever named.
    pub(crate) fn peers_of(&self, group: GroupId) -> Vec<u16> {
        self.peers.iter().filter(|((of, _), _)| *of == group).map(|(_, &number)| number).collect()
    }

    /// All keys have numbers below this.
    pub(crate) fn keys_made(&self) -> u32 {
        self.keys_made
    }

    /// The key's place, and whether it is new. `peer` is its peer's number.
    pub(crate) fn key(&mut self, key: &PoolKey, peer: u16) -> Result<(u32, bool), TableFull> {
        if let Some(&index) = self.keys.get(key) {
            return Ok((index, false));
        }
        let index = match self.keys_free.pop() {
            Some(index) => index,
            None if self.keys_made <= TABLE_INDEX_MAX => {
                self.keys_made += 1;
                self.keys_made - 1
            }
            None => return Err(TableFull),
        };
        self.keys.insert(key.clone(), index);
        self.keys_by_index.insert(index, key.clone());
        if let Some(tenant) = self.tenants.get_mut(usize::from(peer)) {
            tenant.keys += 1;
        }
        Ok((index, true))
    }

    /// Removes a key; its place must be empty before [`Self::vacate`] gives it to another.
    pub(crate) fn forget(&mut self, index: u32) -> bool {
        self.keys_by_index.remove(&index).is_some_and(|key| self.keys.remove(&key).is_some())
    }

    pub(crate) fn vacate(&mut self, index: u32) {
        self.keys_free.push(index);
    }
}
