//! Who uses which key of the pool: a key that nobody uses any more, in no generation and in no present set of peers, is
//! retired. Its idle connections are closed with their reason; a lease that is out finishes its exchange and is discarded
//! then. Counted under one lock, so that a key is not retired while somebody takes it up again.

use crate::pool::UpstreamPool;
use crate::shared::Shared;
use rustc_hash::FxHashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use upstream::shared::{KeyId, PeerId, PeerLimits, PoolKey, TableFull};

/// Keys in use, with how many use each.
#[derive(Default)]
pub(crate) struct KeyBook(Mutex<FxHashMap<KeyId, usize>>);

/// The right to expect that a key lives. Dropping the last one of a key retires it.
pub(crate) struct KeyHold {
    shared: &'static Shared,
    pub(crate) key: KeyId,
    pub(crate) peer: PeerId,
}

impl KeyBook {
    fn lock(&self) -> MutexGuard<'_, FxHashMap<KeyId, usize>> {
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
        *book.entry(key).or_default() += 1;
        Ok(Self { shared, key, peer })
    }
}

impl Drop for KeyHold {
    fn drop(&mut self) {
        let mut removed = Vec::new();
        let mut book = self.shared.keys.lock();
        if let Some(users) = book.get_mut(&self.key) {
            *users -= 1;
            if *users == 0 {
                book.remove(&self.key);
                self.shared.pool.retire_key(self.key, &mut removed);
            }
        }
        drop(book);
        // Closed without the lock: closing is a system call each.
        drop(removed);
    }
}
