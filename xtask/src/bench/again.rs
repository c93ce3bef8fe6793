//! Starts this program again, built with optimisation.

use crate::workspace::{Workspace, run};
use anyhow::Result;

/// The cargo profile of the optimised build.
#[derive(Clone, Copy)]
pub(super) enum Profile {
    /// As in packages: takes minutes to build, for benches that measure our own code.
    Dist,
    /// Builds quickly, for benches that measure other processes or count.
    Release,
}

/// Runs the same command line in an optimised build. `cargo xtask` itself is not optimised, and a slow load generator
/// or census would disturb the measurement.
pub(super) fn run_optimised(workspace: &Workspace, profile: Profile) -> Result<()> {
    let mut again = workspace.cargo();
    let profile = match profile {
        Profile::Dist => "dist",
        Profile::Release => "release",
    };
    again.args(["run", "--quiet", "--profile", profile, "--package", "xtask", "--"]).args(std::env::args_os().skip(1));
    run(&mut again)
}
