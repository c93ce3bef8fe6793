//! Caches on a status page.

use crate::content::status::snapshot::{Labelled, labelled};
use crate::registry::cache::{CacheStatus, CacheZone};
use crate::registry::generation::Generation;
use serde::{Deserialize, Serialize};
use std::sync::atomic::Ordering;

/// A zone of `proxy_cache_path` or its kin.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct CacheZoneStatus {
    pub(crate) name: String,
    pub(crate) keys: u64,
    /// Most keys.
    pub(crate) keys_limit: u64,
    /// Bytes of its files.
    pub(crate) bytes: u64,
    /// Responses that could not be written.
    pub(crate) write_failures: u64,
    /// Files that were not used: damaged, unreadable, or with the response of another key.
    pub(crate) bad_files: u64,
    /// Files of other programs in its folder.
    pub(crate) foreign_files: u64,
    /// By `$upstream_cache_status`.
    pub(crate) requests: Labelled,
}

pub(crate) fn caches(generation: &Generation) -> Vec<CacheZoneStatus> {
    generation.caches.iter().map(|zone| status_of(zone)).collect()
}

fn status_of(zone: &CacheZone) -> CacheZoneStatus {
    let sums = zone.sums();
    CacheZoneStatus {
        name: zone.name.to_string(),
        keys: sums.keys as u64,
        keys_limit: sums.keys_max as u64,
        bytes: sums.bytes,
        write_failures: zone.failures.load(Ordering::Relaxed),
        bad_files: zone.bad_files.load(Ordering::Relaxed),
        foreign_files: zone.foreign_files.load(Ordering::Relaxed),
        requests: labelled(CacheStatus::ALL.into_iter().map(|status| (status.word(), zone.counted(status)))),
    }
}
