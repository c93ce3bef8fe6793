//! The gateway's side of the pool: what an idle connection consists of, and how it moves between a worker's epoll and
//! the pool. `upstream` decides which connections are kept, and how long.

use crate::registry::generation::BoundTunnel;
use crate::registry::ports::{PortNumber, PortUse};
use reactor::{Peeked, PeerAddress, Reactor};
use std::sync::Arc;
use transport::{ParkedTransport, Transport};
use upstream::shared::{Driver, GroupId, IdleToken, PeerId, Pool, Removed, TunnelCount, TunnelPermit};

/// A pooled upstream connection. It has no socket only while it is leased: the exchange's [`Transport`] has it then.
#[derive(Debug)]
pub(crate) struct IdleSocket {
    pub(crate) parked: Option<ParkedTransport>,
    pub(crate) port: Option<PortUse>,
    /// The HTTP/2 engine, while no request uses the connection.
    pub(crate) engine: Option<Box<http2::Connection>>,
}

impl Drop for IdleSocket {
    fn drop(&mut self) {
        if let (Some(parked), Some(port)) = (&self.parked, &mut self.port) {
            port.note(parked.leaves_time_wait());
        }
        // The socket is closed before the ledger records it: the kernel then has the port back, or keeps it in
        // TIME_WAIT.
        self.parked = None;
    }
}

/// The result of looking at an idle connection.
pub(crate) enum Look {
    /// Nothing happened.
    Silent,
    /// The peer has closed or reset it.
    Ended,
    /// Unrequested bytes.
    Data,
    /// It speaks HTTP/2, and the peer may have sent frames: read them.
    Frames,
}

impl IdleSocket {
    /// A connection while its socket is elsewhere.
    #[cfg(test)]
    pub(crate) fn leased() -> Self {
        Self { parked: None, port: None, engine: None }
    }

    /// Looks at the socket without taking data. TLS control records are processed (see [`ParkedTransport::look`]). The
    /// reactor is that of this thread.
    pub(crate) fn look(&self, reactor: &Reactor) -> Look {
        if self.engine.is_some() {
            // Under TLS, a look takes the received bytes.
            return Look::Frames;
        }
        match self.parked.as_ref().map(|parked| parked.look(reactor)) {
            Some(Peeked::Nothing) => Look::Silent,
            Some(Peeked::Data) => Look::Data,
            Some(Peeked::Ended) | None => Look::Ended,
        }
    }
}

/// The process's pool. It lives as long as the process, so leases borrow it for `'static`.
pub(crate) type UpstreamPool = Pool<IdleSocket>;

/// The label under which the reactor reports events on a pooled connection.
pub(crate) fn label(token: IdleToken) -> u64 {
    u64::from(token.generation) << 32 | u64::from(token.index)
}

/// The token of a label.
pub(crate) fn token(label: u64) -> IdleToken {
    IdleToken { index: label as u32, generation: (label >> 32) as u32 }
}

/// What the pool needs from outside: waking a waiting exchange, and closing connections that no other owner can close.
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

/// The upstream's side of a tunnel: its socket, and what is given back when it ends. There may be a million, so they find the pool
/// and the ledger of ports through the settings that tunnels of a location share.
pub(crate) struct Bound {
    /// `None` once reset.
    stream: Option<Transport>,
    plan: Arc<BoundTunnel>,
    /// Its local port, if that is in the ledger.
    port: Option<PortNumber>,
    /// `None` if it came from another process, and the configuration here does not know the peer.
    count: Option<TunnelCount>,
}

impl Bound {
    pub(crate) fn new(
        stream: Transport,
        plan: Arc<BoundTunnel>,
        port: Option<PortUse>,
        permit: Option<TunnelPermit<'static, IdleSocket>>,
    ) -> Self {
        let (port, count) = (port.and_then(PortUse::into_number), permit.map(TunnelPermit::into_count));
        Self { stream: Some(stream), plan, port, count }
    }

    /// The settings that the tunnel keeps.
    pub(crate) fn plan(&self) -> &BoundTunnel {
        &self.plan
    }

    /// Whether its local port is in the ledger.
    pub(crate) fn has_port(&self) -> bool {
        self.port.is_some()
    }

    /// Its group and its peer; `None` for a peer without a number in the pool, and for one that the configuration does not know.
    pub(crate) fn peer(&self) -> Option<(GroupId, PeerId)> {
        let count = self.count.as_ref()?;
        Some((count.group(), count.peer(&self.plan.registry.pool)?))
    }

    /// The names of both, if the pool knows them. Takes a lock.
    pub(crate) fn names(&self) -> Option<(Box<str>, PeerAddress)> {
        self.count.as_ref()?.names(&self.plan.registry.pool)
    }

    /// Lets go of the socket, which another process has.
    pub(crate) fn release(mut self) {
        if let Some(stream) = self.stream.take() {
            stream.release();
        }
    }

    /// Closes it by a reset, which frees the port at once.
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
        let registry = self.plan.registry;
        let mut port = self.port.take().map(|number| registry.ports.resume(number));
        if let (Some(stream), Some(port)) = (&self.stream, &mut port) {
            port.note(stream.leaves_time_wait());
        }
        self.stream = None;
        drop(port);
        drop(self.count.take().map(|count| count.resume(&registry.pool)));
    }
}
