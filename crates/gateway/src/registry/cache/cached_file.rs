//! A response in the cache, with its file open.

use cache::Entry;
use reactor::OpenFile;
use std::ops::Range;
use std::sync::Arc;

/// A response in the cache.
#[derive(Debug, Clone)]
pub(crate) struct CachedFile {
    pub(crate) file: Arc<OpenFile>,
    pub(crate) entry: Entry,
    /// The bytes read of the file: everything before the body, and the beginning of the body.
    pub(crate) bytes: Vec<u8>,
    /// The text of its key, in `bytes`.
    pub(crate) key: Range<usize>,
    pub(crate) head_start: usize,
    pub(crate) body_start: usize,
}

impl CachedFile {
    /// The text of its key.
    pub(crate) fn key(&self) -> &[u8] {
        &self.bytes[self.key.clone()]
    }

    /// The head of the response as the upstream sent it.
    pub(crate) fn head(&self) -> &[u8] {
        &self.bytes[self.head_start..self.body_start]
    }
}
