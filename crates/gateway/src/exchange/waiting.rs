//! Waits of an exchange: for events on its sockets, for wake-ups by other tasks, for time; and the memory that it holds
//! meanwhile. Every wait goes through here and distinguishes a client that has left from one that is silent.

use crate::base::memory::{BUFFERS_BYTES_MIN, EXCHANGE_BYTES, HeldFor};
use crate::exchange::Exchange;
use crate::thread::executor;
use crate::upstream::side::UpstreamSide;
use reactor::{Awaited, Interest, Leaving, Woken};
use std::time::Duration;
use transport::Transport;

/// What a wait is for, besides wake-ups and the client's leaving.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Wants<'a> {
    upstream: Option<(&'a Transport, Interest)>,
    client: Interest,
    /// Bytes that the caller holds besides those of the exchange itself.
    besides: usize,
}

impl<'a> Wants<'a> {
    /// A wake-up, or the time alone.
    pub(crate) const NOTHING: Self = Self { upstream: None, client: Interest::NONE, besides: 0 };

    /// An event of the client's socket. A task that waits to read it notices the client's leaving by reading.
    pub(crate) const fn of_client(client: Interest) -> Self {
        Self { client, ..Self::NOTHING }
    }

    /// An event of the upstream's socket.
    pub(crate) const fn of_socket(stream: &'a Transport, interest: Interest) -> Self {
        Self { upstream: Some((stream, interest)), ..Self::NOTHING }
    }

    /// An event of the upstream, and the bytes that wait for it.
    pub(crate) fn of_upstream(up: &'a UpstreamSide, interest: Interest) -> Self {
        Self { upstream: up.awaited(interest), client: Interest::NONE, besides: up.held_bytes() }
    }

    /// The same, or an event of the client's socket.
    pub(crate) const fn or_of_client(self, client: Interest) -> Self {
        Self { client, ..self }
    }

    /// The same, and additionally this event of the client's socket.
    pub(crate) const fn and_of_client(self, client: Interest) -> Self {
        Self { client: self.client.or(client), ..self }
    }

    pub(crate) const fn holding(self, besides: usize) -> Self {
        Self { besides: self.besides + besides, ..self }
    }
}

impl Exchange {
    /// Waits until something happens to this exchange. If input has already arrived, the wait ends after the other
    /// ready tasks have had their turn.
    pub(crate) async fn wait(&self, wants: Wants<'_>, at_most: Duration) -> Woken {
        if self.assemble() {
            // There is more to send: the caller looks again once the subrequests just started have had their turn.
            self.thread.reactor.wake(self.task());
        }
        let secure = wants.upstream.map_or(0, |(stream, _)| stream.held_bytes());
        self.account(wants.besides + secure);
        let reactor = &self.thread.reactor;
        // While the pace holds the response back, the client is not to blame for the lack of progress.
        let pause = self.response.filters.pause(&self.down).filter(|_| self.down.waiting_bytes() > 0);
        let mut deadline = reactor.now().after(pause.unwrap_or(at_most));
        let call = self.upstream.call_deadline();
        if let Some(call) = call {
            deadline = deadline.min(call);
        }
        reactor.begin_wait(self.task(), &self.awaited(&wants, pause.is_some()), deadline);
        executor::suspend().await;
        match reactor.end_wait(self.task(), &self.awaited(&wants, pause.is_some())) {
            // The pause is over, unless the time of the call or request is.
            Woken::Deadline if pause.is_some() && call.is_none_or(|call| reactor.now() < call) => Woken::Ready,
            _ if self.is_abandoned() => Woken::PeerGone,
            // The awaited event may come in the same turn as the deadline.
            Woken::Deadline if self.down.is_ready(wants.client) => Woken::Ready,
            woken => woken,
        }
    }

    fn awaited<'a>(&'a self, wants: &Wants<'a>, paused: bool) -> Awaited<'a, Transport> {
        let client = self.down.transport();
        let interest = if paused { wants.client.without_write() } else { wants.client };
        Awaited {
            sockets: [wants.upstream, client.map(|client| (client, interest))],
            peer: client.map(|client| (client, self.leaving(wants.client))),
        }
    }

    /// How the client's leaving shows. A FIN after unread bytes is found when they are read.
    fn leaving(&self, client: Interest) -> Leaving {
        if self.upstream.ignores_abort() || client.includes(Interest::READ) {
            Leaving::Ignored
        } else if self.client_plan().half_close || self.down.has_pending() {
            Leaving::Reset
        } else {
            Leaving::ResetOrFin
        }
    }

    /// Whether the starting exchange has lost interest, or the stream is over: treated as if the client had left.
    fn is_abandoned(&self) -> bool {
        !self.upstream.ignores_abort() && self.down.is_abandoned()
    }

    /// Reports the memory that the exchange and its caller hold.
    pub(crate) fn account(&self, besides: usize) {
        let buffers = self.upstream.held_bytes()
            + self.response.filters.held_bytes()
            + self.down.held_bytes()
            + self.intake.replay.held_bytes()
            + self.shared_page_bytes()
            + besides;
        let held = EXCHANGE_BYTES + self.request.held_bytes() + buffers.max(BUFFERS_BYTES_MIN);
        self.thread.memory.hold(self.task(), HeldFor::Exchange, held);
    }

    /// Lets other tasks run before this one continues.
    pub(crate) async fn yield_now(&self) {
        self.yield_holding(0).await;
    }

    /// Like [`Self::yield_now`], for a caller that holds this many bytes besides those of the exchange.
    pub(crate) async fn yield_holding(&self, bytes: usize) {
        self.account(bytes);
        self.thread.reactor.wake(self.task());
        executor::suspend().await;
    }
}

/// The client left while names were looked up for it.
pub(crate) struct ClientLeft;
