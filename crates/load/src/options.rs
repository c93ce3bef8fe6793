//! The options of a load as plain values, and the checks for contradictions between them. The binary maps its flags to
//! these fields.

mod bodies;

use crate::coding::Coding;
use crate::pace::{Schedule, Spacing, Stage};
use crate::places::Places;
use crate::scenario::{self, Scenario};
use crate::script::Script;
use crate::tcp::{Exchange, MESSAGE_BYTES_MAX, Reply};
use crate::template::{Template, TemplateError};
use crate::tls::TlsOptions;
use crate::upload::Upload;
use crate::url::Url;
use serde::{Deserialize, Serialize};
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;
use thiserror::Error;

/// Most processes. Each has its own threads and pipes. A million connections need fifty processes with 20,000 descriptors
/// each.
pub const PROCESSES_MAX: usize = 256;
/// Most threads: more than the cores of any machine, and few enough that a typo does not start a million.
pub const THREADS_MAX: usize = 1024;
/// Most connections of a load, over all processes. Task indices and rings are 32 bits wide, and one process may have all
/// connections. A machine has fewer tuples anyway.
pub const CONNECTIONS_MAX: usize = 10_000_000;
/// Most targets: each has its own histograms in every thread.
pub const TARGETS_MAX: usize = 1024;
/// Most requests in flight on one connection. No server reads further ahead, and this bounds the buffer of one write.
pub const PIPELINE_MAX: usize = 256;
/// Most streams on one connection: servers allow a hundred to a few hundred.
pub const STREAMS_MAX: usize = 10_000;
/// Largest latency that is counted, in nanoseconds: one hour, which is above every timeout that is accepted.
pub const LATENCY_NS_MAX: u64 = 3_600_000_000_000;
/// Shortest interval of the series: in shorter ones the recording itself would distort the measurement.
const INTERVAL_MIN: Duration = Duration::from_millis(100);

/// One URL and the request for it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Target {
    /// Where to send the request.
    pub url: Url,
    /// Share among the targets; a target with weight 0 gets no requests.
    pub weight: u32,
    /// Method as it is sent.
    pub method: String,
    /// Header fields in order. A `Host` field replaces the URL's host.
    pub fields: Vec<(String, String)>,
    /// Body; Content-Length is added unless `fields` contains it or a Transfer-Encoding.
    pub body: Vec<u8>,
}

impl Target {
    /// A GET without header fields.
    pub fn new(url: Url) -> Self {
        Self { url, weight: 1, method: "GET".to_owned(), fields: Vec::new(), body: Vec::new() }
    }
}

/// When requests begin.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum Pace {
    /// Closed loop: a connection sends its next request after the last response and the think time. A slow response delays
    /// the requests after it, so the latencies flatter a target that stalls.
    Closed {
        /// Pause between a response and the next request, uniformly distributed between these two.
        think: (Duration, Duration),
    },
    /// Open loop: requests are due at fixed times, and latency counts from those times.
    Open {
        /// The rate over time. The run ends with the last stage.
        stages: Vec<Stage>,
        /// How arrivals are spread.
        spacing: Spacing,
    },
}

impl Pace {
    /// Closed loop without pauses.
    pub fn closed() -> Self {
        Self::Closed { think: (Duration::ZERO, Duration::ZERO) }
    }

    /// Open loop with one rate.
    pub fn constant(requests_per_second: f64, duration: Duration) -> Self {
        let stage = Stage { duration, from: requests_per_second, to: requests_per_second };
        Self::Open { stages: vec![stage], spacing: Spacing::Constant }
    }

    /// The pause of a closed loop, if it has one: from and to.
    pub(crate) fn think(&self) -> Option<(Duration, Duration)> {
        match self {
            Self::Closed { think } if !think.1.is_zero() => Some(*think),
            _ => None,
        }
    }

    /// Whether latency counts from the time a request was due.
    pub fn is_open(&self) -> bool {
        matches!(self, Self::Open { .. })
    }
}

/// The default for options that were written before there were streams.
fn one() -> usize {
    1
}

/// Protocol of the requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub enum Version {
    /// HTTP/1.0, as `ab` sends.
    Http10,
    /// HTTP/1.1, as other clients send.
    #[default]
    Http11,
    /// HTTP/2: by ALPN under TLS, with prior knowledge without TLS.
    Http2,
    /// No HTTP: messages over TCP ([`Options::exchange`]).
    Tcp,
}

impl Version {
    /// The usual way to write it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Http10 => "HTTP/1.0",
            Self::Http11 => "HTTP/1.1",
            Self::Http2 => "HTTP/2",
            Self::Tcp => "TCP",
        }
    }
}

