//! Signals as something to wait for: blocked for every thread, and read from a descriptor. A handler never runs.

use nix::sys::signal::{SigSet, Signal};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use std::io;
use std::os::fd::{AsFd, BorrowedFd};

/// What a signal asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ask {
    /// TERM: end now.
    Terminate,
    /// INT: the same, from a terminal.
    Interrupt,
    /// QUIT: finish what is under way, and end.
    Quit,
    /// HUP: read the configuration again.
    Reload,
    /// USR1: open the logs again.
    Reopen,
    /// USR2: start the program anew, with the sockets of this one.
    Upgrade,
    /// WINCH: the workers finish what is under way and end; the master stays.
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
    /// Blocks the signals and opens the descriptor. Called before the first thread is started, so that all inherit the mask.
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

    /// The next signal that came; `None` if there is none.
    pub fn next(&self) -> io::Result<Option<Ask>> {
        while let Some(info) = self.descriptor.read_signal()? {
            if let Some((_, ask)) = ASKS.iter().find(|(signal, _)| *signal as u32 == info.ssi_signo) {
                return Ok(Some(*ask));
            }
        }
        Ok(None)
    }

    /// Ends this process as the signal ends any other, with its status; even where it was started with that signal ignored, as what a
    /// shell script runs in the background is.
    pub fn end_by(ask: Ask) {
        if let Some((signal, _)) = ASKS.iter().find(|(_, known)| *known == ask) {
            // Of these signals it returns for none.
            let _ = signal_hook::low_level::emulate_default_handler(*signal as i32);
        }
    }

    /// Readable while a signal waits.
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

/// A peer that is gone is noticed by the write that fails.
const IGNORED: [Signal; 1] = [Signal::SIGPIPE];
