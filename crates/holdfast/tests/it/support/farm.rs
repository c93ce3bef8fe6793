//! Agents of a load farm as processes.

use super::holdfast;
use nix::sys::signal::Signal;
use std::fs;
use std::process::Command;
use testkit::Running;

/// An agent, which has said that it waits for orders.
pub(crate) struct FarmAgent {
    pub(crate) name: String,
    running: Running,
}

impl FarmAgent {
    /// An agent on loopback; `more` are further flags.
    pub(crate) fn start(url: &str, name: &str, more: &[&str]) -> Self {
        Self::start_as(|command| command, url, name, more)
    }

    /// The same, in a command that `around` makes.
    pub(crate) fn start_as(around: impl FnOnce(Command) -> Command, url: &str, name: &str, more: &[&str]) -> Self {
        let mut command = holdfast();
        command.args(["load", "agent", url, "--name", name]).args(more);
        Self::spawned(around(command), name)
    }

    /// An agent that this command starts.
    pub(crate) fn spawned(mut command: Command, name: &str) -> Self {
        let running = Running::start(&mut command);
        running.wait_for_error("waits for orders");
        Self { name: name.to_owned(), running }
    }

    pub(crate) fn pid(&self) -> u32 {
        self.running.id()
    }

    /// The processes of its parts, each started by a thread of its own.
    pub(crate) fn parts(&self) -> Vec<u32> {
        let threads = fs::read_dir(format!("/proc/{}/task", self.pid())).into_iter().flatten().flatten();
        let texts = threads.map(|thread| fs::read_to_string(thread.path().join("children")).unwrap_or_default());
        texts
            .flat_map(|text| text.split_ascii_whitespace().filter_map(|word| word.parse().ok()).collect::<Vec<_>>())
            .collect()
    }

    pub(crate) fn signal(&self, signal: Signal) {
        self.running.signal(signal);
    }

    /// Waits until it has ended, with success.
    pub(crate) fn end(self) {
        self.running.end().assert_code(0);
    }
}
