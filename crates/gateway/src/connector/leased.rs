//! A connection to a peer while an exchange uses it, and its return to the pool.

use crate::registry::generation::BoundTunnel;
use crate::registry::pool::{Bound, IdleSocket, label};
use crate::registry::ports::PortUse;
use crate::thread::WorkerThread;
use reactor::{Read, TaskId, TcpState};
use std::io;
use std::sync::Arc;
use transport::{ParkedTransport, Transport};
use upstream::learn::parse_keep_alive;
use upstream::shared::{CheckIn, Checkout, Connecting, IdleToken, KeyId, Lease, Meta, Removed};
use upstream::streams::Earlier;
use upstream::{DiscardReason, Millis};

/// For a connection without a lease.
const NOTHING_EARLIER: Earlier = Earlier { requests: 0, opened: Millis(0), allowed: None };

/// Bytes read at once to find out whether what arrived under TLS is data.
const IDLE_READ_BYTES: usize = 16 * 1024;

/// An upstream connection during an exchange: the lease and the socket. If it is dropped without being settled (the
/// exchange was cancelled), it is discarded with that reason. Boxed where it is made: each step of an attempt hands it
/// on, and copying it took more instructions than the allocation.
pub(crate) struct Leased {
    /// `None` once settled.
    lease: Option<Lease<'static, IdleSocket>>,
    stream: Option<Transport>,
    /// Bytes that the peer had acknowledged when it was leased, if that was noted.
    acked_before: Option<u64>,
    /// Milliseconds for which it was idle before this lease.
    idle_ms: u64,
    /// Only this request may use it: `proxy_bind` has a variable.
    is_own: bool,
}

impl Leased {
    /// Takes over a pooled connection for a task.
    pub(crate) fn reuse(
        mut checkout: Checkout<'static, IdleSocket>,
        thread: &WorkerThread,
        task: TaskId,
    ) -> io::Result<Box<Self>> {
        let parked = checkout.lease.connection_mut().parked.take();
        let unparked = match parked {
            Some(parked) => parked.unpark(&thread.reactor, task),
            None => Err(io::Error::other("a pooled connection without a socket")),
        };
        match unparked {
            Ok(stream) => {
                let idle_ms = thread.pool_now().since(checkout.idle_since);
                Ok(Box::new(Self {
                    lease: Some(checkout.lease),
                    stream: Some(stream),
                    acked_before: None,
                    idle_ms,
                    is_own: false,
                }))
            }
            Err(error) => {
                drop(checkout.lease.discard(DiscardReason::Error));
                Err(error)
            }
        }
    }

    /// Wraps a connection that was just established.
    pub(crate) fn fresh(
        permit: Connecting<'static, IdleSocket>,
        stream: Transport,
        port: Option<PortUse>,
        is_own: bool,
        now: Millis,
    ) -> Box<Self> {
        let lease = permit.established(IdleSocket { parked: None, port, engine: None }, now);
        Box::new(Self { lease: Some(lease), stream: Some(stream), acked_before: None, idle_ms: 0, is_own })
    }

    /// The socket.
    pub(crate) fn stream(&self) -> &Transport {
        self.stream.as_ref().expect("only consuming methods take the stream")
    }

    /// Whether it has served an exchange before this one.
    pub(crate) fn is_reused(&self) -> bool {
        self.lease.as_ref().is_some_and(Lease::is_reused)
    }

    /// Whether only this request may use it; it is not reused.
    pub(crate) fn is_own(&self) -> bool {
        self.is_own
    }

    /// Notes what the peer has acknowledged so far, for a request that may be repeated only if it provably did not
    /// arrive. `false`: the kernel has seen the peer's FIN or a reset, so nothing should be sent. A socket that is not
    /// TCP has neither, and no proof either.
    pub(crate) fn note_progress(&mut self) -> bool {
        let Some(progress) = self.stream().progress() else { return true };
        self.acked_before = Some(progress.acked_bytes);
        progress.state == TcpState::Established
    }

    /// Whether something unexpected arrived: the end of the stream, or data. TLS session tickets are neither.
    pub(crate) fn has_news(&self) -> bool {
        let stream = self.stream();
        stream.is_readable()
            && !(stream.is_secure() && matches!(stream.read_with(IDLE_READ_BYTES, |_| ()), Ok(Read::NotReady)))
    }

    /// The value that [`Self::note_progress`] noted.
    pub(crate) fn acked_before(&self) -> Option<u64> {
        self.acked_before
    }

    /// Learns the peer's idle timeout from a FIN that came instead of an answer, or before the request was sent.
    pub(crate) fn note_end(&self, thread: &WorkerThread) {
        if let Some(lease) = self.lease.as_ref().filter(|lease| lease.is_reused()) {
            let served = lease.meta().requests.saturating_sub(1);
            thread.registry.pool.observe_end(lease.key(), thread.pool_now(), self.idle_ms, served);
        }
    }

    /// Learns from the response's `Keep-Alive` field.
    pub(crate) fn note_keep_alive(&self, value: &[u8], thread: &WorkerThread) {
        if let (Some(lease), Some(timeout_ms)) = (&self.lease, parse_keep_alive(value)) {
            thread.registry.pool.observe_announced(lease.key(), thread.pool_now(), timeout_ms);
        }
    }

