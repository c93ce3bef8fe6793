//! `holdfast watch`: the command line of the observer, and of the reports on its logs. The crate `watch` decides what
//! is read and shown.

use crate::exit;
use crate::files::Files;
use crate::output::Output;
use crate::report::say;
use crate::signals::Signals;
use crate::typed::{count, duration};
use ::watch::{Format, Logs, Watch};
use sockdiag::Namespace;
use std::net::SocketAddr;
use std::num::NonZeroU64;
use std::path::PathBuf;
use std::time::Duration;

/// Show all TCP connections: states, queues, listeners, destinations, which side closed first
///
/// Most of it needs no root. The process behind another user's socket is visible to root only.
#[derive(Debug, clap::Args)]
#[command(args_conflicts_with_subcommands = true, after_long_help = FILTER_WORDS)]
pub(crate) struct Args {
    #[command(subcommand)]
    report: Option<Task>,
    #[command(flatten)]
    watch: WatchArgs,
}

#[derive(Debug, clap::Subcommand)]
enum Task {
    Report(ReportArgs),
}

/// How to look.
#[derive(Debug, clap::Args)]
struct WatchArgs {
    /// Time between two readings, such as 500ms or 2s
    #[arg(long, value_name = "TIME", default_value = "2s", value_parser = parse_interval)]
    interval: Duration,
    /// End after this many readings
    #[arg(long, value_name = "N", value_parser = parse_looks)]
    count: Option<NonZeroU64>,
    /// Write one histogram of states per reading to this file (`-`: standard output) instead of showing it
    #[arg(long, value_name = "FILE")]
    log: Option<PathBuf>,
    /// Also count the sockets with this port at either end
    #[arg(long, value_name = "PORT", value_parser = clap::value_parser!(u16).range(1..))]
    port: Vec<u16>,
    /// Format of the log
    #[arg(long, value_name = "FORMAT", default_value = "text")]
    format: Format,
    /// Show the backlog that this nginx.conf asks for beside each listener
    #[arg(short = 'c', long = "conf", value_name = "FILE")]
    conf: Vec<PathBuf>,
    /// Serve the last reading as /metrics for Prometheus; print it only with `--plain` or `--json`
    #[arg(long, value_name = "ADDRESS:PORT", conflicts_with = "log")]
    listen: Option<SocketAddr>,
    /// Print tables instead of the live view
    #[arg(long, conflicts_with = "log")]
    plain: bool,
    /// Print each reading as a line of JSON
    #[arg(long, conflicts_with_all = ["log", "plain"])]
    json: bool,
    /// Read the network namespace of this process, or of this file under /run/netns
    #[arg(long, value_name = "PID|FILE", value_parser = parse_namespace)]
    namespace: Option<Namespace>,
    /// Show only matching sockets; the syntax is that of ss, see below
    #[arg(value_name = "FILTER", trailing_var_arg = true)]
    filter: Vec<String>,
}

/// Print average, minimum, maximum and trend of each state and port from logs of `watch --log`
#[derive(Debug, clap::Args)]
struct ReportArgs {
    /// Logs to compare, in any of the formats
    #[arg(required = true, value_name = "FILE")]
    logs: Vec<PathBuf>,
    /// A log of the same machine without load, to be subtracted
    #[arg(long, value_name = "FILE")]
    reference: Option<PathBuf>,
    /// Leave out the samples of the first seconds of each log
    #[arg(long, value_name = "TIME", default_value = "0s", value_parser = duration)]
    skip: Duration,
    #[command(flatten)]
    output: Output,
}

/// What is at the end of the long help.
const FILTER_WORDS: &str = "\
Filter:
  state time-wait dport = :10000               the same syntax as ss
  '( dst 10.0.0.0/8 or sport gt :1024 )'       and, or, not, parentheses; left to right, as in ss
  dport = :https                               a service of /etc/services
  port = :80   addr 10.0.0.1                   either end
  process nginx   pid 4711   cgroup /web       the process that holds it

Examples:
  holdfast watch                               live on a terminal; otherwise a table per reading
  holdfast watch --interval 2 --count 60 --port 80 --port 10000 --log off.log
  holdfast watch report off.log on.log --reference idle.log
  holdfast watch --json --count 2 | jq -s '.[1].queues.by_cause'";

/// The kernel counts in hundredths of a second, and one reading of many sockets takes longer than that.
const INTERVAL_MIN: Duration = Duration::from_millis(100);
/// An interval of more than a day is probably a typo.
const INTERVAL_MAX: Duration = Duration::from_hours(24);

/// Runs the subcommand.
pub(crate) fn run(args: &Args) -> u8 {
    let done = match &args.report {
        Some(Task::Report(args)) => report(args),
        None => watch(&args.watch),
    };
    done.map_or_else(
        |problem| {
            say(&format!("holdfast: {problem}"));
            exit::FAILED
        },
        |()| exit::OK,
    )
}

fn watch(args: &WatchArgs) -> Result<(), String> {
    // Opened before the first thread starts, so that every thread leaves the signals to this one.
    let signals = Signals::open().map_err(|error| format!("signalfd() failed: {error}"))?;
    let watch = Watch {
        interval: args.interval,
        count: args.count,
        log: args.log.clone(),
        format: args.format,
        ports: args.port.clone(),
        confs: args.conf.clone(),
        listen: args.listen,
        plain: args.plain,
        json: args.json,
        namespace: args.namespace.clone(),
        filter: args.filter.join(" "),
    };
    watch.run(&mut Files::default(), &signals)
}

fn report(args: &ReportArgs) -> Result<(), String> {
    let logs = Logs::read(&args.logs, args.reference.as_deref(), args.skip)?;
    args.output.emit_text(&logs.document(), &logs.text())
}

fn parse_interval(text: &str) -> Result<Duration, String> {
    let interval = duration(text)?;
    if !(INTERVAL_MIN..=INTERVAL_MAX).contains(&interval) {
        return Err("from 100ms to 24h".to_owned());
    }
    Ok(interval)
}

#[allow(clippy::unnecessary_wraps)] // clap wants a parser that may fail
fn parse_namespace(text: &str) -> Result<Namespace, String> {
    Ok(text.parse().map_or_else(|_| Namespace::Path(text.into()), Namespace::Pid))
}

fn parse_looks(text: &str) -> Result<NonZeroU64, String> {
    NonZeroU64::new(count(text)?).ok_or_else(|| "one at least".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_are_read_as_written() {
        assert_eq!(parse_interval("0.5"), Ok(Duration::from_millis(500)));
        assert_eq!(parse_interval("250ms"), Ok(Duration::from_millis(250)));
        assert_eq!(parse_looks("1k").map(NonZeroU64::get), Ok(1000));
        for wrong in ["0", "-1", "1e9", "nan", "soon"] {
            assert!(parse_interval(wrong).is_err(), "{wrong}");
        }
        assert_eq!(parse_namespace("77"), Ok(Namespace::Pid(77)));
        assert_eq!(parse_namespace("/run/netns/x"), Ok(Namespace::Path("/run/netns/x".into())));
    }
}
