//! The flags of `holdfast load`, and the options they give.

mod baseline;
mod bodies;
mod course;
mod farm;
mod files;
mod places;
mod push;
mod scenario;
mod tcp;
mod tls;
mod websocket;

pub(super) use farm::{FarmFlags, NatsFlags};
pub(super) use files::FileArgs;

use super::sources;
use super::typed::{Course, parse_duration_range, parse_rate, parse_stage};
use crate::typed::{count, duration, size};
use load::results::read_at_most;
use load::{
    EXPECTATIONS, Expectation, FormPart, Options, PROCESSES_MAX, Pace, Script, Spacing, Stage, TEMPLATES, Target, Url,
    UrlError, Version, form_body,
};
use std::net::IpAddr;
use std::path::PathBuf;
use std::time::Duration;

/// wrk's defaults.
const CONNECTIONS_DEFAULT: u64 = 10;
const DURATION_DEFAULT: Duration = Duration::from_secs(10);
const THREADS_DEFAULT: usize = 2;
/// With `-n` and a rate but without `-d`, the load lasts until all requests are sent.
const ENDLESS: Duration = Duration::from_hours(366 * 24);
/// Longest body from a file: each target holds it in memory once.
const BODY_BYTES_MAX: u64 = 1 << 30;
/// Longest script: a thousand times the usual length.
const SCRIPT_BYTES_MAX: u64 = 16 << 20;

/// Load-test a server, with latency counted from the time each request was due
///
/// Without --rate it is a closed loop, as wrk: each connection sends its next request when the last one is answered. With --rate
/// it is an open loop: requests are due at fixed times, and latency counts from then, so that a stall of the target shows in
/// every request that it delayed. -c, -d, -t, -s and -H are wrk's flags.
#[derive(Debug, clap::Args)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true, after_long_help = after_help())]
pub(crate) struct Args {
    #[command(subcommand)]
    pub(super) command: Option<super::Command>,
    #[command(flatten)]
    pub(super) load: LoadArgs,
}

fn after_help() -> String {
    format!(
        "Values in URLs, headers and bodies:\n{TEMPLATES}\n\nThresholds:\n{EXPECTATIONS}\n{}\n\nExit codes:\n\
         0  done, and all thresholds were met\n1  could not run: no request was answered, or the start failed\n\
         2  the command line could not be understood\n3  a threshold was not met\n\
         4  void: the generator may have decided the answer (--allow-lag takes the figures as they are)",
        load::websocket::EXPECTATIONS
    )
}

/// How many processes share the load.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Processes {
    Auto,
    Exactly(usize),
}

impl Processes {
    fn count(self) -> Option<usize> {
        match self {
            Self::Auto => None,
            Self::Exactly(count) => Some(count),
        }
    }
}

fn parse_processes(text: &str) -> Result<Processes, String> {
    if text == "auto" {
        return Ok(Processes::Auto);
    }
    let count = text.parse().ok().filter(|count| (1..=PROCESSES_MAX).contains(count));
    count.map(Processes::Exactly).ok_or_else(|| format!("auto, or a number from 1 to {PROCESSES_MAX}"))
}

