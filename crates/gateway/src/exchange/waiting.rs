//! How an exchange waits: for events on its sockets, for calls by others, for a time; and what it holds meanwhile. Every wait
//! of an exchange goes through here and tells a client that has left from one that is silent.

use crate::base::memory::{BUFFERS_BYTES_MIN, EXCHANGE_BYTES, HeldFor};
use crate::exchange::Exchange;
use crate::thread::executor;
use reactor::{Awaited, Interest, Leaving, Woken};
use std::time::Duration;
use transport::Transport;

/// What a wait is for, besides calls by others and the client's leaving.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Wants<'a> {
    upstream: Option<(&'a Transport, Interest)>,
    client: Interest,
    /// Bytes that the caller holds besides what the exchange itself holds.
    besides: usize,
}

impl<'a> Wants<'a> {
    /// A call, or the time alone.
    pub(crate) const NOTHING: Self = Self { upstream: None, client: Interest::NONE, besides: 0 };

    /// Something of the client's socket. Whoever waits to read it learns of the client's leaving by reading.
    pub(crate) const fn of_client(client: Interest) -> Self {
        Self { client, ..Self::NOTHING }
    }

    /// Something of the upstream's socket.
    pub(crate) const fn of_upstream(stream: &'a Transport, interest: Interest) -> Self {
        Self { upstream: Some((stream, interest)), ..Self::NOTHING }
    }

    /// The same, or something of the client's socket.
    pub(crate) const fn or_of_client(self, client: Interest) -> Self {
        Self { client, ..self }
    }

    pub(crate) const fn is_of_client(&self) -> bool {
        !matches!(self.client, Interest::NONE)
    }

    pub(crate) const fn holding(self, besides: usize) -> Self {
        Self { besides, ..self }
    }
}

impl Exchange {
    /// Waits until something happens to this exchange. What is there when the wait begins ends it after the other tasks
    /// that are ready have had their turn.
    pub(crate) async fn wait(&self, wants: Wants<'_>, at_most: Duration) -> Woken {
        let secure = wants.upstream.map_or(0, |(stream, _)| stream.held_bytes());
        self.account(wants.besides + secure);
        let reactor = &self.thread.reactor;
        // While the response is held back it is not the client that makes no progress.
        let pause = self.response.filters.pause(&self.down).filter(|_| self.down.waiting_bytes() > 0);
        let deadline = reactor.now().after(pause.unwrap_or(at_most));
        reactor.begin_wait(self.task(), &self.awaited(&wants, pause.is_some()), deadline);
        executor::suspend().await;
        match reactor.end_wait(self.task(), &self.awaited(&wants, pause.is_some())) {
            Woken::Deadline if pause.is_some() => Woken::Ready,
            woken => woken,
        }
    }

    fn awaited<'a>(&'a self, wants: &Wants<'a>, paused: bool) -> Awaited<'a, Transport> {
        let client = self.down.transport();
        let interest = if paused { wants.client.without_write() } else { wants.client };
        Awaited {
            sockets: [wants.upstream, Some((client, interest))],
            peer: Some((client, self.leaving(wants.client))),
        }
    }

    /// What counts as the client's leaving. A FIN behind bytes that are not read yet is found when they are.
    fn leaving(&self, client: Interest) -> Leaving {
        if self.upstream.abort_ignored || client.includes(Interest::READ) {
            Leaving::Ignored
        } else if self.client_plan().half_close || self.down.has_pending() {
            Leaving::Reset
        } else {
            Leaving::ResetOrFin
        }
    }

    /// Says what the exchange holds, and its caller besides.
    pub(crate) fn account(&self, besides: usize) {
        let answer = self.upstream.answer.as_ref().map_or(0, |answer| answer.held_bytes());
        let buffers = answer
            + self.response.filters.held_bytes()
            + self.down.held_bytes()
            + self.intake.replay.held_bytes()
            + besides;
        let held = EXCHANGE_BYTES + self.request.held_bytes() + buffers.max(BUFFERS_BYTES_MIN);
        self.thread.memory.hold(self.task(), HeldFor::Exchange, held);
    }

    /// Lets other tasks run before this one goes on.
    pub(crate) async fn yield_now(&self) {
        self.yield_holding(0).await;
    }

    /// As [`Self::yield_now`], where the caller holds so many bytes besides what the exchange itself holds.
    pub(crate) async fn yield_holding(&self, bytes: usize) {
        self.account(bytes);
        self.thread.reactor.wake(self.task());
        executor::suspend().await;
    }
}

/// The client has left while names were looked up for it.
pub(crate) struct ClientLeft;
