//! Counts the users of the pool's keys: a key without users, in no generation and in no present set of peers, is
//! retired. Its idle connections are closed with a reason; a leased connection finishes its exchange and is then
//! discarded. Counted under one lock, so that no key is retired while it gets a new user. Keys of addresses that only
//! requests have named are bounded.

use crate::plan::group::Sharing;
use crate::plan::upstream_tls::SharedName;
use crate::registry::pool::UpstreamPool;
use crate::registry::process::Registry;
use crate::registry::recipe::pool_key;
use reactor::PeerAddress;
use rustc_hash::FxHashMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use upstream::shared::{GroupId, KeyId, PeerId, PeerLimits, PoolKey, TableFull};

/// Most holds on keys of addresses that requests have named: half of the pool's numbers, so that requests cannot use up
/// the keys of written groups.
const GUESTS_MAX: usize = 32_768;

/// Most TLS names with keys per peer; beyond it the least recently used one is dropped, with its idle connections.
const NAMES_MAX: usize = 64;

/// Keys in use.
#[derive(Default)]
pub(crate) struct KeyBook(Mutex<Uses>);

#[derive(Default)]
struct Uses {
    /// Number of users of each key.
    users: FxHashMap<KeyId, usize>,
    /// Number of holds for addresses that requests have named.
    guests: usize,
}

/// Keeps a key alive. Dropping the last hold of a key retires it.
pub(crate) struct KeyHold {
    registry: &'static Registry,
    is_guest: bool,
    pub(crate) key: KeyId,
    pub(crate) group: GroupId,
    pub(crate) peer: PeerId,
}

impl KeyBook {
    fn lock(&self) -> MutexGuard<'_, Uses> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl KeyHold {
    /// Takes a hold on a key and its peer in the pool, creating them if needed.
    pub(crate) fn take(registry: &'static Registry, key: &PoolKey) -> Result<Self, TableFull> {
        let pool: &UpstreamPool = &registry.pool;
        let mut book = registry.keys.lock();
        let (group, peer) = (key.group, pool.intern_peer(key.group, &key.peer, &PeerLimits::default())?);
        let key = pool.intern_key(key)?;
        *book.users.entry(key).or_default() += 1;
        Ok(Self { registry, is_guest: false, key, group, peer })
    }

    /// Takes the key of a written peer under a name that a request has brought; `None` at the limit of such keys.
    fn take_named(registry: &'static Registry, key: &PoolKey) -> Option<Self> {
        Self::take_counted(registry, key, |pool| pool.intern_peer(key.group, &key.peer, &PeerLimits::default()))
    }

    /// Takes the key of an address that a request has named; `None` at the limit of such keys.
    pub(crate) fn take_guest(registry: &'static Registry, key: &PoolKey) -> Option<Self> {
        Self::take_counted(registry, key, |pool| pool.intern_guest(key.group, &key.peer))
    }

    fn take_counted(
        registry: &'static Registry,
        key: &PoolKey,
        intern: impl FnOnce(&UpstreamPool) -> Result<PeerId, TableFull>,
    ) -> Option<Self> {
        let pool: &UpstreamPool = &registry.pool;
        let mut book = registry.keys.lock();
        if book.guests >= GUESTS_MAX {
            return None;
        }
        let (group, peer) = (key.group, intern(pool).ok()?);
        let key = pool.intern_key(key).ok()?;
        book.guests += 1;
        *book.users.entry(key).or_default() += 1;
        Some(Self { registry, is_guest: true, key, group, peer })
    }
}

/// The keys of one peer for the TLS names that requests use.
#[derive(Debug)]
pub(crate) struct NamedKeys {
    maker: KeyMaker,
    /// In order of use, the most recent one last.
    known: Mutex<Vec<(Box<str>, Arc<KeyHold>)>>,
}

/// The parts of a key except for the name.
struct KeyMaker {
    registry: &'static Registry,
    key: PoolKey,
}

impl fmt::Debug for KeyMaker {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.key.fmt(out)
    }
}

impl NamedKeys {
    /// For a peer with names from requests; `None` for a peer without.
    pub(crate) fn of(
        registry: &'static Registry,
        group: GroupId,
        address: &PeerAddress,
        sharing: &Sharing,
    ) -> Option<Self> {
        let tls = sharing.tls.as_ref()?;
        let key = (tls.name == SharedName::PerRequest).then(|| pool_key(group, address, sharing))?;
        Some(Self { maker: KeyMaker { registry, key }, known: Mutex::default() })
    }

    /// The key of a name; `None` if the pool has none left: then connections are not kept.
    pub(crate) fn key(&self, name: &str) -> Option<Arc<KeyHold>> {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(place) = known.iter().rposition(|(of, _)| **of == *name) {
            let found = known.remove(place);
            let hold = Arc::clone(&found.1);
            known.push(found);
            return Some(hold);
        }
        let mut key = self.maker.key.clone();
        key.tls.as_mut()?.server_name = Some(name.into());
        let forgotten = if known.len() >= NAMES_MAX { Some(known.remove(0)) } else { None };
        let hold = KeyHold::take_named(self.maker.registry, &key).map(Arc::new);
        known.extend(hold.as_ref().map(|hold| (name.into(), Arc::clone(hold))));
        drop(known);
        // Dropped without the lock: this closes its connections.
        drop(forgotten);
        hold
    }
}

impl fmt::Debug for KeyHold {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("KeyHold").field("key", &self.key).field("peer", &self.peer).finish_non_exhaustive()
    }
}

impl Drop for KeyHold {
    fn drop(&mut self) {
        let mut removed = Vec::new();
        let mut book = self.registry.keys.lock();
        book.guests -= usize::from(self.is_guest);
        if let Some(users) = book.users.get_mut(&self.key) {
            *users -= 1;
            if *users == 0 {
                book.users.remove(&self.key);
                self.registry.pool.retire_key(self.key, &mut removed);
            }
        }
        drop(book);
        // Dropped without the lock: closing takes one system call each.
        drop(removed);
    }
}
