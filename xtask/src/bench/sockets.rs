//! `cargo xtask bench sockets`: the cost of a census of TCP sockets. Compares ours over netlink (with and without
//! owners, kept or not), ours from /proc, `ss` with and without `-p`, and `netstat`, interleaved, on sockets held by
//! several processes.
//!
//! Each arm is a process, measured by its CPU time, because wall time depends on other work. Ours report their internal
//! time, so that the start of a large program does not count; `ss` and `netstat` are measured whole. As root everything
//! runs in a separate network namespace, which contains only the sockets made here.

use super::again::{Profile, run_optimised};
use super::results::{median, now_utc, spread, store};
use crate::workspace::{Workspace, output_of, run as run_command};
use anyhow::{Context as _, Result, bail};
use lab::stage::namespace::in_namespace;
use lab::stage::process::{Started, pause};
use rustix::time::{ClockId, clock_gettime};
use serde::{Deserialize, Serialize};
use sockdiag::{Census, Compact, Owners, Question};
use std::fs;
use std::io::Write as _;
use std::net::{TcpListener, TcpStream};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// Options of `cargo xtask bench sockets`.
#[derive(clap::Args)]
pub(super) struct Args {
    /// Sockets to make; each connection within the machine is two.
    #[arg(long, default_value_t = 100_000)]
    sockets: u32,
    /// Interleaved rounds.
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u64).range(1..))]
    rounds: u64,
    /// Put the raw results into bench/results; otherwise target/bench.
    #[arg(long)]
    keep: bool,
    /// Already in a namespace of its own.
    #[arg(long, hide = true)]
    inside: bool,
}

/// Options of a process that holds sockets.
#[derive(clap::Args)]
pub(super) struct HoldArgs {
    connections: u32,
}

/// Options of one measured census.
#[derive(clap::Args)]
pub(super) struct ReadArgs {
    arm: String,
}

/// Connections of one process: two descriptors each, below the limit of 20,000 on many systems.
const CONNECTIONS_PER_PROCESS: u32 = 9_000;
/// Making a hundred thousand sockets takes seconds; a process that is not ready by then has failed.
const READY_SECONDS_MAX: u64 = 120;
/// The goals.
const GOAL_US_PER_SOCKET: f64 = 1.5;
const GOAL_OWNERS_FACTOR: f64 = 2.0;
const GOAL_BYTES_AT_A_MILLION: f64 = 64.0 * 1024.0 * 1024.0;

/// `census` requests `tcp_info` and memory and keeps nothing; `census-bare` requests neither; `census-owners` also
/// finds the process of each socket; `census-kept` keeps every socket in the smallest form.
const ARMS: [&str; 8] = ["census", "census-bare", "census-owners", "census-kept", "proc", "ss", "ss-p", "netstat"];

/// The measurements that our process prints.
#[derive(Serialize, Deserialize, Clone, Copy)]
struct Inside {
    sockets: u64,
    cpu_us: f64,
    wall_us: f64,
    peak_kib: u64,
}

#[derive(Serialize)]
struct Sample {
    arm: &'static str,
    /// Counted from 0.
    round: u64,
    sockets: u64,
    cpu_us_per_socket: f64,
    wall_us_per_socket: f64,
    peak_kib: Option<u64>,
}

#[derive(Serialize)]
struct Results {
    experiment: &'static str,
    /// UTC.
    date: String,
    machine: String,
    sockets: u32,
    processes: usize,
    rounds: u64,
    samples: Vec<Sample>,
}

/// Runs the experiment.
pub(super) fn run(workspace: &Workspace, args: &Args) -> Result<()> {
    if cfg!(debug_assertions) {
        // Only one crate is measured.
        return run_optimised(workspace, Profile::Release);
    }
    if !args.inside && rustix::process::geteuid().is_root() {
        return run_command(in_namespace()?.args(std::env::args_os().skip(1)).arg("--inside"));
    }
    let home = workspace.target("bench");
    fs::create_dir_all(&home)?;
    let holders = hold_all(args.sockets, &home)?;
    let mut results = Results {
        experiment: "sockets",
        date: now_utc(),
        machine: machine(),
        sockets: args.sockets,
        processes: holders.len(),
        rounds: args.rounds,
        samples: Vec::new(),
    };
    println!("{}\n{} sockets of {} processes, {} rounds\n", results.machine, args.sockets, holders.len(), args.rounds);
    for round in 0..args.rounds {
        let mut order = ARMS;
        order.rotate_left((round as usize * 3) % ARMS.len());
        for arm in order {
            results.samples.push(measure(arm, round, &home, args.sockets)?);
        }
    }
    drop(holders);
    print!("{}", results.markdown());
    let file = store(workspace, args.keep, (results.experiment, &results.date), &results)?;
    println!("\nraw results: {}", file.display());
    Ok(())
}

