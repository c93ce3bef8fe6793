//! What a figure depends on and cannot be told from it: processor, kernel, settings, versions.

use super::arms::Programs;
use crate::workspace::{Workspace, output_of};
use lab::stage::machine::{cores, first_line, kernel, load_average, processor, said_first, system};
use serde::Serialize;
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
            processor: processor(),
            cores: cores(),
            kernel: kernel(),
            system: system(),
            somaxconn: first_line("/proc/sys/net/core/somaxconn"),
            load_average: load_average(),
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
