//! The `dist` program as packages have it: optimised with a profile of itself (ADR 65). It is built twice: with counters
//! in it, which a training run fills, and then with what they say about hot and cold code.

mod training;

use crate::workspace::{FEATURES, Workspace, heading, output_of, run};
use anyhow::{Context as _, Result, bail};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The machine that trains. A profile holds for this one only: the names of functions contain it.
pub(crate) fn host() -> String {
    format!("{}-unknown-linux-gnu", std::env::consts::ARCH)
}

/// Builds the trained `dist` program for this machine and returns its path. Two builds, minutes each.
pub(crate) fn build(workspace: &Workspace) -> Result<PathBuf> {
    let profile = profile(workspace)?;
    let folder = workspace.target("trained");
    heading("building holdfast with profile dist and what the training showed");
    run(dist_build(workspace, &host(), &folder).env("RUSTFLAGS", flags(&profile)))?;
    Ok(folder.join(host()).join("dist/holdfast"))
}

/// The command that builds the `dist` program for a target in a folder of its own.
pub(crate) fn dist_build(workspace: &Workspace, target: &str, folder: &Path) -> Command {
    let mut cargo = workspace.cargo();
    cargo.args(["build", "--locked", "--profile", "dist", "--package", "holdfast", "--features", FEATURES]);
    cargo.args(["--target", target, "--target-dir"]).arg(folder);
    cargo
}

/// The compiler's flags for using a profile.
pub(crate) fn flags(profile: &Path) -> String {
    // Code that no training reaches has no counts, which is no mistake.
    format!("-Cprofile-use={} -Cllvm-args=-pgo-warn-missing-function=false", profile.display())
}

/// Provides the profile: trains if the program with counters is newer than the last training.
pub(crate) fn profile(workspace: &Workspace) -> Result<PathBuf> {
    let home = workspace.target("training");
    fs::create_dir_all(&home)?;
    let counting = counting_program(workspace, &home)?;
    let profile = home.join("holdfast.profdata");
    let time_of = |file: &Path| fs::metadata(file).and_then(|data| data.modified());
    if time_of(&profile).is_ok_and(|trained| time_of(&counting).is_ok_and(|built| built < trained)) {
        return Ok(profile);
    }
    heading("training");
    let raw = training::run(&counting, &home)?;
    let mut merge = Command::new(profdata_tool(workspace)?);
    output_of(merge.args(["merge", "--output"]).arg(&profile).arg(&raw))?;
    Ok(profile)
}

/// Builds the program with counters in it.
fn counting_program(workspace: &Workspace, home: &Path) -> Result<PathBuf> {
    heading("building holdfast with counters, for training");
    let mut cargo = workspace.cargo();
    // Profiles name functions by symbols, which contain a hash of the cargo profile: it must be `dist`.
    cargo.env("RUSTFLAGS", "-Cprofile-generate").args(["rustc", "--locked", "--profile", "dist"]);
    cargo
        .args([
            "--package",
            "holdfast",
            "--bin",
            "holdfast",
            "--features",
            FEATURES,
            "--target",
            &host(),
            "--target-dir",
        ])
        .arg(home);
    // The counters are in place before the link, which may be a quicker one.
    run(cargo.args(["--", "-Clto=thin"]))?;
    Ok(home.join(host()).join("dist/holdfast"))
}

/// The tool that merges raw profiles, of the same LLVM as the compiler.
fn profdata_tool(workspace: &Workspace) -> Result<PathBuf> {
    let sysroot = output_of(Command::new("rustc").current_dir(&workspace.root).args(["--print", "sysroot"]))?;
    let tool = Path::new(sysroot.trim()).join("lib/rustlib").join(host()).join("bin/llvm-profdata");
    if !tool.is_file() {
        let mut add = Command::new("rustup");
        output_of(add.current_dir(&workspace.root).args(["component", "add", "llvm-tools"]))
            .context("llvm-profdata is missing: `rustup component add llvm-tools` provides it")?;
    }
    if !tool.is_file() {
        bail!("{} is missing even with the component llvm-tools", tool.display());
    }
    Ok(tool)
}
