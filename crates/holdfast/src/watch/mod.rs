//! `holdfast watch`: in which state every connection is, where bytes pile up, who closed first, and how far the ports reach.
//! It works beside any server. This file is the command line; `log` writes samples, `report` reads them, `plain` and
//! `view` show looks; what is made of the sockets is `model`, which is pure.

mod configured;
pub(crate) mod exporter;
mod log;
pub(crate) mod model;
mod names;
mod plain;
mod report;
mod sampler;
mod timestamp;
mod view;

use crate::exit;
use crate::report::say;
use crate::signals::Signals;
use crate::terminal::Terminal;
use exporter::{Bound, Exporter};
use model::log_file::Format;
use model::metrics;
use model::tally::PORTS_MAX;
use names::SystemNames;
use sampler::{Sampler, Wanted};
use sockdiag::{Filter, Namespace};
use std::net::SocketAddr;
use std::num::NonZeroU64;
use std::path::PathBuf;
use std::time::Duration;

/// See the TCP connections: states, queues, listeners, destinations, who closed first
///
/// Needs no root for what the kernel tells everybody; which process holds a socket of somebody else's, it tells root alone.
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
    Report(report::Args),
}

/// How to look.
#[derive(Debug, clap::Args)]
struct WatchArgs {
    /// Seconds between two looks
    #[arg(long, value_name = "SECONDS", default_value = "2", value_parser = parse_interval)]
    interval: Duration,
    /// End after so many looks
    #[arg(long, value_name = "N")]
    count: Option<NonZeroU64>,
    /// Write a histogram of states per look into this file, `-` for standard output, and show nothing else
    #[arg(long, value_name = "FILE")]
    log: Option<PathBuf>,
    /// Count the sockets with this port at either end, too
    #[arg(long, value_name = "PORT", value_parser = clap::value_parser!(u16).range(1..))]
    port: Vec<u16>,
    /// How the log is written
    #[arg(long, value_name = "FORMAT", default_value = "text")]
    format: Format,
    /// Show, beside each listener, the backlog that this nginx.conf asks for
    #[arg(short = 'c', long = "conf", value_name = "FILE")]
    conf: Vec<PathBuf>,
    /// Serve the last look as /metrics for Prometheus, and show nothing else unless `--plain` says so
    #[arg(long, value_name = "ADDRESS:PORT", conflicts_with = "log")]
    listen: Option<SocketAddr>,
    /// Print tables, also on a terminal
    #[arg(long, conflicts_with = "log")]
    plain: bool,
    /// Look into the network namespace of this process, or of this file under /run/netns
    #[arg(long, value_name = "PID|FILE", value_parser = parse_namespace)]
    namespace: Option<Namespace>,
    /// Only sockets that pass this: ss's words, see below
    #[arg(value_name = "FILTER", trailing_var_arg = true)]
    filter: Vec<String>,
}

/// What stands at the end of the long help.
const FILTER_WORDS: &str = "\
Filter:
  state time-wait dport = :10000               ss's words mean what they mean to ss
  '( dst 10.0.0.0/8 or sport gt :1024 )'       and, or, not, parentheses; left to right, as in ss
  dport = :https                               a service of /etc/services
  port = :80   addr 10.0.0.1                   either end
  process nginx   pid 4711   cgroup /web       who holds it

Examples:
  holdfast watch                               live, on a terminal; a table per look, elsewhere
  holdfast watch --interval 2 --count 60 --port 80 --port 10000 --log off.log
  holdfast watch report off.log on.log --reference idle.log";

/// The kernel counts in hundredths of a second, and a look at many sockets takes longer than that.
const INTERVAL_MIN: Duration = Duration::from_millis(100);
/// Beyond a day a sum of seconds is what somebody typed by mistake.
const INTERVAL_MAX: Duration = Duration::from_hours(24);

