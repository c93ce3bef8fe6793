//! `proxy_cache` and its kin around a proxied exchange: before the upstream is asked (`lookup`), instead of what it says
//! (`instead`), while its response comes (`keep`), what is sent from the cache (`hit`),
//! and what is sent while another exchange stores it (`follow`).

pub(crate) mod follow;
pub(crate) mod hit;
pub(crate) mod instead;
pub(crate) mod keep;
pub(crate) mod lookup;

/// Why a response of the cache is sent although the upstream was asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CacheUse {
    /// The upstream has failed.
    Stale,
    /// It says that the response has not changed.
    Revalidated,
}
