//! `holdfast man`: the manual page, generated from the same texts as `--help`.

use crate::{exit, report};
use clap_mangen::Man;

/// Print the manual page
///
/// For example: `holdfast man > /usr/local/share/man/man1/holdfast.1`
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// The page of one subcommand, for example `serve`
    command: Option<String>,
}

pub(super) fn run(args: &Args, command: &clap::Command) -> u8 {
    let mut page = command.clone();
    if let Some(name) = &args.command {
        let Some(found) = command.find_subcommand(name) else {
            report::say(&format!("holdfast: there is no subcommand \"{name}\""));
            return exit::FAILED;
        };
        page = found.clone().display_name(format!("holdfast-{name}"));
    }
    let mut text = Vec::new();
    match Man::new(page).render(&mut text) {
        Ok(()) => {
            report::print(&text);
            exit::OK
        }
        Err(error) => {
            report::say(&format!("holdfast: {error}"));
            exit::FAILED
        }
    }
}
