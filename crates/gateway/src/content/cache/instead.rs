//! Cached responses in place of the upstream's: a stale one if the upstream failed, the stored one if it has not
//! changed. Also stores error statuses for a while.

use crate::content::cache::CacheUse;
use crate::exchange::Exchange;
use crate::registry::cache::CacheStatus;
use crate::registry::generation::BoundProxy;
use upstream::retry::{Conditions, Failure};

impl Exchange {
    /// `proxy_cache_use_stale`: the stale response, if an attempt failed for good and the configuration allows it.
    pub(crate) fn stale_instead(&self, plan: &BoundProxy, failure: Failure) -> Option<CacheUse> {
        let condition = match failure {
            Failure::Status(status) => Conditions::of_status(status)?,
            Failure::ConnectTimeout | Failure::Timeout => Conditions::TIMEOUT,
            Failure::InvalidHeader => Conditions::INVALID_HEADER,
            Failure::ClientGone => return None,
            Failure::ConnectFailed
            | Failure::ClosedBeforeHead
            | Failure::ClosedInsideHead
            | Failure::GoneAway
            | Failure::StreamRefused
            | Failure::NoCertificate
            | Failure::NoSocket
            | Failure::NoLocalPort
            | Failure::NoLivePeer
            | Failure::NotAdmitted => Conditions::ERROR,
        };
        let cache = plan.cache.as_ref()?;
        let caching = self.upstream.caching().filter(|caching| caching.status == CacheStatus::Expired)?;
        let found = caching.found.as_ref()?;
        // As in nginx, `stale-if-error` applies if the upstream gives no response; for its statuses the configuration
        // decides.
        let is_silent = !matches!(failure, Failure::Status(_));
        let allowed =
            cache.use_stale.contains(condition) || (is_silent && found.entry.may_be_used_on_error(self.now_s()));
        allowed.then_some(CacheUse::Stale)
    }

    /// Decides from the status of a response head whether the cached response is sent in its place.
    pub(crate) fn cached_instead(&mut self, plan: &BoundProxy, status: u16) -> Option<CacheUse> {
        if let Some(stale) = self.stale_instead(plan, Failure::Status(status)) {
            return Some(stale);
        }
        let is_asked = plan.cache.as_ref().is_some_and(|cache| cache.revalidate);
        if status != 304 || !is_asked {
            return None;
        }
        let renewed = self.freshness(plan)?;
        let caching = self.upstream.caching_mut()?;
        if caching.status != CacheStatus::Expired || caching.found.is_none() {
            return None;
        }
        caching.renewed = Some(renewed);
        Some(CacheUse::Revalidated)
    }

    /// Stores an error of ours, or a status that an error page is shown for, for a while (`proxy_cache_valid`).
    pub(crate) fn remember_status(&mut self, plan: &BoundProxy, status: u16, until_s: Option<i64>) {
        let now_s = self.now_s();
        let Some(cache) = plan.cache.as_ref().filter(|_| self.is_cacheable()) else { return };
        let until_s = until_s.or_else(|| cache.valid_s(status).map(|seconds| now_s.saturating_add(seconds)));
        if let (Some(until_s), Some(hold)) =
            (until_s, self.upstream.caching().and_then(|caching| caching.hold.as_ref()))
        {
            hold.set_status(status, until_s);
        }
    }
}
