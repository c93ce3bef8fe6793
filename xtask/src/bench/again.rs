//! This program, started again, built with optimisation.

use crate::workspace::{Workspace, run};
use anyhow::Result;

/// The cargo profile of the optimised build.
#[derive(Clone, Copy)]
pub(super) enum Profile {
    /// As in packages: minutes to build, for benches that measure our own code.
    Dist,
    /// Quick to build, for benches that measure other processes or count.
    Release,
}

/// Runs the same command line in an optimised build: `cargo xtask` is not one, and a load or a census that costs several
/// times what it should would be in the way of what is measured.
pub(super) fn run_optimised(workspace: &Workspace, profile: Profile) -> Result<()> {
    let mut again = workspace.cargo();
    let profile = match profile {
        Profile::Dist => "dist",
        Profile::Release => "release",
    };
    again.args(["run", "--quiet", "--profile", profile, "--package", "xtask", "--"]).args(std::env::args_os().skip(1));
    run(&mut again)
}
