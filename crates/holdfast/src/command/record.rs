//! `holdfast record`: the command line of the flight recorder. The crate `incident` decides what a sample is and how it is kept.

use crate::ctl::request::Request;
use crate::ctl::{ask_at, socket_of};
use crate::exit;
use crate::instance::CONF_PATH;
use crate::output::print;
use crate::report::say;
use crate::signals::Signals;
use crate::typed::{bytes, count, duration};
use incident::record::{Ask, Recorder, StatusUrl};
use incident::store::{Bounds, read, segments};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use sockdiag::Namespace;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Record sockets, kernel counters, the gateway's figures and the reasons of errors each second
///
/// `holdfast incident` says what happened at a time that was recorded. The recorder works beside any server; with Holdfast it
/// also records peers, pools and memory. A sample has no URI, no header and no body of any request.
#[derive(Debug, clap::Args)]
#[command(after_long_help = EXAMPLES)]
pub(crate) struct Args {
    /// Folder of the recording
    #[arg(long, value_name = "FOLDER", default_value = FOLDER)]
    dir: PathBuf,
    /// Time between two samples
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = parse_interval)]
    interval: Duration,
    /// Remove samples that are older
    #[arg(long, value_name = "TIME", default_value = "3d", value_parser = duration)]
    keep: Duration,
    /// Maximum size of the folder; the oldest samples are removed first
    #[arg(long, value_name = "SIZE", default_value = "500m", value_parser = parse_size)]
    max_size: u64,
    /// CPU limit, in percent of one processor; above it the recorder reads sockets and the gateway less often
    #[arg(long, value_name = "PERCENT", default_value = "1", value_parser = parse_percent)]
    cpu: f64,
    /// Configuration of the Holdfast instance to record; default: the one in /etc/holdfast, if it exists
    #[arg(short = 'c', long = "conf", value_name = "FILE", conflicts_with_all = ["socket", "url"])]
    conf: Option<PathBuf>,
    /// Prefix of the instance
    #[arg(short = 'p', long, value_name = "FOLDER", requires = "conf")]
    prefix: Option<PathBuf>,
    /// Control socket of the instance, if the configuration cannot be read
    #[arg(long, value_name = "PATH", conflicts_with = "url")]
    socket: Option<PathBuf>,
    /// URL of a `status_page`, or of nginx's `stub_status`, instead of the control socket
    #[arg(long, value_name = "URL")]
    url: Option<String>,
    /// Follow this error log and record the reasons in it; may be given several times
    #[arg(long, value_name = "FILE")]
    error_log: Vec<PathBuf>,
    /// File with the pid of the server, for its descriptors and its memory
    #[arg(long, value_name = "FILE", conflicts_with = "pid")]
    pid_file: Option<PathBuf>,
    /// The pid of the server
    #[arg(long, value_name = "PID")]
    pid: Option<u32>,
    /// Read the network namespace of this process, or of this file under /run/netns
    #[arg(long, value_name = "PID|FILE", value_parser = parse_namespace)]
    namespace: Option<Namespace>,
    /// End after this many samples
    #[arg(long, value_name = "N", value_parser = count)]
    count: Option<u64>,
    /// Print what the folder has and what recording costs, and end
    #[arg(long)]
    status: bool,
}

/// Where recordings are by default; `holdfast incident` reads the same.
pub(super) const FOLDER: &str = "/var/lib/holdfast/recorder";

const EXAMPLES: &str = "\
Examples:
  holdfast record                                       beside the Holdfast of /etc/holdfast
  holdfast record -c nginx.conf --dir /tmp/recorder
  holdfast record --error-log /var/log/nginx/error.log --pid-file /run/nginx.pid
  holdfast record --url http://127.0.0.1/stub_status
  holdfast record --status";

/// Reading the sockets of a machine takes some milliseconds.
const INTERVAL_MIN: Duration = Duration::from_millis(20);
/// Rarer samples tell no onset.
const INTERVAL_MAX: Duration = Duration::from_mins(1);
/// Less holds not even minutes.
const SIZE_MIN: u64 = 1 << 20;
/// The samples of these last minutes tell the cost.
const COST_OF_MS: u64 = 10 * 60 * 1000;

/// Runs the subcommand.
pub(crate) fn run(args: Args) -> u8 {
    let done = if args.status { status(&args.dir).and_then(|text| print(&text)) } else { record(args) };
    done.map_or_else(
        |problem| {
            say(&format!("holdfast record: {problem}"));
            exit::FAILED
        },
        |()| exit::OK,
    )
}

