//! This program, started again, built with optimisation.

use crate::workspace::{Workspace, run};
use anyhow::Result;

/// How the optimised build is linked.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Linked {
    /// As a release is: minutes, for what is measured across crates.
    AsReleased,
    /// Each crate by itself, which takes longer than no experiment.
    Quickly,
}

/// Runs the same command line in an optimised build: `cargo xtask` is not one, and a load or a census that costs several
/// times what it should would be in the way of what is measured.
pub(super) fn run_optimised(workspace: &Workspace, linked: Linked) -> Result<()> {
    let mut again = workspace.cargo();
    if linked == Linked::Quickly {
        again.args(["--config", "profile.release.lto=false", "--config", "profile.release.codegen-units=16"]);
    }
    again.args(["run", "--quiet", "--release", "--package", "xtask", "--"]).args(std::env::args_os().skip(1));
    run(&mut again)
}
