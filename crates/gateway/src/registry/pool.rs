//! The gateway's side of the pool: what an idle connection is here, and how it gets from a worker's epoll into the pool
//! and back. Which connection is kept, and how long, is `upstream`'s to decide.

use crate::registry::ports::PortUse;
use crate::worker::Worker;
use reactor::{Parked, Peeked, Read, Stream, TaskId, TcpState};
use std::io;
use std::rc::Rc;
use upstream::learn::parse_keep_alive;
use upstream::shared::{CheckIn, Checkout, Connecting, Driver, IdleToken, Lease, Pool, Removed, TunnelPermit};
use upstream::{DiscardReason, Millis};

/// A pooled upstream connection. Without its socket only while it is leased, when that is the exchange's [`Stream`].
#[derive(Debug)]
pub(crate) struct IdleSocket {
    parked: Option<Parked>,
    port: Option<PortUse>,
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
    /// Bytes that nobody asked for.
    Data,
}

impl IdleSocket {
    /// One whose socket is elsewhere.
    #[cfg(test)]
    pub(crate) fn leased() -> Self {
        Self { parked: None, port: None }
    }

    /// Looks at the socket, without taking anything. One system call.
    pub(crate) fn look(&self) -> Look {
        match self.parked.as_ref().map(Parked::peek) {
            Some(Peeked::Nothing) => Look::Silent,
            Some(Peeked::Data) => Look::Data,
            Some(Peeked::Ended) | None => Look::Ended,
        }
    }
}

/// The process's pool. It lives as long as the process, so leases borrow it for ever.
pub(crate) type UpstreamPool = Pool<IdleSocket>;

/// The label under which the reactor reports events on a pooled connection.
fn label(token: IdleToken) -> u64 {
    u64::from(token.generation) << 32 | u64::from(token.index)
}

/// The token that a label was made of.
pub(crate) fn token(label: u64) -> IdleToken {
    IdleToken { index: label as u32, generation: (label >> 32) as u32 }
}

/// What the pool asks of the world outside: waking a waiting exchange, closing what nobody else can.
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

/// An idle connection was found ended: what that says about its peer is learned, and it is closed.
pub(crate) fn close_ended(removed: Removed<IdleSocket>, worker: &Worker) {
    if removed.reason == DiscardReason::PeerClosedIdle {
        let now = worker.pool_now();
        if removed.meta.requests == 0 {
            // How long a peer waits for a first request says nothing about how long it waits for the next.
            worker.warm_was_closed(removed.key);
            return drop(removed);
        }
        let idle_ms = now.since(removed.idle_since);
        worker.shared.pool.observe_end(removed.key, now, idle_ms, removed.meta.requests);
    }
    drop(removed);
}

/// A connection that was opened ahead of demand stands: it is pooled before its first exchange.
pub(crate) fn pool_before_use(
    permit: Connecting<'static, IdleSocket>,
    stream: Stream,
    port: Option<PortUse>,
    worker: &Worker,
) {
    let parked = stream.park();
    let (id, now) = (parked.id(), worker.pool_now());
    let register = |_: &IdleSocket, token| worker.reactor.label_parked(id, label(token));
    match permit.established_idle(IdleSocket { parked: Some(parked), port }, now, register) {
        CheckIn::Pooled { idle_max_ms, evicted, .. } => {
            worker.expire_pool_by(now.plus(idle_max_ms));
            drop(evicted);
        }
        CheckIn::HandedOver => {}
        CheckIn::Discarded { connection, .. } => drop(connection),
    }
}

/// An upstream connection during an exchange: the right to it and its socket. Dropped without a word (the exchange was
/// cancelled) it is discarded as such.
pub(crate) struct Leased {
    /// `None` once settled.
    lease: Option<Lease<'static, IdleSocket>>,
    stream: Option<Stream>,
    /// What the peer had acknowledged when it was leased, where that was noted.
    acked_before: Option<u64>,
    /// Milliseconds for which it was idle before this lease.
    idle_ms: u64,
    /// It is the request's own: `proxy_bind` has a variable.
    is_own: bool,
}

impl Leased {
    /// Takes over a pooled connection for a task.
    pub(crate) fn reuse(
        mut checkout: Checkout<'static, IdleSocket>,
        worker: &Worker,
        task: TaskId,
    ) -> io::Result<Self> {
        let parked = checkout.lease.connection_mut().parked.take();
        let unparked = match parked {
            Some(parked) => parked.unpark(&worker.reactor, task),
            None => Err(io::Error::other("a pooled connection without a socket")),
        };
        match unparked {
            Ok(stream) => {
                let idle_ms = worker.pool_now().since(checkout.idle_since);
                Ok(Self {
                    lease: Some(checkout.lease),
                    stream: Some(stream),
                    acked_before: None,
                    idle_ms,
                    is_own: false,
                })
            }
            Err(error) => {
                drop(checkout.lease.discard(DiscardReason::Error));
                Err(error)
            }
        }
    }

    /// A connection that has just been established.
    pub(crate) fn fresh(
        permit: Connecting<'static, IdleSocket>,
        stream: Stream,
        port: Option<PortUse>,
        is_own: bool,
        now: Millis,
    ) -> Self {
        let lease = permit.established(IdleSocket { parked: None, port }, now);
        Self { lease: Some(lease), stream: Some(stream), acked_before: None, idle_ms: 0, is_own }
    }

