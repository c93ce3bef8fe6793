//! Storage that several threads read without a lock while it grows: an append-only table in chunks, padding against
//! false sharing, and a set of workers as bits. The pool stores its groups, peers and keys in them.

use std::sync::OnceLock;

use crate::WorkerId;
use crate::sync::{AtomicU64, Ordering};

/// Keeps `T` alone on its cache lines: 128 bytes, since x86 prefetches lines in pairs and big ARM cores have lines of
/// that size.
#[repr(align(128))]
pub(crate) struct Padded<T>(pub(crate) T);

/// Slots that one chunk holds. Small under loom, where every atomic of a chunk is an object of the model.
#[cfg(not(loom))]
const CHUNK_SLOTS: usize = 64;
#[cfg(loom)]
const CHUNK_SLOTS: usize = 2;

/// Chunks of a table: 65,536 slots in total, as many as the 16-bit index in a `KeyId` can address. A process has at
/// most a few thousand groups, peers and keys; the bound protects against a configuration that makes them from request
/// data.
#[cfg(not(loom))]
const CHUNKS: usize = 65_536 / CHUNK_SLOTS;
/// The model makes a pool for each of its executions.
#[cfg(loom)]
const CHUNKS: usize = 2;

/// An append-only table; a reference to a slot stays valid as long as the table.
pub(crate) struct Table<T> {
    chunks: Box<[OnceLock<Box<[T]>>]>,
}

/// The last index a table can hold.
pub(crate) const TABLE_INDEX_MAX: u32 = 65_535;

impl<T: Default> Table<T> {
    pub(crate) fn new() -> Self {
        Self { chunks: (0..CHUNKS).map(|_| OnceLock::new()).collect() }
    }

    /// The slot, created with its chunk if needed; `None` beyond [`TABLE_INDEX_MAX`].
    pub(crate) fn slot_or_new(&self, index: u32) -> Option<&T> {
        let index = index as usize;
        let chunk = self.chunks.get(index / CHUNK_SLOTS)?;
        chunk.get_or_init(|| (0..CHUNK_SLOTS).map(|_| T::default()).collect()).get(index % CHUNK_SLOTS)
    }

    /// The slot, `None` if its chunk was never created.
    pub(crate) fn slot(&self, index: u32) -> Option<&T> {
        let index = index as usize;
        self.chunks.get(index / CHUNK_SLOTS)?.get()?.get(index % CHUNK_SLOTS)
    }
}

/// Words of a [`WorkerSet`].
#[cfg(not(loom))]
const SET_WORDS: usize = 4;
#[cfg(loom)]
const SET_WORDS: usize = 1;

/// Most workers of a process: more than any machine's cores need for one proxy, and 32 bytes for each key's hint.
pub const WORKERS_MAX: u16 = (SET_WORDS * 64) as u16;

/// A set of workers. Code that changes a worker's bit holds that worker's shard lock, so a bit is exact for the holder
/// and a hint for all others.
#[derive(Default)]
pub(crate) struct WorkerSet {
    words: [AtomicU64; SET_WORDS],
}

impl WorkerSet {
    pub(crate) fn insert(&self, worker: WorkerId) {
        let (word, bit) = self.place(worker);
        word.fetch_or(bit, Ordering::AcqRel);
    }

    pub(crate) fn remove(&self, worker: WorkerId) {
        let (word, bit) = self.place(worker);
        word.fetch_and(!bit, Ordering::AcqRel);
    }

    pub(crate) fn contains(&self, worker: WorkerId) -> bool {
        let (word, bit) = self.place(worker);
        word.load(Ordering::Acquire) & bit != 0
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.words.iter().all(|word| word.load(Ordering::Acquire) == 0)
    }

    /// The members except `except`, starting after it, so that thieves spread over their victims.
    pub(crate) fn others(&self, except: WorkerId) -> Others {
        let mut words = [0; SET_WORDS];
        for (copy, word) in words.iter_mut().zip(&self.words) {
            *copy = word.load(Ordering::Acquire);
        }
        let home = usize::from(except.0);
        words[(home / 64) % SET_WORDS] &= !(1 << (home % 64));
        Others { words, home }
    }

    fn place(&self, worker: WorkerId) -> (&AtomicU64, u64) {
        let at = usize::from(worker.0);
        (&self.words[(at / 64) % SET_WORDS], 1 << (at % 64))
    }
}

/// Iterator of [`WorkerSet::others`], over a copy of the bits.
pub(crate) struct Others {
    words: [u64; SET_WORDS],
    home: usize,
}

impl Iterator for Others {
    type Item = WorkerId;

    fn next(&mut self) -> Option<WorkerId> {
        let start = (self.home / 64) % SET_WORDS;
        // The home word comes twice: first its bits above home, at the end those below.
        let above_home = u64::MAX << (self.home % 64);
        for step in 0..=SET_WORDS {
            let at = (start + step) % SET_WORDS;
            let mask = if step == 0 { above_home } else { u64::MAX };
            let word = self.words[at] & mask;
            if word != 0 {
                let bit = word.trailing_zeros() as usize;
                self.words[at] &= !(1 << bit);
                return Some(WorkerId((at * 64 + bit) as u16));
            }
        }
        None
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn others_begin_behind_home_wrap_around_and_leave_home_out() {
        let set = WorkerSet::default();
        for worker in [0, 3, 64, 65, 130, 255] {
            set.insert(WorkerId(worker));
        }
        let seen: Vec<u16> = set.others(WorkerId(64)).map(|worker| worker.0).collect();
        assert_eq!(seen, [65, 130, 255, 0, 3]);
        set.remove(WorkerId(130));
        let seen: Vec<u16> = set.others(WorkerId(2)).map(|worker| worker.0).collect();
        assert_eq!(seen, [3, 64, 65, 255, 0]);
    }

    #[test]
    fn a_table_grows_by_chunks_and_ends_at_its_bound() {
        let table: Table<u8> = Table::new();
        assert!(table.slot(70).is_none());
        assert!(table.slot_or_new(70).is_some());
        assert!(table.slot(70).is_some());
        assert!(table.slot_or_new(TABLE_INDEX_MAX).is_some());
        assert!(table.slot_or_new(TABLE_INDEX_MAX + 1).is_none());
    }
}
