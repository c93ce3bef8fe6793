//! The proxied exchange: tries peers until one answers or no attempt is left. `attempt` makes one attempt, `relay`
//! passes on the response's body, and `upstream::retry` decides which failure leads to another attempt.

pub(crate) mod accel;
pub(crate) mod again;
pub(crate) mod application;
pub(crate) mod attempt;
pub(crate) mod behind;
pub(crate) mod deadline;
pub(crate) mod early_hints;
pub(crate) mod forced_range;
pub(crate) mod grpc;
pub(crate) mod memcached;
pub(crate) mod name_lookup;
pub(crate) mod offline;
pub(crate) mod relay;
pub(crate) mod request_body;
pub(crate) mod request_head;
pub(crate) mod response_head;
pub(crate) mod rewritten;
pub(crate) mod save;
pub(crate) mod sticky;
pub(crate) mod switching;
pub(crate) mod unsent;

use crate::base::cells::Counted;
use crate::connector::choose::{Choice, ChoiceInputs, Chosen, ClientNetwork, NoPeer, choose};
use crate::connector::lease::Wanted;
use crate::connector::pending::ConnectionKey;
use crate::connector::tries::{TriesPlan, judge_attempt, outcome_of, report};
use crate::content::cache::CacheUse;
use crate::content::cache::lookup::Consulted;
use crate::content::proxy::again::pause_ms;
use crate::content::proxy::attempt::{AttemptEnd, Sent};
use crate::content::proxy::sticky::LearnAt;
use crate::exchange::Exchange;
use crate::exchange::attempts::{AttemptRecord, NO_PEER};
use crate::exchange::reply::Reply;
use crate::exchange::step::{Served, Step};
use crate::exchange::trace::Tracer;
use crate::exchange::view::ExchangeView;
use crate::registry::generation::BoundProxy;
use crate::registry::group::{BoundPeer, HeldPeers, PeerSet};
use crate::upstream::outgoing_body::OutgoingBody;
use reactor::{Millis, Woken};
use std::borrow::Cow;
use std::hash::{BuildHasher as _, RandomState};
use upstream::balance::{Outcome, Seat};
use upstream::retry::{self, Attempt, Decision, Failure, Verdict};

/// State that one proxied exchange keeps between its attempts.
pub(crate) struct Tries {
    pub(crate) choice: Choice,
    pub(crate) first_at: Millis,
    pub(crate) made: u32,
    /// The next attempt goes to this peer on a fresh connection.
    pub(crate) fresh_on: Option<usize>,
    pub(crate) fresh_used: bool,
    pub(crate) idempotent: bool,
    /// The upstream was asked by HEAD: its response has no body, even if its head states a length.
    pub(crate) asks_for_head: bool,
}

/// The result of asking the upstream.
enum Tried {
    Step(Step),
    /// Send the cached response.
    Cached(CacheUse),
}

impl Tried {
    /// The step, for a proxy without a cache.
    fn without_cache(self) -> Step {
        match self {
            Self::Step(step) => step,
            Self::Cached(_) => Step::Reply(Reply::error(500)),
        }
    }
}

impl Tries {
    pub(crate) fn set<'a>(&'a self, plan: &'a BoundProxy) -> Option<&'a PeerSet> {
        plan.group.members.of(&self.choice.held)
    }

    /// The connection that an attempt at this peer needs.
    pub(crate) fn wanted<'a>(
        &'a self,
        plan: &'a BoundProxy,
        index: usize,
        asked: &'a ConnectionKey,
    ) -> Option<Wanted<'a>> {
        let set = self.set(plan)?;
        Some(Wanted {
            peer: set.peers.get(index)?,
            asked,
            tls: plan.tls.as_ref(),
            sides: plan.sides.as_ref(),
            group: &set.balance,
            index,
            connect: &plan.connect,
            source: &plan.source,
            connect_timeout: plan.connect_timeout,
            queue_timeout: plan.group.queue_timeout,
            // A request lost on a reused connection is repeated on a fresh one.
            reused_will_do: !self.fresh_used,
            must_prove: plan.retry_unsent && !self.idempotent,
            ahead: &[],
        })
    }

    /// A peer by its index.
    pub(crate) fn peer<'a>(&'a self, plan: &'a BoundProxy, index: usize) -> Option<&'a BoundPeer> {
        self.set(plan)?.peers.get(index)
    }
}

