//! `holdfast lab run`: applies the options to an experiment, runs it, and writes three files: record, page and
//! Markdown.

use super::began::Began;
use super::prepared::{self, PreparedRun, WantedRun};
use super::progress::Progress;
use super::{leave, load, named, printable, reported};
use crate::output::Output;
use crate::typed::small;
use crate::{exit, report};
use ::lab::experiment::Order;
use ::lab::judge::judge;
use ::lab::stage::Stop;
use ::lab::{Adaptation, Experiment, Loaded, Places, Record};
use clap::ValueEnum;
use std::fs;
use std::path::{Path, PathBuf};

/// As typed.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// A built-in experiment, or a file
    #[arg(value_name = "NAME|FILE")]
    experiment: String,
    /// Run as short as the experiment allows; the results are rough
    #[arg(long)]
    quick: bool,
    /// Number of rounds, each with every arm once; below 6 there are no verdicts
    #[arg(long, value_name = "N", value_parser = small)]
    rounds: Option<u32>,
    /// Seed of the arms' order and of the bootstrap; random and printed if not given
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
    /// Only this arm; may be given several times
    #[arg(long, value_name = "ARM")]
    arm: Vec<String>,
    /// Only arms whose name contains this word; may be given several times
    #[arg(long, value_name = "WORD", conflicts_with = "arm")]
    only: Vec<String>,
    /// Set a variable of the experiment; overrides its value, its arms' values and sweeps; may be given several times
    #[arg(long, value_name = "NAME=VALUE", value_parser = parse_pair)]
    set: Vec<(String, String)>,
    /// Order of the arms within the rounds, instead of the experiment's
    #[arg(long, value_enum)]
    order: Option<Ordered>,
    /// Run each arm against itself: the method should find no difference
    #[arg(long)]
    control: bool,
    /// Use addresses of this machine's loopback instead of network namespaces
    #[arg(long)]
    loopback: bool,
    /// Add a note to the record and the report, such as `commit=3f9a2b1`; may be given several times
    #[arg(long, value_name = "NAME=TEXT", value_parser = parse_pair)]
    note: Vec<(String, String)>,
    /// Write record, page and Markdown into this folder, named after date and experiment
    #[arg(long, value_name = "DIR", default_value = ".")]
    out: PathBuf,
    /// Nothing but the report
    #[arg(short, long)]
    quiet: bool,
    #[command(flatten)]
    output: Output,
}

/// As typed.
#[derive(Debug, Clone, Copy, ValueEnum)]
enum Ordered {
    /// Forward in one round, backward in the next.
    Mirrored,
    /// Drawn anew for each round from the seed.
    Random,
}

/// A name and the text after the first `=`.
fn parse_pair(text: &str) -> Result<(String, String), String> {
    let (name, value) = text.split_once('=').filter(|(name, _)| !name.trim().is_empty()).ok_or("no NAME=…")?;
    Ok((name.trim().to_owned(), value.trim().to_owned()))
}

impl Args {
    fn adaptation(&self, experiment: &Experiment) -> Result<Adaptation, String> {
        let mut arms = self.arm.clone();
        for word in &self.only {
            let before = arms.len();
            let names = experiment.arms.iter().map(|arm| &arm.name).filter(|name| name.contains(word.as_str()));
            arms.extend(names.cloned());
            if arms.len() == before {
                let names: Vec<&str> = experiment.arms.iter().map(|arm| arm.name.as_str()).collect();
                return Err(format!("no arm has \"{word}\" in its name: there are {}", names.join(", ")));
            }
        }
        let order = self.order.map(|order| match order {
            Ordered::Mirrored => Order::Mirrored,
            Ordered::Random => Order::Random,
        });
        let values = self.set.clone();
        Ok(Adaptation { quick: self.quick, rounds: self.rounds, order, values, arms, control: self.control })
    }
}

pub(super) fn run(args: &Args) -> Result<u8, String> {
    let Loaded { experiment, places } = load(&args.experiment)?;
    let how = args.adaptation(&experiment).map_err(named)?;
    let experiment = experiment.adapted(&how).map_err(named)?;
    if !args.loopback {
        prepared::again_as_root().map_err(named)?;
    }
    let stop = Stop::when_interrupted().map_err(|error| named(format_args!("signals cannot be handled: {error}")))?;
    // Each combination of swept values is a run; the exit code is that of the worst run.
    let mut worst = exit::OK;
    for cell in experiment.cells() {
        let code = run_one(args, cell, &places, &stop)?;
        worst = worst_of(worst, code);
        if code == exit::FAILED {
            break;
        }
    }
    Ok(worst)
}