    /// Returns the connection to the pool, within the group's limits.
    pub(crate) fn check_in(mut self, thread: &WorkerThread) {
        let (Some(mut lease), Some(stream)) = (self.lease.take(), self.stream.take()) else { return };
        if stream.is_readable() {
            // The end of the stream or unexpected bytes may have come after the response; or the last read took exactly
            // all bytes. Reading, not peeking, clears the stream's readable state: the next lease would take that state
            // as a sign of its end.
            let most = if stream.is_secure() { IDLE_READ_BYTES } else { 1 };
            let reason = match stream.read_with(most, |_| ()) {
                Ok(Read::NotReady) => None,
                Ok(Read::Data(())) => Some(DiscardReason::DataOnIdle),
                Ok(Read::Closed) | Err(_) => Some(DiscardReason::PeerClosedIdle),
            };
            if let Some(reason) = reason {
                if reason == DiscardReason::PeerClosedIdle {
                    let (now, served) = (thread.pool_now(), lease.meta().requests);
                    thread.registry.pool.observe_end(lease.key(), now, 0, served);
                }
                (self.lease, self.stream) = (Some(lease), Some(stream));
                return self.discard(reason);
            }
        }
        park(stream, thread, |parked, now, register| {
            lease.connection_mut().parked = Some(parked);
            lease.check_in_with(now, register)
        });
    }

    /// Counts another exchange that starts on it while others are under way.
    pub(crate) fn count_exchange(&mut self) {
        if let Some(lease) = &mut self.lease {
            lease.count_exchange();
        }
    }

    /// What it had carried before this lease.
    pub(crate) fn earlier(&self) -> Earlier {
        self.lease.as_ref().map_or(NOTHING_EARLIER, |lease| {
            let meta = lease.meta();
            let requests = meta.requests.saturating_sub(1);
            Earlier { requests, opened: meta.created_at, ..NOTHING_EARLIER }
        })
    }

    /// Its key in the pool.
    pub(crate) fn key(&self) -> Option<KeyId> {
        self.lease.as_ref().map(Lease::key)
    }

    /// Whether it speaks HTTP/2 and comes from the pool. Its peer may have sent frames.
    pub(crate) fn is_shared(&self) -> bool {
        self.lease.as_ref().is_some_and(|lease| lease.connection().engine.is_some())
    }

    /// The HTTP/2 engine that it had while idle.
    pub(crate) fn take_engine(&mut self) -> Option<Box<http2::Connection>> {
        self.lease.as_mut()?.connection_mut().engine.take()
    }

    /// Like [`Self::check_in`], for an HTTP/2 connection that has no streams and was read until the socket was empty.
    pub(crate) fn check_in_shared(mut self, engine: Box<http2::Connection>, thread: &WorkerThread) {
        let (Some(mut lease), Some(stream)) = (self.lease.take(), self.stream.take()) else { return };
        park(stream, thread, |parked, now, register| {
            let connection = lease.connection_mut();
            (connection.parked, connection.engine) = (Some(parked), Some(engine));
            lease.check_in_with(now, register)
        });
    }

    /// Closes the connection and counts the reason.
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
    pub(crate) fn into_tunnel(mut self, plan: Arc<BoundTunnel>) -> Option<Bound> {
        let (mut connection, permit) = self.lease.take()?.into_tunnel();
        Some(Bound::new(self.stream.take()?, plan, connection.port.take(), Some(permit)))
    }
}

impl Drop for Leased {
    fn drop(&mut self) {
        self.end(DiscardReason::Cancelled);
    }
}

/// Closes an idle connection that the peer has ended, and learns the peer's idle timeout from it.
pub(crate) fn close_ended(removed: Removed<IdleSocket>, thread: &WorkerThread) {
    if removed.reason == DiscardReason::PeerClosedIdle {
        let now = thread.pool_now();
        if removed.meta.requests == 0 {
            // How long a peer waits for a first request says nothing about how long it waits for the next.
            thread.pauses.refused(removed.key, thread.reactor.now());
            return drop(removed);
        }
        let idle_ms = now.since(removed.idle_since);
        thread.registry.pool.observe_end(removed.key, now, idle_ms, removed.meta.requests);
    }
    drop(removed);
}

/// Pools a connection that was opened ahead of demand, before its first exchange.
pub(crate) fn pool_before_use(
    permit: Connecting<'static, IdleSocket>,
    stream: Transport,
    port: Option<PortUse>,
    thread: &WorkerThread,
) {
    park(stream, thread, |parked, now, register| {
        permit.established_idle(IdleSocket { parked: Some(parked), port, engine: None }, now, register)
    });
}

/// Pools a connection of another process, with its age and use and when it became idle.
pub(crate) fn pool_taken_over(
    permit: Connecting<'static, IdleSocket>,
    stream: Transport,
    port: Option<PortUse>,
    (meta, idle_since): (Meta, Millis),
    thread: &WorkerThread,
) {
    park(stream, thread, |parked, _, register| {
        let connection = IdleSocket { parked: Some(parked), port, engine: None };
        permit.taken_over(connection, meta, idle_since, register)
    });
}

/// Parks a connection and gives it to the pool by `check_in`, which registers it under its token.
fn park(
    stream: Transport,
    thread: &WorkerThread,
    check_in: impl FnOnce(ParkedTransport, Millis, &dyn Fn(&IdleSocket, IdleToken)) -> CheckIn<IdleSocket>,
) {
    let parked = stream.park();
    let (id, now) = (parked.id(), thread.pool_now());
    match check_in(parked, now, &|_, token| thread.reactor.label_parked(id, label(token))) {
        CheckIn::Pooled { idle_max_ms, evicted, .. } => {
            thread.expire_pool_by(now.plus(idle_max_ms));
            drop(evicted);
        }
        CheckIn::HandedOver => {}
        CheckIn::Discarded { connection, .. } => drop(connection),
    }
}
