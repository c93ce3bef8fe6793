//! Which connection an attempt gets: an idle one, one that comes free while its own is being opened, or its own.

use crate::base::logs::error::errno;
use crate::connector::leased::Leased;
use crate::content::proxy::Tries;
use crate::exchange::Exchange;
use crate::plan::generation::{ProxyPlan, SourcePlan};
use crate::registry::group::PeerPlan;
use crate::registry::pool::{IdleSocket, UpstreamPool};
use crate::registry::shared::wake_token;
use upstream::DiscardReason;
use upstream::retry::Failure;
use upstream::shared::{Checkout, Grant, Open, Seeker};

/// Connections from the waiting line that one request takes over and finds closed. A peer that closes them as fast as they
/// come free is no peer to wait for.
const LINE_ROUNDS_MAX: usize = 3;

/// How often a request lets the worker's other tasks run before it opens a connection, where one may come free: the first
/// time those of this turn that come behind it, the second time those of the next. More looks save no more connections
/// (ADR 35), and where nothing else runs each is a call of `epoll_wait`.
const LOOKS_MAX: usize = 2;

/// Where an attempt goes.
#[derive(Clone, Copy)]
pub(crate) struct Aim<'a> {
    pub(crate) plan: &'a ProxyPlan,
    pub(crate) tries: &'a Tries,
    /// The peer's number in its group.
    pub(crate) index: usize,
    pub(crate) peer: &'a PeerPlan,
}

impl Aim<'_> {
    /// P3: what is lost with a reused connection can only be repeated with the proof that it did not arrive.
    fn must_prove(&self) -> bool {
        self.plan.retry_unsent && !self.tries.idempotent
    }

    /// Whether a connection that served others will do. What was lost on one is repeated on a fresh one.
    fn may_reuse(&self) -> bool {
        !self.tries.fresh_used && !self.is_own()
    }

    /// Whether the connection is the request's alone.
    pub(crate) fn is_own(&self) -> bool {
        !self.peer.is_pooled || matches!(self.plan.source, SourcePlan::Template(_))
    }
}

impl Exchange {
    /// A connection to the peer: an idle one, or a new one.
    pub(crate) async fn lease(&mut self, to: Aim<'_>) -> Result<Leased, Failure> {
        let pool: &'static UpstreamPool = &self.thread.shared.pool;
        let mut seeker = None;
        if to.may_reuse() {
            if let Some(up) = self.lease_idle(to) {
                return Ok(up);
            }
            seeker = self.seek(to);
            for look in 0..=LOOKS_MAX {
                if let Some(up) = self.take_free(to, &mut seeker) {
                    return Ok(up);
                }
                if look == LOOKS_MAX || seeker.is_none() || !pool.may_come_free(to.peer.key) {
                    break;
                }
                self.yield_now().await;
            }
        }
        for _ in 0..LINE_ROUNDS_MAX {
            let permit = match pool.open(self.thread.id(), to.peer.key) {
                Open::Connect { permit, evicted } => {
                    drop(evicted);
                    permit
                }
                Open::Full { limit, evicted } => {
                    drop(evicted);
                    // Who stands in line is served before those who seek.
                    seeker = None;
                    match self.wait_in_line(to.plan, to.peer, limit).await? {
                        Grant::Connect(permit) => {
                            seeker = if to.may_reuse() { self.seek(to) } else { None };
                            permit
                        }
                        Grant::Reuse(checkout) => match self.take_over(to, checkout) {
                            Some(up) => return Ok(up),
                            None => continue,
                        },
                    }
                }
            };
            return self.connect(to, permit, seeker).await;
        }
        self.error_log("connections that became free were closed by the peer while connecting to upstream");
        Err(Failure::ConnectFailed)
    }

    /// The most recently used idle connection that has not been heard of since.
    fn lease_idle(&self, to: Aim<'_>) -> Option<Leased> {
        let pool = &self.thread.shared.pool;
        loop {
            let checkout = pool.checkout(self.thread.id(), to.peer.key, self.thread.pool_now())?;
            if let Some(up) = self.take_over(to, checkout) {
                return Some(up);
            }
        }
    }

    fn seek(&self, to: Aim<'_>) -> Option<Seeker<'static, IdleSocket>> {
        let token = wake_token(self.thread.index, self.task());
        self.thread.shared.pool.seek(self.thread.id(), to.peer.key, token)
    }

    /// A connection that has come free since this exchange seeks one. Seeking ends with the first, even if that one has
    /// been closed meanwhile: the exchange's own is on its way.
    pub(crate) fn take_free(&self, to: Aim<'_>, seeker: &mut Option<Seeker<'static, IdleSocket>>) -> Option<Leased> {
        let checkout = seeker.as_mut()?.poll(self.thread.pool_now())?;
        *seeker = None;
        self.take_over(to, checkout)
    }

    /// A pooled connection for this exchange, unless its end is known already.
    pub(crate) fn take_over(&self, to: Aim<'_>, checkout: Checkout<'static, IdleSocket>) -> Option<Leased> {
        let mut up = match Leased::reuse(checkout, &self.thread, self.task()) {
            Ok(up) => up,
            Err(error) => {
                self.error_log(&format!("epoll_ctl() failed ({}) while connecting to upstream", errno(&error)));
                return None;
            }
        };
        // P1: what the events of this turn have said about it; and where a lost race could not be made good (P3), what
        // the kernel has learned since.
        if up.stream().is_readable() || (to.must_prove() && !up.note_progress()) {
            up.note_end(&self.thread);
            up.discard(DiscardReason::PeerClosedIdle);
            return None;
        }
        Some(up)
    }
}
