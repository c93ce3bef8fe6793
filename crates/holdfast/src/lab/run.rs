//! `holdfast lab run`: options to an experiment, a run, and the files that it leaves: record, page and Markdown, side by side.

use super::began::Began;
use super::{load, named, printable, reported};
use crate::output::Output;
use crate::{exit, report};
use ::lab::experiment::Order;
use ::lab::judge::judge;
use ::lab::record::VERSION;
use ::lab::stage::{self, Event, Programs, Request, Stop};
use ::lab::{Adaptation, Experiment, Loaded, Record, Sample, schedule};
use clap::ValueEnum;
use std::fs;
use std::io::IsTerminal as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};

/// As typed.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// An experiment that comes with the program, or a file
    #[arg(value_name = "NAME|FILE")]
    experiment: String,
    /// As short as the experiment allows; its figures are rough
    #[arg(long)]
    quick: bool,
    /// So many rounds, each of which has every arm once; below 6 there are no verdicts
    #[arg(long, value_name = "N")]
    rounds: Option<u32>,
    /// Order of the arms and bootstrap follow from it; drawn and printed if not given
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
    /// Only this arm; may be given several times
    #[arg(long, value_name = "ARM")]
    arm: Vec<String>,
    /// Only arms in whose name this word stands; may be given several times
    #[arg(long, value_name = "WORD", conflicts_with = "arm")]
    only: Vec<String>,
    /// Order of the arms within the rounds, instead of the experiment's
    #[arg(long, value_enum)]
    order: Option<Ordered>,
    /// Run each arm against itself, to see what the method finds where there is nothing to find
    #[arg(long)]
    control: bool,
    /// Make no network namespaces: all hosts are addresses of this machine's loopback
    #[arg(long)]
    loopback: bool,
    /// Write record, page and Markdown into this folder, named after date and experiment
    #[arg(long, value_name = "DIR", default_value = ".")]
    out: PathBuf,
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
        Ok(Adaptation { quick: self.quick, rounds: self.rounds, order, arms, control: self.control })
    }
}

pub(super) fn run(args: &Args) -> Result<u8, String> {
    let Loaded { experiment, places } = load(&args.experiment)?;
    let how = args.adaptation(&experiment).map_err(named)?;
    let experiment = experiment.adapted(&how).map_err(named)?;
    // A plain user is root in a namespace of users, where networks can be made.
    if !args.loopback
        && let Some(mut again) = stage::namespace::again_as_root()
    {
        return Err(named(format_args!("cannot start again as root of a namespace: {}", again.exec())));
    }
    let stop = Stop::when_interrupted().map_err(|error| named(format_args!("signals cannot be handled: {error}")))?;
    let began = Began::now();
    let stem = stem(&args.out, &experiment.name, &began).map_err(named)?;
    // One for all runs, so that each finds what a run that was killed has left, and ends it.
    let home = std::env::temp_dir();
    let programs = Programs::new(this_program()?, cache());
    let mut record = new_record(args, experiment, &began);
    let method = record.experiment.method;
    let turns = schedule::turns(record.experiment.arms.len(), method.rounds, method.order, record.seed);
    report::say(&format!(
        "{}: {} rounds of {} arms, seed {}; ctrl-C keeps what was measured",
        record.experiment.name,
        method.rounds,
        record.experiment.arms.len(),
        record.seed
    ));
    let file = stem.with_added_extension("json");
    let request = Request {
        places: &places,
        turns: &turns,
        programs: &programs,
        home: &home,
        file: Some(&file),
        stop: &stop,
        namespaces: !args.loopback,
    };
    let mut progress = Progress::new();
    let ran = stage::run(&request, &mut record, &mut |event| progress.tell(&event));
    progress.clear();
    if let Err(error) = &ran {
        report::say(&printable(&named(error)));
    }
    // Whatever ended the run, what was measured is worth a report.
    if record.samples.is_empty() {
        return Ok(exit::FAILED);
    }
    finish(args, &record, &stem)
}

/// The three files, and the report on standard output.
fn finish(args: &Args, record: &Record, stem: &Path) -> Result<u8, String> {
    let judged = judge(record);
    let document = ::lab::report::document(record, &judged);
    let files = [("html", ::report::html::render(&document)), ("md", ::report::markdown::render(&document))];
    for (extension, text) in files {
        let path = stem.with_added_extension(extension);
        fs::write(&path, text).map_err(|error| named(format_args!("cannot write {}: {error}", path.display())))?;
    }
    args.output.emit(&document).map_err(named)?;
    report::say(&format!("record, page and Markdown: {}.json, .html, .md", stem.display()));
    Ok(reported::code(record, &judged))
}

