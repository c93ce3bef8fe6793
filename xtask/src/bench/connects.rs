//! `cargo xtask bench connects`: the CPU of one connect, by how many connections are open between one address and one
//! port. First as programs connect by default, then as Holdfast's data plane does (ADR 92). As root everything runs in a
//! separate network namespace, where no other connection uses the ports.

use super::again::{Profile, run_optimised};
use super::results::{now_utc, store};
use crate::workspace::{Workspace, run as run_command};
use anyhow::{Context as _, Result};
use lab::stage::machine::{kernel, processor};
use lab::stage::namespace::in_namespace;
use lab::stage::process::Started;
use reactor::{ConnectOptions, PeerAddress, Reactor};
use rustix::time::{ClockId, clock_gettime};
use serde::Serialize;
use socket2::{Domain, Socket, Type};
use std::fmt::Write as _;
use std::fs;
use std::io::Write as _;
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::path::Path;
use std::process::Command;
use std::time::Duration;

/// Options of `cargo xtask bench connects`.
#[derive(clap::Args)]
pub(super) struct Args {
    /// Connections to open in each way. A process has a descriptor for each.
    #[arg(long, default_value_t = 18_000, value_parser = clap::value_parser!(u32).range(2000..=60_000))]
    connections: u32,
    /// Put the record into bench/results; otherwise target/bench.
    #[arg(long)]
    keep: bool,
    /// Already in a namespace of its own.
    #[arg(long, hide = true)]
    inside: bool,
}

/// Connects that one value is the mean of.
const STEP: u32 = 1000;
/// Descriptors besides the connections.
const DESCRIPTORS_BESIDE: u64 = 100;
/// The other end accepts what is left in its queue.
const BETWEEN_STEPS: Duration = Duration::from_millis(50);

/// A way to connect.
#[derive(Clone, Copy, Serialize)]
#[serde(rename_all = "lowercase")]
enum Way {
    Default,
    Holdfast,
}

#[derive(Serialize)]
struct Sample {
    way: Way,
    /// Connections open after it.
    open: u32,
    /// CPU of one connect, in microseconds.
    cpu_us: f64,
}

#[derive(Serialize)]
struct Results {
    experiment: &'static str,
    /// UTC.
    date: String,
    machine: String,
    /// `net.ipv4.ip_local_port_range`.
    port_range: String,
    samples: Vec<Sample>,
}

/// Runs the experiment.
pub(super) fn run(workspace: &Workspace, args: &Args) -> Result<()> {
    if cfg!(debug_assertions) {
        // Only the kernel and one crate are measured.
        return run_optimised(workspace, Profile::Release);
    }
    if !args.inside && rustix::process::geteuid().is_root() {
        return run_command(in_namespace()?.args(std::env::args_os().skip(1)).arg("--inside"));
    }
    reactor::raise_descriptor_limit(u64::from(args.connections) + DESCRIPTORS_BESIDE)?;
    let home = workspace.target("bench");
    fs::create_dir_all(&home)?;
    let range = fs::read_to_string("/proc/sys/net/ipv4/ip_local_port_range")?;
    let mut results = Results {
        experiment: "connects",
        date: now_utc(),
        machine: format!("{}, Linux {}", processor(), kernel()),
        port_range: range.split_ascii_whitespace().collect::<Vec<_>>().join(" "),
        samples: Vec::new(),
    };
    for way in [Way::Default, Way::Holdfast] {
        let (holder, to) = hold(&home)?;
        results.samples.extend(measure(way, to, args.connections)?);
        drop(holder);
    }
    print!("{}", results.markdown());
    let file = store(workspace, args.keep, (results.experiment, &results.date), &results)?;
    println!("\nrecord: {}", file.display());
    Ok(())
}

/// Starts the other end, with a port of its own.
fn hold(home: &Path) -> Result<(Started, SocketAddr)> {
    let output = home.join("connects.out");
    let mut command = Command::new(std::env::current_exe()?);
    command.args(["bench", "connects-hold"]);
    let mut holder = Started::new("the other end", &mut command, output.clone())?;
    let address = || fs::read_to_string(&output).ok()?.strip_suffix('\n')?.parse().ok();
    holder.wait_ready(|| address().is_some())?;
    Ok((holder, address().context("it has said its address")?))
}

/// The other end: accepts connections and holds them until it is ended.
pub(super) fn held_end() -> Result<()> {
    let (_, most) = reactor::descriptor_limit()?;
    reactor::raise_descriptor_limit(most)?;
    let listener = Socket::new(Domain::IPV4, Type::STREAM, None)?;
    listener.bind(&SocketAddr::from((Ipv4Addr::LOCALHOST, 0)).into())?;
    listener.listen(4096)?;
    let address = listener.local_addr()?.as_socket().context("an address of IP")?;
    let mut out = std::io::stdout();
    writeln!(out, "{address}")?;
    out.flush()?;
    let mut held = Vec::new();
    loop {
        held.push(listener.accept()?);
    }
}

fn measure(way: Way, to: SocketAddr, connections: u32) -> Result<Vec<Sample>> {
    let reactor = Reactor::new()?;
    let (peer, options, task) = (PeerAddress::Ip(to), ConnectOptions::default(), reactor.create_task());
    // Held open, each in one of them.
    let (mut default, mut ours) = (Vec::new(), Vec::new());
    let mut samples = Vec::new();
    for step in 1..=connections / STEP {
        let before = cpu_us();
        for _ in 0..STEP {
            match way {
                Way::Default => default.push(TcpStream::connect(to)?),
                Way::Holdfast => ours.push(reactor.connect(&peer, &options, task)?),
            }
        }
        samples.push(Sample { way, open: step * STEP, cpu_us: (cpu_us() - before) / f64::from(STEP) });
        std::thread::park_timeout(BETWEEN_STEPS);
    }
    Ok(samples)
}

/// CPU time of this thread so far.
fn cpu_us() -> f64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    time.tv_sec as f64 * 1e6 + time.tv_nsec as f64 / 1e3
}

impl Results {
    fn markdown(&self) -> String {
        let mut text = format!(
            "{}; ports {}\n\n| open connections | default, µs | Holdfast, µs |\n|---|---|---|\n",
            self.machine, self.port_range
        );
        let (default, ours) = self.samples.split_at(self.samples.len() / 2);
        for (default, ours) in default.iter().zip(ours) {
            // Writing to a string cannot fail.
            let _ = writeln!(text, "| {} | {:.1} | {:.1} |", default.open, default.cpu_us, ours.cpu_us);
        }
        text
    }
}