/// Starts processes that hold this many sockets together, and waits until each is ready.
fn hold_all(sockets: u32, home: &std::path::Path) -> Result<Vec<Started>> {
    let mut left = sockets / 2;
    let mut holders = Vec::new();
    while left > 0 {
        let connections = left.min(CONNECTIONS_PER_PROCESS);
        left -= connections;
        let output = home.join(format!("sockets-hold-{}.out", holders.len()));
        let mut command = Command::new(std::env::current_exe()?);
        command.args(["bench", "sockets-hold", &connections.to_string()]);
        holders.push((Started::new("holder", &mut command, output.clone())?, output));
    }
    let deadline = Instant::now() + Duration::from_secs(READY_SECONDS_MAX);
    for (_, output) in &holders {
        while !fs::read_to_string(output).unwrap_or_default().contains("ready") {
            if Instant::now() > deadline {
                bail!("a holder is not ready: {}", fs::read_to_string(output).unwrap_or_default());
            }
            pause();
        }
    }
    Ok(holders.into_iter().map(|(holder, _)| holder).collect())
}

/// Holds both ends of connections until the process is ended.
pub(super) fn hold(args: &HoldArgs) -> Result<()> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let address = listener.local_addr()?;
    let mut kept = Vec::new();
    for _ in 0..args.connections {
        let client = TcpStream::connect(address)?;
        kept.push((client, listener.accept()?.0));
    }
    println!("ready {}", kept.len());
    std::io::stdout().flush()?;
    loop {
        std::thread::park();
    }
}

/// Runs one arm as a process.
fn measure(arm: &'static str, round: u64, home: &std::path::Path, sockets: u32) -> Result<Sample> {
    let mut command = match arm {
        "ss" => shell("ss -tanimH"),
        "ss-p" => shell("ss -tanimpH"),
        "netstat" => shell("netstat -tan"),
        _ => {
            let mut command = Command::new(std::env::current_exe()?);
            command.args(["bench", "sockets-read", arm]);
            command
        }
    };
    let output = home.join(format!("sockets-{arm}.out"));
    let before = cpu_us_of_children()?;
    let begun = Instant::now();
    let status = command.stdin(Stdio::null()).stdout(fs::File::create(&output)?).status()?;
    let wall_us = begun.elapsed().as_secs_f64() * 1e6;
    if !status.success() {
        bail!("{arm} failed");
    }
    let cpu_us = cpu_us_of_children()? - before;
    let said = fs::read_to_string(&output)?;
    let inside: Option<Inside> = serde_json::from_str(&said).ok();
    let found = inside.map_or(u64::from(sockets), |inside| inside.sockets);
    if found < u64::from(sockets) {
        bail!("{arm} found {found} sockets of {sockets}");
    }
    if inside.is_none() && said.lines().filter(|line| line.contains("127.0.0.1:")).count() < sockets as usize {
        bail!("{arm} did not show all sockets");
    }
    Ok(Sample {
        arm,
        round,
        sockets: found,
        cpu_us_per_socket: inside.map_or(cpu_us, |inside| inside.cpu_us) / found as f64,
        wall_us_per_socket: inside.map_or(wall_us, |inside| inside.wall_us) / found as f64,
        peak_kib: inside.map(|inside| inside.peak_kib),
    })
}

fn shell(line: &str) -> Command {
    let mut words = line.split(' ');
    let mut command = Command::new(words.next().unwrap_or("true"));
    command.args(words);
    command
}

/// User and system time of all children that have ended, in microseconds. The kernel counts in ticks of 10 ms here;
/// `ss` takes tens of them for 100,000 sockets. With few sockets use the wall time instead.
fn cpu_us_of_children() -> Result<f64> {
    let text = fs::read_to_string("/proc/self/stat")?;
    let fields: Vec<&str> = text.rsplit_once(") ").context("/proc/self/stat")?.1.split(' ').collect();
    let ticks: f64 = [13, 14].iter().filter_map(|at| fields.get(*at)?.parse::<f64>().ok()).sum();
    Ok(ticks * 10_000.0)
}