#[derive(Debug, clap::Args)]
pub(super) struct LoadArgs {
    /// URLs to load; `3*http://…` gets three times as many requests as the others
    #[arg(value_name = "URL", required_unless_present_any = ["self_test", "scenario", "urls_file"], conflicts_with = "self_test")]
    pub(super) urls: Vec<String>,
    /// Connections of all threads together; with --rate the maximum
    #[arg(short, long, value_name = "N", value_parser = count)]
    pub(super) connections: Option<u64>,
    /// Duration
    #[arg(short, long, value_name = "TIME", value_parser = duration)]
    pub(super) duration: Option<Duration>,
    /// Threads of all processes together
    #[arg(short, long, value_name = "N", value_parser = size)]
    pub(super) threads: Option<usize>,
    /// Number of processes; auto: as many as the limit of descriptors requires
    #[arg(long, value_name = "auto|N", default_value = "auto", value_parser = parse_processes)]
    processes: Processes,
    /// Run a wrk script: setup, init, delay, request, response, done
    #[arg(short, long, value_name = "FILE")]
    script: Option<PathBuf>,
    /// Argument for the script's init function; may be given several times
    #[arg(long, value_name = "WORD", requires = "script")]
    script_arg: Vec<String>,
    /// End after this many requests
    #[arg(short = 'n', long, value_name = "N", value_parser = count)]
    pub(super) requests: Option<u64>,
    /// Open loop: requests per second, such as 2,400/s or 10k/s, or a ramp such as 100..2000/s
    #[arg(short = 'R', long, value_name = "RATE", value_parser = parse_rate)]
    rate: Option<(f64, f64)>,
    /// Open loop in stages, such as --stage 30s:100/s --stage 1m:100..2000/s
    #[arg(long, value_name = "TIME:RATE", value_parser = parse_stage, conflicts_with_all = ["rate", "duration"])]
    stage: Vec<Stage>,
    /// Send requests at random times instead of even intervals
    #[arg(long)]
    poisson: bool,
    /// A header field, as NAME: VALUE
    #[arg(short = 'H', long, value_name = "FIELD")]
    header: Vec<String>,
    /// Method
    #[arg(short, long, value_name = "NAME")]
    method: Option<String>,
    /// Request body; the default method is then POST
    #[arg(short, long, value_name = "TEXT")]
    body: Option<String>,
    /// Body from a file
    #[arg(long, value_name = "FILE", conflicts_with = "body")]
    body_file: Option<PathBuf>,
    /// A part of a multipart/form-data body, as curl: name=text or name=@file;type=image/png; may be given several times
    #[arg(short = 'F', long, value_name = "PART", conflicts_with_all = ["body", "body_file", "grpc", "scenario", "urls_file", "replay"])]
    form: Vec<FormPart>,
    /// Open a connection for each request
    #[arg(long)]
    no_keepalive: bool,
    /// Requests in flight on each connection
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = size)]
    pipeline: usize,
    /// Speak HTTP/2: by ALPN on https://, with prior knowledge on http://
    #[arg(long)]
    http2: bool,
    /// Streams on each connection of HTTP/2, if the target allows as many
    #[arg(long, value_name = "N", value_parser = size)]
    streams: Option<usize>,
    /// Unary calls of gRPC: the path of the URL is /PACKAGE.SERVICE/METHOD, the body is the message; speaks HTTP/2
    #[arg(long)]
    grpc: bool,
    /// Message of this many zero bytes, for --grpc
    #[arg(long, value_name = "BYTES", value_parser = size, requires = "grpc", conflicts_with_all = ["body", "body_file"])]
    grpc_size: Option<usize>,
    /// Pause between a response and the next request, such as 50ms or 10ms..100ms
    #[arg(long, value_name = "TIME", value_parser = parse_duration_range, conflicts_with_all = ["rate", "stage"])]
    think: Option<(Duration, Duration)>,
    /// Time for a response, from sending its request to its end
    #[arg(long, value_name = "TIME", default_value = "30s", value_parser = duration)]
    timeout: Duration,
    /// Time for a connection to be established
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = duration)]
    connect_timeout: Duration,
    /// Time to wait at the end for requests in flight
    #[arg(long, value_name = "TIME", default_value = "2s", value_parser = duration)]
    drain: Duration,
    /// Source addresses in turn: an address, a range (127.0.0.2-127.0.0.9), a network (127.0.0.0/24) or an interface (eth0)
    #[arg(long, value_name = "ADDRESSES", value_parser = sources::parse)]
    source: Vec<Vec<IpAddr>>,
    /// Start even if the system's limits are too low for the load
    #[arg(long)]
    no_plan: bool,
    /// Send `{{…}}` literally
    #[arg(long)]
    no_templates: bool,
    /// Seed of random values and arrivals
    #[arg(long, value_name = "N", default_value_t = 0)]
    seed: u64,
    /// Length of an interval in progress lines and series
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = duration)]
    pub(super) interval: Duration,
    /// Fail with exit code 3 if this is not met, such as 'p99<50ms'; may be given several times
    #[arg(long, value_name = "THRESHOLD")]
    pub(super) expect: Vec<String>,
    /// Accept results even if the generator was the bottleneck
    #[arg(long)]
    pub(super) allow_lag: bool,
    /// Print the report in the style of wrk, ab, siege or k6
    #[arg(long, value_name = "STYLE", default_value = "own")]
    pub(super) style: load::results::http::Style,
    /// Accepted for compatibility with wrk: latencies are always shown
    #[arg(long)]
    latency: bool,
    /// Load the built-in origin, to measure the generator on this machine
    #[arg(long, conflicts_with = "script")]
    pub(super) self_test: bool,
    /// Do not read the sockets towards the targets (states, which side closed first, retransmissions)
    #[arg(long)]
    no_sockets: bool,
    /// Print progress as lines instead of the live view
    #[arg(long, conflicts_with = "quiet")]
    pub(super) plain: bool,
    /// Nothing but the report
    #[arg(short, long)]
    pub(super) quiet: bool,
    #[command(flatten)]
    pub(super) files: FileArgs,
    #[command(flatten)]
    pub(super) baseline: baseline::BaselineFlags,
    #[command(flatten)]
    bodies: bodies::BodyFlags,
    #[command(flatten)]
    places: places::PlaceFlags,
    #[command(flatten)]
    scenario: scenario::Flags,
    #[command(flatten)]
    course: course::Flags,
    #[command(flatten)]
    pub(super) farm: FarmFlags,
    #[command(flatten)]
    tls: tls::TlsFlags,
    #[command(flatten)]
    tcp: tcp::TcpFlags,
    #[command(flatten)]
    websocket: websocket::Flags,
}