/// The worse of two exit codes: a run that could not be done, then a failed claim, then an undecided one.
fn worst_of(one: u8, other: u8) -> u8 {
    let rising = [exit::OK, exit::UNKNOWN, exit::NO, exit::FAILED];
    rising.into_iter().rfind(|code| [one, other].contains(code)).unwrap_or(exit::FAILED)
}

fn run_one(args: &Args, experiment: Experiment, places: &Places, stop: &Stop) -> Result<u8, String> {
    let began = Began::now();
    let stem = stem(&args.out, &experiment.name, &began).map_err(named)?;
    let wanted = WantedRun {
        experiment,
        places: places.clone(),
        quick: args.quick,
        control: args.control,
        seed: args.seed,
        loopback: args.loopback,
    };
    let mut prepared = PreparedRun::new(wanted, &began).map_err(named)?;
    prepared.record.fingerprint.extend(args.note.iter().map(|(name, note)| (printable(name), printable(note))));
    if !args.quiet {
        report::say(&prepared.in_short());
    }
    let mut progress = Progress::new(args.quiet);
    let file = stem.with_added_extension("json");
    let ran = prepared.perform(Some(&file), stop, &mut |event| progress.show(&event));
    progress.clear();
    if let Err(error) = &ran {
        report::say(&printable(&named(error)));
    }
    let record = prepared.record;
    // Even if the run ended early, the measured samples are worth a report.
    if record.samples.is_empty() {
        report::say(&format!("nothing was measured; what is known of the run: {}", file.display()));
        return Ok(exit::FAILED);
    }
    let whole = if record.partial.is_some() { "partial" } else { "whole" };
    let interrupted = named(format_args!(
        "interrupted while the report was made: the record is {whole}, and `holdfast lab report {}` makes it again",
        file.display()
    ));
    leave::when_interrupted(interrupted.clone(), &stem)
        .map_err(|error| named(format_args!("signals cannot be handled: {error}")))?;
    // The interrupt came after the run had ended.
    if ran.is_ok() && stop.is_said() {
        return Err(interrupted);
    }
    finish(args, &record, &stem)
}

/// Files of a run besides its record.
pub(super) const REPORTS: [&str; 2] = ["html", "md"];

/// Writes the page and the Markdown, and prints the report. A failed write does not stop the printing, so a full disk
/// does not hide the report.
fn finish(args: &Args, record: &Record, stem: &Path) -> Result<u8, String> {
    let judged = judge(record);
    let document = ::lab::report::document(record, &judged);
    let texts = [::report::html::render(&document), ::report::markdown::render(&document)];
    let mut all_written = true;
    for (extension, text) in REPORTS.into_iter().zip(texts) {
        if let Err(error) = leave::write_whole(&stem.with_added_extension(extension), &text) {
            report::say(&named(error));
            all_written = false;
        }
    }
    args.output.emit(&document).map_err(named)?;
    let whole = if record.partial.is_some() { "partial record" } else { "record" };
    let samples = match record.samples.len() {
        1 => "1 sample".to_owned(),
        count => format!("{count} samples"),
    };
    report::say(&format!("{whole} ({samples}), page and Markdown: {}.json, .html, .md", stem.display()));
    Ok(if all_written { reported::code(record, &judged) } else { exit::FAILED })
}

/// A script that starts more runs a minute is probably in an endless loop.
const RUNS_PER_MINUTE_MAX: u32 = 100;

/// `DIR/2026-11-22T0701Z-NAME`, without an extension. A second run within a minute gets `-2`, because no run may
/// overwrite the record of another. Makes the folder.
fn stem(folder: &Path, name: &str, began: &Began) -> Result<PathBuf, String> {
    fs::create_dir_all(folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    let folder = folder.canonicalize().map_err(|error| format!("{}: {error}", folder.display()))?;
    let first = format!("{}-{name}", began.stem);
    let others = (2..=RUNS_PER_MINUTE_MAX).map(|number| format!("{first}-{number}"));
    let mut stems = std::iter::once(first.clone()).chain(others).map(|stem| folder.join(stem));
    let free = stems.find(|stem| !stem.with_added_extension("json").exists());
    free.ok_or_else(|| format!("{}: there are {RUNS_PER_MINUTE_MAX} records of this minute", folder.display()))
}