/// All options of a load.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Options {
    /// The targets, at least one.
    pub targets: Vec<Target>,
    /// Where they are, if not where their names say.
    #[serde(default)]
    pub places: Places,
    /// When requests begin.
    pub pace: Pace,
    /// Connections of all threads together. In an open loop this is the maximum; they are opened when needed.
    pub connections: usize,
    /// Threads with an event loop each, in all processes together. At least one starts in each process, and no more than
    /// there are connections.
    pub threads: usize,
    /// Processes that share the load; `None` starts as many as the descriptor limit requires. More than one needs
    /// [`crate::Prepared::start_with`].
    pub processes: Option<usize>,
    /// The run ends after this many requests, or after `duration` if that comes first.
    pub requests: Option<u64>,
    /// The run ends after this time, or after `requests` if that comes first. In an open loop the stages set the length.
    pub duration: Option<Duration>,
    /// Whether to keep connections. Otherwise each request has its own and sends `Connection: close`.
    pub keepalive: bool,
    /// Protocol of the requests.
    pub version: Version,
    /// The messages of a load over TCP.
    #[serde(default)]
    pub exchange: Exchange,
    /// Requests in flight on a connection; above 1 only in a closed loop with keepalive.
    pub pipeline: usize,
    /// Streams on each HTTP/2 connection, if the target allows that many.
    #[serde(default = "one")]
    pub streams: usize,
    /// Whether bodies are gRPC messages; a response without `grpc-status: 0` is then a failure. Over HTTP/2 only.
    #[serde(default)]
    pub grpc: bool,
    /// How request bodies are compressed.
    #[serde(default)]
    pub compress: Option<Coding>,
    /// How request bodies are sent in pieces; over HTTP/1 only, without values in them.
    #[serde(default)]
    pub upload: Option<Upload>,
    /// Timeout for establishing a connection.
    pub connect_timeout: Duration,
    /// Time from sending a request to the end of its response.
    pub response_timeout: Duration,
    /// How long to wait at the end for requests in flight.
    pub drain: Duration,
    /// Source addresses, used in turn; if empty, the kernel chooses.
    pub sources: Vec<IpAddr>,
    /// Length of an interval of the series.
    pub interval: Duration,
    /// Whether to measure the parts of a request that `ab` shows: to the first byte of the response, and from sending to
    /// the end.
    pub parts: bool,
    /// `ab -l`: whether bodies of different lengths count as successful in reports. The lengths are compared anyway.
    pub ignore_length: bool,
    /// A wrk script that creates the requests, for the first target; in a closed loop only.
    pub script: Option<Script>,
    /// Whether to refuse a load that the system cannot carry ([`crate::Plan`]).
    pub plan: bool,
    /// Whether `{{…}}` in path, fields and body is replaced ([`crate::TEMPLATES`]).
    pub templates: bool,
    /// Seed of all random values: two runs with the same seed send the same requests.
    pub seed: u64,
    /// TLS options for `https://` targets.
    #[serde(default)]
    pub tls: TlsOptions,
    /// What virtual users do; its steps are the targets. Then `connections` counts users, each with a connection to each
    /// address, and rates and `requests` count iterations.
    #[serde(default, with = "scenario::shared")]
    pub scenario: Option<Arc<Scenario>>,
    /// Closed loop: active connections over time, or users of a scenario, at most `connections`; the run ends with the last
    /// stage. Empty: all of them from the start.
    #[serde(default)]
    pub ramp: Vec<Stage>,
    /// Time from the start that results do not contain, rounded up to whole intervals.
    #[serde(default)]
    pub warm_up: Duration,
}

impl Options {
    /// One target with wrk's defaults (10 connections, 10 seconds, closed loop) and one thread.
    pub fn new(target: Target) -> Self {
        Self {
            targets: vec![target],
            pace: Pace::closed(),
            connections: 10,
            threads: 1,
            processes: Some(1),
            requests: None,
            duration: Some(Duration::from_secs(10)),
            keepalive: true,
            version: Version::default(),
            exchange: Exchange::default(),
            pipeline: 1,
            streams: 1,
            grpc: false,
            compress: None,
            upload: None,
            connect_timeout: Duration::from_secs(10),
            response_timeout: Duration::from_secs(30),
            drain: Duration::from_secs(2),
            sources: Vec::new(),
            interval: Duration::from_secs(1),
            parts: false,
            script: None,
            plan: true,
            ignore_length: false,
            templates: true,
            seed: 0,
            tls: TlsOptions::default(),
            scenario: None,
            ramp: Vec::new(),
            warm_up: Duration::ZERO,
            places: Places::default(),
        }
    }

