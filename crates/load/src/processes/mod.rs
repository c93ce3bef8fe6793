//! A load in several processes, for more connections than one process may have descriptors. The parent starts the
//! processes, assigns their parts, lets them begin at the same moment, and passes their messages to `crew` like those of
//! its own workers. So the same code merges the figures of processes and of threads. `wire` defines the lines, and `child`
//! is the other end of the pipes.

mod child;
mod wire;

pub use child::serve_part;
pub use wire::Order;

pub(crate) use wire::{Begin, Said, Work, encode};

use crate::collect::Collected;
use crate::crew::{Part, Workers};
use crate::setup::StartError;
use crate::worker::Message;
use crate::worker::timer::monotonic_ns;
use rustix::process::{PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use serde::de::DeserializeOwned;
use std::io::{self, BufReader, Write as _};
use std::marker::PhantomData;
use std::ops::Range;
use std::os::fd::OwnedFd;
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::time::{Duration, Instant};
use wire::parse_next;

/// All processes begin this long after the last one is ready, so that each has received the start by then.
const BEGIN_AHEAD: Duration = Duration::from_millis(20);
/// How often the parent checks whether the run must stop.
const LOOK_PERIOD: Duration = Duration::from_millis(20);
/// A process that has not ended this long after the stop is killed: it hangs, or a signal has stopped it.
const PATIENCE: Duration = Duration::from_secs(10);

/// A process that was started.
struct Started<R> {
    child: Child,
    to: ChildStdin,
    from: BufReader<ChildStdout>,
    workers: Range<usize>,
    records: PhantomData<R>,
}

/// Starts a load in `count` processes with `each` workers each. Calls `ready` with the process ids when all workers wait,
/// before they begin.
pub(crate) fn start<R: DeserializeOwned + Send + 'static>(
    work: &Work,
    count: usize,
    each: usize,
    mut command: impl FnMut() -> Command,
    collected: Collected<R>,
    ready: impl FnOnce(&[u32]),
) -> Result<Workers<R>, StartError> {
    let mut started = Vec::new();
    for index in 0..count {
        let order = Order { part: Part { index, of: count }, work: work.clone() };
        let workers = index * each..(index + 1) * each;
        // The processes started before end when their pipes are dropped.
        started.push(spawn::<R>(command(), &order, workers).map_err(|error| cannot(index, &error))?);
    }
    for (index, started) in started.iter_mut().enumerate() {
        match parse_next::<Said<R>>(&mut started.from) {
            Ok(Some(Said::Ready)) => {}
            Ok(Some(Said::Refused(text))) => return Err(StartError::Process(format!("cannot take its part: {text}"))),
            Ok(_) => return Err(StartError::Process(lost(&mut started.child))),
            Err(error) => return Err(cannot(index, &error)),
        }
    }
    let processes: Vec<u32> = started.iter().map(|started| started.child.id()).collect();
    ready(&processes);
    let begin = Begin { monotonic_ns: monotonic_ns() + BEGIN_AHEAD.as_nanos() as u64, from_ns: 0 };
    let begun = Instant::now() + BEGIN_AHEAD;
    let stop = Arc::new(AtomicBool::new(false));
    let (sender, messages) = channel();
    let (mut threads, mut leashes) = (Vec::new(), Vec::new());
    for (index, mut started) in started.into_iter().enumerate() {
        // If the process is gone, its reader reports that.
        let _ = started.to.write_all(&encode(&begin));
        let pidfd = rustix::process::Pid::from_child(&started.child);
        let pidfd = pidfd_open(pidfd, PidfdFlags::empty()).map_err(|error| cannot(index, &error.into()))?;
        leashes.push((Some(started.to), pidfd));
        let (child, from, workers, sender) = (started.child, started.from, started.workers, sender.clone());
        threads.push(std::thread::spawn(move || receive(child, from, workers, &sender)));
    }
    let told = Arc::clone(&stop);
    std::thread::spawn(move || hold(leashes, &told));
    Ok(Workers {
        stop,
        threads,
        begun,
        messages,
        collected: Some(collected),
        count: count * each,
        processes,
        elsewhere: 0,
    })
}

