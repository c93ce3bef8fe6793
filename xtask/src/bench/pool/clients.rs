//! The programs that load an arm, and what they say about it, in one form: `ab`, wrk, and `holdfast load` for constant rates.

use super::super::process::placed;
use super::super::wrk;
use super::plan::{Client, Load};
use super::programs::{PAGE, Paths};
use anyhow::{Context as _, Result};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// wrk's own example of a POST.
const POST_SCRIPT: &str = "wrk.method = \"POST\"\nwrk.body = \"foo=bar&baz=quux\"\n\
                           wrk.headers[\"Content-Type\"] = \"application/x-www-form-urlencoded\"\n";
const POST_BODY: &str = "foo=bar&baz=quux";

/// ab reserves memory for each request that it is told to send, and with `-t` alone it sends 50,000: as many as no arm
/// answers in the time.
const AB_REQUESTS_PER_SECOND_MAX: u32 = 200_000;

/// Requests that fill pools and caches before anything is read, at least and for each client.
const WARM_UP_REQUESTS_MIN: u32 = 1000;
const WARM_UP_REQUESTS_PER_CLIENT: u32 = 4;

/// What a client was told.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Figures {
    pub(super) requests: u64,
    pub(super) requests_per_second: f64,
    /// Requests without an answer of 200.
    pub(super) failed: u64,
    /// Why, in the client's words, if it has any.
    pub(super) causes: BTreeMap<String, u64>,
    pub(super) latency_ms_mean: Option<f64>,
    /// ab tells it in whole milliseconds.
    pub(super) latency_ms_p99: f64,
    /// Why the figures say nothing about the arm, if the client says so.
    pub(super) void: Vec<String>,
}

/// A client of one arm.
pub(super) struct Tool<'a> {
    pub(super) load: &'a Load,
    pub(super) paths: &'a Paths,
    pub(super) core: Option<usize>,
    pub(super) port: u16,
}

impl Tool<'_> {
    /// Its program's name, and where it writes.
    pub(super) fn name(&self) -> &'static str {
        match self.load.client {
            Client::Rate(_) => "load",
            Client::Ab => "ab",
            Client::Wrk | Client::WrkPost => "wrk",
        }
    }

    pub(super) fn output(&self) -> PathBuf {
        self.paths.home.join(format!("{}.out", self.name()))
    }

    /// A short closed loop before what counts.
    pub(super) fn warm_up(&self) -> Command {
        let requests = WARM_UP_REQUESTS_MIN.max(self.load.clients * WARM_UP_REQUESTS_PER_CLIENT);
        let mut command = self.holdfast_load();
        command.arg("-n").arg(requests.to_string());
        match self.load.client {
            Client::Ab => _ = command.arg("--no-keepalive"),
            Client::WrkPost => _ = command.args(["--body", POST_BODY]),
            Client::Rate(_) | Client::Wrk => {}
        }
        command.arg(self.url());
        command
    }

    /// What is measured.
    pub(super) fn command(&self) -> Result<Command> {
        let seconds = self.load.seconds;
        match self.load.client {
            Client::Rate(rate) => {
                let mut command = self.holdfast_load();
                command.arg("-R").arg(format!("{rate}/s")).arg("-d").arg(format!("{seconds}s"));
                command.arg("--json").arg(self.json()).arg(self.url());
                Ok(command)
            }
            Client::Ab => {
                let mut command = placed(self.core, &self.paths.ab);
                command.args(["-q", "-r", "-l", "-c", &self.load.clients.to_string(), "-t", &seconds.to_string()]);
                command.arg("-n").arg((seconds * AB_REQUESTS_PER_SECOND_MAX).to_string()).arg(self.url());
                Ok(command)
            }
            Client::Wrk | Client::WrkPost => self.wrk().command(seconds),
        }
    }

    /// What it said when it had ended.
    pub(super) fn figures(&self) -> Result<Figures> {
        if let Client::Rate(_) = self.load.client {
            return read_holdfast(&self.json());
        }
        let said = fs::read_to_string(self.output())?;
        let figures = if self.load.client == Client::Ab { parse_ab(&said) } else { parse_wrk(&said) };
        figures.with_context(|| format!("{} said no figures:\n{said}", self.name()))
    }

    fn holdfast_load(&self) -> Command {
        let mut command = placed(self.core, &self.paths.holdfast);
        command.args(["load", "-q", "--allow-lag", "-t", "1", "-c", &self.load.clients.to_string()]);
        command
    }

    fn wrk(&self) -> wrk::Load<'_> {
        let is_post = self.load.client == Client::WrkPost;
        wrk::Load {
            program: &self.paths.wrk,
            core: self.core,
            home: &self.paths.home,
            port: self.port,
            page: self.page(),
            connections: self.load.clients as usize,
            script: if is_post { POST_SCRIPT } else { "" },
        }
    }

    fn page(&self) -> &'static str {
        if self.load.client == Client::WrkPost { "post" } else { PAGE }
    }

    fn url(&self) -> String {
        format!("http://127.0.0.1:{}/{}", self.port, self.page())
    }

    fn json(&self) -> PathBuf {
        self.paths.home.join("load.json")
    }
}

