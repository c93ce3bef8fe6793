//! `holdfast lab`: reads experiments, runs them, and reports what they showed. What an experiment is, how it is run and how it is
//! judged are `::lab`'s; here are the command line, the files, and what is said meanwhile.

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

/// Run controlled experiments over real servers, and judge what was claimed of them beforehand
///
/// An experiment is a TOML file: processes on hosts, arms that differ in named ways, a load, and claims. Arms are run in turn,
/// round by round, each on a network of its own; the founding experiments come with the program.
#[derive(Debug, clap::Args)]
#[command(after_long_help = EXIT_CODES)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Command,
}

const EXIT_CODES: &str = "\
Exit codes of `run` and `report`:
  0  everything that is claimed holds
  1  it could not be run or read, or was interrupted; what was measured until then is kept
  2  the command line could not be understood
  3  something that is claimed fails
  4  nothing fails, but something is undecided, void, or was not run";

#[derive(Debug, Subcommand)]
enum Command {
    /// List the experiments that come with the program
    List(show::ListArgs),
    /// Show what an experiment does and claims
    Show(show::ShowArgs),
    /// Say everything that is wrong with an experiment file
    Check(show::CheckArgs),
    /// Print the JSON schema of experiment files
    Schema,
    /// Run an experiment
    Run(run::Args),
    /// Make the report of a run again from its record
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

/// With the name of the command before it.
fn named(message: impl std::fmt::Display) -> String {
    format!("holdfast lab: {message}")
}

/// The experiment of that name, or in that file.
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

/// Everything that is wrong with the file, coloured where somebody looks at it.
fn refusal(refused: &Refused) -> String {
    refused.render(report::colours(io::stderr().is_terminal())).trim_end().to_owned()
}

fn load_file(path: &Path) -> Result<Loaded, String> {
    ::lab::Experiment::read(path).map_err(|refused| refusal(&refused))
}
