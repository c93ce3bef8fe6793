//! Who is in which room, in one worker, and what is to be sent to a room. A message goes to all members, its sender included.
//! Workers tell each other; a worker that cannot keep up is left out of a broadcast, and that is counted.

use rustc_hash::{FxHashMap, FxHashSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Bytes of broadcasts on their way to one worker. More than any burst that a worker works off within a second; a sender that
/// is faster for longer must not fill the memory.
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
    /// Whether one more may be sent there.
    pub(crate) fn begin(&self, broadcast: &Broadcast) -> bool {
        let bytes = broadcast.frame.len() as u64;
        if self.0.fetch_add(bytes, Ordering::Relaxed) <= ON_THE_WAY_BYTES_MAX {
            return true;
        }
        self.0.fetch_sub(bytes, Ordering::Relaxed);
        false
    }

    /// It has arrived.
    pub(crate) fn end(&self, broadcast: &Broadcast) {
        self.0.fetch_sub(broadcast.frame.len() as u64, Ordering::Relaxed);
    }
}

/// The rooms of a worker.
#[derive(Debug, Default)]
pub(crate) struct Rooms {
    /// Members by index of task.
    members: FxHashMap<Arc<str>, FxHashSet<u32>>,
    /// What this worker's connections have sent and the worker has not yet given to the members.
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

    /// The members of a room for the time of a broadcast; [`Self::put_back`] them.
    pub(crate) fn take(&mut self, room: &Arc<str>) -> FxHashSet<u32> {
        self.members.get_mut(room).map(std::mem::take).unwrap_or_default()
    }

    /// No member enters or leaves during a broadcast.
    pub(crate) fn put_back(&mut self, room: &Arc<str>, members: FxHashSet<u32>) {
        if let Some(place) = self.members.get_mut(room) {
            *place = members;
        }
    }
}