/// Runs the subcommand.
pub(crate) fn run(args: &Args) -> u8 {
    if let Some(Task::Report(args)) = &args.report {
        return report::run(args);
    }
    // Before the first thread, so that all leave the signals to this one.
    let signals = match Signals::open() {
        Ok(signals) => signals,
        Err(error) => return failed(&format!("signalfd() failed: {error}")),
    };
    let args = &args.watch;
    if args.port.len() > PORTS_MAX {
        return failed(&format!("at most {PORTS_MAX} ports can be counted by themselves"));
    }
    let filter = match parse_filter(&args.filter) {
        Ok(filter) => filter,
        Err(problem) => return failed(&problem),
    };
    // Scrapers come from here, not from the namespace that is looked into.
    let bound = match args.listen.map(Bound::to).transpose() {
        Ok(bound) => bound,
        Err(problem) => return failed(&problem),
    };
    let exporter = bound.map(|bound| {
        let address = bound.address().map_or_else(String::new, |address| address.to_string());
        say(&format!("holdfast: metrics at http://{address}/metrics"));
        bound.serve()
    });
    let look = || look(args, filter.as_ref(), exporter.as_ref(), &signals);
    let looked = match &args.namespace {
        Some(namespace) => namespace.run(look).map_err(|error| error.to_string()).and_then(|looked| looked),
        None => look(),
    };
    looked.map_or_else(|problem| failed(&problem), |()| exit::OK)
}

/// In the network namespace that was asked for.
fn look(
    args: &WatchArgs,
    filter: Option<&Filter>,
    exporter: Option<&Exporter>,
    signals: &Signals,
) -> Result<(), String> {
    if let Some(file) = &args.log {
        return log::write(args, file, filter, signals);
    }
    let mut asked = Vec::new();
    for file in &args.conf {
        asked.extend(configured::backlogs(file)?);
    }
    let wanted = Wanted { ports: args.port.clone(), asked, filter: filter.cloned() };
    if !args.plain && exporter.is_none() && Terminal::is_there() {
        return view::show(wanted, &args.filter.join(" "), args.interval, args.count, signals);
    }
    let mut sampler = Sampler::open(wanted)?;
    plain::look_on(&mut sampler, args.interval, args.count, signals, |picture| {
        if let Some(exporter) = exporter {
            exporter.show(metrics::encode(picture));
        }
        exporter.is_some() && !args.plain || plain::print_picture(picture)
    })
}

fn failed(problem: &str) -> u8 {
    say(&format!("holdfast: {problem}"));
    exit::FAILED
}

fn parse_filter(words: &[String]) -> Result<Option<Filter>, String> {
    let words = words.join(" ");
    if words.trim().is_empty() {
        return Ok(None);
    }
    Filter::parse(&words, &mut SystemNames).map(Some).map_err(|error| format!("in the filter, {error}"))
}

fn parse_interval(text: &str) -> Result<Duration, String> {
    let seconds: f64 = text.parse().map_err(|_| "a number of seconds".to_owned())?;
    let interval = Duration::try_from_secs_f64(seconds).map_err(|error| error.to_string())?;
    if !(INTERVAL_MIN..=INTERVAL_MAX).contains(&interval) {
        return Err(format!("from {} s to {} s", INTERVAL_MIN.as_secs_f64(), INTERVAL_MAX.as_secs()));
    }
    Ok(interval)
}

#[allow(clippy::unnecessary_wraps)] // clap wants a parser that may fail
fn parse_namespace(text: &str) -> Result<Namespace, String> {
    Ok(text.parse().map_or_else(|_| Namespace::Path(text.into()), Namespace::Pid))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_are_read_as_written() {
        assert_eq!(parse_interval("0.5"), Ok(Duration::from_millis(500)));
        for wrong in ["0", "-1", "1e9", "nan", "soon"] {
            assert!(parse_interval(wrong).is_err(), "{wrong}");
        }
        assert_eq!(parse_namespace("77"), Ok(Namespace::Pid(77)));
        assert_eq!(parse_namespace("/run/netns/x"), Ok(Namespace::Path("/run/netns/x".into())));
        assert_eq!(parse_filter(&[]), Ok(None));
        let wrong = parse_filter(&["state".to_owned(), "asleep".to_owned()]).unwrap_err();
        assert!(wrong.starts_with("in the filter, `asleep` is no state"), "{wrong}");
    }
}
