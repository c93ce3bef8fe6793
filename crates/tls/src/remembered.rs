//! Sessions that a client may resume, by the peer that gave them: several peers may have one name, and one peer cannot use another
//! peer's ticket. Sides that share a store share the settings that the sessions were made with (see `client`).

use rustls::client::ClientSessionMemoryCache;
use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};

/// Most pairs of peer and name that are kept; a new pair replaces the oldest.
const PEERS_MAX: usize = 1024;
/// Tickets that rustls keeps for each.
const TICKETS: usize = 8;

/// Peer and name.
type Key = (Box<str>, Box<str>);

#[derive(Debug, Default)]
pub(crate) struct Remembered(Mutex<Known>);

#[derive(Debug, Default)]
struct Known {
    stores: HashMap<Key, Arc<ClientSessionMemoryCache>>,
    /// Keys, the oldest first.
    order: VecDeque<Key>,
}

impl Remembered {
    /// The sessions with a peer under a name.
    pub(crate) fn of(&self, peer: &str, name: &str) -> Arc<ClientSessionMemoryCache> {
        let key: Key = (peer.into(), name.into());
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(store) = known.stores.get(&key) {
            return Arc::clone(store);
        }
        if known.order.len() >= PEERS_MAX
            && let Some(oldest) = known.order.pop_front()
        {
            known.stores.remove(&oldest);
        }
        let store = Arc::new(ClientSessionMemoryCache::new(TICKETS));
        known.order.push_back(key.clone());
        known.stores.insert(key, Arc::clone(&store));
        store
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_peer_is_forgotten_first() {
        let remembered = Remembered::default();
        let first = remembered.of("a", "x");
        assert!(Arc::ptr_eq(&first, &remembered.of("a", "x")));
        assert!(!Arc::ptr_eq(&first, &remembered.of("b", "x")) && !Arc::ptr_eq(&first, &remembered.of("a", "y")));
        for number in 0..PEERS_MAX {
            remembered.of(&number.to_string(), "x");
        }
        assert_eq!(remembered.0.lock().unwrap().stores.len(), PEERS_MAX);
        assert!(!Arc::ptr_eq(&first, &remembered.of("a", "x")));
    }
}
