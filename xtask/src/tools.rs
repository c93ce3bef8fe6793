//! Cargo tools that are not part of a toolchain: installed from crates.io in pinned versions into `target/tools`, so
//! that the user's own `~/.cargo/bin` is neither changed nor needed.

use crate::workspace::{Workspace, heading, run};
use anyhow::{Context as _, Result};
use std::ffi::OsString;
use std::fs;
use std::path::PathBuf;

/// A crate with a program that a task runs.
pub(crate) struct Tool {
    pub(crate) name: &'static str,
    pub(crate) version: &'static str,
    /// Arguments for `cargo install` that choose its features.
    pub(crate) features: &'static [&'static str],
}

/// Provides the tool in exactly that version, and returns its path. Building takes minutes, once.
pub(crate) fn provide(workspace: &Workspace, tool: &Tool) -> Result<PathBuf> {
    let home = workspace.target("tools");
    let program = home.join("bin").join(tool.name);
    // cargo's own record of what it installed into this folder.
    let record = fs::read_to_string(home.join(".crates.toml")).unwrap_or_default();
    if program.is_file() && record.contains(&format!("\"{} {} ", tool.name, tool.version)) {
        return Ok(program);
    }
    heading(&format!("building {} {}", tool.name, tool.version));
    let build = workspace.target("tools-build");
    let mut install = workspace.cargo();
    // Unoptimised: they run for seconds, and an optimised build takes twice as long.
    install
        .args(["install", "--debug", "--quiet", "--locked", "--force", "--root"])
        .arg(&home)
        .arg("--target-dir")
        .arg(&build);
    install.args(tool.features);
    run(install.arg(format!("{}@{}", tool.name, tool.version)))?;
    // Half a gigabyte that only an interrupted installation could use again.
    fs::remove_dir_all(&build).with_context(|| format!("cannot remove {}", build.display()))?;
    Ok(program)
}

/// `$PATH` with `target/tools/bin` first, for programs that look for cargo's subcommands.
pub(crate) fn search_path(workspace: &Workspace) -> Result<OsString> {
    let inherited = std::env::var_os("PATH").unwrap_or_default();
    let folders = [workspace.target("tools").join("bin")].into_iter().chain(std::env::split_paths(&inherited));
    std::env::join_paths(folders).context("$PATH cannot be extended")
}
