//! `holdfast load ws://…`: runs a load of WebSockets, shows its progress, reports it. What it does is in `load::websocket`.

mod data;
mod text;

use super::args::LoadArgs;
use super::drive::{DESCRIPTORS_BESIDE, SIGNAL_LOOK_MS, is_told_to_end};
use super::{refuse, units};
use crate::signals::Signals;
use crate::{exit, report};
use load::Verdict;
use load::websocket::{Expectation, Health, Interval, Options, Running, Summary};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use std::fmt::Write as _;
use std::io::IsTerminal as _;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::Duration;

/// What is known after a run.
#[derive(Debug)]
struct Results<'a> {
    summary: &'a Summary,
    health: &'a Health,
    verdicts: &'a [Verdict],
}

pub(super) fn run(args: &LoadArgs) -> u8 {
    let asked = args.websocket_options().and_then(|options| {
        let parse = |text: &String| text.parse::<Expectation>().map_err(|error| error.to_string());
        Ok((options, args.expect.iter().map(parse).collect::<Result<Vec<_>, _>>()?))
    });
    match asked {
        Ok((options, expect)) => {
            execute(options, &expect, args).unwrap_or_else(|message| refuse(&message, exit::FAILED))
        }
        Err(message) => refuse(&message, exit::USAGE),
    }
}

fn execute(options: Options, expect: &[Expectation], args: &LoadArgs) -> Result<u8, String> {
    args.files.check()?;
    // Whether that suffices is part of the plan, which is made when the address is known.
    reactor::raise_descriptor_limit(options.connections as u64 + DESCRIPTORS_BESIDE)
        .map_err(|error| error.to_string())?;
    // Before the first thread, so that all leave the signals to the one that waits for them.
    let signals = Signals::open().map_err(|error| error.to_string())?;
    let on_terminal = std::io::stderr().is_terminal();
    let summary = observed(options, &signals, |each| {
        if !args.quiet {
            let line = progress(each);
            if on_terminal { report::overwrite(&line) } else { report::say(&line) }
        }
    })?;
    if !args.quiet && on_terminal {
        report::overwrite("");
    }
    let health = summary.health();
    let verdicts: Vec<Verdict> = expect.iter().map(|expectation| expectation.judge(&summary)).collect();
    let results = Results { summary: &summary, health: &health, verdicts: &verdicts };
    if !args.files.json_on_stdout() {
        report::print(text::render(&results).as_bytes());
    }
    let written = args.files.write_json(&data::json(&results));
    Ok(code(&results, args.allow_lag, written))
}

fn code(results: &Results<'_>, allow_lag: bool, written: bool) -> u8 {
    if results.summary.record.established == 0 && !results.summary.stopped {
        report::say("holdfast load: no WebSocket was opened");
        return exit::FAILED;
    }
    if !allow_lag && !results.health.void.is_empty() {
        return exit::VOID;
    }
    match (results.verdicts.iter().all(|verdict| verdict.met), written) {
        (false, _) => exit::THRESHOLD,
        (true, false) => exit::FAILED,
        (true, true) => exit::OK,
    }
}

/// Runs to the end, or until a signal asks for it.
fn observed(options: Options, signals: &Signals, each: impl FnMut(&Interval)) -> Result<Summary, String> {
    let (sender, started) = channel();
    std::thread::spawn(move || {
        // The receiver is gone where somebody did not want to wait for the names any longer.
        let _ = sender.send(load::websocket::start(options));
    });
    let running: Running = loop {
        match started.recv_timeout(Duration::from_millis(u64::from(SIGNAL_LOOK_MS))) {
            Ok(running) => break running.map_err(|error| error.to_string())?,
            Err(RecvTimeoutError::Timeout) if is_told_to_end(signals)? => {
                return Err("stopped before the first connection".to_owned());
            }
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return Err("the start of the load panicked".to_owned()),
        }
    };
    let stopper = running.stopper();
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let watcher = scope.spawn(|| {
            let mut outcome = Ok(());
            while !over.load(Ordering::Relaxed) && outcome.is_ok() {
                let mut watched = [PollFd::new(signals.descriptor(), PollFlags::POLLIN)];
                outcome = match poll(&mut watched, PollTimeout::from(SIGNAL_LOOK_MS)) {
                    Ok(_) | Err(nix::errno::Errno::EINTR) => is_told_to_end(signals),
                    Err(error) => Err(format!("poll() failed: {error}")),
                }
                .map(|told| {
                    if told {
                        stopper.stop();
                    }
                });
            }
            if outcome.is_err() {
                stopper.stop();
            }
            outcome
        });
        let summary = running.watch(each);
        over.store(true, Ordering::Relaxed);
        let watched = watcher.join().unwrap_or_else(|_| Err("the thread that waits for signals panicked".to_owned()));
        summary.map_err(|error| error.to_string()).and_then(|summary| watched.map(|()| summary))
    })
}

/// What stands in a progress line.
fn progress(interval: &Interval) -> String {
    let record = &interval.record;
    let mut line = format!(
        "{:>7.1} s  {:>9} open  {:>7} established  {:>6} failed  {:>6} lost connections",
        interval.begun.as_secs_f64(),
        units::grouped(record.open),
        units::grouped(record.established),
        units::grouped(record.failed()),
        units::grouped(record.losses()),
    );
    if record.sent + record.delivered > 0 {
        let p99 = units::time(record.delivery.quantile_ns(0.99) as f64);
        let (sent, delivered) = (units::grouped(record.sent), units::grouped(record.delivered));
        let _ = write!(line, "  {sent:>7} sent  {delivered:>9} delivered  p99 {p99:>8}");
    }
    line
}
