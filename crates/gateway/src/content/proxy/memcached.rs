//! `memcached_pass`: the request for one value. Everything else is as for other upstreams: peers, connections, retries, responses,
//! filters.

use crate::exchange::Exchange;
use crate::exchange::reply::Reply;
use crate::exchange::view::ExchangeView;
use crate::plan::application::MemcachedPlan;
use crate::registry::generation::BoundProxy;
use cgi::memcached::request;
use http1::Method;

impl Exchange {
    /// The answer to a request that cannot be for a value: as in nginx, only GET and HEAD can.
    pub(super) fn refuse_method(&self, plan: &BoundProxy) -> Option<Reply> {
        plan.application.as_ref()?.memcached()?;
        (!matches!(self.routing.method(), Method::Get | Method::Head)).then(|| Reply::error(405))
    }

    /// Writes the request for the value of `$memcached_key`; the error is the answer if there is no key.
    pub(super) fn write_key(&self, plan: &MemcachedPlan, buffer: Vec<u8>) -> Result<Vec<u8>, Reply> {
        let mut key = Vec::new();
        plan.key.write(&ExchangeView::of(self), &mut key);
        if key.is_empty() {
            self.error_log("the \"$memcached_key\" variable is not set");
            return Err(Reply::error(500));
        }
        Ok(request(buffer, &key))
    }
}