    /// Checks the options for contradictions.
    pub fn check(&self) -> Result<(), OptionsError> {
        let wrong = |text: &'static str| Err(OptionsError::Contradiction(text));
        if self.targets.is_empty() || self.targets.iter().all(|target| target.weight == 0) {
            return wrong("a load needs a target with a weight");
        }
        if self.targets.len() > TARGETS_MAX {
            return wrong("more than 1024 targets");
        }
        if self.connections == 0 || self.connections > CONNECTIONS_MAX {
            return wrong("a load has 1 to 10,000,000 connections");
        }
        if self.threads == 0 || self.threads > THREADS_MAX {
            return wrong("a load has 1 to 1024 threads");
        }
        if self.processes.is_some_and(|processes| processes == 0 || processes > PROCESSES_MAX) {
            return wrong("a load has 1 to 256 processes");
        }
        if self.pipeline == 0 || self.pipeline > PIPELINE_MAX {
            return wrong("1 to 256 requests can be in flight on a connection");
        }
        if self.pipeline > 1 && (!self.keepalive || self.pace != Pace::closed()) {
            return wrong("pipelining is for kept connections in closed loop without think time");
        }
        if self.tls.handshakes_only && (self.keepalive || !self.targets.iter().all(|target| target.url.tls)) {
            return wrong("a load of handshakes alone has https:// targets and a connection for each");
        }
        if self.script.is_some() && (self.targets.len() > 1 || self.pace != Pace::closed() || self.pipeline > 1) {
            return wrong(
                "a script has one URL, and says itself how fast it goes: a closed loop, delay(), several requests at once",
            );
        }
        if self.places.unix.is_some() && !self.sources.is_empty() {
            return wrong("a Unix socket is reached without source addresses");
        }
        self.check_scenario()?;
        self.check_course()?;
        self.check_version()?;
        self.check_bodies()?;
        if self.interval < INTERVAL_MIN {
            return wrong("an interval lasts at least 100 ms");
        }
        let longest = Duration::from_nanos(LATENCY_NS_MAX);
        if self.response_timeout > longest || self.connect_timeout > longest || self.drain > longest {
            return wrong("a timeout is at most one hour");
        }
        if self.response_timeout.is_zero() || self.connect_timeout.is_zero() {
            return wrong("a timeout of nothing lets no request succeed");
        }
        match &self.pace {
            Pace::Closed { .. } if self.requests.is_none() && self.duration.is_none() => {
                wrong("a closed loop needs a duration or a number of requests")
            }
            Pace::Closed { think: (from, to) } if from > to => wrong("the think time ends before it begins"),
            Pace::Closed { .. } => self.check_targets(),
            Pace::Open { stages, .. } => {
                let is_rate = |rate: f64| rate.is_finite() && rate >= 0.0;
                if !stages.iter().all(|stage| is_rate(stage.from) && is_rate(stage.to)) {
                    return wrong("a rate is a number of requests per second");
                }
                if !stages.iter().any(|stage| stage.from + stage.to > 0.0 && !stage.duration.is_zero()) {
                    return wrong("with a rate of 0 nothing is ever sent");
                }
                self.check_targets()
            }
        }
    }

    /// Sockets that the load may have at one time. Users of a scenario have one for each place of its targets.
    pub(crate) fn sockets(&self) -> usize {
        if self.scenario.is_none() {
            return self.connections;
        }
        let mut places: Vec<_> = self.targets.iter().map(|target| target.url.place()).collect();
        places.sort_unstable();
        places.dedup();
        self.connections.saturating_mul(places.len())
    }

    /// Checks what a scenario excludes.
    fn check_scenario(&self) -> Result<(), OptionsError> {
        let wrong = |text: &'static str| Err(OptionsError::Contradiction(text));
        let Some(scenario) = &self.scenario else { return Ok(()) };
        if scenario.steps().count() != self.targets.len() {
            return wrong("the targets of a scenario are its steps");
        }
        if scenario.flows.iter().all(|flow| flow.weight == 0) {
            return wrong("a scenario has no weight, so none would be played");
        }
        if self.script.is_some() || self.is_http2() || self.pipeline > 1 || self.tls.handshakes_only {
            return wrong("a scenario is for HTTP/1.1, one request at a time, without a script");
        }
        match &self.pace {
            Pace::Closed { think } if !think.1.is_zero() => wrong("the steps of a scenario have their own think times"),
            _ => Ok(()),
        }
    }

