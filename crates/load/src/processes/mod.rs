//! A load in several processes, for more connections than one may have descriptors: the parent starts them, gives each its
//! part, lets them begin at the same moment, and hands what their workers say to `crew` as if they were its own. So the
//! figures of several processes are merged by the same code as those of several threads. The lines are in `wire`, the other
//! end of the pipes in `child`.

mod child;
mod wire;

pub use child::serve_part;

pub(crate) use wire::Work;

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
use wire::{Begin, Order, Said, encode, parse_next};

/// So long after the last process is ready all of them begin: the word has reached each by then.
const BEGIN_AHEAD: Duration = Duration::from_millis(20);
/// How often the run looks whether it is to stop.
const LOOK_PERIOD: Duration = Duration::from_millis(20);
/// A process that was told to stop and has not ended by then is killed: it is stuck, or was stopped by a signal.
const PATIENCE: Duration = Duration::from_secs(10);

/// A process that has begun.
struct Started<R> {
    child: Child,
    to: ChildStdin,
    from: BufReader<ChildStdout>,
    workers: Range<usize>,
    records: PhantomData<R>,
}

/// Starts a load in `count` processes with `each` workers each. `ready` is called between the moment when all workers wait and their
/// begin, with the processes' numbers.
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
        // Those that were started before end as their pipes are dropped.
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
    let begin = Begin { monotonic_ns: monotonic_ns() + BEGIN_AHEAD.as_nanos() as u64 };
    let begun = Instant::now() + BEGIN_AHEAD;
    let stop = Arc::new(AtomicBool::new(false));
    let (sender, messages) = channel();
    let (mut threads, mut leashes) = (Vec::new(), Vec::new());
    for (index, mut started) in started.into_iter().enumerate() {
        // A process that is gone by now is missed by its reader.
        let _ = started.to.write_all(&encode(&begin));
        let pidfd = rustix::process::Pid::from_child(&started.child);
        let pidfd = pidfd_open(pidfd, PidfdFlags::empty()).map_err(|error| cannot(index, &error.into()))?;
        leashes.push((Some(started.to), pidfd));
        let (child, from, workers, sender) = (started.child, started.from, started.workers, sender.clone());
        threads.push(std::thread::spawn(move || hear(child, from, workers, &sender)));
    }
    let told = Arc::clone(&stop);
    std::thread::spawn(move || hold(leashes, &told));
    Ok(Workers { stop, threads, begun, messages, collected: Some(collected), count: count * each, processes })
}

fn cannot(index: usize, error: &io::Error) -> StartError {
    StartError::Process(format!("(number {index}) cannot be started: {error}"))
}

fn spawn<R>(mut command: Command, order: &Order, workers: Range<usize>) -> io::Result<Started<R>> {
    // A group of its own: a terminal's Ctrl-C reaches the parent alone, who tells all others.
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).process_group(0).spawn()?;
    let gone = || io::Error::from(io::ErrorKind::BrokenPipe);
    let (mut to, from) = (child.stdin.take().ok_or_else(gone)?, child.stdout.take().ok_or_else(gone)?);
    to.write_all(&encode(order))?;
    Ok(Started { child, to, from: BufReader::new(from), workers, records: PhantomData })
}

/// Hands on what a process says, to its end.
fn hear<R: DeserializeOwned>(
    mut child: Child,
    mut from: BufReader<ChildStdout>,
    workers: Range<usize>,
    to: &Sender<Message<R>>,
) {
    let text = loop {
        match parse_next::<Said<R>>(&mut from) {
            Ok(Some(Said::End)) => {
                // Its exit status says nothing that it has not said.
                let _ = child.wait();
                return;
            }
            Ok(Some(said)) => {
                // A worker's number is an index here.
                let is_ours = match &said {
                    Said::Interval { worker, .. } | Said::Done { worker, .. } | Said::Script { worker, .. } => {
                        workers.contains(worker)
                    }
                    _ => true,
                };
                if !is_ours {
                    break "speaks for the workers of another".to_owned();
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
    let _ = to.send(Message::Lost { workers, text });
}

/// How a process ended that was to say so itself.
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

/// Tells all processes to stop when the run is to, by closing their pipes; kills those that do not. Ends when the run has.
fn hold(mut leashes: Vec<(Option<ChildStdin>, OwnedFd)>, stop: &Arc<AtomicBool>) {
    // The run holds the flag as long as it lives.
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
        // One that has ended cannot be killed, which is well.
        let _ = pidfd_send_signal(process, Signal::KILL);
    }
}

/// Whether a process has not ended: its descriptor becomes readable when it does.
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
