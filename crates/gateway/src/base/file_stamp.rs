//! Identifies one state of a file without reading the file.

use std::fs::Metadata;
use std::os::unix::fs::MetadataExt as _;

/// A state of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileStamp {
    /// Device and number of its inode.
    pub inode: (u64, u64),
    /// Its length.
    pub bytes: u64,
    /// When its inode changed: seconds since 1970, and nanoseconds.
    pub changed_at: (i64, i64),
    /// When it was written.
    pub written_at: (i64, i64),
}

impl From<Metadata> for FileStamp {
    fn from(of: Metadata) -> Self {
        Self {
            inode: (of.dev(), of.ino()),
            bytes: of.size(),
            changed_at: (of.ctime(), of.ctime_nsec()),
            written_at: (of.mtime(), of.mtime_nsec()),
        }
    }
}
