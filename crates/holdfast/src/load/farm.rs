//! `holdfast load --farm`, `holdfast load agent` and `holdfast load farm-status`: a load on other machines. The crate `farm` has the
//! agents and the coordinator.

use super::args::{FarmFlags, NatsFlags};
use super::{exit, part, refuse};
use crate::report::{print, say};
use ::farm::{Access, AgentOptions, AllowList, Beat, Farm, FarmError, Hire, Name, run_agent};
use load::drive::Parts;
use load::{Options, PROCESSES_MAX};
use std::fmt::Write as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use terminal::signals::{Ask, Signals};

/// How long to wait for `--agents`.
const AGENTS_PATIENCE: Duration = Duration::from_secs(30);
/// How often the signals of an agent are read.
const SIGNAL_PERIOD: Duration = Duration::from_millis(50);
/// Threads of an agent where `-t` does not say it, as without a farm.
const THREADS_EACH: usize = 2;

/// Run this machine's part of the loads of a farm (holdfast load --farm)
///
/// Waits for orders on a NATS server. An order is the settings of a load, never a command. An agent loads only the targets that
/// --allow names.
#[derive(Debug, clap::Args)]
pub(crate) struct AgentArgs {
    #[command(flatten)]
    nats: NatsFlags,
    /// The name of this agent; by default that of the machine
    #[arg(long, value_name = "NAME")]
    name: Option<Name>,
    /// Targets that it may load: HOST, HOST:PORT, ADDRESS/BITS, with commas between them; by default this machine alone
    #[arg(long, value_name = "TARGETS")]
    allow: Vec<AllowList>,
    /// End after one run
    #[arg(long)]
    once: bool,
}

/// List the agents of a farm
#[derive(Debug, clap::Args)]
pub(crate) struct StatusArgs {
    #[command(flatten)]
    nats: NatsFlags,
}

/// Runs an agent until a signal.
pub(super) fn agent(args: &AgentArgs) -> u8 {
    // Before the first thread, so that all threads leave signals to this descriptor.
    let signals = match Signals::open() {
        Ok(signals) => signals,
        Err(error) => return refuse(&error.to_string(), exit::FAILED),
    };
    let access = match access(args.nats.access()) {
        Ok(access) => access,
        Err(message) => return refuse(&message, exit::USAGE),
    };
    let allow = if args.allow.is_empty() { AllowList::default() } else { AllowList::concat(&args.allow) };
    let options = AgentOptions {
        access,
        farm: args.nats.farm_name.clone(),
        name: args.name.clone().unwrap_or_else(Name::of_this_machine),
        allow,
        command: Arc::new(part),
        once: args.once,
        say: |text| say(&format!("holdfast load: {text}")),
    };
    let stop = Arc::new(AtomicBool::new(false));
    let told = Arc::clone(&stop);
    std::thread::spawn(move || {
        loop {
            if let Ok(Some(Ask::Terminate | Ask::Interrupt | Ask::Quit)) = signals.next() {
                told.store(true, Ordering::Relaxed);
            }
            std::thread::park_timeout(SIGNAL_PERIOD);
        }
    });
    match run_agent(&options, &stop) {
        Ok(()) => exit::OK,
        Err(error) => refuse(&error.to_string(), code(&error)),
    }
}

fn code(error: &FarmError) -> u8 {
    if matches!(error, FarmError::Access(_)) { exit::USAGE } else { exit::FAILED }
}

/// Says what is dangerous about an access.
fn access(access: Result<Access, String>) -> Result<Access, String> {
    let access = access?;
    if let Some(warning) = access.warning() {
        say(&format!("holdfast load: {warning}"));
    }
    Ok(access)
}

/// Prints the agents that are there.
pub(super) fn status(args: &StatusArgs) -> u8 {
    let farm = &args.nats.farm_name;
    let access = match access(args.nats.access()) {
        Ok(access) => access,
        Err(message) => return refuse(&message, exit::USAGE),
    };
    match Farm::connect(&access, farm.clone()).map(|farm| farm.agents()) {
        Ok(agents) => {
            print(table(farm, &agents).as_bytes());
            exit::OK
        }
        Err(error) => refuse(&error.to_string(), code(&error)),
    }
}

fn table(farm: &Name, agents: &[Beat]) -> String {
    let mut text = format!("farm `{farm}`: {} agents\n", agents.len());
    if agents.is_empty() {
        return text;
    }
    let _ = writeln!(
        text,
        "{:<24} {:<8} {:>5} {:>13} {:<9} {:<24} may load",
        "name", "state", "cores", "ports", "version", "addresses"
    );
    for agent in agents {
        let addresses: Vec<String> = agent.addresses.iter().map(ToString::to_string).collect();
        let (first, last) = agent.limits.ports;
        let _ = writeln!(
            text,
            "{:<24} {:<8} {:>5} {:>13} {:<9} {:<24} {}",
            agent.name.to_string(),
            agent.state.to_string(),
            agent.cores,
            format!("{first}-{last}"),
            agent.version,
            addresses.join(" "),
            agent.allow
        );
    }
    text
}

/// The agents that a load is given to, and the options that fit their number.
pub(super) fn hire(flags: &FarmFlags, threads: Option<usize>, options: &Options) -> Result<(Options, Parts), String> {
    let text = |error: FarmError| error.to_string();
    let given = access(flags.access().and_then(|access| access.ok_or_else(|| "--farm is missing".to_owned())))?;
    let farm = Farm::connect(&given, flags.farm_name.clone()).map_err(text)?;
    let agents = farm.gather(flags.agents, AGENTS_PATIENCE).map_err(text)?;
    let count = agents.len();
    if count > PROCESSES_MAX {
        return Err(format!("{count} agents are there, and a load has at most {PROCESSES_MAX} parts: give --agents"));
    }
    if options.connections < count {
        return Err(format!(
            "{} connections are too few for {count} agents: give a larger -c, or fewer --agents",
            options.connections
        ));
    }
    let each = agents.iter().map(|agent| agent.cores).min().unwrap_or(1).min(THREADS_EACH);
    let threads = threads.unwrap_or_else(|| (count * each).min(options.connections)).max(count).min(load::THREADS_MAX);
    let options = Options { processes: Some(count), threads, ..options.clone() };
    let limits = Farm::limits(&agents).ok_or("a farm needs an agent")?;
    let names: Vec<String> = agents.iter().map(|agent| agent.name.to_string()).collect();
    say(&format!("holdfast load: {count} agents of farm `{}`: {}", flags.farm_name, names.join(", ")));
    let courier = farm.hire(agents, Hire { take_over: flags.take_over }).map_err(text)?;
    Ok((options, Parts::Farm(courier, limits)))
}