    /// Intervals that results do not contain.
    pub(crate) fn warm_up_intervals(&self) -> u64 {
        self.warm_up.as_nanos().div_ceil(self.interval.as_nanos().max(1)) as u64
    }

    /// Planned length of the run.
    pub(crate) fn planned(&self) -> Option<Duration> {
        match &self.pace {
            Pace::Open { stages, .. } => Some(Schedule::new(stages.clone()).duration()),
            Pace::Closed { .. } => self.duration,
        }
    }

    /// Checks the connections over time, and the warm-up.
    fn check_course(&self) -> Result<(), OptionsError> {
        let wrong = |text: &'static str| Err(OptionsError::Contradiction(text));
        if self.planned().is_some_and(|planned| planned <= self.warm_up) && !self.warm_up.is_zero() {
            return wrong("the warm-up is as long as the run, so nothing would be measured");
        }
        if self.ramp.is_empty() {
            return Ok(());
        }
        if self.pace.is_open() || self.is_http2() || self.script.is_some() {
            return wrong("connections over time are for a closed loop over HTTP/1.1 without a script");
        }
        let is_count = |count: f64| count.is_finite() && (0.0..=self.connections as f64).contains(&count);
        if !self.ramp.iter().all(|stage| is_count(stage.from) && is_count(stage.to)) {
            return wrong("connections over time are at most those of the load");
        }
        Ok(())
    }

    /// Whether the requests use HTTP/2.
    pub fn is_http2(&self) -> bool {
        self.version == Version::Http2
    }

    /// Whether the load sends messages over TCP, without HTTP.
    pub fn is_tcp(&self) -> bool {
        self.version == Version::Tcp
    }

    /// The names of what is sent and of what comes back, in the plural.
    pub(crate) fn nouns(&self) -> (&'static str, &'static str) {
        if self.is_tcp() { ("messages", "messages") } else { ("requests", "responses") }
    }

    /// Checks the options of a load over TCP.
    fn check_tcp(&self) -> Result<(), OptionsError> {
        let wrong = |text: &'static str| Err(OptionsError::Contradiction(text));
        let Exchange { bytes, reply } = self.exchange;
        if bytes > MESSAGE_BYTES_MAX {
            return wrong("a message has at most 16 MB");
        }
        if bytes == 0 && reply == Reply::Echo {
            return wrong("there is no echo of nothing: a message has a byte or more, or no reply");
        }
        if bytes == 0 && self.keepalive {
            return wrong("without a message each connection is used once: they cannot be kept");
        }
        let is_plain = |target: &Target| target.fields.is_empty() && target.body.is_empty();
        if self.script.is_some() || self.tls.handshakes_only || self.parts || !self.targets.iter().all(is_plain) {
            return wrong("scripts, header fields, bodies and handshakes alone are for HTTP");
        }
        Ok(())
    }

    /// Checks the options that one protocol alone has, and those that it does not have.
    fn check_version(&self) -> Result<(), OptionsError> {
        let wrong = |text: &'static str| Err(OptionsError::Contradiction(text));
        if self.targets.iter().any(|target| target.url.bare != self.is_tcp()) {
            return wrong("the targets of a load are all of HTTP, or all of TCP");
        }
        if self.is_tcp() {
            self.check_tcp()?;
        }
        if self.streams == 0 || self.streams > STREAMS_MAX {
            return wrong("1 to 10,000 streams can be open on a connection");
        }
        if !self.is_http2() {
            return match (self.streams, self.grpc) {
                (1, false) => Ok(()),
                (1, true) => wrong("gRPC is spoken over HTTP/2"),
                _ => wrong("several streams on a connection are for HTTP/2"),
            };
        }
        if self.pipeline > 1 {
            return wrong("over HTTP/2 requests in flight on a connection are streams");
        }
        if self.script.is_some() {
            return wrong("a script is for HTTP/1.1");
        }
        if !self.keepalive {
            return wrong("over HTTP/2 connections are kept");
        }
        if self.parts {
            return wrong("the parts of a request are measured over HTTP/1 only");
        }
        if self.streams > 1 && matches!(&self.pace, Pace::Closed { think } if !think.1.is_zero()) {
            return wrong("think time is for one stream on each connection");
        }
        for target in &self.targets {
            let is_of_connection = |name: &str| {
                ["connection", "keep-alive", "proxy-connection", "transfer-encoding", "upgrade"]
                    .iter()
                    .any(|known| name.eq_ignore_ascii_case(known))
            };
            if let Some((name, _)) = target.fields.iter().find(|(name, _)| is_of_connection(name)) {
                return Err(OptionsError::FieldOfHttp1(name.clone()));
            }
            if target.method == "CONNECT" {
                return wrong("a CONNECT has no response to wait for over HTTP/2");
            }
        }
        Ok(())
    }

