//! `holdfast lab list`, `show` and `check`: print experiments and their errors without starting anything.

use super::{load, load_file, named, printable};
use crate::output::{self, Output};
use crate::{exit, report};
use ::lab::judge::counted_word;
use ::lab::{Adaptation, Loaded, describe, shipped};
use ::report::{Cell, Section, Severity, Table};
use std::path::PathBuf;

/// As typed.
#[derive(Debug, clap::Args)]
pub(super) struct ListArgs {
    #[command(flatten)]
    output: Output,
}

/// As typed.
#[derive(Debug, clap::Args)]
pub(super) struct ShowArgs {
    /// A built-in experiment, or a file
    #[arg(value_name = "NAME|FILE")]
    experiment: String,
    /// As `run --quick` has it
    #[arg(long, conflicts_with = "source")]
    quick: bool,
    /// Print the text of the experiment file instead, to begin one of your own with
    #[arg(long, conflicts_with_all = ["arm", "json", "html"])]
    source: bool,
    /// Print what is started in this arm instead: every command line and file with its templates filled in
    #[arg(long, value_name = "ARM", conflicts_with_all = ["json", "html"])]
    arm: Option<String>,
    #[command(flatten)]
    output: Output,
}

/// As typed.
#[derive(Debug, clap::Args)]
pub(super) struct CheckArgs {
    /// Experiment files
    #[arg(value_name = "FILE", required = true)]
    files: Vec<PathBuf>,
}

pub(super) fn list(args: &ListArgs) -> Result<u8, String> {
    let mut table = Table::new("Experiments", &["name", "what", "arms", "takes", "--quick"]);
    for shipped in shipped::ALL {
        let Loaded { experiment, .. } = shipped.load().map_err(|refused| super::refusal(&refused))?;
        let quick = experiment.adapted(&Adaptation { quick: true, ..Adaptation::default() })?;
        let cells = [experiment.name.clone(), experiment.title.clone(), experiment.arms.len().to_string()];
        let cells = cells.into_iter().chain([describe::takes(&experiment), describe::takes(&quick)]).map(Cell::Text);
        table = table.row(cells.collect());
    }
    let note = "`holdfast lab show NAME` says what one does, `holdfast lab run NAME` runs it.";
    let section = Section::new("What comes with the program").table(table).note(Severity::Note, note);
    args.output.emit(&describe::titled("Experiments").section(section)).map_err(named)?;
    Ok(exit::OK)
}

pub(super) fn show(args: &ShowArgs) -> Result<u8, String> {
    let Loaded { experiment, places } = load(&args.experiment)?;
    if args.source {
        report::print(source(&args.experiment).map_err(named)?.as_bytes());
        return Ok(exit::OK);
    }
    let how = Adaptation { quick: args.quick, ..Adaptation::default() };
    let loaded = Loaded { experiment: experiment.adapted(&how).map_err(named)?, places };
    if let Some(arm) = &args.arm {
        report::print(printable(&describe::started(&loaded, arm).map_err(named)?).as_bytes());
        return Ok(exit::OK);
    }
    args.output.emit(&describe::document(&loaded.experiment)).map_err(named)?;
    Ok(exit::OK)
}

fn source(word: &str) -> Result<String, String> {
    match shipped::find(word) {
        Some(shipped) => Ok(shipped.text.to_owned()),
        None => std::fs::read_to_string(word).map_err(|error| format!("{word}: {error}")),
    }
}

pub(super) fn check(args: &CheckArgs) -> Result<u8, String> {
    let mut refused = false;
    for file in &args.files {
        match load_file(file) {
            Ok(Loaded { experiment, .. }) => {
                let sound = format!(
                    "{}: valid: {}, {}, {}, takes {}\n",
                    file.display(),
                    counted_word(experiment.arms.len(), "arm"),
                    counted_word(experiment.method.rounds as usize, "round"),
                    counted_word(experiment.claims.len(), "claim"),
                    describe::takes(&experiment)
                );
                output::print(&sound).map_err(named)?;
            }
            Err(text) => {
                report::say(&text);
                refused = true;
            }
        }
    }
    Ok(if refused { exit::FAILED } else { exit::OK })
}
