//! A file that was opened before its handler was known.

use crate::plan::symlinks::PathGuard;
use reactor::OpenFile;
use std::sync::Arc;

/// A file that was opened to test that it exists. The internal redirect that follows nearly always serves it.
pub(crate) struct Prefetched {
    pub(crate) path: Vec<u8>,
    /// How it was opened: a location with another rule opens it again.
    pub(crate) guard: Option<PathGuard>,
    pub(crate) file: Arc<OpenFile>,
}
