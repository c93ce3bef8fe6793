//! A container of a Pod: its process, what it starts with, and whether it is ready.

use super::environment;
use super::network::Network;
use super::node::{Shared, text};
use super::pod::{PodOrNode, volume};
use super::pod_status::now;
use super::process::Process;
use nix::sys::signal::Signal;
use serde_json::Value;
use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::path::PathBuf;
use std::process::ExitStatus;
use std::time::{Duration, Instant};

/// A container that has ended, or could not start, is tried again after this long; a kubelet waits longer each time.
const START_AGAIN: Duration = Duration::from_secs(1);
/// What a probe may take: the default of the API.
const PROBE_MAX: Duration = Duration::from_secs(1);
/// Defaults of the API for probes.
const PROBE_PERIOD: u64 = 10;
const PROBE_FAILURES: u64 = 3;

/// A container, whether it runs or not.
pub(super) struct Container {
    pub(super) spec: Value,
    folder: PathBuf,
    pub(super) process: Option<Process>,
    pub(super) started: String,
    pub(super) restarts: u32,
    /// Why it could not be started: a reason in one word, and a message.
    pub(super) problem: Option<(&'static str, String)>,
    pub(super) ready: bool,
    end_seen: bool,
    start_at: Instant,
    probe_at: Instant,
    failures: u64,
}

impl Container {
    pub(super) fn new(spec: Value, folder: PathBuf) -> Self {
        let at = Instant::now();
        Self {
            spec,
            folder,
            process: None,
            started: String::new(),
            restarts: 0,
            problem: None,
            ready: false,
            end_seen: false,
            start_at: at,
            probe_at: at,
            failures: 0,
        }
    }

    /// Whether its process runs.
    pub(super) fn runs(&mut self) -> bool {
        self.process.as_mut().is_some_and(|process| process.ended().is_none())
    }

    /// How its process ended, if it has.
    pub(super) fn ended(&mut self) -> Option<ExitStatus> {
        self.process.as_mut().and_then(Process::ended)
    }

    pub(super) fn signal(&mut self, signal: Signal) {
        if let Some(process) = &mut self.process {
            process.signal(signal);
        }
    }

    /// Starts it, for the first time or again.
    pub(super) fn keep_running(&mut self, node: &Shared, object: &Value, network: &PodOrNode) {
        if self.runs() {
            return;
        }
        if let Some(ended) = self.ended() {
            if !restarts(object, ended) {
                return;
            }
            if !self.end_seen {
                // Until then it is reported as ended.
                (self.end_seen, self.start_at) = (true, Instant::now() + START_AGAIN);
            }
        }
        if Instant::now() < self.start_at {
            return;
        }
        self.start_at = Instant::now() + START_AGAIN;
        match self.start(node, object, network) {
            Ok(process) => {
                self.restarts += u32::from(self.process.is_some());
                (self.process, self.problem, self.started) = (Some(process), None, now());
                (self.end_seen, self.failures) = (false, 0);
            }
            Err(problem) => self.problem = Some(problem),
        }
    }

    fn start(&self, node: &Shared, object: &Value, network: &PodOrNode) -> Result<Process, (&'static str, String)> {
        let image = text(&self.spec["image"]);
        let name = image.rsplit('/').next().unwrap_or_default().split([':', '@']).next().unwrap_or_default();
        let program =
            node.images.get(name).ok_or(("ImagePullBackOff", format!("the fake node has no image {image}")))?;
        let unusable = |why: String| ("CreateContainerConfigError", why);
        let mut mounts = Vec::new();
        for mount in self.spec["volumeMounts"].as_array().into_iter().flatten() {
            let at = volume(node, object, &text(&mount["name"]), &self.folder).map_err(unusable)?;
            mounts.push((text(&mount["mountPath"]), at.join(text(&mount["subPath"])).display().to_string()));
        }
        let mut values = environment::values(node, object, &self.spec, network.address()).map_err(unusable)?;
        for (_, value) in &mut values {
            *value = mounted(value, &mounts);
        }
        let words = |key: &str| {
            let given = self.spec[key].as_array().into_iter().flatten();
            given.map(|word| mounted(&environment::expand(&text(word), &values), &mounts)).collect::<Vec<_>>()
        };
        let (command, arguments) = (words("command"), words("args"));
        let argv =
            if command.is_empty() { [program.clone(), arguments].concat() } else { [command, arguments].concat() };
        let (first, rest) = argv.split_first().ok_or(unusable("an empty command".to_owned()))?;
        let mut process = network.command(first);
        process.args(rest).current_dir(&self.folder).env_clear();
        process.env("PATH", std::env::var_os("PATH").unwrap_or_default()).envs(values);
        Process::start(&mut process, &self.folder.join("log")).map_err(|error| ("RunContainerError", error.to_string()))
    }

    /// Asks its readiness probe when it is time; without one, a container that runs is ready.
    pub(super) fn probe(&mut self, node: &Network, address: Ipv4Addr) {
        let probe = self.spec["readinessProbe"].clone();
        if !self.runs() || probe.is_null() {
            self.ready = self.runs();
            return;
        }
        if Instant::now() < self.probe_at {
            return;
        }
        let passed = node.run(|| self.passes(&probe, address));
        let seconds = |key: &str, default: u64| probe[key].as_u64().unwrap_or(default);
        self.failures = if passed { 0 } else { self.failures + 1 };
        if passed {
            self.ready = true;
        } else if self.failures >= seconds("failureThreshold", PROBE_FAILURES) {
            self.ready = false;
        }
        // Until it is ready for the first time, each tick asks: a test waits for that.
        let period = if self.ready { seconds("periodSeconds", PROBE_PERIOD) } else { 0 };
        self.probe_at = Instant::now() + Duration::from_secs(period);
    }

    fn passes(&self, probe: &Value, address: Ipv4Addr) -> bool {
        let kind = ["httpGet", "tcpSocket", "grpc"].into_iter().find(|kind| !probe[kind].is_null());
        let Some(kind) = kind else { return true };
        let Some(port) = self.port(&probe[kind]["port"]) else { return false };
        let Ok(mut socket) = TcpStream::connect_timeout(&SocketAddr::from((address, port)), PROBE_MAX) else {
            return false;
        };
        if kind != "httpGet" || probe[kind]["scheme"] == "HTTPS" {
            return true;
        }
        let target = probe[kind]["path"].as_str().unwrap_or("/");
        let _ = socket.set_read_timeout(Some(PROBE_MAX));
        let _ = write!(socket, "GET {target} HTTP/1.0\r\nHost: {address}\r\n\r\n");
        let mut line = [0; 12];
        socket.read_exact(&mut line).is_ok() && matches!(line[9], b'2' | b'3')
    }

    /// A port's number, from the number or from the name of one of the container's ports.
    fn port(&self, port: &Value) -> Option<u16> {
        let mut named = self.spec["ports"].as_array().into_iter().flatten().filter(|it| it["name"] == *port);
        let number = port.as_u64().or_else(|| named.next()?["containerPort"].as_u64())?;
        u16::try_from(number).ok()
    }
}

/// Whether the Pod's policy starts a container again that has ended.
pub(super) fn restarts(object: &Value, ended: ExitStatus) -> bool {
    match object["spec"]["restartPolicy"].as_str() {
        Some("Never") => false,
        Some("OnFailure") => !ended.success(),
        _ => true,
    }
}

/// The text with the folders of volumes instead of the paths where they would be mounted.
fn mounted(text: &str, mounts: &[(String, String)]) -> String {
    mounts.iter().fold(text.to_owned(), |text, (path, folder)| text.replace(path.as_str(), folder))
}
