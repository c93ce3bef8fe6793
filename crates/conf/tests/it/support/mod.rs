//! In-memory files for tests that load configurations.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

use conf::{Loaded, Loader};

/// Files by absolute path.
#[derive(Debug, Default, Clone)]
pub(crate) struct Files(pub(crate) BTreeMap<PathBuf, Vec<u8>>);

impl Files {
    /// Files with these paths and texts.
    pub(crate) fn new<const N: usize>(files: [(&str, &str); N]) -> Self {
        Self(files.into_iter().map(|(path, text)| (PathBuf::from(path), text.into())).collect())
    }

    /// Loads `/etc/nginx/nginx.conf` from these files.
    pub(crate) fn load(&mut self) -> Loaded {
        conf::load(Path::new("/etc/nginx/nginx.conf"), Path::new("/etc/nginx"), None, self)
    }
}

impl Loader for Files {
    fn read(&mut self, path: &Path) -> io::Result<Vec<u8>> {
        if self.0.keys().any(|file| file != path && file.starts_with(path)) {
            return Err(io::ErrorKind::IsADirectory.into());
        }
        self.0.get(path).cloned().ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    /// Supports `*` in the last part of the mask only, which is all these tests need. Returns matches in reverse order
    /// deliberately.
    fn glob(&mut self, mask: &Path) -> io::Result<Vec<PathBuf>> {
        let name = mask.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        let (before, after) = name.split_once('*').unwrap_or((name, ""));
        let matches = |path: &&PathBuf| {
            let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
            let fits = name.len() >= before.len() + after.len() && name.starts_with(before) && name.ends_with(after);
            path.parent() == mask.parent() && fits && (before.starts_with('.') || !name.starts_with('.'))
        };
        Ok(self.0.keys().rev().filter(matches).cloned().collect())
    }
}
