//! Messages from other threads to a reactor's thread: a locked list and an eventfd that is written once per batch.

use crate::sys;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

/// Many senders, one receiver. The receiver watches [`Mailbox::descriptor`] and calls [`Mailbox::take`].
#[derive(Debug)]
pub struct Mailbox<M> {
    messages: Mutex<Vec<M>>,
    /// The eventfd was written and not yet read: further senders need not write it.
    rung: AtomicBool,
    bell: OwnedFd,
}

impl<M> Mailbox<M> {
    /// An empty mailbox.
    pub fn new() -> io::Result<Self> {
        Ok(Self { messages: Mutex::new(Vec::new()), rung: AtomicBool::new(false), bell: sys::eventfd()? })
    }

    /// Puts a message in and wakes the receiver.
    pub fn send(&self, message: M) {
        self.lock().push(message);
        if !self.rung.swap(true, Ordering::AcqRel) {
            // The counter cannot overflow: it is written once per ring, and a failing write leaves it readable anyway.
            let _ = sys::write_counter(self.bell.as_fd());
        }
    }

    /// Moves all messages to the end of `into`.
    pub fn take(&self, into: &mut Vec<M>) {
        let _ = sys::read_counter(self.bell.as_fd());
        // Cleared before the list is emptied: a sender that comes later rings again, so nothing is left behind unseen.
        self.rung.store(false, Ordering::Release);
        into.append(&mut self.lock());
    }

    /// Readable while messages may be waiting.
    pub fn descriptor(&self) -> BorrowedFd<'_> {
        self.bell.as_fd()
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Vec<M>> {
        // A sender that panicked between lock and unlock has left a whole list.
        self.messages.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}