fn cannot(index: usize, error: &io::Error) -> StartError {
    StartError::Process(format!("(number {index}) cannot be started: {error}"))
}

fn spawn<R>(mut command: Command, order: &Order, workers: Range<usize>) -> io::Result<Started<R>> {
    // In its own process group, so that Ctrl-C on a terminal reaches only the parent, which tells the others.
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).process_group(0).spawn()?;
    let gone = || io::Error::from(io::ErrorKind::BrokenPipe);
    let (mut to, from) = (child.stdin.take().ok_or_else(gone)?, child.stdout.take().ok_or_else(gone)?);
    to.write_all(&encode(order))?;
    Ok(Started { child, to, from: BufReader::new(from), workers, records: PhantomData })
}

/// Passes on the messages of a process until it ends.
fn receive<R: DeserializeOwned>(
    mut child: Child,
    mut from: BufReader<ChildStdout>,
    workers: Range<usize>,
    to: &Sender<Message<R>>,
) {
    let text = loop {
        match parse_next::<Said<R>>(&mut from) {
            Ok(Some(Said::End)) => {
                // Its messages were complete, so the exit status adds nothing.
                let _ = child.wait();
                return;
            }
            Ok(Some(said)) => {
                if speaks_for_another(&said, &workers) {
                    break OF_ANOTHER.to_owned();
                }
                if let Some(message) = said.into_message()
                    && to.send(message).is_err()
                {
                    return;
                }
            }
            Ok(None) => break lost(&mut child),
            Err(error) => break format!("cannot be understood ({error})"),
        }
    };
    let _ = to.send(Message::Lost { workers, text: format!("a process of the load {text}") });
}

/// What is wrong with a part for which [`speaks_for_another`] is true.
pub(crate) const OF_ANOTHER: &str = "speaks for the workers of another";

/// Whether a message is about workers of another part. Their numbers are used as indices, so they are checked.
pub(crate) fn speaks_for_another<R>(said: &Said<R>, workers: &Range<usize>) -> bool {
    said.worker().is_some_and(|worker| !workers.contains(&worker))
}

/// How a process ended that did not report its end.
fn lost(child: &mut Child) -> String {
    let pid = child.id();
    match child.wait() {
        Ok(status) => match (status.signal(), status.code()) {
            (Some(signal), _) => format!("(pid {pid}) was killed by signal {signal}"),
            (None, Some(code)) => format!("(pid {pid}) ended with exit code {code}"),
            (None, None) => format!("(pid {pid}) ended"),
        },
        Err(error) => format!("(pid {pid}) is lost: {error}"),
    }
}

/// Tells all processes to stop when the run stops, by closing their pipes, and kills those that hang. Returns when the run
/// has ended.
fn hold(mut leashes: Vec<(Option<ChildStdin>, OwnedFd)>, stop: &Arc<AtomicBool>) {
    // The run holds a reference to the flag until it ends.
    while !stop.load(Ordering::Relaxed) && Arc::strong_count(stop) > 1 {
        wait_until(Instant::now() + LOOK_PERIOD);
    }
    for (to, _) in &mut leashes {
        *to = None;
    }
    let until = Instant::now() + PATIENCE;
    while Instant::now() < until && leashes.iter().any(|(_, process)| is_alive(process)) {
        wait_until(Instant::now() + LOOK_PERIOD);
    }
    for (_, process) in &leashes {
        // Killing a process that has ended fails, which is fine.
        let _ = pidfd_send_signal(process, Signal::KILL);
    }
}

/// Whether a process is still running: its descriptor becomes readable when it ends.
fn is_alive(process: &OwnedFd) -> bool {
    let mut watched = [rustix::event::PollFd::new(process, rustix::event::PollFlags::IN)];
    let at_once = rustix::time::Timespec { tv_sec: 0, tv_nsec: 0 };
    matches!(rustix::event::poll(&mut watched, Some(&at_once)), Ok(0))
}

fn wait_until(at: Instant) {
    loop {
        let left = at.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return;
        }
        std::thread::park_timeout(left);
    }
}
