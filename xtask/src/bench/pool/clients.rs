//! The programs that load an arm, and what they say about it, in one form: `ab`, wrk, and `holdfast load` for constant rates.

use super::super::wrk;
use super::plan::{Client, Load};
use super::programs::{PAGE, Paths};
use anyhow::{Context as _, Result};
use lab::stage::client::{self, parse_ab, parse_load, parse_wrk};
use lab::stage::process::placed;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;
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
        let file = if let Client::Rate(_) = self.load.client { self.json() } else { self.output() };
        let said = fs::read_to_string(file).with_context(|| format!("{} wrote no figures", self.name()))?;
        let figures = match self.load.client {
            Client::Rate(_) => parse_load(&said),
            Client::Ab => parse_ab(&said),
            Client::Wrk | Client::WrkPost => parse_wrk(&said).map(client::Figures::from),
        };
        figures.map(Figures::from).with_context(|| format!("{} said no figures:\n{said}", self.name()))
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

impl From<client::Figures> for Figures {
    fn from(told: client::Figures) -> Self {
        Self {
            requests: told.requests,
            requests_per_second: told.requests_per_second,
            failed: told.failed,
            causes: told.causes,
            latency_ms_mean: told.latency.mean,
            latency_ms_p99: told.latency.p99.unwrap_or_default(),
            void: told.void,
        }
    }
}
