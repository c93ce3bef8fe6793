//! Databases of `geoip2`.

use crate::base::file_stamp::FileStamp;
use rules::geoip::GeoDatabase;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// The largest file: the largest databases that are sold have a quarter of that. It is in memory as a whole.
pub(crate) const DATABASE_BYTES_MAX: u64 = 1 << 30;

/// A database whose file is looked at again.
#[derive(Debug, Clone)]
pub(crate) struct GeoFilePlan {
    pub(crate) path: PathBuf,
    pub(crate) database: Arc<GeoDatabase>,
    /// The state of the file when it was read.
    pub(crate) stamp: Option<FileStamp>,
    /// `auto_reload`
    pub(crate) interval: Duration,
}
