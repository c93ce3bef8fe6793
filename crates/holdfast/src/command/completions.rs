//! `holdfast completions SHELL`.

use crate::{exit, report};
use clap_complete::{Shell, generate};

/// Print completions for a shell
///
/// For example: `holdfast completions bash > /etc/bash_completion.d/holdfast`
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// The shell
    shell: Shell,
}

pub(super) fn run(args: &Args, command: &mut clap::Command) -> u8 {
    let mut script = Vec::new();
    generate(args.shell, command, "holdfast", &mut script);
    report::print(&script);
    exit::OK
}