impl LoadArgs {
    /// Whether the sockets towards the targets are looked at. Those of a Unix socket have no states of TCP, and those of a farm are
    /// on other machines.
    pub(super) fn looks_at_sockets(&self) -> bool {
        !self.no_sockets && !self.places.is_unix() && self.farm.farm.is_none()
    }

    /// Refuses a farm that cannot be used, and a load with held connections, which agents cannot share.
    pub(super) fn check_farm(&self, is_held: bool) -> Result<(), String> {
        if self.farm.farm.is_some() && is_held {
            return Err("--farm: WebSockets and held connections cannot be shared between machines".to_owned());
        }
        self.farm.access().map(drop)
    }

    /// The options of the load.
    pub(super) fn options(&self) -> Result<Options, String> {
        if self.is_tcp() {
            self.check_flags_of_tcp()?;
        }
        let (mut targets, mut scenario, mut pace, mut requests) = (Vec::new(), None, self.pace(), self.requests);
        if let Some(source) = self.scenario.read(&self.urls, &self.fields()?)? {
            (targets, scenario) = (source.targets, Some(source.scenario));
            pace = source.pace.unwrap_or(pace);
            requests = requests.or(source.requests);
        } else {
            for url in &self.urls {
                targets.push(self.target(url)?);
            }
        }
        if self.self_test {
            // A placeholder for the origin's address, which is not known before the origin listens.
            targets.push(self.target("http://127.0.0.1/")?);
        }
        let first = targets.first().cloned().ok_or("a load needs a URL")?;
        let course = self.course.read(self.connections)?;
        let connections = course.connections.or(self.connections).unwrap_or(CONNECTIONS_DEFAULT);
        let connections = usize::try_from(connections).map_err(|e| e.to_string())?;
        let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        let options = Options {
            pace,
            connections,
            threads: self.threads.unwrap_or_else(|| THREADS_DEFAULT.min(cores).min(connections.max(1))),
            processes: self.processes.count(),
            requests,
            duration: course.duration.or_else(|| self.measured(requests).map(|time| time + self.course.warm_up)),
            ramp: course.ramp,
            warm_up: self.course.warm_up,
            keepalive: !self.no_keepalive && !self.tls.handshakes_only(),
            pipeline: self.pipeline,
            version: self.version(),
            exchange: self.tcp.exchange(),
            streams: self.streams.unwrap_or(1),
            grpc: self.grpc,
            compress: self.bodies.compress(),
            upload: self.bodies.upload()?,
            connect_timeout: self.connect_timeout,
            response_timeout: self.timeout,
            drain: self.drain,
            sources: self.source.concat(),
            interval: self.interval,
            templates: !self.no_templates,
            seed: self.seed,
            places: self.places.places(),
            plan: !self.no_plan,
            script: self.script()?,
            tls: self.tls.options(targets.iter().any(|target| target.url.tls))?,
            ..Options::new(first)
        };
        let options = Options { targets, scenario, ..options };
        options.check().map_err(|error| error.to_string())?;
        Ok(options)
    }

    fn version(&self) -> Version {
        match (self.is_tcp(), self.http2 || self.grpc) {
            (true, _) => Version::Tcp,
            // gRPC needs HTTP/2.
            (false, true) => Version::Http2,
            (false, false) => Version::default(),
        }
    }

