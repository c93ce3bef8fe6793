//! wrk as the load: started on its core, its figures read from a line that its own script prints.

use super::process::{Started, placed};
use anyhow::{Context as _, Result};
use serde::Serialize;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// wrk prints no p99.9 and rounds what it prints, so the script hands out the raw numbers.
const SCRIPT: &str = r#"
done = function(summary, latency, requests)
  local e = summary.errors
  io.write(string.format("figures %.0f %.0f %.0f %.0f %.0f %.0f %.0f %.0f\n", summary.requests, summary.duration,
    e.connect + e.read + e.write + e.timeout, e.status,
    latency:percentile(50), latency:percentile(99), latency:percentile(99.9), latency.max))
end
"#;

/// One run of wrk.
#[derive(Serialize, Clone, Debug, PartialEq)]
pub(super) struct Figures {
    pub(super) requests: u64,
    pub(super) requests_per_second: f64,
    /// Connections that could not be opened, read, written, or that took too long.
    pub(super) socket_errors: u64,
    /// Responses with a status from 400 up.
    pub(super) status_errors: u64,
    pub(super) latency_us_p50: f64,
    pub(super) latency_us_p99: f64,
    pub(super) latency_us_p999: f64,
    pub(super) latency_us_max: f64,
}

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
        parse_figures(&said).with_context(|| format!("wrk said no figures:\n{said}"))
    }

    /// What runs it; [`parse_figures`] understands what it says.
    pub(super) fn command(&self, seconds: u32) -> Result<Command> {
        let script: PathBuf = self.home.join("figures.lua");
        fs::write(&script, format!("{}{SCRIPT}", self.script))?;
        let mut command = placed(self.core, self.program);
        command.args(["--threads", "1", "--latency", "--timeout", "10s"]);
        command.arg("--connections").arg(self.connections.to_string());
        command.arg("--duration").arg(format!("{seconds}s")).arg("--script").arg(&script);
        command.arg(format!("http://127.0.0.1:{}/{}", self.port, self.page));
        Ok(command)
    }
}

/// The figures in what wrk said.
pub(super) fn parse_figures(said: &str) -> Option<Figures> {
    let line = said.lines().find_map(|line| line.strip_prefix("figures "))?;
    let numbers: Vec<f64> = line.split(' ').map_while(|word| word.parse().ok()).collect();
    let &[requests, duration_us, socket, status, p50, p99, p999, max] = numbers.as_slice() else { return None };
    Some(Figures {
        requests: requests as u64,
        requests_per_second: requests / (duration_us / 1e6),
        socket_errors: socket as u64,
        status_errors: status as u64,
        latency_us_p50: p50,
        latency_us_p99: p99,
        latency_us_p999: p999,
        latency_us_max: max,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_scripts_line_is_found_among_wrks_own_words() {
        let said = "Running 1s test @ http://127.0.0.1:9000/612\nfigures 3000 1500000 1 2 100 900 1800 2500\n";
        let figures = parse_figures(said).unwrap();
        assert_eq!((figures.requests, figures.requests_per_second), (3000, 2000.0));
        assert_eq!((figures.socket_errors, figures.status_errors), (1, 2));
        assert_eq!((figures.latency_us_p50, figures.latency_us_max), (100.0, 2500.0));
        assert_eq!(parse_figures("unable to connect to 127.0.0.1:9000 Connection refused\n"), None);
    }
}
