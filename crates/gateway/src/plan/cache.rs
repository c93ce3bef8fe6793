//! `proxy_cache` and its kin: the zones of a configuration, and the cache settings of a location.

use cache::{Ignored, Levels};
use conf::model::CachePace;
use rules::precondition::ModifiedSince;
use rules::template::Template;
use std::path::PathBuf;
use upstream::retry::Conditions;

/// Index of a cache zone in its plan.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct CacheZoneId(pub(crate) u32);

/// One `proxy_cache_path`. Name, directory and levels are its identity; other settings may change with a reload.
#[derive(Debug, Clone)]
pub(crate) struct CacheZonePlan {
    pub(crate) name: String,
    /// Absolute, without a trailing slash.
    pub(crate) directory: PathBuf,
    pub(crate) levels: Levels,
    pub(crate) settings: CacheZoneSettings,
}

/// The limits of a zone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct CacheZoneSettings {
    pub(crate) keys_max: usize,
    pub(crate) inactive_s: i64,
    pub(crate) size_max: Option<u64>,
    pub(crate) free_min: u64,
    pub(crate) manager: CachePace,
    pub(crate) loader: CachePace,
}

/// Which zone a location uses.
pub(crate) enum CacheChoice {
    Zone(CacheZoneId),
    /// Variables name the zone; an empty name or `off` means none.
    Named(Template),
}

/// `proxy_cache_lock`
#[derive(Debug, Clone, Copy)]
pub(crate) struct CacheLock {
    pub(crate) age_ms: u64,
    pub(crate) timeout_ms: u64,
}

/// How a location caches its upstream's responses.
pub(crate) struct CachePlan {
    pub(crate) zone: CacheChoice,
    /// `None`: the upstream's URL.
    pub(crate) key: Option<Template>,
    /// Statuses (0 for all) and their lifetime in seconds; the first match counts.
    pub(crate) valid: Vec<(u16, i64)>,
    pub(crate) min_uses: u32,
    pub(crate) keeps_post: bool,
    pub(crate) bypass: Vec<Template>,
    pub(crate) no_cache: Vec<Template>,
    pub(crate) purge: Vec<Template>,
    /// `proxy_cache_use_stale`, without `updating`.
    pub(crate) use_stale: Conditions,
    pub(crate) use_stale_updating: bool,
    pub(crate) background_update: bool,
    pub(crate) revalidate: bool,
    pub(crate) lock: Option<CacheLock>,
    pub(crate) convert_head: bool,
    pub(crate) range_offset_max: Option<u64>,
    /// Responses to requests with `Authorization` are stored even if they do not permit it: the configuration says so,
    /// or the upstream does not see the field, or the key contains it.
    pub(crate) keeps_authorized: bool,
    /// The key is replaced by its digest.
    pub(crate) digests_key: bool,
    /// Response fields that are ignored.
    pub(crate) ignored: Ignored,
    /// From the file settings: how stored responses are sent, and which ranges are permitted.
    pub(crate) ranges_max: usize,
    pub(crate) modified_since: ModifiedSince,
    pub(crate) sendfile: bool,
    pub(crate) sendfile_chunk: usize,
    pub(crate) read_chunk: usize,
    /// Prefix of its directives: `proxy`.
    pub(crate) family: &'static str,
}

impl CachePlan {
    /// Lifetime in seconds of a response with this status that does not state one itself.
    pub(crate) fn valid_s(&self, status: u16) -> Option<i64> {
        let fits = |(known, _): &&(u16, i64)| *known == 0 || *known == status;
        self.valid.iter().find(fits).map(|(_, seconds)| *seconds).filter(|seconds| *seconds > 0)
    }
}
