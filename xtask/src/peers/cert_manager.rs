//! cert-manager's controllers and the server of its solver, built from its Go module with a `main` of ours, and its definitions:
//! the modules of its commands are not on Go's proxy.

use super::go::Go;
use crate::workspace::run;
use anyhow::{Context as _, Result};
use std::fs;
use std::path::{Path, PathBuf};

/// The name under `target/peers/bin`.
pub(super) const NAME: &str = "cert-manager";
/// Its version, as in `cert_manager/go.mod`: it requires nearly the same modules as our Kubernetes.
pub(super) const VERSION: &str = "v1.20.0";

const FILES: [(&str, &str); 3] = [
    ("go.mod", include_str!("cert_manager/go.mod")),
    ("go.sum", include_str!("cert_manager/go.sum")),
    ("main.go", include_str!("cert_manager/main.go")),
];

/// Whether it is there already.
pub(super) fn is_provided(home: &Path, bin: &Path) -> bool {
    bin.join(NAME).is_file() && definitions(home).is_dir()
}

fn definitions(home: &Path) -> PathBuf {
    home.join("share").join(NAME)
}

/// Builds it into `bin`, after Kubernetes: half a minute of two cores, as the packages that both have are compiled then.
pub(super) fn build(go: &Go, home: &Path, bin: &Path) -> Result<()> {
    let folder = go.folder(NAME)?;
    for (name, content) in FILES {
        fs::write(folder.join(name), content)?;
    }
    let mut build = go.command(&folder);
    build.args(["build", "-trimpath", "-ldflags", "-s -w", "-o"]).arg(bin.join(NAME)).arg(".");
    run(&mut build).context("cannot build cert-manager")?;
    let source = go.module(home, &format!("github.com/cert-manager/cert-manager@{VERSION}"))?;
    super::copy_definitions(&source.join("deploy/crds"), &definitions(home))
}
