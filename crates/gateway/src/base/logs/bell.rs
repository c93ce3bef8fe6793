//! Signals between workers and the thread that writes the logs. A worker rings when a line waits, and learns when it
//! was written; the writer decides when it wakes up. Without a writer, as in tests of the gateway alone, no connection
//! waits for its lines.

use crate::base::logs::error::Level;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};
use std::thread::Thread;

/// Shared by all logs of a process.
#[derive(Debug, Default)]
pub struct LogBell {
    /// The thread that writes the logs.
    writer: OnceLock<Thread>,
    /// Lines wait.
    rung: AtomicBool,
    /// A connection waits for its line before it closes.
    urgent: AtomicBool,
    /// Number of collections begun, and of the last one that ended.
    begun: AtomicU64,
    done: AtomicU64,
    /// The level of all error logs if an operator has set one: its number plus one; otherwise 0.
    level: AtomicU8,
}

/// How urgent the next collection is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Urgency {
    /// No lines wait.
    None,
    /// Lines wait.
    Lines,
    /// A connection closes as soon as its line is written.
    Close,
}

impl LogBell {
    /// Makes this thread the writer, to be unparked from now on. Call it before the workers start: a connection that
    /// ends earlier does not wait for its line.
    pub fn set_writer(&self, writer: Thread) {
        // A second writer would be a bug of the caller; the first one stays.
        let _ = self.writer.set(writer);
    }

    /// Sets the level of all error logs; `None` restores the configured levels.
    pub fn set_level(&self, level: Option<Level>) {
        self.level.store(level.map_or(0, |level| level as u8 + 1), Ordering::Relaxed);
    }

    /// The level that an operator set.
    pub fn level(&self) -> Option<Level> {
        let number = self.level.load(Ordering::Relaxed).checked_sub(1)?;
        Level::ALL.get(usize::from(number)).copied()
    }

    pub(crate) fn has_writer(&self) -> bool {
        self.writer.get().is_some()
    }

    /// Reports the first line since the last collection.
    pub(crate) fn ring(&self) {
        if !self.rung.swap(true, Ordering::SeqCst) {
            self.wake();
        }
    }

    /// Asks for a collection soon. Returns the number of the first collection that is certain to include all lines of
    /// the caller.
    pub(crate) fn request_collection(&self) -> u64 {
        // A collection that runs at this moment may have passed the caller's buffer already.
        let number = self.begun.load(Ordering::SeqCst) + 1;
        if !self.urgent.swap(true, Ordering::SeqCst) {
            self.wake();
        }
        number
    }

    pub(crate) fn is_done(&self, number: u64) -> bool {
        self.done.load(Ordering::SeqCst) >= number
    }

    /// Wakes the writer after the caller has changed its work.
    pub fn wake(&self) {
        if let Some(writer) = self.writer.get() {
            writer.unpark();
        }
    }

    /// What the next collection is needed for.
    pub fn urgency(&self) -> Urgency {
        match (self.urgent.load(Ordering::SeqCst), self.rung.load(Ordering::SeqCst)) {
            (true, _) => Urgency::Close,
            (false, true) => Urgency::Lines,
            (false, false) => Urgency::None,
        }
    }

    /// Begins a collection: rings from now on count for the next one.
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
    fn request_during_a_collection_needs_another() {
        let bell = LogBell::default();
        assert!(!bell.has_writer() && bell.urgency() == Urgency::None);
        bell.ring();
        assert_eq!(bell.urgency(), Urgency::Lines);
        let first = bell.request_collection();
        assert_eq!(bell.urgency(), Urgency::Close);
        bell.begin();
        assert_eq!(bell.urgency(), Urgency::None);
        let second = bell.request_collection();
        bell.finish();
        assert!(bell.is_done(first) && !bell.is_done(second));
        bell.begin();
        bell.finish();
        assert!(bell.is_done(second));
    }
}
