//! Places where a test makes the serving of a connection panic, to check that only that connection ends. A build
//! without debug assertions, such as every release, has neither the switch nor the places.

/// A place in the code that a connection passes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Fault {
    /// The worker waits for a head or reads it.
    Head = 1,
    /// A response body is being relayed: the exchange holds a lease.
    Relay,
    /// Bytes of a tunnel are moved.
    Tunnel,
    /// A connection is being opened for the pool.
    Opening,
}

/// The armed fault, if any.
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

    /// Panics if this fault is armed, and disarms it.
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
