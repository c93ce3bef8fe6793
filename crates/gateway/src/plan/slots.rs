//! A table of a plan. An entry keeps its number when the next plan uses it again, because other parts refer to it by number.
//! Numbers of entries that are gone are given to new ones. A plan that shares nothing with another one has no gaps.

use std::sync::Arc;

/// A table by number.
pub(crate) struct Slots<T> {
    entries: Vec<Option<Arc<T>>>,
    /// Numbers without an entry, the lowest last.
    free: Vec<u32>,
}

impl<T> Default for Slots<T> {
    fn default() -> Self {
        Self { entries: Vec::new(), free: Vec::new() }
    }
}

impl<T> Slots<T> {
    /// A table with these entries at their numbers.
    pub(crate) fn with(kept: impl IntoIterator<Item = (u32, Arc<T>)>) -> Self {
        let mut entries: Vec<Option<Arc<T>>> = Vec::new();
        for (id, entry) in kept {
            let place = id as usize;
            if place >= entries.len() {
                entries.resize_with(place + 1, || None);
            }
            entries[place] = Some(entry);
        }
        let free = (0..entries.len() as u32).rev().filter(|id| entries[*id as usize].is_none()).collect();
        Self { entries, free }
    }

    /// The number of the next new entry.
    pub(crate) fn next(&self) -> u32 {
        self.free.last().copied().unwrap_or(self.entries.len() as u32)
    }

    /// Adds an entry; returns its number.
    pub(crate) fn push(&mut self, entry: T) -> u32 {
        let id = self.next();
        if self.free.pop().is_some() {
            self.entries[id as usize] = Some(Arc::new(entry));
        } else {
            self.entries.push(Some(Arc::new(entry)));
        }
        id
    }

    /// The entry with a number; `None` if there is none.
    pub(crate) fn find(&self, id: u32) -> Option<&Arc<T>> {
        self.entries.get(id as usize)?.as_ref()
    }

    /// The entry with a number that the plan has given out.
    pub(crate) fn get(&self, id: u32) -> &Arc<T> {
        self.entries[id as usize].as_ref().expect("a number in a plan leads to an entry")
    }

    /// The same for changes; `None` if another plan has it, too.
    pub(crate) fn entry_mut(&mut self, id: u32) -> Option<&mut T> {
        self.entries.get_mut(id as usize)?.as_mut().and_then(Arc::get_mut)
    }

    /// One more than the highest number.
    pub(crate) fn end(&self) -> usize {
        self.entries.len()
    }

    /// All entries with their numbers.
    pub(crate) fn numbered(&self) -> impl Iterator<Item = (u32, &Arc<T>)> {
        (0..).zip(&self.entries).filter_map(|(id, entry)| Some((id, entry.as_ref()?)))
    }

    /// All entries.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Arc<T>> {
        self.entries.iter().flatten()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn new_entries_take_the_numbers_of_those_that_are_gone() {
        let mut first = Slots::default();
        let ids = ["a", "b", "c", "d"].map(|name| first.push(name));
        assert_eq!(ids, [0, 1, 2, 3]);
        let mut second = Slots::with([(3, Arc::clone(first.get(3))), (1, Arc::clone(first.get(1)))]);
        assert!(second.find(0).is_none() && second.find(9).is_none());
        assert_eq!((second.next(), second.push("e"), second.push("f"), second.push("g")), (0, 0, 2, 4));
        let names: Vec<_> = second.numbered().map(|(id, name)| (id, **name)).collect();
        assert_eq!(names, [(0, "e"), (1, "b"), (2, "f"), (3, "d"), (4, "g")]);
        assert!(Arc::ptr_eq(second.get(1), first.get(1)));
        assert!(second.entry_mut(1).is_none() && second.entry_mut(4).is_some());
    }
}
