//! How an exchange waits: for events on its sockets, for wake-ups, for a time; and what it holds meanwhile. Every wait of an
//! exchange goes through here.

use super::Exchange;
use crate::memory::{BUFFERS_BYTES_MIN, EXCHANGE_BYTES, HeldFor};
use crate::worker::executor;
use std::time::Duration;

impl Exchange {
    /// Waits for anything that happens to this exchange: an event on one of its sockets, a wake-up, or the deadline, which
    /// is answered by `true`.
    pub(crate) async fn wait(&self, at_most: Duration) -> bool {
        self.wait_holding(0, at_most).await
    }

    /// As [`Self::wait`], where the caller holds so many bytes besides what the exchange itself holds.
    pub(crate) async fn wait_holding(&self, bytes: usize, at_most: Duration) -> bool {
        self.account(bytes);
        let reactor = &self.worker.reactor;
        let task = self.task();
        // While the response is held back it is not the client that makes no progress.
        let pause = self.down.pause().filter(|_| self.down.waiting_bytes() > 0);
        // A deadline that fired for an earlier wait is not this one's.
        reactor.take_deadline_fired(task);
        reactor.set_deadline(task, Some(reactor.now().after(pause.unwrap_or(at_most))));
        executor::suspend().await;
        reactor.take_deadline_fired(task) && pause.is_none()
    }

    /// Says what the exchange holds, and its caller besides.
    pub(crate) fn account(&self, besides: usize) {
        let answer = self.answer.as_ref().map_or(0, |answer| answer.held_bytes());
        let buffers = answer + self.down.held_bytes() + self.replay.held_bytes() + besides;
        let held = EXCHANGE_BYTES + self.request.held_bytes() + buffers.max(BUFFERS_BYTES_MIN);
        self.worker.memory.hold(self.task(), HeldFor::Exchange, held);
    }

    /// Lets other tasks run before this one goes on.
    pub(crate) async fn yield_now(&self) {
        self.yield_holding(0).await;
    }

    /// As [`Self::yield_now`], where the caller holds so many bytes besides what the exchange itself holds.
    pub(crate) async fn yield_holding(&self, bytes: usize) {
        self.account(bytes);
        self.worker.reactor.wake(self.task());
        executor::suspend().await;
    }
}
