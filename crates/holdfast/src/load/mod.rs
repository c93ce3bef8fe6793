//! `holdfast load`: the load generator on the command line. What it does is in the crate `load`; here are flags, progress,
//! reports in several styles, files, and the exit code.

mod ab;
mod args;
mod compare;
mod data;
mod files;
mod page;
mod self_test;
mod sources;
mod style;
mod units;

pub(crate) use args::Args;

use crate::signals::{Ask, Signals};
use crate::{exit, report};
use data::Results;
use files::Files;
use load::{Expectation, Interval, Options, Record, Running, Series, Stopper, Summary};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use std::io::IsTerminal as _;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::Duration;
use style::Style;

/// How often the thread that waits for signals looks whether the run is over.
const SIGNAL_LOOK_MS: u16 = 50;
/// Descriptors beside the connections: epoll, timers, files, standard streams.
const DESCRIPTORS_BESIDE: u64 = 64;

/// What can stand in place of a URL.
#[derive(Debug, clap::Subcommand)]
pub(crate) enum Command {
    Ab(Box<ab::Args>),
    Compare(compare::Args),
    /// A part of a load: what another process of this program orders on the standard input
    #[command(name = PART, hide = true)]
    Part,
}

/// The command of a process that has a part of a load.
const PART: &str = "part-of-a-load";

/// Everything about a run that is not the load itself.
#[derive(Debug)]
struct Show<'a> {
    style: Style,
    quiet: bool,
    expect: &'a [Expectation],
    allow_lag: bool,
    self_test: bool,
    files: &'a Files,
}

