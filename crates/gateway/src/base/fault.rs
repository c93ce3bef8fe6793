//! Places where a test makes the serving of a connection panic, to see that only that connection dies. A build without
//! debug assertions, which every release is, has neither the switch nor the places.

/// A place that a connection passes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Fault {
    /// A head is awaited or read.
    Head = 1,
    /// A response body is relayed: a lease is held.
    Relay,
    /// Bytes of a tunnel are moved.
    Tunnel,
    /// A connection is opened for the pool.
    Opening,
}

/// The fault that is armed, if any.
#[derive(Debug, Default)]
pub(crate) struct Faults {
    #[cfg(debug_assertions)]
    armed: std::sync::atomic::AtomicU8,
}

#[cfg(debug_assertions)]
impl Faults {
    pub(crate) fn arm(&self, fault: Fault) {
        self.armed.store(fault as u8, std::sync::atomic::Ordering::Release);
    }

    /// Panics if this is what was armed; once.
    pub(crate) fn pass(&self, fault: Fault) {
        use std::sync::atomic::Ordering::{AcqRel, Relaxed};
        let armed = self.armed.compare_exchange(fault as u8, 0, AcqRel, Relaxed).is_ok();
        assert!(!armed, "the fault {fault:?} that a test has armed");
    }
}

#[cfg(not(debug_assertions))]
impl Faults {
    #[inline]
    pub(crate) fn pass(&self, _fault: Fault) {}
}