/// The measured process: one census, and its [`Inside`].
pub(super) fn read(args: &ReadArgs) -> Result<()> {
    let cpu = || {
        let time = clock_gettime(ClockId::ProcessCPUTime);
        time.tv_sec as f64 * 1e6 + time.tv_nsec as f64 / 1e3
    };
    let (begun, cpu_before) = (Instant::now(), cpu());
    let mut census = match args.arm.as_str() {
        "proc" => Census::open_proc("it is measured".to_owned())?,
        _ => Census::open()?,
    };
    let owners = (args.arm == "census-owners").then(Owners::scan).transpose()?;
    let details = args.arm != "census-bare";
    let question = Question { tcp_info: details, memory: details, ..Question::default() };
    // Each socket is used, so that the compiler cannot remove the work.
    let (mut queued, mut owned, mut kept) = (0_u64, 0_u64, Vec::new());
    let keeps = args.arm == "census-kept";
    let summary = census.for_each(&question, |socket| {
        queued += u64::from(socket.recv_queue) + u64::from(socket.tcp.map_or(0, |tcp| tcp.rtt_us));
        owned += u64::from(owners.as_ref().is_some_and(|owners| owners.of(socket.inode).is_some()));
        if keeps {
            kept.push(Compact::of(socket));
        }
    })?;
    let inside = Inside {
        sockets: summary.sockets,
        cpu_us: cpu() - cpu_before,
        wall_us: begun.elapsed().as_secs_f64() * 1e6,
        peak_kib: lab::stage::usage::peak_kib(std::process::id()),
    };
    if owners.is_some() && owned < summary.sockets / 2 {
        bail!("of {} sockets {owned} have an owner", summary.sockets);
    }
    eprintln!("{queued} bytes and microseconds, {} kept", kept.len());
    println!("{}", serde_json::to_string(&inside)?);
    Ok(())
}

fn machine() -> String {
    let first = |path: &str| fs::read_to_string(path).unwrap_or_default().trim().to_owned();
    let load = first("/proc/loadavg");
    let ss = output_of(Command::new("ss").arg("-V")).unwrap_or_default();
    format!(
        "{} cores, Linux {}, {}, load average {} at the start",
        std::thread::available_parallelism().map_or(0, usize::from),
        first("/proc/sys/kernel/osrelease"),
        ss.trim(),
        load.split(' ').next().unwrap_or_default()
    )
}

impl Results {
    fn column(&self, arm: &str, value: fn(&Sample) -> f64) -> Vec<f64> {
        self.samples.iter().filter(|sample| sample.arm == arm).map(value).collect()
    }

    /// CPU of one arm divided by that of another, within each round.
    fn ratios(&self, arm: &str, over: &str) -> Vec<f64> {
        let (arm, over) = (self.column(arm, |s| s.cpu_us_per_socket), self.column(over, |s| s.cpu_us_per_socket));
        arm.iter().zip(&over).map(|(arm, over)| arm / over.max(f64::MIN_POSITIVE)).collect()
    }

    fn markdown(&self) -> String {
        let mut text = format!("### median [min–max] of {} rounds\n\n", self.rounds);
        text += "| arm | CPU µs per socket | wall µs per socket | peak memory KiB |\n|---|---|---|---|\n";
        for arm in ARMS {
            let peaks: Vec<f64> =
                self.samples.iter().filter(|s| s.arm == arm).filter_map(|s| s.peak_kib).map(|kib| kib as f64).collect();
            let peak = if peaks.is_empty() { "-".to_owned() } else { spread(&peaks, 0) };
            let cpu = spread(&self.column(arm, |s| s.cpu_us_per_socket), 2);
            let wall = spread(&self.column(arm, |s| s.wall_us_per_socket), 2);
            text += &["| ", arm, " | ", &cpu, " | ", &wall, " | ", &peak, " |\n"].concat();
        }
        let verdict = |holds| if holds { "met" } else { "MISSED" };
        let cpu = median(&self.column("census", |s| s.cpu_us_per_socket));
        let owners = self.ratios("census-owners", "census");
        let factor = median(&owners);
        let times = format!(
            "census with tcp_info: {cpu:.2} µs of CPU a socket, goal {GOAL_US_PER_SOCKET}: {}\n\
             with owners: {} times the CPU of the same without, goal {GOAL_OWNERS_FACTOR}: {}; `ss -p`: {} times `ss`\n",
            verdict(cpu <= GOAL_US_PER_SOCKET),
            spread(&owners, 2),
            verdict(factor <= GOAL_OWNERS_FACTOR),
            spread(&self.ratios("ss-p", "ss"), 2),
        );
        let peak = |arm| median(&self.column(arm, |s| s.peak_kib.unwrap_or(0) as f64)) * 1024.0;
        let base = peak("census");
        let kept = (peak("census-kept") - base).max(0.0) / f64::from(self.sockets);
        let million = base + kept * 1e6;
        let mib = |bytes: f64| bytes / f64::from(1 << 20);
        let memory = format!(
            "memory: {:.1} MiB for a census that keeps nothing, however many sockets there are, and {kept:.0} bytes for each that is kept:\n\
             {:.1} MiB + 1,000,000 x {kept:.0} bytes = {:.1} MiB at a million, goal {:.0}: {}\n",
            mib(base),
            mib(base),
            mib(million),
            mib(GOAL_BYTES_AT_A_MILLION),
            verdict(million <= GOAL_BYTES_AT_A_MILLION),
        );
        text + "\n" + &times + &memory
    }
}
