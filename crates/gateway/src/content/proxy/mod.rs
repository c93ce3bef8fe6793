//! The proxied exchange: peers are tried until one answers or nothing is left to try. One attempt is `attempt`'s, the
//! body of the response `relay`'s; which failure leads to another attempt is decided by `upstream::retry`.

pub(crate) mod accel;
pub(crate) mod attempt;
pub(crate) mod computed;
pub(crate) mod early_hints;
pub(crate) mod forced_range;
pub(crate) mod relay;
pub(crate) mod request_body;
pub(crate) mod request_head;
pub(crate) mod response_head;
pub(crate) mod rewritten;
pub(crate) mod sticky;
pub(crate) mod unsent;

use crate::base::cells::Counted;
use crate::base::logs::error::Level;
use crate::connector::choose::{Choice, ChoiceInputs, Chosen, ClientNetwork, NoPeer, choose};
use crate::connector::lease::Wanted;
use crate::connector::pending::Asked;
use crate::content::proxy::attempt::{AttemptEnd, Sent};
use crate::content::proxy::sticky::LearnAt;
use crate::exchange::Exchange;
use crate::exchange::attempts::{AttemptRecord, NO_PEER};
use crate::exchange::reply::Reply;
use crate::exchange::step::{Served, Step};
use crate::exchange::view::ExchangeView;
use crate::registry::generation::BoundProxy;
use crate::registry::group::{BoundPeer, HeldPeers, PeerSet};
use crate::upstream::outgoing_body::OutgoingBody;
use reactor::Millis;
use std::borrow::Cow;
use std::hash::{BuildHasher as _, RandomState};
use upstream::balance::{Outcome, Seat, Standing};
use upstream::retry::{self, Attempt, Blame, Decision, Failure, Policy, Verdict};

/// What one proxied exchange keeps between its attempts.
pub(crate) struct Tries {
    pub(crate) choice: Choice,
    pub(crate) first_at: Millis,
    pub(crate) made: u32,
    /// The next attempt goes to this peer on a fresh connection.
    pub(crate) fresh_on: Option<usize>,
    pub(crate) fresh_used: bool,
    pub(crate) idempotent: bool,
    /// The upstream's response has no body, whatever its head says.
    pub(crate) asks_for_head: bool,
}

impl Tries {
    pub(crate) fn set<'a>(&'a self, plan: &'a BoundProxy) -> Option<&'a PeerSet> {
        plan.group.members.of(&self.choice.held)
    }

    /// The connection that an attempt with this peer wants.
    pub(crate) fn wanted<'a>(&'a self, plan: &'a BoundProxy, index: usize, asked: &'a Asked) -> Option<Wanted<'a>> {
        let set = self.set(plan)?;
        Some(Wanted {
            peer: set.peers.get(index)?,
            asked,
            tls: plan.tls.as_ref(),
            group: &set.balance,
            index,
            connect: &plan.connect,
            source: &plan.source,
            connect_timeout: plan.connect_timeout,
            queue_timeout: plan.group.queue_timeout,
            // What was lost on a reused connection is repeated on a fresh one.
            reused_will_do: !self.fresh_used,
            must_prove: plan.retry_unsent && !self.idempotent,
        })
    }

    /// A peer by its number.
    pub(crate) fn peer<'a>(&'a self, plan: &'a BoundProxy, index: usize) -> Option<&'a BoundPeer> {
        self.set(plan)?.peers.get(index)
    }
}

/// `$upstream_status` of an attempt that failed: as in nginx what the client would get if it were the last one. `None`
/// where the peer has not failed.
fn failed_status(failure: Failure) -> Option<u16> {
    Some(match failure {
        Failure::Status(status) => status,
        Failure::ConnectTimeout | Failure::Timeout => 504,
        Failure::ClientGone => return None,
        Failure::NoSocket | Failure::NoLocalPort => 503,
        Failure::ConnectFailed
        | Failure::ClosedBeforeHead
        | Failure::ClosedInsideHead
        | Failure::InvalidHeader
        | Failure::NoLivePeer
        | Failure::NotAdmitted => 502,
    })
}