pub(crate) fn run(args: &Args) -> u8 {
    let (options, show) = match &args.command {
        Some(Command::Compare(compare)) => return compare::run(compare),
        Some(Command::Part) => return serve_part(),
        Some(Command::Ab(ab)) => {
            let show = Show {
                style: Style::Ab,
                quiet: ab.quiet,
                expect: &[],
                allow_lag: true,
                self_test: false,
                files: &ab.files,
            };
            (ab.options(), show)
        }
        None => {
            let load = &args.load;
            let show = Show {
                style: load.style,
                quiet: load.quiet,
                expect: &load.expect,
                allow_lag: load.allow_lag,
                self_test: load.self_test,
                files: &load.files,
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
        Ok(options) => execute(options, &show).unwrap_or_else(|message| refuse(&message, exit::FAILED)),
        Err(message) => refuse(&message, exit::USAGE),
    }
}

/// Loads for another process. Nothing is printed here: what there is to say, that one says.
fn serve_part() -> u8 {
    match load::serve_part(std::io::stdin(), std::io::stdout().lock()) {
        Ok(()) => exit::OK,
        Err(error) => refuse(&format!("a part of a load: {error}"), exit::FAILED),
    }
}

/// Another process of this program, for a part of the load.
fn part() -> std::process::Command {
    let mut command = std::process::Command::new("/proc/self/exe");
    command.args(["load", PART]);
    command
}

fn refuse(message: &str, code: u8) -> u8 {
    report::say(&format!("holdfast load: {message}"));
    code
}

/// Runs the load and reports it.
fn execute(options: Options, show: &Show<'_>) -> Result<u8, String> {
    show.files.check()?;
    // Before the first thread, so that all leave the signals to the one that waits for them.
    let signals = Signals::open().map_err(|error| error.to_string())?;
    let interval = options.interval;
    let mut series = Series::new(interval);
    let summary = observed(options, show.quiet, &signals, |each, whole| {
        series.add(each);
        show.files.during(each, whole);
        if !show.quiet {
            let line = files::progress(each);
            if std::io::stderr().is_terminal() { report::overwrite(&line) } else { report::say(&line) }
        }
    })?;
    if !show.quiet && std::io::stderr().is_terminal() {
        report::overwrite("");
    }
    let health = summary.health();
    let verdicts: Vec<_> = show.expect.iter().map(|expectation| expectation.judge(&summary)).collect();
    let results = Results { summary: &summary, health: &health, verdicts: &verdicts, rows: series.rows() };
    let written = show.files.after(&results);
    if !show.files.json_on_stdout() {
        report::print(show.style.render(&results).as_bytes());
    }
    if show.self_test {
        report::print(self_test::explain(&summary).as_bytes());
    }
    if let Some(script) = &summary.script {
        script.done(&summary, series.rows()).map_err(|error| format!("the script failed: {error}"))?;
    }
    if show.style != Style::Own {
        // Foreign styles have no words for these.
        health.void.iter().for_each(|reason| report::say(&format!("holdfast load: void: {reason}")));
    }
    Ok(code(&results, show, written))
}

/// The exit code of a run.
fn code(results: &Results<'_>, show: &Show<'_>, written: bool) -> u8 {
    let unmet = results.verdicts.iter().any(|verdict| !verdict.met);
    let answered = results.summary.record.whole().responses > 0;
    if !answered && !results.summary.stopped {
        report::say("holdfast load: no request was answered");
        return exit::FAILED;
    }
    // A threshold that was missed while the generator had no time left says nothing about the target.
    if !show.allow_lag && (!results.health.void.is_empty() || (unmet && results.health.saturated)) {
        return exit::VOID;
    }
    match (unmet, written) {
        (true, _) => exit::THRESHOLD,
        (false, false) => exit::FAILED,
        (false, true) => exit::OK,
    }
}

/// Runs to the end, or until a signal asks for it. The start resolves names, which can take long, so it too is waited for
/// together with the signals.
fn observed(
    options: Options,
    quiet: bool,
    signals: &Signals,
    mut each: impl FnMut(&Interval, &Record),
) -> Result<Summary, String> {
    let (sender, started) = channel();
    std::thread::spawn(move || {
        // The receiver is gone where somebody did not want to wait for the names any longer.
        let _ = sender.send(start(options, quiet));
    });
    let running: Running = loop {
        match started.recv_timeout(Duration::from_millis(u64::from(SIGNAL_LOOK_MS))) {
            Ok(running) => break running?,
            Err(RecvTimeoutError::Timeout) if is_told_to_end(signals)? => {
                return Err("stopped before the first request".to_owned());
            }
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return Err("the start of the load panicked".to_owned()),
        }
    };
    let stopper = running.stopper();
    let over = AtomicBool::new(false);
    let failure = Mutex::new(None);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            if let Err(message) = stop_when_told(signals, &stopper, &over) {
                stopper.stop();
                *failure.lock().unwrap_or_else(std::sync::PoisonError::into_inner) = Some(message);
            }
        });
        let mut whole = Record::default();
        let summary = running.watch(|interval| {
            whole.add(&interval.record);
            each(interval, &whole);
        });
        over.store(true, Ordering::Relaxed);
        summary.map_err(|error| error.to_string())
    })
    .and_then(|summary| {
        let failure = failure.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner);
        failure.map_or(Ok(summary), Err)
    })
}

/// Says what the load needs, and starts it.
fn start(options: Options, quiet: bool) -> Result<Running, String> {
    let connections = options.connections as u64;
    let prepared = load::prepare(options).map_err(|error| error.to_string())?;
    let plan = prepared.plan();
    if !quiet {
        report::say(&style::plan_line(plan));
    }
    if plan.processes == 1 {
        // Whether that suffices, the plan has said.
        let wanted = connections + DESCRIPTORS_BESIDE;
        reactor::raise_descriptor_limit(wanted).map_err(|error| error.to_string())?;
    }
    prepared.start_with(part).map_err(|error| error.to_string())
}

fn stop_when_told(signals: &Signals, stopper: &Stopper, over: &AtomicBool) -> Result<(), String> {
    while !over.load(Ordering::Relaxed) {
        let mut watched = [PollFd::new(signals.descriptor(), PollFlags::POLLIN)];
        match poll(&mut watched, PollTimeout::from(SIGNAL_LOOK_MS)) {
            Ok(_) | Err(nix::errno::Errno::EINTR) => {}
            Err(error) => return Err(format!("poll() failed: {error}")),
        }
        if is_told_to_end(signals)? {
            stopper.stop();
        }
    }
    Ok(())
}

fn is_told_to_end(signals: &Signals) -> Result<bool, String> {
    while let Some(ask) = signals.next().map_err(|error| error.to_string())? {
        if matches!(ask, Ask::Interrupt | Ask::Terminate | Ask::Quit) {
            return Ok(true);
        }
    }
    Ok(false)
}