    fn check_targets(&self) -> Result<(), OptionsError> {
        for target in &self.targets {
            let token = |text: &str| {
                !text.is_empty()
                    && text.bytes().all(|byte| byte.is_ascii_graphic() && !b"()<>@,;:\\\"/[]?={}".contains(&byte))
            };
            if !token(&target.method) {
                return Err(OptionsError::Method(target.method.clone()));
            }
            for (name, value) in &target.fields {
                if !token(name) || value.bytes().any(|byte| matches!(byte, b'\r' | b'\n' | 0)) {
                    return Err(OptionsError::Field(name.clone()));
                }
            }
        }
        Ok(())
    }

    /// Parses a text as a template or as plain text, depending on the options.
    pub(crate) fn template(&self, text: &[u8]) -> Result<Template, TemplateError> {
        if self.templates { Template::parse(text) } else { Ok(Template::literal(text)) }
    }
}

/// Why options are invalid.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum OptionsError {
    /// Two options contradict each other, or one has an invalid value.
    #[error("{0}")]
    Contradiction(&'static str),
    /// The method is not a token.
    #[error("`{0}` is no method")]
    Method(String),
    /// The name of a field is not a token, or its value contains a line end.
    #[error("`{0}` is no header field that can be sent")]
    Field(String),
    /// A field that HTTP/2 does not have (RFC 9113 section 8.2.2).
    #[error("`{0}` concerns one connection of HTTP/1, and HTTP/2 does not have it")]
    FieldOfHttp1(String),
    /// A template is invalid.
    #[error("{0}")]
    Template(#[from] TemplateError),
    /// A step of a scenario is invalid.
    #[error("step `{0}`: {1}")]
    Step(String, String),
    /// Each user of a scenario keeps a row of its own, and there are fewer rows.
    #[error("data `{name}` has {rows} rows, too few for {users} users with one each")]
    TooFewRows {
        /// The name of the data.
        name: String,
        /// Its rows.
        rows: usize,
        /// Users asked for.
        users: usize,
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options() -> Options {
        Options::new(Target::new("http://127.0.0.1:1/".parse().unwrap()))
    }

    fn tcp(bytes: usize, reply: Reply, keepalive: bool) -> Options {
        let target = Target { method: "echo".to_owned(), ..Target::new(Url::parse_tcp("tcp://127.0.0.1:1").unwrap()) };
        Options { version: Version::Tcp, exchange: Exchange { bytes, reply }, keepalive, ..Options::new(target) }
    }

    #[test]
    fn contradictions_are_found() {
        assert_eq!(options().check(), Ok(()));
        assert_eq!((tcp(1, Reply::Echo, true).check(), tcp(0, Reply::None, false).check()), (Ok(()), Ok(())));
        let changes: [fn(&mut Options); 21] = [
            |options| options.targets.clear(),
            |options| options.targets[0].weight = 0,
            |options| options.connections = 0,
            |options| options.threads = 0,
            |options| options.processes = Some(0),
            |options| (options.pipeline, options.script) = (2, Some(Script::default())),
            |options| options.duration = None,
            |options| options.streams = 2,
            |options| options.grpc = true,
            |options| (options.version, options.streams) = (Version::Http2, 0),
            |options| (options.version, options.keepalive) = (Version::Http2, false),
            |options| {
                options.version = Version::Http2;
                options.targets[0].fields.push(("Connection".to_owned(), "close".to_owned()));
            },
            |options| (options.pipeline, options.keepalive) = (2, false),
            |options| options.pace = Pace::constant(0.0, Duration::from_secs(1)),
            |options| options.targets[0].method = "GET /".to_owned(),
            |options| options.targets[0].fields.push(("A".to_owned(), "b\r\nc".to_owned())),
            |options| options.version = Version::Tcp,
            |options| *options = tcp(0, Reply::Echo, false),
            |options| *options = tcp(0, Reply::None, true),
            |options| *options = tcp(MESSAGE_BYTES_MAX + 1, Reply::Echo, true),
            |options| *options = Options { version: Version::Http11, ..tcp(1, Reply::Echo, true) },
        ];
        for (index, change) in changes.iter().enumerate() {
            let mut changed = options();
            change(&mut changed);
            assert!(changed.check().is_err(), "change {index}");
        }
    }
}
