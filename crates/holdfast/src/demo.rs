//! `holdfast demo`: the shortest way to see what the product is about. Starts the built-in origin and the gateway in front of
//! it, without and with a pool, loads all of them in turn, and prints what that cost in requests/s, CPU and sockets. Not a
//! benchmark (`cargo xtask bench` is one) and not the load generator. `Args` is a subcommand of `command`.

mod client;
mod configuration;
mod cpu;
mod machine;
mod measure;
mod plan;
pub(crate) mod server;
mod signals;
mod sockets;
mod summary;
mod text;

use crate::{exit, report};
use machine::Machine;
use measure::{Measured, Measuring, Stage};
use plan::Plan;
use signals::Signals;
use std::io::IsTerminal as _;
use summary::Report;

/// Descriptors per connection of the load, in the process that has most: the gateway's two, and room for what ends.
const DESCRIPTORS_PER_CONNECTION: u64 = 4;
/// Descriptors that are no connections: listeners, event loops, /proc.
const DESCRIPTORS_BESIDE: u64 = 128;

/// Measure what a gateway costs, without and with a connection pool
///
/// Starts an origin and the gateway in front of it on free ports of 127.0.0.1, loads them directly, through the gateway
/// without upstream keepalive, and through the gateway with it, and prints requests/s, CPU per request, the bottleneck
/// and the sockets by TCP state. Needs no configuration and no privileges, and ends by itself within 30 seconds.
#[derive(Debug, clap::Args)]
#[command(after_long_help = EXIT_CODES)]
pub(crate) struct Args {
    /// Load for so many seconds altogether; counting sockets takes some more
    #[arg(long, default_value_t = 18, value_parser = clap::value_parser!(u32).range(1..=600))]
    seconds: u32,
    /// Load over so many connections at a time
    #[arg(long, default_value_t = 30, value_parser = clap::value_parser!(u32).range(1..=1000))]
    connections: u32,
    /// Print the result as JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    child: server::ChildArgs,
}

const EXIT_CODES: &str = "\
Exit codes:
  0    all requests were answered
  1    it could not be started, or requests failed; the reason stands on standard error
  2    the command line could not be understood
  129, 130, 143  ended early by SIGHUP, ctrl-C or SIGTERM";

/// Why there is no result.
enum Failure {
    Interrupted,
    Because(String),
}

/// Runs the subcommand.
pub(crate) fn run(args: &Args) -> u8 {
    if let Some(code) = server::become_server(&args.child) {
        return code;
    }
    let signals = match Signals::watch() {
        Ok(signals) => signals,
        Err(error) => {
            report::say(&format!("holdfast: signals cannot be handled: {error}"));
            return exit::FAILED;
        }
    };
    match demonstrate(args, &signals) {
        Ok(found) => present(&found, args.json),
        Err(Failure::Interrupted) => {
            report::say("holdfast: ended early; all that was started has been ended");
            signals.exit_code()
        }
        Err(Failure::Because(message)) => {
            report::say(&format!("holdfast: {message}"));
            exit::FAILED
        }
    }
}

fn present(found: &Report, json: bool) -> u8 {
    let text = if json {
        let mut text = serde_json::to_string_pretty(found).expect("strings and finite numbers are always JSON");
        text.push('\n');
        text
    } else {
        text::render(found)
    };
    report::print(text.as_bytes());
    match found.faults() {
        0 => exit::OK,
        faults => {
            report::say(&format!("holdfast: {faults} requests failed; the reasons stand in the output of --json"));
            exit::FAILED
        }
    }
}

fn demonstrate(args: &Args, signals: &Signals) -> Result<Report, Failure> {
    let machine = Machine::read();
    let plan = Plan::new(args.seconds, args.connections, machine.cores);
    let mut warnings = machine.warnings(&plan);
    warnings.extend(raise_descriptor_limit(args.connections));
    let because = |message: String| Failure::Because(message);
    let folder = tempfile::Builder::new().prefix("holdfast-demo-").tempdir();
    let folder = folder.map_err(|error| because(format!("no temporary folder could be made: {error}")))?;
    let stage = Stage::build(&plan, folder.path()).map_err(because)?;
    let measured = measure_all(plan, &stage, signals);
    stage.strike();
    let found = Report::of(machine, &plan, warnings, &measured?);
    found.ok_or_else(|| because("in one of the rows no request was completed".to_owned()))
}

fn measure_all(plan: Plan, stage: &Stage, signals: &Signals) -> Result<Measured, Failure> {
    let mut measuring = Measuring::new(plan, stage, signals);
    let mut samples = Vec::new();
    let progress = Progress::new();
    for round in 0..plan.rounds {
        progress.show(&format!("round {} of {}", round + 1, plan.rounds));
        for row in Plan::order(round) {
            let sample = measuring.segment(round, row);
            let sample = sample.map_err(|error| measuring_failed(&error))?;
            samples.push(sample.ok_or(Failure::Interrupted)?);
        }
    }
    let at_end = stage.all_sockets().map_err(|error| measuring_failed(&error))?;
    Ok(Measured { samples, at_end })
}

fn measuring_failed(error: &std::io::Error) -> Failure {
    Failure::Because(format!("measuring failed: {error}"))
}

/// The children inherit the limit.
fn raise_descriptor_limit(connections: u32) -> Option<String> {
    let wanted = u64::from(connections) * DESCRIPTORS_PER_CONNECTION + DESCRIPTORS_BESIDE;
    let granted = reactor::raise_descriptor_limit(wanted).unwrap_or_default();
    (granted < wanted).then(|| {
        format!("{granted} descriptors are allowed (ulimit -n) and {wanted} may be wanted: connections may fail.")
    })
}

/// A line on a terminal that is gone in the end.
struct Progress {
    is_terminal: bool,
}

impl Progress {
    fn new() -> Self {
        Self { is_terminal: std::io::stderr().is_terminal() }
    }

    fn show(&self, what: &str) {
        if self.is_terminal {
            report::overwrite(what);
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.show("");
    }
}
