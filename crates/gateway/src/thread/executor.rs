//! Runs exchanges: futures in recycled boxes. A future serves one exchange after the other and is suspended in between.
//! Its arguments and results go through a mailbox, so that a request costs no allocation and no copy of the future.

use std::cell::Cell;
use std::convert::Infallible;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};

/// Where a future finds its next arguments and leaves its result. One for all futures of a worker: after putting
/// arguments there, the code polls the future at once.
pub(crate) struct Mailbox<A, O> {
    arguments: Cell<Option<A>>,
    result: Cell<Option<O>>,
}

impl<A, O> Default for Mailbox<A, O> {
    fn default() -> Self {
        Self { arguments: Cell::new(None), result: Cell::new(None) }
    }
}

impl<A, O> Mailbox<A, O> {
    /// Puts down arguments for the future that is polled next, which must be idle.
    pub(crate) fn put_arguments(&self, arguments: A) {
        self.arguments.set(Some(arguments));
    }

    /// Takes the arguments, if there are any.
    pub(crate) fn take_arguments(&self) -> Option<A> {
        self.arguments.take()
    }

    /// Leaves the result; the future suspends after it.
    pub(crate) fn put_result(&self, result: O) {
        self.result.set(Some(result));
    }

    /// Continues a slot's future. `Ready`: it is done, and the slot is free.
    pub(crate) fn poll(&self, slot: &mut Slot) -> Poll<O> {
        // Wake-ups come through the reactor's ready list, never through this waker.
        let mut context = Context::from_waker(Waker::noop());
        match slot.0.as_mut().as_mut().poll(&mut context) {
            Poll::Ready(never) => match never {},
            Poll::Pending => self.result.take().map_or(Poll::Pending, Poll::Ready),
        }
    }
}

/// The box of a future that serves exchanges. Dropping it cancels the current one; after a panic it must be dropped. It is a thin
/// pointer, so that the table of tasks, which has an entry for each waiting connection and each tunnel too, is smaller.
pub(crate) struct Slot(Box<Pin<Box<dyn Future<Output = Infallible>>>>);

impl Slot {
    /// A slot for a future that loops: takes arguments out of the mailbox, leaves a result, suspends.
    pub(crate) fn new(future: impl Future<Output = Infallible> + 'static) -> Self {
        Self(Box::new(Box::pin(future)))
    }
}

/// Suspends once: the next poll continues. The waiter must first tell the reactor what should wake it.
pub(crate) async fn suspend() {
    let mut suspended = false;
    std::future::poll_fn(|_| if std::mem::replace(&mut suspended, true) { Poll::Ready(()) } else { Poll::Pending })
        .await;
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::rc::Rc;

    async fn double(mailbox: Rc<Mailbox<u32, u32>>) -> Infallible {
        loop {
            if let Some(number) = mailbox.take_arguments() {
                suspend().await;
                mailbox.put_result(number * 2);
            }
            suspend().await;
        }
    }

    #[test]
    fn a_slot_serves_one_after_the_other() {
        let mailbox = Rc::new(Mailbox::default());
        let mut slot = Slot::new(double(Rc::clone(&mailbox)));
        assert!(mailbox.poll(&mut slot).is_pending());
        for number in [4, 5] {
            mailbox.put_arguments(number);
            assert!(mailbox.poll(&mut slot).is_pending());
            assert_eq!(mailbox.poll(&mut slot), Poll::Ready(number * 2));
            assert!(mailbox.poll(&mut slot).is_pending(), "nothing to do until there are arguments");
        }
    }

    #[test]
    fn slots_share_a_desk() {
        let mailbox = Rc::new(Mailbox::default());
        let mut slots = [Slot::new(double(Rc::clone(&mailbox))), Slot::new(double(Rc::clone(&mailbox)))];
        for (number, slot) in (1..).zip(&mut slots) {
            mailbox.put_arguments(number);
            assert!(mailbox.poll(slot).is_pending());
        }
        assert_eq!(mailbox.poll(&mut slots[1]), Poll::Ready(4));
        assert_eq!(mailbox.poll(&mut slots[0]), Poll::Ready(2));
    }
}
