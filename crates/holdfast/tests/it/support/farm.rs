//! Agents of a load farm as processes.

use super::{holdfast, pid};
use nix::sys::signal::{Signal, kill};
use std::fs;
use std::io::{BufRead as _, BufReader, Read as _};
use std::process::{Child, ChildStderr, Command, Stdio};

/// An agent, which has said that it waits for orders.
pub(crate) struct FarmAgent {
    pub(crate) name: String,
    child: Child,
    errors: Option<BufReader<ChildStderr>>,
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
        let mut child = command.stdin(Stdio::null()).stderr(Stdio::piped()).spawn().expect("the agent starts");
        let mut errors = BufReader::new(child.stderr.take().expect("piped"));
        let (mut said, mut line) = (String::new(), String::new());
        while !line.contains("waits for orders") {
            line.clear();
            assert!(errors.read_line(&mut line).expect("read") > 0, "the agent has ended: {said}");
            said.push_str(&line);
        }
        Self { name: name.to_owned(), child, errors: Some(errors) }
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
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
        kill(pid(self.pid()), signal).expect("it is a child of ours");
    }

    /// Waits for its end; returns the exit code and what it said.
    pub(crate) fn end(mut self) -> (Option<i32>, String) {
        let mut said = String::new();
        if let Some(mut errors) = self.errors.take() {
            errors.read_to_string(&mut said).expect("read");
        }
        (self.child.wait().expect("a child of ours").code(), said)
    }
}

impl Drop for FarmAgent {
    fn drop(&mut self) {
        // Killing a process that has ended fails, which is fine.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