impl Exchange {
    /// `held` are the peers of a group that may get others meanwhile.
    pub(crate) async fn proxy(&mut self, plan: &BoundProxy, held: HeldPeers) -> Step {
        self.upstream.abort_ignored = false;
        let body = match self.take_body(plan).await {
            Ok(body) => body,
            Err(reply) => return Step::Reply(reply),
        };
        self.upstream.abort_ignored = plan.ignore_client_abort;
        if let Err(reply) = self.encode_upstream_head(plan, &body) {
            return Step::Reply(reply);
        }
        self.upstream.attempts.proxies += 1;
        let mut tries = Tries {
            choice: Choice { held, bound: self.bound_to(plan), ..Choice::default() },
            first_at: self.thread.reactor.now(),
            made: 0,
            fresh_on: None,
            fresh_used: false,
            idempotent: retry::is_idempotent(self.method_name()) && retry::is_idempotent(self.upstream_method()),
            asks_for_head: self.upstream_method() == b"HEAD",
        };
        let step = self.try_peers(plan, &body, &mut tries).await;
        self.upstream.seat = None;
        step
    }

    async fn try_peers(&mut self, plan: &BoundProxy, body: &OutgoingBody, tries: &mut Tries) -> Step {
        loop {
            let index = match self.pick_peer(plan, tries).await {
                Ok(index) => index,
                Err(no_peer) => return self.without_peer(plan, tries, no_peer),
            };
            if let Some(refusal) = self.refuse_undecided() {
                return Step::Reply(refusal);
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
                    return Step::Served(Served::Responded);
                }
                AttemptEnd::Reply(reply) => return Step::Reply(reply),
                AttemptEnd::Tunnel(mut start) => {
                    // The peer has answered; what becomes of the tunnel is between it and the client.
                    self.report(plan, tries, index, Outcome::Succeeded);
                    self.learn_session(plan, tries, index, LearnAt::End);
                    start.seat = self.upstream.seat.take().map(Seat::into_tunnel).unwrap_or_default();
                    return Step::Served(Served::Tunnel(start));
                }
                AttemptEnd::Intercepted(step) => {
                    self.report(plan, tries, index, Outcome::Succeeded);
                    return *step;
                }
                AttemptEnd::Failed { failure, sent } => {
                    if let (Some(record), Some(status)) = (self.upstream.attempts.last_mut(), failed_status(failure)) {
                        record.status = status;
                    }
                    let verdict = self.judge(plan, failure, sent, tries);
                    if let Some(step) = self.after_failure(plan, index, failure, verdict, tries) {
                        return step;
                    }
                }
            }
        }
    }

    /// The peer of the next attempt; its seat is kept for as long as the exchange uses it.
    async fn pick_peer(&mut self, plan: &BoundProxy, tries: &mut Tries) -> Result<usize, NoPeer> {
        if let Some(index) = tries.fresh_on {
            return Ok(index);
        }
        // The last attempt's peer is free before the next one is chosen.
        self.upstream.seat = None;
        let this = &*self;
        let inputs = |wants_chance: bool| {
            let mut hash_key = Vec::new();
            if let Some(template) = &plan.group.hash_key {
                template.write(&ExchangeView::of(this), &mut hash_key);
            }
            let random = if wants_chance { this.chance() } else { 0 };
            ChoiceInputs { client: ClientNetwork::of(this.client()), hash_key, random }
        };
        let Chosen { index, seat } = choose(this, &plan.group, &mut tries.choice, inputs).await?;
        self.upstream.seat = Some(seat);
        Ok(index)
    }

    /// There is no peer for an attempt: what is said and answered.
    fn without_peer(&mut self, plan: &BoundProxy, tries: &Tries, no_peer: NoPeer) -> Step {
        let reason = match no_peer {
            NoPeer::NoLive => Cow::Borrowed("no live upstreams"),
            NoPeer::QueueFull { length } => {
                Cow::Owned(format!("no live upstreams, and {length} requests are queued already"))
            }
            NoPeer::QueueTimeout => {
                let waited = plan.group.queue_timeout;
                Cow::Owned(format!("no live upstreams, and the request was queued for {waited:?}"))
            }
            NoPeer::ClientGone => return self.client_left(),
        };
        plan.group.cells.count_no_live_peer(self.thread.index);
        let record = self.begin_attempt(NO_PEER);
        record.held.clone_from(&tries.choice.held);
        record.status = 502;
        record.queue_ms = tries.choice.queue_ms;
        record.pool_wait_ms = tries.choice.queue_ms.unwrap_or(0);
        self.end_attempt();
        self.error_log(&format!("{reason} while connecting to upstream"));
        Step::Reply(Reply::error(502))
    }

    /// U13: the client has left before there was a response.
    pub(crate) fn client_left(&self) -> Step {
        self.client_log("client prematurely closed connection, so upstream connection is closed too");
        Step::Reply(Reply::to_nobody(499))
    }

    /// A number that nobody can foretell: it comes from the standard library's hash keys, which are random per thread.
    fn chance(&self) -> u64 {
        RandomState::new().hash_one(self.down.serial())
    }

    /// Tells the balancer how long the peer took.
    fn learn_times(&self, plan: &BoundProxy, tries: &Tries, index: usize) {
        let times = self.upstream.attempts.all.last().map(|attempt| (attempt.header_ms, attempt.response_ms));
        if let (Some((Some(header_ms), Some(response_ms))), Some(set)) = (times, tries.set(plan)) {
            set.balance.took(index, header_ms, response_ms);
        }
    }

    /// The head of the response is there, and will be served.
    pub(crate) fn head_came(&mut self, plan: &BoundProxy, tries: &Tries) {
        if let Some(peer) = self.upstream.attempts.all.last().map(|attempt| attempt.peer as usize) {
            self.learn_session(plan, tries, peer, LearnAt::Header);
        }
        if let (Some(seat), Some(set)) = (&mut self.upstream.seat, plan.group.members.of(&tries.choice.held)) {
            set.balance.head_came(seat);
        }
    }

    /// What the retry policy says about a failed attempt, or about a status that may be listed.
    pub(crate) fn judge(&self, plan: &BoundProxy, failure: Failure, sent: Sent, tries: &Tries) -> Verdict {
        let balance = tries.set(plan).map(|set| &set.balance);
        let group_tries = balance.map_or(0, |balance| balance.tries_max());
        let mut tries_max = if plan.tries_max == 0 { group_tries } else { plan.tries_max.min(group_tries) };
        // What the application says is worth more than the news that nobody else can be asked.
        if matches!(failure, Failure::Status(_))
            && balance.is_some_and(|balance| {
                !balance.has_another(&tries.choice.selection, &tries.choice.bound, self.thread.pool_now())
            })
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
            attempts_left: tries_max.saturating_sub(tries.made),
            elapsed_ms: self.thread.reactor.now().since(tries.first_at),
        };
        let policy =
            Policy { conditions: plan.conditions, timeout_ms: plan.tries_timeout_ms, retry_unsent: plan.retry_unsent };
        retry::decide(failure, &attempt, &policy)
    }

    /// Acts on a verdict; `None`: another attempt is to be made.
    fn after_failure(
        &mut self,
        plan: &BoundProxy,
        index: usize,
        failure: Failure,
        verdict: Verdict,
        tries: &mut Tries,
    ) -> Option<Step> {
        let outcome = if verdict.blame == Blame::Failed { Outcome::Failed } else { Outcome::Neutral };
        self.report(plan, tries, index, outcome);
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
            Decision::Fail { status: 499 } => Some(self.client_left()),
            Decision::Fail { status } => {
                if failure == Failure::ClosedBeforeHead || failure == Failure::ClosedInsideHead {
                    self.error_log(&format!("no further attempt: {}", verdict.reason.phrase()));
                }
                Some(Step::Reply(Reply::error(status)))
            }
            Decision::Abort => Some(Step::Served(self.truncate())),
        }
    }

    /// Begins the record of an attempt.
    pub(crate) fn begin_attempt(&mut self, peer: u32) -> &mut AttemptRecord {
        let record = AttemptRecord::new(self, peer);
        self.upstream.attempts.all.push(record);
        self.upstream.attempts.all.last_mut().expect("one was just put there")
    }

    /// An attempt that brought no whole response has taken its time all the same.
    fn end_attempt(&mut self) {
        let now = self.thread.reactor.now();
        if let Some(record) = self.upstream.attempts.last_mut() {
            record.response_ms.get_or_insert(now.since(record.began_at));
        }
    }

    /// Counts an attempt that has ended, for the status page.
    fn count_attempt(&self, peer: Option<&BoundPeer>, failed: bool) {
        let (Some(peer), Some(record)) = (peer, self.upstream.attempts.all.last()) else { return };
        let counted = Counted {
            connect_ms: record.connect_ms,
            reused: record.reused,
            status: Some(record.status).filter(|&status| status > 0),
            response_ms: record.response_ms,
            failed,
        };
        peer.cells.count(self.thread.index, counted);
    }

    fn report(&self, plan: &BoundProxy, tries: &Tries, index: usize, outcome: Outcome) {
        let standing = tries.set(plan).map(|set| set.balance.report(index, outcome, self.thread.pool_now()));
        if standing == Some(Standing::Disabled) {
            self.log_at(Level::Warn, "upstream server temporarily disabled");
        }
    }
}
