//! Gets a caller a connection: an idle one, one that comes free while its own is being opened, or its own. If
//! `max_connections` are in use, the caller waits in line.

use crate::base::logs::error::{Level, errno};
use crate::connector::connect::connect;
use crate::connector::leased::Leased;
use crate::connector::pending::{ConnectionKey, Handshake};
use crate::connector::{Caller, WaitTimes};
use crate::plan::proxy::SourcePlan;
use crate::plan::tls::PairSource;
use crate::plan::upstream_tls::UpstreamTlsPlan;
use crate::registry::group::BoundPeer;
use crate::registry::named_sides::NamedSides;
use crate::registry::pool::{IdleSocket, UpstreamPool};
use crate::registry::process::wake_token;
use reactor::{ConnectOptions, Woken};
use std::sync::Arc;
use std::time::Duration;
use tls::ClientSide;
use upstream::DiscardReason;
use upstream::balance::Group;
use upstream::retry::Failure;
use upstream::shared::{Checkout, Full, Grant, Open, Seeker};

/// Connections from the waiting line that one request takes over and finds closed. If a peer closes them as fast as
/// they come free, waiting longer is useless.
pub(crate) const LINE_ROUNDS_MAX: usize = 3;

/// How often a request lets the worker's other tasks run before it opens a connection, if one may come free: the first
/// time the tasks of this turn that come after it, the second time those of the next turn. More looks save no more
/// connections (ADR 35), and if no other task is ready each look costs a call of `epoll_wait`.
const LOOKS_MAX: usize = 2;

/// The connection that a caller wants.
#[derive(Clone, Copy)]
pub(crate) struct Wanted<'a> {
    pub(crate) peer: &'a BoundPeer,
    pub(crate) asked: &'a ConnectionKey,
    /// TLS towards the peer; `None` in clear.
    pub(crate) tls: Option<&'a UpstreamTlsPlan>,
    /// TLS settings by certificate, if requests name the certificate.
    pub(crate) sides: Option<&'a Arc<NamedSides>>,
    /// The peer's group, and the peer's index in it.
    pub(crate) group: &'a Arc<Group>,
    pub(crate) index: usize,
    /// How to open a new one.
    pub(crate) connect: &'a ConnectOptions,
    pub(crate) source: &'a SourcePlan,
    pub(crate) connect_timeout: Duration,
    /// How long to wait in line.
    pub(crate) queue_timeout: Duration,
    /// A connection that served other requests is acceptable.
    pub(crate) reused_will_do: bool,
    /// P3: a request lost on a reused connection may only be repeated with the proof that it did not arrive.
    pub(crate) must_prove: bool,
    /// Bytes that a TLS peer gets in clear before the handshake.
    pub(crate) ahead: &'a [u8],
}

impl Wanted<'_> {
    /// Whether a connection that served other requests is acceptable.
    fn may_reuse(&self) -> bool {
        self.reused_will_do && !self.is_own()
    }

    /// Whether no other request may use the connection.
    pub(crate) fn is_own(&self) -> bool {
        !self.asked.is_pooled || matches!(self.source, SourcePlan::Template(_))
    }

    /// Leases the most recently used idle connection without an event since.
    pub(crate) fn lease_idle(&self, caller: &impl Caller) -> Option<Box<Leased>> {
        let thread = caller.thread();
        loop {
            let checkout = thread.registry.pool.checkout(thread.id(), self.asked.key, thread.pool_now())?;
            if let Some(up) = self.take_over(caller, checkout) {
                return Some(up);
            }
        }
    }

    fn seek(&self, caller: &impl Caller) -> Option<Seeker<'static, IdleSocket>> {
        let thread = caller.thread();
        thread.registry.pool.seek(thread.id(), self.asked.key, wake_token(thread.index, caller.task()))
    }

    /// The handshake for a new connection.
    pub(crate) async fn handshake(&self, caller: &impl Caller) -> Result<Option<Handshake>, Failure> {
        let (peer, name) = (self.peer.address.clone(), self.asked.name.clone());
        let Some(tls) = self.tls else { return Ok(None) };
        let side = match (self.sides, &self.asked.certificate) {
            (Some(sides), Some(source)) => find_side(caller, sides, source).await?,
            _ => tls.side.clone(),
        };
        Ok(Some(Handshake { side, peer, name, ahead: self.ahead.to_vec() }))
    }

    /// A connection that came free since the caller seeks one. Seeking ends with the first, even if that one was closed
    /// meanwhile: the caller's own is being opened.
    pub(crate) fn take_free(
        &self,
        caller: &impl Caller,
        seeker: &mut Option<Seeker<'static, IdleSocket>>,
    ) -> Option<Box<Leased>> {
        let checkout = seeker.as_mut()?.poll(caller.thread().pool_now())?;
        *seeker = None;
        self.take_over(caller, checkout)
    }

    /// Takes over a pooled connection for the caller, unless it is known to be closed.
    pub(crate) fn take_over(
        &self,
        caller: &impl Caller,
        checkout: Checkout<'static, IdleSocket>,
    ) -> Option<Box<Leased>> {
        let mut up = match Leased::reuse(checkout, caller.thread(), caller.task()) {
            Ok(up) => up,
            Err(error) => {
                let message = format!("epoll_ctl() failed ({}) while connecting to upstream", errno(&error));
                caller.log_line(Level::Error, &message);
                return None;
            }
        };
        // P1: what the events of this turn have said about it. If a lost race could not be repaired (P3), also what the
        // kernel has learned since.
        if up.is_shared() {
            return Some(up);
        }
        if up.has_news() || (self.must_prove && !up.note_progress()) {
            up.note_end(caller.thread());
            up.discard(DiscardReason::PeerClosedIdle);
            return None;
        }
        Some(up)
    }
}

