//! `cargo xtask bench scale`: many WebSocket tunnels end to end through one installation on this machine, in as many
//! processes as the limit of descriptors needs. They are opened, held with heartbeats, handed over by an upgrade, drained,
//! opened again, and reached by broadcasts during another upgrade. Counts must be exact; times and CPU are reported.

mod figures;
mod stage;

use super::machine::Machine;
use super::{experiments, results};
use crate::workspace::{Workspace, heading};
use anyhow::{Context as _, Result, bail, ensure};
use figures::{Broadcast, Held, Memory};
use lab::stage::usage::{Cpu, cpu_of_tree};
use serde::Serialize;
use stage::Stage;
use std::fs;
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// Options of `cargo xtask bench scale`.
#[derive(clap::Args)]
pub(super) struct Args {
    /// Tunnels.
    #[arg(long, default_value_t = 100_000, value_parser = clap::value_parser!(u64).range(100..=200_000))]
    tunnels: u64,
    /// Tunnels that are opened each second.
    #[arg(long, default_value_t = 6_000, value_parser = clap::value_parser!(u64).range(10..=100_000))]
    ramp: u64,
    /// How long they are held with heartbeats.
    #[arg(long, default_value_t = 300, value_parser = clap::value_parser!(u64).range(20..=86_400))]
    hold_seconds: u64,
    /// How long broadcasts go on.
    #[arg(long, default_value_t = 90, value_parser = clap::value_parser!(u64).range(20..=86_400))]
    broadcast_seconds: u64,
    /// A client sends a ping this often.
    #[arg(long, default_value_t = 30, value_parser = clap::value_parser!(u64).range(1..=3600))]
    heartbeat_seconds: u64,
    /// Messages that are delivered each second, to all members together.
    #[arg(long, default_value_t = 10_000, value_parser = clap::value_parser!(u64).range(10..=1_000_000))]
    deliveries: u64,
    /// The program under test; a `dist` build of the working tree if not given.
    #[arg(long)]
    holdfast: Option<PathBuf>,
    /// Put the record into bench/results; otherwise target/bench.
    #[arg(long)]
    keep: bool,
}

/// All results.
#[derive(Serialize)]
struct Results {
    experiment: &'static str,
    /// UTC.
    date: String,
    machine: Machine,
    tunnels: u64,
    ramp: u64,
    heartbeat_seconds: u64,
    /// Processes that serve.
    processes: usize,
    held: Held,
    broadcast: Broadcast,
}

/// After a start files are still opened, and after the last handshake its buffers are still freed.
const SETTLE: Duration = Duration::from_secs(5);
/// A tunnel is drained within a moment of its turn; what is open then will not end.
const DRAIN_TIME_MAX: Duration = Duration::from_mins(2);

/// Runs the experiment.
pub(super) fn run(workspace: &Workspace, args: &Args) -> Result<()> {
    let holdfast = match &args.holdfast {
        Some(program) => std::path::absolute(program)?,
        None => experiments::build(workspace, "dist")?,
    };
    ensure!(holdfast.is_file(), "{} does not exist", holdfast.display());
    let home = workspace.target("bench").join("scale");
    // What an earlier run left behind would be read as this one's.
    let _ = fs::remove_dir_all(&home);
    fs::create_dir_all(&home)?;
    let machine = Machine::describe(workspace, std::slice::from_ref(&holdfast));
    println!("{}", machine.sentence());
    let date = results::now_utc();
    heading(&format!("{} tunnels, held for {} s", args.tunnels, args.hold_seconds));
    let stage = Stage::start(&holdfast, &home.join("held"), args.tunnels)?;
    let processes = stage.processes();
    let held = held(args, stage).context("the tunnels with heartbeats")?;
    print!("{}", held.markdown(args.tunnels));
    heading(&format!("{} tunnels, broadcasts for {} s", args.tunnels, args.broadcast_seconds));
    let stage = Stage::start(&holdfast, &home.join("broadcast"), args.tunnels)?;
    let broadcast = broadcasts(args, stage).context("the tunnels with broadcasts")?;
    print!("{}", broadcast.markdown(args.tunnels));
    let Args { tunnels, ramp, heartbeat_seconds, .. } = *args;
    let results =
        Results { experiment: "scale", date, machine, tunnels, ramp, heartbeat_seconds, processes, held, broadcast };
    let file = results::store(workspace, args.keep, (results.experiment, &results.date), &results)?;
    println!("\nrecord: {}", file.display());
    let wrong: Vec<String> = results.held.wrong(tunnels).into_iter().chain(results.broadcast.wrong(tunnels)).collect();
    if !wrong.is_empty() {
        bail!("{}", wrong.join("; "));
    }
    Ok(())
}

