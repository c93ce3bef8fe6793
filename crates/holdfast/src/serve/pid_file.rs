//! The pid file: written when the instance serves, removed when it ends.

use crate::report::errno;
use std::path::{Path, PathBuf};

/// A pid file of this process.
#[derive(Debug)]
pub(super) struct PidFile {
    path: PathBuf,
}

impl PidFile {
    /// Writes it; the error is nginx's message.
    pub(super) fn write(path: &Path) -> Result<Self, String> {
        std::fs::write(path, format!("{}\n", std::process::id()))
            .map_err(|error| format!("open() \"{}\" failed {}", path.display(), errno(&error)))?;
        Ok(Self { path: path.to_path_buf() })
    }

    /// Goes to another place, where a reload names one.
    pub(super) fn move_to(&mut self, path: &Path) -> Result<(), String> {
        if path != self.path {
            // The old one is removed when what it is replaced by is dropped in its place.
            *self = Self::write(path)?;
        }
        Ok(())
    }
}

impl Drop for PidFile {
    fn drop(&mut self) {
        // Unless another instance has written it since.
        let ours =
            std::fs::read_to_string(&self.path).is_ok_and(|text| text.trim_end() == std::process::id().to_string());
        if ours {
            let _ = std::fs::remove_file(&self.path);
        }
    }
}