    /// The socket.
    pub(crate) fn stream(&self) -> &Stream {
        self.stream.as_ref().expect("only consuming methods take the stream")
    }

    /// Whether it has served an exchange before this one.
    pub(crate) fn is_reused(&self) -> bool {
        self.lease.as_ref().is_some_and(Lease::is_reused)
    }

    /// Whether it is the request's own, and nobody else's after it.
    pub(crate) fn is_own(&self) -> bool {
        self.is_own
    }

    /// Notes what the peer has acknowledged so far, for a request that may be repeated only if it provably did not arrive.
    /// `false`: the kernel knows of the peer's FIN, or reset, so nothing should be sent. A socket that is not TCP has
    /// neither, and no proof either.
    pub(crate) fn note_progress(&mut self) -> bool {
        let Some(progress) = self.stream().progress() else { return true };
        self.acked_before = Some(progress.acked_bytes);
        progress.state == TcpState::Established
    }

    /// What [`Self::note_progress`] noted.
    pub(crate) fn acked_before(&self) -> Option<u64> {
        self.acked_before
    }

    /// The peer's FIN came instead of an answer, or before the request was sent: what that says about its patience is
    /// learned.
    pub(crate) fn note_end(&self, worker: &Worker) {
        if let Some(lease) = self.lease.as_ref().filter(|lease| lease.is_reused()) {
            let served = lease.meta().requests.saturating_sub(1);
            worker.shared.pool.observe_end(lease.key(), worker.pool_now(), self.idle_ms, served);
        }
    }

    /// The response had a `Keep-Alive` field.
    pub(crate) fn note_keep_alive(&self, value: &[u8], worker: &Worker) {
        if let (Some(lease), Some(timeout_ms)) = (&self.lease, parse_keep_alive(value)) {
            worker.shared.pool.observe_announced(lease.key(), worker.pool_now(), timeout_ms);
        }
    }

    /// Gives the connection back for the next exchange, within the group's limits.
    pub(crate) fn check_in(mut self, worker: &Rc<Worker>) {
        let (Some(mut lease), Some(stream)) = (self.lease.take(), self.stream.take()) else { return };
        if stream.is_readable() {
            // Its end, or bytes that nobody asked for, may have come behind the response; or the last read took exactly
            // what was there. Reading, not looking, makes the stream forget that it was readable: whoever leases the
            // connection next takes that for a sign of its end.
            let reason = match stream.read_with(1, |_| ()) {
                Ok(Read::NotReady) => None,
                Ok(Read::Data(())) => Some(DiscardReason::DataOnIdle),
                Ok(Read::Closed) | Err(_) => Some(DiscardReason::PeerClosedIdle),
            };
            if let Some(reason) = reason {
                if reason == DiscardReason::PeerClosedIdle {
                    let (now, served) = (worker.pool_now(), lease.meta().requests);
                    worker.shared.pool.observe_end(lease.key(), now, 0, served);
                }
                (self.lease, self.stream) = (Some(lease), Some(stream));
                return self.discard(reason);
            }
        }
        let parked = stream.park();
        let id = parked.id();
        lease.connection_mut().parked = Some(parked);
        let now = worker.pool_now();
        match lease.check_in_with(now, |_, token| worker.reactor.label_parked(id, label(token))) {
            CheckIn::Pooled { idle_max_ms, evicted, .. } => {
                worker.expire_pool_by(now.plus(idle_max_ms));
                drop(evicted);
            }
            CheckIn::HandedOver => {}
            CheckIn::Discarded { connection, .. } => drop(connection),
        }
    }

    /// Closes the connection, counted with its reason.
    pub(crate) fn discard(mut self, reason: DiscardReason) {
        self.end(reason);
    }

    fn end(&mut self, reason: DiscardReason) {
        let Some(mut lease) = self.lease.take() else { return };
        if let Some(stream) = self.stream.take()
            && let Some(port) = &mut lease.connection_mut().port
        {
            port.note(stream.leaves_time_wait());
        }
        drop(lease.discard(reason));
    }

    /// Turns it into one side of a tunnel.
    pub(crate) fn into_tunnel(mut self) -> Option<(Bound, TunnelPermit<'static, IdleSocket>)> {
        let (mut connection, permit) = self.lease.take()?.into_tunnel();
        let bound = Bound { stream: Some(self.stream.take()?), port: connection.port.take() };
        Some((bound, permit))
    }
}

impl Drop for Leased {
    fn drop(&mut self) {
        self.end(DiscardReason::Cancelled);
    }
}

/// The upstream's side of a tunnel, with its port.
pub(crate) struct Bound {
    /// `None` once reset.
    stream: Option<Stream>,
    port: Option<PortUse>,
}

impl Bound {
    /// Closes it by a reset, which leaves the port free.
    pub(crate) fn reset(mut self) {
        if let Some(stream) = self.stream.take() {
            stream.reset();
        }
    }
}

impl std::ops::Deref for Bound {
    type Target = Stream;

    fn deref(&self) -> &Stream {
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
