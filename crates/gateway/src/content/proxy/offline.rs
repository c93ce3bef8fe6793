//! A proxied exchange that contacts no upstream: it makes the request for its upstream and chooses the peer, reports both, and
//! ends. `explain` uses it.

use crate::content::cache::lookup::Cached;
use crate::content::proxy::Tries;
use crate::exchange::Exchange;
use crate::exchange::step::{Served, Step};
use crate::exchange::trace::{CacheNote, Event, Tracer};
use crate::plan::cache::CachePlan;
use crate::registry::generation::BoundProxy;
use crate::registry::group::HeldPeers;
use crate::upstream::outgoing_body::OutgoingBody;
use crate::upstream::replay_body::ReplayBody;
use http1::BodyFraming;
use std::future::poll_fn;
use std::pin::pin;
use std::task::Poll;

impl Exchange {
    /// As [`Exchange::proxy`], up to the connection.
    pub(super) async fn proxy_offline<T: Tracer>(&mut self, plan: &BoundProxy, held: HeldPeers, trace: T) -> Step {
        self.begin_call(plan);
        self.upstream.end_caching();
        if let Some(cache) = plan.cache.as_ref().filter(|_| !self.down.wants_tunnel())
            && let Some(step) = self.cache_offline(plan, cache, trace)
        {
            return step;
        }
        let body = self.announced_body(plan);
        if let Err(reply) = self.encode_upstream_head(plan, &body) {
            return Step::Reply(reply);
        }
        trace.note(self, Event::Upstream(plan));
        let mut tries = self.first_try(plan, held);
        let chosen = self.pick_peer_now(plan, &mut tries).await;
        let bound = std::mem::take(&mut tries.choice.bound);
        trace.note(self, Event::Peer { plan, set: tries.set(plan), bound: &bound, chosen });
        self.upstream.leave_seat();
        Step::Served(Served::Responded)
    }

    /// The cache's part in a request. `None`: the upstream is asked.
    fn cache_offline<T: Tracer>(&mut self, plan: &BoundProxy, cache: &CachePlan, trace: T) -> Option<Step> {
        match self.begin_caching(plan, cache) {
            Cached::No => {
                trace.note(self, Event::Cache(CacheNote::Unused));
                None
            }
            Cached::Done(step) => Some(step),
            Cached::Purge(zone, _) => {
                trace.note(self, Event::Cache(CacheNote::Purges { zone: &zone.name }));
                Some(Step::Served(Served::Responded))
            }
            Cached::Yes => {
                let bypasses = self.bypasses(cache);
                trace.note(self, Event::Cache(CacheNote::Looks { bypasses }));
                None
            }
        }
    }

    /// The body as the head of the request announces it. It is neither read nor stored.
    fn announced_body(&self, plan: &BoundProxy) -> OutgoingBody {
        if !self.passes_body(plan) {
            return OutgoingBody::ABSENT;
        }
        if let Some(template) = &plan.set_body {
            return self.configured_body(template);
        }
        match self.intake.body.framing() {
            BodyFraming::Length(length) => OutgoingBody::streamed(ReplayBody::None, Some(length)),
            // A body that is read first has a length once it has been read.
            BodyFraming::Chunked if plan.request_buffering || !plan.http_1_1 => {
                OutgoingBody::streamed(ReplayBody::None, Some(self.intake.body.received))
            }
            BodyFraming::Chunked => OutgoingBody::streamed(ReplayBody::None, None),
            BodyFraming::None => OutgoingBody::ABSENT,
        }
    }

    /// Chooses a peer if that is possible without waiting.
    async fn pick_peer_now(&mut self, plan: &BoundProxy, tries: &mut Tries) -> Option<usize> {
        let mut picking = pin!(self.pick_peer(plan, tries));
        let picked = poll_fn(|context| match picking.as_mut().poll(context) {
            Poll::Ready(picked) => Poll::Ready(picked.ok()),
            Poll::Pending => Poll::Ready(None),
        });
        picked.await
    }
}
