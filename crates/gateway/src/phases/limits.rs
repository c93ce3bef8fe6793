//! The phase before access: `limit_req` and `limit_conn`. As in nginx, `limit_req` comes first, and each applies once
//! per exchange, even after redirects. A request above the rate and within the burst waits here.

use crate::base::logs::error::Level;
use crate::exchange::Exchange;
use crate::exchange::reply::Reply;
use crate::exchange::view::ExchangeView;
use crate::exchange::waiting::Wants;
use crate::plan::limits::{LimitPlan, RequestLimit};
use crate::registry::limit_zones::{LimitStatus, Limited, admit};
use reactor::Woken;
use rules::limit::RequestRefusal;
use smallvec::SmallVec;
use std::time::Duration;

/// Longest key of `limit_req`, as in nginx.
const REQUEST_KEY_BYTES_MAX: usize = 65_535;

/// The zones' verdict on a request.
enum RateVerdict {
    /// No limit has a key for the request.
    Uncounted,
    Passed,
    Delayed(u64),
    Refused,
}

impl Exchange {
    /// The answer to a request that exceeds a limit.
    pub(crate) async fn limit(&mut self, plan: &LimitPlan) -> Option<Reply> {
        if let Some(refusal) = self.limit_requests(plan).await {
            return Some(refusal);
        }
        self.limit_connections(plan)
    }

    fn limited(&mut self) -> &mut Limited {
        self.admission.limited.get_or_insert_default()
    }

    async fn limit_requests(&mut self, plan: &LimitPlan) -> Option<Reply> {
        if plan.requests.is_empty() || self.admission.limited.as_ref().is_some_and(|limited| limited.requests.is_some())
        {
            return None;
        }
        let refusal = plan.request_refusal;
        let (status, wait) = match self.count_request(plan) {
            RateVerdict::Uncounted => return None,
            RateVerdict::Passed => (LimitStatus::Passed, None),
            RateVerdict::Delayed(_) if refusal.dry_run => (LimitStatus::DelayedDryRun, None),
            RateVerdict::Delayed(delay_ms) => (LimitStatus::Delayed, Some(Duration::from_millis(delay_ms))),
            RateVerdict::Refused if refusal.dry_run => (LimitStatus::RejectedDryRun, None),
            RateVerdict::Refused => (LimitStatus::Rejected, None),
        };
        self.limited().requests = Some(status);
        if status == LimitStatus::Rejected {
            return Some(Reply::error(refusal.status));
        }
        match wait {
            Some(delay) => self.wait_out(delay).await,
            None => None,
        }
    }

    /// Counts the request in the zones, and logs refusals and delays.
    fn count_request(&self, plan: &LimitPlan) -> RateVerdict {
        let dry_run = if plan.request_refusal.dry_run { ", dry run" } else { "" };
        let now_ms = self.thread.reactor.now().0;
        let counted = self.counted_by(plan);
        let Some(((last, last_key), others)) = counted.split_last() else { return RateVerdict::Uncounted };
        let probe = || {
            for (limit, key) in others {
                self.generation
                    .request_zone(limit.zone)
                    .probe(key, &limit.rule, now_ms)
                    .map_err(|refusal| (*limit, refusal))?;
            }
            self.generation
                .request_zone(last.zone)
                .take(last_key, &last.rule, now_ms)
                .map_err(|refusal| (*last, refusal))
        };
        let excess = match probe() {
            Ok(excess) => excess,
            Err((limit, RequestRefusal::TooMany { excess_milli })) => {
                let (whole, part) = (excess_milli / 1000, excess_milli % 1000);
                let zone = &self.generation.request_zone(limit.zone).name;
                let message = format!("limiting requests{dry_run}, excess: {whole}.{part:03} by zone \"{zone}\"");
                self.log_at(plan.request_refusal.level, &message);
                return RateVerdict::Refused;
            }
            Err((limit, RequestRefusal::Exhausted)) => {
                let zone = &self.generation.request_zone(limit.zone).name;
                self.log_at(Level::Alert, &format!("could not allocate node in limit_req zone \"{zone}\""));
                return RateVerdict::Refused;
            }
        };
        let mut longest = (last.rule.delay_ms(excess), excess, *last);
        for (limit, key) in others.iter().rev() {
            let excess = self.generation.request_zone(limit.zone).charge(key, &limit.rule, now_ms);
            let delay_ms = limit.rule.delay_ms(excess);
            if delay_ms > longest.0 {
                longest = (delay_ms, excess, limit);
            }
        }
        let (delay_ms, excess, limit) = longest;
        if delay_ms == 0 {
            return RateVerdict::Passed;
        }
        let (whole, part, zone) = (excess / 1000, excess % 1000, &self.generation.request_zone(limit.zone).name);
        let message = format!("delaying request{dry_run}, excess: {whole}.{part:03}, by zone \"{zone}\"");
        self.log_at(plan.delay_level, &message);
        RateVerdict::Delayed(delay_ms)
    }

    /// The limits with a key for this request; an empty key is not counted.
    fn counted_by<'p>(&self, plan: &'p LimitPlan) -> SmallVec<[(&'p RequestLimit, Vec<u8>); 2]> {
        let mut counted = SmallVec::new();
        for limit in &plan.requests {
            let mut key = Vec::new();
            limit.key.write(&ExchangeView::of(self), &mut key);
            if key.len() > REQUEST_KEY_BYTES_MAX {
                let name = &self.generation.request_zone(limit.zone).key_text;
                self.error_log(&format!("the value of the \"{name}\" key is more than 65535 bytes"));
            } else if !key.is_empty() {
                counted.push((limit, key));
            }
        }
        counted
    }

    /// Waits until the request is due; a client that leaves before needs no answer.
    async fn wait_out(&mut self, delay: Duration) -> Option<Reply> {
        let began = self.thread.reactor.now();
        loop {
            let waited = Duration::from_millis(self.thread.reactor.now().since(began));
            let left = delay.checked_sub(waited).filter(|left| !left.is_zero())?;
            if self.wait(Wants::NOTHING, left).await == Woken::PeerGone {
                self.client_log("client prematurely closed connection while its request was delayed");
                return Some(Reply::to_nobody(499));
            }
        }
    }

    fn limit_connections(&mut self, plan: &LimitPlan) -> Option<Reply> {
        if plan.connections.is_empty()
            || self.admission.limited.as_ref().is_some_and(|limited| limited.connections.is_some())
        {
            return None;
        }
        let view = ExchangeView::of(self);
        let said = |level, message: &str| self.log_at(level, message);
        let (status, permits) = admit(plan, &self.generation.connection_zones, &view, said)?;
        let limited = self.limited();
        limited.connections = Some(status);
        limited.permits = permits;
        (status == LimitStatus::Rejected).then(|| Reply::error(plan.connection_refusal.status))
    }
}