    /// How long a closed loop is measured.
    fn measured(&self, requests: Option<u64>) -> Option<Duration> {
        self.duration.or_else(|| requests.is_none().then_some(DURATION_DEFAULT))
    }

    fn pace(&self) -> Pace {
        let spacing = if self.poisson { Spacing::Poisson } else { self.course.spacing() };
        if !self.stage.is_empty() {
            return Pace::Open { stages: self.stage.clone(), spacing };
        }
        if let Some(Course::Rates(stages)) = &self.course.stages {
            return Pace::Open { stages: stages.clone(), spacing };
        }
        match self.rate {
            None => Pace::Closed { think: self.think.unwrap_or_default() },
            Some((from, to)) => {
                let without = if self.requests.is_some() { ENDLESS } else { DURATION_DEFAULT };
                let duration = self.duration.unwrap_or(without) + self.course.warm_up;
                Pace::Open { stages: vec![Stage { duration, from, to }], spacing }
            }
        }
    }

    fn script(&self) -> Result<Option<Script>, String> {
        let Some(path) = &self.script else { return Ok(None) };
        let name = path.display().to_string();
        let source = read_at_most(path, SCRIPT_BYTES_MAX)?;
        let source = String::from_utf8(source).map_err(|error| format!("{name} is no text: {error}"))?;
        // wrk's `init` gets the words after `--`.
        Ok(Some(Script { name, source, args: self.script_arg.clone() }))
    }

    /// The thresholds of an HTTP load.
    pub(super) fn expectations(&self) -> Result<Vec<Expectation>, String> {
        let parse = |text: &String| text.parse().map_err(|error| format!("--expect: {error}"));
        let parsed: Vec<Expectation> = self.expect.iter().map(parse).collect::<Result<_, String>>()?;
        if let Some(step) = parsed.iter().filter_map(Expectation::step).find(|_| !self.scenario.is_given()) {
            return Err(format!("--expect: `{step}` would be a step of a --scenario, and none is given"));
        }
        Ok(parsed)
    }

    fn fields(&self) -> Result<Vec<(String, String)>, String> {
        let split = |field: &String| {
            let (name, value) =
                field.split_once(':').ok_or_else(|| format!("`{field}` is not a header, write NAME: VALUE"))?;
            Ok((name.trim().to_owned(), value.trim().to_owned()))
        };
        self.header.iter().map(split).collect()
    }

    fn target(&self, text: &str) -> Result<Target, String> {
        let (weight, url) = match text.split_once('*') {
            Some((weight, url)) if weight.bytes().all(|byte| byte.is_ascii_digit()) && !weight.is_empty() => {
                (weight.parse().map_err(|_| format!("`{weight}` is no weight"))?, url)
            }
            _ => (1, text),
        };
        let mut fields = self.fields()?;
        let body = match (&self.body, &self.body_file) {
            _ if !self.form.is_empty() => {
                let (body, content_type) = form_body(&self.form, read_body)?;
                fields.retain(|(name, _)| !name.eq_ignore_ascii_case("content-type"));
                fields.push(("Content-Type".to_owned(), content_type));
                body
            }
            (Some(body), _) => body.clone().into_bytes(),
            (None, Some(path)) => read_body(path)?,
            (None, None) => match self.grpc_size.unwrap_or_default() {
                bytes if bytes as u64 > BODY_BYTES_MAX => return Err("--grpc-size: at most 1 GB".to_owned()),
                bytes => vec![0; bytes],
            },
        };
        if Url::is_tcp(url) {
            let url = Url::parse_tcp(url).map_err(|error| format!("{url}: {error}"))?;
            return Ok(Target { url, weight, method: self.tcp.exchange().name().to_owned(), fields: Vec::new(), body });
        }
        let default_method = if body.is_empty() && !self.grpc { "GET" } else { "POST" };
        Ok(Target {
            url: url.parse().map_err(|error: UrlError| format!("{url}: {error}"))?,
            weight,
            method: self.method.clone().unwrap_or_else(|| default_method.to_owned()),
            fields,
            body,
        })
    }
}

/// Reads a file to be sent as a body.
pub(super) fn read_body(path: &std::path::Path) -> Result<Vec<u8>, String> {
    read_at_most(path, BODY_BYTES_MAX)
}