/// The part that is wanted of what `holdfast load --json` writes.
#[derive(Deserialize)]
struct HoldfastFile {
    responses: u64,
    errors: u64,
    rate: f64,
    statuses: BTreeMap<u16, u64>,
    failures: BTreeMap<String, u64>,
    latency: HoldfastLatency,
    void: Vec<String>,
}

#[derive(Deserialize)]
struct HoldfastLatency {
    mean_ns: f64,
    quantiles_ns: BTreeMap<String, u64>,
}

fn read_holdfast(file: &Path) -> Result<Figures> {
    let text = fs::read_to_string(file).context("holdfast load wrote no figures")?;
    let read: HoldfastFile = serde_json::from_str(&text).context("holdfast load wrote other figures")?;
    let bad = read.statuses.iter().filter(|(status, _)| **status >= 400);
    let causes = read.failures.into_iter().chain(bad.map(|(status, count)| (status.to_string(), *count))).collect();
    let p99_ns = read.latency.quantiles_ns.get("p99").context("a p99")?;
    Ok(Figures {
        requests: read.responses,
        requests_per_second: read.rate,
        failed: read.errors,
        causes,
        latency_ms_mean: Some(read.latency.mean_ns / 1e6),
        latency_ms_p99: *p99_ns as f64 / 1e6,
        void: read.void,
    })
}

fn parse_wrk(said: &str) -> Option<Figures> {
    let figures = wrk::parse_figures(said)?;
    Some(Figures {
        requests: figures.requests,
        requests_per_second: figures.requests_per_second,
        failed: figures.socket_errors + figures.status_errors,
        causes: BTreeMap::new(),
        latency_ms_mean: None,
        latency_ms_p99: figures.latency_us_p99 / 1e3,
        void: Vec::new(),
    })
}

/// ab's report. With `-l` a length that differs is no failure; a status is told in a line that is only there if one was not 2xx.
fn parse_ab(said: &str) -> Option<Figures> {
    let number = |name: &str| -> Option<f64> {
        let line = said.lines().find_map(|line| line.trim_start().strip_prefix(name))?;
        line.split_ascii_whitespace().next()?.parse().ok()
    };
    let failed = number("Failed requests:")? + number("Non-2xx responses:").unwrap_or(0.0);
    Some(Figures {
        requests: number("Complete requests:")? as u64,
        requests_per_second: number("Requests per second:")?,
        failed: failed as u64,
        causes: BTreeMap::new(),
        latency_ms_mean: number("Time per request:"),
        latency_ms_p99: number("99%")?,
        void: Vec::new(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn abs_report_is_read() {
        let said = "Time taken for tests:   2.000 seconds\nComplete requests:      40000\nFailed requests:        1\n\
                    Non-2xx responses:      2\nRequests per second:    20000.12 [#/sec] (mean)\n\
                    Time per request:       1.500 [ms] (mean)\nTime per request:       0.050 [ms] (mean, across all)\n\
                    \x20 50%      1\n  99%      4\n 100%      9 (longest request)\n";
        let figures = parse_ab(said).unwrap();
        assert_eq!((figures.requests, figures.failed), (40_000, 3));
        assert_eq!((figures.latency_ms_mean, figures.latency_ms_p99), (Some(1.5), 4.0));
        assert_eq!(parse_ab("ab: Connection refused\n"), None);
    }

    #[test]
    fn our_own_figures_are_read() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("load.json");
        let text = "{\"responses\":7,\"errors\":1,\"rate\":3.5,\"void\":[\"lag\"],\"statuses\":{\"200\":6,\"502\":1},\
                    \"failures\":{\"unanswered\":2},\
                    \"latency\":{\"mean_ns\":2e6,\"quantiles_ns\":{\"p50\":1,\"p99\":5000000}},\"more\":0}";
        fs::write(&file, text).unwrap();
        let figures = read_holdfast(&file).unwrap();
        assert_eq!((figures.requests, figures.failed, figures.latency_ms_p99), (7, 1, 5.0));
        assert_eq!(figures.void, ["lag"]);
        let causes: Vec<_> = figures.causes.iter().map(|(cause, count)| (cause.as_str(), *count)).collect();
        assert_eq!(causes, [("502", 1), ("unanswered", 2)]);
        fs::write(&file, "{}").unwrap();
        assert!(read_holdfast(&file).is_err());
    }
}
