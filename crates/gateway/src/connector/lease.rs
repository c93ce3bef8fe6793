//! Which connection a caller gets: an idle one, one that comes free while its own is being opened, or its own. Where all that
//! `max_connections` permits are in use, it waits in line.

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

/// Connections from the waiting line that one request takes over and finds closed. A peer that closes them as fast as they
/// come free is no peer to wait for.
pub(crate) const LINE_ROUNDS_MAX: usize = 3;

/// How often a request lets the worker's other tasks run before it opens a connection, where one may come free: the first
/// time those of this turn that come behind it, the second time those of the next. More looks save no more connections
/// (ADR 35), and where nothing else runs each is a call of `epoll_wait`.
const LOOKS_MAX: usize = 2;

/// The connection that a caller wants.
#[derive(Clone, Copy)]
pub(crate) struct Wanted<'a> {
    pub(crate) peer: &'a BoundPeer,
    pub(crate) asked: &'a ConnectionKey,
    /// TLS that is spoken to it; `None` in clear.
    pub(crate) tls: Option<&'a UpstreamTlsPlan>,
    /// Where requests name the certificate.
    pub(crate) sides: Option<&'a Arc<NamedSides>>,
    /// The peer's group, and its number there.
    pub(crate) group: &'a Arc<Group>,
    pub(crate) index: usize,
    /// How a new one is opened.
    pub(crate) connect: &'a ConnectOptions,
    pub(crate) source: &'a SourcePlan,
    pub(crate) connect_timeout: Duration,
    /// How long to wait in line.
    pub(crate) queue_timeout: Duration,
    /// One that has served others will do.
    pub(crate) reused_will_do: bool,
    /// P3: what is lost with a reused connection can only be repeated with the proof that it did not arrive.
    pub(crate) must_prove: bool,
    /// What a peer that speaks TLS gets in clear before the handshake.
    pub(crate) ahead: &'a [u8],
}

impl Wanted<'_> {
    /// Whether a connection that served others will do.
    fn may_reuse(&self) -> bool {
        self.reused_will_do && !self.is_own()
    }

    /// Whether the connection is the request's alone.
    pub(crate) fn is_own(&self) -> bool {
        !self.asked.is_pooled || matches!(self.source, SourcePlan::Template(_))
    }

    /// The most recently used idle connection without an event since.
    pub(crate) fn lease_idle(&self, caller: &impl Caller) -> Option<Box<Leased>> {
        let thread = caller.thread();
        loop {
            let checkout = thread.shared.pool.checkout(thread.id(), self.asked.key, thread.pool_now())?;
            if let Some(up) = self.take_over(caller, checkout) {
                return Some(up);
            }
        }
    }

    fn seek(&self, caller: &impl Caller) -> Option<Seeker<'static, IdleSocket>> {
        let thread = caller.thread();
        thread.shared.pool.seek(thread.id(), self.asked.key, wake_token(thread.index, caller.task()))
    }

    /// The handshake of a new connection.
    pub(crate) async fn handshake(&self, caller: &impl Caller) -> Result<Option<Handshake>, Failure> {
        let (peer, name) = (self.peer.address.clone(), self.asked.name.clone());
        let Some(tls) = self.tls else { return Ok(None) };
        let side = match (self.sides, &self.asked.certificate) {
            (Some(sides), Some(source)) => find_side(caller, sides, source).await?,
            _ => tls.side.clone(),
        };
        Ok(Some(Handshake { side, peer, name, ahead: self.ahead.to_vec() }))
    }

    /// A connection that has come free since the caller seeks one. Seeking ends with the first, even if that one has been
    /// closed meanwhile: the caller's own is on its way.
    pub(crate) fn take_free(
        &self,
        caller: &impl Caller,
        seeker: &mut Option<Seeker<'static, IdleSocket>>,
    ) -> Option<Box<Leased>> {
        let checkout = seeker.as_mut()?.poll(caller.thread().pool_now())?;
        *seeker = None;
        self.take_over(caller, checkout)
    }

    /// A pooled connection for the caller, unless its end is known already.
    pub(crate) fn take_over(
        &self,
        caller: &impl Caller,
        checkout: Checkout<'static, IdleSocket>,
    ) -> Option<Box<Leased>> {
        let mut up = match Leased::reuse(checkout, caller.thread(), caller.task()) {
            Ok(up) => up,
            Err(error) => {
                let message = format!("epoll_ctl() failed ({}) while connecting to upstream", errno(&error));
                caller.say(Level::Error, &message);
                return None;
            }
        };
        // P1: what the events of this turn have said about it; and where a lost race could not be made good (P3), what
        // the kernel has learned since.
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
    caller.say(Level::Error, &format!("{message} while SSL handshaking to upstream"));
    Err(Failure::NoCertificate)
}

/// A connection to the peer: an idle one, or a new one.
pub(crate) async fn lease<C: Caller>(
    caller: &C,
    wanted: Wanted<'_>,
    times: &mut WaitTimes,
) -> Result<Box<Leased>, Failure> {
    let thread = caller.thread();
    let pool: &'static UpstreamPool = &thread.shared.pool;
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
                // Who is in line is served before those who seek.
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
    caller.say(Level::Error, "connections that became free were closed by the peer while connecting to upstream");
    Err(Failure::ConnectFailed)
}

/// Every permitted connection is in use: waits for one, in the order of arrival, as long as the line permits. `None`: the caller has got
/// elsewhere what it waits for, as `is_served` says.
pub(crate) async fn wait_in_line<C: Caller>(
    caller: &C,
    wanted: Wanted<'_>,
    limit: Full,
    times: &mut WaitTimes,
    is_served: impl Fn() -> bool,
) -> Result<Option<Grant<'static, IdleSocket>>, Failure> {
    let thread = caller.thread();
    let token = wake_token(thread.index, caller.task());
    let Ok(mut waiter) = thread.shared.pool.wait(thread.id(), wanted.asked.key, token) else {
        let message = format!("upstream connection limit reached ({limit:?}) while connecting to upstream");
        caller.say(Level::Error, &message);
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
            caller.say(Level::Error, &message);
            break Err(Failure::NotAdmitted);
        };
        if caller.wait_for(None, left).await == Woken::PeerGone {
            break Err(Failure::ClientGone);
        }
    };
    *times.queue_ms.get_or_insert(0) += thread.reactor.now().since(began);
    end
}
