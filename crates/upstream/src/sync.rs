//! Mutex and atomics of `shared`: std's, or loom's when the model checker runs (`--cfg loom`). Counters whose order
//! against other memory matters come from here; plain limits (written by a reload, read one by one) stay std's even
//! under loom, so that the state space stays small.

#[cfg(loom)]
pub(crate) use loom::sync::{
    Mutex, MutexGuard,
    atomic::{AtomicU32, AtomicU64, Ordering, fence},
};
#[cfg(not(loom))]
pub(crate) use std::sync::{
    Mutex, MutexGuard,
    atomic::{AtomicU32, AtomicU64, Ordering, fence},
};

/// std's mutex under loom, too: for state that the model's threads do not contend for.
pub(crate) use std::sync::{Mutex as PlainMutex, MutexGuard as PlainGuard};

/// Locks, poisoned or not: no critical section of this crate can panic in the middle of a change, so a poisoned mutex
/// still guards consistent data, and one broken connection must not disable the pool.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

/// The same for a [`PlainMutex`].
pub(crate) fn lock_plain<T>(mutex: &PlainMutex<T>) -> PlainGuard<'_, T> {
    mutex.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}
