//! `proxy_cache` and its kin around a proxied exchange: lookup before the upstream is asked (`lookup`), cached
//! responses in its place (`instead`), storing its response (`keep`), sending from the cache (`hit`), and sending while
//! another exchange stores (`follow`).

pub(crate) mod follow;
pub(crate) mod hit;
pub(crate) mod instead;
pub(crate) mod keep;
pub(crate) mod lookup;

/// Why a cached response is sent although the upstream was asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CacheUse {
    /// The upstream failed.
    Stale,
    /// The upstream says that the response has not changed.
    Revalidated,
}
