//! Peers without a Debian package: built from Go modules of pinned versions, which Go's checksum database verifies.

use super::go::Go;
use crate::workspace::run;
use anyhow::{Context as _, Result};
use std::path::Path;

/// A program to build with Go.
pub(super) struct GoTool {
    /// The name under `target/peers/bin`.
    pub(super) name: &'static str,
    /// The version that tests are written against.
    pub(super) version: &'static str,
    package: &'static str,
}

/// All of them.
pub(super) const TOOLS: [GoTool; 4] = [
    // Let's Encrypt's small authority for tests.
    GoTool { name: "pebble", version: "v2.10.1", package: "github.com/letsencrypt/pebble/v2/cmd/pebble" },
    // The conformance tests of HTTP/2 and HPACK: the newest release on Go's proxy.
    GoTool { name: "h2spec", version: "v2.2.1+incompatible", package: "github.com/summerwind/h2spec/cmd/h2spec" },
    // The sign-in service that `auth_request` asks. It takes two minutes of one core, without what Kubernetes shares with it.
    GoTool { name: "oauth2-proxy", version: "v7.15.6", package: "github.com/oauth2-proxy/oauth2-proxy/v7" },
    // The chart that operators install.
    GoTool { name: "helm", version: "v3.22.0", package: "helm.sh/helm/v3/cmd/helm" },
];

/// Builds one into `bin`.
pub(super) fn build(tool: &GoTool, go: &Go, home: &Path, bin: &Path) -> Result<()> {
    let module = format!("{}@{}", tool.package, tool.version);
    run(go.command(home).args(["install", "-trimpath", "-ldflags", "-s -w", &module]).env("GOBIN", bin))
        .with_context(|| format!("cannot build {}; `go install {module}` by hand puts it on $PATH", tool.name))
}
