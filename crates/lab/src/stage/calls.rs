//! Counts the system calls of a process during the load with strace. strace slows everything down, so other figures of such
//! a sample are not usable. Called by `sample`.

use super::StageError;
use super::process::Started;
use super::usage::tree;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A running strace.
pub(super) struct Tracer {
    /// The name of the probe.
    pub(super) name: String,
    started: Started,
    summary: PathBuf,
}

impl Tracer {
    /// Attaches to a process and all its descendants. The error quotes strace: it has no permission, or the process is
    /// gone.
    pub(super) fn attach(strace: &Path, name: &str, pid: u32, folder: &Path) -> Result<Self, StageError> {
        let (summary, output) = (folder.join(format!("{name}.calls")), folder.join(format!("{name}.strace")));
        let _ = fs::remove_file(&summary);
        let mut command = Command::new(strace);
        command.args(["--summary-only", "--follow-forks", "--output"]).arg(&summary);
        let pids = tree(pid);
        for pid in &pids {
            command.arg(format!("--attach={pid}"));
        }
        let mut started = Started::new("strace", &mut command, output)?;
        started.wait_ready(|| pids.iter().all(|pid| is_traced(*pid)))?;
        Ok(Self { name: name.to_owned(), started, summary })
    }

    /// Ends strace and returns the number of calls.
    pub(super) fn calls(mut self) -> Result<u64, StageError> {
        self.started.interrupt();
        // strace writes its table and then ends with the signal's own status.
        let _ = self.started.wait();
        let summary = fs::read_to_string(&self.summary)?;
        parse_total(&summary).ok_or_else(|| StageError::new(self.started.quote("strace wrote no total")))
    }

    pub(super) fn id(&self) -> u32 {
        self.started.id()
    }
}

fn is_traced(pid: u32) -> bool {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    status.lines().any(|line| line.strip_prefix("TracerPid:").is_some_and(|tracer| tracer.trim() != "0"))
}

/// The number of calls in the closing line `100.00 0.123456 2 61728 34 total`.
fn parse_total(summary: &str) -> Option<u64> {
    let line = summary.lines().find(|line| line.trim_end().ends_with(" total"))?;
    line.split_whitespace().nth(3)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn total_is_parsed_with_and_without_errors() {
        let table = "% time     seconds  usecs/call     calls    errors syscall\n\
                     ------ ----------- ----------- --------- --------- ----------------\n \
                     70.00    0.100000           2     50000        34 recvfrom\n";
        let total = |line: &str| parse_total(&format!("{table}{line}"));
        assert_eq!(total("100.00    0.123456           2     61728        34 total\n"), Some(61_728));
        assert_eq!(total("100.00    0.123456           2     61728           total\n"), Some(61_728));
        assert_eq!(parse_total("strace: attach: Operation not permitted\n"), None);
    }
}