fn record(args: Args) -> Result<(), String> {
    // Opened before the first thread starts, so that every thread leaves the signals to this one.
    let signals = Signals::open().map_err(|error| format!("signalfd() failed: {error}"))?;
    let ask = ask(&args)?;
    let recorder = Recorder {
        folder: args.dir,
        interval: args.interval,
        bounds: Bounds { keep: args.keep, bytes_max: args.max_size },
        cpu_share: args.cpu / 100.0,
        error_logs: args.error_log,
        ask,
        pid: args.pid,
        pid_file: args.pid_file,
        count: args.count,
    };
    let work = || recorder.run(|until| wait(&signals, until), |message| say(&format!("holdfast record: {message}")));
    match &args.namespace {
        Some(namespace) => namespace.run(work).map_err(|error| error.to_string())?,
        None => work(),
    }
}

/// How the gateway is asked; `None` without one.
fn ask(args: &Args) -> Result<Option<Ask>, String> {
    if let Some(url) = &args.url {
        let url = StatusUrl::parse(url)?;
        return Ok(Some(Box::new(move || url.fetch())));
    }
    let has_own = args.error_log.is_empty() && args.pid.is_none() && args.pid_file.is_none();
    let path = match (&args.socket, &args.conf) {
        (Some(path), _) => path.clone(),
        (None, Some(conf)) => socket_of(Some(conf), args.prefix.as_deref())?,
        (None, None) if has_own && Path::new(CONF_PATH).exists() => socket_of(None, None)?,
        (None, None) => return Ok(None),
    };
    Ok(Some(Box::new(move || ask_at(&path, &Request::Status))))
}

/// Waits until the moment (`false`) or a signal that ends the program (`true`).
fn wait(signals: &Signals, until: Instant) -> Result<bool, String> {
    loop {
        let left = until.saturating_duration_since(Instant::now());
        let timeout = PollTimeout::try_from(left.as_nanos().div_ceil(1_000_000)).unwrap_or(PollTimeout::MAX);
        match poll(&mut [PollFd::new(signals.descriptor(), PollFlags::POLLIN)], timeout) {
            Ok(0) | Err(nix::errno::Errno::EINTR) if until <= Instant::now() => return Ok(false),
            Ok(0) | Err(nix::errno::Errno::EINTR) => {}
            Ok(_) => {
                if signals.next().map_err(|error| error.to_string())?.is_some() {
                    return Ok(true);
                }
            }
            Err(error) => return Err(format!("poll() failed: {error}")),
        }
    }
}

/// What the folder has, and what the last minutes cost.
fn status(folder: &Path) -> Result<String, String> {
    let zone = super::incident::zone();
    let all = segments(folder)?;
    let (Some(first), Some(last)) = (all.first(), all.last()) else {
        return Ok(format!("\"{}\" has no samples.\n", folder.display()));
    };
    let bytes: u64 = all.iter().map(|segment| segment.bytes).sum();
    let recent = read(folder, last.begun_ms.saturating_sub(COST_OF_MS), u64::MAX)?;
    let of = |count: fn(&incident::sample::Sample) -> u64| recent.samples.iter().map(count).sum::<u64>();
    let (cpu_us, over_ms, lost) = (of(|s| s.own.cpu_us), of(|s| s.over_ms), of(|s| s.own.lost));
    let percent = cpu_us as f64 / 10.0 / over_ms.max(1) as f64;
    let newest = recent.samples.last().map_or(last.begun_ms, |sample| sample.at_ms);
    Ok(format!(
        "samples    {} to {}, in {} segments\nfolder     {}, {:.1} MB\nCPU        {percent:.2} % of one processor, over {} samples\n\
         lost       {lost} samples of these\n",
        zone.full(first.begun_ms),
        zone.full(newest),
        all.len(),
        folder.display(),
        bytes as f64 / 1e6,
        recent.samples.len(),
    ))
}

fn parse_interval(text: &str) -> Result<Duration, String> {
    let interval = duration(text)?;
    if !(INTERVAL_MIN..=INTERVAL_MAX).contains(&interval) {
        return Err("from 20ms to 60s".to_owned());
    }
    Ok(interval)
}

fn parse_size(text: &str) -> Result<u64, String> {
    Some(bytes(text)?).filter(|size| *size >= SIZE_MIN).ok_or_else(|| "1m at least".to_owned())
}

fn parse_percent(text: &str) -> Result<f64, String> {
    let percent = text.trim_end_matches('%').parse().ok().filter(|percent| (0.01..=100.0).contains(percent));
    percent.ok_or_else(|| "a percentage from 0.01 to 100".to_owned())
}

#[allow(clippy::unnecessary_wraps)] // clap wants a parser that may fail
fn parse_namespace(text: &str) -> Result<Namespace, String> {
    Ok(text.parse().map_or_else(|_| Namespace::Path(text.into()), Namespace::Pid))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_read_within_their_limits() {
        assert_eq!((parse_percent("1"), parse_percent("0.5%")), (Ok(1.0), Ok(0.5)));
        assert_eq!(parse_size("500m"), Ok(500 << 20));
        assert_eq!(parse_interval("100ms"), Ok(Duration::from_millis(100)));
        assert!(parse_percent("0").is_err() && parse_size("10k").is_err() && parse_interval("2m").is_err());
    }
}
