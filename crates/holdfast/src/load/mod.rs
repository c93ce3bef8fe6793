//! `holdfast load`: the load generator on the command line. What it does, shows and reports is in the crate `load`; here are flags and
//! the exit code.

mod ab;
mod args;
mod compare;
mod floor;
mod self_test;
mod sources;
mod typed;
mod websocket;

pub(crate) use args::Args;

use crate::{exit, report};
use ::report::text::grouped;
use load::drive::{self, Progress};
use load::results::Files;
use load::results::http::{Results, Style};
use load::{Cause, Expectation, Health, Options, Tally, Verdict};
use std::process::Command as Process;
use terminal::Terminal;

/// The command of a process that has a part of a load.
const PART: &str = "part-of-a-load";

/// What can appear in place of a URL.
#[derive(Debug, clap::Subcommand)]
pub(crate) enum Command {
    Ab(Box<ab::Args>),
    Compare(compare::Args),
    Floor(floor::Args),
    /// A part of a load: what another process of this program orders on the standard input
    #[command(name = PART, hide = true)]
    Part,
}

/// Everything about a run that is not the load itself.
#[derive(Debug)]
struct Show<'a> {
    style: Style,
    quiet: bool,
    live: bool,
    sockets: bool,
    expect: &'a [Expectation],
    allow_lag: bool,
    self_test: bool,
    files: Files,
}

pub(crate) fn run(args: &Args) -> u8 {
    let mut expect = Vec::new();
    if args.command.is_none() {
        match args.load.is_websocket().and_then(|is| if is { Ok(None) } else { args.load.expectations().map(Some) }) {
            Ok(None) => return websocket::run(&args.load),
            Ok(Some(expectations)) => expect = expectations,
            Err(message) => return refuse(&message, exit::USAGE),
        }
    }
    let (options, show) = match &args.command {
        Some(Command::Compare(compare)) => return compare::run(compare),
        Some(Command::Floor(floor)) => return floor::run(floor),
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
                files: ab.files.files(),
            };
            (ab.options(), show)
        }
        None => {
            let load = &args.load;
            let show = Show {
                style: load.style,
                quiet: load.quiet,
                live: !load.plain,
                sockets: !load.no_sockets,
                expect: &expect,
                allow_lag: load.allow_lag,
                self_test: load.self_test,
                files: load.files.files(),
            };
            (load.options(), show)
        }
    };
    // Lives as long as the run.
    let mut origin = None;
    let options = options.and_then(|mut options| {
        if args.command.is_none() && args.load.self_test {
            origin = Some(self_test::start(&mut options)?);
        }
        Ok(options)
    });
    match options {
        Ok(options) => execute(&options, &show).unwrap_or_else(|message| refuse(&message, exit::FAILED)),
        Err(message) => refuse(&message, exit::USAGE),
    }
}

/// Another process of this program, for a part of the load.
fn part() -> Process {
    let mut process = Process::new("/proc/self/exe");
    process.args(["load", PART]);
    process
}

/// Loads for another process. Nothing is printed here: what there is to say, that one says. The standard output is the way to it, and
/// not for what a script prints; that goes to the standard error.
fn serve_part() -> u8 {
    let taken = rustix::io::dup(rustix::stdio::stdout()).and_then(|out| {
        rustix::stdio::dup2_stdout(rustix::stdio::stderr())?;
        Ok(std::fs::File::from(out))
    });
    let served = taken.map_err(std::io::Error::from).and_then(|out| load::serve_part(std::io::stdin(), out));
    match served {
        Ok(()) => exit::OK,
        // The other process is gone: there is no reader.
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
    // What a script prints, and figures in place of the report, go where the view would be.
    let live = show.live && Terminal::is_there() && options.script.is_none() && !show.files.json_on_stdout();
    let progress = Progress { quiet: show.quiet, live: live && !show.quiet, sockets: show.sockets };
    let driven = drive::http(options, part, progress, &show.files)?;
    let (summary, rows) = (&driven.summary, driven.rows());
    let health = summary.health();
    let verdicts: Vec<_> = show.expect.iter().map(|expectation| expectation.judge(summary, &health)).collect();
    let sockets = driven.sockets.as_ref();
    let results = Results { summary, health: &health, verdicts: &verdicts, rows, sockets };
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
        // Foreign styles have no words for these.
        health.void_with(&verdicts).iter().for_each(|reason| report::say(&format!("holdfast load: void: {reason}")));
        say_lateness(&health, &verdicts);
        say_failures(&summary.record.whole());
    }
    let ended = Ended {
        failure: summary.failure.as_deref(),
        nothing: (summary.record.whole().responses == 0 && !summary.stopped).then_some("no request was answered"),
        is_void: !health.void.is_empty(),
        verdicts: &verdicts,
        written,
    };
    Ok(ended.code(show.allow_lag))
}

/// Why requests failed, where the report has counts alone.
fn say_failures(whole: &Tally) {
    for cause in Cause::ALL.iter().filter(|cause| whole.failed_by(**cause) > 0) {
        report::say(&format!("holdfast load: {} failed: {}", grouped(whole.failed_by(*cause)), cause.text()));
    }
}

fn say_lateness(health: &Health, verdicts: &[Verdict]) {
    if let (Some(late), Some(meaning)) = (&health.late, health.of_lateness(verdicts)) {
        report::say(&format!("holdfast load: the generator was late: {late}; {meaning}"));
    }
}

/// How a run ended, as far as the exit code is concerned.
#[derive(Debug)]
struct Ended<'a> {
    /// Why it ended before its time, if it was not asked to end.
    failure: Option<&'a str>,
    /// It could not load at all: in words.
    nothing: Option<&'static str>,
    is_void: bool,
    verdicts: &'a [Verdict],
    /// All files could be written.
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
        // One that is missed whatever the generator did is an answer, also where another one counts for nothing.
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
