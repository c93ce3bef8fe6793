//! Counts worker threads that have ended, and wakes the control loop through a descriptor. So a process ends as soon as
//! its last worker has ended, not at its next check. Kept by `engine`, polled by `single` and `child`.

use rustix::event::{EventfdFlags, eventfd};
use rustix::io::{read, write};
use std::io;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Shared by the control loop and all workers.
pub(super) struct Ended {
    count: AtomicUsize,
    /// Readable if a worker has ended since [`Self::hush`].
    bell: OwnedFd,
}

impl Ended {
    /// No worker has ended yet.
    pub(super) fn new() -> io::Result<Arc<Self>> {
        let bell = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        Ok(Arc::new(Self { count: AtomicUsize::new(0), bell }))
    }

    /// The descriptor to poll for reading.
    pub(super) fn descriptor(&self) -> BorrowedFd<'_> {
        self.bell.as_fd()
    }

    /// Resets the descriptor until the next worker ends. Call it before you read the count: a worker that ends in
    /// between makes it readable again.
    pub(super) fn hush(&self) {
        // It is no error if the descriptor was not readable.
        let _ = read(&self.bell, &mut [0; 8]);
    }

    /// Number of workers that have ended.
    pub(super) fn count(&self) -> usize {
        self.count.load(Ordering::Acquire)
    }
}

/// Held by a worker as long as it runs; its drop counts the end.
pub(super) struct Running(pub(super) Arc<Ended>);

impl Drop for Running {
    fn drop(&mut self) {
        self.0.count.fetch_add(1, Ordering::Release);
        // The counter cannot be full, and the control loop also checks periodically.
        let _ = write(&self.0.bell, &1_u64.to_ne_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

    fn is_rung(ended: &Ended) -> bool {
        poll(&mut [PollFd::new(ended.descriptor(), PollFlags::POLLIN)], PollTimeout::ZERO).unwrap() == 1
    }

    #[test]
    fn each_end_rings_once_and_is_counted_even_that_of_a_panic() {
        let ended = Ended::new().unwrap();
        assert!(!is_rung(&ended) && ended.count() == 0);
        drop(Running(Arc::clone(&ended)));
        assert!(is_rung(&ended));
        ended.hush();
        assert_eq!(ended.count(), 1);
        assert!(!is_rung(&ended), "it was seen");
        let running = Running(Arc::clone(&ended));
        let thread = std::thread::spawn(move || {
            let _running = running;
            panic!("as a worker never should");
        });
        assert!(thread.join().is_err());
        assert!(is_rung(&ended) && ended.count() == 2);
    }
}
