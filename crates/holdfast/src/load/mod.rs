//! `holdfast load`: the load generator on the command line. The crate `load` generates, shows and reports the load;
//! this module has the flags and the exit code.

mod ab;
mod args;
mod compare;
mod convert;
mod farm;
mod floor;
mod self_test;
mod sources;
mod typed;
mod websocket;

pub(crate) use args::Args;

use crate::{exit, report};
use ::report::text::grouped;
use load::drive::{self, Parts, Progress};
use load::results::http::{HttpResults, Style};
use load::results::{Baseline, Files};
use load::{Cause, Expectation, Health, Options, Tally, Verdict};
use std::process::Command as Process;
use terminal::Terminal;

/// Hidden command of a process that runs a part of a load.
const PART: &str = "part-of-a-load";

/// Subcommands, in place of a URL.
#[derive(Debug, clap::Subcommand)]
pub(crate) enum Command {
    Ab(Box<ab::Args>),
    Agent(farm::AgentArgs),
    Compare(compare::Args),
    Convert(convert::Args),
    FarmStatus(farm::StatusArgs),
    Floor(floor::Args),
    /// A part of a load: what another process of this program orders on the standard input
    #[command(name = PART, hide = true)]
    Part,
}

/// The settings of a run other than the load itself.
#[derive(Debug)]
struct Show<'a> {
    style: Style,
    quiet: bool,
    live: bool,
    sockets: bool,
    expect: &'a [Expectation],
    allow_lag: bool,
    self_test: bool,
    /// The farm that runs the load, and the number of threads that is asked for.
    farm: Option<(&'a args::FarmFlags, Option<usize>)>,
    files: Files,
    baseline: Option<Baseline>,
}

pub(crate) fn run(args: &Args) -> u8 {
    let mut expect = Vec::new();
    if args.command.is_none() {
        let is_held = args.load.is_held().and_then(|is| args.load.check_farm(is).map(|()| is));
        match is_held.and_then(|is| if is { Ok(None) } else { args.load.expectations().map(Some) }) {
            Ok(None) => return websocket::run(&args.load),
            Ok(Some(expectations)) => expect = expectations,
            Err(message) => return refuse(&message, exit::USAGE),
        }
    }
    let (options, show) = match &args.command {
        Some(Command::Compare(compare)) => return compare::run(compare),
        Some(Command::Convert(convert)) => return convert::run(convert),
        Some(Command::Floor(floor)) => return floor::run(floor),
        Some(Command::Agent(agent)) => return farm::agent(agent),
        Some(Command::FarmStatus(status)) => return farm::status(status),
        Some(Command::Part) => return serve_part(),
        Some(Command::Ab(ab)) => {
            let show = Show {
                style: Style::Ab,
                quiet: ab.quiet,
                live: false,
                sockets: true,
                expect: &[],
                allow_lag: true,
                self_test: false,
                farm: None,
                files: ab.files.files(),
                baseline: None,
            };
            (ab.options(), show)
        }
        None => {
            let load = &args.load;
            let baseline = match load.baseline.read() {
                Ok(baseline) => baseline,
                Err(message) => return refuse(&message, exit::USAGE),
            };
            let show = Show {
                style: load.style,
                quiet: load.quiet,
                live: !load.plain,
                sockets: load.looks_at_sockets(),
                expect: &expect,
                allow_lag: load.allow_lag,
                self_test: load.self_test,
                farm: load.farm.farm.is_some().then_some((&load.farm, load.threads)),
                files: load.files.files(),
                baseline,
            };
            (load.options(), show)
        }
    };
    // Keeps the origin alive as long as the run.
    let mut origin = None;
    let options = options.and_then(|mut options| {
        if args.command.is_none() && args.load.self_test {
            origin = Some(self_test::start(&mut options)?);
        }
        Ok(options)
    });
    match options {
        Ok(options) if unknown_step(&options, &expect).is_some() => {
            let step = unknown_step(&options, &expect).unwrap_or_default();
            refuse(&format!("--expect: the scenario has no step `{step}`"), exit::USAGE)
        }
        Ok(options) => execute(&options, &show).unwrap_or_else(|message| refuse(&message, exit::FAILED)),
        Err(message) => refuse(&message, exit::USAGE),
    }
}

/// A step that a threshold names and the scenario does not have.
fn unknown_step(options: &Options, expect: &[Expectation]) -> Option<String> {
    let scenario = options.scenario.as_ref()?;
    let mut named = expect.iter().filter_map(Expectation::step);
    named.find(|step| scenario.step(step).is_none()).map(str::to_owned)
}

/// Starts this program again, for a part of the load.
fn part() -> Process {
    let mut process = Process::new("/proc/self/exe");
    process.args(["load", PART]);
    process
}

