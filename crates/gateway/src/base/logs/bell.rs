//! When log lines are written: workers ring when there is something to write, and learn when it has been written. The thread
//! that writes decides when it comes. Without one, as in tests of the gateway alone, no writer is woken and no connection waits.

use crate::base::logs::error::Level;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};
use std::thread::Thread;

/// Shared by all logs of a process.
#[derive(Debug, Default)]
pub struct LogBell {
    /// The one that writes.
    writer: OnceLock<Thread>,
    /// Lines wait.
    rung: AtomicBool,
    /// So does somebody who wants to close a connection.
    urgent: AtomicBool,
    /// Collections that have begun, and the last one that has ended.
    begun: AtomicU64,
    done: AtomicU64,
    /// The level of all error logs, where an operator has set one: its number and one more, or 0.
    level: AtomicU8,
}

/// How much haste a collection has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Haste {
    /// Nothing waits.
    None,
    /// Lines wait.
    Lines,
    /// A connection is closed as soon as its line is written.
    Close,
}

impl LogBell {
    /// This thread writes, and is unparked from now on. Called before the workers start: a connection that ends earlier does
    /// not wait for its line.
    pub fn attend(&self, writer: Thread) {
        // A second writer would be a bug of the caller's; the first one goes on.
        let _ = self.writer.set(writer);
    }

    /// The level of all error logs from now on; `None` is what the configuration says of each.
    pub fn set_level(&self, level: Option<Level>) {
        self.level.store(level.map_or(0, |level| level as u8 + 1), Ordering::Relaxed);
    }

    /// The level that an operator has set.
    pub fn level(&self) -> Option<Level> {
        let number = self.level.load(Ordering::Relaxed).checked_sub(1)?;
        Level::ALL.get(usize::from(number)).copied()
    }

    pub(crate) fn is_attended(&self) -> bool {
        self.writer.get().is_some()
    }

    /// The first line since the last collection waits.
    pub(crate) fn ring(&self) {
        if !self.rung.swap(true, Ordering::SeqCst) {
            self.wake();
        }
    }

    /// Asks for a collection soon; the result is the number of the first one that has all lines of the caller's.
    pub(crate) fn hurry(&self) -> u64 {
        // One that runs at this moment may have been at the caller's buffer already.
        let number = self.begun.load(Ordering::SeqCst) + 1;
        if !self.urgent.swap(true, Ordering::SeqCst) {
            self.wake();
        }
        number
    }

    pub(crate) fn is_done(&self, number: u64) -> bool {
        self.done.load(Ordering::SeqCst) >= number
    }

    /// Wakes the writer: for code that has changed what it should do.
    pub fn wake(&self) {
        if let Some(writer) = self.writer.get() {
            writer.unpark();
        }
    }

    /// What the next collection is wanted for.
    pub fn haste(&self) -> Haste {
        match (self.urgent.load(Ordering::SeqCst), self.rung.load(Ordering::SeqCst)) {
            (true, _) => Haste::Close,
            (false, true) => Haste::Lines,
            (false, false) => Haste::None,
        }
    }

    /// A collection begins: what is rung for from now on is for the next one.
    pub fn begin(&self) {
        self.urgent.store(false, Ordering::SeqCst);
        self.rung.store(false, Ordering::SeqCst);
        self.begun.fetch_add(1, Ordering::SeqCst);
    }

    pub(crate) fn finish(&self) {
        self.done.store(self.begun.load(Ordering::SeqCst), Ordering::SeqCst);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_collection_that_runs_does_not_count_for_who_comes_during_it() {
        let bell = LogBell::default();
        assert!(!bell.is_attended() && bell.haste() == Haste::None);
        bell.ring();
        assert_eq!(bell.haste(), Haste::Lines);
        let first = bell.hurry();
        assert_eq!(bell.haste(), Haste::Close);
        bell.begin();
        assert_eq!(bell.haste(), Haste::None);
        let second = bell.hurry();
        bell.finish();
        assert!(bell.is_done(first) && !bell.is_done(second));
        bell.begin();
        bell.finish();
        assert!(bell.is_done(second));
    }
}
