//! The loom models of the crates that have some. Loom explores the interleavings of a model. Its `cfg` affects all
//! dependencies, so these builds have their own target folder.

use super::programs::Program;
use crate::metadata;
use crate::workspace::{Workspace, heading, output_of};
use anyhow::{Result, bail};
use std::process::Command;

/// Loom's authors found that two or three forced switches show most bugs; more increase the time without limit.
const PREEMPTIONS: &str = "3";

/// Builds the models of each crate that declares loom, and returns what runs them.
pub(super) fn programs(workspace: &Workspace) -> Result<Vec<Program>> {
    heading("building the loom models");
    let mut programs = Vec::new();
    for package in metadata::packages(workspace)?.iter().filter(|package| package.depends_on("loom")) {
        let name = &package.name;
        // cargo accepts a run without tests; here it would mean a model that never runs.
        let listed = output_of(cargo_test(workspace, name).args(["--", "--list"]))?;
        if !listed.lines().any(|line| line.ends_with(": test")) {
            bail!("{name} declares loom, but has no test under `cfg(loom)`");
        }
        programs.push(Program::of_cargo(&format!("{name} loom"), cargo_test(workspace, name)));
    }
    Ok(programs)
}

fn cargo_test(workspace: &Workspace, package: &str) -> Command {
    let mut command = workspace.cargo();
    command.env("RUSTFLAGS", "--cfg loom").env("LOOM_MAX_PREEMPTIONS", PREEMPTIONS);
    command.args(["test", "--locked", "--no-fail-fast", "--release", "--tests", "--package", package]);
    command.arg("--target-dir").arg(workspace.target("loom"));
    command
}
