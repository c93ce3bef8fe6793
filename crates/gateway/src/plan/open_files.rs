//! `open_file_cache` and its directives.

/// How a location caches open files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct OpenFilesPlan {
    /// The index of the cache: each `open_file_cache` line of a configuration has its own.
    pub(crate) cache: u32,
    /// Most paths, for each worker.
    pub(crate) paths_max: usize,
    pub(crate) inactive_ms: u64,
    pub(crate) valid_ms: u64,
    pub(crate) min_uses: u32,
    pub(crate) keeps_errors: bool,
}
