//! `holdfast lab`: reads experiments, runs them, and reports their results. The crate `lab` defines, runs and judges
//! experiments; this module has the command line, the files, and the progress output.

pub(crate) mod began;
mod hold;
mod leave;
pub(crate) mod prepared;
pub(crate) mod progress;
mod reported;
mod run;
mod show;

use crate::{exit, report};
use ::lab::fault::suggestion;
use ::lab::{Loaded, Refused, shipped};
pub(crate) use ::report::text::printable;
use clap::Subcommand;
use std::io::{self, IsTerminal as _};
use std::path::Path;

/// Run controlled experiments over real servers, and check their claims
///
/// An experiment is a TOML file: processes on hosts, arms that differ in named settings, a load, and claims. The arms run in turn,
/// round by round, each on its own network. Five experiments are built in.
#[derive(Debug, clap::Args)]
#[command(after_long_help = EXIT_CODES)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Command,
}

const EXIT_CODES: &str = "\
Exit codes of `run` and `report`:
  0  all claims hold
  1  the experiment cannot be run or read, or was interrupted; the results so far are kept
  2  wrong command line
  3  a claim fails
  4  no claim fails, but one is undecided, void, or was not run";

#[derive(Debug, Subcommand)]
enum Command {
    /// List the built-in experiments
    List(show::ListArgs),
    /// Show what an experiment does and claims
    Show(show::ShowArgs),
    /// List all errors of an experiment file
    Check(show::CheckArgs),
    /// Print the JSON schema of experiment files
    Schema,
    /// Run an experiment
    Run(run::Args),
    /// Print the report of a record again
    Report(reported::Args),
    /// Hold connections: what `program = "hold"` starts
    #[command(hide = true)]
    Hold(hold::Args),
}

/// Runs the command.
pub(crate) fn run(args: &Args) -> u8 {
    let ran = match &args.command {
        Command::List(args) => show::list(args),
        Command::Show(args) => show::show(args),
        Command::Check(args) => show::check(args),
        Command::Schema => {
            report::print(::lab::schema::text().as_bytes());
            Ok(exit::OK)
        }
        Command::Run(args) => run::run(args),
        Command::Report(args) => reported::run(args),
        Command::Hold(args) => hold::run(args),
    };
    ran.unwrap_or_else(|message| {
        report::say(&message);
        exit::FAILED
    })
}

/// Prefixes a message with the name of the command.
fn named(message: impl std::fmt::Display) -> String {
    format!("holdfast lab: {message}")
}

/// The built-in experiment of that name, or the one in that file.
pub(crate) fn load(word: &str) -> Result<Loaded, String> {
    if let Some(shipped) = shipped::find(word) {
        return shipped.load().map_err(|refused| refusal(&refused));
    }
    if word.contains('/') || Path::new(word).extension().is_some() || Path::new(word).is_file() {
        return load_file(Path::new(word));
    }
    let names = shipped::ALL.iter().map(|shipped| shipped.name);
    Err(named(format_args!("there is no experiment \"{word}\": {}", suggestion(word, names))))
}

/// All errors of the file, in colour on a terminal.
fn refusal(refused: &Refused) -> String {
    refused.render(report::colours(io::stderr().is_terminal())).trim_end().to_owned()
}

fn load_file(path: &Path) -> Result<Loaded, String> {
    ::lab::Experiment::read(path).map_err(|refused| refusal(&refused))
}
