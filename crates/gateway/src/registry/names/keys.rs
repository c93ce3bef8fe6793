//! Who uses which key of the pool: a key that nobody uses any more, in no generation and in no present set of peers, is
//! retired. Its idle connections are closed with their reason; a lease that is out finishes its exchange and is discarded
//! then. Counted under one lock, so that a key is not retired while somebody takes it up again. Keys of addresses that only
//! requests have named are bounded.

use crate::registry::pool::UpstreamPool;
use crate::registry::shared::Shared;
use rustc_hash::FxHashMap;
use std::fmt;
use std::sync::{Mutex, MutexGuard, PoisonError};
use upstream::shared::{KeyId, PeerId, PeerLimits, PoolKey, TableFull};

/// Holds on keys of addresses that requests have named: half of the pool's numbers, so that no request keeps a written
/// group from finding one.
const GUESTS_MAX: usize = 32_768;

/// Keys in use.
#[derive(Default)]
pub(crate) struct KeyBook(Mutex<Uses>);

#[derive(Default)]
struct Uses {
    /// How many use each key.
    users: FxHashMap<KeyId, usize>,
    /// Holds of addresses that requests have named.
    guests: usize,
}

/// The right to expect that a key lives. Dropping the last one of a key retires it.
pub(crate) struct KeyHold {
    shared: &'static Shared,
    is_guest: bool,
    pub(crate) key: KeyId,
    pub(crate) peer: PeerId,
}

impl KeyBook {
    fn lock(&self) -> MutexGuard<'_, Uses> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl KeyHold {
    /// The key and its peer in the pool, made where they are new.
    pub(crate) fn take(shared: &'static Shared, key: &PoolKey) -> Result<Self, TableFull> {
        let pool: &UpstreamPool = &shared.pool;
        let mut book = shared.keys.lock();
        let peer = pool.intern_peer(key.group, &key.peer, &PeerLimits::default())?;
        let key = pool.intern_key(key)?;
        *book.users.entry(key).or_default() += 1;
        Ok(Self { shared, is_guest: false, key, peer })
    }

    /// The key of an address that a request has named; `None` where there are as many of them as there may be.
    pub(crate) fn take_guest(shared: &'static Shared, key: &PoolKey) -> Option<Self> {
        let pool: &UpstreamPool = &shared.pool;
        let mut book = shared.keys.lock();
        if book.guests >= GUESTS_MAX {
            return None;
        }
        let peer = pool.intern_guest(key.group, &key.peer).ok()?;
        let key = pool.intern_key(key).ok()?;
        book.guests += 1;
        *book.users.entry(key).or_default() += 1;
        Some(Self { shared, is_guest: true, key, peer })
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
        let mut book = self.shared.keys.lock();
        book.guests -= usize::from(self.is_guest);
        if let Some(users) = book.users.get_mut(&self.key) {
            *users -= 1;
            if *users == 0 {
                book.users.remove(&self.key);
                self.shared.pool.retire_key(self.key, &mut removed);
            }
        }
        drop(book);
        // Closed without the lock: closing is a system call each.
        drop(removed);
    }
}
