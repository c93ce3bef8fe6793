//! The machine of a measurement, which its figures depend on: processor, kernel, settings, versions.

use crate::workspace::{Workspace, output_of};
use lab::stage::machine::{cores, first_line, kernel, load_average, processor, said_first, system};
use serde::Serialize;
use std::path::PathBuf;
use std::process::Command;

/// Stored with every result.
#[derive(Serialize)]
pub(super) struct Machine {
    processor: String,
    cores: usize,
    kernel: String,
    system: String,
    somaxconn: String,
    /// Other work on the machine at the start of the bench: the load average over one minute.
    load_average: String,
    commit: String,
    /// The version output of each program.
    programs: Vec<String>,
}

impl Machine {
    pub(super) fn describe(workspace: &Workspace, programs: &[PathBuf]) -> Machine {
        Machine {
            processor: processor(),
            cores: cores(),
            kernel: kernel(),
            system: system(),
            somaxconn: first_line("/proc/sys/net/core/somaxconn"),
            load_average: load_average(),
            commit: commit(workspace),
            programs: programs.iter().map(|program| said_first(program, "-v")).collect(),
        }
    }

    /// One paragraph for readers.
    pub(super) fn sentence(&self) -> String {
        format!(
            "{} × {}, kernel {}, {}; somaxconn {}; load average at the start {}; commit {}; {}",
            self.cores,
            self.processor,
            self.kernel,
            self.system,
            self.somaxconn,
            self.load_average,
            self.commit,
            self.programs.join("; ")
        )
    }
}

/// The commit of the working tree, if git knows it.
pub(super) fn commit(workspace: &Workspace) -> String {
    let git =
        |args: &[&str]| output_of(Command::new("git").current_dir(&workspace.root).args(args)).unwrap_or_default();
    let changed = if git(&["status", "--porcelain"]).trim().is_empty() { "" } else { ", with changes" };
    format!("{}{changed}", git(&["rev-parse", "--short=12", "HEAD"]).trim())
}
