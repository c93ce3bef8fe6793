//! `cargo xtask bench proxy`: the experiments of `bench/proxy`, with the floor built for its arm.

use super::{experiments, floor};
use crate::workspace::Workspace;
use anyhow::Result;
use std::path::PathBuf;

/// Options of `cargo xtask bench proxy`.
#[derive(clap::Args)]
pub(super) struct Args {
    /// Sources of the floor; the arm is absent without them.
    #[arg(long, default_value = "../shared/floor")]
    floor: PathBuf,
    #[command(flatten)]
    experiments: experiments::Options,
}

/// Runs the experiments.
pub(super) fn run(workspace: &Workspace, args: &Args) -> Result<()> {
    let floor = floor::build(workspace, &workspace.root.join(&args.floor))?;
    experiments::run_beside(workspace, "proxy", &args.experiments, floor.as_deref())
}
