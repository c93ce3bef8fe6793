//! Waiting for something with a deadline: between the threads of a test, and for a state that is not announced.

use crate::DEADLINE;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Between two looks at a state that is not announced.
const LOOK_AGAIN: Duration = Duration::from_millis(2);

/// A flag that one thread raises and others wait for.
#[derive(Debug, Clone, Default)]
pub struct Signal(Arc<(Mutex<bool>, Condvar)>);

impl Signal {
    /// A lowered one.
    pub fn new() -> Self {
        Self::default()
    }

    /// Lets all waiting threads go on, now and later.
    pub fn raise(&self) {
        *self.0.0.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.0.1.notify_all();
    }

    /// Whether it is.
    pub fn is_raised(&self) -> bool {
        *self.0.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until it is raised.
    #[track_caller]
    pub fn wait(&self) {
        let raised = self.0.0.lock().unwrap_or_else(PoisonError::into_inner);
        let (raised, _) =
            self.0.1.wait_timeout_while(raised, DEADLINE, |raised| !*raised).unwrap_or_else(PoisonError::into_inner);
        assert!(*raised, "the signal was not raised in {DEADLINE:?}");
    }
}

/// Looks until the closure has what is wanted; fails the test, with `what` in its words, when it does not come.
#[track_caller]
pub fn until<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let begun = Instant::now();
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(begun.elapsed() < DEADLINE, "not seen in {DEADLINE:?}: {what}");
        std::thread::park_timeout(LOOK_AGAIN);
    }
}