fn new_record(args: &Args, experiment: Experiment, began: &Began) -> Record {
    Record {
        version: VERSION,
        command: command(),
        quick: args.quick,
        control: args.control,
        seed: args.seed.unwrap_or_else(|| began.seed()),
        began: began.text.clone(),
        fingerprint: Vec::new(),
        absent: Vec::new(),
        partial: None,
        samples: Vec::new(),
        experiment,
    }
}

/// As a shell takes it.
fn command() -> String {
    let quoted = |word: String| {
        let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_./=:,+@%".contains(c);
        if !word.is_empty() && word.chars().all(is_plain) { word } else { format!("'{}'", word.replace('\'', "'\\''")) }
    };
    let words = std::env::args_os().skip(1).map(|word| quoted(word.to_string_lossy().into_owned()));
    std::iter::once("holdfast".to_owned()).chain(words).collect::<Vec<_>>().join(" ")
}

fn this_program() -> Result<PathBuf, String> {
    std::env::current_exe().map_err(|error| named(format_args!("this program cannot be found: {error}")))
}

/// What is built from Go is kept for the next run.
fn cache() -> PathBuf {
    let base = std::env::var_os("XDG_CACHE_HOME").map(PathBuf::from);
    let base = base.or_else(|| std::env::home_dir().map(|home| home.join(".cache")));
    base.unwrap_or_else(std::env::temp_dir).join("holdfast")
}

/// `DIR/2026-11-22T0701Z-NAME`, as yet without an extension. The folder is made.
fn stem(folder: &Path, name: &str, began: &Began) -> Result<PathBuf, String> {
    fs::create_dir_all(folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    let folder = folder.canonicalize().map_err(|error| format!("{}: {error}", folder.display()))?;
    Ok(folder.join(format!("{}-{name}", began.stem)))
}

/// What happens, on standard error: a line that is written over on a terminal, a line for each sample elsewhere.
struct Progress {
    on_terminal: bool,
    /// Of the sample that runs.
    sample: String,
}

impl Progress {
    fn new() -> Self {
        Self { on_terminal: std::io::stderr().is_terminal(), sample: String::new() }
    }

    fn tell(&mut self, event: &Event<'_>) {
        match event {
            Event::Network(kind, words, None) => self.line(&format!("network: {kind:?}: {words}")),
            Event::Network(kind, words, Some(why)) => self.line(&format!("network: {kind:?}, since {why}: {words}")),
            Event::Absent(arm, why) => self.line(&format!("arm {arm} is absent: {why}")),
            Event::Sample(number, count, arm) => {
                self.sample = format!("[{}/{count}] {arm}", number + 1);
                self.passing("");
            }
            Event::Starting(process) => self.passing(&format!("starting {process}")),
            Event::Idling(seconds) => self.passing(&format!("idle for {seconds} s")),
            Event::WarmingUp(seconds) => self.passing(&format!("warming up for {seconds} s")),
            Event::Loading => self.passing("loading"),
            Event::Taken(sample) => {
                let line = format!("{}: {}", self.sample, in_short(sample));
                self.line(&line);
            }
        }
    }

    /// Stays.
    fn line(&self, text: &str) {
        self.clear();
        report::say(&printable(text));
    }

    /// Is written over by what comes next.
    fn passing(&self, what: &str) {
        if self.on_terminal {
            report::overwrite(&format!("{} {what}", self.sample));
        }
    }

    fn clear(&self) {
        if self.on_terminal {
            report::overwrite("");
        }
    }
}

/// What one sample came to.
fn in_short(sample: &Sample) -> String {
    let rate = sample.figures.get("requests_per_second").map(|rate| format!("{rate:.0} requests/s"));
    let failed =
        sample.figures.get("failed").filter(|failed| **failed > 0.0).map(|failed| format!("{failed:.0} failed"));
    let void = sample.void.as_ref().map(|why| format!("VOID: {why}"));
    let parts: Vec<String> = [rate, failed, void].into_iter().flatten().collect();
    if parts.is_empty() { "taken".to_owned() } else { parts.join(", ") }
}