/// `$upstream_status` of a failed attempt: as in nginx, the status that the client would get if it were the last
/// attempt. `None` if the peer has not failed.
fn failed_status(failure: Failure) -> Option<u16> {
    Some(match failure {
        Failure::Status(status) => status,
        Failure::ConnectTimeout | Failure::Timeout => 504,
        Failure::ClientGone => return None,
        Failure::NoCertificate => 500,
        Failure::NoSocket | Failure::NoLocalPort => 503,
        Failure::ConnectFailed
        | Failure::ClosedBeforeHead
        | Failure::ClosedInsideHead
        | Failure::InvalidHeader
        | Failure::GoneAway
        | Failure::StreamRefused
        | Failure::NoLivePeer
        | Failure::NotAdmitted => 502,
    })
}

impl Exchange {
    /// Proxies the request. `held` are the peers of a group that may be replaced meanwhile.
    pub(crate) async fn proxy<T: Tracer>(&mut self, plan: &BoundProxy, held: HeldPeers, trace: T) -> Step {
        if T::OFFLINE {
            return Box::pin(self.proxy_offline(plan, held, trace)).await;
        }
        self.upstream.ignore_abort(false);
        if let Some(refusal) = self.refuse_method(plan) {
            return Step::Reply(refusal);
        }
        self.begin_call(plan);
        let body = match self.take_body(plan).await {
            Ok(body) => body,
            Err(reply) => return self.end_call(plan, Tried::Step(Step::Reply(reply))).without_cache(),
        };
        self.upstream.end_caching();
        // As in nginx, a response that may be saved is received to its end, even if its client has left.
        self.upstream.ignore_abort(plan.ignore_client_abort || plan.store.is_some());
        let Some(cache) = plan.cache.as_ref().filter(|_| !self.down.wants_tunnel()) else {
            return self.ask_upstream(plan, held, &body).await.without_cache();
        };
        // What the cache sends has no limit.
        self.upstream.end_call();
        let because = match Box::pin(self.consult_cache(plan, cache)).await {
            Consulted::Done(step) => {
                self.leave_cache();
                return step;
            }
            Consulted::Send => None,
            Consulted::Ask => {
                // As in nginx, a response that may be stored is received to its end, even if its client has left.
                let is_ignored = self.upstream.ignores_abort() || self.is_cacheable();
                self.upstream.ignore_abort(is_ignored);
                match self.ask_upstream(plan, held, &body).await {
                    Tried::Step(step) => {
                        self.leave_cache();
                        return step;
                    }
                    Tried::Cached(because) => Some(because),
                }
            }
        };
        let step = Box::pin(self.send_cached(plan, because)).await;
        self.leave_cache();
        step
    }

    /// Asks the upstream after the cache had no answer.
    async fn ask_upstream(&mut self, plan: &BoundProxy, held: HeldPeers, body: &OutgoingBody) -> Tried {
        self.begin_call(plan);
        if let Err(reply) = self.encode_upstream_head(plan, body) {
            return self.end_call(plan, Tried::Step(Step::Reply(reply)));
        }
        self.note_asked();
        self.upstream.begin_proxy();
        let mut tries = self.first_try(plan, held);
        let tried = self.try_peers(plan, body, &mut tries).await;
        self.upstream.leave_seat();
        self.end_call(plan, tried)
    }

    /// The state before the first attempt.
    pub(super) fn first_try(&self, plan: &BoundProxy, held: HeldPeers) -> Tries {
        Tries {
            choice: Choice { held, bound: self.bound_to(plan), ..Choice::default() },
            first_at: self.thread.reactor.now(),
            made: 0,
            fresh_on: None,
            fresh_used: false,
            idempotent: retry::is_idempotent(self.method_name()) && retry::is_idempotent(self.upstream_method(plan)),
            asks_for_head: self.upstream_method(plan) == b"HEAD",
        }
    }

