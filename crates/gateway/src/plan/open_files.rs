//! `open_file_cache` and its words.

/// What a location keeps of the files that it opens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct OpenFilesPlan {
    /// Which cache: each `open_file_cache` of a configuration is one of its own.
    pub(crate) cache: u32,
    /// Paths at most, for each worker.
    pub(crate) paths_max: usize,
    pub(crate) inactive_ms: u64,
    pub(crate) valid_ms: u64,
    pub(crate) min_uses: u32,
    pub(crate) keeps_errors: bool,
}
