//! `proxy_cache` and its kin: the zones of a configuration, and what a location keeps in them.

use cache::{Ignored, Levels};
use conf::model::CachePace;
use rules::precondition::ModifiedSince;
use rules::template::Template;
use std::path::PathBuf;
use upstream::retry::Conditions;

/// Index of a cache zone in its plan.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct CacheZoneId(pub(crate) u32);

/// One `proxy_cache_path`. Name, directory and levels are its identity; the rest may change with a reload.
#[derive(Debug, Clone)]
pub(crate) struct CacheZonePlan {
    pub(crate) name: String,
    /// Absolute, without a slash at its end.
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
    /// Variables name one; an empty name or `off` is none.
    Named(Template),
}

/// `proxy_cache_lock`
#[derive(Debug, Clone, Copy)]
pub(crate) struct CacheLock {
    pub(crate) age_ms: u64,
    pub(crate) timeout_ms: u64,
}

/// What a location keeps of its upstream's responses.
pub(crate) struct CachePlan {
    pub(crate) zone: CacheChoice,
    /// `None`: the upstream's URL.
    pub(crate) key: Option<Template>,
    /// Statuses, 0 for all, and for how many seconds; the first that fits counts.
    pub(crate) valid: Vec<(u16, i64)>,
    pub(crate) min_uses: u32,
    pub(crate) keeps_post: bool,
    pub(crate) bypass: Vec<Template>,
    pub(crate) no_cache: Vec<Template>,
    pub(crate) purge: Vec<Template>,
    /// `proxy_cache_use_stale` but for `updating`.
    pub(crate) use_stale: Conditions,
    pub(crate) use_stale_updating: bool,
    pub(crate) background_update: bool,
    pub(crate) revalidate: bool,
    pub(crate) lock: Option<CacheLock>,
    pub(crate) convert_head: bool,
    pub(crate) range_offset_max: Option<u64>,
    /// Responses to requests with `Authorization` are kept, whatever they say: so is the configuration, or the upstream does not
    /// see the field, or the key holds it.
    pub(crate) keeps_authorized: bool,
    /// Fields that have no say.
    pub(crate) ignored: Ignored,
    /// Of files: how they are sent, and what may be asked of them.
    pub(crate) ranges_max: usize,
    pub(crate) modified_since: ModifiedSince,
    pub(crate) sendfile: bool,
    pub(crate) sendfile_chunk: usize,
    pub(crate) read_chunk: usize,
    /// What its words begin with: `proxy`.
    pub(crate) family: &'static str,
}

impl CachePlan {
    /// For how many seconds a response of this status stays fresh that does not say so itself.
    pub(crate) fn valid_s(&self, status: u16) -> Option<i64> {
        let fits = |(known, _): &&(u16, i64)| *known == 0 || *known == status;
        self.valid.iter().find(fits).map(|(_, seconds)| *seconds).filter(|seconds| *seconds > 0)
    }
}
