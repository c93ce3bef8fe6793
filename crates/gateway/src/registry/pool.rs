//! The gateway's side of the pool: what an idle connection is here, and how it gets from a worker's epoll into the pool
//! and back. Which connection is kept, and how long, is `upstream`'s to decide.

use crate::registry::ports::PortUse;
use reactor::{Peeked, Reactor};
use transport::{ParkedTransport, Transport};
use upstream::shared::{Driver, IdleToken, Pool, Removed};

/// A pooled upstream connection. Without its socket only while it is leased, when that is the exchange's [`Transport`].
#[derive(Debug)]
pub(crate) struct IdleSocket {
    pub(crate) parked: Option<ParkedTransport>,
    pub(crate) port: Option<PortUse>,
    /// What HTTP/2 knows of the connection, while no request is on it.
    pub(crate) engine: Option<Box<http2::Connection>>,
}

impl Drop for IdleSocket {
    fn drop(&mut self) {
        if let (Some(parked), Some(port)) = (&self.parked, &mut self.port) {
            port.note(parked.leaves_time_wait());
        }
        // The kernel has the port back, or lets it wait, before the ledger says so.
        self.parked = None;
    }
}

/// What a look at an idle connection found.
pub(crate) enum Look {
    /// Nothing, as it should be.
    Silent,
    /// The peer has closed or reset it.
    Ended,
    /// Unrequested bytes.
    Data,
    /// It speaks HTTP/2, whose peers may send frames at any time: it is to be read.
    Frames,
}

impl IdleSocket {
    /// One whose socket is elsewhere.
    #[cfg(test)]
    pub(crate) fn leased() -> Self {
        Self { parked: None, port: None, engine: None }
    }

    /// Looks at the socket without taking data. What TLS has to say is taken in (see [`ParkedTransport::look`]). The reactor is this
    /// thread's.
    pub(crate) fn look(&self, reactor: &Reactor) -> Look {
        if self.engine.is_some() {
            // Under TLS a look takes what has come.
            return Look::Frames;
        }
        match self.parked.as_ref().map(|parked| parked.look(reactor)) {
            Some(Peeked::Nothing) => Look::Silent,
            Some(Peeked::Data) => Look::Data,
            Some(Peeked::Ended) | None => Look::Ended,
        }
    }
}

/// The process's pool. It lives as long as the process, so leases borrow it for ever.
pub(crate) type UpstreamPool = Pool<IdleSocket>;

/// The label under which the reactor reports events on a pooled connection.
pub(crate) fn label(token: IdleToken) -> u64 {
    u64::from(token.generation) << 32 | u64::from(token.index)
}

/// The token that a label was made of.
pub(crate) fn token(label: u64) -> IdleToken {
    IdleToken { index: label as u32, generation: (label >> 32) as u32 }
}

/// What the pool asks of the world outside: waking a waiting exchange, closing what no other owner can.
pub(crate) struct PoolDriver {
    pub(crate) wake: Box<dyn Fn(u64) + Send + Sync>,
}

impl Driver<IdleSocket> for PoolDriver {
    fn wake(&self, token: u64) {
        (self.wake)(token);
    }

    fn close(&self, removed: Removed<IdleSocket>) {
        drop(removed);
    }
}

/// The upstream's side of a tunnel, with its port.
pub(crate) struct Bound {
    /// `None` once reset.
    stream: Option<Transport>,
    port: Option<PortUse>,
}

impl Bound {
    pub(crate) fn new(stream: Transport, port: Option<PortUse>) -> Self {
        Self { stream: Some(stream), port }
    }

    /// Closes it by a reset, which leaves the port free.
    pub(crate) fn reset(mut self) {
        if let Some(stream) = self.stream.take() {
            stream.reset();
        }
    }
}

impl std::ops::Deref for Bound {
    type Target = Transport;

    fn deref(&self) -> &Transport {
        self.stream.as_ref().expect("only consuming methods take the stream")
    }
}

impl Drop for Bound {
    fn drop(&mut self) {
        if let (Some(stream), Some(port)) = (&self.stream, &mut self.port) {
            port.note(stream.leaves_time_wait());
        }
        self.stream = None;
    }
}
