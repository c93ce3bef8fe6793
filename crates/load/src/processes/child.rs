//! A process that runs a part of a load: it reads an order, generates its part, and sends on the workers' messages. It ends
//! when its parent tells it to or is gone.

use super::wait_until;
use super::wire::{Begin, Order, Said, Work, encode, parse_next};
use crate::crew::{Crew, Part};
use crate::options::Options;
use crate::plan::{Limits, descriptors_needed};
use crate::prepare::crew;
use crate::record::HttpRecord;
use crate::script::{self, ScriptStart, Threads};
use crate::setup::{Setup, StartError};
use crate::websocket;
use crate::worker::Start;
use crate::worker::timer::monotonic_ns;
use serde::Serialize;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Runs the part of a load that a parent orders over these two streams, in a program that [`crate::Prepared::start_with`]
/// has started. Returns when the part is over. An error concerns the streams: the parent is gone or sent something invalid.
pub fn serve_part(from: impl Read + Send + 'static, to: impl Write) -> io::Result<()> {
    let mut from = BufReader::new(from);
    let Some(Order { part, work }) = parse_next::<Order>(&mut from)? else { return Ok(()) };
    if part.index >= part.of {
        let Part { index, of } = part;
        return refuse(&StartError::Process(format!("has part {index} of {of}")), to);
    }
    match work {
        Work::Http { options, addresses, threads } => match http(&options, &addresses, &threads, part) {
            Ok((crew, first, threads)) => serve(crew, from, to, || scripts(threads.as_ref(), first)),
            Err(error) => refuse(&error, to),
        },
        Work::WebSocket { options, address, run, counters } => {
            match websocket::crew_of_part(*options, address, run, &counters, part) {
                Ok(crew) => serve(crew, from, to, Vec::new),
                Err(error) => refuse(&error, to),
            }
        }
    }
}

fn refuse(error: &StartError, mut to: impl Write) -> io::Result<()> {
    to.write_all(&encode(&Said::<()>::Refused(error.to_string())))
}

/// Starts the workers of an HTTP part. Also returns the number of the first worker, and the script states.
fn http(
    options: &Options,
    addresses: &[SocketAddr],
    threads: &[ScriptStart],
    part: Part,
) -> Result<(Crew<HttpRecord>, usize, Option<Threads>), StartError> {
    let wanted = descriptors_needed(options.sockets(), options.threads, part.of);
    reactor::raise_descriptor_limit(wanted).map_err(StartError::Worker)?;
    let setup = Arc::new(Setup::new(options, Some(addresses), &Limits::read())?);
    let here = part.workers(options.threads, setup.connections_least());
    let first = part.index * here;
    let stop = Arc::new(AtomicBool::new(false));
    let (mut states, mut scripts) = (None, Vec::new());
    if let Some(script) = &options.script {
        let ours = threads.get(first..first + here).unwrap_or_default();
        let (taken, prepared) = script::take_up(script, options, addresses, ours, &stop)?;
        (states, scripts) = (Some(taken), prepared);
    }
    Ok((crew(options, &setup, part, stop, scripts)?, first, states))
}

/// The globals that `done` needs from the workers' scripts.
fn scripts<R>(threads: Option<&Threads>, first: usize) -> Vec<Said<R>> {
    match threads.map_or(Ok(Vec::new()), Threads::globals) {
        Ok(all) => all.into_iter().zip(first..).map(|(globals, worker)| Said::Script { worker, globals }).collect(),
        Err(error) => vec![Said::Failed(error.to_string())],
    }
}

/// Lets the workers begin when the parent says so, sends their messages, and at the end those from `last`.
fn serve<R: Serialize + Send + 'static>(
    crew: Crew<R>,
    mut from: impl BufRead + Send + 'static,
    mut to: impl Write,
    last: impl FnOnce() -> Vec<Said<R>>,
) -> io::Result<()> {
    to.write_all(&encode(&Said::<R>::Ready))?;
    to.flush()?;
    let stop = Arc::clone(&crew.together.stop);
    if let Ok(Some(begin)) = parse_next::<Begin>(&mut from) {
        let now_ns = monotonic_ns();
        let ahead = Duration::from_nanos(begin.monotonic_ns.saturating_sub(now_ns));
        // A part that joins a run begins in its past.
        let passed = Duration::from_nanos(now_ns.saturating_sub(begin.monotonic_ns));
        let joins = begin.from_ns > 0;
        let at = if joins {
            Instant::now().checked_sub(passed).unwrap_or_else(Instant::now)
        } else {
            Instant::now() + ahead
        };
        wait_until(at);
        crew.together.join(Start { at, from_ns: begin.from_ns });
        let late_ns = monotonic_ns().saturating_sub(begin.monotonic_ns.saturating_add(begin.from_ns));
        to.write_all(&encode(&Said::<R>::Began { late_ns }))?;
        to.flush()?;
    } else {
        stop.store(true, Ordering::Relaxed);
        crew.together.begin(Instant::now());
    }
    let told = Arc::new(AtomicBool::new(false));
    let (by_parent, to_stop) = (Arc::clone(&told), Arc::clone(&stop));
    std::thread::spawn(move || {
        wait_for_the_end(&mut from);
        by_parent.store(true, Ordering::Relaxed);
        to_stop.store(true, Ordering::Release);
    });
    let said = send(&crew, &mut to);
    let by_script = stop.load(Ordering::Acquire) && !told.load(Ordering::Relaxed);
    // The parent no longer reads, so the workers must stop.
    crew.together.stop.store(true, Ordering::Relaxed);
    for thread in crew.threads {
        if thread.join().is_err() {
            to.write_all(&encode(&Said::<R>::Failed("a worker of the load panicked".to_owned())))?;
        }
    }
    said?;
    let stopped = by_script.then_some(Said::Stopped);
    for said in stopped.into_iter().chain(last()).chain([Said::End]) {
        to.write_all(&encode(&said))?;
    }
    to.flush()
}

/// Sends messages until the workers have ended.
fn send<R: Serialize>(crew: &Crew<R>, to: &mut impl Write) -> io::Result<()> {
    while let Ok(message) = crew.messages.recv() {
        if let Some(said) = Said::of(message) {
            to.write_all(&encode(&said))?;
            to.flush()?;
        }
    }
    Ok(())
}

/// Waits for the end of the parent's stream, which may also end in an error.
fn wait_for_the_end(from: &mut impl BufRead) {
    loop {
        match from.fill_buf() {
            Ok([]) => return,
            Ok(bytes) => {
                let length = bytes.len();
                from.consume(length);
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(_) => return,
        }
    }
}
