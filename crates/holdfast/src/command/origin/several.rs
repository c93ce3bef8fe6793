//! `holdfast origin --processes N`: for more connections than one process may have descriptors. The parent only starts
//! the parts and waits. Each part listens at the same addresses (`SO_REUSEPORT`), and the kernel divides the
//! connections among them. If the parent ends for any reason, the standard input of the parts ends, and so do they. The
//! parent ends when the first part does.

use super::{Args, LISTENING, print_addresses};
use crate::report::errno;
use crate::signals::{Ask, Signals};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use reactor::PeerAddress;
use std::io::{BufRead as _, BufReader};
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// Time for a process to end after it was told to; then it is killed.
const PATIENCE: Duration = Duration::from_secs(10);
/// Pause between two checks whether all processes have ended.
const LOOK_AGAIN: Duration = Duration::from_millis(10);

/// The other processes. Dropping this ends them and waits for them.
#[derive(Debug, Default)]
struct Parts(Vec<Child>);

pub(super) fn serve(args: &Args) -> Result<(), String> {
    if args.listen.iter().any(|address| matches!(address, PeerAddress::Unix(_))) {
        return Err("a Unix socket belongs to one process; --processes is for addresses".to_owned());
    }
    let signals = Signals::open().map_err(|error| format!("signalfd() failed {}", errno(&error)))?;
    let mut parts = Parts::default();
    // The kernel chooses ports for the first part where none was given. That part holds them as long as it lives.
    let mut listening: Vec<String> = args.listen.iter().map(ToString::to_string).collect();
    for _ in 0..args.processes {
        listening = parts.start(&listening)?;
    }
    print_addresses(listening, args.json)?;
    loop {
        let mut watched = [PollFd::new(signals.descriptor(), PollFlags::POLLIN)];
        match poll(&mut watched, PollTimeout::NONE) {
            Ok(_) | Err(nix::errno::Errno::EINTR) => {}
            Err(error) => return Err(format!("poll() failed {}", errno(&error.into()))),
        }
        while let Some(ask) = signals.next().map_err(|error| error.to_string())? {
            match ask {
                Ask::Child => parts.check()?,
                _ => return Ok(()),
            }
        }
    }
}

impl Parts {
    /// Starts another part at these addresses, and returns the addresses that it listens on.
    fn start(&mut self, listen: &[String]) -> Result<Vec<String>, String> {
        let mut command = Command::new("/proc/self/exe");
        // The arguments of this process, and the flag that makes it a part.
        command.args(std::env::args_os().skip(1));
        for address in listen {
            command.args(["--part", address]);
        }
        // A process group of its own: Ctrl-C of a terminal reaches only the parent, which then ends the parts.
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).process_group(0);
        let mut child =
            command.spawn().map_err(|error| format!("a process of the origin cannot start {}", errno(&error)))?;
        let said = child.stdout.take();
        self.0.push(child);
        let lines = said.into_iter().flat_map(|said| BufReader::new(said).lines().map_while(Result::ok));
        let listening = lines.filter_map(|line| line.strip_prefix(LISTENING).map(str::to_owned));
        let listening: Vec<String> = listening.take(listen.len()).collect();
        // The part has printed its error itself.
        if listening.len() < listen.len() {
            Err("a process of the origin cannot listen".to_owned())
        } else {
            Ok(listening)
        }
    }

    /// Reports a part that has ended: the others would serve only some of the connections.
    fn check(&mut self) -> Result<(), String> {
        for child in &mut self.0 {
            if let Ok(Some(status)) = child.try_wait() {
                return Err(format!("a process of the origin (pid {}) has ended: {status}", child.id()));
            }
        }
        Ok(())
    }
}

impl Drop for Parts {
    fn drop(&mut self) {
        for child in &mut self.0 {
            drop(child.stdin.take());
        }
        let until = Instant::now() + PATIENCE;
        while Instant::now() < until && self.0.iter_mut().any(|child| matches!(child.try_wait(), Ok(None))) {
            std::thread::park_timeout(LOOK_AGAIN);
        }
        for child in &mut self.0 {
            // A process that has ended already cannot be killed, which is fine.
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}
