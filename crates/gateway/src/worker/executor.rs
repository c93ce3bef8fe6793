//! Runs exchanges: futures in recycled boxes. A future exists from a complete head to settle; the box outlives it and
//! serves the next exchange, so that a request costs no allocation. The type of the future has no name, hence the trait.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};

/// A box that a future of one kind is put into, polled in, and taken from again.
pub(crate) trait Slot<A, O> {
    /// Puts a new future in; what was there is dropped.
    fn start(&mut self, arguments: A);
    /// Polls the future; `Ready` empties the slot. An empty slot is `Pending` for ever.
    fn poll(&mut self) -> Poll<O>;
}

struct Typed<M, F> {
    make: M,
    future: Pin<Box<Option<F>>>,
}

impl<A, O, M: Fn(A) -> F, F: Future<Output = O>> Slot<A, O> for Typed<M, F> {
    fn start(&mut self, arguments: A) {
        self.future.set(Some((self.make)(arguments)));
    }

    fn poll(&mut self) -> Poll<O> {
        // Wake-ups come through the reactor's ready list, never through this waker.
        let mut context = Context::from_waker(Waker::noop());
        let Some(future) = self.future.as_mut().as_pin_mut() else { return Poll::Pending };
        let polled = future.poll(&mut context);
        if polled.is_ready() {
            self.future.set(None);
        }
        polled
    }
}

/// A slot for the futures that `make` returns.
pub(crate) fn slot<A: 'static, O: 'static, F: Future<Output = O> + 'static>(
    make: impl Fn(A) -> F + 'static,
) -> Box<dyn Slot<A, O>> {
    Box::new(Typed { make, future: Box::pin(None) })
}

/// Suspends once: the next poll goes on. Whoever waits has first told the reactor what should wake it.
pub(crate) async fn suspend() {
    let mut suspended = false;
    std::future::poll_fn(|_| if std::mem::replace(&mut suspended, true) { Poll::Ready(()) } else { Poll::Pending })
        .await;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slot_serves_one_future_after_the_other() {
        let mut slot = slot(|number: u32| async move {
            suspend().await;
            number * 2
        });
        assert!(slot.poll().is_pending());
        for number in [4, 5] {
            slot.start(number);
            assert!(slot.poll().is_pending());
            assert_eq!(slot.poll(), Poll::Ready(number * 2));
        }
    }
}
