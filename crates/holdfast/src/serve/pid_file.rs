//! The pid file: written when the instance serves, removed when it ends.

use crate::report::errno;
use std::path::{Path, PathBuf};

/// What nginx appends to the name while another program takes over.
const OLD_SUFFIX: &str = ".oldbin";

/// A pid file of this process.
#[derive(Debug)]
pub(super) struct PidFile {
    path: PathBuf,
    /// It stands under its other name: the configured one is that of the program that takes over.
    aside: bool,
}

impl PidFile {
    /// Writes it; the error is nginx's message.
    pub(super) fn write(path: &Path) -> Result<Self, String> {
        std::fs::write(path, format!("{}\n", std::process::id()))
            .map_err(|error| format!("open() \"{}\" failed {}", path.display(), errno(&error)))?;
        Ok(Self { path: path.to_path_buf(), aside: false })
    }

    /// Goes to another place, where a reload names one.
    pub(super) fn move_to(&mut self, path: &Path) -> Result<(), String> {
        if path != self.path && !self.aside {
            // The old one is removed when what it is replaced by is dropped in its place.
            *self = Self::write(path)?;
        }
        Ok(())
    }

    /// Makes room for the pid of the program that takes over.
    pub(super) fn step_aside(&mut self) -> Result<(), String> {
        rename(&self.path, &self.old_path())?;
        self.aside = true;
        Ok(())
    }

    /// The other program is gone: the name is ours again.
    pub(super) fn step_back(&mut self) -> Result<(), String> {
        self.aside = false;
        rename(&self.old_path(), &self.path)
    }

    fn old_path(&self) -> PathBuf {
        let mut path = self.path.clone().into_os_string();
        path.push(OLD_SUFFIX);
        path.into()
    }
}

fn rename(from: &Path, to: &Path) -> Result<(), String> {
    std::fs::rename(from, to)
        .map_err(|error| format!("rename() \"{}\" to \"{}\" failed {}", from.display(), to.display(), errno(&error)))
}

impl Drop for PidFile {
    fn drop(&mut self) {
        let path = if self.aside { self.old_path() } else { self.path.clone() };
        // Unless another instance has written it since.
        let ours = std::fs::read_to_string(&path).is_ok_and(|text| text.trim_end() == std::process::id().to_string());
        if ours {
            let _ = std::fs::remove_file(&path);
        }
    }
}
