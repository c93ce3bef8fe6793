//! A file that was opened before it is known who serves it.

use reactor::OpenFile;
use std::sync::Arc;

/// A file that was opened to see whether it is there. The internal redirect that follows nearly always comes back for it.
pub(crate) struct Prefetched {
    pub(crate) path: Vec<u8>,
    pub(crate) file: Arc<OpenFile>,
}