    async fn try_peers(&mut self, plan: &BoundProxy, body: &OutgoingBody, tries: &mut Tries) -> Tried {
        loop {
            let index = match self.pick_peer(plan, tries).await {
                Ok(index) => index,
                Err(no_peer) => return self.without_peer(plan, tries, no_peer),
            };
            if let Some(refusal) = self.refuse_undecided() {
                return Tried::Step(Step::Reply(refusal));
            }
            if let Err(reply) = self.renew_call_time(plan, body, tries) {
                return Tried::Step(Step::Reply(reply));
            }
            tries.made += u32::from(tries.fresh_on.take().is_none());
            let end = self.attempt(plan, index, body, tries).await;
            self.count_attempt(tries.peer(plan, index), matches!(end, AttemptEnd::Failed { .. }));
            self.end_attempt();
            match end {
                AttemptEnd::Served => {
                    self.report(plan, tries, index, Outcome::Succeeded);
                    self.learn_times(plan, tries, index);
                    self.learn_session(plan, tries, index, LearnAt::End);
                    return Tried::Step(Step::Served(Served::Responded));
                }
                AttemptEnd::Reply(reply) => return Tried::Step(Step::Reply(reply)),
                AttemptEnd::Tunnel(mut start) => {
                    // The peer has answered; the tunnel itself does not count for its health.
                    self.report(plan, tries, index, Outcome::Succeeded);
                    self.learn_session(plan, tries, index, LearnAt::End);
                    start.seat = self.upstream.hand_over_seat().map(Seat::into_tunnel).unwrap_or_default();
                    return Tried::Step(Step::Served(Served::Tunnel(start)));
                }
                AttemptEnd::Intercepted(step) => {
                    self.report(plan, tries, index, Outcome::Succeeded);
                    return Tried::Step(*step);
                }
                AttemptEnd::Cached(because) => {
                    self.report(plan, tries, index, Outcome::Succeeded);
                    return Tried::Cached(because);
                }
                AttemptEnd::Failed { failure, sent } => {
                    if let Some(record) = self.upstream.attempt_mut() {
                        record.failure = Some(failure);
                        record.status = failed_status(failure).unwrap_or(record.status);
                    }
                    if self.is_call_over() {
                        // The time counts from the client's head, so no peer is blamed.
                        self.report(plan, tries, index, Outcome::Neutral);
                        return Tried::Step(Step::Reply(Reply::error(504)));
                    }
                    let verdict = self.judge(plan, failure, sent, tries);
                    if let Some(tried) = self.after_failure(plan, index, failure, verdict, tries) {
                        return tried;
                    }
                    if self.pause_tries(plan, tries).await == Woken::PeerGone {
                        return Tried::Step(self.client_left());
                    }
                }
            }
        }
    }

    /// Updates the time that a call has left, for each attempt.
    fn renew_call_time(&mut self, plan: &BoundProxy, body: &OutgoingBody, tries: &Tries) -> Result<(), Reply> {
        match self.call_time_left() {
            Some(left) if left.is_zero() => Err(Reply::error(504)),
            Some(_) if plan.is_grpc && (tries.made > 0 || self.thread.reactor.now() > tries.first_at) => {
                self.encode_upstream_head(plan, body)
            }
            _ => Ok(()),
        }
    }

