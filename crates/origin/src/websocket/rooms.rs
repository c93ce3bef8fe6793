//! The members of rooms in one worker, and the messages to send to rooms. A message goes to all members, including its
//! sender. Workers forward broadcasts to each other; a worker that falls behind misses a broadcast, which is counted.

use rustc_hash::{FxHashMap, FxHashSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Most bytes of broadcasts on their way to one worker. It is more than a worker handles in a second; a sender that is
/// faster for longer must not fill the memory.
const ON_THE_WAY_BYTES_MAX: u64 = 64 << 20;

/// A frame for all members of a room.
#[derive(Debug, Clone)]
pub(crate) struct Broadcast {
    pub(crate) room: Arc<str>,
    pub(crate) frame: Arc<[u8]>,
}

/// Bytes of broadcasts on their way to a worker.
#[derive(Debug, Default)]
pub(crate) struct OnTheWay(AtomicU64);

impl OnTheWay {
    /// Reserves room for a broadcast; `false` if there is none.
    pub(crate) fn begin(&self, broadcast: &Broadcast) -> bool {
        let bytes = broadcast.frame.len() as u64;
        if self.0.fetch_add(bytes, Ordering::Relaxed) <= ON_THE_WAY_BYTES_MAX {
            return true;
        }
        self.0.fetch_sub(bytes, Ordering::Relaxed);
        false
    }

    /// Releases the room of a broadcast that has arrived.
    pub(crate) fn end(&self, broadcast: &Broadcast) {
        self.0.fetch_sub(broadcast.frame.len() as u64, Ordering::Relaxed);
    }
}

/// The rooms of a worker.
#[derive(Debug, Default)]
pub(crate) struct Rooms {
    /// Members by task index.
    members: FxHashMap<Arc<str>, FxHashSet<u32>>,
    /// Messages from this worker's connections that are not delivered yet.
    pub(crate) pending: Vec<Broadcast>,
}

impl Rooms {
    pub(super) fn enter(&mut self, room: &Arc<str>, task: u32) {
        self.members.entry(Arc::clone(room)).or_default().insert(task);
    }

    pub(crate) fn leave(&mut self, room: &Arc<str>, task: u32) {
        if let Some(members) = self.members.get_mut(room) {
            members.remove(&task);
            if members.is_empty() {
                self.members.remove(room);
            }
        }
    }

    /// Takes the members of a room during a broadcast; return them with [`Self::put_back`].
    pub(crate) fn take(&mut self, room: &Arc<str>) -> FxHashSet<u32> {
        self.members.get_mut(room).map(std::mem::take).unwrap_or_default()
    }

    /// Returns the members. None enters or leaves during a broadcast.
    pub(crate) fn put_back(&mut self, room: &Arc<str>, members: FxHashSet<u32>) {
        if let Some(place) = self.members.get_mut(room) {
            *place = members;
        }
    }
}
