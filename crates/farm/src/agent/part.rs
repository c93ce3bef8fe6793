//! A part of a load in a process of this machine: it checks the order, starts the process, and passes lines on. The process is this
//! program itself; an order never says what to start.

use super::PartCommand;
use crate::allow::AllowList;
use crate::pack;
use load::Order;
use load::remote::{is_last_line, lost_line, refusal_line};
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use std::io::{self, BufRead as _, BufReader, Read as _, Write as _};
use std::os::fd::OwnedFd;
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::process::{Child, ChildStdin, Stdio};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, OnceLock};
use tokio::sync::mpsc;

/// What an agent takes orders by.
#[derive(Clone)]
pub(super) struct Terms {
    /// The targets that it may load.
    pub(super) allow: AllowList,
    /// Makes the command of the process that runs a part.
    pub(super) command: PartCommand,
}

/// A line of a part.
#[derive(Debug)]
pub(super) struct Said {
    pub(super) run: u64,
    pub(super) part: usize,
    pub(super) line: Vec<u8>,
}

/// The process of a part. Dropping it lets the process stop.
#[derive(Debug)]
pub(super) struct Process {
    to: Option<Sender<Vec<u8>>>,
    handle: Arc<OnceLock<OwnedFd>>,
}

impl Process {
    /// Takes a packed order, in a thread of its own: names are looked up there.
    pub(super) fn start(run: u64, part: usize, order: Vec<u8>, terms: Terms, said: mpsc::Sender<Said>) -> Self {
        let (to, lines) = channel();
        let handle = Arc::new(OnceLock::new());
        let of_thread = Arc::clone(&handle);
        std::thread::spawn(move || {
            let say = |line: Vec<u8>| said.blocking_send(Said { run, part, line }).is_ok();
            match spawn(&order, &terms, lines, &of_thread) {
                Ok((child, from)) => relay(child, from, say),
                Err(text) => drop(say(refusal_line(&text))),
            }
        });
        Self { to: Some(to), handle }
    }

    /// Sends a line to the process.
    pub(super) fn send(&self, line: Vec<u8>) {
        if let Some(to) = &self.to {
            // If the process is gone, its reader reports that.
            let _ = to.send(line);
        }
    }

    /// Lets the process stop its load and report.
    pub(super) fn stop(&mut self) {
        self.to = None;
    }

    /// Ends a process that hangs.
    pub(super) fn kill(&self) {
        if let Some(process) = self.handle.get() {
            // Killing a process that has ended fails, which is fine.
            let _ = pidfd_send_signal(process, Signal::KILL);
        }
    }
}

/// Checks an order and starts its process. The error says why not.
fn spawn(
    packed: &[u8],
    terms: &Terms,
    lines: Receiver<Vec<u8>>,
    handle: &OnceLock<OwnedFd>,
) -> Result<(Child, BufReader<impl io::Read>), String> {
    let line = pack::unpack(packed).map_err(|error| format!("cannot read its order: {error}"))?;
    let order = Order::parse(&line).map_err(|error| format!("cannot take its part: {error}"))?;
    if let Some(why) = order.refusal() {
        return Err(format!("refuses the load: {why}"));
    }
    if let Some(address) = terms.allow.refused(order.addresses()) {
        return Err(format!("may not load {address}: its --allow has {}", terms.allow));
    }
    let cannot = |error: io::Error| format!("cannot start a process: {error}");
    let mut command = (terms.command)();
    // In its own process group, so that Ctrl-C on a terminal reaches only the agent.
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).process_group(0).spawn().map_err(cannot)?;
    let gone = || cannot(io::Error::from(io::ErrorKind::BrokenPipe));
    let (to, from) = (child.stdin.take().ok_or_else(gone)?, child.stdout.take().ok_or_else(gone)?);
    let pidfd = pidfd_open(Pid::from_child(&child), PidfdFlags::empty()).map_err(|error| cannot(error.into()))?;
    let _ = handle.set(pidfd);
    std::thread::spawn(move || write(to, &order.encode(), &lines));
    Ok((child, BufReader::new(from)))
}

/// Writes the order and the lines after it. The process stops when this ends.
fn write(mut to: ChildStdin, order: &[u8], lines: &Receiver<Vec<u8>>) {
    let mut is_written = to.write_all(order).is_ok();
    while is_written && let Ok(line) = lines.recv() {
        is_written = to.write_all(&line).is_ok();
    }
}

/// Passes the lines of a process on until it ends.
fn relay(mut child: Child, mut from: BufReader<impl io::Read>, say: impl Fn(Vec<u8>) -> bool) {
    loop {
        let mut line = Vec::new();
        let read = from.by_ref().take(pack::BYTES_MAX as u64).read_until(b'\n', &mut line);
        if read.is_err() || line.last() != Some(&b'\n') {
            break;
        }
        let is_last = is_last_line(&line);
        if !say(line) || is_last {
            // Its messages are complete, so the exit status adds nothing.
            let _ = child.wait();
            return;
        }
    }
    let how = match child.wait().map(|status| (status.signal(), status.code())) {
        Ok((Some(signal), _)) => format!("was killed by signal {signal}"),
        Ok((None, Some(code))) => format!("ended with exit code {code}"),
        Ok((None, None)) => "ended".to_owned(),
        Err(error) => format!("is lost: {error}"),
    };
    say(lost_line(&format!("has lost the process of its part, which {how}")));
}
