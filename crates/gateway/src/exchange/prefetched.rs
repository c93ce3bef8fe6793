//! A file that was opened before it is known who serves it.

use crate::plan::symlinks::PathGuard;
use reactor::OpenFile;
use std::sync::Arc;

/// A file that was opened to see whether it is there. The internal redirect that follows nearly always comes back for it.
pub(crate) struct Prefetched {
    pub(crate) path: Vec<u8>,
    /// How it was opened: a location with another rule opens it again.
    pub(crate) guard: Option<PathGuard>,
    pub(crate) file: Arc<OpenFile>,
}
