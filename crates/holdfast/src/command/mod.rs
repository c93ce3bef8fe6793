//! Holdfast's own command line: one file per subcommand. `main` calls it if the command line is not nginx's.

mod completions;
mod incident;
mod man;
mod origin;
mod record;
mod serve;
mod watch;

use crate::{ctl, demo, doctor, explain, lab, load, migrate, plan};
use clap::{CommandFactory as _, Parser, Subcommand};
use std::ffi::OsString;

/// A reverse proxy that reads nginx.conf, built around its upstream connection pool.
///
/// With nginx's flags instead of a command (`holdfast -t -c FILE`), or when called `nginx`, it behaves as nginx
/// does; `holdfast -h` lists those flags.
#[derive(Debug, Parser)]
#[command(name = "holdfast", version, arg_required_else_help = true, after_long_help = EXIT_CODES)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

/// What is at the end of the long help and in the man page.
const EXIT_CODES: &str = "\
Exit codes:
  0  done, or ended as asked
  1  refused or failed; the reason is on standard error
  2  the command line could not be understood
  3  it ran, and the result is negative: load misses a threshold, doctor finds warnings or errors, doctor diff a difference,
     incident something that happened, migrate an unsupported directive, explain no listener for the request, plan a chain that carries too little, lab a claim that fails
  4  it ran, and the result is not reliable: load or a claim of lab is void or undecided, plan --verify disagrees

Environment:
  NO_COLOR  if set and not empty, output has no colours; output to files and pipes never has";

#[derive(Debug, Subcommand)]
enum Command {
    Serve(serve::Args),
    Ctl(ctl::Args),
    // Boxed: it has a flag for everything that an origin can do.
    Origin(Box<origin::Args>),
    Demo(demo::Args),
    // Boxed: it has a flag for everything that a load can do.
    Load(Box<load::Args>),
    Watch(Box<watch::Args>),
    Doctor(Box<doctor::Args>),
    Record(Box<record::Args>),
    Incident(incident::Args),
    Explain(Box<explain::Args>),
    Migrate(migrate::Args),
    Plan(plan::Args),
    Lab(Box<lab::Args>),
    Completions(completions::Args),
    Man(man::Args),
}

/// Runs a subcommand; `words` are all arguments, the program's name first.
pub(crate) fn run(words: Vec<OsString>) -> u8 {
    let cli = match Cli::try_parse_from(words) {
        Ok(cli) => cli,
        Err(error) => {
            // clap reports help and version as errors with exit code 0.
            let _ = error.print();
            return error.exit_code() as u8;
        }
    };
    match cli.command {
        Command::Serve(args) => serve::run(&args),
        Command::Ctl(args) => ctl::run(&args),
        Command::Origin(args) => origin::run(&args),
        Command::Demo(args) => demo::run(&args),
        Command::Load(args) => load::run(&args),
        Command::Watch(args) => watch::run(&args),
        Command::Doctor(args) => doctor::run(&args),
        Command::Record(args) => record::run(*args),
        Command::Incident(args) => incident::run(&args),
        Command::Explain(args) => explain::run(&args),
        Command::Migrate(args) => migrate::run(&args),
        Command::Plan(args) => plan::run(&args),
        Command::Lab(args) => lab::run(&args),
        Command::Completions(args) => completions::run(&args, &mut Cli::command()),
        Command::Man(args) => man::run(&args, &Cli::command()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }
}
