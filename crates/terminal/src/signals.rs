//! Signals to wait for: blocked in every thread, and read from a descriptor. No handler ever runs.

use nix::sys::signal::{SigSet, Signal};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use std::io;
use std::os::fd::{AsFd, BorrowedFd};

/// The request that a signal means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ask {
    /// TERM: end now.
    Terminate,
    /// INT: the same, from a terminal.
    Interrupt,
    /// QUIT: finish open requests, and end.
    Quit,
    /// HUP: read the configuration again.
    Reload,
    /// USR1: open the logs again.
    Reopen,
    /// USR2: start the program again, with the sockets of this one.
    Upgrade,
    /// WINCH: the workers finish open requests and end; the master stays.
    Rest,
    /// CHLD: a child has ended.
    Child,
}

/// The signals of this process.
#[derive(Debug)]
pub struct Signals {
    descriptor: SignalFd,
}

impl Signals {
    /// Blocks the signals and opens the descriptor. Call it before the first thread starts, so that all threads inherit
    /// the mask.
    pub fn open() -> io::Result<Self> {
        let mut set = SigSet::empty();
        for (signal, _) in ASKS {
            set.add(signal);
        }
        for signal in IGNORED {
            set.add(signal);
        }
        set.thread_block()?;
        let descriptor = SignalFd::with_flags(&set, SfdFlags::SFD_NONBLOCK | SfdFlags::SFD_CLOEXEC)?;
        Ok(Self { descriptor })
    }

    /// The next pending signal; `None` if there is none.
    pub fn next(&self) -> io::Result<Option<Ask>> {
        while let Some(info) = self.descriptor.read_signal()? {
            if let Some((_, ask)) = ASKS.iter().find(|(signal, _)| *signal as u32 == info.ssi_signo) {
                return Ok(Some(*ask));
            }
        }
        Ok(None)
    }

    /// Ends this process as the signal would, with its exit status. This works even if the process was started with
    /// that signal ignored, such as a background job of a shell script.
    pub fn end_by(ask: Ask) {
        if let Some((signal, _)) = ASKS.iter().find(|(_, known)| *known == ask) {
            // The default action of these signals ends the process, so this does not return.
            let _ = signal_hook::low_level::emulate_default_handler(*signal as i32);
        }
    }

    /// Readable if a signal is pending.
    pub fn descriptor(&self) -> BorrowedFd<'_> {
        self.descriptor.as_fd()
    }
}

const ASKS: [(Signal, Ask); 8] = [
    (Signal::SIGTERM, Ask::Terminate),
    (Signal::SIGINT, Ask::Interrupt),
    (Signal::SIGQUIT, Ask::Quit),
    (Signal::SIGHUP, Ask::Reload),
    (Signal::SIGUSR1, Ask::Reopen),
    (Signal::SIGUSR2, Ask::Upgrade),
    (Signal::SIGWINCH, Ask::Rest),
    (Signal::SIGCHLD, Ask::Child),
];

/// A failed write reports a peer that is gone.
const IGNORED: [Signal; 1] = [Signal::SIGPIPE];