/// Heartbeats, an upgrade, and a drain at the end.
fn held(args: &Args, mut stage: Stage) -> Result<Held> {
    let tunnels = args.tunnels;
    // What a process allocates once belongs to no tunnel.
    stage.warm_up(tunnels / 50)?;
    wait_until(Instant::now() + SETTLE);
    let before = stage.usage()?;
    let begun = cpu_of_tree(stage.master());
    let heartbeat = format!("{}s", args.heartbeat_seconds);
    // The drain ends the tunnels, and the load with them.
    let hold = Duration::from_secs(args.hold_seconds) + SETTLE + DRAIN_TIME_MAX;
    stage.load(tunnels, args.ramp, hold, &["--heartbeat", &heartbeat])?;
    stage.until_open(tunnels, opening_time(args))?;
    let opened = Instant::now();
    wait_until(opened + SETTLE);
    let opening_cpu_us = each(cpu_of_tree(stage.master()), begun, tunnels as f64);
    let counted = stage.usage()?.since(&before);
    let heartbeat_cpu_us = {
        let (from, began) = (cpu_of_tree(stage.master()), Instant::now());
        wait_until(began + Duration::from_secs(args.hold_seconds) / 3);
        let heartbeats = tunnels as f64 * began.elapsed().as_secs_f64() / args.heartbeat_seconds as f64;
        each(cpu_of_tree(stage.master()), from, heartbeats)
    };
    let upgrade = stage.upgrade(tunnels)?;
    wait_until(opened + SETTLE + Duration::from_secs(args.hold_seconds));
    let drain_seconds = stage.quit(DRAIN_TIME_MAX)?;
    let errors = stage.errors()?;
    let loaded = stage.end_load()?;
    Ok(Held {
        loaded,
        opening_cpu_us,
        memory: Memory::of(tunnels, &counted)?,
        heartbeat_cpu_us,
        upgrade,
        drain_seconds,
        errors,
    })
}

/// Messages to all, with an upgrade among them.
fn broadcasts(args: &Args, mut stage: Stage) -> Result<Broadcast> {
    let tunnels = args.tunnels;
    let rate = args.deliveries as f64 * stage.rooms() as f64 / tunnels as f64;
    let hold = Duration::from_secs(args.broadcast_seconds);
    stage.load(tunnels, args.ramp, hold, &["--rate", &format!("{rate:.3}/s")])?;
    stage.until_open(tunnels, opening_time(args))?;
    let opened = Instant::now();
    wait_until(opened + SETTLE);
    let (from, began) = (cpu_of_tree(stage.master()), Instant::now());
    wait_until(opened + hold / 2);
    let deliveries = began.elapsed().as_secs_f64() * args.deliveries as f64;
    let delivery_cpu_us = each(cpu_of_tree(stage.master()), from, deliveries);
    let upgrade = stage.upgrade(tunnels)?;
    let loaded = stage.wait_load(hold + DRAIN_TIME_MAX)?;
    let errors = stage.errors()?;
    stage.quit(DRAIN_TIME_MAX)?;
    Ok(Broadcast { loaded, rate, delivery_cpu_us, upgrade, errors })
}

/// CPU in microseconds of each of some events.
fn each(now: Cpu, before: Cpu, events: f64) -> f64 {
    let (user, system) = now.since(before);
    (user + system) / events
}

fn wait_until(moment: Instant) {
    while let Some(left) = moment.checked_duration_since(Instant::now()).filter(|left| !left.is_zero()) {
        std::thread::park_timeout(left);
    }
}

/// Several times as long as the ramp, since both ends share the machine.
fn opening_time(args: &Args) -> Duration {
    Duration::from_secs(30) + Duration::from_secs(args.tunnels) * 5 / u32::try_from(args.ramp).unwrap_or(1)
}
