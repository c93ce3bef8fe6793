//! Peers without a Debian package: built from Go modules of pinned versions, which Go's checksum database verifies.

use crate::workspace::run;
use anyhow::{Context as _, Result};
use std::path::Path;
use std::process::Command;

/// A program to build with Go.
pub(super) struct GoTool {
    /// The name under `target/peers/bin`.
    pub(super) name: &'static str,
    /// The version that tests are written against.
    pub(super) version: &'static str,
    package: &'static str,
}

/// All of them.
pub(super) const TOOLS: [GoTool; 2] = [
    // Let's Encrypt's small authority for tests.
    GoTool { name: "pebble", version: "v2.10.1", package: "github.com/letsencrypt/pebble/v2/cmd/pebble" },
    // The conformance tests of HTTP/2 and HPACK: the newest release on Go's proxy.
    GoTool { name: "h2spec", version: "v2.2.1+incompatible", package: "github.com/summerwind/h2spec/cmd/h2spec" },
];

/// The oldest Go that builds them and the collector, from their go.mod: that of Debian's stable suite.
const GO_MINOR_MIN: u32 = 24;

/// Whether a Go is new enough.
pub(super) fn builds_with(go: &Path) -> bool {
    let output = Command::new(go).arg("version").output();
    output
        .is_ok_and(|output| minor(&String::from_utf8_lossy(&output.stdout)).is_some_and(|minor| minor >= GO_MINOR_MIN))
}

/// `go version go1.26.8 linux/amd64`: 26.
fn minor(text: &str) -> Option<u32> {
    let (_, rest) = text.split_once(" go1.")?;
    rest.split(|letter: char| !letter.is_ascii_digit()).next()?.parse().ok()
}

/// Builds one into `bin` with the given `go`; Go's downloads and caches are below `home`.
pub(super) fn build(tool: &GoTool, home: &Path, bin: &Path) -> Result<()> {
    let work = home.join("go");
    let module = format!("{}@{}", tool.package, tool.version);
    run(Command::new(bin.join("go"))
        .args(["install", "-trimpath", &module])
        .current_dir(home)
        .env("GOBIN", bin)
        .env("GOPATH", work.join("path"))
        .env("GOCACHE", work.join("cache"))
        // This makes the folder removable like any other, and needs no C compiler.
        .env("GOFLAGS", "-modcacherw")
        .env("GOTOOLCHAIN", "local")
        .env("CGO_ENABLED", "0"))
    .with_context(|| format!("cannot build {}; `go install {module}` by hand puts it on $PATH", tool.name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_version_of_go_is_read() {
        assert_eq!(minor("go version go1.26.8 linux/amd64\n"), Some(26));
        assert_eq!(minor("go version go1.24rc1 linux/amd64\n"), Some(24));
        assert_eq!(minor("not found"), None);
    }
}
