//! Holdfast's own command line: one file per subcommand. `main` calls it if the command line is not nginx's.

mod completions;
mod incident;
#[cfg(feature = "kubernetes")]
mod ingress;
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
    // Boxed: it has the flags of ingress-nginx.
    #[cfg(feature = "kubernetes")]
    Ingress(Box<ingress::Args>),
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
        #[cfg(feature = "kubernetes")]
        Command::Ingress(args) => ingress::run(&args),
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

    /// All commands with their subcommands, as words.
    fn paths(command: &clap::Command, words: &[String], all: &mut Vec<(Vec<String>, Vec<String>)>) {
        let longs = command.get_arguments().filter(|arg| arg.get_action().takes_values());
        all.push((words.to_vec(), longs.filter_map(|arg| arg.get_long().map(str::to_owned)).collect()));
        for sub in command.get_subcommands() {
            paths(sub, &[words, &[sub.get_name().to_owned()]].concat(), all);
        }
    }

    #[test]
    fn numbers_are_written_as_people_do_in_every_flag() {
        // Numbers that name something, and are no quantities.
        const NAMES: [&str; 4] = ["seed", "pid", "port", "parent"];
        let (mut all, mut plain) = (Vec::new(), Vec::new());
        paths(&Cli::command(), &["holdfast".to_owned()], &mut all);
        assert!(all.len() > 30 && all.iter().any(|(words, _)| words.ends_with(&["lab".to_owned(), "run".to_owned()])));
        for (words, flags) in all {
            for flag in flags.iter().filter(|flag| !NAMES.contains(&flag.as_str())) {
                let line = words.iter().cloned().chain([format!("--{flag}=1,000")]);
                let error = Cli::try_parse_from(line).err().map(|error| error.to_string()).unwrap_or_default();
                if error.contains("invalid digit") || error.contains("invalid float") {
                    plain.push(format!("{} --{flag}", words.join(" ")));
                }
            }
        }
        assert_eq!(plain, [""; 0], "these refuse 1,000");
    }

    #[test]
    fn the_guide_has_the_exit_codes_of_every_command() {
        let page = include_str!("../../../../docs/guide/exit-codes.md");
        for command in ["load", "doctor", "doctor diff", "incident", "migrate", "explain", "plan", "lab run"] {
            assert!(page.contains(&format!("| `{command}`")), "{command}");
            let word = command.split(' ').next().expect("a word");
            assert!(EXIT_CODES.contains(word), "{word} in the help");
        }
    }
}