/// Runs a part of a load for another process, which does all the reporting. Standard output carries the results to that
/// process, so text that a script prints goes to standard error.
fn serve_part() -> u8 {
    let taken = rustix::io::dup(rustix::stdio::stdout()).and_then(|out| {
        rustix::stdio::dup2_stdout(rustix::stdio::stderr())?;
        Ok(std::fs::File::from(out))
    });
    let served = taken.map_err(std::io::Error::from).and_then(|out| load::serve_part(std::io::stdin(), out));
    match served {
        Ok(()) => exit::OK,
        // The other process is gone and no longer reads.
        Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => exit::FAILED,
        Err(error) => refuse(&format!("a part of a load: {error}"), exit::FAILED),
    }
}

fn refuse(message: &str, code: u8) -> u8 {
    report::say(&format!("holdfast load: {message}"));
    code
}

/// Runs the load and reports it.
fn execute(options: &Options, show: &Show<'_>) -> Result<u8, String> {
    show.files.check()?;
    // Without the live view if a script may print, or if JSON goes to standard output: both would overwrite the view.
    let live = show.live && Terminal::is_there() && options.script.is_none() && !show.files.json_on_stdout();
    let progress = Progress { quiet: show.quiet, live: live && !show.quiet, sockets: show.sockets };
    let (hired, parts) = match show.farm {
        Some((flags, threads)) => farm::hire(flags, threads, options).map(|(options, parts)| (Some(options), parts))?,
        None => (None, Parts::Here(part)),
    };
    let options = hired.as_ref().unwrap_or(options);
    let driven = drive::http(options, parts, progress, &show.files)?;
    let (summary, rows) = (&driven.summary, driven.rows());
    let health = summary.health();
    let mut verdicts: Vec<_> = show.expect.iter().map(|expectation| expectation.judge(summary, &health)).collect();
    let sockets = driven.sockets.as_ref();
    if let Some(baseline) = &show.baseline {
        let results = HttpResults { summary, health: &health, verdicts: &verdicts, rows, sockets };
        verdicts.extend(baseline.judge(&results)?);
    }
    let results = HttpResults { summary, health: &health, verdicts: &verdicts, rows, sockets };
    let written = show.files.after(&results) && driven.written;
    if !show.files.json_on_stdout() {
        report::print(show.style.render(&results).as_bytes());
    }
    if show.self_test {
        report::print(self_test::explain(summary).as_bytes());
    }
    if let Some(script) = summary.script.as_ref().filter(|_| summary.failure.is_none()) {
        script.done(summary, rows).map_err(|error| format!("the script failed: {error}"))?;
    }
    if show.style != Style::Own {
        // The reports of other tools have no place for these reasons.
        health.void_with(&verdicts).iter().for_each(|reason| report::say(&format!("holdfast load: void: {reason}")));
        print_lateness(&health, &verdicts);
        print_failures(&summary.record.whole());
    }
    let ended = Ended {
        failure: summary.failure.as_deref(),
        nothing: (summary.record.whole().responses == 0 && !summary.stopped).then_some(if options.is_tcp() {
            "no message was complete"
        } else {
            "no request was answered"
        }),
        is_void: !health.void.is_empty(),
        verdicts: &verdicts,
        written,
    };
    Ok(ended.code(show.allow_lag))
}

/// Prints the reasons of failed requests, because these reports show only numbers.
fn print_failures(whole: &Tally) {
    for cause in Cause::ALL.iter().filter(|cause| whole.failed_by(**cause) > 0) {
        report::say(&format!("holdfast load: {} failed: {}", grouped(whole.failed_by(*cause)), cause.text()));
    }
}

fn print_lateness(health: &Health, verdicts: &[Verdict]) {
    if let (Some(late), Some(meaning)) = (&health.late, health.of_lateness(verdicts)) {
        report::say(&format!("holdfast load: the generator was late: {late}; {meaning}"));
    }
}

/// How a run ended, for the exit code.
#[derive(Debug)]
struct Ended<'a> {
    /// Why it ended early; `None` after an interrupt or a normal end.
    failure: Option<&'a str>,
    /// Why it could not load at all.
    nothing: Option<&'static str>,
    is_void: bool,
    verdicts: &'a [Verdict],
    /// Whether all files were written.
    written: bool,
}

impl Ended<'_> {
    fn code(&self, allow_lag: bool) -> u8 {
        if let Some(failure) = self.failure {
            report::say(&format!("holdfast load: the run could not go on: {failure}"));
            return exit::FAILED;
        }
        if let Some(nothing) = self.nothing {
            report::say(&format!("holdfast load: {nothing}"));
            return exit::FAILED;
        }
        if self.is_void && !allow_lag {
            return exit::UNKNOWN;
        }
        let counts = |verdict: &&Verdict| allow_lag || verdict.undecided.is_none();
        // A threshold that was missed even without the generator's delays decides the result, although another
        // threshold may be undecided.
        if self.verdicts.iter().filter(counts).any(|verdict| !verdict.met) {
            return exit::NO;
        }
        match (self.verdicts.iter().all(|verdict| counts(&verdict)), self.written) {
            (false, _) => exit::UNKNOWN,
            (true, false) => exit::FAILED,
            (true, true) => exit::OK,
        }
    }
}
