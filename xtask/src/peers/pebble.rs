//! Pebble, Let's Encrypt's small authority for tests: no package of Debian's, so it is built from the Go module of a pinned version,
//! which Go's checksum database vouches for.

use crate::workspace::run;
use anyhow::{Context as _, Result};
use std::path::Path;
use std::process::Command;

/// The name under `target/peers/bin`.
pub(super) const NAME: &str = "pebble";

/// The version that tests are written against.
pub(super) const VERSION: &str = "v2.10.1";

const MODULE: &str = "github.com/letsencrypt/pebble/v2/cmd/pebble";

/// The oldest Go that builds it, as its go.mod says.
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

/// Builds it into `bin`, by the `go` that is there; what Go fetches and keeps stands below `home`.
pub(super) fn build(home: &Path, bin: &Path) -> Result<()> {
    let work = home.join("go");
    run(Command::new(bin.join("go"))
        .args(["install", "-trimpath", &format!("{MODULE}@{VERSION}")])
        .current_dir(home)
        .env("GOBIN", bin)
        .env("GOPATH", work.join("path"))
        .env("GOCACHE", work.join("cache"))
        // The folder can be removed as any other, and no C compiler is needed.
        .env("GOFLAGS", "-modcacherw")
        .env("GOTOOLCHAIN", "local")
        .env("CGO_ENABLED", "0"))
    .with_context(|| format!("cannot build pebble; `go install {MODULE}@{VERSION}` by hand puts it on $PATH"))
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
