//! The floor: a bare epoll relay without checks, built from sources outside of this workspace, if they exist. The arm
//! `floor` in `bench/proxy` finds it on `$PATH`.

use crate::workspace::{Workspace, run};
use anyhow::Result;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Builds the floor in its own workspace into `target/floor`, and returns the folder that contains it as `floor`.
/// `None` without its sources.
pub(super) fn build(workspace: &Workspace, sources: &Path) -> Result<Option<PathBuf>> {
    let manifest = sources.join("Cargo.toml");
    if !manifest.is_file() {
        return Ok(None);
    }
    let target = workspace.target("floor");
    fs::create_dir_all(target.join("source"))?;
    // The source folder may be read-only and has no lock file, so cargo works on a copy, which is a workspace of its
    // own.
    let source = target.join("source");
    fs::write(source.join("Cargo.toml"), fs::read_to_string(&manifest)? + "\n[workspace]\n")?;
    let mut copy = Command::new("cp");
    run(copy.args(["--recursive", "--update", "--no-preserve=mode"]).arg(sources.join("src")).arg(&source))?;
    let mut build = workspace.cargo();
    build.args(["build", "--quiet", "--release", "--bin", "p2", "--manifest-path"]);
    build.arg(target.join("source/Cargo.toml")).arg("--target-dir").arg(&target);
    run(&mut build)?;
    let bin = target.join("bin");
    fs::create_dir_all(&bin)?;
    fs::copy(target.join("release/p2"), bin.join("floor"))?;
    Ok(Some(bin))
}