    /// Chooses the peer of the next attempt; the exchange keeps the seat while it uses the peer.
    pub(super) async fn pick_peer(&mut self, plan: &BoundProxy, tries: &mut Tries) -> Result<usize, NoPeer> {
        if let Some(index) = tries.fresh_on {
            return Ok(index);
        }
        // Releases the last attempt's peer before the next one is chosen.
        self.upstream.leave_seat();
        let this = &*self;
        let inputs = |wants_chance: bool| {
            let mut hash_key = Vec::new();
            if let Some(template) = &plan.group.hash_key {
                template.write(&ExchangeView::of(this), &mut hash_key);
            }
            let random = if wants_chance { this.chance() } else { 0 };
            ChoiceInputs { client: ClientNetwork::of(this.client()), hash_key, random }
        };
        let Chosen { index, seat } = loop {
            match choose(this, &plan.group, &mut tries.choice, inputs).await {
                Err(NoPeer::NoLive) if tries.begin_again(plan) => {}
                chosen => break chosen?,
            }
        };
        self.upstream.take_seat(seat);
        Ok(index)
    }

    /// No peer is available for an attempt: logs it and gives the answer.
    fn without_peer(&mut self, plan: &BoundProxy, tries: &Tries, no_peer: NoPeer) -> Tried {
        let reason = match no_peer {
            NoPeer::NoLive => Cow::Borrowed("no live upstreams"),
            NoPeer::QueueFull { length } => {
                Cow::Owned(format!("no live upstreams, and {length} requests are queued already"))
            }
            NoPeer::QueueTimeout => {
                let waited = plan.group.queue_timeout;
                Cow::Owned(format!("no live upstreams, and the request was queued for {waited:?}"))
            }
            NoPeer::ClientGone => return Tried::Step(self.client_left()),
        };
        plan.group.cells.count_no_live_peer(self.thread.index);
        let lacks_endpoints = || {
            let is_empty = tries.set(plan).is_some_and(|set| set.peers.is_empty());
            is_empty && plan.group.moving.as_ref().is_some_and(|moving| moving.is_of_own_names())
        };
        // As in ingress-nginx: a Service without endpoints is unavailable, and its clients may come again.
        let status = if matches!(no_peer, NoPeer::NoLive) && lacks_endpoints() { 503 } else { 502 };
        let record = self.begin_attempt(NO_PEER);
        record.held.clone_from(&tries.choice.held);
        record.status = status;
        record.failure = Some(Failure::NoLivePeer);
        record.queue_ms = tries.choice.queue_ms;
        record.pool_wait_ms = tries.choice.queue_ms.unwrap_or(0);
        self.end_attempt();
        self.error_log(&format!("{reason} while connecting to upstream"));
        self.give_up(plan, Failure::NoLivePeer, status)
    }

    /// U13: the client left before there was a response.
    pub(crate) fn client_left(&self) -> Step {
        self.client_log("client prematurely closed connection, so upstream connection is closed too");
        Step::Reply(Reply::to_nobody(499))
    }

    /// A number that cannot be predicted: it comes from the standard library's hash keys, which are random per thread.
    fn chance(&self) -> u64 {
        RandomState::new().hash_one(self.down.serial())
    }

    /// Reports the peer's response times to the balancer.
    fn learn_times(&self, plan: &BoundProxy, tries: &Tries, index: usize) {
        let times = self.upstream.attempts().last().map(|attempt| (attempt.header_ms(), attempt.response_ms()));
        if let (Some((Some(header_ms), Some(response_ms))), Some(set)) = (times, tries.set(plan)) {
            set.balance.took(index, header_ms, response_ms);
        }
    }

    /// The head of the response has come, and will be served.
    pub(crate) fn head_came(&mut self, plan: &BoundProxy, tries: &Tries) {
        if let Some(peer) = self.upstream.attempts().last().map(|attempt| attempt.peer as usize) {
            self.learn_session(plan, tries, peer, LearnAt::Header);
        }
        if let (Some(seat), Some(set)) = (self.upstream.seat_mut(), plan.group.members.of(&tries.choice.held)) {
            set.balance.head_came(seat);
        }
    }

