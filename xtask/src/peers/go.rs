//! Go as all peers that are built from Go modules use it: which one, where its downloads and its cache are, and its settings.

use crate::workspace::output_of;
use anyhow::{Context as _, Result};
use std::path::{Path, PathBuf};
use std::process::Command;

/// The oldest Go that builds them, from the go.mod of Kubernetes.
const MINOR_MIN: u32 = 26;

/// Whether a Go is new enough.
pub(super) fn is_new_enough(go: &Path) -> bool {
    let output = Command::new(go).arg("version").output();
    output.is_ok_and(|output| minor(&String::from_utf8_lossy(&output.stdout)).is_some_and(|minor| minor >= MINOR_MIN))
}

/// `go version go1.26.8 linux/amd64`: 26.
fn minor(text: &str) -> Option<u32> {
    let (_, rest) = text.split_once(" go1.")?;
    rest.split(|letter: char| !letter.is_ascii_digit()).next()?.parse().ok()
}

/// The Go of the peers.
pub(crate) struct Go {
    program: PathBuf,
    store: PathBuf,
}

impl Go {
    /// The one in `bin`; `home` is `target/peers`.
    pub(crate) fn of(home: &Path, bin: &Path) -> Result<Go> {
        let store = store().unwrap_or_else(|| home.join("go"));
        std::fs::create_dir_all(&store).with_context(|| format!("cannot create {}", store.display()))?;
        Ok(Go { program: bin.join("go"), store })
    }

    /// The file of the compiler.
    pub(crate) fn program(&self) -> &Path {
        &self.program
    }

    /// A folder of its own in the store, for what a tool makes on its way.
    pub(crate) fn folder(&self, name: &str) -> Result<PathBuf> {
        let folder = self.store.join(name);
        std::fs::create_dir_all(&folder).with_context(|| format!("cannot create {}", folder.display()))?;
        Ok(folder)
    }

    /// A call of `go`, run in `folder`.
    pub(crate) fn command(&self, folder: &Path) -> Command {
        let mut command = Command::new(&self.program);
        self.set_up(command.current_dir(folder));
        command
    }

    /// The folder of a module's files, `PATH@VERSION`, which is downloaded if it is not there.
    pub(crate) fn module(&self, home: &Path, module: &str) -> Result<PathBuf> {
        let told = output_of(self.command(home).args(["mod", "download", "-json", module]))
            .with_context(|| format!("cannot download {module}"))?;
        let told: serde_json::Value = serde_json::from_str(&told).context("`go mod download` did not print JSON")?;
        told["Dir"].as_str().map(PathBuf::from).with_context(|| format!("{module} has no folder"))
    }

    /// The same settings for another program that calls `go`.
    pub(crate) fn set_up(&self, command: &mut Command) {
        command
            .env("GOPATH", self.store.join("path"))
            .env("GOCACHE", self.store.join("cache"))
            // This makes the folder removable like any other.
            .env("GOFLAGS", "-modcacherw")
            .env("GOTOOLCHAIN", "local")
            // No C compiler is needed.
            .env("CGO_ENABLED", "0");
    }
}

/// Outside the clone: CI builds in a fresh clone on a warm machine, and Kubernetes takes minutes to compile. Go's caches are made
/// for use by several builds at a time.
fn store() -> Option<PathBuf> {
    let folder = |name: &str| std::env::var_os(name).map(PathBuf::from).filter(|folder| folder.is_absolute());
    let caches = folder("XDG_CACHE_HOME").or_else(|| folder("HOME").map(|home| home.join(".cache")))?;
    Some(caches.join("holdfast-peers/go"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_the_version_of_go() {
        assert_eq!(minor("go version go1.26.8 linux/amd64\n"), Some(26));
        assert_eq!(minor("go version go1.24rc1 linux/amd64\n"), Some(24));
        assert_eq!(minor("not found"), None);
    }
}
