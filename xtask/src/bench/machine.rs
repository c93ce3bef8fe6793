//! What a figure depends on and cannot be told from it: processor, kernel, settings, versions.

use super::arms::Programs;
use crate::workspace::{Workspace, output_of};
use serde::Serialize;
use std::fs;
use std::path::Path;
use std::process::Command;

/// Stands beside every result.
#[derive(Serialize)]
pub(super) struct Machine {
    processor: String,
    cores: usize,
    kernel: String,
    system: String,
    somaxconn: String,
    /// Other work on the machine when the bench began, as the load average over one minute.
    load_average: String,
    commit: String,
    nginx: String,
    haproxy: String,
    wrk: String,
}

impl Machine {
    pub(super) fn describe(workspace: &Workspace, programs: &Programs) -> Machine {
        let git =
            |args: &[&str]| output_of(Command::new("git").current_dir(&workspace.root).args(args)).unwrap_or_default();
        let changed = if git(&["status", "--porcelain"]).trim().is_empty() { "" } else { ", with changes" };
        Machine {
            processor: line_after("/proc/cpuinfo", "model name").unwrap_or_else(|| std::env::consts::ARCH.to_owned()),
            cores: std::thread::available_parallelism().map_or(0, usize::from),
            kernel: first_line("/proc/sys/kernel/osrelease"),
            system: line_after("/etc/os-release", "PRETTY_NAME").unwrap_or_default(),
            somaxconn: first_line("/proc/sys/net/core/somaxconn"),
            load_average: first_line("/proc/loadavg").split(' ').next().unwrap_or_default().to_owned(),
            commit: format!("{}{changed}", git(&["rev-parse", "--short=12", "HEAD"]).trim()),
            nginx: said_first(&programs.nginx, "-v"),
            haproxy: said_first(&programs.haproxy, "-v"),
            wrk: said_first(&programs.wrk, "-v"),
        }
    }

    /// One paragraph for people.
    pub(super) fn sentence(&self) -> String {
        format!(
            "{} × {}, kernel {}, {}; somaxconn {}; load average at the start {}; commit {}; {}; {}; {}",
            self.cores,
            self.processor,
            self.kernel,
            self.system,
            self.somaxconn,
            self.load_average,
            self.commit,
            self.nginx,
            self.haproxy,
            self.wrk
        )
    }
}

fn first_line(file: &str) -> String {
    fs::read_to_string(file).unwrap_or_default().lines().next().unwrap_or_default().to_owned()
}

/// The value of a `key : value` or `KEY="value"` line.
fn line_after(file: &str, key: &str) -> Option<String> {
    let text = fs::read_to_string(file).ok()?;
    let rest = text.lines().find_map(|line| line.strip_prefix(key))?;
    Some(rest.trim_matches(|c: char| c.is_whitespace() || matches!(c, ':' | '=' | '"')).to_owned())
}

/// The first line that a program prints about its version, whatever stream and status it chooses.
fn said_first(program: &Path, option: &str) -> String {
    let Ok(output) = Command::new(program).arg(option).output() else { return "unknown".to_owned() };
    let said = [output.stdout, output.stderr].concat();
    let line = String::from_utf8_lossy(&said).lines().next().unwrap_or_default().to_owned();
    line.split(" Copyright").next().unwrap_or_default().split(" - ").next().unwrap_or_default().to_owned()
}