    /// The retry policy's verdict on a failed attempt, or on a status that may be listed.
    pub(crate) fn judge(&self, plan: &BoundProxy, failure: Failure, sent: Sent, tries: &Tries) -> Verdict {
        let balance = tries.set(plan).map(|set| &set.balance);
        let mut tries_max = plan.tries.most;
        let failed = self.upstream.attempts().last().map(|attempt| attempt.peer as usize);
        // The application's own response is more useful than the error that no other peer is left.
        if matches!(failure, Failure::Status(_))
            && balance.is_some_and(|balance| !tries.has_another(plan, balance, failed, self.thread.pool_now()))
        {
            tries_max = tries.made;
        }
        let attempt = Attempt {
            reused: sent.reused,
            sent: sent.some,
            idempotent: tries.idempotent,
            downstream_started: self.down.head_begun,
            body_replayable: self.intake.can_replay(),
            proved_unsent: sent.proved_unsent,
            fresh_retry_used: tries.fresh_used,
            attempts_left: 0,
            // Without the time for the pause there is no time for another attempt.
            elapsed_ms: self.thread.reactor.now().since(tries.first_at).saturating_add(pause_ms(plan)),
        };
        let allowed = TriesPlan {
            conditions: plan.conditions,
            tries_max,
            again: plan.tries.again,
            timeout_ms: plan.tries.timeout_ms,
            retry_unsent: plan.retry_unsent,
        };
        judge_attempt(allowed, balance.map(|balance| &**balance), tries.made, failure, attempt)
    }

    /// Acts on a verdict; `None`: another attempt follows.
    fn after_failure(
        &mut self,
        plan: &BoundProxy,
        index: usize,
        failure: Failure,
        verdict: Verdict,
        tries: &mut Tries,
    ) -> Option<Tried> {
        self.report(plan, tries, index, outcome_of(verdict));
        match verdict.decision {
            Decision::NextPeer | Decision::Serve => {
                plan.group.cells.count_retry(self.thread.index, verdict.reason);
                None
            }
            Decision::RetrySamePeerFresh => {
                plan.group.cells.count_retry(self.thread.index, verdict.reason);
                tries.fresh_on = Some(index);
                tries.fresh_used = true;
                None
            }
            Decision::Fail { status: 499 } => Some(Tried::Step(self.client_left())),
            Decision::Fail { status } => {
                if failure == Failure::ClosedBeforeHead || failure == Failure::ClosedInsideHead {
                    self.error_log(&format!("no further attempt: {}", verdict.reason.phrase()));
                }
                Some(self.give_up(plan, failure, status))
            }
            Decision::Abort => Some(Tried::Step(Step::Served(self.truncate()))),
        }
    }

    /// No attempt is left: gives the cached response, or the error.
    fn give_up(&mut self, plan: &BoundProxy, failure: Failure, status: u16) -> Tried {
        if let Some(because) = self.stale_instead(plan, failure) {
            return Tried::Cached(because);
        }
        if matches!(status, 502 | 504) {
            self.remember_status(plan, status, None);
        }
        Tried::Step(Step::Reply(Reply::error(status)))
    }

    /// Starts the record of an attempt.
    pub(crate) fn begin_attempt(&mut self, peer: u32) -> &mut AttemptRecord {
        let record = AttemptRecord::new(self, peer);
        self.upstream.begin_attempt(record)
    }

    /// Records the time of an attempt that brought no whole response.
    fn end_attempt(&mut self) {
        let now = self.thread.reactor.now_us();
        if let Some(record) = self.upstream.attempt_mut() {
            record.response_us.get_or_insert(now.since(record.began_at));
        }
    }

    /// Counts a finished attempt for the status page.
    fn count_attempt(&self, peer: Option<&BoundPeer>, failed: bool) {
        let (Some(peer), Some(record)) = (peer, self.upstream.attempts().last()) else { return };
        let counted = Counted {
            connect_us: record.connect_us,
            reused: record.reused,
            status: Some(record.status).filter(|&status| status > 0),
            response_us: record.response_us,
            failed,
        };
        peer.cells.count(self.thread.index, counted);
    }

    fn report(&self, plan: &BoundProxy, tries: &Tries, index: usize, outcome: Outcome) {
        report(self, &plan.group, &tries.choice.held, index, outcome);
    }
}
