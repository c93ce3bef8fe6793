//! The dynamic table (RFC 7541 §4): entries in the order of their arrival; the oldest is evicted first. Both codecs
//! have one, each with its own note for an entry. An empty table holds no memory.

use super::{ENTRY_BYTES, TABLE_BYTES_MAX};
use std::collections::VecDeque;

#[derive(Debug, Clone, Copy)]
struct Entry<N> {
    /// Start of its name in `bytes`; the value follows.
    start: u32,
    name_len: u16,
    value_len: u16,
    note: N,
}

impl<N> Entry<N> {
    fn len(&self) -> usize {
        usize::from(self.name_len) + usize::from(self.value_len)
    }
}

/// One dynamic table.
#[derive(Debug)]
pub(super) struct Table<N> {
    /// The newest at the back.
    entries: VecDeque<Entry<N>>,
    /// Names and values in the order of `entries`, after some of evicted entries.
    bytes: Vec<u8>,
    /// As RFC 7541 §4.1 counts.
    size: u32,
    size_max: u32,
}

impl<N: Copy> Table<N> {
    pub(super) fn new(size_max: u32) -> Self {
        let size_max = size_max.min(TABLE_BYTES_MAX);
        Self { entries: VecDeque::new(), bytes: Vec::new(), size: 0, size_max }
    }

    pub(super) fn size_max(&self) -> u32 {
        self.size_max
    }

    /// Sets the largest size; evicts entries that do not fit any more.
    pub(super) fn resize(&mut self, size_max: u32) {
        self.size_max = size_max.min(TABLE_BYTES_MAX);
        self.evict(self.size_max);
        if self.entries.is_empty() {
            (self.entries, self.bytes) = (VecDeque::new(), Vec::new());
        }
    }

    /// The entry with this index, 0 for the newest: name, value and note.
    pub(super) fn get(&self, index: usize) -> Option<(&[u8], &[u8], N)> {
        let at = self.entries.len().checked_sub(index + 1)?;
        let entry = self.entries.get(at)?;
        let start = entry.start as usize;
        let both = self.bytes.get(start..start + entry.len())?;
        let (name, value) = both.split_at_checked(usize::from(entry.name_len))?;
        Some((name, value, entry.note))
    }

    /// The newest entry with this name and value whose note passes.
    pub(super) fn find(&self, name: &[u8], value: &[u8], passes: impl Fn(N) -> bool) -> Option<usize> {
        let mut noted = self.entries.iter().rev().enumerate().filter(|(_, entry)| passes(entry.note));
        noted
            .find(|(index, _)| self.get(*index).is_some_and(|known| (known.0, known.1) == (name, value)))
            .map(|at| at.0)
    }

    /// Adds an entry; older ones are evicted for it. One that is larger than the table empties it (RFC 7541 §4.4).
    pub(super) fn insert(&mut self, name: &[u8], value: &[u8], note: N) {
        let len = name.len() + value.len();
        let size = len + ENTRY_BYTES;
        if size > self.size_max as usize {
            self.evict(0);
            return;
        }
        self.evict(self.size_max - size as u32);
        self.make_room(len);
        let start = self.bytes.len() as u32;
        self.bytes.extend_from_slice(name);
        self.bytes.extend_from_slice(value);
        // Both are shorter than the table, whose size fits into 16 bits.
        self.entries.push_back(Entry { start, name_len: name.len() as u16, value_len: value.len() as u16, note });
        self.size += size as u32;
    }

    /// Bytes of memory behind it.
    pub(super) fn held_bytes(&self) -> usize {
        self.bytes.capacity() + self.entries.capacity() * size_of::<Entry<N>>()
    }

    fn evict(&mut self, size: u32) {
        while self.size > size {
            let Some(entry) = self.entries.pop_front() else { break };
            self.size -= (entry.len() + ENTRY_BYTES) as u32;
        }
        if self.entries.is_empty() {
            self.bytes.clear();
        }
    }

    /// Makes room for `len` bytes after the newest entry: evicted bytes are overwritten before more memory is
    /// allocated.
    fn make_room(&mut self, len: usize) {
        if self.bytes.len() + len <= self.bytes.capacity() {
            return;
        }
        let first = self.entries.front().map_or(0, |entry| entry.start as usize);
        if first > 0 {
            self.bytes.drain(..first);
            for entry in &mut self.entries {
                entry.start -= first as u32;
            }
        }
        let needed = self.bytes.len() + len;
        if needed > self.bytes.capacity() {
            // Doubles the capacity, but never beyond the names and values of a full table.
            let wanted = needed.max(self.bytes.capacity() * 2).min(self.size_max as usize).max(needed);
            self.bytes.reserve_exact(wanted - self.bytes.len());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn evicts_the_oldest_and_large_entries_empty_the_table() {
        let mut table = Table::new(100);
        table.insert(b"a", b"1", 1);
        table.insert(b"b", b"2", 2);
        assert_eq!(table.get(0), Some((&b"b"[..], &b"2"[..], 2)));
        assert_eq!(table.get(1), Some((&b"a"[..], &b"1"[..], 1)));
        table.insert(b"c", b"3", 3);
        assert_eq!(table.get(1).map(|entry| entry.2), Some(2));
        assert_eq!(table.get(2), None);
        assert_eq!(table.find(b"b", b"2", |_| true), Some(1));
        assert_eq!(table.find(b"b", b"3", |_| true), None);
        table.insert(b"d", &[b'x'; 68], 4);
        assert_eq!(table.get(0), None);
    }

    #[test]
    fn memory_is_bounded_whatever_comes_and_goes() {
        let mut table = Table::new(4096);
        for round in 0..20_000usize {
            let value = vec![b'v'; round * 37 % 3000];
            table.insert(b"name", &value, 0);
            assert_eq!(table.get(0).map(|entry| entry.1.len()), Some(value.len()));
            assert!(table.size <= 4096);
            assert!(table.held_bytes() <= 4096 + 2 * 4096 / ENTRY_BYTES * size_of::<Entry<i32>>());
        }
        table.resize(0);
        assert_eq!(table.held_bytes(), 0);
    }
}
