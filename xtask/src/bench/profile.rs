//! `cargo xtask bench profile`: the experiments of `bench/profile`, with a separate name for the build of each profile.

use super::experiments::{self, build};
use crate::workspace::Workspace;
use anyhow::Result;
use std::fs;
use std::os::unix::fs::symlink;

/// Builds both, and runs the experiments.
pub(super) fn run(workspace: &Workspace, args: &experiments::Options) -> Result<()> {
    let bin = workspace.target("profile-bin");
    fs::create_dir_all(&bin)?;
    for profile in ["release", "dist"] {
        let name = bin.join(format!("holdfast-{profile}"));
        let _ = fs::remove_file(&name);
        symlink(build(workspace, profile)?, name)?;
    }
    experiments::run_beside(workspace, "profile", args, Some(&bin))
}
