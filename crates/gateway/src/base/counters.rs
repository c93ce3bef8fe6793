//! What each worker counts. Each counter is written by one thread and read by others.

use crate::base::cells::CLASSES;
use crate::base::memory::Held;
use std::sync::atomic::{AtomicU64, Ordering};

/// Counters of one worker, written by it alone.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    pub(crate) accepted: AtomicU64,
    pub(crate) handled: AtomicU64,
    pub(crate) requests: AtomicU64,
    /// Responses, by class of their status.
    pub(crate) responses: [AtomicU64; CLASSES.len()],
    /// Exchanges under way.
    pub(crate) exchanges: AtomicU64,
    /// Connections with a part of a head.
    pub(crate) reading: AtomicU64,
    pub(crate) tunnels: AtomicU64,
    /// Connections closed, by [`crate::base::close::CloseReason`].
    pub(crate) closed: [AtomicU64; crate::base::close::CloseReason::COUNT],
    /// Panics caught: bugs of ours.
    pub(crate) bugs: AtomicU64,
    /// Bytes that connections hold, or that are kept for the next.
    pub(crate) held: Held,
}

/// Adds to a counter that only the calling thread writes: no locked instruction is needed.
pub(crate) fn bump(counter: &AtomicU64, by: i64) {
    counter.store(counter.load(Ordering::Relaxed).wrapping_add_signed(by), Ordering::Relaxed);
}