/// The settings with the certificate that a request names.
async fn find_side(caller: &impl Caller, sides: &Arc<NamedSides>, source: &PairSource) -> Result<ClientSide, Failure> {
    if let Some(side) = sides.cached(source) {
        return Ok(side);
    }
    let (sides, source) = (Arc::clone(sides), source.clone());
    let found = caller.offload(move || sides.find(&source)).await;
    let message = match found {
        Ok(Ok(side)) => return Ok(side),
        Ok(Err(message)) => message,
        Err(error) => format!("cannot load certificate: {error}"),
    };
    caller.log_line(Level::Error, &format!("{message} while SSL handshaking to upstream"));
    Err(Failure::NoCertificate)
}

/// Leases a connection to the peer: an idle one, or a new one.
pub(crate) async fn lease<C: Caller>(
    caller: &C,
    wanted: Wanted<'_>,
    times: &mut WaitTimes,
) -> Result<Box<Leased>, Failure> {
    let thread = caller.thread();
    let pool: &'static UpstreamPool = &thread.registry.pool;
    let mut seeker = None;
    if wanted.may_reuse() {
        if let Some(up) = wanted.lease_idle(caller) {
            return Ok(up);
        }
        seeker = wanted.seek(caller);
        for look in 0..=LOOKS_MAX {
            if let Some(up) = wanted.take_free(caller, &mut seeker) {
                return Ok(up);
            }
            if look == LOOKS_MAX || seeker.is_none() || !pool.may_come_free(wanted.asked.key) {
                break;
            }
            caller.let_others_run().await;
        }
    }
    for _ in 0..LINE_ROUNDS_MAX {
        let permit = match pool.open(thread.id(), wanted.asked.key) {
            Open::Connect { permit, evicted } => {
                drop(evicted);
                permit
            }
            Open::Full { limit, evicted } => {
                drop(evicted);
                // Callers in line are served before callers that seek.
                seeker = None;
                match wait_in_line(caller, wanted, limit, times, || false).await? {
                    None => continue,
                    Some(Grant::Connect(permit)) => {
                        seeker = if wanted.may_reuse() { wanted.seek(caller) } else { None };
                        permit
                    }
                    Some(Grant::Reuse(checkout)) => match wanted.take_over(caller, checkout) {
                        Some(up) => return Ok(up),
                        None => continue,
                    },
                }
            }
        };
        let handshake = wanted.handshake(caller).await?;
        return connect(caller, wanted, permit, seeker, handshake, times).await;
    }
    caller.log_line(Level::Error, "connections that became free were closed by the peer while connecting to upstream");
    Err(Failure::ConnectFailed)
}

/// All permitted connections are in use: waits for one, in the order of arrival, as long as the line permits. `None`:
/// `is_served` says that the caller got what it needs elsewhere.
pub(crate) async fn wait_in_line<C: Caller>(
    caller: &C,
    wanted: Wanted<'_>,
    limit: Full,
    times: &mut WaitTimes,
    is_served: impl Fn() -> bool,
) -> Result<Option<Grant<'static, IdleSocket>>, Failure> {
    let thread = caller.thread();
    let token = wake_token(thread.index, caller.task());
    let Ok(mut waiter) = thread.registry.pool.wait(thread.id(), wanted.asked.key, token) else {
        let message = format!("upstream connection limit reached ({limit:?}) while connecting to upstream");
        caller.log_line(Level::Error, &message);
        return Err(Failure::NotAdmitted);
    };
    let began = thread.reactor.now();
    let end = loop {
        if let Some(grant) = waiter.poll() {
            break Ok(Some(grant));
        }
        if is_served() {
            break Ok(None);
        }
        let waited = Duration::from_millis(thread.reactor.now().since(began));
        let Some(left) = wanted.queue_timeout.checked_sub(waited).filter(|left| !left.is_zero()) else {
            let message = format!("no upstream connection became free ({limit:?}) while connecting to upstream");
            caller.log_line(Level::Error, &message);
            break Err(Failure::NotAdmitted);
        };
        if caller.wait_for(None, left).await == Woken::PeerGone {
            break Err(Failure::ClientGone);
        }
    };
    *times.queue_ms.get_or_insert(0) += thread.reactor.now().since(began);
    end
}
