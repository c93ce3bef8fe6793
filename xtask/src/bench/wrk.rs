//! wrk as the load: started on its core, its figures read from a line that a script prints.

use anyhow::{Context as _, Result};
pub(super) use lab::stage::client::WrkFigures as Figures;
use lab::stage::client::{WRK_SCRIPT, parse_wrk};
use lab::stage::process::{Started, placed};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A load that can be repeated.
pub(super) struct Load<'a> {
    pub(super) program: &'a Path,
    pub(super) core: Option<usize>,
    /// For the script and for what wrk writes.
    pub(super) home: &'a Path,
    pub(super) port: u16,
    pub(super) page: &'a str,
    pub(super) connections: usize,
    /// Lines of Lua in front of ours.
    pub(super) script: &'a str,
}

impl Load<'_> {
    /// Runs it to its end.
    pub(super) fn run(&self, seconds: u32) -> Result<Figures> {
        let output = self.home.join("wrk.out");
        Started::new("wrk", &mut self.command(seconds)?, output.clone())?.wait()?;
        let said = fs::read_to_string(&output)?;
        parse_wrk(&said).with_context(|| format!("wrk said no figures:\n{said}"))
    }

    /// What runs it; [`parse_wrk`] understands what it says.
    pub(super) fn command(&self, seconds: u32) -> Result<Command> {
        let script: PathBuf = self.home.join("figures.lua");
        fs::write(&script, format!("{}{WRK_SCRIPT}", self.script))?;
        let mut command = placed(self.core, self.program);
        command.args(["--threads", "1", "--latency", "--timeout", "10s"]);
        command.arg("--connections").arg(self.connections.to_string());
        command.arg("--duration").arg(format!("{seconds}s")).arg("--script").arg(&script);
        command.arg(format!("http://127.0.0.1:{}/{}", self.port, self.page));
        Ok(command)
    }
}
