//! A program of the control plane, or of a Pod: its output goes to a file, and it ends with its value.

use super::warden::{self, Kind};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::fs::{self, File};
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};

/// A child process.
#[derive(Debug)]
pub(super) struct Process {
    child: Child,
    ended: Option<ExitStatus>,
}

impl Process {
    /// Starts a program; what it prints goes to the end of `log`.
    pub(super) fn start(command: &mut Command, log: &Path) -> std::io::Result<Self> {
        let output = File::options().create(true).append(true).open(log)?;
        let child = command.stdin(Stdio::null()).stdout(output.try_clone()?).stderr(output).spawn()?;
        warden::keep(Kind::Process, child.id());
        Ok(Self { child, ended: None })
    }

    /// Its process id.
    pub(super) fn id(&self) -> u32 {
        self.child.id()
    }

    /// How it ended, if it has.
    pub(super) fn ended(&mut self) -> Option<ExitStatus> {
        if self.ended.is_none() {
            // As long as it was not waited for, no other process gets its number.
            self.ended = self.child.try_wait().ok().flatten();
            if self.ended.is_some() {
                warden::forget(Kind::Process, self.child.id());
            }
        }
        self.ended
    }

    /// Sends a signal, unless it has ended.
    pub(super) fn signal(&mut self, signal: Signal) {
        if self.ended().is_none() {
            let id = i32::try_from(self.child.id()).expect("process ids are small");
            let _ = kill(Pid::from_raw(id), signal);
        }
    }

    /// Ends it at once.
    pub(super) fn kill(&mut self) {
        if self.ended().is_none() {
            warden::forget(Kind::Process, self.child.id());
            let _ = self.child.kill();
            self.ended = self.child.wait().ok();
        }
    }

    /// Bytes of memory that it occupies now.
    pub(super) fn resident_bytes(&self) -> u64 {
        let status = fs::read_to_string(format!("/proc/{}/status", self.child.id())).unwrap_or_default();
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap_or_default();
        line.trim().trim_end_matches(" kB").parse::<u64>().map_or(0, |kib| kib * 1024)
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill();
    }
}
