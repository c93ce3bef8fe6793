//! The command line of `holdfast load compare`; the comparison is in the crate `load`.

use crate::{exit, report};
use load::results;
use std::path::PathBuf;

/// Compare two runs by their --json files
///
/// The first and the last interval of each run are left out: in them the load begins and ends. Ratios are B over A, of the
/// medians over the intervals, with a 95 % interval by bootstrap.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The run that is compared with
    first: PathBuf,
    /// The run that is compared
    second: PathBuf,
}

pub(super) fn run(args: &Args) -> u8 {
    match results::compare(&args.first, &args.second) {
        Ok(text) => {
            report::print(text.as_bytes());
            exit::OK
        }
        Err(message) => {
            report::say(&format!("holdfast load compare: {message}"));
            exit::FAILED
        }
    }
}
