//! A file that was opened before its handler was known.

use reactor::OpenFile;
use std::sync::Arc;

/// A file that was opened to test that it exists. The internal redirect that follows nearly always serves it.
pub(crate) struct Prefetched {
    pub(crate) path: Vec<u8>,
    pub(crate) file: Arc<OpenFile>,
}
