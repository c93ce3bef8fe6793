//! Kubernetes without a cluster: the API server, the controllers and the client, built from the Go module of Kubernetes, and the
//! definitions of the Gateway API. `testkit::ControlPlane` starts them beside Debian's etcd.

use super::go::Go;
use crate::workspace::run;
use anyhow::{Context as _, Result};
use std::fs;
use std::path::{Path, PathBuf};

/// The version of Kubernetes, as in `kubernetes/go.mod`.
pub(super) const VERSION: &str = "v1.36.3";
/// The programs under `target/peers/bin`. They share most of their packages, so one call of Go builds them.
pub(super) const PROGRAMS: [&str; 3] = ["kube-apiserver", "kube-controller-manager", "kubectl"];

/// The Gateway API's version: the newest that Go 1.26 builds, for the same Kubernetes. Its conformance tests have the same one.
pub(crate) const GATEWAY_API: &str = "v1.6.3";
/// Its two sets of definitions, in `target/peers/share/gateway-api`.
const CHANNELS: [&str; 2] = ["standard", "experimental"];

/// A module that requires Kubernetes: Go refuses `go install` of a module that replaces others, and Kubernetes replaces all of
/// its parts.
const GO_MOD: &str = include_str!("kubernetes/go.mod");
const GO_SUM: &str = include_str!("kubernetes/go.sum");

/// Whether the definitions are there already.
pub(super) fn has_gateway_api(home: &Path) -> bool {
    CHANNELS.iter().all(|channel| definitions(home, channel).is_dir())
}

/// The folder of a channel's definitions.
fn definitions(home: &Path, channel: &str) -> PathBuf {
    home.join("share/gateway-api").join(channel)
}

/// Builds the programs into `bin`: about nine minutes of two cores the first time, and seconds from Go's cache.
pub(super) fn build(go: &Go, bin: &Path) -> Result<()> {
    let folder = go.folder("kubernetes")?;
    fs::write(folder.join("go.mod"), GO_MOD)?;
    fs::write(folder.join("go.sum"), GO_SUM)?;
    // Clients compare versions, and the module alone does not tell its own.
    let package = "k8s.io/component-base/version";
    let flags = format!("-s -w -X {package}.gitVersion={VERSION} -X {package}.gitMajor=1 -X {package}.gitMinor=36");
    let mut build = go.command(&folder);
    build.args(["build", "-trimpath", "-ldflags", &flags, "-o"]).arg(bin.join(""));
    run(build.args(PROGRAMS.map(|name| format!("k8s.io/kubernetes/cmd/{name}")))).context("cannot build Kubernetes")
}

/// Copies the Gateway API's definitions out of its module.
pub(super) fn provide_gateway_api(go: &Go, home: &Path) -> Result<()> {
    let source = go.module(home, &format!("sigs.k8s.io/gateway-api@{GATEWAY_API}"))?;
    for channel in CHANNELS {
        super::copy_definitions(&source.join("config/crd").join(channel), &definitions(home, channel))?;
    }
    Ok(())
}
